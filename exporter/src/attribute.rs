//! pid -> cgroup -> container, pod, Slurm job or systemd unit -> GPU, joined with what schedulers say.

pub mod accounts;
pub mod claims;
pub mod holders;
mod life;
pub mod mps;
mod resolver;
mod slurm_gpus;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::parse::container_log::ContainerName;
use crate::parse::device_id::Part;
use crate::parse::membership::{self, Membership};
use crate::parse::owner::{Identity, Rank};
use crate::source::files::{self, FileError, Roots};
use crate::source::nvml::Snapshot;
use crate::source::process::PidNamespace;
use crate::source::{cgroupfs, process};
use claims::Claims;
use holders::{DeviceLabels, Holder, Holders};
pub use resolver::{Resolver, Schedulers, Settings};

/// Who holds a GPU: one container, job or unit, however many processes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Short stable id used as the `owner` label; joins every owner series of this node. By the pod's name where that is
    /// known, else by what its cgroup tells.
    pub id: String,
    /// Where its cgroup is, relative to the hierarchy's root.
    pub cgroup: String,
    /// Kubernetes pod UID, with dashes.
    pub pod_uid: Option<String>,
    /// Container id of the runtime, in full.
    pub container_id: Option<String>,
    /// Slurm job id.
    pub slurm_job: Option<String>,
    /// What the cgroup of a Slurm job is named by from 26.05 on.
    pub sluid: Option<String>,
    /// systemd unit.
    pub unit: Option<String>,
    /// Its processes that hold a GPU.
    pub pids: Vec<u32>,
    /// Its cgroup in every hierarchy in which it has one of its own.
    pub places: Vec<Place>,
}

/// An owner's cgroup in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// v1 controllers as the kernel lists them (`cpu,cpuacct`); empty for v2.
    pub controllers: String,
    /// The cgroup, from the hierarchy's root.
    pub path: String,
}

impl Owner {
    fn new(identity: Identity, places: Vec<Place>) -> Self {
        let id = identity.id();
        let Identity { cgroup, pod_uid, container_id, slurm_job, other_job, unit } = identity;
        let sluid = other_job.as_deref().and_then(|job| job.strip_prefix("slurm-")).map(str::to_owned);
        Self { id, cgroup, pod_uid, container_id, slurm_job, sluid, unit, pids: Vec::new(), places }
    }

    fn called(&self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self.clone() }
    }

    /// Is it the same pod's cgroup, by whichever id?
    fn is_pod_of(&self, other: &Self) -> bool {
        self.pod_uid.is_some() && (&self.pod_uid, &self.container_id) == (&other.pod_uid, &other.container_id)
    }

    /// The owner of a process, from its memberships; `None` when it has none.
    ///
    /// Hierarchies disagree: on v1 a process may sit in a cgroup of its own for one controller and in its parent's, or
    /// in the root, for the next. The place that says most names the owner; places of anyone else are not the owner's.
    fn of(memberships: &[Membership<'_>]) -> Option<Self> {
        let mut candidates: Vec<(&str, Identity)> =
            memberships.iter().map(|m| (m.controllers, Identity::of(&m.path))).collect();
        candidates.sort_by_key(|(controllers, identity)| (std::cmp::Reverse(identity.rank()), preference(controllers)));
        let (_, identity) = candidates.first()?.clone();
        let id = identity.id();
        // A hierarchy's root is the whole node and has no owner.
        let own = candidates.into_iter().filter(|(_, other)| other.id() == id && other.rank() > Rank::Root);
        let places =
            own.map(|(controllers, i)| Place { controllers: controllers.to_owned(), path: i.cgroup }).collect();
        Some(Self::new(identity, places))
    }
}

/// Which of several equally telling hierarchies names the owner: the managers' own, then the controllers that limit.
fn preference(controllers: &str) -> usize {
    const ORDER: [&str; 6] = ["", "name=systemd", "cpu", "blkio", "memory", "cpuset"];
    ORDER.iter().position(|name| controllers.split(',').any(|c| c == *name)).unwrap_or(ORDER.len())
}

/// The owners of every GPU at one moment.
#[derive(Debug, Default)]
pub struct Owners {
    by_gpu: BTreeMap<String, Vec<Arc<Owner>>>,
    all: Vec<Arc<Owner>>,
    unattributed: usize,
    holders: Holders,
    schedulers: Option<Schedulers>,
    unmatched: Unmatched,
    accounts: accounts::Told,
    mps: mps::Limits,
}

