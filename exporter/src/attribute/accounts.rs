//! The Slurm accounts of the jobs that hold GPUs, and the ids of those whose cgroups have a SLUID instead. A job's cgroup has
//! no account; its processes' environment has account and id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use super::Owner;
use crate::source::environ::{Answer, Environs, Slurm};
use crate::source::files::{FileError, Roots};

/// How long a resolution waits for the environments of jobs that it meets for the first time, so that they have their
/// account from the start. Environments are usually in memory.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is known of accounts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    by_job: BTreeMap<String, String>,
    /// Ids of jobs by their SLUID.
    pub(super) ids: BTreeMap<String, String>,
    /// Why a job has none; `None` when every environment could be read that is still there.
    pub unread: Option<Unread>,
}

/// Why an environment could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// This process may not read the file.
    Denied(PathBuf),
    /// Anything else, as a sentence.
    Failed(String),
}

impl Unread {
    /// Nothing of a process that has ended or is being started: another scrape asks the next one, or it again.
    pub(super) fn of(error: FileError) -> Option<Self> {
        match error {
            FileError::Missing { .. } => None,
            FileError::Denied { path } => Some(Self::Denied(path)),
            error => Some(Self::Failed(error.to_string())),
        }
    }
}

impl Told {
    /// The account of the owner, when it is a job that told one.
    #[must_use]
    pub fn of(&self, owner: &Owner) -> Option<&str> {
        self.by_job.get(name(owner)?).map(String::as_str)
    }
}

/// What its cgroup calls the job: the SLUID, else the id.
fn name(owner: &Owner) -> Option<&String> {
    owner.sluid.as_ref().or(owner.slurm_job.as_ref())
}

/// Asks each job for its account, once, since it does not change.
pub(super) struct Accounts {
    jobs: BTreeMap<String, Job>,
    environs: Environs<Slurm>,
    /// What has not been answered, in the order of the questions.
    open: VecDeque<Question>,
}

#[derive(Default)]
struct Job {
    account: Option<String>,
    /// Its id, which is only asked for where the cgroup has none.
    id: Option<String>,
    /// Processes that have no account, which need not be asked again.
    without: BTreeSet<u32>,
    /// How often it was asked: each time another process, because one may hide what another shows.
    asked: usize,
    /// Why the last one could not be read.
    unread: Option<Unread>,
}

struct Question {
    job: String,
    pid: u32,
    path: PathBuf,
}

impl Accounts {
    /// Starts the thread that reads.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { jobs: BTreeMap::new(), environs: Environs::start(Slurm::of)?, open: VecDeque::new() })
    }

    /// The accounts of those owners that are jobs. Of a job whose account is not known, one process is asked.
    pub(super) fn resolve(&mut self, roots: &Roots, owners: &[Arc<Owner>]) -> Told {
        let pids = owners.iter().filter_map(|owner| Some((name(owner)?.clone(), owner.pids.as_slice()))).collect();
        self.keep(&pids);
        self.listen(Duration::ZERO);
        // While an environment is being waited for, no other is asked for: questions must not pile up.
        if self.open.is_empty() {
            self.ask(roots, &pids);
            self.listen(PATIENCE);
        }
        self.told()
    }

    /// Forgets jobs and processes that are gone.
    fn keep(&mut self, pids: &BTreeMap<String, &[u32]>) {
        let mut before = mem::take(&mut self.jobs);
        for (id, pids) in pids {
            let mut job = before.remove(id).unwrap_or_default();
            job.without.retain(|pid| pids.contains(pid));
            self.jobs.insert(id.clone(), job);
        }
    }

    fn ask(&mut self, roots: &Roots, pids: &BTreeMap<String, &[u32]>) {
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.account.is_none()) {
            let Some(pid) = pids.get(id).and_then(|pids| job.next(pids)) else { continue };
            let path = roots.proc.join(pid.to_string()).join("environ");
            self.environs.ask(path.clone());
            self.open.push_back(Question { job: id.clone(), pid, path });
        }
    }

    fn listen(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while let Some(question) = self.open.front() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Some(answer) = self.environs.answer(rest) else { return };
            if let Some(job) = self.jobs.get_mut(&question.job) {
                job.learn(question.pid, answer);
            }
            self.open.pop_front();
        }
    }

    fn told(&self) -> Told {
        let known = |(id, job): (&String, &Job)| Some((id.clone(), job.account.clone()?));
        let waits = |question: &Question| Unread::Failed(format!("{}: no answer yet", question.path.display()));
        let unread = self.open.front().map(waits);
        let unread = unread.or_else(|| self.jobs.values().find_map(|job| job.unread.clone()));
        let ids = self.jobs.iter().filter_map(|(name, job)| Some((name.clone(), job.id.clone()?))).collect();
        Told { by_job: self.jobs.iter().filter_map(known).collect(), ids, unread }
    }
}

