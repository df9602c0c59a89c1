//! NVLinks that are down: a GPU has fewer than most of its peers, or than it had. A board without bridges has all of them
//! down, and is sound.

use super::super::{CauseKind, Fact, Thresholds};
use super::evidence::{Evidence, Grade};
use super::exchange::{Exchange, Side};
use crate::frame::GpuFrame;
use crate::links::{self, Links};
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
    Some(Evidence { kind: CauseKind::NvlinkDown, bound: None, stays: 0.0, grade: Grade::Inferred, at, facts })
}

/// Has it fewer links up than most peers, or than it had around? One that had none around may have no bridge, unless its board is
/// made to have links.
fn fewer_links(side: &Side<'_>, gpu: &GpuFrame, index: usize, t: &Thresholds) -> Option<Fact> {
    let own = links(gpu, index)?;
    let around = side.node.around(index, t.derate_around_seconds).filter_map(|index| links(gpu, index));
    let before = around.map(|links| links.up).fold(own.up, f64::max);
    let peers = side.node.gpus.iter().filter(|peer| peer.instance.is_none() && peer.uuid != gpu.uuid);
    let usual = links::usual(own, peers.filter_map(|peer| links(peer, index)));
    let full = usual.filter(|_| before > 0.0 || has_links(gpu)).map_or(before, |usual| usual.max(before));
    (own.up < full).then(|| Fact::of(Signal::NvlinkUp, own.up, full))
}

fn links(gpu: &GpuFrame, index: usize) -> Option<Links> {
    let [up, down] = [Signal::NvlinkUp, Signal::NvlinkDown].map(|signal| gpu.tracks.read(signal, index));
    Some(Links { up: up?.max, all: up?.max + down?.min })
}

/// Boards of HGX and DGX systems, as the driver names them: `NVIDIA A100-SXM4-80GB`, `NVIDIA H100 80GB HBM3`.
const ON_BASEBOARDS: [&str; 2] = ["SXM", "HBM3"];

/// Is the board made for a system in which every GPU has links? PCIe boards have them by bridges, which need not be there.
fn has_links(gpu: &GpuFrame) -> bool {
    let is_made_so = |model: &String| ON_BASEBOARDS.iter().any(|part| model.contains(part));
    gpu.tracks.has(Signal::FabricFailed) || gpu.model.as_ref().is_some_and(is_made_so)
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
