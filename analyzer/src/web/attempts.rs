//! Attempts at a run, as its job reported them.

use super::clock::Clock;
use super::page::Problem;
use super::sorted::Key;
use super::view::{Of, View};
use crate::report::runs::{Run, Try};
use crate::report::site::escaped;
use crate::report::text;
use goodput_exposition::sample::TimeMs;

/// How a run went.
pub(super) struct Attempts {
    /// As its job calls it.
    pub(super) name: String,
    /// What asks the API for it, without the period.
    pub(super) api: String,
    /// Numbers of the run.
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) rows: Vec<Row>,
    pub(super) view: View,
}

/// An attempt.
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) begun: String,
    pub(super) ended: String,
    /// How it ended.
    pub(super) ending: &'static str,
    pub(super) last_step: String,
    pub(super) saved: String,
    pub(super) restored: String,
}

pub(super) fn attempts(runs: &[Run], clock: &Clock, of: Of<'_>) -> Result<Vec<Attempts>, Problem> {
    runs.iter().map(|run| attempts_at(run, clock, of)).collect()
}

/// What attempts are sorted by.
fn key(attempt: &&Try, column: &str) -> Key {
    match column {
        "begun" => Key::number(attempt.begun_ms),
        "ended" => Key::number(attempt.ended_ms),
        "ending" => Key::Text(attempt.ending.to_owned()),
        "last" => Key::number(attempt.last_step.and_then(|step| i64::try_from(step).ok())),
        "saved" => Key::number(attempt.saved_ms),
        "restored" => Key::number(attempt.restored_step.and_then(|step| i64::try_from(step).ok())),
        _ => Key::Text(format!("{:010}", attempt.attempt)),
    }
}

fn attempts_at(run: &Run, clock: &Clock, of: Of<'_>) -> Result<Attempts, Problem> {
    let mut all: Vec<&Try> = run.attempts.iter().collect();
    let columns = ["attempt", "begun", "ended", "ending", "last", "saved", "restored"];
    let view = of.view(&mut all, &columns, key, |attempt| format!("{} {}", attempt.attempt, attempt.ending))?;
    let time = |time: Option<TimeMs>| time.map_or_else(|| text::UNKNOWN.to_owned(), |time| clock.show(time));
    let step = |step: Option<u64>| step.map_or_else(|| text::UNKNOWN.to_owned(), |step| step.to_string());
    Ok(Attempts {
        name: run.run.clone(),
        api: format!("run={}", escaped(&run.run)),
        facts: vec![
            ("failures", run.failures.to_string()),
            ("effective training time", text::percent(run.ettr)),
            ("mean time to failure", run.minutes(&run.mttf_seconds)),
            ("saves every", run.minutes(&run.checkpoint_interval_seconds)),
            ("a save costs", run.cost()),
            ("advised interval", run.advice()),
        ],
        rows: all
            .into_iter()
            .map(|attempt| Row {
                number: attempt.attempt,
                begun: clock.show(attempt.begun_ms),
                ended: attempt.ended_ms.map_or_else(|| "may go on".to_owned(), |time| clock.show(time)),
                ending: attempt.ending,
                last_step: step(attempt.last_step),
                saved: time(attempt.saved_ms),
                restored: step(attempt.restored_step),
            })
            .collect(),
        view,
    })
}
