//! `/state`: how the analyzer itself is, and when each source was last heard.

use std::ops::Range;

use askama::Template;
use axum::extract::{Query, State};

use super::clock::{Clock, HOUR_MS, instant, rfc3339};
use super::page::{Frame, Link, Page, Problem, show};
use super::sorted::Key;
use super::view::{Fields, Of, View};
use crate::app::conditions::{Finding, Severity};
use crate::app::{App, Awaited, Outcomes, Refused};
use crate::report::Period;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Appended, Embedded};

/// Sources, and reasons for not being joined, that the page lists.
const MAX_LINES: usize = 100;

#[derive(Template)]
#[template(path = "web/state.html")]
struct StatePage {
    frame: Frame,
    version: &'static str,
    this_week: String,
    last_week: String,
    zone: String,
    judged_until: Option<String>,
    took_seconds: String,
    failures: u64,
    unjoined: Vec<String>,
    /// Hours that were cut for another time zone: from, to, and both as `classify` takes them.
    recut: Vec<[String; 4]>,
    deliveries: Vec<Delivery>,
    deliveries_view: View,
    /// The week that waits and what for, and the next one; to be read.
    awaited: Option<String>,
    next: Option<String>,
    /// Conditions that hold.
    conditions: Vec<Finding>,
    conditions_view: View,
    /// How many were looked at.
    checked: usize,
    /// Free bytes of the disk, and how many are kept free; while samples are refused for that.
    short_of_space: Option<(u64, u64)>,
    samples: Appended,
    sources: Vec<(String, String)>,
    sources_view: View,
    more_sources: usize,
}

/// A place that reports are delivered to.
struct Delivery {
    destination: String,
    /// Messages that are still to be sent, and those that are held back; to be read.
    left: Option<String>,
    refused: Vec<Refused>,
    last: Option<String>,
    delivered: u64,
    failed: u64,
    state: &'static str,
}

pub(super) async fn page<S: Embedded>(State(app): State<App<S>>, Query(fields): Query<Fields>) -> Page {
    let of = |id| Of { path: "/state", fields: &fields, id };
    let mut conditions = app.conditions();
    let checked = conditions.len();
    conditions.retain(|condition| condition.active);
    let conditions_view = conditions_view(&mut conditions, of("conditions"))?;
    let stats = app.store.stats();
    let (progress, account, clock) = (app.progress.borrow().clone(), app.intake.account(), Clock { zone: app.zone });
    let (now, deliveries) = (instant((app.now)()), app.deliveries.borrow().clone());
    let mut sources: Vec<(String, TimeMs)> = account.last_sample.into_iter().collect();
    sources.sort_by_key(|(_, time)| *time);
    let sources_view = sources_view(&mut sources, of("sources"))?;
    let more_sources = sources.len().saturating_sub(MAX_LINES);
    sources.truncate(MAX_LINES);
    let mut destinations: Vec<(&String, &Outcomes)> = deliveries.destinations.iter().collect();
    let deliveries_view = deliveries_view(&mut destinations, of("deliveries"))?;
    let show_time = |time| clock.format(time, "%Y-%m-%d %H:%M:%S");
    show(&StatePage {
        frame: Frame::new("State", vec![Link::new("/", "Fleet")], true),
        version: env!("CARGO_PKG_VERSION"),
        this_week: Period::this_week(now, &clock.zone).label,
        last_week: Period::last_week(now, &clock.zone).label,
        zone: clock.zone_name(),
        judged_until: progress.judged_until_ms.map(show_time),
        awaited: deliveries.awaited.as_ref().map(|awaited| waits(awaited, &clock)),
        next: deliveries.next.as_ref().map(|due| format!("{}, from {} on", due.week, clock.show(due.at_ms))),
        deliveries: destinations.into_iter().map(|(to, outcomes)| delivery(to, outcomes, &clock)).collect(),
        deliveries_view,
        took_seconds: format!("{:.2}", progress.took.as_secs_f64()),
        failures: progress.failures,
        recut: progress.cut_otherwise.iter().map(|hours| recut(hours, &clock)).collect(),
        unjoined: progress.unjoined,
        checked,
        conditions,
        conditions_view,
        short_of_space: stats
            .free_bytes
            .filter(|_| stats.short_of_space)
            .map(|free| (free, stats.limits.min_free_disk_space_bytes)),
        samples: account.samples,
        sources: sources.into_iter().map(|(source, time)| (source, show_time(time))).collect(),
        more_sources,
        sources_view,
    })
}

