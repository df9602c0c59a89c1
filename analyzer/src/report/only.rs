//! Which part of what is stored a report of one team is about.

use std::borrow::Borrow;
use std::collections::HashSet;

use crate::teams::{Line, Mapper, Mapping, PLATFORM, Teams, UNASSIGNED, Who, is_shared};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Allocation, Class, Held, Interval, Outlook, RollUp};

/// Whose time a report of one team is: what that team and those that are part of it held.
pub(crate) struct Only<'t> {
    mapping: Mapping<'t>,
    lines: Vec<Line>,
}

impl<'t> Only<'t> {
    /// Of the team of this name, as it is at `start`; none where there is none.
    pub(crate) fn of(teams: &'t Teams, name: &str, start: TimeMs) -> Option<Self> {
        let mapping = Mapping::at(teams, start);
        let lines = match name {
            UNASSIGNED => vec![Line::Unassigned],
            PLATFORM => vec![Line::Platform],
            name => mapping.below(mapping.place(name)?).into_iter().map(Line::Team).collect(),
        };
        Some(Self { mapping, lines })
    }

    /// Remembers what names led to.
    pub(super) fn chooser<'i>(&'i self) -> Chooser<'i, 'i> {
        Chooser { mapper: Mapper::new(&self.mapping), lines: &self.lines }
    }
}

/// Says of one piece of time after another whether it is in.
pub(super) struct Chooser<'o, 'i> {
    mapper: Mapper<'o, 'i>,
    lines: &'o [Line],
}

impl<'i> Chooser<'_, 'i> {
    pub(super) fn has(&mut self, class: Class, who: Who<'i>) -> bool {
        // Where platform is not asked for, time that it has is left out before its names are looked up.
        let is_out = is_shared(class) && !self.lines.contains(&Line::Platform);
        !is_out && self.lines.contains(&self.mapper.line(class, who))
    }
}

/// The owners that a report is about; all, where none are chosen.
pub(super) type Owners = Option<HashSet<String>>;

/// Is an owner one of them?
pub(super) fn has(owners: &Owners, owner: Option<&str>) -> bool {
    owners.as_ref().is_none_or(|owners| owner.is_some_and(|owner| owners.contains(owner)))
}

/// What is in, of items or intervals.
pub(crate) fn chosen<T: Borrow<Interval>>(all: Vec<T>, only: &Only<'_>) -> Vec<T> {
    let is_in: Vec<bool> = {
        let mut chooser = only.chooser();
        all.iter().map(|one| chooser.has(one.borrow().class, Who::of(one.borrow()))).collect()
    };
    all.into_iter().zip(is_in).filter_map(|(one, is_in)| is_in.then_some(one)).collect()
}

/// What is in of an hour.
pub(super) fn part_of(mut hour: RollUp, only: Option<&Only<'_>>) -> RollUp {
    let Some(only) = only else { return hour };
    let mut chooser = only.chooser();
    for Held { allocation, parts } in &mut hour.held {
        let Allocation { owner, run, account, .. } = &*allocation;
        let who = Who { node: &hour.node, account: account.as_deref(), owner: owner.as_deref(), run: run.as_deref() };
        parts.retain(|part| chooser.has(part.class, who));
    }
    drop(chooser);
    hour.held.retain(|held| !held.parts.is_empty());
    hour
}

/// Of what was at risk and advised, what was that of these owners. Nodes stay: their jobs compare themselves with them.
pub(super) fn of_owners(outlook: &mut Outlook, owners: &Owners) {
    outlook.risks.retain(|risk| risk.last.owners.iter().any(|owner| has(owners, Some(owner))));
    outlook.advisories.retain(|advice| has(owners, advice.owner.as_deref()));
}
