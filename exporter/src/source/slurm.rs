//! The GPUs that Slurm lets its jobs use, on cgroup v1: the kernel lists the devices that a cgroup may open.
//!
//! Version 2 keeps that in a program that cannot be read, and the device nodes that a job sees are no answer: it may see all.
//! There the steps of the jobs are found, whose environments name the GPUs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::{self, Roots};
use crate::parse::owner::Identity;
use crate::parse::{ParseError, devices, rows};

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

/// A step of a job on this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Job id or SLUID, as the job's cgroup is called.
    pub job: String,
    /// Is it the batch or interactive step, which is told the GPUs of the whole job?
    pub is_batch: bool,
    /// The step's cgroup.
    pub folder: PathBuf,
}

/// More steps than a job runs at a time on a node where it matters: a job that starts hundreds names its GPUs in the first.
const MOST_STEPS: usize = 16;

/// Folders of a step looked into: `user`, `task_N` and what a program makes below.
const DEPTH: usize = 4;

/// Processes of a step that are looked at.
const MOST_PROCESSES: usize = 8;

/// The steps of all jobs: below `slurmstepd.scope` of the only hierarchy, or of v1's `freezer`, which Slurm tracks them by.
#[must_use]
pub fn steps(roots: &Roots) -> Vec<Step> {
    let slice = roots.cgroup.join("system.slice");
    let scopes = files::folders(&slice).into_iter().filter(|name| name.ends_with("slurmstepd.scope"));
    let mut tops: Vec<PathBuf> = scopes.map(|name| slice.join(name)).collect();
    let freezer = roots.cgroup.join("freezer");
    for node in files::folders(&freezer).into_iter().filter(|name| name.starts_with("slurm")) {
        let users = files::folders(&freezer.join(&node)).into_iter().filter(|name| name.starts_with("uid_"));
        tops.extend(users.map(|user| freezer.join(&node).join(user)));
    }
    let jobs = tops.iter().flat_map(|top| files::folders(top).into_iter().map(|name| top.join(name)));
    jobs.filter_map(|folder| Some((job(&folder)?, folder))).flat_map(|(job, folder)| steps_of(&job, &folder)).collect()
}

/// The job that the folder is of.
fn job(folder: &Path) -> Option<String> {
    let identity = Identity::of(&folder.to_string_lossy());
    let sluid = || Some(identity.other_job.as_deref()?.strip_prefix("slurm-")?.to_owned());
    identity.slurm_job.clone().or_else(sluid)
}

fn steps_of(job: &str, folder: &Path) -> Vec<Step> {
    let mut names: Vec<_> = files::folders(folder).into_iter().filter(|name| name.starts_with("step_")).collect();
    // The batch step first: it names all of the job's GPUs.
    let is_batch = |name: &str| ["step_batch", "step_interactive"].contains(&name);
    names.sort_by(|a, b| (!is_batch(a), a).cmp(&(!is_batch(b), b)));
    names.truncate(MOST_STEPS);
    let step = |name: String| Step { job: job.to_owned(), is_batch: is_batch(&name), folder: folder.join(name) };
    names.into_iter().map(step).collect()
}

/// Processes of the step, those of its tasks first; `slurmstepd`, in a folder of its own, is none of them.
#[must_use]
pub fn processes(step: &Step) -> Vec<u32> {
    let mut found = Vec::new();
    descend(&step.folder, DEPTH, &mut found);
    found.truncate(MOST_PROCESSES);
    found
}

fn descend(folder: &Path, depth: usize, found: &mut Vec<u32>) {
    let mut below = files::folders(folder);
    below.sort_unstable();
    for name in below.iter().filter(|name| depth > 0 && *name != "slurm") {
        if found.len() < MOST_PROCESSES {
            descend(&folder.join(name), depth - 1, found);
        }
    }
    let pid = |number, line: &str| line.parse().map_err(|_| ParseError::new(number, "a process id", line));
    let pids: Vec<u32> = files::get(&folder.join("cgroup.procs"), |text| rows(text, pid)).unwrap_or_default();
    found.extend(pids.into_iter().filter(|pid| *pid > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_both_versions_with_the_processes_of_their_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let cgroup = folder.path().join("cgroup");
        for (path, pids) in [
            ("system.slice/slurmstepd.scope/job_42/step_0/user/task_0", "7\n"),
            ("system.slice/slurmstepd.scope/job_42/step_batch/slurm", "1\n"),
            ("system.slice/slurmstepd.scope/job_42/step_batch/user/task_special", "5\n6\n"),
            ("system.slice/n1_slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0", "8\n"),
            ("system.slice/slurmstepd.scope/system", "2\n"),
            ("freezer/slurm/uid_1000/job_43/step_batch", "0\n9\n"),
            ("system.slice/other.scope/job_1/step_batch", "3\n"),
        ] {
            std::fs::create_dir_all(cgroup.join(path)).unwrap();
            std::fs::write(cgroup.join(path).join("cgroup.procs"), pids).unwrap();
        }
        let [proc, sys, root] = [(); 3].map(|()| folder.path().to_owned());
        let mut steps = steps(&Roots { proc, sys, cgroup, root, programs: None });
        steps.sort();
        let found: Vec<_> = steps.iter().map(|s| (s.job.as_str(), s.is_batch, processes(s))).collect();
        let expected = [
            ("42", false, vec![7]),
            ("42", true, vec![5, 6]),
            ("43", true, vec![9]),
            ("s5K1KKYAYG5D00", false, vec![8]),
        ];
        assert_eq!(found, expected);
    }
}
