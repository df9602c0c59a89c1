//! Memory that runs out: of GPUs, of owners, of nodes.

use super::course::{Course, entity_of};
use super::{Forecast, Kind, Memory, exhaustion};
use crate::frame::Levels;
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::{Sample, TimeMs};

/// Memory, and who is where.
pub(super) const SIGNALS: &[Signal] = &[
    Signal::FbUsed,
    Signal::FbFree,
    Signal::GpuOwner,
    Signal::JobMemoryWorkingSet,
    Signal::JobMemoryMax,
    Signal::NodeMemoryTotal,
    Signal::NodeMemoryAvailable,
    Signal::NodeInfo,
];

/// `None` where memory in use is not known. There is no forecast where the limit is not known or there is none.
pub(super) fn course<'a>(levels: &'a Levels<'a>) -> Option<Course<'a>> {
    let (memory, used) = match levels.entity {
        Entity::Gpu(_) | Entity::MigInstance(..) => (Memory::Gpu, levels.samples(Signal::FbUsed).to_vec()),
        Entity::Job(_) | Entity::Server => (Memory::Cgroup, levels.samples(Signal::JobMemoryWorkingSet).to_vec()),
        Entity::Node => (Memory::Host, host_used(levels)),
    };
    (!used.is_empty()).then(|| Course {
        kind: Kind::Memory(memory),
        cluster: &levels.cluster,
        node: &levels.node,
        entity: entity_of(levels),
        gpus: vec![levels],
        look: Box::new(move |now, t| exhaustion(&used, limit(memory, levels, now)?, now, t).map(Forecast::Exhaustion)),
    })
}

fn limit(memory: Memory, levels: &Levels<'_>, now: TimeMs) -> Option<f64> {
    let at = |signal| levels.at(signal, now);
    match memory {
        // What the driver reserves is in neither.
        Memory::Gpu => Some(at(Signal::FbUsed)? + at(Signal::FbFree)?),
        Memory::Cgroup => at(Signal::JobMemoryMax),
        Memory::Host => at(Signal::NodeMemoryTotal),
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
    use super::super::prospects;
    use crate::classify::Thresholds;
    use goodput_exposition::sample::{Labels, Sample, Series};

    const MINUTE: i64 = 60_000;

    /// Two hours of a pod of two containers that holds a GPU, and of a pod that holds none; all of them grow alike.
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
            all.into_iter().map(|p| (p.node.clone(), p.entity.clone(), p.is_risk())).collect::<Vec<_>>()
        };
        let row = |container: &str, at_risk| ("n1".to_owned(), format!("ml/train-0/{container}"), at_risk);
        assert_eq!(told("train-0"), [row("main", true), row("proxy", false)], "7 of 10 GB, and of 100");
        assert_eq!(told("another"), []);
    }
}
