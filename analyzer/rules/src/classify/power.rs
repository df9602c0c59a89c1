//! What models of GPUs draw when nothing runs: the few that recorded data speaks for.

use super::Cell;
use crate::frame::Reading;
use crate::signal::{LEAST_WATTS, MOST_WATTS, Signal};

/// Power of one model.
#[derive(Debug, PartialEq)]
pub(super) struct Model {
    /// How the driver's name for it begins.
    name: &'static str,
    /// Its stock power limit, in watts (NVIDIA's data sheet of the model).
    limit: f64,
    /// What it draws with an idle context, in watts.
    pub(super) idle: f64,
    /// The power, in watts, above which it must hold a context; `None` where bare and held GPUs draw alike.
    pub(super) context: Option<f64>,
}

static MODELS: [Model; 2] = [
    // NVIDIA/aicr, 8 GPUs: 113.6 W under an idle vLLM pod, 65.7 to 71.8 W bare.
    Model { name: "NVIDIA H100 80GB HBM3", limit: 700.0, idle: 115.0, context: Some(95.0) },
    // JUWELS job 9482789: 65 to 70 W with an idle context; a bare one with MIG on: 67 W, with MIG off: 46 W.
    Model { name: "NVIDIA A100-SXM4", limit: 400.0, idle: 65.0, context: None },
];

/// The GPU's model, if its power is known.
pub(super) fn model(cell: &Cell<'_>) -> Option<&'static Model> {
    let name = cell.gpu.model.as_deref()?;
    MODELS.iter().find(|m| name.starts_with(m.name))
}

/// What tells the cell's mean power, and that power, in watts. The energy counter misses nothing between scrapes; the
/// gauge is what it was at each, which for a GPU that works in bursts may be any of them.
pub(super) fn drawn(cell: &Cell<'_>) -> Option<(Signal, f64)> {
    let counted = counted(cell).map(|reading| (Signal::GpuEnergy, reading.mean));
    counted.or_else(|| Some((Signal::GpuPower, cell.mean(Signal::GpuPower)?)))
}

/// The energy counter's reading, where it is of a board that draws power: one that stands still counts nothing.
pub(super) fn counted<'a>(cell: &Cell<'a>) -> Option<&'a Reading> {
    cell.read(Signal::GpuEnergy).filter(|reading| (LEAST_WATTS..=MOST_WATTS).contains(&reading.mean))
}

/// Power limits of boards as they are made, in watts, by how the driver's name for the model begins (NVIDIA's data sheets
/// and product briefs; where a model comes with several, the highest).
const BOARDS: [(&str, f64); 36] = [
    ("NVIDIA A10", 150.0),
    ("NVIDIA A10G", 300.0),
    ("NVIDIA A100 80GB PCIe", 300.0),
    ("NVIDIA A100-PCIE", 250.0),
    ("NVIDIA A100-SXM4", 400.0),
    ("NVIDIA A100-SXM", 500.0),
    ("NVIDIA A16", 62.5),
    ("NVIDIA A2", 60.0),
    ("NVIDIA A30", 165.0),
    ("NVIDIA A40", 300.0),
    ("NVIDIA B200", 1000.0),
    ("NVIDIA B300", 1400.0),
    ("NVIDIA GB200", 1200.0),
    ("NVIDIA GB300", 1400.0),
    ("NVIDIA GH200", 1000.0),
    ("NVIDIA H100", 700.0),
    ("NVIDIA H100 NVL", 400.0),
    ("NVIDIA H100 PCIe", 350.0),
    ("NVIDIA H200", 700.0),
    ("NVIDIA H200 NVL", 600.0),
    ("NVIDIA H20", 500.0),
    ("NVIDIA H800", 700.0),
    ("NVIDIA L4", 72.0),
    ("NVIDIA L40", 300.0),
    ("NVIDIA L40S", 350.0),
    ("NVIDIA RTX 6000 Ada", 300.0),
    ("NVIDIA RTX A6000", 300.0),
    ("NVIDIA RTX PRO 6000", 600.0),
    ("Tesla P100", 300.0),
    ("Tesla P4", 75.0),
    ("Tesla P40", 250.0),
    ("Tesla T4", 70.0),
    ("NVIDIA T4", 70.0),
    ("Tesla V100-PCIE", 250.0),
    ("Tesla V100-SXM2", 300.0),
    ("Tesla V100-SXM3", 450.0),
];

/// The power, in watts, that the board may draw: as it tells, else as its model is made.
pub(super) fn limit(cell: &Cell<'_>) -> Option<f64> {
    let made = || {
        let name = cell.gpu.model.as_deref()?;
        let known = BOARDS.iter().filter(|(model, _)| name.starts_with(model));
        known.max_by_key(|(model, _)| model.len()).map(|(_, watts)| *watts)
    };
    cell.mean(Signal::GpuPowerLimit).or_else(made)
}

/// What a board draws with an idle context, as a share of its limit, where neither the board nor its model tells: 115 of
/// 700 W on an H100 (NVIDIA/aicr), 65 of 400 W on an A100 (JUWELS job 9482789).
const IDLE_SHARE: f64 = 0.16;

/// The power, in watts, with an idle context: of this very board where it rested, else of its model, else by its limit.
pub(super) fn idle(cell: &Cell<'_>) -> Option<f64> {
    let limit = limit(cell);
    let own = cell.gpu.idle_watts.filter(|own| limit.is_none_or(|limit| 2.0 * own < limit));
    own.or_else(|| model(cell).map(|model| model.idle)).or_else(|| limit.map(|limit| limit * IDLE_SHARE))
}

/// The power, in watts, this share of the way from the board's own idle power to its limit.
pub(super) fn level(cell: &Cell<'_>, share: f64) -> Option<f64> {
    let (idle, limit) = (idle(cell)?, limit(cell)?);
    (limit > idle).then_some(idle + share * (limit - idle))
}

/// The least power, in watts, that the board drew in a cell in which it held a context and had no work.
pub(super) fn own_idle(cells: impl Iterator<Item = (f64, Reading)>) -> Option<f64> {
    let resting = cells.filter(|(busy, _)| *busy <= 0.0).map(|(_, power)| power.mean);
    resting.filter(|watts| *watts >= LEAST_WATTS).reduce(f64::min)
}

/// The power, in watts, that a GPU busy for this share of the cell draws at least if it works; `near_idle` is the
/// threshold's share of the range from idle to limit. `None` where the model is not known.
pub(super) fn working_watts(cell: &Cell<'_>, busy: f64, near_idle: f64) -> Option<f64> {
    above_idle(cell, model(cell)?.idle, busy * near_idle)
}

/// The power, in watts, this share of the way from idle to limit; `idle` is what the GPU itself draws without work. `None`
/// where the model is not known.
pub(super) fn above_idle(cell: &Cell<'_>, idle: f64, share: f64) -> Option<f64> {
    let limit = cell.mean(Signal::GpuPowerLimit).unwrap_or(model(cell)?.limit);
    (limit > idle).then_some(idle + share * (limit - idle))
}
