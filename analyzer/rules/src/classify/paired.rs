//! The nodes of a run side by side: which of them took longer, or clocked lower, than the others in the same cells.
//!
//! Ranks of a run do the same at the same time, so what they have in common (batch, model, step) drops out. What is
//! left is the node, or its role in the run, which nothing here knows. It is no verdict and has no GPU-time: one window
//! tells little; who is slow is said of many ([`crate::report::tuning`]).

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::cell::Part;
use super::derate::clock;
use super::exchange::works_alone;
use super::judge::Booked;
use super::run::Run;
use super::straggler::{Member, is_cause, runs};
use super::{Cell, Class, Measure, Paired, Thresholds, Verdict, collective_wait};
use crate::frame::named;
use crate::median::median;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// What may be compared: cells of the same time, of GPUs of one model with the same signals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Like<'a> {
    measure: Measure,
    span: (TimeMs, TimeMs),
    model: &'a str,
    rung: Option<&'static str>,
    tells_waiting: bool,
}

/// Every node of every run that has several.
pub(super) fn paired(booked: &[Booked<'_>], t: &Thresholds) -> Vec<Paired> {
    let several: Vec<_> = runs(booked).into_iter().filter(|(run, _)| run.is_of_several_nodes()).collect();
    several.par_iter().flat_map_iter(|(run, members)| of_run(run, members, booked, t)).collect()
}

fn of_run(run: &Run, members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Paired> {
    let mut values: BTreeMap<Like<'_>, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for Member { gpu, owner } in members {
        let gpu = &booked[*gpu];
        let node = gpu.course.node;
        let beside = members.iter().filter(|other| booked[other.gpu].course.node.node == node.node).count();
        for (index, parts) in node.body.clone().zip(&gpu.cells) {
            let cell = Cell::of(node, gpu.course.gpu, Some(owner), index);
            if works_alone(&cell, t) {
                continue;
            }
            for (like, value) in measured(&cell, parts, owner, beside > 1, t) {
                values.entry(like).or_default().entry(&node.node).or_default().push(value);
            }
        }
    }
    let mut found: BTreeMap<(&str, Measure), Vec<Beside>> = BTreeMap::new();
    for (like, nodes) in &values {
        for (node, beside) in beside(like.measure, nodes, t) {
            found.entry((node, like.measure)).or_default().push(beside);
        }
    }
    let start_ms = values.keys().map(|like| like.span.0).min().unwrap_or_default();
    let one = |((node, measure), cells): ((&str, Measure), Vec<Beside>)| {
        let over = |of: fn(&Beside) -> f64| median(cells.iter().map(of).collect());
        Some(Paired {
            cluster: named(run.cluster()),
            node: node.to_owned(),
            owner: run.name().to_owned(),
            measure,
            start_ms,
            cells: cells.len(),
            others: cells.iter().map(|beside| beside.others).max()?,
            slowdown: over(|beside| beside.slowdown)?,
            next: over(|beside| beside.next)?,
        })
    };
    found.into_iter().filter_map(one).collect()
}

/// A node in one cell.
struct Beside {
    slowdown: f64,
    next: f64,
    others: usize,
}

/// Every node compared with the others; none where there are no others.
fn beside<'a>(measure: Measure, nodes: &BTreeMap<&'a str, Vec<f64>>, t: &Thresholds) -> Vec<(&'a str, Beside)> {
    let means: Vec<(&'a str, f64)> = nodes.iter().map(|(node, values)| (*node, mean(values))).collect();
    let slowdowns = means.iter().filter_map(|(node, here)| {
        let others = means.iter().filter(|(other, _)| other != node).map(|(_, mean)| *mean).collect();
        Some((*node, slowdown(measure, *here, median(others)?, t)?))
    });
    let slowdowns: Vec<(&'a str, f64)> = slowdowns.collect();
    let one = |(node, slowdown): &(&'a str, f64)| {
        let next = slowdowns.iter().filter(|(other, _)| other != node).map(|(_, other)| *other).reduce(f64::max)?;
        Some((*node, Beside { slowdown: *slowdown, next, others: means.len() - 1 }))
    };
    slowdowns.iter().filter_map(one).collect()
}

/// `None` where there is too little to divide by.
fn slowdown(measure: Measure, here: f64, usual: f64, t: &Thresholds) -> Option<f64> {
    match measure {
        Measure::OwnTime | Measure::SmActivity => (usual >= t.straggler_ratio).then(|| here / usual),
        Measure::Stalled => (here - usual < 1.0).then(|| 1.0 / (1.0 - (here - usual))),
        Measure::SmClock => (here > 0.0).then(|| usual / here),
    }
}

/// What a cell shows about its GPU. Waiting for others is seen only where the node has other GPUs of the run.
fn measured<'a>(
    cell: &Cell<'a>,
    parts: &[(Part, i64)],
    owner: &str,
    has_others: bool,
    t: &Thresholds,
) -> Vec<(Like<'a>, f64)> {
    let Some(model) = cell.gpu.model.as_deref() else { return Vec::new() };
    let span = &cell.node.cells[cell.index];
    let length = span.end - span.start;
    let of_run = || parts.iter().filter(|(part, _)| part.owner.as_deref() == Some(owner));
    if 2 * of_run().map(|(_, ms)| ms).sum::<i64>() < length {
        return Vec::new();
    }
    let tells_waiting = !matches!((collective_wait::DERATE.judge)(cell, t), Verdict::Abstain { .. });
    let rung = of_run().find_map(|(part, _)| part.rung);
    let like = |measure| Like { measure, span: (span.start, span.end), model, rung, tells_waiting };
    let share = |is: &dyn Fn(Class) -> bool| {
        of_run().filter(|(part, _)| is(part.class)).map(|(_, ms)| ms).sum::<i64>() as f64 / length as f64
    };
    let own = has_others.then(|| share(&|class| class == Class::Productive || is_cause(class)));
    let values = [
        (Measure::OwnTime, own),
        (Measure::SmActivity, cell.mean(Signal::SmActive)),
        (Measure::Stalled, Some(share(&is_cause))),
        (Measure::SmClock, clock(cell, t)),
    ];
    values.into_iter().filter_map(|(measure, value)| Some((like(measure), value?))).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
