//! What jobs report.

use goodput_exposition::sample::TimeMs;
use goodput_verdict::event::{Event, Place, RunId, Status, What};

/// An attempt begins, and nothing tells since when it waits.
pub const START: What = What::Start { submitted_ms: None };

/// An event of the attempt of the run `r` in the pod `ml/a`.
#[must_use]
pub fn event(time_ms: TimeMs, attempt: u32, what: What) -> Event {
    Event {
        id: format!("{attempt}-{}-{time_ms}", what.kind()),
        time_ms,
        run: RunId { cluster: String::new(), name: "r".into() },
        attempt,
        rank: None,
        what,
        place: Place { namespace: Some("ml".into()), pod: Some("a".into()), ..Place::default() },
    }
}

/// A step is saved.
#[must_use]
pub fn saved(step: u64) -> What {
    What::Checkpoint { step, seconds: None }
}

/// An attempt ends.
#[must_use]
pub fn ended(status: Status) -> What {
    What::End { status }
}
