//! What was at risk: when, what tells so, when its end is due, and what to do about it.

mod disk;
mod eviction;
mod hardware;
mod memory;
mod network;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::fill::{About, filled};
use super::{Names, text, units};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Damage, Exhaustion, Forecast, Kind, Memory, Prospect, Remedy, Risk, TimeToLimit};

const MINUTE_SECONDS: f64 = 60.0;
const HOUR_SECONDS: f64 = 3600.0;
const GIBIBYTE: f64 = 1_073_741_824.0;

/// One thing that was at risk within the period: memory, a file system, the pods of a node, a GPU, or a part of the network.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RiskRow {
    /// What was at risk, as `kind` (`memory`, `disk`, `eviction`, `hardware`) and `which` of its kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// The GPU's UUID, for a MIG instance with `/` and its id behind it; the owner's id; where a file system is
    /// mounted; an RDMA port (`device/port`), a network interface, the PCI address of an NVSwitch; or the node again.
    pub entity: String,
    /// Who held the GPU at the last forecast; of an eviction, a port or a switch, the GPUs of the node; of others, empty.
    pub owners: Vec<String>,
    /// When it was at risk: stretches without a pause, in order of time.
    pub stretches: Vec<Stretch>,
    /// The earliest time at which any forecast of the period expected the limit, Unix milliseconds; null of hardware.
    pub earliest_ms: Option<TimeMs>,
    /// When the last forecast was made, Unix milliseconds. All that follows is as at that time.
    pub made_ms: TimeMs,
    /// What runs out, and when; null of hardware.
    pub exhaustion: Option<RunsOut>,
    /// What tells that hardware may fail; null of others.
    pub damage: Option<Damage>,
    /// What to do.
    pub remedies: &'static [Remedy],
    /// The commands of `remedies`, in their order, as they are typed; null where there is none, or what it is about is not
    /// known.
    pub commands: Vec<Option<String>>,
}

/// Something that runs out. Amounts are bytes, or inodes where these run out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunsOut {
    /// The forecast.
    #[serde(flatten)]
    pub forecast: Exhaustion,
    /// The forecast's `at_risk`, which everything that is a risk has: seconds from `made_ms` to the limit.
    #[serde(skip)]
    pub time_to_limit: TimeToLimit,
    #[serde(skip)]
    counts_inodes: bool,
}

/// From (inclusive) to (exclusive); no GPU-time is charged to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stretch {
    /// Unix milliseconds.
    pub start_ms: TimeMs,
    /// Unix milliseconds.
    pub end_ms: TimeMs,
}

/// One line per thing. Those that were at risk last come first; of these, things without a known end, then those whose
/// end is the nearest.
pub(super) fn rows(risks: &[Risk]) -> Vec<RiskRow> {
    let mut by_thing: BTreeMap<(Option<&str>, &str, Kind, &str), Vec<&Risk>> = BTreeMap::new();
    for risk in risks.iter().filter(|r| r.last.is_risk()) {
        let Prospect { cluster, node, kind, entity, .. } = &risk.last;
        by_thing.entry((cluster.as_deref(), node, *kind, entity)).or_default().push(risk);
    }
    let mut all: Vec<RiskRow> = by_thing.into_values().filter_map(row).collect();
    let until = |r: &RiskRow| r.stretches.last().map(|s| s.end_ms);
    let left = |r: &RiskRow| r.exhaustion.as_ref().map_or(0.0, |e| e.time_to_limit.likely_seconds);
    all.sort_by(|a, b| until(b).cmp(&until(a)).then(left(a).total_cmp(&left(b))));
    all
}

fn row(mut risks: Vec<&Risk>) -> Option<RiskRow> {
    risks.sort_by_key(|r| r.start_ms);
    let last = &risks.last()?.last;
    let (kind, counts_inodes) = (last.kind, last.kind.counts_inodes());
    let (exhaustion, damage) = match &last.forecast {
        Forecast::Exhaustion(forecast) => {
            let time_to_limit = forecast.at_risk?;
            (Some(RunsOut { forecast: *forecast, time_to_limit, counts_inodes }), None)
        }
        Forecast::Damage(damage) => (None, Some(damage.clone())),
    };
    Some(RiskRow {
        kind,
        meaning: meaning(kind),
        cluster: last.cluster.clone(),
        node: last.node.clone(),
        entity: last.entity.clone(),
        owners: last.owners.clone(),
        stretches: stretches(risks.iter().map(|r| Stretch { start_ms: r.start_ms, end_ms: r.end_ms })),
        earliest_ms: risks.iter().filter_map(|r| r.earliest_ms).min(),
        made_ms: last.made_ms,
        exhaustion,
        damage,
        remedies: remedies(kind),
        commands: filled(remedies(kind), &about(last)),
    })
}

/// What its commands are about.
pub(crate) fn about(prospect: &Prospect) -> About<'_> {
    let Prospect { node, entity, owners, kind, .. } = prospect;
    // A MIG instance is its GPU, a slash and its id.
    let gpu = kind.is_of_gpu().then(|| entity.split('/').next().unwrap_or(entity));
    let owner = match kind {
        Kind::Memory(Memory::Cgroup) => Some(entity.as_str()),
        _ => owners.first().map(String::as_str),
    };
    let mount = matches!(kind, Kind::Disk(_)).then_some(entity.as_str());
    let port = matches!(kind, Kind::Hardware(fault) if fault.is_of_port()).then_some(entity.as_str());
    About { node: Some(node), gpu, owner, mount, port }
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

