//! `owner`: who holds which GPU. Reads no files of its own.

use std::time::Duration;

use super::{CollectError, Collector, Context, Done, Entry};
use crate::attribute::Owner;
use crate::catalog::host::{GPU_OWNER, GPU_PROCESSES_UNATTRIBUTED, OWNER};
use crate::family::Families;

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: "owner",
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
            let Owner { id, cgroup, pod_uid, container_id, slurm_job, unit, .. } = owner.as_ref();
            let known = [pod_uid, container_id, slurm_job, unit].map(|field| field.as_deref().unwrap_or_default());
            out.push_with(&OWNER, &[id, cgroup], &known, 1.0);
        }
        for gpu in &context.gpus.gpus {
            for owner in context.owners.of_gpu(&gpu.uuid) {
                out.push(&GPU_OWNER, &[&gpu.index.to_string(), &gpu.uuid, &owner.id], 1.0);
            }
        }
        out.push(&GPU_PROCESSES_UNATTRIBUTED, &[], context.owners.unattributed() as f64);
        Ok(Done::Ok)
    }
}
