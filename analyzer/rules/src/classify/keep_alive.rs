//! `keep_alive`: short bursts that draw little power, minute after minute, and no other work: they only defeat tools
//! that reap idle GPUs.

use super::phase::{Course, Phase};
use super::server_clock::is_server;
use super::{Cell, Class, Fact, Thresholds, power};
use crate::signal::Signal;

/// The bursts look like work and are none.
pub(super) const PHASE: Phase = Phase { class: Class::KeepAlive, takes_work: true, mark, missing };

fn missing(cell: &Cell<'_>) -> Vec<Signal> {
    if power::drawn(cell).is_none() { vec![Signal::GpuEnergy, Signal::GpuPower] } else { Vec::new() }
}

fn mark(course: &Course<'_>, cell: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let facts = pretends(course, cell, t)?;
    let goes_on = |i: &usize| pretends(course, *i, t).is_some();
    let before = (0..cell).rev().take_while(goes_on);
    let after = (cell + 1..course.node.cells.len()).take_while(goes_on);
    let ms: i64 = before.chain(after).chain([cell]).map(|i| course.gpu.known_ms[i]).sum();
    if (ms as f64) < t.idle_window_seconds * 1000.0 {
        return None;
    }
    let around = course.node.around(cell, t.idle_window_seconds);
    let is_burst = |i: &usize| goes_on(i) && course.busy(*i).is_some_and(|busy| busy >= t.keep_alive_least_busy_ratio);
    let bursts = around.filter(is_burst).count() as f64;
    let told = Fact { signal: "cells with bursts", unit: "cells", value: bursts, threshold: t.keep_alive_bursts };
    (bursts >= t.keep_alive_bursts).then(|| facts.into_iter().chain([told]).collect())
}

/// Could the cell be one between or with such bursts? What it draws, and that its owner's CPUs and reads are at rest.
fn pretends(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let busy = course.state(index).busy.as_ref().filter(|_| course.is_held(index))?;
    if busy.spun > 0.0 || busy.ratio > t.keep_alive_most_busy_ratio {
        return None;
    }
    let cell = Cell::of(course.node, course.gpu, course.owner(index), index);
    if is_server(&cell, t) {
        return None;
    }
    let (signal, watts) = power::drawn(&cell)?;
    let share = t.keep_alive_power_ratio + busy.ratio * t.power_near_idle_ratio;
    let most = power::above_idle(&cell, idle_watts(course, index, t)?, share)?;
    let limits = [(Signal::JobCpuUsage, t.keep_alive_cores), (Signal::JobIoPressure, t.io_waiting_ratio)];
    let host = limits.into_iter().filter_map(|(signal, most)| Some(Fact::of(signal, cell.mean(signal)?, most)));
    let facts: Vec<Fact> = [Fact::of(signal, watts, most)].into_iter().chain(host).collect();
    facts.iter().all(|fact| fact.value <= fact.threshold).then_some(facts)
}

/// What the GPU draws between the bursts: the least of all its samples under an owner around, within what boards of a model
/// differ by. `None` where the model is not known.
fn idle_watts(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<f64> {
    let cell = |index| Cell::of(course.node, course.gpu, None, index);
    let usual = power::model(&cell(index))?.idle;
    let rests = |i: &usize| course.is_held(*i) && course.busy(*i).is_some_and(|b| b <= t.keep_alive_most_busy_ratio);
    let around = course.node.around(index, t.derate_around_seconds).filter(rests);
    let least = around.filter_map(|i| Some(cell(i).read(Signal::GpuPower)?.min)).reduce(f64::min).unwrap_or(usual);
    Some(least.clamp(usual, usual * (1.0 + t.idle_power_spread_ratio)))
}
