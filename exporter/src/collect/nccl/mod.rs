//! `nccl`: what NCCL's Inspector plug-in wrote of collectives.
//!
//! Every scrape shows what was read after the one before, and has the files read again in a thread of its own: users write
//! them, and may make them as large and as wrong as they like.

mod account;
mod board;
mod ranks;
mod rows;
mod thread;

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use super::*;
use crate::source::inspector::whose::Holder;
use crate::source::left_out::{self, LeftOut};
use thread::{Question, Reader, Round};

/// An answer older than this is dropped: own choice, two scrapes of two minutes and some.
const STALE: Duration = Duration::from_secs(300);

/// A question without an answer for so long is a failure: own choice. A folder on a server that is gone may cause it.
const LATE: Duration = Duration::from_secs(120);

/// Its name, for the flag that turns it on.
pub(crate) const NAME: &str = "nccl";

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry {
    default: false,
    ..Entry::new::<Nccl>(
        NAME,
        "Collectives by communicator and rank, from files of NCCL's Inspector; on with `--nccl.inspector-dir`, which names their folders. Reads them off the scrape path.",
        2,
    )
};

/// Reads the files of NCCL's Inspector in the folders of `--nccl.inspector-dir`.
#[derive(Default)]
pub struct Nccl {
    reader: Option<Reader>,
    /// When the question was asked that has no answer yet.
    asked: Option<Instant>,
    /// When the last question was asked: one is enough for scrapes at the same time.
    last: Option<Instant>,
    answer: Option<Round>,
}

impl Collector for Nccl {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        if context.nccl.folders.is_empty() {
            return Ok(Done::NotApplicable("no folder: name them with --nccl.inspector-dir".to_owned()));
        }
        self.ask(context)?;
        // The clock of the readings, which may be an injected one.
        let now = context.gpus.at;
        let age = |then: Instant| now.saturating_duration_since(then);
        self.answer.take_if(|round| age(round.at) >= STALE);
        for row in self.answer.iter().flat_map(|round| &round.rows) {
            row.push(out);
        }
        match self.asked.map(age).filter(|waits| *waits >= LATE) {
            Some(waits) => {
                Err(CollectError::Other(format!("files of NCCL's Inspector: not read for {} s", waits.as_secs())))
            }
            None => Ok(Done::Ok),
        }
    }
}

impl Nccl {
    /// Takes the answer to the last question, and asks the next one.
    fn ask(&mut self, context: &Context) -> Result<(), CollectError> {
        let no_thread = |error| CollectError::Other(format!("no thread to read files of NCCL's Inspector on: {error}"));
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::start(context.roots.clone(), context.nccl.clone()).map_err(no_thread)?,
        };
        match reader.round(Duration::ZERO) {
            Ok(round) => self.take(round),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The next scrape starts another thread.
                self.asked = None;
                return Err(CollectError::Other(
                    "the thread that reads files of NCCL's Inspector has ended".to_owned(),
                ));
            }
        }
        if self.asked.is_none() && self.last != Some(context.gpus.at) {
            reader.ask(Question { at: context.gpus.at, holders: holders(context) });
            self.asked = Some(context.gpus.at);
            self.last = self.asked;
        }
        self.reader = Some(reader);
        Ok(())
    }

    fn take(&mut self, mut round: Round) {
        self.asked = None;
        let LeftOut { errors, count } = std::mem::take(&mut round.left_out);
        let unnamed = count.saturating_sub(errors.len() as u64);
        for (at, error) in errors.into_iter().enumerate() {
            left_out::note(error, if at == 0 { unnamed + 1 } else { 1 });
        }
        self.answer = Some(round);
    }
}

/// The processes on GPUs that have an owner.
fn holders(context: &Context) -> Vec<Holder> {
    let mut gpus_of: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    for gpu in &context.gpus.gpus {
        for process in gpu.processes.iter().flatten() {
            let gpus = gpus_of.entry(process.pid).or_default();
            let this = (gpu.index.to_string(), gpu.uuid.clone());
            // A process may be on several instances of one GPU.
            if !gpus.contains(&this) {
                gpus.push(this);
            }
        }
    }
    let owners = context.owners.all().iter().flat_map(|owner| owner.pids.iter().map(|pid| (*pid, &owner.id)));
    let holder = |(pid, owner): (u32, &String)| Holder {
        pid,
        owner: owner.clone(),
        gpus: gpus_of.get(&pid).cloned().unwrap_or_default(),
    };
    owners.map(holder).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::context::Nccl as Settings;

    /// A thread that has ended costs one scrape: the next one starts another.
    #[test]
    fn a_thread_that_has_ended_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (proc, sys, cgroup) = (path("proc"), path("sys"), path("cgroup"));
        let roots = Roots { proc, sys, cgroup, root: path(""), programs: None };
        let nccl = Settings { folders: vec![path("nccl").display().to_string()], has_names: false };
        let context = Context {
            roots: Arc::new(roots),
            common: Arc::default(),
            gpus: Arc::default(),
            owners: Arc::default(),
            hostname: "node-1".into(),
            dcgm: Arc::default(),
            nccl: Arc::new(nccl),
        };
        let asked = Some(context.gpus.at);
        let mut collector = Nccl { reader: Some(Reader::ended()), asked, ..Nccl::default() };
        assert!(collector.ask(&context).is_err());
        collector.ask(&context).unwrap();
        assert!(
            collector
                .reader
                .is_some_and(|reader| !matches!(reader.round(Duration::ZERO), Err(RecvTimeoutError::Disconnected)))
        );
    }
}
