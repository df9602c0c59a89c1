//! Power that swings between work and spinning while kernels run without a pause. The power gauge is of a second or less, so
//! that a sample shows what the mean of a cell hides: seconds in which kernels did nothing. The energy of the cell tells how
//! many of them there were.
//!
//! Phases of a program that wait for device memory draw most of the power of those that compute, and do not come near.

use super::depth::Lost;
use super::spinning::is_gapless;
use super::thresholds::confidence::WEAK;
use super::work::work;
use super::{Cell, Fact, Thresholds, power};
use crate::frame::Reading;
use crate::signal::Signal;

/// Where a sample lies between spinning (0) and the power of work (1) to show that nothing was done for most of its second.
const LOW: f64 = 1.0 / 3.0;
/// Where the lowest sample of a cell lies that had some spinning in it.
const MIXED: f64 = 0.5;
/// Share of the cells around that have such a sample. A cell may have two samples only, and waiting for a third of the time
/// shows in five of nine of these.
const OFTEN: f64 = 1.0 / 3.0;

/// The share of its busy time in which kernels did nothing.
pub(super) fn lost(cell: &Cell<'_>, t: &Thresholds) -> Option<Lost> {
    let (signal, watts) = power::drawn(cell).filter(|_| runs_on(cell, t))?;
    let (line, hard) = (power::level(cell, t.power_near_idle_ratio)?, power::level(cell, t.spinning_power_ratio)?);
    // However much is drawn at work: no sample is higher.
    let lost_at = |at_work: f64| 1.0 - ((watts - line) / (at_work - line)).clamp(0.0, 1.0);
    if cell.gpu.extremes.watts.is_some_and(|most| most > line && lost_at(most) < t.shallow_ratio) {
        return None;
    }
    let at_work = top(cell, t).filter(|top| *top >= hard && *top > line)?;
    let share = |watts: f64| (watts - line) / (at_work - line);
    let lost = lost_at(at_work);
    if lost < t.shallow_ratio || is_slowed(cell, at_work, t) {
        return None;
    }
    let lowest: Vec<f64> = samples(cell, t.idle_window_seconds, t).map(|(_, power)| share(power.min)).collect();
    let least = lowest.iter().copied().reduce(f64::min)?;
    let mixed = lowest.iter().filter(|low| **low <= MIXED).count();
    if least > LOW || (mixed as f64) < OFTEN * lowest.len() as f64 {
        return None;
    }
    let kept = line + (1.0 - t.shallow_ratio) * (at_work - line);
    let ratio =
        Fact { signal: "lowest gpu_power between spinning and work", unit: "ratio", value: least, threshold: LOW };
    Some(Lost { share: lost, confidence: WEAK, facts: vec![Fact::of(signal, watts, kept), ratio] })
}

/// The power of work: what a tenth of the cells reach in a sample.
fn top(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    let mut highest: Vec<f64> = samples(cell, t.derate_around_seconds, t).map(|(_, power)| power.max).collect();
    if (highest.len() as f64) < t.deep_cells {
        return None;
    }
    let tenth = highest.len() / 10;
    Some(*highest.select_nth_unstable_by(tenth, |a, b| b.total_cmp(a)).1)
}

/// At lower clocks less power is drawn, and no rank is waited for.
fn is_slowed(cell: &Cell<'_>, at_work: f64, t: &Thresholds) -> bool {
    let hard = samples(cell, t.derate_around_seconds, t).filter(|(_, power)| power.max >= at_work);
    let clocks: Vec<f64> = hard.filter_map(|(cell, _)| cell.mean(Signal::SmClock)).collect();
    let usual = clocks.iter().sum::<f64>() / clocks.len() as f64;
    cell.mean(Signal::SmClock).is_some_and(|clock| clock < usual * t.shallow_clock_ratio)
}

/// The owner's cells around in which kernels ran without a pause, with their samples of power.
fn samples<'a, 't>(
    cell: &Cell<'a>,
    seconds: f64,
    t: &'t Thresholds,
) -> impl Iterator<Item = (Cell<'a>, &'a Reading)> + use<'a, 't> {
    let cell = *cell;
    let cells = cell.node.around(cell.index, seconds).map(move |index| Cell { index, ..cell });
    let told = cells.filter(move |cell| cell.is_held_by_owner() && runs_on(cell, t));
    told.filter_map(|cell| Some((cell, cell.read(Signal::GpuPower)?)))
}

fn runs_on(cell: &Cell<'_>, t: &Thresholds) -> bool {
    work(cell, t).is_some_and(|work| work.spun == 0.0 && is_gapless(cell, work.ratio))
}
