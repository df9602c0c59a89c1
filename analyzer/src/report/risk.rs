//! Memory that was at risk of running out: when, how it grew, when its end is due, and what to do about it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Remedy, text};
use crate::forecast::{Memory, Risk, Shape, TimeToLimit};
use crate::sample::TimeMs;

const MINUTE_SECONDS: f64 = 60.0;
const HOUR_SECONDS: f64 = 3600.0;
const GIBIBYTE: f64 = 1_073_741_824.0;

/// One memory that was at risk within the period: a GPU's, an owner's or a node's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryRisk {
    /// Whose memory: `gpu`, `cgroup` or `host`.
    pub memory: Memory,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// The node.
    pub node: String,
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; or the node once more.
    pub entity: String,
    /// Who held the GPU at the last forecast; of other memory, nobody.
    pub owners: Vec<String>,
    /// When it was at risk: stretches without a pause, in order of time.
    pub stretches: Vec<Stretch>,
    /// The earliest time at which any forecast of the period expected the limit, Unix milliseconds.
    pub earliest_ms: TimeMs,
    /// When the last forecast was made, Unix milliseconds. All that follows is as at that time.
    pub made_ms: TimeMs,
    /// How memory in use went over the forecast's window.
    pub shape: Shape,
    /// The latest peak, in bytes.
    pub used_bytes: f64,
    /// The limit, in bytes.
    pub limit_bytes: f64,
    /// Slope of the peaks, in bytes per second, with its 90 % interval.
    pub slope_bytes_per_second: Slope,
    /// Seconds from `made_ms` to the limit, at the ends of that interval and in between; null beyond the horizon.
    pub time_to_limit: TimeToLimit,
    /// What to do.
    pub remedies: &'static [Remedy],
}

/// From (inclusive) to (exclusive); no GPU-time is charged to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds.
    pub end_ms: TimeMs,
}

/// A slope and the ends of its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slope {
    /// The flattest.
    pub low: f64,
    /// The median of the slopes of all pairs of peaks.
    pub likely: f64,
    /// The steepest.
    pub high: f64,
}

/// One line per memory; those that were at risk last come first, of these the ones whose limit is the nearest.
pub(super) fn memory_risks(risks: &[Risk]) -> Vec<MemoryRisk> {
    let mut by_memory: BTreeMap<(&str, Memory, &str), Vec<&Risk>> = BTreeMap::new();
    for risk in risks.iter().filter(|r| r.last.at_risk().is_some()) {
        let key = (risk.last.node.as_str(), risk.last.forecast.memory, risk.last.entity.as_str());
        by_memory.entry(key).or_default().push(risk);
    }
    let mut all: Vec<MemoryRisk> = by_memory.into_values().filter_map(memory_risk).collect();
    let until = |r: &MemoryRisk| r.stretches.last().map(|s| s.end_ms);
    all.sort_by(|a, b| {
        let nearer = a.time_to_limit.likely_seconds.total_cmp(&b.time_to_limit.likely_seconds);
        until(b).cmp(&until(a)).then(nearer)
    });
    all
}

fn memory_risk(mut risks: Vec<&Risk>) -> Option<MemoryRisk> {
    risks.sort_by_key(|r| r.start_ms);
    let last = &risks.last()?.last;
    let forecast = &last.forecast;
    Some(MemoryRisk {
        memory: forecast.memory,
        meaning: meaning(forecast.memory),
        node: last.node.clone(),
        entity: last.entity.clone(),
        owners: last.owners.clone(),
        stretches: stretches(risks.iter().map(|r| Stretch { start_ms: r.start_ms, end_ms: r.end_ms })),
        earliest_ms: risks.iter().map(|r| r.earliest_ms).min()?,
        made_ms: last.made_ms,
        shape: forecast.shape,
        used_bytes: forecast.used,
        limit_bytes: forecast.limit,
        slope_bytes_per_second: Slope { low: forecast.slope_low, likely: forecast.slope, high: forecast.slope_high },
        time_to_limit: last.at_risk()?,
        remedies: remedies(forecast.memory),
    })
}

/// Those that touch or overlap become one. They come in order of start.
pub(super) fn stretches(sorted: impl IntoIterator<Item = Stretch>) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for next in sorted {
        match joined.last_mut() {
            Some(last) if next.start_ms <= last.end_ms => last.end_ms = last.end_ms.max(next.end_ms),
            _ => joined.push(next),
        }
    }
    joined
}

impl MemoryRisk {
    /// What tells it from others of its kind: the owner or node, or the GPU and its node.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.memory {
            Memory::Host => self.node.clone(),
            Memory::Gpu | Memory::Cgroup => format!("{} on {}", self.entity, self.node),
        }
    }

    /// `70.1 of 79.6 GiB (88.1 %)`, to be read.
    #[must_use]
    pub fn level(&self) -> String {
        let share = text::percent(Some(self.used_bytes / self.limit_bytes));
        format!("{} of {} GiB ({share})", gibibytes(self.used_bytes), gibibytes(self.limit_bytes))
    }

    /// The slope and its interval, to be read.
    #[must_use]
    pub fn growth(&self) -> String {
        let Slope { low, likely, high } = self.slope_bytes_per_second;
        let [low, likely, high] = [low, likely, high].map(|slope| gibibytes(slope * HOUR_SECONDS));
        format!("{likely} GiB per hour (90 % interval {low} to {high})")
    }

    /// Time to the limit and its interval, to be read.
    #[must_use]
    pub fn time_left(&self) -> String {
        let TimeToLimit { soonest_seconds, likely_seconds, latest_seconds } = self.time_to_limit;
        let latest = latest_seconds.map_or("beyond the horizon".into(), duration);
        format!("{} (90 % interval {} to {latest})", duration(likely_seconds), duration(soonest_seconds))
    }

    /// When the last forecast expects the limit, Unix milliseconds.
    #[must_use]
    pub fn expected_ms(&self) -> TimeMs {
        self.made_ms + (self.time_to_limit.likely_seconds * 1000.0) as i64
    }
}

