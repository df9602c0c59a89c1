//! Samples (SQLite write-ahead and catalogue, Parquet segments) and results (SQLite).
//!
//! A batch is acknowledged when it is in the write-ahead, with an fsync; the head holds the same samples in memory.
//! A flush turns the head into a segment: temporary file, fsync, rename, fsync of the directory, then one transaction
//! that adds the segment to the index and deletes its write-ahead. A crash between any two steps leaves either the
//! write-ahead or the indexed segment, never both and never neither. A merge of segments goes the same way: new files
//! first, then one transaction that exchanges them for the old ones, whose files go when the last read of them is over.

mod acknowledged;
mod active;
mod admit;
mod adopt;
mod application;
mod arrivals;
mod aside;
mod away;
mod backup;
mod bad_rows;
mod catalogue;
mod changes;
mod checked;
mod chunk;
mod clock;
mod compact;
#[cfg(test)]
mod contract;
mod database;
mod delivery;
mod embedded;
mod error;
mod events;
mod flush;
mod forget;
mod fullness;
mod head;
mod holes;
mod identity;
mod index;
mod inspect;
mod judged;
mod legacy;
mod merge;
mod options;
mod orphans;
mod outlook;
mod pages;
mod quarantine;
mod queue;
mod rebuild;
mod resolve;
mod results;
mod retain;
mod segment;
mod segments;
mod series_rows;
mod snapshot;
mod start;
mod stats;
#[cfg(test)]
mod tests;
mod upkeep;
mod varint;
mod write_ahead;
mod writer;

use std::future::Future;
use std::ops::{AddAssign, Range, RangeInclusive};

pub use arrivals::Arrivals;
pub use away::untouched_until;
pub use backup::{BackedUp, backup, restore};
pub use bad_rows::{RowAside, Which, bad_rows, remove_bad_rows};
pub use chunk::read_chunk;
pub use embedded::Store;
pub use error::StoreError;
pub use holes::Hole;
pub use inspect::{Held, Problem, Rows, SetAside, Status, Tell, Verified, Written, status, verify};
pub use options::{Options, wall_clock};
pub use rebuild::{Rebuilt, rebuild, unquarantine};
pub use results::{read_verdicts, statements};
pub use snapshot::Snapshot;
pub use stats::{Compacted, Limits, Stats, Upkeep};

use crate::application::Achieved;
use crate::classify::{Class, Interval};
use crate::events::{Event, RunId};
use crate::forecast::Outlook;
use crate::sample::{Batch, Series, TimeMs};

/// What became of a batch. Every sample of it is in exactly one of the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// On disk now, fsynced.
    pub stored: u64,
    /// Already there with the same time and value.
    pub duplicate: u64,
    /// Another value is already there for the same time; the first one stays.
    pub conflicting: u64,
    /// Older than the out-of-order window or the year 2000, or newer than the clock allows.
    pub out_of_bounds: u64,
    /// Of a metric that no signal uses.
    pub unknown: u64,
    /// Of a new series beyond a limit: too many of them, of one sender or scrape job, or too many bytes of labels.
    pub over_limit: u64,
}

impl AddAssign for Appended {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.duplicate += other.duplicate;
        self.conflicting += other.conflicting;
        self.out_of_bounds += other.out_of_bounds;
        self.unknown += other.unknown;
        self.over_limit += other.over_limit;
    }
}

/// Which series, and when.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Metric names; empty means all.
    pub metrics: Vec<String>,
    /// Label equalities that all must hold; as in PromQL, an empty value matches a label that is not there.
    pub labels: Vec<(String, String)>,
    /// From (inclusive) and to (exclusive).
    pub range: Range<TimeMs>,
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// On disk now.
    pub stored: usize,
    /// There already, the same.
    pub duplicate: usize,
    /// Verdicts from there on may change by them.
    pub unjudged_from_ms: Option<TimeMs>,
}

/// What jobs reported about the runs of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Every event of these runs but steps.
    pub events: Vec<Event>,
    /// How far every attempt of these runs came, in order of run and attempt.
    pub progress: Vec<Progress>,
}