impl RiskRow {
    /// What kind of risk it is, to be read.
    #[must_use]
    pub fn title(&self) -> String {
        title(self.kind)
    }

    /// What tells it from others of its kind: the node, or what it is and its node.
    #[must_use]
    pub fn subject(&self, names: &Names) -> String {
        if self.entity == self.node {
            return self.node.clone();
        }
        let which = names.index(&self.entity).map_or_else(|| self.entity.clone(), |index| format!("GPU {index}"));
        format!("{which} on {}", self.node)
    }

    /// When the last forecast expects the limit, Unix milliseconds.
    #[must_use]
    pub fn expected_ms(&self) -> Option<TimeMs> {
        Some(self.made_ms + (self.exhaustion.as_ref()?.time_to_limit.likely_seconds * 1000.0) as i64)
    }

    /// What is damaged, to be read.
    #[must_use]
    pub fn signs(&self) -> Vec<String> {
        self.damage.as_ref().map(signs).unwrap_or_default()
    }
}

impl RunsOut {
    /// `70.1 of 79.6 GiB (88.1 %)`, to be read.
    #[must_use]
    pub fn level(&self) -> String {
        let Exhaustion { used, limit, .. } = self.forecast;
        let share = text::percent(Some(used / limit));
        format!("{} of {} {} ({share})", self.amount(used), self.amount(limit), self.unit())
    }

    /// The slope and its interval, to be read.
    #[must_use]
    pub fn growth(&self) -> String {
        let Exhaustion { slope, slope_low, slope_high, .. } = self.forecast;
        let [low, likely, high] = [slope_low, slope, slope_high].map(|slope| self.amount(slope * HOUR_SECONDS));
        format!("{likely} {} per hour (90 % interval {low} to {high})", self.unit())
    }

    /// Time to the limit and its interval, to be read.
    #[must_use]
    pub fn time_left(&self) -> String {
        let TimeToLimit { soonest_seconds, likely_seconds, latest_seconds } = self.time_to_limit;
        let latest = latest_seconds.map_or("beyond the horizon".into(), duration);
        format!("{} (90 % interval {} to {latest})", duration(likely_seconds), duration(soonest_seconds))
    }

    fn amount(&self, amount: f64) -> String {
        if self.counts_inodes { units::count(Some(amount)) } else { text::number(amount / GIBIBYTE) }
    }

    fn unit(&self) -> &'static str {
        if self.counts_inodes { "inodes" } else { "GiB" }
    }
}

/// What kind of risk it is, to be read.
pub(crate) fn title(kind: Kind) -> String {
    match kind {
        Kind::Memory(memory) => format!("{} memory", memory.name()),
        Kind::Disk(room) => format!("disk {}", room.name()),
        Kind::Eviction(signal) => format!("eviction by {}", signal.name()),
        Kind::Hardware(fault) => {
            let of = if fault.is_of_gpu() { "GPU" } else { "network" };
            format!("{of} hardware, {}", fault.name().replace('_', " "))
        }
    }
}

/// What is damaged, to be read.
pub(crate) fn signs(damage: &Damage) -> Vec<String> {
    let sign = |e: &goodput_verdict::Evidence| {
        let shown = |value| units::measure(value, &e.unit);
        format!("{} {} (threshold {})", e.signal, shown(e.value), shown(e.threshold))
    };
    damage.evidence.iter().map(sign).collect()
}

/// How full something at risk is and when it is full, to be read; none where it is not at risk.
pub(crate) fn outlook(prospect: &Prospect) -> Option<String> {
    let (time_to_limit, forecast) = (prospect.at_risk()?, *prospect.exhaustion()?);
    let runs_out = RunsOut { forecast, time_to_limit, counts_inodes: prospect.kind.counts_inodes() };
    Some(format!("{}, at the limit in {}", runs_out.level(), duration(time_to_limit.likely_seconds)))
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

fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Memory(memory) => memory::meaning(memory),
        Kind::Disk(room) => disk::meaning(room),
        Kind::Eviction(signal) => eviction::meaning(signal),
        Kind::Hardware(fault) => hardware::meaning(fault),
    }
}

/// What to do about it.
pub(crate) fn remedies(kind: Kind) -> &'static [Remedy] {
    match kind {
        Kind::Memory(memory) => memory::remedies(memory),
        Kind::Disk(room) => disk::remedies(room),
        Kind::Eviction(signal) => eviction::remedies(signal),
        Kind::Hardware(fault) => hardware::remedies(fault),
    }
}

const SAVE: Remedy = Remedy {
    action: "Save the job's state before the limit is reached: what comes after the last save is lost.",
    who: "the job's owner",
    risk: "the GPU may wait while the state is written",
    source: "PyTorch documentation, torch.distributed.checkpoint",
    ..Remedy::LIVE
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_whole_and_none_is_known_to_be_wrong() {
        for remedy in Kind::all().flat_map(remedies) {
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
