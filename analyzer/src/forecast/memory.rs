//! Which memories there are: from series to what is in use of which limit, and to a forecast of each.

use crate::classify::Thresholds;
use crate::frame::{self, Levels};
use crate::sample::{Sample, Series, TimeMs};
use crate::signal::{Entity, Signal};

use super::{Forecast, Memory, oom_risk};

/// All that forecasts look at: memory, and who is where.
pub const MEMORY_SIGNALS: &[Signal] = &[
    Signal::FbUsed,
    Signal::FbFree,
    Signal::GpuOwner,
    Signal::JobMemoryWorkingSet,
    Signal::JobMemoryMax,
    Signal::NodeMemoryTotal,
    Signal::NodeMemoryAvailable,
    Signal::NodeInfo,
];

/// What is to be expected of the memory of one GPU, owner or node.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Prospect {
    /// The node.
    pub node: String,
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; or the node once more.
    pub entity: String,
    /// Who holds the GPU; of other memory, nobody.
    pub owners: Vec<String>,
    /// When the forecast was made.
    pub made_ms: TimeMs,
    /// The forecast.
    pub forecast: Forecast,
}

/// Forecasts of every memory whose use and limit are known, as at a time. `series` should reach from
/// `forecast_window_seconds` before it.
#[must_use]
pub fn prospects(series: &[Series], now: TimeMs, t: &Thresholds) -> Vec<Prospect> {
    let sources = frame::sources(series);
    frame::levels(&sources).iter().filter_map(Course::of).filter_map(|course| course.prospect(now, t)).collect()
}

/// Memory in use over time, and whose it is.
pub(super) struct Course<'a> {
    memory: Memory,
    levels: &'a Levels<'a>,
    used: Vec<Sample>,
}

impl<'a> Course<'a> {
    /// `None` where memory in use is not known.
    pub(super) fn of(levels: &'a Levels<'a>) -> Option<Self> {
        let (memory, used) = match levels.entity {
            Entity::Gpu(_) | Entity::MigInstance(..) => (Memory::Gpu, levels.samples(Signal::FbUsed).to_vec()),
            Entity::Job(_) => (Memory::Cgroup, levels.samples(Signal::JobMemoryWorkingSet).to_vec()),
            Entity::Node => (Memory::Host, host_used(levels)),
            Entity::Server => return None,
        };
        (!used.is_empty()).then_some(Course { memory, levels, used })
    }

    /// `None` where the limit is not known or there is none, and where too little is known for a forecast.
    pub(super) fn prospect(&self, now: TimeMs, t: &Thresholds) -> Option<Prospect> {
        let forecast = oom_risk(self.memory, &self.used, self.limit(now)?, now, t)?;
        let node = &self.levels.node;
        let entity = match self.levels.entity {
            Entity::Gpu(id) | Entity::Job(id) => id.to_owned(),
            Entity::MigInstance(gpu, id) => format!("{gpu}/{id}"),
            Entity::Node | Entity::Server => node.clone(),
        };
        let node = node.clone();
        Some(Prospect { node, entity, owners: self.levels.holders(now), made_ms: now, forecast })
    }

    fn limit(&self, now: TimeMs) -> Option<f64> {
        let at = |signal| self.levels.at(signal, now);
        match self.memory {
            // What the driver reserves is in neither.
            Memory::Gpu => Some(at(Signal::FbUsed)? + at(Signal::FbFree)?),
            Memory::Cgroup => at(Signal::JobMemoryMax),
            Memory::Host => at(Signal::NodeMemoryTotal),
        }
    }
}

/// Total less available. The total changes only when memory is plugged in or taken offline.
fn host_used(levels: &Levels<'_>) -> Vec<Sample> {
    let Some(total) = levels.samples(Signal::NodeMemoryTotal).last().map(|s| s.value) else { return Vec::new() };
    let used = |s: &Sample| Sample { value: total - s.value, ..*s };
    levels.samples(Signal::NodeMemoryAvailable).iter().map(used).collect()
}
