//! The goodput report: a model computed from intervals, and its renderings.
//!
//! [`build`] is pure; so are the renderings [`markdown`], [`html`] and [`csv`]. The JSON form is the model itself,
//! its shape is documented here at each field and versioned by [`SCHEMA_VERSION`].

use schemars::JsonSchema;
use serde::Serialize;

use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::sampling::Bounds;
use goodput_verdict::{CauseKind, Class, Gain, Group, Instance, Outlook, Remedy};

mod advisory;
mod build;
mod caused;
mod chart;
mod collectives;
mod comparison;
mod contradiction;
pub mod csv;
mod evidence;
mod fill;
mod finding;
mod gap;
#[cfg(test)]
mod golden_tests;
mod group;
pub mod html;
mod identity;
mod losses;
pub mod markdown;
mod most;
mod mount_table;
mod names;
mod only;
mod order;
mod owned;
pub mod period;
mod port_table;
mod price;
mod recall;
mod risk;
mod rows;
pub mod runs;
mod scope;
pub mod serving;
pub mod showback;
mod shown;
pub(crate) mod site;
mod stored;
mod sum;
mod summed;
pub mod team_check;
pub mod team_csv;
mod team_weeks;
mod teams;
mod template;
pub mod text;
pub mod throughput;
mod trial;
pub mod tuning;
pub mod units;
mod waterfall;

pub use advisory::{AdvisedGpu, AdvisoryRow, advice_meaning, advice_remedies};
pub(crate) use build::{Ledger, other_rules};
pub use build::{build, build_by_team};
pub use collectives::{InCollectives, LastComer};
pub use comparison::Comparison;
pub use contradiction::Contradiction;
pub(crate) use fill::{About, filled};
pub(crate) use finding::{evidence, missing, rule_versions};
pub use gap::Gap;
pub use group::FindingGroup;
pub(crate) use losses::Losses;
pub use mount_table::{MountRow, MountTable};
pub use names::Names;
pub(crate) use only::{Only, chosen};
pub(crate) use order::has_one_price;
pub(crate) use owned::finding_weeks;
pub use period::{Period, PeriodError};
pub use port_table::{PortRow, PortTable};
pub(crate) use price::MICROS;
pub use price::{Electricity, Price, Terms};
pub(crate) use recall::recall_clusters;
pub use risk::{RiskRow, RunsOut, Stretch};
pub(crate) use risk::{outlook as risk_outlook, remedies as risk_remedies, signs as risk_signs, title as risk_title};
pub(crate) use rows::By;
pub use runs::Run;
pub use scope::Scope;
pub use site::Site;
pub use stored::{Wanted, intervals, stored, stored_by_team, teams_in};
pub(crate) use stored::{items, items_of, recall_in, served};
pub(crate) use sum::Sum;
pub use sum::{Amount, Cost, Drawn};
pub(crate) use summed::{Item, Summed};
pub use team_weeks::TeamWeek;
pub(crate) use team_weeks::team_weeks;
pub use teams::{TeamClass, TeamFinding, TeamPart, TeamRow, TeamTable};
pub use template::Template;
pub use trial::{Added, PartialAnswers, Scrape, Trial, Untold};

/// Version of the JSON form; a field that goes or changes its meaning raises it, a field that comes does not.
pub const SCHEMA_VERSION: u32 = 7;

/// How fleet goodput is computed; printed next to the number.
pub const FORMULA: &str = "goodput = productive GPU time / capacity; capacity = all GPU time accounted for, \
                           unallocated time and time without data included";

