//! Whose time it is: the first entry with a pattern that matches. Each name is compared with the patterns once.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt as _};

use super::{Field, Team, Teams, is_shared};
use crate::wildcard::matches;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::owner::namespace_in;
use goodput_verdict::{Class, Interval};

const FIELDS: usize = Field::ALL.len();

/// The teams of one instant.
pub struct Mapping<'t> {
    teams: Vec<&'t Team>,
    /// Of each team the one that it is part of, where that is valid too.
    parents: Vec<Option<usize>>,
    /// By field.
    patterns: [Patterns<'t>; FIELDS],
}

/// A line of a table of teams: a team by its place, else one of the two that are always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// A team.
    Team(usize),
    /// Held by someone whom no pattern matches.
    Unassigned,
    /// Shared loss.
    Platform,
}

/// Whose time it is, by the names that are known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who<'i> {
    /// The node.
    pub node: &'i str,
    /// The account.
    pub account: Option<&'i str>,
    /// The owner.
    pub owner: Option<&'i str>,
    /// The run that the owner is part of.
    pub run: Option<&'i str>,
}

/// The patterns of one field, with the places of their teams.
#[derive(Default)]
struct Patterns<'t> {
    /// Without `*`.
    exact: HashMap<&'t str, Vec<usize>>,
    /// With `*`, in the order of teams.
    wild: Vec<(&'t str, usize)>,
}

impl<'t> Patterns<'t> {
    fn add(&mut self, text: &'t str, team: usize) {
        match text.contains('*') {
            true => self.wild.push((text, team)),
            false => self.exact.entry(text).or_default().push(team),
        }
    }

    fn first(&self, name: &str) -> Option<usize> {
        let exact = self.exact.get(name).and_then(|teams| teams.first()).copied();
        let before = self.wild.iter().take_while(|(_, team)| exact.is_none_or(|exact| *team < exact));
        before.into_iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, team)| *team).or(exact)
    }

    fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = usize> + 'p {
        let wild = self.wild.iter().filter(move |(pattern, _)| matches(pattern, name)).map(|(_, team)| *team);
        self.exact.get(name).into_iter().flatten().copied().chain(wild)
    }
}

impl<'t> Mapping<'t> {
    /// The entries that are valid at an instant: of those of one name the latest.
    #[must_use]
    pub fn at(teams: &'t Teams, time: TimeMs) -> Self {
        let since = |team: &Team| team.valid_from.as_ref().map(|from| from.ms);
        let is_valid = |team: &&Team| since(team).is_none_or(|from| from <= time);
        let mut latest: BTreeMap<&str, Option<TimeMs>> = BTreeMap::new();
        for team in teams.all.iter().filter(is_valid) {
            let known = latest.entry(&team.name).or_default();
            *known = since(team).max(*known);
        }
        let is_latest = |team: &&Team| latest.get(team.name.as_str()) == Some(&since(team));
        let teams: Vec<&Team> = teams.all.iter().filter(is_valid).filter(is_latest).collect();
        let places: HashMap<&str, usize> = teams.iter().enumerate().map(|(n, team)| (team.name.as_str(), n)).collect();
        let parents = teams.iter().map(|team| places.get(team.parent.as_deref()?).copied()).collect();
        let mut patterns = [(); FIELDS].map(|()| Patterns::default());
        for (n, team) in teams.iter().enumerate() {
            team.patterns.iter().for_each(|pattern| patterns[pattern.field as usize].add(&pattern.text, n));
        }
        Self { teams, parents, patterns }
    }

    /// The teams, by their places.
    #[must_use]
    pub fn teams(&self) -> &[&'t Team] {
        &self.teams
    }

    /// The place of the team of this name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.teams.iter().position(|team| team.name == name)
    }

    /// The team that this one is part of.
    #[must_use]
    pub fn parent(&self, team: usize) -> Option<usize> {
        self.parents.get(team).copied().flatten()
    }

    /// This team and all that are part of it, however far below.
    #[must_use]
    pub fn below(&self, team: usize) -> Vec<usize> {
        let mut found = vec![team];
        let mut next = 0;
        while let Some(above) = found.get(next).copied() {
            let children = (0..self.teams.len()).filter(|n| self.parents[*n] == Some(above));
            let new: Vec<usize> = children.filter(|n| !found.contains(n)).collect();
            found.extend(new);
            next += 1;
        }
        found
    }

    /// The name of a line, and those of the teams that are part of it.
    #[must_use]
    pub fn names_below<'n>(&'n self, name: &'n str) -> Vec<&'n str> {
        match self.place(name) {
            Some(place) => self.below(place).into_iter().map(|n| self.teams[n].name.as_str()).collect(),
            None => vec![name],
        }
    }

    /// Every team with a pattern that matches, in order; the first of them has the time.
    #[must_use]
    pub fn claimants(&self, who: &Who<'_>) -> Vec<usize> {
        let mut teams: Vec<usize> =
            who.names().flat_map(|(field, name)| self.patterns[field as usize].all(name).collect::<Vec<_>>()).collect();
        teams.sort_unstable();
        teams.dedup();
        teams
    }
}

impl<'i> Who<'i> {
    /// Of an interval.
    #[must_use]
    pub fn of(interval: &'i Interval) -> Self {
        let Interval { node, account, owner, run, .. } = interval;
        Self { node, account: account.as_deref(), owner: owner.as_deref(), run: run.as_deref() }
    }

    /// The namespace of the pod that it is.
    #[must_use]
    pub fn namespace(&self) -> Option<&'i str> {
        self.owner.or(self.run).and_then(namespace_in)
    }

    /// Each name, and the field that it is of.
    pub fn names(self) -> impl Iterator<Item = (Field, &'i str)> {
        let named = [
            (Field::Account, self.account),
            (Field::Namespace, self.namespace()),
            (Field::Owner, self.owner),
            (Field::Owner, self.run),
            (Field::Node, Some(self.node)),
        ];
        named.into_iter().filter_map(|(field, name)| Some((field, name?)))
    }
}

/// Looks lines up, and remembers what each name led to.
pub struct Mapper<'m, 'i> {
    mapping: &'m Mapping<'m>,
    known: [HashMap<&'i str, Option<usize>>; FIELDS],
}

impl<'m, 'i> Mapper<'m, 'i> {
    /// That has not seen any name yet.
    #[must_use]
    pub fn new(mapping: &'m Mapping<'m>) -> Self {
        Self { mapping, known: [(); FIELDS].map(|()| HashMap::new()) }
    }

    /// The line of time of a class.
    pub fn line(&mut self, class: Class, who: Who<'i>) -> Line {
        if is_shared(class) {
            return Line::Platform;
        }
        self.team(who).map_or(Line::Unassigned, Line::Team)
    }

    /// The first team with a pattern that matches.
    pub fn team(&mut self, who: Who<'i>) -> Option<usize> {
        let mut first = None::<usize>;
        for (field, name) in who.names() {
            let patterns = &self.mapping.patterns[field as usize];
            let found = *self.known[field as usize].entry(name).or_insert_with(|| patterns.first(name));
            first = first.into_iter().chain(found).min();
        }
        first
    }
}

#[cfg(test)]
mod tests;
