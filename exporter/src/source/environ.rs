//! The Slurm account, job id and GPUs, or the limits of an MPS client, in a process's environment; nothing else of that is
//! kept, and what is not asked for is not looked at.
//!
//! The kernel takes it out of the process's own memory, for which it may wait as long as that process waits for a page,
//! such as one on a file server that hangs. So a thread of its own reads, and a wait costs accounts and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{io, thread};

use super::files::{self, FileError};
use crate::parse::environ;

/// How much of an environment is looked at: many times the usual, a fraction of the most that the kernel allows.
const LOOKED_AT: u64 = 1 << 20;

/// Stack of the thread: what it reads is on the heap.
const STACK_BYTES: usize = 128 * 1024;

/// What an environment says about its Slurm job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slurm {
    /// The account that the job is charged to.
    pub account: Option<String>,
    /// The job's id.
    pub job: Option<String>,
    /// Numbers of the GPUs of the job, which only its batch step is told.
    pub job_gpus: Option<BTreeSet<u32>>,
    /// Numbers of the GPUs of the step.
    pub step_gpus: Option<BTreeSet<u32>>,
}

/// The limits that an MPS client was started with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MpsLimits {
    /// Share of a GPU's threads.
    pub threads: Option<f64>,
    /// Bytes of memory by number of the device, as the client counts those that it sees.
    pub memory: BTreeMap<u32, u64>,
}

impl Slurm {
    /// What this environment tells.
    #[must_use]
    pub fn of(environ: &[u8]) -> Self {
        let [account, job] =
            [environ::slurm_account(environ), environ::slurm_job(environ)].map(|text| text.map(str::to_owned));
        let (job_gpus, step_gpus) = (environ::slurm_job_gpus(environ), environ::slurm_step_gpus(environ));
        Self { account, job, job_gpus, step_gpus }
    }
}

impl MpsLimits {
    /// What this environment tells.
    #[must_use]
    pub fn of(environ: &[u8]) -> Self {
        Self { threads: environ::mps_threads(environ), memory: environ::mps_memory(environ) }
    }
}

/// What the environment tells. Of a process that has ended it is missing, and of
/// one that is being started or torn down, for which the kernel shows an empty file.
pub type Answer<T> = Result<T, FileError>;

/// A thread that reads environments in the order in which it is asked to; it ends when this is dropped.
pub struct Environs<T> {
    paths: Sender<PathBuf>,
    answers: Receiver<Answer<T>>,
}

impl<T: Send + 'static> Environs<T> {
    /// Starts the thread, which keeps of each environment what `read` gives.
    ///
    /// # Errors
    /// When the kernel gives no more threads.
    pub fn start(read: fn(&[u8]) -> T) -> io::Result<Self> {
        let (paths, asked) = mpsc::channel::<PathBuf>();
        let (told, answers) = mpsc::channel();
        let run = move || asked.iter().map(|path| look(&path, read)).try_for_each(|answer| told.send(answer).ok());
        thread::Builder::new().name("environ".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self { paths, answers })
    }

    /// Asks for one environment.
    pub fn ask(&self, path: PathBuf) {
        // A thread that is gone never answers; a caller that waits for it sees that.
        let _ = self.paths.send(path);
    }

    /// The next answer, in the order of the questions; `None` when it has not come within `limit`.
    #[must_use]
    pub fn answer(&self, limit: Duration) -> Option<Answer<T>> {
        self.answers.recv_timeout(limit).ok()
    }
}

fn look<T>(path: &Path, read: fn(&[u8]) -> T) -> Answer<T> {
    let environ = files::read_start(path, LOOKED_AT)?;
    if environ.is_empty() {
        return Err(FileError::Missing { path: path.to_owned() });
    }
    Ok(read(&environ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_environment_is_missing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(look(file.path(), Slurm::of), Err(FileError::Missing { .. })));
    }

    #[test]
    fn what_lies_beyond_the_limit_is_not_looked_at() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let variable = b"SLURM_JOB_ACCOUNT=physics\0";
        let within = LOOKED_AT as usize - variable.len();
        for (before, expected) in [(within, Some("physics")), (within + 1, None), (within + variable.len(), None)] {
            let mut environ = vec![b'A'; before];
            environ[before - 1] = 0;
            environ.extend(variable);
            std::fs::write(file.path(), environ).unwrap();
            assert_eq!(look(file.path(), Slurm::of).unwrap().account.as_deref(), expected, "{before} bytes before it");
        }
    }
}
