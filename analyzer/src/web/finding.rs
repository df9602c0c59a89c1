//! Findings as a table: what happened to which job, what it cost, what could return, and where its evidence is.

use std::collections::BTreeSet;

use super::chosen::Chosen;
use super::link;
use super::page::{Link, Problem};
use super::sorted::{Heads, Key};
use super::table::Filter;
use super::view::Of;
use crate::report::site::evidence;
use crate::report::{Finding, FindingGroup, Losses, Recoverable, has_one_price, text};

/// Findings of a group that are listed under it: each has two links, and a page of a large fleet has a hundred groups.
const MAX_MEMBERS: usize = 5;

/// A group of findings.
pub(super) struct Line {
    pub(super) id: String,
    /// Its own page.
    pub(super) page: String,
    /// Whether it is new, and who looks after it.
    pub(super) words: Vec<String>,
    pub(super) class: &'static str,
    /// What happened to which job.
    pub(super) sentence: String,
    pub(super) meaning: &'static str,
    /// The evidence of what was lost most.
    pub(super) evidence: Option<String>,
    pub(super) cluster: Option<String>,
    pub(super) gpus: usize,
    pub(super) cost: String,
    pub(super) hours: String,
    pub(super) share: String,
    /// GPU-hours that could return.
    pub(super) back: Option<String>,
    /// Where that figure is from.
    pub(super) basis: &'static str,
    /// Whose they are, the greatest loss first.
    pub(super) members: Vec<Member>,
    pub(super) more: usize,
}

/// A finding of a group.
pub(super) struct Member {
    /// The run; the node, where none held the GPUs.
    pub(super) whose: Link,
    pub(super) hours: String,
    pub(super) evidence: Option<String>,
}

/// Findings to be listed.
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    pub(super) has_money: bool,
    /// Of the columns that they can be sorted by.
    pub(super) heads: Heads,
    /// The form that leaves some out, where the page has no other.
    pub(super) filter: Option<Filter>,
    /// The name of the table.
    pub(super) id: &'static str,
    /// Are all filtered out?
    pub(super) is_filtered: bool,
}

impl Lines {
    /// Of these groups, in their order.
    pub(super) fn of(losses: &Losses, groups: &[FindingGroup], chosen: &Chosen) -> Self {
        Self {
            lines: groups.iter().map(|group| line(group, losses, chosen)).collect(),
            has_money: losses.groups.iter().any(|group| !group.lost.cost.is_empty()),
            heads: Heads::default(),
            filter: None,
            id: "",
            is_filtered: false,
        }
    }

    /// Of these groups, as their table is asked for.
    pub(super) fn viewed(
        losses: &Losses,
        groups: &[FindingGroup],
        chosen: &Chosen,
        of: Of<'_>,
    ) -> Result<Self, Problem> {
        let mut groups = groups.to_vec();
        let text = |group: &FindingGroup| {
            let (title, whose) = (group.class.title(), group.whose(&losses.findings));
            format!("{title} {whose} {}", group.class.name())
        };
        let view = of.view(&mut groups, columns(losses), |group, column| key(losses, group, column), text)?;
        Ok(Self {
            heads: view.heads,
            filter: Some(view.filter),
            id: view.id,
            is_filtered: view.is_empty,
            ..Self::of(losses, &groups, chosen)
        })
    }

    /// On the page of the run that all of them are of.
    pub(super) fn without_members(mut self) -> Self {
        self.lines.iter_mut().for_each(|line| line.members.clear());
        self
    }
}

/// Findings are ranked by cost, which is GPU-time where not all have one price.
pub(super) fn columns(losses: &Losses) -> &'static [&'static str] {
    match has_one_price(losses.groups.iter().map(|group| &group.lost)) {
        true => &["cost", "lost", "finding", "back", "share", "gpus"],
        false => &["lost", "finding", "back", "share", "gpus"],
    }
}

/// What the table is sorted by.
pub(super) fn key(losses: &Losses, group: &FindingGroup, column: &str) -> Key {
    match column {
        "finding" => Key::Text(group.class.title().to_owned()),
        "back" => Key::number(group.recoverable.as_ref().map(|back| back.high.gpu_ms)),
        "cost" => Key::number(group.lost.cost.first().map(|cost| cost.micros)),
        "gpus" => Key::count(gpus(losses, group)),
        _ => Key::number(group.lost.gpu_ms),
    }
}

fn gpus(losses: &Losses, group: &FindingGroup) -> usize {
    let places = group.findings.iter().filter_map(|n| losses.findings.get(*n)).flat_map(|finding| &finding.places);
    places.map(|place| (&place.node, &place.gpu)).collect::<BTreeSet<_>>().len()
}

fn line(group: &FindingGroup, losses: &Losses, chosen: &Chosen) -> Line {
    let members = || group.findings.iter().filter_map(|n| losses.findings.get(*n));
    let whose = group.whose(&losses.findings);
    Line {
        id: group.id.clone(),
        page: format!("/findings/{}?{}", group.id, chosen.query),
        words: group.words().to_vec(),
        class: group.class.name(),
        sentence: format!("{}: {whose}", group.class.title()),
        meaning: group.class.info().meaning,
        evidence: group.largest(&losses.findings).and_then(evidence),
        cluster: group.cluster.clone(),
        gpus: gpus(losses, group),
        cost: group.lost.money(),
        hours: group.lost.hours(),
        share: group.lost.percent(),
        back: group.recoverable.as_ref().map(Recoverable::hours),
        basis: group.gain.map_or("", |gain| gain.grade.name()),
        members: members().take(MAX_MEMBERS).map(|finding| member(finding, chosen)).collect(),
        more: group.findings.len().saturating_sub(MAX_MEMBERS),
    }
}

fn member(finding: &Finding, chosen: &Chosen) -> Member {
    let path = match &finding.owner {
        Some(run) => link::run(finding.cluster.as_deref(), run),
        None => link::node(finding.cluster.as_deref(), finding.subject()),
    };
    let name = if finding.subject().is_empty() { text::UNKNOWN } else { finding.subject() };
    Member {
        whose: Link::new(format!("{path}?{}", chosen.query), name),
        hours: finding.lost.hours(),
        evidence: evidence(finding),
    }
}
