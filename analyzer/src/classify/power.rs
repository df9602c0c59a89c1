//! What models of GPUs draw when nothing runs: the few that recorded data speaks for.

use super::Cell;
use crate::signal::Signal;

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
    [Signal::GpuEnergy, Signal::GpuPower].into_iter().find_map(|signal| Some((signal, cell.mean(signal)?)))
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