impl Job {
    /// The process to ask now; `None` when all have been.
    fn next(&mut self, pids: &[u32]) -> Option<u32> {
        self.unread = None;
        let rest: Vec<u32> = pids.iter().filter(|pid| !self.without.contains(pid)).copied().collect();
        let pid = rest.get(self.asked.checked_rem(rest.len())?).copied();
        self.asked = self.asked.wrapping_add(1);
        pid
    }

    fn learn(&mut self, pid: u32, answer: Answer<Slurm>) {
        self.unread = match answer {
            Ok(Slurm { account, job, .. }) => {
                self.id = self.id.take().or(job);
                self.account = account;
                if self.account.is_none() {
                    self.without.insert(pid);
                }
                None
            }
            Err(error) => Unread::of(error),
        };
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;
    use crate::parse::owner::Identity;

    fn account(name: &str) -> Answer<Slurm> {
        Ok(Slurm { account: Some(name.to_owned()), ..Slurm::default() })
    }

    fn denied(path: &str) -> Answer<Slurm> {
        Err(FileError::Denied { path: path.into() })
    }

    #[test]
    fn one_process_after_another_is_asked_and_none_twice_that_has_no_account() {
        let (mut job, pids) = (Job::default(), [1, 2, 3]);
        assert_eq!(job.next(&pids), Some(1));
        job.learn(1, Ok(Slurm::default()));
        assert_eq!(job.next(&pids), Some(3), "the second of two that are left");
        job.learn(3, Ok(Slurm::default()));
        assert_eq!(job.next(&pids), Some(2));
        job.learn(2, Ok(Slurm::default()));
        assert_eq!((job.next(&pids), job.next(&pids)), (None, None));
        assert_eq!(job.next(&[1, 2, 3, 4]), Some(4), "one that is new");
        job.learn(4, account("physics"));
        assert_eq!(job.account.as_deref(), Some("physics"));
    }

    #[test]
    fn what_could_not_be_read_is_tried_again_after_the_others() {
        let (mut job, pids) = (Job::default(), [1, 2]);
        let mut asked = Vec::new();
        for _ in 0..4 {
            let pid = job.next(&pids).unwrap();
            job.learn(pid, denied("environ"));
            asked.push(pid);
        }
        assert_eq!(asked, [1, 2, 1, 2]);
        assert_eq!(job.unread, Some(Unread::Denied("environ".into())));
        job.learn(1, Err(FileError::Missing { path: "environ".into() }));
        assert_eq!(job.unread, None, "one that has ended is no fault");
    }

    #[test]
    fn nothing_more_is_asked_while_an_environment_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("7/environ");
        std::fs::create_dir(folder.path().join("7")).unwrap();
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let [sys, cgroup, root] = [(); 3].map(|()| folder.path().to_owned());
        let roots = Roots { proc: folder.path().to_owned(), sys, cgroup, root, programs: None };
        let identity = Identity::of("/system.slice/slurmstepd.scope/job_42");
        let job = Owner { pids: vec![7], ..Owner::new(identity, Vec::new()) };
        let owners = [Arc::new(job)];
        let mut accounts = Accounts::start().unwrap();
        for _ in 0..20 {
            let told = accounts.resolve(&roots, &owners);
            assert_eq!(told.unread, Some(Unread::Failed(format!("{}: no answer yet", pipe.display()))));
            assert_eq!(accounts.open.len(), 1);
        }
        // Opening the pipe for writing ends the wait of the thread that opened it for reading.
        drop(std::fs::OpenOptions::new().write(true).open(pipe).unwrap());
    }

    #[test]
    fn a_process_that_is_gone_leaves_no_fault_behind() {
        let mut job = Job::default();
        job.learn(1, Ok(Slurm::default()));
        job.learn(2, denied("environ"));
        assert_eq!(job.next(&[1]), None);
        assert_eq!(job.unread, None);
    }
}
