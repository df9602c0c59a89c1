//! The GPUs that Slurm has given to its jobs, by the environments of their steps, where these may be read. A job holds its GPUs
//! from its start on, whether or not it works on them.
//!
//! A step's environment is its user's to write. So what it says counts for its own job alone, and only where it fits the GPUs
//! that the job's processes are on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use super::accounts::Unread;
use crate::source::environ::{Answer, Environs, Slurm};
use crate::source::files::Roots;
use crate::source::slurm::{self, Step};

/// How long a resolution waits for the environments of steps that it meets for the first time, as for accounts.
const PATIENCE: Duration = Duration::from_millis(500);

/// Environments asked for at once: a job's first step answers for it, and a node runs about ten jobs.
const MOST_AT_ONCE: usize = 64;

/// Processes of a step that are asked: one that does not say it is rarely followed by one that does.
const MOST_ASKED: usize = 8;

/// A job, and the numbers that Slurm has for its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Slurm job id.
    pub job: String,
    /// Numbers of the node.
    pub gpus: BTreeSet<u32>,
}

/// Asks each step once: an environment is that of its process's start.
pub(super) struct JobGpus {
    environs: Environs<Slurm>,
    steps: BTreeMap<Step, Asked>,
    open: VecDeque<(Step, u32)>,
}

/// What is known of a step.
#[derive(Default)]
struct Asked {
    /// Processes that have answered, or need not be asked again.
    pids: BTreeSet<u32>,
    /// What the environment names: the job's id and GPUs.
    told: Option<Numbered>,
    unread: Option<Unread>,
}

impl JobGpus {
    /// Starts the thread that reads.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { environs: Environs::start(Slurm::of)?, steps: BTreeMap::new(), open: VecDeque::new() })
    }

    /// The GPUs of every job whose steps tell, and why one could not be read.
    pub(super) fn resolve(&mut self, roots: &Roots) -> (Vec<Numbered>, Option<Unread>) {
        let mut before = std::mem::take(&mut self.steps);
        let now = slurm::steps(roots);
        self.steps = now.into_iter().map(|step| (before.remove(&step).unwrap_or_default(), step)).map(swap).collect();
        self.listen(Duration::ZERO);
        // While an environment is being waited for, no other is asked for: questions must not pile up.
        if self.open.is_empty() {
            self.ask(roots);
            self.listen(PATIENCE);
        }
        let unread = self.steps.values().find_map(|asked| asked.unread.clone());
        (jobs(self.steps.iter().filter_map(|(step, asked)| Some((step, asked.told.as_ref()?)))), unread)
    }

    fn ask(&mut self, roots: &Roots) {
        let open = |asked: &Asked| asked.told.is_none() && asked.pids.len() < MOST_ASKED;
        for (step, asked) in self.steps.iter_mut().filter(|(_, asked)| open(asked)).take(MOST_AT_ONCE) {
            let Some(pid) = slurm::processes(step).into_iter().find(|pid| !asked.pids.contains(pid)) else { continue };
            self.environs.ask(roots.proc.join(pid.to_string()).join("environ"));
            self.open.push_back((step.clone(), pid));
        }
    }

    fn listen(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while let Some((step, pid)) = self.open.front() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Some(answer) = self.environs.answer(rest) else { return };
            if let Some(asked) = self.steps.get_mut(step) {
                asked.learn(step, *pid, answer);
            }
            self.open.pop_front();
        }
    }
}

fn swap((asked, step): (Asked, Step)) -> (Step, Asked) {
    (step, asked)
}

impl Asked {
    fn learn(&mut self, step: &Step, pid: u32, answer: Answer<Slurm>) {
        self.unread = match answer {
            Ok(environ) => {
                self.pids.insert(pid);
                self.told = numbered(step, environ);
                None
            }
            Err(error) => Unread::of(error),
        };
    }
}

/// What the environment says of its own job. Any other step than the batch step has the variable of the job's GPUs from
/// where it was started, which may be another node.
fn numbered(step: &Step, environ: Slurm) -> Option<Numbered> {
    let gpus = if step.is_batch { environ.job_gpus } else { environ.step_gpus }?;
    let is_id = step.job.bytes().all(|byte| byte.is_ascii_digit());
    let job = environ.job.filter(|job| !is_id || *job == step.job)?;
    Some(Numbered { job, gpus })
}

/// By job: what its batch step says, else what its other steps say together.
fn jobs<'a>(steps: impl Iterator<Item = (&'a Step, &'a Numbered)>) -> Vec<Numbered> {
    let mut by_job: BTreeMap<(&str, &str), (bool, BTreeSet<u32>)> = BTreeMap::new();
    for (step, Numbered { job, gpus }) in steps {
        let (of_batch, all) = by_job.entry((&step.job, job)).or_default();
        match (*of_batch, step.is_batch) {
            (true, false) => {}
            (false, true) => (*of_batch, *all) = (true, gpus.clone()),
            _ => all.extend(gpus),
        }
    }
    // An id that two cgroups' environments name is one of them's at most.
    let names = |id: &str| by_job.keys().filter(|(_, job)| *job == id).count();
    let sole = by_job.iter().filter(|((_, job), _)| names(job) == 1);
    sole.map(|((_, job), (_, gpus))| Numbered { job: (*job).to_owned(), gpus: gpus.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(job: &str, is_batch: bool) -> Step {
        Step { job: job.to_owned(), is_batch, folder: is_batch.to_string().into() }
    }

    fn told(job: &str, gpus: &[u32]) -> Numbered {
        Numbered { job: job.to_owned(), gpus: gpus.iter().copied().collect() }
    }

    #[test]
    fn the_batch_step_speaks_for_the_job_and_other_steps_for_themselves() {
        let environ = |job: &str| Slurm {
            job: Some(job.to_owned()),
            job_gpus: Some([0, 1].into()),
            step_gpus: Some([1].into()),
            ..Slurm::default()
        };
        for (step, environ, expected) in [
            (step("42", true), environ("42"), Some(told("42", &[0, 1]))),
            (step("42", false), environ("42"), Some(told("42", &[1]))),
            (step("s5K1KKYAYG5D00", false), environ("42"), Some(told("42", &[1]))),
            (step("42", true), environ("43"), None),
            (step("42", true), Slurm { job: None, ..environ("42") }, None),
            (step("42", false), Slurm { step_gpus: None, ..environ("42") }, None),
        ] {
            assert_eq!(numbered(&step, environ), expected, "{step:?}");
        }
    }

    #[test]
    fn steps_of_a_job_add_up_and_an_id_that_two_name_is_neither_s() {
        let all = [
            (step("42", true), told("42", &[0, 1])),
            (step("42", false), told("42", &[5])),
            (step("43", false), told("43", &[2])),
            (step("s1", false), told("44", &[3])),
            (step("s2", false), told("44", &[4])),
        ];
        let jobs = jobs(all.iter().map(|(step, told)| (step, told)));
        assert_eq!(jobs, [told("42", &[0, 1]), told("43", &[2])]);
    }
}
