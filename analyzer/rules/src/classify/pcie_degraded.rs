//! `pcie_degraded`: copies to the GPU took longer because its PCIe link was below what GPU and slot can do.
//!
//! It works as fast as ever and waits longer for its batches, so that what is lost is not in its busy time.

use super::busy::busy;
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule =
    Rule { class: Class::PcieDegraded, explains: &[Class::HostToDevice, Class::FeedingUnsplit], judge };

/// Generation and width of the link, then the highest of both.
const SIGNALS: [Signal; 4] =
    [Signal::PcieGeneration, Signal::PcieWidth, Signal::PcieMaxGeneration, Signal::PcieMaxWidth];

/// Bytes per second that one lane of each generation carries in one direction, from the first on: 2.5 and 5 GT/s with
/// 8 of 10 bits, 8, 16 and 32 GT/s with 128 of 130, 64 GT/s with 242 of 256 bytes of a flit (PCI Express Base
/// Specification).
const LANE_BYTES: [f64; 6] = [0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9];

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    // Our exporter tells how the link was when the GPU was last seen busy; an idle one lowers its link on purpose.
    if cell.read(Signal::PcieDegraded).is_some_and(|degraded| degraded.max < 1.0) {
        return Verdict::No;
    }
    let [generation, width, max_generation, max_width] = SIGNALS;
    let (now, full) = (rate(cell, [generation, width], t), rate(cell, [max_generation, max_width], t));
    let (Some(now), Some(full)) = (now, full) else { return Verdict::without(&SIGNALS) };
    if !(now > 0.0 && now < full) {
        return Verdict::No;
    }
    let Some(received) = cell.mean(Signal::PcieReceive) else { return Verdict::without(&[Signal::PcieReceive]) };
    let Some(busy) = busy(cell, t) else { return Verdict::No };
    let lost = received / now - received / full;
    if lost.is_nan() || lost < t.copying_ratio {
        return Verdict::No;
    }
    let facts = vec![
        Fact { signal: "PCIe link", unit: "bytes per second", value: now, threshold: full },
        Fact::of(Signal::PcieReceive, received, t.copying_ratio / (1.0 / now - 1.0 / full)),
    ];
    // What is copied while kernels run costs nothing.
    Verdict::Claim { max_share: lost.min(1.0 - busy.ratio.max(busy.spun)), confidence: INFERRED, facts }
}

/// What the link that is there carries, in bytes per second; `None` where that is not told.
pub(super) fn link_rate(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let around = cell.node.around(cell.index, t.idle_window_seconds).map(|index| Cell { index, ..*cell });
    let here = is_degraded(cell);
    most_of(around.filter(|cell| is_degraded(cell) == here), [SIGNALS[0], SIGNALS[1]])
}

/// Was the link below what it can be when the GPU was last seen busy? `None` where that is not told, or changed.
pub(super) fn is_degraded(cell: &Cell<'_>) -> Option<bool> {
    let told = cell.read(Signal::PcieDegraded)?;
    if told.max < 1.0 { Some(false) } else { (told.min >= 1.0).then_some(true) }
}

/// What the link carries, in bytes per second: the most within the idle window around, in which a GPU at work shows its
/// link as it is at load.
fn rate(cell: &Cell<'_>, signals: [Signal; 2], t: &Thresholds) -> Option<f64> {
    // Where it is known in which cells it was so, others tell nothing.
    let was_so = |cell: &Cell<'_>| cell.read(Signal::PcieDegraded).is_none_or(|degraded| degraded.min >= 1.0);
    let around = cell.node.around(cell.index, t.idle_window_seconds).map(|index| Cell { index, ..*cell });
    most_of(around.filter(was_so), signals)
}

/// What a link carries of the highest generation and width that these cells tell.
fn most_of<'a>(cells: impl Iterator<Item = Cell<'a>>, signals: [Signal; 2]) -> Option<f64> {
    let cells: Vec<Cell<'_>> = cells.collect();
    let most = |signal| cells.iter().filter_map(|cell| Some(cell.read(signal)?.max)).reduce(f64::max);
    let [Some(generation), Some(width)] = signals.map(most) else { return None };
    Some(LANE_BYTES.get((generation as usize).checked_sub(1)?)? * width)
}
