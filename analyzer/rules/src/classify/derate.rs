//! Work that took longer than it had to, because clocks were held down or kernels had nothing to do, and work that was
//! thrown away.

use super::work::work;
use super::{
    Cell, Class, Thresholds, Verdict, clock_locked, collective_wait, launch_bound, lost_work, power_throttle,
    recompute, thermal_throttle, timeslice_gap,
};
use crate::frame::GpuFrame;
use crate::median::upper_median;

/// A way to see that a busy GPU was slowed, or busy in vain.
#[derive(Debug)]
pub struct Derate {
    /// What the lost part of the busy time is booked on.
    pub class: Class,
    /// Pure, and only asked where the GPU was busy; its `max_share` is of the busy time.
    pub judge: fn(&Cell<'_>, &Thresholds) -> Verdict,
}

/// Every derate. Each takes from what those before it left.
pub static DERATES: &[Derate] = &[
    thermal_throttle::DERATE,
    power_throttle::DERATE,
    clock_locked::DERATE,
    timeslice_gap::DERATE,
    launch_bound::DERATE,
    collective_wait::DERATE,
    recompute::DERATE,
    lost_work::DERATE,
];

/// How much of the time a reason held the clocks down, and how far below `usual` they were: the smaller is what was lost.
pub(super) fn lost_share(held_down: f64, clock: f64, usual: f64) -> f64 {
    held_down.min(1.0 - clock / usual).max(0.0)
}

/// The mean SM clock, in hertz, of a cell with enough work to tell.
pub(super) fn clock(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    work(cell, t)?.clock
}

/// The median of the clocks that GPUs of this model on the node, this one among them, have in the cells around under
/// like load, as far as they are `fit` to compare with.
pub(super) fn usual_clock(cell: &Cell<'_>, t: &Thresholds, fit: impl Fn(&Cell<'_>) -> bool) -> Option<f64> {
    upper_median(clocks(cell, t, fit)?.collect())
}

/// Whether that median, of all such cells, fulfils a condition that holds for every clock below one for which it holds;
/// `None` where there is none. Nothing is sorted for that.
pub(super) fn is_usual_clock(cell: &Cell<'_>, t: &Thresholds, condition: impl Fn(f64) -> bool) -> Option<bool> {
    if is_held_by_all(cell, &condition) {
        return Some(true);
    }
    let most = cell.node.gpus.len() * cell.node.around(cell.index, t.derate_around_seconds).len();
    let (mut all, mut fulfil) = (0, 0);
    for clock in clocks(cell, t, |_| true)? {
        all += 1;
        fulfil += usize::from(condition(clock));
        if fulfil > most / 2 {
            // Whatever the others are.
            return Some(true);
        }
    }
    (all > 0).then_some(fulfil > all / 2)
}

/// Does the condition hold for the highest clock of all that may be compared, and so for each of them? The cell's own is one.
fn is_held_by_all(cell: &Cell<'_>, condition: impl Fn(f64) -> bool) -> bool {
    let clock = cell.gpu.work.get(cell.index).and_then(|work| work.as_ref()?.clock);
    let highest = cell.node.gpus.iter().filter_map(|gpu| gpu.extremes.clock).reduce(f64::max);
    cell.gpu.model.is_some() && clock.is_some() && highest.is_some_and(condition)
}

fn clocks<'a>(
    cell: &Cell<'a>,
    t: &'a Thresholds,
    fit: impl Fn(&Cell<'_>) -> bool,
) -> Option<impl Iterator<Item = f64>> {
    let model = cell.gpu.model.as_deref()?;
    // Of a GPU that is cut up the clock is that of all of its instances.
    let (cell, is_instance) = (*cell, cell.gpu.instance.is_some());
    let is_alike = move |gpu: &&GpuFrame| gpu.model.as_deref() == Some(model) && gpu.instance.is_some() == is_instance;
    let around = cell.node.around(cell.index, t.derate_around_seconds);
    let alike = cell.node.gpus.iter().filter(is_alike);
    let cells = alike.flat_map(move |gpu| around.clone().map(move |index| Cell { gpu, index, ..cell }));
    Some(cells.filter(move |cell| fit(cell)).filter_map(|cell| clock(&cell, t)))
}
