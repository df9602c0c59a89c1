//! `host_to_device`: batches are on their way to the GPU over PCIe, and it has nothing to do meanwhile.
//!
//! Bytes alone prove nothing: input that is copied while kernels run costs no time. Time that copies take is time that the
//! GPU does not work, so more bytes and less work come together; of late batches less of both arrives.

use super::busy::busy;
use super::pcie_degraded::{is_degraded, link_rate};
use super::thresholds::confidence::INFERRED;
use super::work::work;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::median::median;
use crate::signal::Signal;

pub(super) const RULE: Rule =
    Rule { class: Class::HostToDevice, explains: &[Class::DataloaderCpu, Class::FeedingUnsplit], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(received) = cell.mean(Signal::PcieReceive) else { return Verdict::without(&[Signal::PcieReceive]) };
    let Some(busy) = busy(cell, t) else { return Verdict::No };
    let copying = received / t.slow_copy_bytes;
    let working = busy.ratio.max(busy.spun);
    if copying < t.copying_ratio {
        return Verdict::No;
    }
    let Some(exposed) = exposed(cell, received, working, t) else { return Verdict::No };
    let facts = vec![
        Fact::of(Signal::PcieReceive, received, t.copying_ratio * t.slow_copy_bytes),
        Fact { signal: "pcie_receive / slowest copy", unit: "ratio", value: copying, threshold: t.copying_ratio },
        exposed,
    ];
    Verdict::Claim { max_share: copying.min(1.0 - working), confidence: INFERRED, facts }
}

/// What shows that the GPU waits for its copies.
fn exposed(cell: &Cell<'_>, received: f64, working: f64, t: &Thresholds) -> Option<Fact> {
    let fact = |signal, threshold| {
        (received >= threshold).then_some(Fact { signal, ..Fact::of(Signal::PcieReceive, received, threshold) })
    };
    let beyond = fewer_bytes(cell, working, t)
        .and_then(|usual| fact("pcie_receive while GPUs work more", usual + t.copying_ratio * t.slow_copy_bytes));
    let full = || fact("pcie_receive of the link's rate", link_rate(cell, t)? * t.link_full_ratio);
    beyond.or_else(full).or_else(|| slower_link(cell, received, working, t))
}

/// The same bytes for each second of work took more of the time, of this GPU or another of the owner, while its link was
/// below what it can be.
fn slower_link(cell: &Cell<'_>, received: f64, working: f64, t: &Thresholds) -> Option<Fact> {
    if is_degraded(cell) != Some(false) {
        return None;
    }
    let alike = cell.node.gpus.iter().filter(|gpu| gpu.model == cell.gpu.model);
    let around =
        |gpu| cell.node.around(cell.index, t.derate_around_seconds).map(move |index| Cell { gpu, index, ..*cell });
    let degraded = alike.flat_map(around);
    let degraded = degraded.filter(|other| other.is_held_by_owner() && is_degraded(other) == Some(true));
    let found = degraded.filter_map(|other| {
        let works = work(&other, t).map(|work| work.ratio.max(work.spun))?;
        let (there, here) = (other.mean(Signal::PcieReceive)? / works, received / working);
        let is_like = there <= here * t.like_batch_ratio && here <= there * t.like_batch_ratio;
        (is_like && works + t.copying_ratio <= working).then_some(works)
    });
    let value = median(found.collect())?;
    Some(Fact { signal: "busy while the link was slower", unit: "ratio", value, threshold: working - t.copying_ratio })
}

/// The rate at which bytes come to the owner's GPUs where they work more: to this one at another time, or to one of the
/// same model at the same time.
fn fewer_bytes(cell: &Cell<'_>, working: f64, t: &Thresholds) -> Option<f64> {
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let peers = cell.node.gpus.iter().filter(|gpu| gpu.model == cell.gpu.model).map(|gpu| Cell { gpu, ..*cell });
    let others = around.chain(peers).filter(Cell::is_held_by_owner).filter_map(|other| {
        let work = work(&other, t)?;
        Some((work.ratio.max(work.spun), other.mean(Signal::PcieReceive)?))
    });
    let others: Vec<(f64, f64)> = others.filter(|(works, _)| *works >= working + t.copying_ratio).collect();
    // In those that work the most, the least is late for other reasons.
    let most = others.iter().map(|(works, _)| *works).reduce(f64::max)? - t.sustained_busy_ratio;
    median(others.into_iter().filter(|(works, _)| *works >= most).map(|(_, bytes)| bytes).collect())
}
