//! Links that may fail: RDMA ports, network interfaces, NVSwitches, and the NVLinks of GPUs.
//!
//! A port is compared with what it was within the window, and with the same port of the pool's other nodes ([`pool`]): ports of
//! one node may differ on purpose, as those for storage do. A counter that stands at its maximum is not admitted by its
//! signal, and so tells nothing.

mod nvlink;
mod pool;
mod port;
mod switch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::course::Course;
use super::{Fault, Forecast, Kind};
use crate::frame::{self, Levels, NodeSources, STALENESS_MS, Source};
use crate::signal::{Entity, Signal, model_of};
use goodput_exposition::sample::{Sample, TimeMs};
pub(super) use nvlink::courses as nvlink_courses;
use pool::Pools;

/// What is looked at of networks.
pub(super) const SIGNALS: &[Signal] = &[
    Signal::NvlinkUp,
    Signal::NvlinkDown,
    Signal::FabricFailed,
    Signal::MigCapacity,
    Signal::SwitchErrors,
    Signal::PortActive,
    Signal::PortSpeed,
    Signal::PortTimeouts,
    Signal::PortFatal,
    Signal::PortLinkChanges,
    Signal::PortSymbolErrors,
    Signal::PortReceiveErrors,
    Signal::PortDiscards,
    Signal::PortIntegrityErrors,
    Signal::PortOverruns,
    Signal::InterfaceCarrierChanges,
];

/// Of ports.
const PORT_FAULTS: &[Fault] =
    &[Fault::RdmaPortDown, Fault::RdmaPortSlow, Fault::RdmaLinkUnstable, Fault::RdmaLinkErrors, Fault::RdmaTransport];

/// What a part of a node's network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Port,
    Interface,
    Switch,
}

/// One series' samples.
#[derive(Debug)]
struct Track {
    /// What of the part it counts: the kind, the name of the metric, or a switch's address, code and severity.
    of: Vec<String>,
    samples: Vec<Sample>,
    /// When its target was first scraped.
    since: TimeMs,
}

/// An RDMA port, a network interface or an NVSwitch.
#[derive(Debug)]
pub(super) struct Part {
    cluster: String,
    node: String,
    /// `device/port`, the interface, or the switch's PCI address.
    name: String,
    what: What,
    /// The models of the node's GPUs, where series tell any.
    model: Option<String>,
    by_signal: BTreeMap<Signal, Vec<Track>>,
    /// Number of the pool that it is compared with.
    pool: Option<usize>,
}

/// All parts, and the pools that ports are compared with.
#[derive(Debug)]
pub(super) struct Network {
    parts: Vec<Part>,
    pools: Pools,
}

impl Network {
    pub(super) fn of(sources: &[Source<'_>]) -> Network {
        let mut parts: Vec<Part> = frame::by_name(sources).iter().flat_map(parts).collect();
        Network { pools: Pools::of(&mut parts), parts }
    }

    /// Every way in which a part may be damaged. It hits all who hold a GPU of the node.
    pub(super) fn courses<'a>(&'a self, levels: &'a [Levels<'a>]) -> Vec<Course<'a>> {
        let mut gpus: BTreeMap<(&str, &str), Vec<&'a Levels<'a>>> = BTreeMap::new();
        let is_gpu = |l: &&Levels<'_>| matches!(l.entity, Entity::Gpu(_) | Entity::MigInstance(..));
        for level in levels.iter().filter(is_gpu) {
            gpus.entry((&level.cluster, &level.node)).or_default().push(level);
        }
        let of = |part: &'a Part| {
            let gpus = gpus.get(&(part.cluster.as_str(), part.node.as_str())).cloned().unwrap_or_default();
            part.faults().iter().map(move |fault| Course {
                kind: Kind::Hardware(*fault),
                cluster: &part.cluster,
                node: &part.node,
                entity: part.name.clone(),
                gpus: gpus.clone(),
                look: Box::new(move |now, t| {
                    let damage = match part.what {
                        What::Switch => switch::look(part, now, t),
                        What::Port | What::Interface => port::look(*fault, part, self, now, t),
                    };
                    damage.map(Forecast::Damage)
                }),
            })
        };
        self.parts.iter().flat_map(of).collect()
    }
}

impl Part {
    fn faults(&self) -> &'static [Fault] {
        match self.what {
            What::Port => PORT_FAULTS,
            What::Interface => &[Fault::RdmaLinkUnstable],
            What::Switch => &[Fault::NvswitchSxid],
        }
    }

    fn tracks(&self, signal: Signal) -> &[Track] {
        self.by_signal.get(&signal).map_or(&[], Vec::as_slice)
    }

    /// Of a state, which is one series.
    fn samples(&self, signal: Signal) -> &[Sample] {
        self.tracks(signal).first().map_or(&[], |track| track.samples.as_slice())
    }
}

