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
pub mod columns;
mod compact;
#[cfg(test)]
mod contract;
mod database;
mod days;
mod delivery;
mod directory;
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
mod intervals;
mod judged;
mod legacy;
mod merge;
mod options;
mod orphans;
mod outbox;
mod outlook;
mod ownership;
mod pages;
pub mod parquet;
pub mod postgres;
mod quarantine;
mod queue;
mod read;
mod rebuild;
mod resolve;
mod results;
mod retain;
mod rollup;
mod row;
mod samples;
mod segment;
mod segments;
mod series_rows;
mod snapshot;
mod start;
mod stats;
mod teams;
#[cfg(test)]
mod tests;
mod upkeep;
mod varint;
mod write_ahead;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::{AddAssign, Range, RangeInclusive};

pub use arrivals::Arrivals;
pub use away::untouched_until;
pub use backup::{BackedUp, backup, restore};
pub use bad_rows::{RowAside, Which, bad_rows, remove_bad_rows};
pub use chunk::read_chunk;
pub use directory::Directory;
pub use embedded::Store;
pub use error::StoreError;
pub use holes::Hole;
pub use inspect::{Held, Problem, Rows, SetAside, Status, Tell, Verified, Written, status, verify};
pub use options::{Options, wall_clock};
pub use ownership::{Ownership, ReadOwnership, Said};
pub use read::{ReadVerdicts, Verdicts, Whose};
pub use rebuild::{Rebuilt, rebuild, unquarantine};
pub use results::statements;
pub use snapshot::Snapshot;
pub use stats::{Compacted, Stats, Upkeep};

use goodput_exposition::sample::{Batch, Labels, Series, TimeMs};
use goodput_verdict::event::{Event, RunId};
use goodput_verdict::{Achieved, Interval, Message, Outlook, TeamTime, Unsubscribed};

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

/// Time series to be read.
pub trait Samples: Send + Sync {
    /// Reads series; each at most once, samples in order of time, no duplicates. All that there is, or an error.
    fn select(&self, selection: &Selection) -> impl Future<Output = Result<Vec<Series>, StoreError>> + Send;

    /// The labels of the series that match, whatever their time: no sample is read. Nothing where there is no catalogue.
    fn known(&self, _selection: &Selection) -> Vec<Labels> {
        Vec::new()
    }

    /// Samples before this have been removed by retention; verdicts on them stay. None when none ever were.
    fn raw_from(&self) -> Option<TimeMs> {
        None
    }

    /// Where samples cannot be read now, though they were acknowledged: verdicts on them stay.
    fn holes(&self) -> Vec<Hole> {
        Vec::new()
    }
}

/// Time series to be stored.
pub trait Ingest: Send + Sync {
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

/// A node: its name is unique within its cluster only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place<'a> {
    /// The cluster; `None` where its series name none, and in verdicts of earlier releases.
    pub cluster: Option<&'a str>,
    /// The node.
    pub node: &'a str,
}

impl<'a> Place<'a> {
    /// Of a cluster and a node's name.
    #[must_use]
    pub fn new(cluster: &'a Option<String>, node: &'a str) -> Self {
        Self { cluster: cluster.as_deref(), node }
    }
}

impl<'a> From<&'a str> for Place<'a> {
    /// A node without a cluster.
    fn from(node: &'a str) -> Self {
        Self { cluster: None, node }
    }
}

impl<'a> From<&'a String> for Place<'a> {
    fn from(node: &'a String) -> Self {
        node.as_str().into()
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster {
            Some(cluster) => write!(f, "{} of {cluster}", self.node),
            None => f.write_str(self.node),
        }
    }
}

/// New results of a node in a window; what is `None` stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Replacement<'a> {
    /// The node.
    pub place: Place<'a>,
    /// Its verdicts.
    pub intervals: Option<&'a [Interval]>,
    /// Its risks, advisories and standing.
    pub outlook: Option<&'a Outlook>,
}

