//! Where the report stands as a page, so that it leads to what it rests on: below the analyzer that serves it, in a file that
//! names its address, or in one that names none.

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Finding, FindingGroup, Period, Report, Row};
use goodput_exposition::sample::TimeMs;

/// What RFC 3986 lets stand as it is in every part of an address.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The pages of a GPU and of its evidence take no longer time.
const MAX_MS: i64 = 35 * 24 * 3_600_000;

/// What stands before the paths of pages, and the weeks that they lead to.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// None where it is not known: then there are no links to pages.
    base: Option<String>,
    /// Other weeks to choose, where the analyzer serves the page.
    pub weeks: Vec<Period>,
    /// Is the annex unfolded, so that it is printed too?
    pub has_annex: bool,
}

/// A part of an address.
pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Path of a node's page; without a cluster, of all nodes of the name.
pub(crate) fn node(cluster: Option<&str>, name: &str) -> String {
    format!("{}/nodes/{}", within(cluster), escaped(name))
}

fn within(cluster: Option<&str>) -> String {
    cluster.map_or(String::new(), |cluster| format!("/clusters/{}", escaped(cluster)))
}

/// Path of a run's page; without a cluster, of all runs of the name.
pub(crate) fn run(cluster: Option<&str>, name: &str) -> String {
    format!("{}/runs/{}", within(cluster), escaped(name))
}

/// Path of a GPU's page.
pub(crate) fn gpu(uuid: &str) -> String {
    format!("/gpus/{}", escaped(uuid))
}

/// Path of a team's page.
pub(crate) fn team(name: &str) -> String {
    format!("/teams/{}", escaped(name))
}

/// As addresses have times.
pub(crate) fn instant(time: TimeMs) -> String {
    Timestamp::from_millisecond(time).unwrap_or_default().to_string()
}

/// Address of the evidence of what a finding lost on its GPU that lost most.
pub(crate) fn evidence(finding: &Finding) -> Option<String> {
    let place = finding.places.first()?;
    let span = finding.spans.iter().max_by_key(|span| span.gpu_ms)?;
    let (start, end) = (span.start_ms, span.end_ms.min(span.start_ms + MAX_MS));
    let holder = finding.owner.as_ref().map_or(String::new(), |owner| format!("&holder={}", escaped(owner)));
    let instance = place.gpu_instance.as_ref().map_or(String::new(), |instance| format!("&instance={}", instance.id));
    let (page, class) = (gpu(&place.gpu), finding.class.name());
    Some(format!("{page}/evidence?class={class}&start={}&end={}{holder}{instance}", instant(start), instant(end)))
}

impl Site {
    /// A file; `link` is where people reach the analyzer.
    #[must_use]
    pub fn file(link: Option<&str>) -> Self {
        Self { base: link.map(|link| link.trim_end_matches('/').to_owned()), weeks: Vec::new(), has_annex: false }
    }

    /// A page of the analyzer.
    #[must_use]
    pub fn served(weeks: Vec<Period>) -> Self {
        Self { base: Some(String::new()), weeks, has_annex: false }
    }

    /// The same with or without the annex.
    #[must_use]
    pub fn with_annex(self, has_annex: bool) -> Self {
        Self { has_annex, ..self }
    }

    /// Does the analyzer serve it?
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.base.as_ref().is_some_and(String::is_empty)
    }

    /// The page of a GPU in the report's period.
    #[must_use]
    pub fn gpu(&self, report: &Report, uuid: &str) -> Option<String> {
        Some(format!("{}{}?{}", self.base.as_ref()?, gpu(uuid), query(&report.period)?))
    }

    /// The page of what a finding rests on.
    #[must_use]
    pub fn evidence(&self, finding: &Finding) -> Option<String> {
        Some(format!("{}{}", self.base.as_ref()?, evidence(finding)?))
    }

    /// The line of a group on the page of findings.
    #[must_use]
    pub fn finding(&self, report: &Report, group: &FindingGroup) -> Option<String> {
        Some(format!("{}/findings?{}#{}", self.base.as_ref()?, query(&report.period)?, group.id))
    }

    /// The page of a team in the report's week.
    #[must_use]
    pub fn team(&self, report: &Report, name: &str) -> Option<String> {
        let base = self.base.as_ref().filter(|_| report.period.is_week())?;
        Some(format!("{base}{}?period={}", team(name), report.period.label))
    }

    /// The page of a line's GPU, run or node.
    #[must_use]
    pub fn row(&self, report: &Report, row: &Row, anchor: &str) -> Option<String> {
        let (cluster, name) = (row.cluster.as_deref(), row.name.as_ref()?);
        let path = match anchor {
            "gpus" => gpu(name),
            "owners" => run(cluster, name),
            "nodes" => node(cluster, name),
            _ => return None,
        };
        Some(format!("{}{path}?{}", self.base.as_ref()?, query(&report.period)?))
    }
}

/// What asks a page for the period; none where that is longer than pages take.
fn query(period: &Period) -> Option<String> {
    let is_short = period.length_ms() <= MAX_MS;
    is_short.then(|| format!("start={}&end={}", instant(period.start_ms), instant(period.end_ms)))
}
