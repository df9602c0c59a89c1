//! What the same port is on the other nodes of its pool: those of the cluster whose GPUs are of the same model.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{Part, What};
use crate::frame::STALENESS_MS;
use crate::signal::Signal;
use goodput_exposition::sample::{Sample, TimeMs};

/// With fewer nodes nothing is usual: of two that differ, either may be the odd one.
const LEAST_NODES: usize = 3;

/// What more than half of a pool's ports of one name are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usual {
    pub(super) is_active: bool,
    /// Line rate, bytes per second.
    pub(super) speed: Option<f64>,
}

/// A port is at the same place where cluster, model and name are the same.
type Place<'a> = (&'a str, Option<&'a str>, &'a str);

/// Which parts are one another's peers, and what was found of them by time: every one of them asks.
#[derive(Debug, Default)]
pub(super) struct Pools {
    peers: Vec<Vec<usize>>,
    found: Mutex<BTreeMap<(usize, TimeMs), Usual>>,
}

impl Pools {
    /// Tells each part the number of its pool.
    pub(super) fn of(parts: &mut [Part]) -> Pools {
        let mut places: BTreeMap<Place<'_>, Vec<usize>> = BTreeMap::new();
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.what == What::Port) {
            places.entry((&part.cluster, part.model.as_deref(), &part.name)).or_default().push(index);
        }
        let peers: Vec<Vec<usize>> = places.into_values().filter(|peers| peers.len() >= LEAST_NODES).collect();
        for (number, peers) in peers.iter().enumerate() {
            peers.iter().for_each(|index| parts[*index].pool = Some(number));
        }
        Pools { peers, found: Mutex::default() }
    }

    /// `None` without a pool.
    pub(super) fn usual(&self, parts: &[Part], of: &Part, now: TimeMs) -> Option<Usual> {
        let pool = of.pool?;
        let peers = self.peers.get(pool)?;
        let usual = || Usual::of(peers.iter().filter_map(|index| parts.get(*index)), peers.len(), now);
        Some(*self.found.lock().entry((pool, now)).or_insert_with(usual))
    }
}

impl Usual {
    fn of<'a>(peers: impl Iterator<Item = &'a Part>, count: usize, now: TimeMs) -> Usual {
        let (mut active, mut speeds) = (0, BTreeMap::new());
        for peer in peers {
            active += usize::from(at(peer.samples(Signal::PortActive), now).is_some_and(|state| state >= 1.0));
            if let Some(speed) = at(peer.samples(Signal::PortSpeed), now) {
                *speeds.entry(speed.to_bits()).or_insert(0) += 1;
            }
        }
        let speed = speeds.into_iter().find(|(_, alike)| 2 * alike > count).map(|(bits, _)| f64::from_bits(bits));
        Usual { is_active: 2 * active > count, speed }
    }
}

/// The level at a time; `None` where the last sample is too old to tell.
pub(super) fn at(samples: &[Sample], now: TimeMs) -> Option<f64> {
    let last = samples[..samples.partition_point(|s| s.time_ms <= now)].last()?;
    (now - last.time_ms <= STALENESS_MS).then_some(last.value)
}
