//! The goodput report: a model computed from intervals, and its renderings.
//!
//! [`build`] is pure; so are the renderings [`markdown`], [`html`] and [`csv`]. The JSON form is the model itself,
//! its shape is documented here at each field and versioned by [`SCHEMA_VERSION`].

use serde::Serialize;

use crate::classify::{Class, Group};
use crate::sample::TimeMs;

mod build;
mod chart;
pub mod csv;
#[cfg(test)]
mod golden;
pub mod html;
pub mod markdown;
pub mod period;
mod remedy;
pub mod text;

pub use build::build;
pub(crate) use build::{Ledger, evidence, missing};
pub use period::{Period, PeriodError};
pub use remedy::{Remedy, meaning, remedies};

/// Version of the JSON form; a field that goes or changes its meaning raises it, a field that comes does not.
pub const SCHEMA_VERSION: u32 = 1;

/// How fleet goodput is computed; printed beside the number.
pub const FORMULA: &str = "goodput = productive GPU time / capacity; capacity = all GPU time accounted for, \
                           unallocated time and time without data included";

const MS_PER_HOUR: f64 = 3_600_000.0;
const MAX_SPANS: usize = 4;

/// GPU time and the part that it is of some whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Amount {
    /// GPU-milliseconds, exact.
    pub gpu_ms: i64,
    /// The same in GPU-hours.
    pub gpu_hours: f64,
    /// 0 to 1, of the whole that the field's owner names; null when that whole is nothing.
    pub share: Option<f64>,
}

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What the report is about.
    pub period: Period,
    /// First and last instant that a verdict covers; null when there is none.
    pub accounted: Option<Span>,
    /// The fleet in five numbers.
    pub fleet: Fleet,
    /// Every class, those without loss included; shares are of capacity.
    pub classes: Vec<ClassRow>,
    /// The period before; null when no verdicts are stored for it.
    pub previous: Option<Previous>,
    /// What the verdicts rest on.
    pub coverage: Coverage,
    /// Losses with a named cause, greatest first.
    pub findings: Vec<Finding>,
    /// Time that could not be judged, and why.
    pub unjudged: Vec<Finding>,
    /// Time held, by owner, greatest loss first; shares are of the time held by the owner.
    pub owners: Vec<Row>,
    /// Capacity, by node, greatest loss first; shares are of the node's capacity.
    pub nodes: Vec<Row>,
    /// Capacity, by GPU model.
    pub models: Vec<Row>,
    /// Capacity, by GPU UUID.
    pub gpus: Vec<Row>,
    /// What happened when, for the chart; the CSV form has all of it.
    #[serde(skip)]
    pub timeline: chart::Timeline,
}

/// From (inclusive) to (exclusive), with the GPU time in between that it is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds.
    pub end_ms: TimeMs,
    /// GPU-milliseconds.
    pub gpu_ms: i64,
}

/// The fleet's ledger in short. `productive + lost = allocated`, `allocated + unallocated and no data = capacity`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// How `goodput` is computed, in words.
    pub formula: &'static str,
    /// Productive over capacity; null when there is no capacity, or none of it has data.
    pub goodput: Option<f64>,
    /// Productive over the time with data; null when there is none.
    pub goodput_of_known: Option<f64>,
    /// What goodput would be at most, had all time without data been productive.
    pub goodput_at_most: Option<f64>,
    /// GPUs with any capacity in the period.
    pub gpus: usize,
    /// Nodes with any capacity in the period.
    pub nodes: usize,
    /// All GPU time accounted for.
    pub capacity: Amount,
    /// Of capacity: held by someone.
    pub allocated: Amount,
    /// Of capacity: productive.
    pub productive: Amount,
}

/// One class of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRow {
    /// The class.
    pub class: Class,
    /// The group it is summed under.
    pub group: Group,
    /// Time in this class; share of capacity.
    pub amount: Amount,
    /// The same in the period before; null when that is unknown.
    pub previous: Option<Amount>,
}

/// The period before, for comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Previous {
    /// `2026-W46`, or start and end.
    pub label: String,
    /// Its goodput.
    pub goodput: Option<f64>,
    /// This period's goodput minus that one's; null when either is unknown.
    pub goodput_change: Option<f64>,
    /// Its capacity.
    pub capacity: Amount,
}

/// How much of capacity has data, and which signal said busy or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Share of capacity.
    pub with_data: Amount,
    /// Time by the signal that said busy; shares are of the time with data.
    pub busy_signals: Vec<BusySignal>,
}

/// Time whose verdicts rest on one busy signal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusySignal {
    /// Its name; null where the verdict needed none.
    pub signal: Option<String>,
    /// How much time.
    pub amount: Amount,
}

