//! Do the GPUs of a run exchange data, as ranks do? Independent steps of one job do not: they need not wait for each other.

use super::work::work;
use super::{Cell, Thresholds};
use crate::signal::Signal;

/// Does the GPU work, and exchange nothing with others? Whatever leaves or reaches it goes over NVLink or PCIe, GPUDirect
/// RDMA included. False where nothing says so: without either rate, or where PCIe carries so much that it may be input or
/// an exchange.
pub(super) fn works_alone(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let around = cell.node.around(cell.index, t.around_seconds).map(|index| Cell { index, ..*cell });
    let mut worked = 0.0;
    for other in around.filter(Cell::is_held_by_owner) {
        match exchanges(&other, t) {
            Some(true) => return false,
            Some(false) if works_deep(&other, t) => worked += 1.0,
            _ => {}
        }
    }
    worked >= t.deep_cells
}

/// In this cell; `None` is not known.
fn exchanges(cell: &Cell<'_>, t: &Thresholds) -> Option<bool> {
    let nvlink = [Signal::NvlinkRate, Signal::NvlinkReceived].into_iter().filter_map(|signal| cell.mean(signal));
    let (nvlink, pcie) = (nvlink.reduce(f64::max)?, cell.mean(Signal::PcieReceive)?);
    if nvlink >= t.exchange_bytes {
        return Some(true);
    }
    (pcie < t.input_bytes).then_some(false)
}

/// Does it do more than kernels do that spin while they wait? Ranks that hang exchange nothing.
fn works_deep(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let is_above = |signal, most: f64| cell.mean(signal).is_some_and(|mean| mean > most);
    work(cell, t).is_some_and(|work| work.ratio >= t.derate_busy_ratio)
        && (is_above(Signal::TensorActive, t.depth_floor_ratio)
            || is_above(Signal::DramActive, t.spinning_dram_ratio)
            || is_above(Signal::SmActive, t.spinning_sm_ratio))
}
