//! GPU time by team. The rows of a table sum to the fleet to the millisecond and to the millionth of a currency.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::build::is_held;
use super::finding::{Key, key};
use super::sum::{Amount, Sum};
use super::summed::Item;
use super::{Finding, FindingGroup};
use crate::teams::{Line, Mapper, Mapping, PLATFORM, Spread, Teams, UNASSIGNED, Who};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, Energy, TeamTime};

/// GPU time by team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TeamTable {
    /// How loss that teams share is charged.
    pub spread: Spread,
    /// Teams with any time, greatest loss first; then `unassigned`, held by someone whom no team's pattern matches, and
    /// `platform`, loss that teams share. Their `total`s sum to the capacity of the fleet.
    pub rows: Vec<TeamRow>,
    /// Are any teams configured?
    #[serde(skip)]
    pub is_configured: bool,
}

/// GPU time of a team, without that of the teams that are part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TeamRow {
    /// The team, `unassigned` or `platform`.
    pub name: String,
    /// The team that it is part of; null where there is none.
    pub parent: Option<String>,
    /// Who pays, in the organisation's own words; null where nothing is configured.
    pub cost_centre: Option<String>,
    /// All of its time; share of the fleet's capacity.
    pub total: Amount,
    /// Time in which it held GPUs; share of `total`, as those that follow.
    pub held: Amount,
    /// Productive time.
    pub productive: Amount,
    /// Everything else that has data.
    pub lost: Amount,
    /// Time without data.
    pub no_data: Amount,
    /// Of `total`: its part of loss that teams share, where that is divided.
    pub shared: Amount,
    /// `total` of this team and of all that are part of it; share of the fleet's capacity. Null where none is.
    pub with_parts: Option<Amount>,
    /// `lost` in the time that is compared; null where it cannot be.
    pub lost_before: Option<Amount>,
    /// What cost it most, in the order of the report; null where nothing is a finding.
    pub first_finding: Option<TeamFinding>,
    /// What its time went into, in the order of classes.
    pub classes: Vec<TeamClass>,
    /// The same by currency, for sums that are kept: each millisecond is in one.
    #[serde(skip)]
    pub parts: Vec<TeamPart>,
}

/// A finding, and what a team has of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TeamFinding {
    /// The group of findings.
    pub id: String,
    /// Its class.
    pub class: Class,
    /// What it is about: a run, a node, the work or the model of GPUs that its findings have in common.
    pub subject: String,
    /// What it cost this team; share of the team's `total`.
    pub lost: Amount,
}

/// Time of a team in one class.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TeamClass {
    /// The class.
    pub class: Class,
    /// How much; share of the team's `total`.
    pub amount: Amount,
}

/// Time of a team in one class that has a price in one currency, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamPart {
    /// The class.
    pub class: Class,
    /// Three letters (ISO 4217); none where no price applies.
    pub currency: Option<String>,
    /// GPU-milliseconds.
    pub ms: i64,
    /// What is known of what was drawn.
    pub energy: Option<Energy>,
    /// Millionths of the currency.
    pub micros: i64,
}

/// Class and currency; empty where no price applies.
type Cell<'p> = (Class, &'p str);
type Cells<'p> = BTreeMap<Cell<'p>, Sum<'p>>;

/// What a line has.
#[derive(Default)]
struct Account<'p> {
    own: Cells<'p>,
    shared: Cells<'p>,
}

impl<'p> Account<'p> {
    fn total(&self, which: impl Fn(Class) -> bool) -> Sum<'p> {
        let chosen = self.own.iter().chain(&self.shared).filter(|((class, _), _)| which(*class));
        chosen.fold(Sum::default(), |total, (_, sum)| total.plus(sum))
    }
}

impl TeamTable {
    /// The table of these items by the teams that are valid at `start`; `groups` is in the report's order.
    pub(crate) fn of(
        teams: &Teams,
        start: TimeMs,
        (items, before): (&[Item<'_>], Option<&[Item<'_>]>),
        (groups, findings): (&[FindingGroup], &[Finding]),
    ) -> Self {
        let mapping = Mapping::at(teams, start);
        let mut sums = Sums::of(&mapping, items);
        let first = sums.first_findings(groups, findings);
        sums.spread(teams.spread);
        let before = before.map(|items| {
            let mut sums = Sums::of(&mapping, items);
            sums.spread(teams.spread);
            sums.accounts
        });
        let capacity = sums.accounts.values().map(|account| account.total(|_| true).ms).sum();
        let table = Table { mapping: &mapping, accounts: &sums.accounts, before: before.as_ref(), first, capacity };
        Self { spread: teams.spread, rows: table.rows(), is_configured: !teams.is_empty() }
    }