/// Verdicts to be read and written.
pub trait Results: ReadVerdicts + Ownership {
    /// Replaces results of a window, in one transaction. Returns the nodes that cannot be stored, which keep what they had,
    /// by their places in `nodes`, and why.
    fn replace_window(
        &self,
        window: Range<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> impl Future<Output = Result<Vec<(usize, StoreError)>, StoreError>> + Send;

    /// The same, and notes that the window was judged up to a time.
    fn store_judged(
        &self,
        window: Range<TimeMs>,
        until: TimeMs,
        nodes: &[Replacement<'_>],
    ) -> impl Future<Output = Result<Vec<(usize, StoreError)>, StoreError>> + Send;

    /// The windows that begin in the range and were judged: until when, by their starts.
    fn judged_windows(
        &self,
        range: Range<TimeMs>,
    ) -> impl Future<Output = Result<BTreeMap<TimeMs, TimeMs>, StoreError>> + Send;

    /// Replaces the intervals of one node and window, in one transaction.
    fn replace(
        &self,
        place: Place<'_>,
        window: Range<TimeMs>,
        intervals: &[Interval],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            let new = Replacement { place, intervals: Some(intervals), outlook: None };
            only(self.replace_window(window, &[new]).await?)
        }
    }

    /// Replaces the risks, advisories and standings of one node and window, in one transaction.
    fn replace_outlook(
        &self,
        place: Place<'_>,
        window: Range<TimeMs>,
        outlook: &Outlook,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            let new = Replacement { place, intervals: None, outlook: Some(outlook) };
            only(self.replace_window(window, &[new]).await?)
        }
    }

    /// Replaces what was achieved in the window, in one transaction.
    fn replace_achieved(
        &self,
        window: Range<TimeMs>,
        achieved: &[Achieved],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes what teams had in a week that is delivered, in place of what was noted of it before. The week keeps the teams that it
    /// was first delivered with, and begins at this instant; `content` names them where there are none yet.
    fn note_teams(
        &self,
        week: (&str, TimeMs),
        content: &str,
        times: &[TeamTime],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes messages in one transaction, in place of what was written of the same destination, contact and week before.
    fn note_messages(&self, messages: &[Message]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes that a contact wants no more messages of a destination. Noting it again changes nothing.
    fn unsubscribe(&self, who: &Unsubscribed) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A number that grows with every change of results in the window, since the store was opened.
    fn version(&self, window: &Range<TimeMs>) -> u64;

    /// The UTC hours, by their starts, whose verdicts reach over a time this long after the full hour.
    fn hours_across(&self, into_hour_ms: i64) -> impl Future<Output = Result<Vec<TimeMs>, StoreError>> + Send;
}

/// The store in a data directory: samples and verdicts in one place, and what it knows of how they came in.
pub trait Embedded: Samples + Ingest + Results {
    /// Windows whose results lost rows that could not be read, and that were not judged again since.
    fn lost_windows(&self) -> Vec<Range<TimeMs>>;

    /// Such a window was judged again; where it was not, it is not one of them until the next start.
    fn note_rejudged(
        &self,
        window: &Range<TimeMs>,
        judged: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How far samples and events can be read by now.
    fn mark(&self) -> Mark;

    /// Judging begins: what is beyond the mark has not been judged. Changes nothing where a mark was noted before.
    fn note_begun(&self, mark: Mark) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Verdicts rest on all samples and events up to there.
    fn note_judged(&self, mark: Mark) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// From when on verdicts do not rest on all samples up to the mark that was last noted, or not on all events, as it was
    /// when the store was opened; none when they did, or nothing was ever judged.
    fn unjudged_from(&self) -> Option<TimeMs>;

    /// A time of the clock, without a step ahead that is in doubt.
    fn believed(&self, time: TimeMs) -> TimeMs;

    /// What was stored since it was last asked for.
    fn arrivals(&self) -> &Arrivals;

    /// Counts, sizes and limits, for metrics.
    fn stats(&self) -> Stats;
}

/// What became of a replacement of one node.
fn only(refused: Vec<(usize, StoreError)>) -> Result<(), StoreError> {
    refused.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
