//! A file of records, and the process that writes it.

use std::time::Duration;

use super::super::account::Account;
use super::super::rows::Place;
use crate::parse::inspector::json::Records;
use crate::source::inspector::folder::Candidate;
use crate::source::inspector::tail::{Part, Tail};
use crate::source::inspector::whose::Process;

/// Bytes of a file that are read in [`SPAN`].
pub(super) const MOST: f64 = 4.0 * 1024.0 * 1024.0;
/// What [`MOST`] is for.
const SPAN: Duration = Duration::from_secs(15);
/// Spans whose bytes are read at once at most, after a pause of the scraper: own choice, two minutes.
const SPANS: f64 = 8.0;

/// A file of records.
pub(super) struct Log {
    /// Id and start of the process that writes it: which process it is, though ids are given again.
    process: (u32, u64),
    pub(super) place: Place,
    /// How long the process has run, in seconds.
    pub(super) age: f64,
    pub(super) tail: Tail,
    pub(super) account: Account,
    /// Bytes that may be read.
    pub(super) allowance: f64,
}

impl Log {
    /// One that this process has begun to write.
    pub(super) fn new(process: &Process) -> Self {
        let (tail, account) = (Tail::default(), Account::default());
        Self { process: id(process), place: place(process), age: age(process), tail, account, allowance: 0.0 }
    }

    /// Itself, if its process is still there and of the file's user, with what is known of it by now. File systems give the
    /// number of a file that was removed to the next one, which may be another user's.
    pub(super) fn still_of(self, processes: &[Process], uid: u32) -> Option<Self> {
        let is_it = |process: &&Process| id(process) == self.process && process.uid == uid;
        processes.iter().find(is_it).map(|process| self.of(process))
    }

    /// Itself, if its process is still there.
    pub(super) fn still(self, processes: &[Process]) -> Option<Self> {
        processes.iter().find(|process| id(process) == self.process).map(|process| self.of(process))
    }

    fn of(self, process: &Process) -> Self {
        Self { place: place(process), age: age(process), ..self }
    }

    /// What may be read after this time, or at first. What was not used is kept for one span: the plug-in may write in larger
    /// steps than scrapes come.
    pub(super) fn allow(&mut self, elapsed: Option<Duration>) {
        let spans = elapsed.map_or(1.0, |elapsed| elapsed.as_secs_f64() / SPAN.as_secs_f64()).min(SPANS);
        let is_new = self.tail.offset() == 0 && self.allowance == 0.0;
        let more = if is_new { MOST } else { MOST * spans };
        self.allowance = (self.allowance + more).min(MOST.max(more));
    }

    /// Before the first piece of a round: was the file cut, or is there more of it than may be read?
    pub(super) fn begin(&mut self, size: u64) {
        if self.tail.was_cut(size) {
            self.account.begin_again();
        }
        if self.tail.left(size) as f64 > self.allowance {
            self.tail.skip_to(size, self.allowance.max(0.0) as u64);
            self.account.skip();
        }
    }
}

fn id(process: &Process) -> (u32, u64) {
    (process.holder.pid, process.start_ticks)
}

fn age(process: &Process) -> f64 {
    process.age.as_secs_f64()
}

fn place(process: &Process) -> Place {
    let gpu = match &process.holder.gpus[..] {
        [only] => Some(only.clone()),
        _ => None,
    };
    Place { owner: process.holder.owner.clone(), gpu }
}

/// The process that the first line of a file names.
pub(super) fn first_pid(candidate: &Candidate) -> Option<u32> {
    let (file, mut buffer, mut pid) = (candidate.open().ok()?, Vec::new(), None);
    let mut records = Records::default();
    let mut is_first = true;
    let each = |part: Part<'_>| {
        if let Part::Line(line) = part
            && std::mem::take(&mut is_first)
        {
            let _ = records.line(line);
            pid = records.context().map(|context| context.pid);
        }
    };
    Tail::default().piece(&file, &mut buffer, each).ok()?;
    pid
}
