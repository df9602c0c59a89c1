//! What has not happened yet: what may come of memory, disks, pods and GPUs, and what was at risk.

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Advisory, Evidence, Kind, Level, Standing};

/// What is to be expected of a GPU, an owner, a file system or a node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prospect {
    /// The cluster of the node; null where its series name none, and in what earlier releases stored.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; a container as its pod's name
    /// and its own; where a file system is mounted; an RDMA port (`device/port`), a network interface, the PCI address of
    /// an NVSwitch; or the node again.
    pub entity: String,
    /// Who holds the GPU; of an eviction, a port or a switch, the holders of the node's GPUs; of others, empty.
    pub owners: Vec<String>,
    /// When the forecast was made, Unix milliseconds, UTC.
    pub made_ms: TimeMs,
    /// What may come.
    #[serde(flatten)]
    pub kind: Kind,
    /// The forecast.
    pub forecast: Forecast,
}

/// What is known of the future.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub fn is_finite(&self) -> bool {
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

goodput_catalog::named! {
    /// How what is in use went over the window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Shape {
        /// It barely moves, however high it is.
        Plateau = "plateau",
        /// It grows and does not come back, fast or slowly, for ever or until it has what it wants.
        Leak = "leak",
        /// It is given back again and again.
        Sawtooth = "sawtooth",
    }
}

/// Seconds from the forecast until the limit is reached, if it goes on like this: the line's, and its 90 % interval's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeToLimit {
    /// At the steepest slope.
    pub soonest_seconds: f64,
    /// At the slope of the line.
    pub likely_seconds: f64,
    /// At the flattest slope; null beyond the horizon.
    pub latest_seconds: Option<f64>,
}

/// What is in use of a limit, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exhaustion {
    /// How it went.
    pub shape: Shape,
    /// The latest peak, in bytes or inodes.
    pub used: f64,
    /// The limit, in bytes or inodes.
    pub limit: f64,
    /// Slope of the peaks, in bytes or inodes per second.
    pub slope: f64,
    /// The flattest slope, lower end of its 90 % interval.
    pub slope_low: f64,
    /// The steepest slope, upper end of its 90 % interval.
    pub slope_high: f64,
    /// When the limit is reached; null is not at risk.
    pub at_risk: Option<TimeToLimit>,
}

impl Exhaustion {
    /// The same with no time left where the limit is reached already. Memory that is full may stay so for ever; a disk
    /// that is full, and a threshold that is crossed, are felt at once.
    #[must_use]
    pub fn or_reached(self) -> Self {
        let now = TimeToLimit { soonest_seconds: 0.0, likely_seconds: 0.0, latest_seconds: Some(0.0) };
        let at_risk = if self.used >= self.limit { Some(now) } else { self.at_risk };
        Self { at_risk, ..self }
    }
}

/// What tells that a GPU may fail. Nothing tells when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// How pressing it is.
    pub level: Level,
    /// The signals, beyond their thresholds.
    pub evidence: Vec<Evidence>,
    /// How far back the signals were looked at, in seconds; 0 is a state as at the forecast.
    pub window_seconds: f64,
}

impl Damage {
    /// `None` without evidence.
    pub fn new(level: Level, window_seconds: f64, evidence: impl IntoIterator<Item = Evidence>) -> Option<Damage> {
        let evidence: Vec<Evidence> = evidence.into_iter().collect();
        (!evidence.is_empty()).then_some(Damage { level, evidence, window_seconds })
    }
}

/// What was at risk for some time. It has no GPU-milliseconds: the ledger does not know it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Risk {
    /// From the first forecast that warned, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// To one step after the last, or as far as was judged, Unix milliseconds, UTC.
    pub end_ms: TimeMs,
    /// The earliest time at which one of the forecasts expected the limit to be reached, Unix milliseconds, UTC; null
    /// where there is no limit, as of hardware.
    pub earliest_ms: Option<TimeMs>,
    /// The last of the forecasts.
    pub last: Prospect,
}

/// What is kept in addition to the ledger: what may come, what deserves attention, and how nodes compare. None has
/// GPU-time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outlook {
    /// What was at risk.
    pub risks: Vec<Risk>,
    /// What was advised.
    pub advisories: Vec<Advisory>,
    /// How nodes were set up and kept up.
    pub standings: Vec<Standing>,
}
