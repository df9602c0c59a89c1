//! What renderings show of the model in addition to its fields.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::chart::Lane;
use super::{
    Amount, ClassRow, Finding, FindingGroup, MAX_FINDINGS, MAX_SPANS, Port, Recoverable, Report, Row, Scope, Span,
    Storage, fill, text,
};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Class;

/// Findings whose evidence and remedies are unfolded at first, and printed: with the page of the whole, about six pages.
pub(super) const MAX_OPEN: usize = 5;
/// Rows of the table of accounts, at most, with which it is unfolded at first: on a telephone each is a card.
pub(super) const MAX_ROWS_OPEN: usize = 10;
/// Findings of a group that are listed after its largest.
const MAX_MEMBERS: usize = 20;

impl Report {
    /// What a row of a table is of, to be read: of a GPU, its index and its node.
    #[must_use]
    pub fn label(&self, row: &Row) -> String {
        match (&row.node, &row.name) {
            (Some(node), Some(gpu)) => self.names.on_node(node, gpu),
            _ => text::name(&row.name).to_owned(),
        }
    }

    /// The GPUs of the timeline, in the order of nodes and indices.
    #[must_use]
    pub fn lanes(&self) -> Vec<&Lane> {
        let mut lanes: Vec<&Lane> = self.timeline.lanes.iter().collect();
        lanes.sort_by_key(|lane| (&lane.node, self.names.order(&lane.gpu)));
        lanes
    }

    /// Is energy known for any time?
    #[must_use]
    pub fn has_energy(&self) -> bool {
        self.fleet.capacity.energy.is_some() || self.previous.as_ref().is_some_and(|p| p.capacity.energy.is_some())
    }

    /// Does any time have a price?
    #[must_use]
    pub fn has_money(&self) -> bool {
        !self.prices.is_empty()
    }

    /// Does any team name who pays?
    #[must_use]
    pub fn has_cost_centres(&self) -> bool {
        self.teams.rows.iter().any(|row| row.cost_centre.is_some())
    }

    /// Under which number a group of findings stands, where it is shown.
    #[must_use]
    pub fn group_number(&self, id: &str) -> Option<usize> {
        self.shown_groups().iter().position(|group| group.id == id).map(|n| n + 1)
    }

    /// Was some time of others charged to these nodes or GPUs?
    #[must_use]
    pub fn has_caused(rows: &[Row]) -> bool {
        rows.iter().filter_map(|row| row.caused.as_ref()).any(|caused| caused.gpu_ms > 0)
    }

    /// Is some time without data?
    #[must_use]
    pub fn has_no_data(&self) -> bool {
        self.fleet.no_data.gpu_ms > 0
    }