    /// Are no teams configured? Then the table says nothing.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        !self.is_configured
    }

    /// The row of this name.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&TeamRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// What is kept of it with a week that is delivered.
    pub(crate) fn times(&self, week: &str) -> Vec<TeamTime> {
        let of = |row: &TeamRow, part: &TeamPart| TeamTime {
            week: week.to_owned(),
            team: row.name.clone(),
            class: part.class,
            currency: part.currency.clone(),
            ms: part.ms,
            micros: part.micros,
        };
        self.rows.iter().flat_map(|row| row.parts.iter().map(move |part| of(row, part))).collect()
    }

    /// What becomes of loss that teams share, to be read.
    #[must_use]
    pub fn shared_loss(&self) -> &'static str {
        match self.spread {
            Spread::None => "The row platform has the loss that teams share: unallocated, no_data, down, maintenance.",
            Spread::ByAllocation => {
                "Loss that teams share (unallocated, no_data, down, maintenance) is divided by the GPU-hours held."
            }
        }
    }

    /// Is loss that teams share divided?
    #[must_use]
    pub fn is_spread(&self) -> bool {
        self.spread == Spread::ByAllocation
    }
}

/// Sums by line, and of each finding by line.
struct Sums<'i, 'p> {
    accounts: BTreeMap<Line, Account<'p>>,
    by_finding: HashMap<Key<'i>, BTreeMap<Line, Sum<'p>>>,
}

