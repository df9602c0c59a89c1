//! A GPU's time by who held it: large losses first, the rest folded.

use std::collections::BTreeMap;

use super::chosen::Chosen;
use super::clock::{HOUR_MS, length};
use super::gpu::{holder, waited_for};
use super::link;
use super::page::Link;
use super::stretch::Stretch;
use crate::report::text;
use goodput_verdict::Class;

/// A longer table is not read; a shorter period lists what this one leaves out.
const MAX_ROWS: usize = 200;
/// Six minutes of a GPU: a smaller loss is folded.
const FLOOR_MS: i64 = HOUR_MS / 10;

/// Who held the GPU, and what came of it.
pub(super) struct Job {
    pub(super) name: String,
    /// The page of its run.
    pub(super) run: Option<String>,
    pub(super) held: String,
    pub(super) lost: String,
    /// Losses from six minutes on, the greatest first.
    pub(super) rows: Vec<Row>,
    /// Productive time and smaller losses, in order of time.
    pub(super) folded: Vec<Row>,
}

/// A stretch.
pub(super) struct Row {
    pub(super) class: &'static str,
    pub(super) title: &'static str,
    pub(super) href: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) length: String,
    pub(super) hours: String,
    pub(super) share: String,
    /// The owner, where the run has another name.
    pub(super) owner: Option<String>,
    pub(super) instance: String,
    pub(super) waited_for: Option<Link>,
    pub(super) cause: Option<String>,
    pub(super) confidence: &'static str,
}

/// By job, the greatest loss first, and how many stretches are left out.
pub(super) fn jobs(stretches: &[Stretch<'_>], uuid: &str, chosen: &Chosen) -> (Vec<Job>, usize) {
    let mut longest: Vec<&Stretch<'_>> = stretches.iter().collect();
    longest.sort_by_key(|s| std::cmp::Reverse(s.ms));
    longest.truncate(MAX_ROWS);
    let mut by_job: BTreeMap<&str, Vec<&Stretch<'_>>> = BTreeMap::new();
    for stretch in longest {
        by_job.entry(stretch.parts[0].holder().unwrap_or_else(|| holder(stretch))).or_default().push(stretch);
    }
    let mut jobs: Vec<(i64, Job)> = by_job.into_iter().map(|(name, all)| job(name, all, uuid, chosen)).collect();
    jobs.sort_by_key(|(lost, _)| std::cmp::Reverse(*lost));
    (jobs.into_iter().map(|(_, job)| job).collect(), stretches.len().saturating_sub(MAX_ROWS))
}

/// What it lost, and the job of this name.
fn job(name: &str, all: Vec<&Stretch<'_>>, uuid: &str, chosen: &Chosen) -> (i64, Job) {
    let is_lost = |s: &&Stretch<'_>| !matches!(s.class, Class::Productive | Class::NoData);
    let held: i64 = all.iter().map(|s| s.ms).sum();
    let lost: i64 = all.iter().filter(|s| is_lost(s)).map(|s| s.ms).sum();
    let run = link::run_of(all[0].parts[0], chosen);
    // They come with the greatest first.
    let (rows, mut folded): (Vec<_>, Vec<_>) = all.into_iter().partition(|s| is_lost(s) && s.ms >= FLOOR_MS);
    folded.sort_by_key(|s| (s.start_ms, s.class));
    let shown = |all: Vec<&Stretch<'_>>| all.into_iter().map(|s| row(s, name, uuid, chosen)).collect();
    let (held, lost_hours) = (text::hours(held), text::hours(lost));
    (lost, Job { name: name.to_owned(), run, held, lost: lost_hours, rows: shown(rows), folded: shown(folded) })
}

fn row(s: &Stretch<'_>, job: &str, uuid: &str, chosen: &Chosen) -> Row {
    Row {
        class: s.class.name(),
        title: s.class.title(),
        href: link::evidence(uuid, s),
        from: chosen.clock.show(s.start_ms),
        to: chosen.clock.show(s.end_ms),
        length: length(s.end_ms - s.start_ms),
        hours: text::hours(s.ms),
        share: text::percent(Some(s.share())),
        owner: s.owner.filter(|owner| *owner != job).map(str::to_owned),
        instance: s.of_instance(),
        waited_for: waited_for(s, &chosen.query),
        cause: s.cause.map(|cause| text::cause(cause.kind)),
        confidence: text::sure(s.confidence()),
    }
}
