//! What has not happened yet: memory or a disk that runs out, pods that are evicted before it does, a GPU that fails.
//!
//! [`exhaustion`] follows the peaks of what is in use, since the highest of them runs into the limit, and draws a robust
//! line through them; a GPU's [`Damage`] is read off counters and states that have sourced limits. [`prospects`] asks both
//! about all that is known, [`risks`] goes through a window and keeps what was at risk. A forecast has no GPU-time; it is
//! not a class of the ledger.

mod course;
mod disk;
mod eviction;
mod exhaustion;
mod hardware;
mod kind;
mod memory;
mod risk;
#[cfg(test)]
mod testing;
mod trend;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::caught::caught;
use crate::classify::Thresholds;
use crate::frame;
use crate::sample::{Series, TimeMs};
use crate::signal::Signal;
use course::Course;
pub use exhaustion::{Exhaustion, Shape, TimeToLimit, exhaustion};
pub use hardware::Damage;
pub(crate) use hardware::{blames_hardware, xid_level};
pub use kind::{Eviction, Fault, Kind, Level, Memory, Room, Sort};
pub use risk::{Outlook, Risk, STEP_MS, risks};

/// All that forecasts look at.
pub static SIGNALS: LazyLock<Vec<Signal>> = LazyLock::new(|| {
    let all = [memory::SIGNALS, disk::SIGNALS, eviction::SIGNALS, hardware::SIGNALS].concat();
    all.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
});

/// What is to be expected of a GPU, an owner, a file system or a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prospect {
    /// The cluster of the node; absent where its series name none, and in what releases that did not tell stored.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; a container as its pod's name
    /// and its own; where a file system is mounted; or the node again.
    pub entity: String,
    /// Who holds the GPU; of an eviction, the holders of the node's GPUs; of others, empty.
    pub owners: Vec<String>,
    /// When the forecast was made.
    pub made_ms: TimeMs,
    /// What may come.
    #[serde(flatten)]
    pub kind: Kind,
    /// The forecast.
    pub forecast: Forecast,
}

/// What is known of the future.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Forecast {
    /// Something runs out, or does not.
    Exhaustion(Exhaustion),
    /// Something is damaged; nothing tells when it fails.
    Damage(Damage),
}

impl Forecast {
    /// Is anything to be feared?
    #[must_use]
    pub fn is_risk(&self) -> bool {
        match self {
            Forecast::Exhaustion(exhaustion) => exhaustion.at_risk.is_some(),
            Forecast::Damage(_) => true,
        }
    }
}

impl Prospect {
    /// Is anything to be feared?
    #[must_use]
    pub fn is_risk(&self) -> bool {
        self.forecast.is_risk()
    }

    /// Are all its numbers finite? Others cannot be stored, and say nothing.
    #[must_use]
    pub(crate) fn is_finite(&self) -> bool {
        match &self.forecast {
            Forecast::Exhaustion(e) => {
                let times =
                    e.at_risk.map(|t| [t.soonest_seconds, t.likely_seconds, t.latest_seconds.unwrap_or_default()]);
                let numbers = [e.used, e.limit, e.slope, e.slope_low, e.slope_high];
                numbers.into_iter().chain(times.into_iter().flatten()).all(f64::is_finite)
            }
            Forecast::Damage(damage) => damage.evidence.iter().all(|e| e.value.is_finite() && e.threshold.is_finite()),
        }
    }

    /// When is the limit reached? `None` is not at risk, or has no limit.
    #[must_use]
    pub fn at_risk(&self) -> Option<TimeToLimit> {
        self.exhaustion()?.at_risk
    }

    /// What is in use, and of what limit.
    #[must_use]
    pub fn exhaustion(&self) -> Option<&Exhaustion> {
        match &self.forecast {
            Forecast::Exhaustion(exhaustion) => Some(exhaustion),
            Forecast::Damage(_) => None,
        }
    }

    /// What is damaged.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        match &self.forecast {
            Forecast::Damage(damage) => Some(damage),
            Forecast::Exhaustion(_) => None,
        }
    }

    /// When the limit is expected to be reached; `None` is not at risk, or has no limit.
    #[must_use]
    pub fn expected_ms(&self) -> Option<TimeMs> {
        Some(self.after(self.at_risk()?.likely_seconds))
    }

    /// `seconds` after the forecast was made.
    #[must_use]
    pub fn after(&self, seconds: f64) -> TimeMs {
        self.made_ms.saturating_add((seconds * 1000.0) as i64)
    }
}

/// Forecasts of all whose use and limit are known, and of every GPU that is damaged, as at a time. `series` should reach
/// from `forecast_window_seconds` before it.
#[must_use]
pub fn prospects(series: &[Series], now: TimeMs, t: &Thresholds) -> Vec<Prospect> {
    let sources = frame::sources(series);
    let levels = frame::levels(&sources);
    let disks = disk::file_systems(&sources);
    let sound = |course: &Course<'_>| caught(|| course.prospect(now, t)).unwrap_or_else(|error| risk::left_out(&error));
    Course::all(&levels, &disks, t).iter().filter_map(sound).filter(Prospect::is_finite).collect()
}