/// How far an attempt came, by all of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run.
    pub run: RunId,
    /// The attempt's number.
    pub attempt: u32,
    /// Its first event.
    pub first_ms: TimeMs,
    /// Its last event.
    pub last_ms: TimeMs,
    /// The highest step that an event names; `None` where none does.
    pub last_step: Option<u64>,
}

/// Time series.
pub trait Samples: Send + Sync {
    /// Stores a batch; when this returns Ok, everything counted as stored survives `kill -9`.
    fn append(&self, batch: Batch) -> impl Future<Output = Result<Appended, StoreError>> + Send;

    /// Is a metric of this name worth keeping? Samples of others are counted and dropped.
    fn keeps(&self, _metric: &str) -> bool {
        true
    }

    /// The times that a sample may have, whatever its series; others are refused.
    fn takes(&self) -> RangeInclusive<TimeMs> {
        TimeMs::MIN..=TimeMs::MAX
    }

    /// Reads series; each at most once, samples in order of time, no duplicates.
    fn select(&self, selection: &Selection) -> impl Future<Output = Result<Vec<Series>, StoreError>> + Send;
}

/// What jobs tell of themselves.
pub trait Events: Send + Sync {
    /// Stores events, all or none; those that are there already are counted.
    fn add_events(&self, events: &[Event]) -> impl Future<Output = Result<Taken, StoreError>> + Send;
}

/// How far samples and events can be read: all that were acknowledged before it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The write-ahead's sequence number.
    samples: i64,
    /// That of events.
    events: i64,
}

/// Which intervals of a window are wanted; all, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Only of this cluster.
    pub cluster: Option<String>,
    /// Only this node's.
    pub node: Option<String>,
    /// Only this GPU's.
    pub gpu: Option<String>,
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only this run's.
    pub run: Option<String>,
    /// Only this account's.
    pub account: Option<String>,
    /// Only of this class.
    pub class: Option<Class>,
    /// Only what was caused by the GPU of this UUID.
    pub charged_to: Option<String>,
    /// Without this many at the beginning.
    pub skip: usize,
    /// At most this many.
    pub limit: Option<usize>,
}

impl Whose {
    /// Everything of a node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Self { node: Some(name.to_owned()), ..Self::default() }
    }

    /// Everything of a GPU.
    #[must_use]
    pub fn gpu(uuid: &str) -> Self {
        Self { gpu: Some(uuid.to_owned()), ..Self::default() }
    }
}

/// What is stored of a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// The ledger's.
    pub intervals: Vec<Interval>,
    /// What was at risk, what was advised, and how nodes compare.
    pub outlook: Outlook,
    /// What jobs counted.
    pub achieved: Vec<Achieved>,
    /// What jobs told.
    pub history: History,
}

/// New results of a node in a window; what is `None` stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Replacement<'a> {
    /// The node.
    pub node: &'a str,
    /// Its verdicts.
    pub intervals: Option<&'a [Interval]>,
    /// Its risks, advisories and standing.
    pub outlook: Option<&'a Outlook>,
}

/// Verdicts.
pub trait Results: Send + Sync {
    /// Replaces results of a window, in one transaction. Returns the nodes that cannot be stored, which keep what they had,
    /// and why.
    fn replace_window(
        &self,
        window: Range<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> impl Future<Output = Result<Vec<(String, StoreError)>, StoreError>> + Send;

    /// Replaces the intervals of one node and window, in one transaction.
    fn replace(
        &self,
        node: &str,
        window: Range<TimeMs>,
        intervals: &[Interval],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            let new = Replacement { node, intervals: Some(intervals), outlook: None };
            only(self.replace_window(window, &[new]).await?)
        }
    }

