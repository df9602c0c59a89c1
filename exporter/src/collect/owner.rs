//! `owner`: who holds which GPU. Reads no files of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{CollectError, Collector, Context, Done, Entry};
use crate::attribute::accounts::Unread;
use crate::attribute::holders::Holder;
use crate::attribute::{Owner, Owners, Schedulers};
use crate::catalog::host::{GPU_PROCESSES_UNATTRIBUTED, OWNER};
use crate::catalog::owner::*;
use crate::family::Families;
use crate::parse::container_log::ContainerName;
use crate::parse::device_id::Part;
use crate::source::files::FileError;
use crate::source::nvml::Gpu;
use crate::source::pod_resources::State;

/// Owners per GPU with series of their own. MPS allows 48 clients per GPU; time-slicing has no limit.
const MAX_OWNERS: usize = 64;

/// Name of this collector.
pub(crate) const NAME: &str = "owner";

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    about: "Which container, pod, Slurm job or systemd unit holds which GPU; no files of its own.",
    default: true,
    deadline: Duration::from_secs(1),
    new: || Box::<OwnerInfo>::default(),
};

/// Writes down what attribution found.
#[derive(Default)]
pub struct OwnerInfo;

impl Collector for OwnerInfo {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        for owner in context.owners.all() {
            push_owner(owner, &context.owners, out);
        }
        for gpu in &context.gpus.gpus {
            push_holders(gpu, context.owners.holders(&gpu.uuid), out);
        }
        out.push(&GPU_PROCESSES_UNATTRIBUTED, &[], context.owners.unattributed() as f64);
        let schedulers = context.owners.schedulers().map_or(Ok(Done::Ok), |told| push_schedulers(told, out));
        schedulers.and(accounts(&context.owners))
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
        for (state, name) in State::ALL {
            out.push(&POD_RESOURCES_STATE, &[name], f64::from(u8::from(state == now)));
        }
        out.push(&POD_RESOURCES_AGE, &[], age.map(|age| age.as_secs_f64()));
    }
    out.push(&UNMAPPED_DEVICES, &[], schedulers.unmapped as f64);
    schedulers.job_map_error.clone().map_or(Ok(Done::Ok), |error| Err(CollectError::Other(error)))
}