    /// Are differences of amounts shown? Where capacity is another, shares alone are compared.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.previous.is_some() && self.comparison.has_same_capacity
    }

    /// The difference of two times to be read: in GPU-hours, or in points of their shares where capacity is another.
    #[must_use]
    pub fn change(&self, now: &Amount, before: &Amount) -> String {
        self.comparison.change(now, before)
    }

    /// How much of capacity has data, to be read.
    #[must_use]
    pub fn covered(&self) -> String {
        format!("{} of capacity has data", self.coverage.with_data.percent())
    }

    /// Against the time that is compared, to be read.
    #[must_use]
    pub fn against(&self) -> String {
        let Some(before) = &self.previous else { return format!("Change: {}.", self.hindrance()) };
        let (goodput, capacity) = (text::percent(before.goodput), before.capacity.hours());
        let mut told = format!(
            "Against {}: {} of goodput (then {goodput} of {capacity} GPU-hours)",
            before.label,
            text::points(before.goodput_change)
        );
        let _ = match self.has_changes() {
            true => write!(told, "; lost: {} GPU-hours", self.fleet.lost.hours_change(&before.lost)),
            false => write!(told, "; lost: {} of capacity", self.change(&self.fleet.lost, &before.lost)),
        };
        if self.has_changes() && self.has_money() {
            let _ = write!(told, ", {}", self.fleet.lost.money_change(&before.lost));
        }
        told + "."
    }

    /// What changes are, in a sentence.
    #[must_use]
    pub fn changes_are(&self) -> String {
        match &self.previous {
            Some(before) if self.has_changes() => format!("Changes are against {}.", before.label),
            Some(before) => {
                format!("Changes are against {}, in points of capacity, which is another now.", before.label)
            }
            None => format!("No changes are shown: {}.", self.hindrance()),
        }
    }

    fn hindrance(&self) -> &str {
        self.comparison.hindrance.as_deref().unwrap_or(text::UNKNOWN)
    }

    /// Is it about more than one cluster?
    #[must_use]
    pub fn has_clusters(&self) -> bool {
        self.clusters.len() > 1
    }

    /// In which cluster, to be read behind a name; nothing where there is only one.
    #[must_use]
    pub fn within(&self, cluster: &Option<String>) -> String {
        let told = cluster.as_ref().filter(|_| self.has_clusters());
        told.map(|cluster| format!(" in {cluster}")).unwrap_or_default()
    }

    /// Classes with time, now or before.
    pub fn seen_classes(&self) -> impl Iterator<Item = &ClassRow> {
        self.classes.iter().filter(|row| row.is_seen())
    }

    /// Names of the classes without.
    #[must_use]
    pub fn unseen_classes(&self) -> Vec<&'static str> {
        self.classes.iter().filter(|row| !row.is_seen()).map(|row| row.class.name()).collect()
    }

    /// Groups to begin with: those with half a percent of capacity or more, or that cost what is set, and what costs as much.
    #[must_use]
    pub fn first_groups(&self) -> &[FindingGroup] {
        let large = self.groups.iter().rposition(|group| group.is_first(self.first_at_least));
        let large = large.map_or(0, |last| last + 1);
        &self.groups[..large.min(text::MAX_FIRST)]
    }

    /// The others, in a line; none where there are none.
    #[must_use]
    pub fn smaller_groups(&self) -> Option<String> {
        let smaller = &self.groups[self.first_groups().len()..];
        let lost = smaller.iter().fold(Amount::default(), |sum, group| sum.plus(&group.lost));
        let money = if self.has_money() { format!(", {}", lost.money()) } else { String::new() };
        let findings = match smaller.len() {
            0 => return None,
            1 => "1 smaller finding".to_owned(),
            n => format!("{n} smaller findings"),
        };
        Some(format!("{findings}, {} GPU-hours{money}.", lost.hours()))
    }

    /// Time without a cause that is as large as a first finding, in a line.
    #[must_use]
    pub fn large_unjudged(&self) -> Option<String> {
        let sum = |class| self.classes.iter().find(|row| row.class == class).map(|row| &row.amount);
        let is_large = |amount: &&Amount| amount.share.is_some_and(|share| share >= text::FIRST_SHARE);
        let said = [(Class::NoData, "without data"), (Class::Unexplained, "unexplained")]
            .into_iter()
            .filter_map(|(class, what)| Some((sum(class).filter(is_large)?, what)))
            .map(|(amount, what)| format!("{} GPU-hours {what} ({} of capacity)", amount.hours(), amount.percent()));
        let said: Vec<String> = said.collect();
        (!said.is_empty())
            .then(|| format!("Not judged: {}; see \"What could not be judged, and why\".", said.join(", ")))
    }

    /// The groups that a reader sees one by one; JSON has all of them.
    #[must_use]
    pub fn shown_groups(&self) -> &[FindingGroup] {
        &self.groups[..self.groups.len().min(MAX_FINDINGS)]
    }

    /// Of a group, the finding that lost most.
    #[must_use]
    pub fn largest(&self, group: &FindingGroup) -> Option<&Finding> {
        group.largest(&self.findings)
    }

    /// Whose it is: the run or node, where it is one finding; else what its findings have in common.
    #[must_use]
    pub fn whose(&self, group: &FindingGroup) -> String {
        group.whose(&self.findings)
    }

    /// Of a group, those after its largest, as many as a reader takes in.
    pub fn others(&self, group: &FindingGroup) -> impl Iterator<Item = &Finding> {
        group.findings.iter().skip(1).take(MAX_MEMBERS).filter_map(|n| self.findings.get(*n))
    }

    /// The same of what could not be judged.
    #[must_use]
    pub fn shown_unjudged(&self) -> &[Finding] {
        &self.unjudged[..self.unjudged.len().min(MAX_FINDINGS)]
    }

    /// Those with evidence: the first, the largest of each group that is shown, and what could not be judged.
    pub(super) fn proven_mut(&mut self) -> impl Iterator<Item = &mut Finding> {
        let shown = self.groups.iter().take(MAX_FINDINGS);
        let largest: BTreeSet<usize> = shown.filter_map(|group| group.findings.first().copied()).collect();
        let first = self.findings.iter_mut().enumerate();
        let first = first.filter(move |(n, _)| *n < MAX_FINDINGS || largest.contains(n)).map(|(_, finding)| finding);
        first.chain(self.unjudged.iter_mut().take(MAX_FINDINGS))
    }
}