const MS_PER_HOUR: f64 = 3_600_000.0;
/// Below this share of data, goodput is that of the time with data, and nothing is compared: the change would be that of
/// the data.
const LEAST_COVERAGE: f64 = 0.9;
const MAX_SPANS: usize = 4;
/// Most findings, groups or rows of tuning that are shown; the JSON form has the others.
pub const MAX_FINDINGS: usize = 30;

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this form of the report.
    pub schema_version: u32,
    /// What the report is about.
    pub period: Period,
    /// First and last instant that a verdict covers; null when there is none.
    pub accounted: Option<Span>,
    /// What makes the figures incomplete, in sentences; not there where nothing does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The fleet in five numbers.
    pub fleet: Fleet,
    /// Every class, those without loss included; shares are of capacity.
    pub classes: Vec<ClassRow>,
    /// What the period is compared with.
    pub comparison: Comparison,
    /// The same in the time that is compared; null where it cannot be.
    pub previous: Option<Previous>,
    /// What the verdicts rest on.
    pub coverage: Coverage,
    /// Losses with a named cause, by cost, the most first: money where all of the losses have a price in one currency, else
    /// GPU-time.
    pub findings: Vec<Finding>,
    /// The same, those of one cause and one remedy together, by cost as well: in this order they are read.
    pub groups: Vec<FindingGroup>,
    /// What costs this much is among the first groups, of the currency of the prices; null where only shares decide.
    pub first_at_least: Option<f64>,
    /// Time that could not be judged, and why; by loss.
    pub unjudged: Vec<Finding>,
    /// Memory, disks, pods and GPUs that were at risk; the last to be at risk first.
    pub risks: Vec<RiskRow>,
    /// What deserves attention though no GPU-time is charged to it; what lasted longest first.
    pub advisories: Vec<AdvisoryRow>,
    /// How nodes are set up, how that differs within a pool, and which nodes are slow.
    pub tuning: tuning::Tuning,
    /// Signals that were missing, and what would give them.
    pub gaps: Vec<Gap>,
    /// Signals that contradict each other, or are no readings; not there when none do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// The prices that applied; empty where none are configured or none matches.
    pub prices: Vec<AppliedPrice>,
    /// By cluster; empty where series name none.
    pub clusters: Vec<Row>,
    /// Time held, by account, greatest loss first: namespaces of pods, accounts of Slurm jobs. Empty where none is known.
    pub accounts: Vec<Row>,
    /// By team; not there where no teams are configured.
    #[serde(skip_serializing_if = "TeamTable::is_bare")]
    pub teams: TeamTable,
    /// Time held, by run, greatest loss first; shares are of the time held by the run. A run is an owner, or the job whose
    /// ranks are owners of their own, as pods are.
    pub owners: Vec<Row>,
    /// Capacity, by node, greatest loss first; shares are of the node's capacity.
    pub nodes: Vec<Row>,
    /// Capacity, by GPU model.
    pub models: Vec<Row>,
    /// Capacity, by GPU UUID.
    pub gpus: Vec<Row>,
    /// Index on its node, by UUID, of the GPUs whose series tell it; not there when none does.
    #[serde(rename = "gpu_indices", skip_serializing_if = "Names::is_empty")]
    pub names: Names,
    /// What jobs count themselves; not there when no job is known to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<throughput::Throughput>,
    /// The work of inference servers; not there when none reported any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<serving::Serving>,
    /// What jobs reported about their runs; not there when none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// What the samples of another server left open, and what would show it; only there in reports of `try`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// What happened when, for the chart; the CSV form has all of it.
    #[serde(skip)]
    pub timeline: chart::Timeline,
}

/// From (inclusive) to (exclusive), with the GPU time in between that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Span {
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds.
    pub end_ms: TimeMs,
    /// GPU-milliseconds.
    pub gpu_ms: i64,
}

/// The fleet's ledger in short. `productive + lost + no data = capacity`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fleet {
    /// How `goodput` is computed, in words.
    pub formula: &'static str,
    /// What is shown first.
    pub headline: Headline,
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
    /// Of capacity: everything else that has data.
    pub lost: Amount,
    /// Of capacity: without data. What it was is not known, so it is not lost.
    pub no_data: Amount,
}

/// The number that is shown first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// `goodput`; where less than 90 % of capacity has data, `goodput_of_known`.
    pub goodput: Option<f64>,
    /// Is it that of the time with data alone?
    pub is_of_known: bool,
}