/// What became of the patterns of cgroups, other than owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Cgroups that match and were left out because there are too many.
    pub skipped: usize,
    /// Why not all patterns could be looked up.
    pub error: Option<String>,
}

/// Most cgroups that patterns add. Each costs as much as a job: about 15 small files and 40 series.
const MAX_MATCHING: usize = 16;

impl Owners {
    /// The owners of the GPU with this UUID, those of its MIG instances included; empty when nothing holds it or nothing is known.
    #[must_use]
    pub fn of_gpu(&self, uuid: &str) -> &[Arc<Owner>] {
        self.by_gpu.get(uuid).map_or(&[], Vec::as_slice)
    }

    /// The owners of the processes on this GPU instance of the GPU with this UUID.
    pub fn of_instance(&self, uuid: &str, id: u32) -> impl Iterator<Item = &Arc<Owner>> {
        let here = self.holders(uuid).iter().filter(move |holder| holder.part == Part::Instance(id));
        here.filter_map(|holder| holder.of_processes.as_ref())
    }

    /// Everyone who uses the GPU with this UUID or was promised it, in order of owner.
    #[must_use]
    pub fn holders(&self, uuid: &str) -> &[Holder] {
        self.holders.get(uuid).map_or(&[], Vec::as_slice)
    }

    /// The name of the container that this owner is.
    #[must_use]
    pub fn container_of(&self, owner: &str) -> Option<&ContainerName> {
        let mut holders = self.holders.values().flatten().filter(|holder| holder.owner == owner);
        holders.find_map(|holder| holder.container.as_ref())
    }

    /// dcgm-exporter's labels of the owner of a GPU or of an instance of it.
    #[must_use]
    pub fn device_labels(&self, uuid: &str, device: Part) -> DeviceLabels<'_> {
        DeviceLabels::of(self.holders(uuid), device)
    }

    /// Joins the promises of the schedulers with the names of containers by their ids. Owners whose pod is known have
    /// its name everywhere from then on.
    pub fn join(&mut self, names: &BTreeMap<String, ContainerName>, claims: &Claims, schedulers: Schedulers) {
        let ids = holders::join(
            &mut self.holders,
            names,
            claims,
            schedulers.told && schedulers.unmapped == 0 && !schedulers.reserved,
        );
        for owner in self.all.iter_mut().chain(self.by_gpu.values_mut().flatten()) {
            if let Some(id) = ids.get(&owner.id) {
                *owner = Arc::new(owner.called(id));
            }
        }
        self.all.sort_by(|a, b| a.id.cmp(&b.id));
        self.schedulers = Some(schedulers);
    }

    /// Calls the jobs that are known by their SLUID by their ids. An id that another owner has is not given twice: what an
    /// environment says is its user's to choose.
    fn number(&mut self, ids: &BTreeMap<String, String>) {
        let mut taken: BTreeMap<String, String> =
            self.all.iter().filter_map(|owner| Some((owner.slurm_job.clone()?, owner.id.clone()))).collect();
        let mut called: BTreeMap<String, Arc<Owner>> = BTreeMap::new();
        for owner in &self.all {
            let Some(id) = owner.sluid.as_ref().and_then(|sluid| ids.get(sluid)) else { continue };
            if taken.entry(id.clone()).or_insert_with(|| owner.id.clone()) == &owner.id {
                let named = Owner { slurm_job: Some(id.clone()), ..owner.called(&format!("slurm-{id}")) };
                called.insert(owner.id.clone(), Arc::new(named));
            }
        }
        for owner in self.all.iter_mut().chain(self.by_gpu.values_mut().flatten()) {
            if let Some(named) = called.get(&owner.id) {
                *owner = Arc::clone(named);
            }
        }
        for holder in self.holders.values_mut().flatten() {
            if let Some(named) = called.get(&holder.owner) {
                holder.owner.clone_from(&named.id);
                holder.job.clone_from(&named.slurm_job);
                holder.of_processes = Some(Arc::clone(named));
            }
        }
    }

    /// The GPUs that each Slurm job's processes are on, by job id.
    fn used_by_jobs(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (uuid, holders) in &self.holders {
            for job in holders.iter().filter_map(|holder| holder.job.clone()) {
                used.entry(job).or_default().insert(uuid.clone());
            }
        }
        used
    }

    /// The result of asking the schedulers; `None` if the exporter asked none.
    #[must_use]
    pub fn schedulers(&self) -> Option<&Schedulers> {
        self.schedulers.as_ref()
    }

    /// Adds the limits of MPS clients.
    pub fn limit_mps(&mut self, limits: mps::Limits) {
        self.mps = limits;
    }

    /// The limits of MPS clients by pid; none when they are not asked for.
    #[must_use]
    pub fn mps(&self) -> &mps::Limits {
        &self.mps
    }

    /// The Slurm accounts of owners; none when they are not asked for.
    #[must_use]
    pub fn accounts(&self) -> &accounts::Told {
        &self.accounts
    }

    /// Every owner once: those that hold a GPU in order of id, then those that only match a pattern.
    #[must_use]
    pub fn all(&self) -> &[Arc<Owner>] {
        &self.all
    }

    /// Processes on GPUs whose cgroup could not be read: they ended meanwhile, or their pid is not one of the
    /// exporter's pid namespace.
    #[must_use]
    pub fn unattributed(&self) -> usize {
        self.unattributed
    }

    /// Adds the cgroups whose path matches one of the patterns, whether or not they hold a GPU: the first 16 by id. In a
    /// pattern `*` stands for any characters of one folder's name, as in `/system.slice/kubelet*.service`.
    pub fn add_matching(&mut self, roots: &Roots, patterns: &[String]) {
        let mut failed = None;
        let found = matching(roots, patterns, &mut failed);
        self.unmatched.error = failed.map(|error| format!("the cgroups to include: {error}"));
        let is_known = |owner: &Owner| self.all.iter().any(|known| known.id == owner.id || known.is_pod_of(owner));
        let new = found.into_values().filter(|owner| !is_known(owner));
        let mut new: Vec<_> = new.map(Arc::new).collect();
        self.unmatched.skipped = new.len().saturating_sub(MAX_MATCHING);
        new.truncate(MAX_MATCHING);
        self.all.extend(new);
    }

    /// What the patterns did not add.
    #[must_use]
    pub fn unmatched(&self) -> &Unmatched {
        &self.unmatched
    }
}

