//! NVLinks that are down: a GPU has fewer than every peer, or than it had. A board without bridges has all of them down, and
//! is sound: others of its node are made so too.

use super::super::{CauseKind, Fact, Thresholds};
use super::evidence::Evidence;
use super::exchange::{Exchange, Side};
use crate::frame::GpuFrame;
use crate::median::upper_median;
use crate::signal::Signal;

/// Bytes of a GPU, as a share of those of its peers, from which its NVLinks carry the exchange all the same (own choice).
const CARRIES: f64 = 0.1;

/// GPUs of the run whose NVLinks are down, or that the fabric does not take.
pub(super) fn down(run: &Exchange<'_>, cell: usize, t: &Thresholds) -> Option<Evidence> {
    let (mut at, mut fact) = (Vec::new(), None);
    for (n, side, index) in run.at(cell) {
        for gpu in side.gpus_of_run(index) {
            let shown = fewer_links(side, gpu, index, t).or_else(|| failed(gpu, index));
            if let Some(shown) = shown.filter(|_| !carries(side, gpu, index, t)) {
                at.push((n, gpu.uuid.clone(), 1.0));
                fact = fact.or(Some(shown));
            }
        }
    }
    let facts = vec![fact?];
    // Without cells in which they were up nothing says that they cost anything.
    Some(Evidence {
        kind: CauseKind::NvlinkDown,
        bound: None,
        stays: 0.0,
        is_counted: false,
        is_weak: false,
        at,
        facts,
    })
}

/// Has it fewer links up than every other GPU of its model on the node, or than it had around?
fn fewer_links(side: &Side<'_>, gpu: &GpuFrame, index: usize, t: &Thresholds) -> Option<Fact> {
    let up = |gpu: &GpuFrame, index: usize| gpu.tracks.read(Signal::NvlinkUp, index).map(|links| links.max);
    let own = up(gpu, index)?;
    let peers = side.node.gpus.iter().filter(|peer| peer.instance.is_none() && peer.model == gpu.model);
    let of_peers = peers.filter(|peer| peer.uuid != gpu.uuid).filter_map(|peer| up(peer, index)).reduce(f64::min);
    let own_around = side.node.around(index, t.derate_around_seconds).filter_map(|index| up(gpu, index));
    let usual = of_peers.into_iter().chain(own_around).reduce(f64::max)?;
    (own < usual).then(|| Fact::of(Signal::NvlinkUp, own, usual))
}

fn failed(gpu: &GpuFrame, index: usize) -> Option<Fact> {
    let failed = gpu.tracks.read(Signal::FabricFailed, index)?;
    (failed.min >= 1.0).then(|| Fact::of(Signal::FabricFailed, failed.min, 1.0))
}

/// Do its NVLinks carry about what those of its peers do?
fn carries(side: &Side<'_>, gpu: &GpuFrame, index: usize, t: &Thresholds) -> bool {
    let others = side.gpus_of_run(index).filter(|peer| peer.uuid != gpu.uuid);
    let of_others = upper_median(others.filter_map(|peer| bytes(peer, index)).collect()).unwrap_or(0.0);
    bytes(gpu, index).is_some_and(|own| own >= t.exchange_bytes && own >= CARRIES * of_others)
}

/// Bytes per second over NVLink.
pub(super) fn bytes(gpu: &GpuFrame, index: usize) -> Option<f64> {
    [Signal::NvlinkReceived, Signal::NvlinkRate].into_iter().find_map(|s| gpu.tracks.read(s, index)).map(|r| r.mean)
}
