//! `/state`: how the analyzer itself is, and when each source was last heard.

use std::ops::Range;

use askama::Template;
use axum::extract::State;

use super::clock::{Clock, HOUR_MS, instant, rfc3339};
use super::page::{Frame, Link, Page, show};
use crate::app::App;
use crate::app::conditions::Finding;
use crate::report::Period;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Appended, Results};

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
    /// Conditions that hold.
    conditions: Vec<Finding>,
    /// How many were looked at.
    checked: usize,
    /// Free bytes of the disk, and how many are kept free; while samples are refused for that.
    short_of_space: Option<(u64, u64)>,
    samples: Appended,
    sources: Vec<(String, String)>,
    more_sources: usize,
}

pub(super) async fn page<S: Results>(State(app): State<App<S>>) -> Page {
    let conditions = app.conditions();
    let stats = app.store.stats();
    let (progress, account, clock) = (app.progress.borrow().clone(), app.intake.account(), Clock { zone: app.zone });
    let now = instant((app.now)());
    let mut sources: Vec<(String, TimeMs)> = account.last_sample.into_iter().collect();
    sources.sort_by_key(|(_, time)| *time);
    let more_sources = sources.len().saturating_sub(MAX_LINES);
    sources.truncate(MAX_LINES);
    let show_time = |time| clock.format(time, "%Y-%m-%d %H:%M:%S");
    show(&StatePage {
        frame: Frame::new("State", vec![Link::new("/", "Fleet")], true),
        version: env!("CARGO_PKG_VERSION"),
        this_week: Period::this_week(now, &clock.zone).label,
        last_week: Period::last_week(now, &clock.zone).label,
        zone: clock.zone_name(),
        judged_until: progress.judged_until_ms.map(show_time),
        took_seconds: format!("{:.2}", progress.took.as_secs_f64()),
        failures: progress.failures,
        recut: progress.cut_otherwise.iter().map(|hours| recut(hours, &clock)).collect(),
        unjoined: progress.unjoined,
        checked: conditions.len(),
        conditions: conditions.into_iter().filter(|condition| condition.active).collect(),
        short_of_space: stats
            .free_bytes
            .filter(|_| stats.short_of_space)
            .map(|free| (free, stats.limits.min_free_disk_space_bytes)),
        samples: account.samples,
        sources: sources.into_iter().map(|(source, time)| (source, show_time(time))).collect(),
        more_sources,
    })
}

fn recut(hours: &Range<TimeMs>, clock: &Clock) -> [String; 4] {
    let ends = [hours.start, hours.end];
    let [from, to] = ends.map(|time| clock.format(time, "%Y-%m-%d %H:%M"));
    // Full hours of the zone around them.
    let start = hours.start - clock.past_hour(hours.start);
    let end = hours.end + (HOUR_MS - clock.past_hour(hours.end)) % HOUR_MS;
    [from, to, rfc3339(start), rfc3339(end)]
}