/// One loss: a class, and one owner; where nobody held the GPU, one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The class.
    pub class: Class,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// Time lost; share of capacity.
    pub lost: Amount,
    /// Who held the GPUs; null where nobody did, or nobody knows.
    pub owner: Option<String>,
    /// Where, greatest loss first; shares are of this finding's loss.
    pub places: Vec<Place>,
    /// When: stretches without a pause, in order of time.
    pub spans: Vec<Span>,
    /// 0 to 1, weighted by time.
    pub confidence: f64,
    /// The numbers behind the verdict.
    pub evidence: Vec<Proof>,
    /// Signals whose absence kept rules from judging; with them the class might be another.
    pub missing: Vec<String>,
    /// What to do.
    pub remedies: &'static [Remedy],
}

/// A GPU within a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The node.
    pub node: String,
    /// The GPU's UUID.
    pub gpu: String,
    /// Its model, where known.
    pub model: Option<String>,
    /// Time lost here.
    pub amount: Amount,
}

/// A signal against its threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// The signal's name.
    pub signal: String,
    /// Mean over the cells of the finding, weighted by the time lost in them.
    pub mean: f64,
    /// Smallest mean of an interval.
    pub min: f64,
    /// Greatest mean of an interval.
    pub max: f64,
    /// What each cell was held against, on average.
    pub threshold: f64,
    /// Unit of all four.
    pub unit: String,
}

/// A line of the tables per owner, node, model and GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The owner, node, model or UUID; null when unknown.
    pub name: Option<String>,
    /// Where: the GPU's node; null in other tables.
    pub node: Option<String>,
    /// How many GPUs.
    pub gpus: usize,
    /// The time that this line is about, the whole of the line's shares.
    pub total: Amount,
    /// Productive time.
    pub productive: Amount,
    /// Everything else by class, greatest first.
    pub losses: Vec<ClassAmount>,
}

/// Time in one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassAmount {
    /// The class.
    pub class: Class,
    /// How much.
    pub amount: Amount,
}

impl Amount {
    /// `gpu_ms` as a part of `whole_ms`.
    #[must_use]
    pub fn of(gpu_ms: i64, whole_ms: i64) -> Self {
        Self { gpu_ms, gpu_hours: gpu_ms as f64 / MS_PER_HOUR, share: ratio(gpu_ms, whole_ms) }
    }

    /// GPU-hours to be read.
    #[must_use]
    pub fn hours(&self) -> String {
        text::hours(self.gpu_ms)
    }

    /// The share to be read.
    #[must_use]
    pub fn percent(&self) -> String {
        text::percent(self.share)
    }
}

impl Report {
    /// The JSON form, indented, with a newline at the end.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Where the verdicts end, when that is before the period's end.
    #[must_use]
    pub fn reaches_to(&self) -> Option<String> {
        let end = self.accounted.as_ref().map(|span| span.end_ms).filter(|end| *end < self.period.end_ms)?;
        Some(self.period.show(end))
    }

    /// Findings and what could not be judged, in the order of their numbers in the report.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(&self.unjudged)
    }

    /// The first finding of a class carries the remedies; those after it refer to it.
    #[must_use]
    pub fn first_of(&self, class: Class) -> Option<usize> {
        self.all_findings().position(|f| f.class == class).map(|n| n + 1)
    }
}

impl Finding {
    /// Who held the GPUs, to be read.
    #[must_use]
    pub fn holder(&self) -> &str {
        let nobody = self.class == Class::Unallocated;
        self.owner.as_deref().unwrap_or(if nobody { "nobody" } else { text::UNKNOWN })
    }

    /// The owner, else the node: what tells this finding from others of its class.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.owner.as_deref().or(self.places.first().map(|p| p.node.as_str())).unwrap_or_default()
    }

    /// When it began.
    #[must_use]
    pub fn first_ms(&self) -> TimeMs {
        self.spans.first().map_or(0, |span| span.start_ms)
    }

    /// The stretches with the greatest loss, in order of time, as many as a reader takes in.
    #[must_use]
    pub fn longest_spans(&self) -> Vec<&Span> {
        let mut spans: Vec<&Span> = self.spans.iter().collect();
        spans.sort_by_key(|span| std::cmp::Reverse(span.gpu_ms));
        spans.truncate(MAX_SPANS);
        spans.sort_by_key(|span| span.start_ms);
        spans
    }

    /// How many stretches [`Self::longest_spans`] leaves out.
    #[must_use]
    pub fn more_spans(&self) -> usize {
        self.spans.len().saturating_sub(MAX_SPANS)
    }
}

/// Part of a whole; nothing is no part of nothing.
fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