/// One class of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassRow {
    /// The class.
    pub class: Class,
    /// The group it is summed under.
    pub group: Group,
    /// Time in this class; share of capacity.
    pub amount: Amount,
    /// Its 90 % interval, by how densely signals were sampled; null where verdicts of earlier releases are in.
    pub interval: Option<Bounds>,
    /// The same in the time that is compared; null where it cannot be.
    pub previous: Option<Amount>,
}

/// The time that is compared: the period before, or as much of it as this one has had.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Previous {
    /// `2026-W46`, part of it, or start and end.
    pub label: String,
    /// Its goodput.
    pub goodput: Option<f64>,
    /// This period's goodput minus that one's; null when either is unknown.
    pub goodput_change: Option<f64>,
    /// Its capacity.
    pub capacity: Amount,
    /// Everything in it that has data and was not productive.
    pub lost: Amount,
}

/// How much of capacity has data, and which signal said busy or not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Share of capacity.
    pub with_data: Amount,
    /// Time by the signal that said busy; shares are of the time with data.
    pub busy_signals: Vec<BusySignal>,
    /// Time whose energy is known by the board's energy counter; share of capacity.
    pub energy_counted: Amount,
    /// Time whose energy is known by power at each scrape only; share of capacity.
    pub energy_by_power: Amount,
    /// Time without a price, by model; shares are of capacity. Empty where no prices are configured.
    pub unpriced: Vec<Unpriced>,
    /// What was judged by other rules than this release has, from first to last; null where nothing was.
    pub other_rules: Option<Span>,
}

/// Time of a model that no price matches.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unpriced {
    /// The model; null where it is not known.
    pub model: Option<String>,
    /// How much.
    pub amount: Amount,
}

/// A price of the configuration, and what it applied to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AppliedPrice {
    /// Pattern of models.
    pub model: String,
    /// Pattern of nodes; null is any.
    pub node: Option<String>,
    /// Pattern of clusters; null is any.
    pub cluster: Option<String>,
    /// Three letters (ISO 4217).
    pub currency: String,
    /// Of the currency, per GPU-hour.
    pub per_gpu_hour: f64,
    /// Of the currency, per kilowatt-hour; null where the price of a GPU-hour has it in.
    pub per_kwh: Option<f64>,
    /// Power usage effectiveness, by which energy was multiplied; null without `per_kwh`.
    pub pue: Option<f64>,
    /// First day, in the period's zone.
    pub valid_from: String,
    /// Time that it applied to; share of capacity.
    pub amount: Amount,
}

/// Time whose verdicts rest on one busy signal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BusySignal {
    /// Its name; null where the verdict needed none.
    pub signal: Option<String>,
    /// How much time.
    pub amount: Amount,
}

