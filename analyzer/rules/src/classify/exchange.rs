//! Do the GPUs of a run exchange data, as ranks do? Independent steps of one job do not: they need not wait for each other.

use super::work::work;
use super::{Cell, Thresholds};
use crate::signal::Signal;

/// Do the GPUs of a run on one node each keep a rhythm of their own? Ranks that wait for each other finish as many steps in
/// any time, so that what one of them does less of from one minute to the next, all do less of, however deep each works.
/// One that comes to be slower, or to have more to do, parts from the others when that begins and when it ends. Programs
/// that have nothing to do with each other part all the time. False where nothing tells what they do.
pub(super) fn keep_own_rhythms(cell: &Cell<'_>, others: &[Cell<'_>], t: &Thresholds) -> bool {
    let (mut together, mut apart, mut parted) = (0, 0, None);
    for index in cell.node.around(cell.index, t.derate_around_seconds).skip(1) {
        let Some(own) = change(&Cell { index, ..*cell }, t).filter(|own| own.abs() >= t.shallow_ratio) else {
            continue;
        };
        let changes = others.iter().filter_map(|other| change(&Cell { index, ..*other }, t));
        // With it, or against it and not at all.
        let (with, against): (Vec<f64>, Vec<f64>) = changes.partition(|other| (other - own).abs() < own.abs() / 2.0);
        if with.len() >= against.len() {
            together += usize::from(!with.is_empty());
            continue;
        }
        // A change in the middle of a cell shows in the next one too.
        apart += usize::from(parted.is_none_or(|last| last + 1 < index));
        parted = Some(index);
    }
    apart as f64 >= t.deep_cells && apart > together
}

/// By how much more is done in the cell than in the one before, as the logarithm of the ratio.
fn change(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let before = Cell { index: cell.index.checked_sub(1)?, ..*cell };
    let rate = |cell: &Cell<'_>, signal| {
        let works = cell.is_held_by_owner() && work(cell, t).is_some_and(|work| work.ratio >= t.derate_busy_ratio);
        // Tensor cores count cycles, and a lower clock has fewer.
        let clock = if signal == Signal::TensorActive { cell.mean(Signal::SmClock).unwrap_or(1.0) } else { 1.0 };
        Some(clock * cell.mean(signal).filter(|mean| works && *mean >= t.depth_floor_ratio)?)
    };
    let both = |signal| Some(rate(cell, signal)? / rate(&before, signal)?);
    let ratio = both(Signal::TensorActive).or_else(|| both(Signal::DramActive))?;
    Some(ratio.ln()).filter(|change| change.is_finite())
}

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
