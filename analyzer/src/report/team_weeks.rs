//! What a team had week by week, by the reports that were delivered.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::build::is_held;
use super::price::MICROS;
use super::sum::{Amount, Cost};
use super::teams::TeamClass;
use super::{Period, TeamTable};
use goodput_store::{ReadVerdicts, StoreError};
use goodput_verdict::{Class, TeamTime};

/// Weeks that are shown: a quarter of a year.
pub(crate) const WEEKS: usize = 13;

/// What a team had in a week. Energy is not kept.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TeamWeek {
    /// ISO week, such as 2026-W47.
    pub week: String,
    /// All of its time.
    pub total: Amount,
    /// Time in which it held GPUs; share of `total`, as those that follow.
    pub held: Amount,
    /// Productive time.
    pub productive: Amount,
    /// Everything else that has data.
    pub lost: Amount,
    /// What its time went into, in the order of classes.
    pub classes: Vec<TeamClass>,
}

/// The weeks up to `last` in which one of these teams had time, in order. They are those whose report was delivered with
/// teams; `last` is that of the table, where it is given.
pub(crate) async fn team_weeks(
    verdicts: &impl ReadVerdicts,
    (last, table): (&Period, Option<&TeamTable>),
    teams: &[&str],
) -> Result<Vec<TeamWeek>, StoreError> {
    let first = (1..WEEKS).fold(last.clone(), |week, _| week.previous());
    let mut times = verdicts.team_times([&first.label, &last.label]).await?;
    if let Some(table) = table {
        times.retain(|time| time.week != last.label);
        times.extend(table.times(&last.label));
    }
    let mut weeks: BTreeMap<String, Vec<TeamTime>> = BTreeMap::new();
    for time in times.into_iter().filter(|time| teams.contains(&time.team.as_str())) {
        weeks.entry(time.week.clone()).or_default().push(time);
    }
    Ok(weeks.into_iter().map(|(week, times)| TeamWeek::of(week, &times)).collect())
}

impl TeamWeek {
    fn of(week: String, times: &[TeamTime]) -> Self {
        let whole = times.iter().map(|time| time.ms).sum();
        let sum = |which: &dyn Fn(Class) -> bool| amount(times.iter().filter(|time| which(time.class)), whole);
        let class = |class: &Class| {
            let amount = sum(&|other| other == *class);
            (amount.gpu_ms > 0).then_some(TeamClass { class: *class, amount })
        };
        Self {
            week,
            total: sum(&|_| true),
            held: sum(&is_held),
            productive: sum(&|class| class == Class::Productive),
            lost: sum(&|class| !matches!(class, Class::Productive | Class::NoData)),
            classes: Class::ALL.iter().filter_map(class).collect(),
        }
    }
}

fn amount<'t>(times: impl Iterator<Item = &'t TeamTime>, whole_ms: i64) -> Amount {
    let (mut ms, mut cost) = (0, BTreeMap::<&str, (i64, i64)>::new());
    for time in times {
        ms += time.ms;
        if let Some(currency) = &time.currency {
            let (micros, priced_ms) = cost.entry(currency).or_default();
            (*micros, *priced_ms) = (*micros + time.micros, *priced_ms + time.ms);
        }
    }
    let cost = cost.into_iter().map(|(currency, (micros, priced_ms))| Cost {
        currency: currency.to_owned(),
        micros,
        amount: micros as f64 / MICROS,
        priced_ms,
    });
    Amount { cost: cost.collect(), ..Amount::of(ms, whole_ms) }
}