impl<'i, 'p> Sums<'i, 'p> {
    fn of(mapping: &Mapping<'_>, items: &'i [Item<'p>]) -> Self {
        let mut mapper = Mapper::new(mapping);
        let (mut accounts, mut by_finding) = (BTreeMap::<Line, Account<'p>>::new(), HashMap::new());
        for item in items {
            let line = mapper.line(item.class, Who::of(item.interval()));
            let cell = (item.class, item.price.map_or("", |price| price.currency.as_str()));
            accounts.entry(line).or_default().own.entry(cell).or_default().add(item);
            if item.class != Class::Productive {
                let lines: &mut BTreeMap<Line, Sum<'p>> = by_finding.entry(key(item.interval())).or_default();
                lines.entry(line).or_default().add(item);
            }
        }
        Self { accounts, by_finding }
    }

    /// Of each line the first group of findings that it has a part of.
    fn first_findings(&self, groups: &[FindingGroup], findings: &[Finding]) -> BTreeMap<Line, (TeamFinding, Sum<'p>)> {
        let mut first = BTreeMap::new();
        for group in groups {
            let members = group.findings.iter().filter_map(|n| findings.get(*n));
            let mut lines: BTreeMap<Line, Sum<'p>> = BTreeMap::new();
            for (line, sum) in members.filter_map(|finding| self.by_finding.get(&finding.key())).flatten() {
                let lost = lines.entry(*line).or_default();
                *lost = std::mem::take(lost).plus(sum);
            }
            for (line, sum) in lines {
                let subject = || group.whose(findings);
                first.entry(line).or_insert_with(|| {
                    let (id, class, lost) = (group.id.clone(), group.class, Amount::default());
                    (TeamFinding { id, class, subject: subject(), lost }, sum)
                });
            }
        }
        first
    }

    /// Divides what teams share by what each line held. Where nothing was held, it stays.
    fn spread(&mut self, spread: Spread) {
        if spread == Spread::None {
            return;
        }
        let held = |account: &Account<'_>| account.total(is_held).ms;
        let lines: Vec<(Line, i64)> = self.accounts.iter().map(|(line, account)| (*line, held(account))).collect();
        let weights: Vec<i64> = lines.iter().map(|(_, held)| *held).collect();
        if !weights.iter().any(|weight| *weight > 0) {
            return;
        }
        let Some(platform) = self.accounts.remove(&Line::Platform) else { return };
        for (cell, sum) in platform.own {
            for ((line, _), part) in lines.iter().zip(sum.split(&weights)).filter(|(_, part)| !part.is_nothing()) {
                self.accounts.entry(*line).or_default().shared.insert(cell, part);
            }
        }
    }
}

/// What the rows are made of.
struct Table<'a, 'p> {
    mapping: &'a Mapping<'a>,
    accounts: &'a BTreeMap<Line, Account<'p>>,
    before: Option<&'a BTreeMap<Line, Account<'p>>>,
    first: BTreeMap<Line, (TeamFinding, Sum<'p>)>,
    capacity: i64,
}

impl Table<'_, '_> {
    fn rows(mut self) -> Vec<TeamRow> {
        let teams = (0..self.mapping.teams().len()).map(Line::Team);
        let lines: Vec<Line> = teams.chain([Line::Unassigned, Line::Platform]).collect();
        let mut rows: Vec<(Line, TeamRow)> = lines.into_iter().map(|line| (line, self.row(line))).collect();
        let has_time = |row: &TeamRow| {
            let all = [Some(&row.total), row.with_parts.as_ref(), row.lost_before.as_ref()];
            all.into_iter().flatten().any(|amount| amount.gpu_ms > 0)
        };
        rows.retain(|(_, row)| has_time(row));
        let rank = |(line, row): &(Line, TeamRow)| {
            let is_team = matches!(line, Line::Team(_));
            (!is_team, if is_team { -row.lost.gpu_ms } else { 0 }, *line)
        };
        rows.sort_by_key(rank);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn row(&mut self, line: Line) -> TeamRow {
        let nothing = Account::default();
        let account = self.accounts.get(&line).unwrap_or(&nothing);
        let total = account.total(|_| true);
        let amount = |which: fn(Class) -> bool| account.total(which).amount(total.ms);
        let is_lost = |class| !matches!(class, Class::Productive | Class::NoData);
        let before = self.before.map(|before| {
            let before = before.get(&line).unwrap_or(&nothing);
            before.total(is_lost).amount(before.total(|_| true).ms)
        });
        let shared = account.shared.values().fold(Sum::default(), |all, sum| all.plus(sum));
        let finding = self.first.remove(&line);
        let (parts, classes) = (parts(account), classes(account, total.ms));
        let row = TeamRow {
            held: amount(is_held),
            productive: amount(|class| class == Class::Productive),
            lost: amount(is_lost),
            no_data: amount(|class| class == Class::NoData),
            shared: shared.amount(total.ms),
            lost_before: before,
            first_finding: finding.map(|(first, sum)| TeamFinding { lost: sum.amount(total.ms), ..first }),
            total: total.amount(self.capacity),
            classes,
            parts,
            ..TeamRow::default()
        };
        self.named(line, row)
    }

    fn named(&self, line: Line, row: TeamRow) -> TeamRow {
        let place = match line {
            Line::Unassigned => return TeamRow { name: UNASSIGNED.to_owned(), ..row },
            Line::Platform => return TeamRow { name: PLATFORM.to_owned(), ..row },
            Line::Team(place) => place,
        };
        let team = self.mapping.teams()[place];
        let parent = self.mapping.parent(place).map(|parent| self.mapping.teams()[parent].name.clone());
        let below = self.mapping.below(place);
        let all = below.iter().filter_map(|n| self.accounts.get(&Line::Team(*n)));
        let sum = || all.fold(Sum::default(), |sum, account| sum.plus(&account.total(|_| true)));
        let with_parts = (below.len() > 1).then(|| sum().amount(self.capacity));
        TeamRow { name: team.name.clone(), parent, cost_centre: team.cost_centre.clone(), with_parts, ..row }
    }
}

/// By class and currency.
fn cells<'p>(account: &Account<'p>) -> Cells<'p> {
    let mut cells: Cells<'p> = BTreeMap::new();
    for (cell, sum) in account.own.iter().chain(&account.shared) {
        let all = cells.entry(*cell).or_default();
        *all = std::mem::take(all).plus(sum);
    }
    cells
}

fn parts(account: &Account<'_>) -> Vec<TeamPart> {
    let part = |((class, currency), sum): (Cell<'_>, Sum<'_>)| TeamPart {
        class,
        currency: (!currency.is_empty()).then(|| currency.to_owned()),
        ms: sum.ms,
        energy: sum.energy,
        micros: sum.micros(currency),
    };
    cells(account).into_iter().map(part).collect()
}

fn classes(account: &Account<'_>, whole_ms: i64) -> Vec<TeamClass> {
    let mut by_class: BTreeMap<Class, Sum<'_>> = BTreeMap::new();
    for ((class, _), sum) in cells(account) {
        let all = by_class.entry(class).or_default();
        *all = std::mem::take(all).plus(&sum);
    }
    let seen = by_class.into_iter().filter(|(_, sum)| sum.ms > 0);
    seen.map(|(class, sum)| TeamClass { class, amount: sum.amount(whole_ms) }).collect()
}

#[cfg(test)]
mod tests;