/// One loss: a class, and one run; where no owner held the GPU, one node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The cluster of the run or node; null where series name none.
    pub cluster: Option<String>,
    /// The class.
    pub class: Class,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// Time lost; share of capacity.
    pub lost: Amount,
    /// Its 90 % interval; null where verdicts of earlier releases are in.
    pub interval: Option<Bounds>,
    /// The same class and run (where no owner held the GPU: node) in the period before; null where it cannot be
    /// compared.
    pub previous: Option<Amount>,
    /// What acting on it is said to return, by a source; null where no source gives a figure.
    pub gain: Option<&'static Gain>,
    /// What that is of this loss, at most all of it; null without `gain`.
    pub recoverable: Option<Recoverable>,
    /// Which run held the GPUs: an owner, or the job whose ranks are owners; null where none did, or it is unknown.
    pub owner: Option<String>,
    /// The node of the GPUs, where no owner held them.
    #[serde(skip)]
    pub node: Option<String>,
    /// Where, greatest loss first; shares are of this finding's loss.
    pub places: Vec<Place>,
    /// The GPUs that were waited for, the one that caused the most first; shares are of this finding's loss. Empty
    /// where none is named.
    pub culprits: Vec<Place>,
    /// The ports that were waited for, the one that caused the most first; shares are of this finding's loss. Empty where
    /// none is named.
    pub ports: Vec<Port>,
    /// All ports of the run; null where nothing is kept of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_table: Option<PortTable>,
    /// The time of the run in collectives, as NCCL's Inspector tells it; null where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collectives: Option<InCollectives>,
    /// The network file systems and disks that were waited for, the one that took the most first; shares are of this finding's
    /// loss. Empty where none is named.
    pub storage: Vec<Storage>,
    /// The pods, runs, queues and partitions that waited while these GPUs were free, the one with the most time first, those that
    /// were kept out with what was short before their name; shares are of this finding's loss. Empty where none is named.
    pub waiting: Vec<Waiting>,
    /// All network file systems of the nodes of the run; null where it waited for none, or nothing is kept of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_table: Option<MountTable>,
    /// Its causes, where the class has several, the greatest first; shares are of this finding's loss.
    pub causes: Vec<CauseAmount>,
    /// When: stretches without a pause, in order of time.
    pub spans: Vec<Span>,
    /// 0 to 1, weighted by time.
    pub confidence: f64,
    /// Versions of the rules of the class by which it was judged, in order; null stands for releases that did not tell.
    pub rule_versions: Vec<Option<u32>>,
    /// The numbers behind the verdict, of the first 30 findings and the first of each of the first 30 groups; empty in others.
    pub evidence: Vec<Proof>,
    /// Signals whose absence kept rules from judging; with them the class might be another.
    pub missing: Vec<String>,
    /// What to do.
    pub remedies: &'static [Remedy],
    /// The commands of `remedies`, in their order, as they are typed; null where there is none, or what it is about is not
    /// known.
    pub commands: Vec<Option<String>>,
    /// What is to be seen after that.
    pub check: &'static str,
    /// The evidence over time; the CSV form has it as numbers.
    #[serde(skip)]
    pub curves: Vec<evidence::Curve>,
    /// Marks of their axis.
    #[serde(skip)]
    pub ticks: Vec<chart::Tick>,
}

/// What may come back of a loss; shares are of capacity, energy and cost are of the loss in proportion to its time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recoverable {
    /// The least.
    pub low: Amount,
    /// The most.
    pub high: Amount,
}

/// A GPU within a finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Place {
    /// The node.
    pub node: String,
    /// The GPU's UUID.
    pub gpu: String,
    /// Which of its MIG instances, where it is one's time.
    pub gpu_instance: Option<Instance>,
    /// Its model, where known.
    pub model: Option<String>,
    /// Time lost here; of a culprit, lost by others and caused here.
    pub amount: Amount,
}

/// A port of a node, or a node, that GPUs waited for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Port {
    /// The node.
    pub node: String,
    /// Its RDMA port (`device/port`) or network interface; null where the node alone is named.
    pub which: Option<String>,
    /// Time lost by others and caused here.
    pub amount: Amount,
}

/// A network file system or a disk of a node that GPUs waited for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Storage {
    /// The node.
    pub node: String,
    /// Its mount point, else its export; or the disk.
    pub which: String,
    /// Time lost here.
    pub amount: Amount,
}

/// Who waited for a GPU while some were free.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Waiting {
    /// The pod or its run, the queue or the partition; `cpu for ml/train` where CPUs kept it out.
    pub which: String,
    /// Free time meanwhile.
    pub amount: Amount,
}

/// Time with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CauseAmount {
    /// The cause.
    pub cause: CauseKind,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// How much.
    pub amount: Amount,
}

/// A signal against its threshold.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proof {
    /// The signal's name.
    pub signal: String,
    /// Mean over the cells of the finding, weighted by the time lost in them.
    pub mean: f64,
    /// Smallest mean of an interval.
    pub min: f64,
    /// Greatest mean of an interval.
    pub max: f64,
    /// What each cell was compared with, on average.
    pub threshold: f64,
    /// Unit of all four.
    pub unit: String,
}