    /// The intervals that lie in the window; those that reach out of it do not exist, for windows are cut at hours.
    fn intervals(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Vec<Interval>, StoreError>> + Send {
        async move { self.intervals_of(window, &Whose::default()).await }
    }

    /// Those of the intervals that are wanted, in order of node, GPU, start, class, owner and culprit.
    fn intervals_of(
        &self,
        window: Range<TimeMs>,
        whose: &Whose,
    ) -> impl Future<Output = Result<Vec<Interval>, StoreError>> + Send;

    /// Replaces the risks, advisories and standings of one node and window, in one transaction.
    fn replace_outlook(
        &self,
        node: &str,
        window: Range<TimeMs>,
        outlook: &Outlook,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            let new = Replacement { node, intervals: None, outlook: Some(outlook) };
            only(self.replace_window(window, &[new]).await?)
        }
    }

    /// The risks, advisories and standings that lie in the window; as intervals, they are cut at windows.
    fn outlook(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Outlook, StoreError>> + Send;
    /// Replaces what was achieved in the window, in one transaction.
    fn replace_achieved(
        &self,
        window: Range<TimeMs>,
        achieved: &[Achieved],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What was achieved in the windows that lie within this one.
    fn achieved(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Vec<Achieved>, StoreError>> + Send;

    /// What jobs reported about runs that have an event in the window, or one before it and one after it.
    fn history(&self, window: Range<TimeMs>) -> impl Future<Output = Result<History, StoreError>> + Send;

    /// A number that grows with every change of results in the window, since the store was opened.
    fn version(&self, window: &Range<TimeMs>) -> u64;

    /// Windows whose results lost rows that could not be read, and that were not judged again since.
    fn lost_windows(&self) -> Vec<Range<TimeMs>>;

    /// Such a window was judged again; where it was not, it is not one of them until the next start.
    fn note_rejudged(
        &self,
        window: &Range<TimeMs>,
        judged: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// The UTC hours, by their starts, whose verdicts reach over a time this long after the full hour.
    fn hours_across(&self, into_hour_ms: i64) -> impl Future<Output = Result<Vec<TimeMs>, StoreError>> + Send;

    /// How far samples and events can be read by now.
    fn mark(&self) -> Mark;

    /// Judging begins: what is beyond the mark has not been judged. Changes nothing where a mark was noted before.
    fn note_begun(&self, mark: Mark) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Verdicts rest on all samples and events up to there.
    fn note_judged(&self, mark: Mark) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// From when on verdicts do not rest on all samples up to the mark that was last noted, or not on all events, as it was
    /// when the store was opened; none when they did, or nothing was ever judged.
    fn unjudged_from(&self) -> Option<TimeMs>;

    /// Samples before this have been removed by retention; verdicts on them stay. None when none ever were.
    fn raw_from(&self) -> Option<TimeMs>;

    /// Where samples cannot be read now, though they were acknowledged: verdicts on them stay.
    fn holes(&self) -> Vec<Hole>;

    /// A time of the clock, without a step ahead that is in doubt.
    fn believed(&self, time: TimeMs) -> TimeMs;

    /// What was stored since it was last asked for.
    fn arrivals(&self) -> &Arrivals;

    /// Counts, sizes and limits, for metrics.
    fn stats(&self) -> Stats;

    /// All that is stored of the window.
    fn verdicts(&self, window: Range<TimeMs>) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        async move {
            let intervals = self.intervals(window.clone()).await?;
            let outlook = self.outlook(window.clone()).await?;
            let achieved = self.achieved(window.clone()).await?;
            Ok(Verdicts { intervals, outlook, achieved, history: self.history(window).await? })
        }
    }
}

/// What became of a replacement of one node.
fn only(refused: Vec<(String, StoreError)>) -> Result<(), StoreError> {
    refused.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

/// An interval of a node and hour since the epoch.
#[cfg(test)]
pub(crate) use contract::interval;

/// What is kept in addition to the ledger: risks of two kinds, an advisory and a standing.
#[cfg(test)]
pub(crate) fn examples() -> crate::forecast::Outlook {
    use crate::forecast::{Fault, Kind, Memory, Outlook};
    let kinds = [Kind::Memory(Memory::Gpu), Kind::Hardware(Fault::RemapPending)];
    Outlook {
        risks: kinds.map(|kind| contract::risk("a", 1, kind)).into(),
        advisories: vec![contract::advisory("a", 1)],
        standings: vec![contract::standing("a", 1)],
    }
}