fn gibibytes(bytes: f64) -> String {
    text::number(bytes / GIBIBYTE)
}

/// Hours and minutes.
fn duration(seconds: f64) -> String {
    if seconds < MINUTE_SECONDS {
        return "less than a minute".into();
    }
    let minutes = (seconds / MINUTE_SECONDS) as i64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// What happens when it runs out.
fn meaning(memory: Memory) -> &'static str {
    match memory {
        Memory::Gpu => {
            "The next allocation on the GPU fails and ends the process that asks; under MPS, one client's end by \
             out-of-memory takes the GPU's other clients down."
        }
        Memory::Cgroup => {
            "The kernel reclaims first and then kills a process of the job; the other ranks hang or fail with it."
        }
        Memory::Host => "The kernel kills the largest process on the node, which need not be the one that grows.",
    }
}

fn remedies(memory: Memory) -> &'static [Remedy] {
    match memory {
        Memory::Gpu => GPU,
        Memory::Cgroup => CGROUP,
        Memory::Host => HOST,
    }
}

const SAVE: Remedy = Remedy {
    action: "Save the job's state before the limit is reached: what comes after the last save is lost.",
    command: None,
    restarts: "nothing",
    who: "the job's owner",
    risk: "the GPU may wait while the state is written",
    source: "PyTorch documentation, torch.distributed.checkpoint",
};

const GPU: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "Find what grows: tensors that are kept, often losses collected for a log with their graph (take \
                 `loss.item()`), or a cache without a bound.",
        command: Some("torch.cuda.memory._record_memory_history(); torch.cuda.memory._dump_snapshot(\"FILE\")"),
        restarts: "the job, from its last checkpoint, to take the change up",
        who: "the job's owner",
        risk: "recording costs some speed",
        source: "PyTorch documentation, Understanding CUDA Memory Usage",
    },
    Remedy {
        action: "Where sizes vary from step to step, let the allocator grow its segments: that helps against \
                 fragmentation, not against a leak.",
        command: Some("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "none is documented beyond its being experimental",
        source: "PyTorch documentation, CUDA semantics, memory management",
    },
    Remedy {
        action: "Under MPS, bound each client, so that one that grows ends alone.",
        command: Some("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=SIZEG"),
        restarts: "the client",
        who: "whoever starts the client",
        risk: "a client that needs more than its bound fails",
        source: "NVIDIA Multi-Process Service documentation, environment variables",
    },
];

const CGROUP: &[Remedy] = &[
    SAVE,
    Remedy {
        action: "See what grows: `anon` is the processes' own memory (lists that loader workers keep), `shmem` is \
                 /dev/shm, `file` is the page cache and can be dropped.",
        command: Some("grep -E '^(anon|file|shmem) ' /sys/fs/cgroup/PATH/memory.stat"),
        restarts: "nothing",
        who: "any user on the node",
        risk: "none",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, memory interface files",
    },
    Remedy {
        action: "If it settles, give the job its measured peak and headroom, request and limit alike, so that a pod of \
                 class Guaranteed stays one.",
        command: Some("cat /sys/fs/cgroup/PATH/memory.peak"),
        restarts: "the pod is replaced; the job restarts from its last checkpoint",
        who: "the job's owner, within the namespace's quota",
        risk: "a larger request may not fit on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2; Kubernetes documentation, Pod Quality of Service \
                 Classes",
    },
    Remedy {
        action: "For a service or scope of systemd, raise the limit while it runs.",
        command: Some("systemctl set-property UNIT MemoryMax=SIZE"),
        restarts: "nothing",
        who: "root",
        risk: "takes memory from others on the node",
        source: "systemd.resource-control(5)",
    },
];

const HOST: &[Remedy] = &[
    Remedy {
        action: "Find who grows.",
        command: Some("ps -eo rss,pid,user,cgroup --sort=-rss | head"),
        restarts: "nothing",
        who: "any user on the node",
        risk: "none",
        source: "ps(1)",
    },
    SAVE,
    Remedy {
        action: "Bound whoever grows, so that the kernel kills it and not the largest job.",
        command: Some("systemctl set-property UNIT MemoryMax=SIZE"),
        restarts: "nothing; at the limit, what is in the unit",
        who: "root",
        risk: "the unit's processes are killed when they reach the limit",
        source: "systemd.resource-control(5)",
    },
    Remedy {
        action: "Let Slurm hold every job to the memory that it asked for.",
        command: Some("ConstrainRAMSpace=yes   # in cgroup.conf; task/cgroup in TaskPlugin"),
        restarts: "slurmd; jobs go on",
        who: "whoever administers Slurm",
        risk: "jobs that asked for too little are killed",
        source: "cgroup.conf(5)",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_whole_and_none_is_known_to_be_wrong() {
        for remedy in Memory::ALL.iter().flat_map(|memory| remedies(*memory)) {
            let text = format!("{remedy:?}").to_lowercase();
            for wrong in ["device:mem_limit", "reboot", "no memory limit", "max_pool_size"] {
                assert!(!text.contains(wrong), "{wrong} in {text}");
            }
            assert!(!remedy.restarts.is_empty() && !remedy.who.is_empty() && !remedy.source.is_empty());
        }
    }

    #[test]
    fn times_are_shown_in_hours_and_minutes() {
        assert_eq!([0.0, 60.0, 3599.0, 7265.0].map(duration), ["less than a minute", "1 min", "59 min", "2 h 1 min"]);
    }
}
