//! What renderings show of the model in addition to its fields.

use super::{Amount, ClassRow, Finding, MAX_FINDINGS, MAX_SPANS, Recoverable, Report, Span, text};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Class;

impl Report {
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

    /// Was some time charged to other GPUs than those that lost it?
    #[must_use]
    pub fn has_caused(&self) -> bool {
        self.gpus.iter().filter_map(|row| row.caused.as_ref()).any(|caused| caused.gpu_ms > 0)
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

    /// Findings to begin with: those with half a percent of capacity or more, and what costs as much.
    #[must_use]
    pub fn first_findings(&self) -> &[Finding] {
        let is_large = |f: &Finding| f.lost.share.is_some_and(|share| share >= text::FIRST_SHARE);
        let large = self.findings.iter().rposition(is_large).map_or(0, |last| last + 1);
        &self.findings[..large.min(text::MAX_FIRST)]
    }

    /// The others, in a line; none where there are none.
    #[must_use]
    pub fn smaller_findings(&self) -> Option<String> {
        let smaller = &self.findings[self.first_findings().len()..];
        let hours = text::hours(smaller.iter().map(|f| f.lost.gpu_ms).sum());
        match smaller.len() {
            0 => None,
            1 => Some(format!("1 smaller finding, {hours} GPU-hours.")),
            n => Some(format!("{n} smaller findings, {hours} GPU-hours.")),
        }
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

    /// The findings that a reader sees one by one; JSON has all of them, the others without evidence.
    #[must_use]
    pub fn shown_findings(&self) -> &[Finding] {
        &self.findings[..self.findings.len().min(MAX_FINDINGS)]
    }

    /// The same of what could not be judged.
    #[must_use]
    pub fn shown_unjudged(&self) -> &[Finding] {
        &self.unjudged[..self.unjudged.len().min(MAX_FINDINGS)]
    }

    /// Those that a reader sees one by one.
    pub(super) fn shown_mut(&mut self) -> impl Iterator<Item = &mut Finding> {
        self.findings.iter_mut().take(MAX_FINDINGS).chain(self.unjudged.iter_mut().take(MAX_FINDINGS))
    }
}

impl ClassRow {
    /// GPU-hours of the interval to be read.
    #[must_use]
    pub fn between(&self) -> String {
        text::between(self.interval)
    }

    fn is_seen(&self) -> bool {
        self.amount.gpu_ms > 0 || self.previous.as_ref().is_some_and(|before| before.gpu_ms > 0)
    }
}

impl Recoverable {
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

impl Finding {
    /// GPU-hours of the interval to be read.
    #[must_use]
    pub fn between(&self) -> String {
        text::between(self.interval)
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
    pub fn watch(&self) -> String {
        let is_plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
        let node = self.places.first().map(|p| p.node.as_str()).filter(is_plain).unwrap_or("NODE");
        format!("goodput-analyzer why --target {node}:9400 --for 60s")
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
