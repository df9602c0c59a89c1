//! A GPU's time by who held it: large losses first, the rest folded.

use std::collections::BTreeMap;

use super::chosen::Chosen;
use super::clock::{HOUR_MS, length};
use super::gpu::{holder, waited_for};
use super::link;
use super::page::{Link, Problem};
use super::sorted::Key;
use super::stretch::Stretch;
use super::view::{Of, View};
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
    /// Losses from six minutes on.
    pub(super) rows: Vec<Row>,
    /// Productive time and smaller losses.
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

/// By job, the greatest loss first, and how many stretches are left out. Those of each job have the most GPU-time first,
/// unless another order is asked for.
pub(super) fn jobs(
    stretches: &[Stretch<'_>],
    uuid: &str,
    chosen: &Chosen,
    of: Of<'_>,
) -> Result<(Vec<Job>, usize, View), Problem> {
    let mut longest: Vec<&Stretch<'_>> = stretches.iter().collect();
    longest.sort_by_key(|s| std::cmp::Reverse(s.ms));
    longest.truncate(MAX_ROWS);
    let view = of.view(&mut longest, &COLUMNS, key, |s| text_of(s))?;
    let mut by_job: BTreeMap<&str, Vec<&Stretch<'_>>> = BTreeMap::new();
    for stretch in longest {
        by_job.entry(stretch.parts[0].holder().unwrap_or_else(|| holder(stretch))).or_default().push(stretch);
    }
    let mut jobs: Vec<(i64, Job)> = by_job.into_iter().map(|(name, all)| job(name, all, uuid, chosen)).collect();
    jobs.sort_by_key(|(lost, _)| std::cmp::Reverse(*lost));
    Ok((jobs.into_iter().map(|(_, job)| job).collect(), stretches.len().saturating_sub(MAX_ROWS), view))
}

/// What stretches are sorted by.
const COLUMNS: [&str; 7] = ["hours", "what", "from", "to", "length", "share", "certainty"];

fn key(s: &&Stretch<'_>, column: &str) -> Key {
    match column {
        "what" => Key::Text(s.class.title().to_owned()),
        "from" => Key::number(s.start_ms),
        "to" => Key::number(s.end_ms),
        "length" => Key::number(s.end_ms - s.start_ms),
        "share" => Key::ratio(Some(s.share())),
        "certainty" => Key::ratio(Some(s.confidence())),
        _ => Key::number(s.ms),
    }
}

/// What a filter looks into.
fn text_of(s: &Stretch<'_>) -> String {
    format!("{} {} {} {}", s.class.title(), s.class.name(), s.owner.unwrap_or_default(), s.of_instance())
}

/// What it lost, and the job of this name.
fn job(name: &str, all: Vec<&Stretch<'_>>, uuid: &str, chosen: &Chosen) -> (i64, Job) {
    let is_lost = |s: &&Stretch<'_>| !matches!(s.class, Class::Productive | Class::NoData);
    let held: i64 = all.iter().map(|s| s.ms).sum();
    let lost: i64 = all.iter().filter(|s| is_lost(s)).map(|s| s.ms).sum();
    let run = link::run_of(all[0].parts[0], chosen);
    let (rows, folded): (Vec<_>, Vec<_>) = all.into_iter().partition(|s| is_lost(s) && s.ms >= FLOOR_MS);
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
