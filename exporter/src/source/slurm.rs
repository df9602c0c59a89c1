//! The GPUs that Slurm lets its jobs use, on cgroup v1: the kernel lists the devices that a cgroup may open.
//!
//! Version 2 keeps that in a program that cannot be read, and the device nodes that a job sees are no answer: it may see all.

use std::collections::BTreeSet;

use super::files::{self, Roots};
use crate::parse::devices;

/// A job, and the minor numbers of its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Slurm job id.
    pub job: String,
    /// N of `/dev/nvidiaN`.
    pub minors: BTreeSet<u32>,
}

/// Every job whose devices are limited. A folder per user and job, one file of each.
#[must_use]
pub fn allowed(roots: &Roots) -> Vec<Allowed> {
    let top = roots.cgroup.join("devices");
    let mut all = Vec::new();
    for node in files::folders(&top).into_iter().filter(|name| name.starts_with("slurm")) {
        for user in files::folders(&top.join(&node)).into_iter().filter(|name| name.starts_with("uid_")) {
            let folder = top.join(&node).join(user);
            for name in files::folders(&folder) {
                let Some(job) = name.strip_prefix("job_") else { continue };
                let minors = files::get(&folder.join(&name).join("devices.list"), devices::gpus).flatten();
                all.extend(minors.map(|minors| Allowed { job: job.to_owned(), minors }));
            }
        }
    }
    all
}
