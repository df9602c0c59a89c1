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
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; a container as its pod's name and
    /// its own; or the node once more.
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
            Entity::Job(_) | Entity::Server => (Memory::Cgroup, levels.samples(Signal::JobMemoryWorkingSet).to_vec()),
            Entity::Node => (Memory::Host, host_used(levels)),
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
            Entity::Node | Entity::Server => self.levels.container.as_ref().unwrap_or(node).clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Labels;

    const MINUTE: i64 = 60_000;

    /// Two hours of a pod of two containers that holds a GPU, and of a pod that holds none, all of which grow alike.
    fn pods(holder: &str) -> Vec<Series> {
        let series = |name: &str, labels: &[(&str, &str)], value: &dyn Fn(f64) -> f64| {
            let all = [("__name__", name), ("namespace", "ml")].into_iter().chain(labels.iter().copied());
            let sample = |minute: i64| Sample { time_ms: minute * MINUTE, value: value(minute as f64) };
            Series { labels: Labels::new(all), samples: (0..=120).map(sample).collect() }
        };
        let gpu = [("UUID", "GPU-1"), ("Hostname", "n1"), ("instance", "n1:9400"), ("pod", holder)];
        let mut all = vec![series("DCGM_FI_DEV_FB_USED", &gpu, &|_| 1000.0)];
        for (pod, container, limit) in [("train-0", "main", 10e9), ("train-0", "proxy", 100e9), ("web-0", "main", 10e9)]
        {
            let own = [("pod", pod), ("container", container)];
            let limited = [own[0], own[1], ("resource", "memory")];
            all.push(series("container_memory_working_set_bytes", &own, &|minute| 2e9 + 5e9 * minute / 120.0));
            all.push(series("kube_pod_container_resource_limits", &limited, &|_| limit));
        }
        all
    }

    #[test]
    fn a_container_is_held_against_its_own_limit_where_its_pod_holds_a_gpu() {
        let t = Thresholds::default();
        let told = |holder| {
            let all = prospects(&pods(holder), 120 * MINUTE, &t);
            all.into_iter().map(|p| (p.node, p.entity, p.forecast.at_risk.is_some())).collect::<Vec<_>>()
        };
        let row = |container: &str, at_risk| ("n1".to_owned(), format!("ml/train-0/{container}"), at_risk);
        assert_eq!(told("train-0"), [row("main", true), row("proxy", false)], "7 of 10 GB, and of 100");
        assert_eq!(told("another"), []);
    }
}
