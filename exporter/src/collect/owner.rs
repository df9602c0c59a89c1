//! `owner`: who holds which GPU. Reads no files of its own.

use super::{CollectError, Collector, Context, Done};
use crate::attribute::Owner;
use crate::catalog::host::{GPU_OWNER, GPU_PROCESSES_UNATTRIBUTED, OWNER};
use crate::family::Families;

/// Writes down what attribution found.
#[derive(Default)]
pub struct OwnerInfo;

impl Collector for OwnerInfo {
    fn name(&self) -> &'static str {
        "owner"
    }

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