impl ClassRow {
    /// GPU-hours of the interval to be read, where it differs from the figure.
    #[must_use]
    pub fn interval_if_it_differs(&self) -> Option<String> {
        text::spread(self.interval)
    }

    fn is_seen(&self) -> bool {
        self.amount.gpu_ms > 0 || self.previous.as_ref().is_some_and(|before| before.gpu_ms > 0)
    }
}

impl FindingGroup {
    /// The one of these findings that lost most in the group.
    #[must_use]
    pub fn largest<'f>(&self, findings: &'f [Finding]) -> Option<&'f Finding> {
        findings.get(*self.findings.first()?)
    }

    /// As [`Report::whose`].
    #[must_use]
    pub fn whose(&self, findings: &[Finding]) -> String {
        match (self.findings.as_slice(), self.largest(findings)) {
            ([_], Some(finding)) => finding.subject().to_owned(),
            _ => self.subject(),
        }
    }

    /// What its findings have in common, to be read.
    #[must_use]
    pub fn subject(&self) -> String {
        self.scope.subject()
    }

    /// How many findings it has, to be read; nothing where it is one.
    #[must_use]
    pub fn count(&self) -> String {
        let what = match &self.scope {
            Scope::Template(_) => "runs",
            Scope::Pool(_) => "runs or nodes",
        };
        if self.findings.len() > 1 { format!("{} {what}", self.findings.len()) } else { String::new() }
    }

    /// How many findings [`Report::others`] leaves out.
    #[must_use]
    pub fn more(&self) -> usize {
        self.findings.len().saturating_sub(1 + MAX_MEMBERS)
    }
}

impl Recoverable {
    /// Both.
    #[must_use]
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self { low: self.low.plus(&other.low), high: self.high.plus(&other.high) }
    }

    /// GPU-hours to be read.
    #[must_use]
    pub fn hours(&self) -> String {
        text::range(self.low.hours(), self.high.hours())
    }

    /// Money to be read.
    #[must_use]
    pub fn money(&self) -> String {
        text::range(self.low.money(), self.high.money())
    }
}

impl Port {
    /// `port mlx5_4/1 of gpu-07`.
    #[must_use]
    pub fn name(&self) -> String {
        text::port(&self.node, self.which.as_deref())
    }
}

impl Storage {
    /// `/data of gpu-07`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {}", self.which, self.node)
    }
}

impl Finding {
    /// GPU-hours of the interval to be read, where it differs from the figure.
    #[must_use]
    pub fn interval_if_it_differs(&self) -> Option<String> {
        text::spread(self.interval)
    }

    /// Is it a loss? What time without data was is not known.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.class != Class::NoData
    }

    /// Who held the GPUs, to be read.
    #[must_use]
    pub fn holder(&self) -> &str {
        let nobody = matches!(self.class, Class::Unallocated | Class::StrandedMig);
        self.owner.as_deref().unwrap_or(if nobody { "nobody" } else { text::UNKNOWN })
    }

    /// The owner, else the node: what tells this finding from others of its class.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.owner.as_deref().or(self.places.first().map(|p| p.node.as_str())).unwrap_or_default()
    }

    /// The command that shows whether it is gone, on the node that lost most.
    #[must_use]
    pub fn watch(&self) -> Option<String> {
        let node = self.places.first().map(|p| p.node.as_str());
        fill::command("goodput-analyzer why --target NODE:9400 --for 60s", &fill::About { node, ..Default::default() })
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