/// The cgroups that match a pattern, by the id of the owner that each would be.
fn matching(roots: &Roots, patterns: &[String], failed: &mut Option<FileError>) -> BTreeMap<String, Owner> {
    let mut found: BTreeMap<String, Owner> = BTreeMap::new();
    // Without a pattern no file needs to be looked at.
    let hierarchies = if patterns.is_empty() { Ok(Vec::new()) } else { cgroupfs::hierarchies(roots) };
    let hierarchies = hierarchies.unwrap_or_else(|error| {
        failed.get_or_insert(error);
        Vec::new()
    });
    for hierarchy in hierarchies {
        for path in cgroupfs::matching(&hierarchy.root, patterns, failed) {
            let identity = Identity::of(&path);
            let place = Place { controllers: hierarchy.controllers.clone(), path: identity.cgroup.clone() };
            let owner = found.entry(identity.id()).or_insert_with(|| Owner::new(identity, Vec::new()));
            if !owner.places.contains(&place) {
                owner.places.push(place);
            }
        }
    }
    found
}

/// Processes by owner and part, on one GPU.
type Held = BTreeMap<(String, Part), Vec<u32>>;

/// Finds the owners of every process that holds a GPU.
#[must_use]
pub fn resolve(roots: &Roots, gpus: &Snapshot) -> Owners {
    let mut owner_of: BTreeMap<u32, Option<String>> = BTreeMap::new();
    let mut owners: BTreeMap<String, Owner> = BTreeMap::new();
    let mut held: BTreeMap<&str, Held> = BTreeMap::new();
    let namespace = PidNamespace::of(roots);
    for gpu in &gpus.gpus {
        let Ok(processes) = &gpu.processes else { continue };
        let here = held.entry(&gpu.uuid).or_default();
        for process in processes {
            let known = owner_of.entry(process.pid).or_insert_with(|| {
                let owner = owner_of_process(roots, process.pid).filter(|_| namespace.has(process.pid))?;
                let id = owner.id.clone();
                owners.entry(id.clone()).or_insert(owner).pids.push(process.pid);
                Some(id)
            });
            if let Some(id) = known {
                let part = process.instance.map_or(Part::Whole, Part::Instance);
                here.entry((id.clone(), part)).or_default().push(process.pid);
            }
        }
        without_mps_servers(roots, here);
    }
    let owners: BTreeMap<String, Arc<Owner>> = owners.into_iter().map(|(id, owner)| (id, Arc::new(owner))).collect();
    let on_gpu = |held: Held| -> Vec<Holder> {
        let owner = |((id, part), pids): ((String, Part), Vec<u32>)| {
            Some(Holder::of_processes(owners.get(&id)?.clone(), part, pids.len()))
        };
        held.into_iter().filter_map(owner).collect()
    };
    let holders: Holders = held.into_iter().map(|(uuid, held)| (uuid.to_owned(), on_gpu(held))).collect();
    let of = |holders: &[Holder]| {
        let mut owners: Vec<_> = holders.iter().filter_map(|holder| holder.of_processes.clone()).collect();
        owners.dedup_by(|a, b| a.id == b.id);
        owners
    };
    Owners {
        by_gpu: holders.iter().map(|(uuid, holders)| (uuid.clone(), of(holders))).collect(),
        all: owners.values().cloned().collect(),
        unattributed: owner_of.values().filter(|owner| owner.is_none()).count(),
        holders,
        schedulers: None,
        unmatched: Unmatched::default(),
        accounts: accounts::Told::default(),
        mps: mps::Limits::new(),
    }
}

