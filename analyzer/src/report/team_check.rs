//! How well the teams of the configuration fit a period: what matches nothing, what several match, what none does.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::build::is_held;
use super::sum::{Amount, Sum};
use super::summed::Item;
use super::{Period, Price, stored::items};
use crate::teams::{Field, Mapping, Teams, Who};
use crate::wildcard::matches;
use goodput_store::{ReadVerdicts, StoreError};

/// Names that are listed of what several teams match.
const MAX_NAMES: usize = 5;

/// How well teams fit a period.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TeamCheck {
    /// `2026-W47`, or start and end.
    pub period: String,
    /// How many teams are valid at its start.
    pub teams: usize,
    /// Patterns that match nothing that held GPUs, in the order of teams.
    pub unused: Vec<UnusedPattern>,
    /// Time that several teams match, the most first; the first of them has it.
    pub matched_twice: Vec<MatchedTwice>,
    /// All time that someone held.
    pub held: Amount,
    /// Of this the time that no team matches.
    pub unassigned: Amount,
    /// What that is, by account, else by run, the most first; shares are of `held`.
    pub map_next: Vec<Unmapped>,
}

/// A pattern that matches nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnusedPattern {
    /// The team.
    pub team: String,
    /// `account`, `namespace`, `owner` or `node`.
    pub field: &'static str,
    /// The pattern.
    pub pattern: String,
}

/// Time that several teams match.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatchedTwice {
    /// The first of them, which has it.
    pub team: String,
    /// The others, in order.
    pub also: Vec<String>,
    /// How much time; share of `held`.
    pub amount: Amount,
    /// Some of the accounts and runs that it is of.
    pub names: Vec<String>,
}

/// Time that no team matches.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unmapped {
    /// `account`, or `owner` where no account is known.
    pub field: &'static str,
    /// The account, or the run.
    pub name: String,
    /// How much time; share of `held`.
    pub amount: Amount,
}

/// The check of a period.
pub async fn team_check(
    verdicts: &impl ReadVerdicts,
    period: &Period,
    prices: &[Price],
    teams: &Teams,
) -> Result<TeamCheck, StoreError> {
    let items = items(verdicts, &(period.start_ms..period.end_ms), prices).await?;
    let mapping = Mapping::at(teams, period.start_ms);
    Ok(TeamCheck::of(period, &mapping, &items))
}

impl TeamCheck {
    fn of(period: &Period, mapping: &Mapping<'_>, items: &[Item<'_>]) -> Self {
        let mut by_who: BTreeMap<Who<'_>, Sum<'_>> = BTreeMap::new();
        for item in items.iter().filter(|item| is_held(item.class) && item.ms > 0) {
            by_who.entry(Who::of(item.interval())).or_default().add(item);
        }
        let held = by_who.values().fold(Sum::default(), |all, sum| all.plus(sum));
        let claims: Vec<_> = by_who.iter().map(|(who, sum)| (who, mapping.claimants(who), sum)).collect();
        let free = || claims.iter().filter(|(_, teams, _)| teams.is_empty());
        Self {
            period: period.label.clone(),
            teams: mapping.teams().len(),
            unused: unused(mapping, by_who.keys()),
            matched_twice: matched_twice(mapping, &claims, held.ms),
            unassigned: free().fold(Sum::default(), |all, (.., sum)| all.plus(sum)).amount(held.ms),
            map_next: map_next(free().map(|(who, _, sum)| (*who, *sum)), held.ms),
            held: held.amount(held.ms),
        }
    }
}

fn unused<'a>(mapping: &Mapping<'_>, whos: impl Iterator<Item = &'a Who<'a>>) -> Vec<UnusedPattern> {
    let mut names: BTreeMap<Field, BTreeSet<&str>> = BTreeMap::new();
    for (field, name) in whos.flat_map(|who| who.names()) {
        names.entry(field).or_default().insert(name);
    }
    let is_used = |field: Field, pattern: &str| {
        let names = names.get(&field);
        names.is_some_and(|names| names.contains(pattern) || names.iter().any(|name| matches(pattern, name)))
    };
    let mut unused = Vec::new();
    for team in mapping.teams() {
        let patterns = team.patterns.iter().filter(|pattern| !is_used(pattern.field, &pattern.text));
        let of_team = |field: Field, text: &String| UnusedPattern {
            team: team.name.clone(),
            field: field.name(),
            pattern: text.clone(),
        };
        unused.extend(patterns.map(|pattern| of_team(pattern.field, &pattern.text)));
    }
    unused
}

/// Who, the places of the teams that match, and the time.
type Claim<'a, 'p> = (&'a Who<'a>, Vec<usize>, &'a Sum<'p>);

fn matched_twice(mapping: &Mapping<'_>, claims: &[Claim<'_, '_>], held_ms: i64) -> Vec<MatchedTwice> {
    let mut by_teams: BTreeMap<&[usize], (Sum<'_>, BTreeSet<&str>)> = BTreeMap::new();
    for (who, teams, sum) in claims.iter().filter(|(_, teams, _)| teams.len() > 1) {
        let (all, names) = by_teams.entry(teams).or_default();
        *all = std::mem::take(all).plus(sum);
        names.insert(name(who).1);
    }
    let named = |places: &[usize]| places.iter().map(|n| mapping.teams()[*n].name.clone()).collect::<Vec<_>>();
    let mut twice: Vec<MatchedTwice> = by_teams
        .into_iter()
        .filter_map(|(places, (sum, names))| {
            let (first, others) = places.split_first()?;
            Some(MatchedTwice {
                team: mapping.teams()[*first].name.clone(),
                also: named(others),
                amount: sum.amount(held_ms),
                names: names.into_iter().take(MAX_NAMES).map(str::to_owned).collect(),
            })
        })
        .collect();
    twice.sort_by_key(|one| std::cmp::Reverse(one.amount.gpu_ms));
    twice
}

/// What a pattern would best name: the account, else the run or the owner, else the node.
fn name<'i>(who: &Who<'i>) -> (Field, &'i str) {
    let held = || who.run.or(who.owner).map(|owner| (Field::Owner, owner));
    who.account.map(|account| (Field::Account, account)).or_else(held).unwrap_or((Field::Node, who.node))
}

fn map_next<'i, 'p: 'i>(free: impl Iterator<Item = (&'i Who<'i>, &'i Sum<'p>)>, held_ms: i64) -> Vec<Unmapped> {
    let mut by_name: BTreeMap<(Field, &str), Sum<'_>> = BTreeMap::new();
    for (who, sum) in free {
        let all = by_name.entry(name(who)).or_default();
        *all = std::mem::take(all).plus(sum);
    }
    let unmapped = |((field, name), sum): ((Field, &str), Sum<'_>)| Unmapped {
        field: field.name(),
        name: name.to_owned(),
        amount: sum.amount(held_ms),
    };
    let mut all: Vec<Unmapped> = by_name.into_iter().map(unmapped).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.amount.gpu_ms));
    all
}

#[cfg(test)]
mod tests;
