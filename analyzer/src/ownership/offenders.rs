//! Findings that come again and again: the table of administrators.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::fold::State;
use super::{Book, WEEK_MS};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, DAY_MS, FindingWeek, Message, MessageState};

/// Weeks that are looked at: a quarter of a year.
pub(crate) const WEEKS: i64 = 13;
/// In one week everyone may be unlucky.
const LEAST_WEEKS: usize = 2;
const MICROS: f64 = 1e6;
const MS_PER_HOUR: f64 = 3_600_000.0;

/// A finding that was large enough to be acted on in two weeks of the last 13 or more.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Offender {
    /// The finding.
    pub id: String,
    /// The team that had it last; null where no teams are configured.
    pub team: Option<String>,
    /// Whom the configuration names as contacts of the team.
    pub contacts: Vec<String>,
    /// Whose it is: the work, or the model of the GPUs.
    pub owner: String,
    /// The cluster; null where series name none.
    pub cluster: Option<String>,
    /// The class.
    pub class: Class,
    /// Weeks of the last 13 in which it was large enough to be acted on.
    pub weeks: usize,
    /// The last of them, such as 2026-W47.
    pub last_week: String,
    /// Messages that named it and were taken by their receivers in these weeks.
    pub messages: usize,
    /// Days since the last of them; null without one.
    pub days_since_message: Option<i64>,
    /// GPU-hours lost in the 13 weeks.
    pub gpu_hours: f64,
    /// ISO 4217; null where not all of it has a price in one currency.
    pub currency: Option<String>,
    /// What the loss cost, of the currency.
    pub cost: Option<f64>,
    /// Where it stands now.
    pub state: State,
    /// Who looks at it.
    pub assignee: Option<String>,
}

/// Those of the 13 weeks before `now`: of most weeks first, then the greatest loss.
#[must_use]
pub fn offenders(book: &Book, messages: &[Message], now: TimeMs) -> Vec<Offender> {
    let mut told: BTreeMap<&str, Vec<TimeMs>> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.state == MessageState::Sent) {
        message.findings.iter().for_each(|id| told.entry(id).or_default().push(message.time_ms));
    }
    let of = |id: &str| {
        let weeks = || book.weeks(id).iter().filter(|week| week.end_ms > now - (WEEKS + 1) * WEEK_MS);
        let (last, count) = (weeks().rfind(|week| week.is_first)?, weeks().filter(|week| week.is_first).count());
        let lost: Vec<&FindingWeek> = weeks().filter(|week| week.lost_ms > 0).collect();
        let messages = told.get(id).map_or(&[][..], Vec::as_slice);
        let standing = book.standing(id, now);
        let cost = cost(&lost);
        (count >= LEAST_WEEKS).then(|| Offender {
            id: id.to_owned(),
            team: last.team.clone(),
            contacts: Vec::new(),
            owner: last.subject.clone(),
            cluster: last.cluster.clone(),
            class: last.class,
            weeks: count,
            last_week: last.week.clone(),
            messages: messages.len(),
            days_since_message: messages.iter().max().map(|time| (now - time).div_euclid(DAY_MS)),
            gpu_hours: lost.iter().map(|week| week.lost_ms).sum::<i64>() as f64 / MS_PER_HOUR,
            currency: cost.as_ref().map(|(currency, _)| currency.clone()),
            cost: cost.map(|(_, cost)| cost),
            state: standing.state,
            assignee: standing.assignee,
        })
    };
    let mut all: Vec<Offender> = book.ids().filter_map(of).collect();
    all.sort_by(|a, b| b.weeks.cmp(&a.weeks).then(b.gpu_hours.total_cmp(&a.gpu_hours)));
    all
}

/// Currency and sum, where all weeks have a price in one currency.
fn cost(weeks: &[&FindingWeek]) -> Option<(String, f64)> {
    let currency = weeks.first()?.currency.as_ref()?;
    let is_same = weeks.iter().all(|week| week.currency.as_ref() == Some(currency));
    let micros: Option<i64> = weeks.iter().map(|week| week.lost_micro).sum();
    is_same.then_some((currency.clone(), micros? as f64 / MICROS))
}