/// The MPS server has a context on behalf of its clients, which are on the driver's list themselves: while anybody else
/// is on the GPU, its owner is none of the GPU's.
fn without_mps_servers(roots: &Roots, held: &mut Held) {
    if held.len() > 1 {
        held.retain(|_, pids| !pids.iter().all(|pid| process::is_mps_server(roots, *pid)));
    }
}

/// An unreadable or malformed file leaves one process without an owner, which is counted; it must not hide the rest.
fn owner_of_process(roots: &Roots, pid: u32) -> Option<Owner> {
    let path = roots.proc.join(pid.to_string()).join("cgroup");
    files::get(&path, |text| membership::parse(text).map(|places| Owner::of(&places))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> Owner {
        Owner::of(&membership::parse(text).value).unwrap()
    }

    fn places(owner: &Owner) -> Vec<(&str, &str)> {
        owner.places.iter().map(|p| (p.controllers.as_str(), p.path.as_str())).collect()
    }

    #[test]
    fn only_the_owners_own_places_count() {
        let owner =
            owner("4:memory:/system.slice\n3:cpu,cpuacct:/\n1:name=systemd:/system.slice/train.service\n0::/\n");
        assert_eq!(owner.id, "train.service");
        assert_eq!(places(&owner), [("name=systemd", "/system.slice/train.service")]);
    }

    #[test]
    fn a_slurm_job_is_more_than_the_daemon_that_started_it() {
        let text = "4:memory:/slurm/uid_0/job_5/step_0\n3:cpu:/system.slice/slurmd.service\n\
                    2:cpuset:/slurm/uid_0/job_5/step_0\n1:name=systemd:/system.slice/slurmd.service\n";
        let owner = owner(text);
        assert_eq!((owner.id.as_str(), owner.cgroup.as_str()), ("slurm-5", "/slurm/uid_0/job_5"));
        assert_eq!(places(&owner), [("memory", "/slurm/uid_0/job_5"), ("cpuset", "/slurm/uid_0/job_5")]);
    }

    #[test]
    fn a_limit_by_hand_names_the_owner_before_the_shared_memory_group() {
        let owner = owner("7:blkio:/\n4:memory:/session\n2:cpuacct:/lab/x\n1:cpu:/lab/x\n0::/lab/x\n");
        assert_eq!(owner.id, "/lab/x");
        assert_eq!(places(&owner), [("", "/lab/x"), ("cpu", "/lab/x"), ("cpuacct", "/lab/x")]);
    }

    #[test]
    fn nobody_in_particular_is_the_root() {
        let root = owner("1:cpu:/\n0::/\n");
        assert_eq!((root.id.as_str(), places(&root)), ("/", vec![]));
        assert_eq!(Owner::of(&membership::parse("0::/..\n").value), None);
    }
}