/// A line of the tables per account, run, node, model and GPU.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The cluster of the run, node or GPU; null where series name none, and in tables of clusters, accounts and models.
    pub cluster: Option<String>,
    /// The cluster, account, run, node, model or UUID; null when unknown.
    pub name: Option<String>,
    /// Where: the GPU's node; null in other tables.
    pub node: Option<String>,
    /// How many GPUs.
    pub gpus: usize,
    /// The time that this line is about, the whole of the line's shares.
    pub total: Amount,
    /// Productive time.
    pub productive: Amount,
    /// Everything else that has data.
    pub lost: Amount,
    /// Time without data.
    pub no_data: Amount,
    /// The same in the time that is compared; null where it cannot be.
    pub lost_before: Option<Amount>,
    /// What was lost by class, greatest first.
    pub losses: Vec<ClassAmount>,
    /// Time that GPUs lost while they waited for a GPU or a port of this line. It is on their own rows and never to be added to
    /// what was lost here; shares are of capacity. Null in the tables of accounts, runs and models.
    pub caused: Option<Amount>,
}

/// Time in one class.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassAmount {
    /// The class.
    pub class: Class,
    /// How much.
    pub amount: Amount,
    /// Its 90 % interval; null where verdicts of earlier releases are in.
    pub interval: Option<Bounds>,
}

impl Report {
    /// The same with what was at risk, what was advised and how nodes compared in the period.
    #[must_use]
    pub fn with_outlook(mut self, outlook: &Outlook) -> Self {
        for finding in &mut self.findings {
            finding.port_table = port_table::port_table(finding, &outlook.standings);
            finding.mount_table = mount_table::mount_table(finding, &outlook.standings);
            finding.collectives = collectives::in_collectives(finding, &outlook.standings);
        }
        let (risks, advisories) = (risk::rows(&outlook.risks), advisory::rows(&outlook.advisories));
        let tuning = tuning::tuning(
            &outlook.standings,
            self.nodes.iter().filter_map(|row| Some(goodput_store::Place::new(&row.cluster, row.name.as_deref()?))),
        );
        Self { risks, advisories, tuning, ..self }
    }

    /// The same, with what these terms say beside prices: which costs are among the first, which requests were in time,
    /// how many replicas were needed.
    #[must_use]
    pub fn with_terms(self, terms: &Terms) -> Self {
        let serving = self.serving.map(|serving| serving.with_terms(&terms.serving));
        Self { first_at_least: terms.first_at_least, serving, ..self }
    }

    /// The first of its kind of memory carries the remedies; those after it refer to it.
    #[must_use]
    pub fn is_first_risk(&self, risk: &RiskRow) -> bool {
        self.risks.iter().find(|r| r.kind == risk.kind) == Some(risk)
    }

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

    /// What was judged by rules of other releases, and how to judge it by those of this one; to be read.
    #[must_use]
    pub fn judged_otherwise(&self) -> Option<String> {
        let span = self.coverage.other_rules.as_ref()?;
        let hours = self.period.around(span.start_ms, span.end_ms);
        let shown = [self.period.show(hours.start_ms), self.period.show(hours.end_ms)];
        Some(text::judged_otherwise(span.gpu_ms, shown.each_ref().map(String::as_str), &hours.start, &hours.end))
    }

    /// Findings and what could not be judged.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(&self.unjudged)
    }

    /// The number of the first finding of its class with its remedies, which carries them; those after it refer to it.
    /// Groups are numbered first, then what could not be judged.
    #[must_use]
    pub fn first_like(&self, finding: &Finding) -> Option<usize> {
        let largest = |group: &FindingGroup| self.findings.get(*group.findings.first()?);
        let all = self.groups.iter().map(largest).chain(self.unjudged.iter().map(Some));
        let is_like = |other: &Finding| other.class == finding.class && other.remedies == finding.remedies;
        all.enumerate().find(|(_, other)| other.is_some_and(is_like)).map(|(n, _)| n + 1)
    }
}

/// Part of a whole; nothing is no part of nothing.
fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
