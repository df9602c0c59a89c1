//! `cgroup`: CPU, memory, I/O and pressure of the cgroups that hold GPU processes, the same for v1, v2 and hybrid.

pub(crate) mod io_limits;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::attribute::{Owner, Unmatched};
use crate::parse::cgroup::{self, NodeMemory};
use crate::parse::cpus;
use crate::parse::pressure::Pressure;
use crate::source::blocks::{self, Stacked};
use crate::source::nodes::{Nodes, Ranges};
use crate::source::{cgroupfs, process};
use goodput_catalog::host::*;

/// Most owners that are read. One costs about 18 small files and 40 series.
pub(crate) const MAX_OWNERS: usize = 64;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Cgroup>(
    "cgroup",
    "CPU, memory, I/O and pressure of the cgroups that hold GPU processes, and of those of --collector.cgroup.include; about 18 files per owner and 3 per cgroup above, at most 64 owners.",
    2,
);

/// Reads the cgroups of every owner.
#[derive(Default)]
pub struct Cgroup;

impl Collector for Cgroup {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let owners = context.owners.all();
        let nodes = context.common.nodes(&context.roots);
        let stacked = blocks::stacked(&context.roots, &context.common);
        out.push(&CGROUP_SKIPPED, &[], owners.len().saturating_sub(MAX_OWNERS) as f64);
        let Unmatched { skipped, error } = context.owners.unmatched();
        out.push(&CGROUP_INCLUDE_SKIPPED, &[], *skipped as f64);
        let mut limits = io_limits::Seen::default();
        let result = error.as_ref().map_or(Ok(Done::Ok), |error| Err(CollectError::Other(error.clone())));
        for owner in owners.iter().take(MAX_OWNERS) {
            let mut group = Group::default();
            read(context, owner, &stacked, &mut group);
            group.push(&owner.id, out);
            group.push_allowed_cpus(&owner.id, nodes, out);
            limits.push(&context.roots, owner, out);
        }
        result
    }
}

/// Fills what there is. A group that is gone by now leaves nothing, without an error.
pub(crate) fn read(context: &Context, owner: &Owner, stacked: &Stacked, group: &mut Group) {
    let roots = &context.roots;
    for place in owner.places.iter().filter(|place| place.controllers.is_empty()) {
        let folder = cgroupfs::group(&cgroupfs::v2_root(roots), &place.path);
        v2::read(&folder, |device| stacked.has(device), group);
    }
    for place in owner.places.iter().filter(|place| !place.controllers.is_empty()) {
        for controller in place.controllers.split(',') {
            if let Some(folder) = cgroupfs::v1_group(roots, &place.controllers, controller, &place.path) {
                v1::read(controller, &folder, group);
            }
        }
    }
    group.allowed_cpus = allowed_cpus(context, owner);
    group.allowed_nodes = allowed_nodes(context, owner);
}

/// The CPUs that an owner may run on: those of its cpuset, else those of its processes' affinity. `None` where neither
/// is known.
pub(crate) fn allowed_cpus(context: &Context, owner: &Owner) -> Option<Ranges> {
    match cpuset(&context.roots, owner, "cpuset.cpus.effective", "cpuset.effective_cpus") {
        Some(cpus) => Some(cpus),
        None => process::allowed_cpus(&context.roots, &context.common, owner.pids.iter().copied()),
    }
}

/// The NUMA nodes whose memory an owner may use: those of its cpuset, otherwise those that its processes may use.
fn allowed_nodes(context: &Context, owner: &Owner) -> Option<Ranges> {
    match cpuset(&context.roots, owner, "cpuset.mems.effective", "cpuset.effective_mems") {
        Some(nodes) => Some(nodes),
        None => process::allowed_nodes(&context.roots, &context.common, owner.pids.iter().copied()),
    }
}

/// A list of the owner's cpuset, by its names in v2 and v1.
fn cpuset(roots: &Roots, owner: &Owner, v2: &str, v1: &str) -> Option<Ranges> {
    for place in &owner.places {
        let path = match place.controllers.split(',').find(|name| ["", "cpuset"].contains(name)) {
            Some("") => Some(cgroupfs::group(&cgroupfs::v2_root(roots), &place.path).join(v2)),
            Some(controller) => {
                cgroupfs::v1_group(roots, &place.controllers, controller, &place.path).map(|folder| folder.join(v1))
            }
            None => None,
        };
        if let Some(list) = path.and_then(|path| files::get(&path, cpus::ranges)) {
            return Some(cpus::union(list));
        }
    }
    None
}