/// Conditions come with the worst first.
fn conditions_view(conditions: &mut Vec<Finding>, of: Of<'_>) -> Result<View, Problem> {
    let key = |one: &Finding, column: &str| match column {
        "condition" => Key::Text(one.name.to_owned()),
        "meaning" => Key::Text(one.meaning.to_owned()),
        "action" => Key::Text(one.action.to_owned()),
        "value" => Key::ratio(one.value),
        _ => Key::Text(Severity::ALL.iter().position(|one_of| *one_of == one.severity).unwrap_or_default().to_string()),
    };
    let text = |one: &Finding| [one.name, one.severity.name(), one.meaning, one.action, one.metric].join(" ");
    of.view(conditions, &["severity", "condition", "meaning", "action", "value"], key, text)
}

/// Destinations come as they are configured.
fn deliveries_view(all: &mut Vec<(&String, &Outcomes)>, of: Of<'_>) -> Result<View, Problem> {
    let key = |(to, one): &(&String, &Outcomes), column: &str| {
        let count = |count: u64| Key::number(i64::try_from(count).unwrap_or(i64::MAX));
        match column {
            "last" => Key::number(one.last_success_ms),
            "delivered" => count(one.delivered),
            "failed" => count(one.failed + one.refused),
            "state" => Key::number(i64::from(one.overdue)),
            _ => Key::Text((*to).clone()),
        }
    };
    of.view(all, &["configured", "to", "last", "delivered", "failed", "state"], key, |(to, _)| (*to).clone())
}

/// Sources come with the longest silent first.
fn sources_view(sources: &mut Vec<(String, TimeMs)>, of: Of<'_>) -> Result<View, Problem> {
    let key = |(name, time): &(String, TimeMs), column: &str| match column {
        "source" => Key::Text(name.clone()),
        _ => Key::Text(format!("{time:020}")),
    };
    of.view(sources, &["last", "source"], key, |(name, _)| name.clone())
}

fn waits(Awaited { week, what, until_ms }: &Awaited, clock: &Clock) -> String {
    let until = until_ms.map_or_else(String::new, |until| format!(", until {} at least", clock.show(until)));
    format!("The report of {week} waits for {what}{until}.")
}

fn delivery(destination: &str, outcomes: &Outcomes, clock: &Clock) -> Delivery {
    let (pending, held) = (outcomes.pending, outcomes.held.unwrap_or_default());
    let left = match (pending, held) {
        (0, 0) => None,
        (pending, 0) => Some(format!("{pending} messages to be sent")),
        (0, held) => Some(format!("{held} messages held back by at_most")),
        (pending, held) => Some(format!("{pending} messages to be sent, {held} held back by at_most")),
    };
    Delivery {
        destination: destination.to_owned(),
        left,
        refused: outcomes.refused_now.clone(),
        last: outcomes.last_success_ms.map(|time| clock.show(time)),
        delivered: outcomes.delivered,
        failed: outcomes.failed + outcomes.refused,
        state: if outcomes.overdue { "overdue: the last attempt failed" } else { "no attempt is overdue" },
    }
}

fn recut(hours: &Range<TimeMs>, clock: &Clock) -> [String; 4] {
    let ends = [hours.start, hours.end];
    let [from, to] = ends.map(|time| clock.format(time, "%Y-%m-%d %H:%M"));
    // Full hours of the zone around them.
    let start = hours.start - clock.past_hour(hours.start);
    let end = hours.end + (HOUR_MS - clock.past_hour(hours.end)) % HOUR_MS;
    [from, to, rfc3339(start), rfc3339(end)]
}
