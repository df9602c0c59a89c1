//! `owner`: who holds which GPU. Reads no files of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::attribute::accounts::Unread;
use crate::attribute::holders::Holder;
use crate::attribute::{Owner, Owners, Schedulers};
use crate::parse::container_log::ContainerName;
use crate::parse::device_id::Part;
use crate::parse::owner::Identity;
use crate::source::nvml::Gpu;
use crate::source::oom::{Kills, Reason};
use crate::source::pod_resources::State;
use goodput_catalog::host::{GPU_PROCESSES_UNATTRIBUTED, OWNER};
use goodput_catalog::owner::*;

/// Owners per GPU with series of their own. MPS allows 48 clients per GPU; time-slicing has no limit.
const MAX_OWNERS: usize = 64;

/// Name of this collector.
pub(crate) const NAME: &str = "owner";

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<OwnerInfo>(
    NAME,
    "Which container, pod, Slurm job or systemd unit holds which GPU; no files of its own.",
    1,
);

/// Writes down what attribution found.
#[derive(Default)]
pub struct OwnerInfo {
    names: Names,
}

impl Collector for OwnerInfo {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        for owner in context.owners.all() {
            push_owner(owner, &context.owners, out);
            push_mps(owner, &context.owners, out);
        }
        for gpu in &context.gpus.gpus {
            push_holders(gpu, context.owners.holders(&gpu.uuid), out);
        }
        out.push(&GPU_PROCESSES_UNATTRIBUTED, &[], context.owners.unattributed() as f64);
        self.names.learn(context.owners.all(), &context.gpus.xids.ooms);
        push_ooms(&context.gpus.xids.ooms, &self.names, out);
        let schedulers = context.owners.schedulers().map_or(Ok(Done::Ok), |told| push_schedulers(told, out));
        schedulers.and(accounts(&context.owners))
    }
}

/// What owners are called, by the id that their cgroup alone gives. One that the OOM killer ended is often no owner any more
/// when it is to be named, and once it is named its series must not change.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// Takes the current names, and keeps those earlier ones that the kills refer to.
    fn learn(&mut self, owners: &[Arc<Owner>], kills: &Kills) {
        let is_wanted = |id: &String| kills.speak_of(id);
        let mut names = std::mem::take(&mut self.0);
        names.retain(|id, _| is_wanted(id));
        for owner in owners {
            names.entry(Identity::of(&owner.cgroup).id()).or_insert_with(|| owner.id.clone());
        }
        self.0 = names;
    }

    fn of<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

/// The `owner` and `reason` of victims beyond the kinds that are kept apart.
const OTHER: &str = "other";

fn push_ooms(kills: &Kills, names: &Names, out: &mut Families) {
    let mut counts: BTreeMap<[&str; 3], u64> = BTreeMap::new();
    for ((owner, reason), count) in &kills.counts {
        let limit = if let Reason::Above(limit) = reason { names.of(limit) } else { "" };
        *counts.entry([names.of(owner), reason.name(), limit]).or_default() += count;
    }
    if kills.others > 0 {
        counts.insert([OTHER, OTHER, ""], kills.others);
    }
    for ([owner, reason, limit], count) in counts {
        out.push_with(&OOM_KILLS, &[owner, reason], &[limit], count as f64);
    }
}

fn push_owner(owner: &Owner, owners: &Owners, out: &mut Families) {
    let Owner { id, cgroup, pod_uid, container_id, slurm_job, unit, .. } = owner;
    let [pod_uid, container_id, slurm_job, unit] =
        [pod_uid, container_id, slurm_job, unit].map(|field| field.as_deref().unwrap_or_default());
    let [namespace, pod, container] = names(owners.container_of(id));
    let account = owners.accounts().of(owner).unwrap_or_default();
    let known = [pod_uid, container_id, slurm_job, unit, namespace, pod, container, account];
    out.push_with(&OWNER, &[id, cgroup], &known, 1.0);
}

/// Devices per owner whose limit is shown: as many as the largest node has.
const MAX_DEVICES: usize = 16;

fn push_mps(owner: &Owner, owners: &Owners, out: &mut Families) {
    let limits: Vec<_> = owner.pids.iter().filter_map(|pid| owners.mps().get(pid)).collect();
    let threads = limits.iter().filter_map(|limit| limit.threads).reduce(f64::min);
    out.push(&MPS_THREADS, &[&owner.id], threads);
    let mut memory: BTreeMap<u32, u64> = BTreeMap::new();
    for (device, bytes) in limits.iter().flat_map(|limit| &limit.memory) {
        let lowest = memory.entry(*device).or_insert(*bytes);
        *lowest = (*lowest).min(*bytes);
    }
    for (device, bytes) in memory.into_iter().take(MAX_DEVICES) {
        out.push(&MPS_MEMORY, &[&owner.id, &device.to_string()], bytes as f64);
    }
}

fn push_holders(gpu: &Gpu, holders: &[Holder], out: &mut Families) {
    let index = gpu.index.to_string();
    out.push(&GPU_OWNERS, &[&index, &gpu.uuid], holders.len() as f64);
    let mut written = BTreeSet::new();
    for holder in holders.iter().take(MAX_OWNERS) {
        let instance = match holder.part {
            Part::Instance(id) => id.to_string(),
            Part::Whole | Part::SomeInstance => String::new(),
        };
        let [namespace, pod, container] = names(holder.container.as_ref());
        let job = holder.job.as_deref().unwrap_or_default();
        let (labels, known) = ([&index, &gpu.uuid, &holder.owner], [instance.as_str(), namespace, pod, container, job]);
        let labels = labels.map(String::as_str);
        // Instances that have no id are not told apart.
        if !written.insert((labels, known.map(str::to_owned))) {
            continue;
        }
        out.push_with(&GPU_OWNER, &labels, &known, 1.0);
        out.push_with(&GPU_OWNER_PROCESSES, &labels, &known, holder.processes.map(|count| count as f64));
        out.push_with(&GPU_OWNER_ALLOCATED, &labels, &known, holder.allocated.map(|count| count as f64));
    }
}

/// How asking jobs for their accounts went.
fn accounts(owners: &Owners) -> Result<Done, CollectError> {
    match owners.accounts().unread.clone() {
        None => Ok(Done::Ok),
        Some(Unread::Denied(path)) => Err(FileError::Denied { path }.into()),
        Some(Unread::Failed(error)) => Err(CollectError::Other(error)),
    }
}

fn names(container: Option<&ContainerName>) -> [&str; 3] {
    container.map_or([""; 3], |ContainerName { namespace, pod, container }| [namespace, pod, container])
}

fn push_schedulers(schedulers: &Schedulers, out: &mut Families) -> Result<Done, CollectError> {
    if let Some((now, age)) = schedulers.kubelet {
        for state in State::ALL {
            out.push(&POD_RESOURCES_STATE, &[state.name()], f64::from(u8::from(*state == now)));
        }
        out.push(&POD_RESOURCES_AGE, &[], age.map(|age| age.as_secs_f64()));
    }
    out.push(&UNMAPPED_DEVICES, &[], schedulers.unmapped as f64);
    schedulers.job_map_error.clone().map_or(Ok(Done::Ok), |error| Err(CollectError::Other(error)))
}
