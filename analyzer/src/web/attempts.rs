//! Attempts at a run, as its job reported them.

use super::clock::Clock;
use crate::report::runs::Run;
use crate::report::text;
use goodput_exposition::sample::TimeMs;

/// How a run went.
pub(super) struct Attempts {
    /// As its job calls it.
    pub(super) name: String,
    /// Numbers of the run.
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) rows: Vec<Row>,
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

pub(super) fn attempts(runs: &[Run], clock: &Clock) -> Vec<Attempts> {
    let time = |time: Option<TimeMs>| time.map_or_else(|| text::UNKNOWN.to_owned(), |time| clock.show(time));
    let step = |step: Option<u64>| step.map_or_else(|| text::UNKNOWN.to_owned(), |step| step.to_string());
    let of = |run: &Run| Attempts {
        name: run.run.clone(),
        facts: vec![
            ("failures", run.failures.to_string()),
            ("effective training time", text::percent(run.ettr)),
            ("mean time to failure", run.minutes(&run.mttf_seconds)),
            ("saves every", run.minutes(&run.checkpoint_interval_seconds)),
            ("a save costs", run.cost()),
            ("advised interval", run.advice()),
        ],
        rows: run
            .attempts
            .iter()
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
    };
    runs.iter().map(of).collect()
}