/// One owner's figures, whichever version they come from; what is not there is `None`.
#[derive(Default)]
pub(crate) struct Group {
    cpu_usage: Option<Duration>,
    pub(crate) cpu_limit: Option<f64>,
    pub(crate) periods: Option<u64>,
    pub(crate) throttled_periods: Option<u64>,
    throttled: Option<Duration>,
    pub(crate) allowed_cpus: Option<Ranges>,
    allowed_nodes: Option<Ranges>,
    memory_current: Option<u64>,
    pub(crate) memory_max: Option<u64>,
    /// There is a file of the memory limit, and it cannot be read.
    pub(crate) is_memory_max_unread: bool,
    inactive_file: Option<u64>,
    anon: Option<u64>,
    anon_thp: Option<u64>,
    file: Option<u64>,
    shmem: Option<u64>,
    swap: Option<u64>,
    high_events: Option<u64>,
    max_events: Option<u64>,
    oom_events: Option<u64>,
    pub(crate) oom_kills: Option<u64>,
    major_faults: Option<u64>,
    refaults_anon: Option<u64>,
    refaults_file: Option<u64>,
    numa_bytes: BTreeMap<u32, NodeMemory>,
    pressure: Vec<(&'static str, Pressure)>,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    reads: Option<u64>,
    writes: Option<u64>,
    tasks: Option<u64>,
}

impl Group {
    /// Reads the memory limit.
    fn read_memory_max(&mut self, path: &Path) {
        let read = files::parse_optional(path, cgroup::limit);
        self.is_memory_max_unread = read.is_err();
        self.memory_max = files::found(read).flatten();
    }

    /// Memory that reclaim cannot easily take back, as cAdvisor counts it.
    pub(crate) fn working_set(&self) -> Option<u64> {
        self.memory_current.zip(self.inactive_file).map(|(current, inactive)| current.saturating_sub(inactive))
    }

    fn push(&self, owner: &str, out: &mut Families) {
        for (metric, value) in [
            (&CGROUP_CPU_USAGE, self.cpu_usage.map(|t| t.as_secs_f64())),
            (&CGROUP_CPU_LIMIT, self.cpu_limit),
            (&CGROUP_CPU_THROTTLED, self.throttled.map(|t| t.as_secs_f64())),
        ] {
            out.push(metric, &[owner], value);
        }
        for (metric, value) in [
            (&CGROUP_CPU_PERIODS, self.periods),
            (&CGROUP_CPU_THROTTLED_PERIODS, self.throttled_periods),
            (&CGROUP_ALLOWED_CPUS, self.allowed_cpus.as_deref().map(cpus::count)),
            (&CGROUP_MEMORY_CURRENT, self.memory_current),
            (&CGROUP_MEMORY_MAX, self.memory_max),
            (&CGROUP_MEMORY_WORKING_SET, self.working_set()),
            (&CGROUP_MEMORY_ANON, self.anon),
            (&CGROUP_MEMORY_ANON_THP, self.anon_thp),
            (&CGROUP_MEMORY_FILE, self.file),
            (&CGROUP_MEMORY_SHMEM, self.shmem),
            (&CGROUP_SWAP, self.swap),
            (&CGROUP_MEMORY_HIGH_EVENTS, self.high_events),
            (&CGROUP_MEMORY_MAX_EVENTS, self.max_events),
            // Most owners never have any, and what follows from one has its zeros in the next row.
            (&CGROUP_MEMORY_OOM_EVENTS, self.oom_events.filter(|n| *n > 0)),
            (&CGROUP_MEMORY_OOM_KILLS, self.oom_kills),
            (&CGROUP_MAJOR_FAULTS, self.major_faults),
            (&CGROUP_READ_BYTES, self.read_bytes),
            (&CGROUP_WRITTEN_BYTES, self.written_bytes),
            (&CGROUP_READS, self.reads),
            (&CGROUP_WRITES, self.writes),
            (&CGROUP_TASKS, self.tasks),
        ] {
            out.push(metric, &[owner], value.map(|n| n as f64));
        }
        self.push_labelled(owner, out);
    }

    fn push_allowed_cpus(&self, owner: &str, nodes: &Nodes, out: &mut Families) {
        for (node, count) in self.allowed_cpus.iter().flat_map(|cpus| nodes.count_of(cpus)) {
            out.push(&CGROUP_NUMA_ALLOWED_CPUS, &[owner, &node.to_string()], count as f64);
        }
    }

    fn push_labelled(&self, owner: &str, out: &mut Families) {
        if let Some(nodes) = &self.allowed_nodes {
            out.push(&CGROUP_ALLOWED_MEMORY, &[owner, &cpus::spell(nodes)], 1.0);
        }
        out.push(&CGROUP_REFAULTS, &[owner, "anon"], self.refaults_anon.map(|n| n as f64));
        out.push(&CGROUP_REFAULTS, &[owner, "file"], self.refaults_file.map(|n| n as f64));
        for (node, memory) in &self.numa_bytes {
            let node = node.to_string();
            out.push(&CGROUP_NUMA_ANON_SHMEM, &[owner, &node], memory.anon_shmem.map(|n| n as f64));
            out.push(&CGROUP_NUMA_FILE, &[owner, &node], memory.file.map(|n| n as f64));
        }
        for (resource, pressure) in &self.pressure {
            out.push(&CGROUP_PRESSURE_WAITING, &[owner, resource], pressure.some.map(|t| t.as_secs_f64()));
            out.push(&CGROUP_PRESSURE_STALLED, &[owner, resource], pressure.full.map(|t| t.as_secs_f64()));
        }
    }
}