/// The parts of one node. Interfaces count where the node has RDMA ports: of others no job's exchange is known to go over them.
fn parts(node: &NodeSources<'_, '_>) -> Vec<Part> {
    let models: BTreeSet<&str> = node.sources.iter().filter_map(|s| model_of(s.labels)).collect();
    let model = (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(", "));
    let mut since = BTreeMap::new();
    for (target, first) in node.sources.iter().filter_map(|s| Some((s.target, s.samples.first()?.time_ms))) {
        since.entry(target).and_modify(|known: &mut TimeMs| *known = first.min(*known)).or_insert(first);
    }
    // Of several metrics or targets that tell the same thing, the one with the most samples.
    let mut origins: BTreeMap<_, Vec<Track>> = BTreeMap::new();
    for source in node.sources.iter().filter(|s| SIGNALS.contains(&s.meaning.signal)) {
        let Some((name, what)) = place(source) else { continue };
        let since = since.get(&source.target).copied().unwrap_or_default();
        let key = (name, source.meaning.signal, source.meaning.rank, source.target);
        add(origins.entry((what as u8, key)).or_default(), Track::of(source, since));
    }
    let mut parts: BTreeMap<(u8, &str), Part> = BTreeMap::new();
    for ((what, (name, signal, ..)), tracks) in origins {
        let part = parts.entry((what, name)).or_insert_with(|| Part {
            cluster: node.cluster.clone(),
            node: node.node.clone(),
            name: name.to_owned(),
            what: [What::Port, What::Interface, What::Switch][usize::from(what)],
            model: model.clone(),
            by_signal: BTreeMap::new(),
            pool: None,
        });
        let known = part.by_signal.entry(signal).or_default();
        let count = |tracks: &[Track]| tracks.iter().map(|track| track.samples.len()).sum::<usize>();
        if count(&tracks) > count(known) {
            *known = tracks;
        }
    }
    let has_ports = parts.keys().any(|(what, _)| *what == What::Port as u8);
    parts.into_values().filter(|part| has_ports || part.what != What::Interface).collect()
}

/// Which part a series is about.
fn place<'s>(source: &'s Source<'_>) -> Option<(&'s str, What)> {
    let meaning = &source.meaning;
    match meaning.signal {
        Signal::SwitchErrors => Some((meaning.part.first()?, What::Switch)),
        Signal::InterfaceCarrierChanges => Some((meaning.split.as_deref()?, What::Interface)),
        _ => Some((meaning.split.as_deref()?, What::Port)),
    }
}

/// Series that tell the same thing are replicas: the longest is taken.
fn add(tracks: &mut Vec<Track>, track: Track) {
    match tracks.iter_mut().find(|known| known.of == track.of) {
        Some(known) if track.samples.len() > known.samples.len() => *known = track,
        Some(_) => {}
        None => tracks.push(track),
    }
}

impl Track {
    fn of(source: &Source<'_>, since: TimeMs) -> Track {
        let (signal, scale) = (source.meaning.signal, source.meaning.scale);
        let scaled = source.samples.iter().map(|s| Sample { value: s.value * scale, ..*s });
        let samples = scaled.filter(|s| signal.admits(s.value)).collect();
        Track { of: source.meaning.part.iter().map(|part| (*part).to_owned()).collect(), samples, since }
    }
}

/// The samples of the time before.
fn within(samples: &[Sample], now: TimeMs, seconds: f64) -> &[Sample] {
    let at = |time| samples.partition_point(|s| s.time_ms < time);
    &samples[at(from(now, seconds))..at(now + 1)]
}

/// Was it so for this long, and is it still? What began within that time was not, and what is not known is not.
fn lasts(samples: &[Sample], now: TimeMs, seconds: f64, is: impl Fn(f64) -> bool) -> bool {
    let known = &samples[..samples.partition_point(|s| s.time_ms <= now)];
    let Some(at) = known.partition_point(|s| s.time_ms <= from(now, seconds)).checked_sub(1) else { return false };
    let gaps = known[at..].windows(2).all(|pair| pair[1].time_ms - pair[0].time_ms <= STALENESS_MS);
    let is_fresh = known.last().is_some_and(|s| now - s.time_ms <= STALENESS_MS);
    is_fresh && gaps && known[at..].iter().all(|s| is(s.value))
}

fn from(now: TimeMs, seconds: f64) -> TimeMs {
    now - (seconds * 1000.0) as i64
}
