//! Phases: stretches of a held GPU's time that exclude every other explanation, seen from the cells around.

use super::cell::State;
use super::gang_wait::Holds;
use super::held::Held;
use super::{
    Cell, Class, Fact, Node, Thresholds, cold_start, gang_wait, idle_held, keep_alive, lost_work, no_demand,
    partial_allocation, server_start,
};
use crate::frame::GpuFrame;
use crate::signal::Signal;

/// A way to see that a cell of a held GPU is part of a phase. All of it that is not work belongs to the phase, and
/// where the phase says so the work as well.
#[derive(Debug)]
pub struct Phase {
    /// What the time is booked on.
    pub class: Class,
    /// Does what looks like work belong to it too?
    pub(super) takes_work: bool,
    /// The facts that say so, besides those about work and holder; `None` where it is not. Only asked about cells that
    /// are held, with a busy signal.
    pub(super) mark: fn(&Course<'_>, usize, &Thresholds) -> Option<Vec<Fact>>,
    /// The signals without which it cannot be seen in the cell, whatever it is; empty where it would be.
    pub(super) missing: fn(&Cell<'_>) -> Vec<Signal>,
}

/// Nothing besides a holder and a busy signal is needed.
pub(super) fn nothing(_: &Cell<'_>) -> Vec<Signal> {
    Vec::new()
}

/// Who holds the GPU, where that is not known.
pub(super) fn holder(cell: &Cell<'_>) -> Vec<Signal> {
    if cell.owner.is_none() { vec![Signal::GpuOwner] } else { Vec::new() }
}

/// Every phase. The first that claims a cell has it.
pub static PHASES: &[Phase] = &[
    partial_allocation::PHASE,
    lost_work::PHASE,
    gang_wait::PHASE,
    server_start::PHASE,
    cold_start::PHASE,
    keep_alive::PHASE,
    no_demand::PHASE,
    idle_held::PHASE,
];

/// That a cell belongs to a phase.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) class: Class,
    pub(super) takes_work: bool,
    pub(super) facts: Vec<Fact>,
}

/// One GPU over all cells of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course<'a> {
    pub(super) node: &'a Node,
    pub(super) gpu: &'a GpuFrame,
    /// Cell by cell.
    states: &'a [State],
    all: &'a [Vec<State>],
    /// Of all nodes.
    pub(super) holds: &'a Holds<'a>,
}

impl<'a> Course<'a> {
    /// The courses of the node's GPUs, whose states are given in the same order.
    pub(super) fn all(node: &'a Node, all: &'a [Vec<State>], holds: &'a Holds<'a>) -> impl Iterator<Item = Course<'a>> {
        node.gpus.iter().zip(all).map(move |(gpu, states)| Course { node, gpu, states, all, holds })
    }

    /// The node's other GPUs, and the other instances of this one.
    pub(super) fn others(&self) -> impl Iterator<Item = Course<'a>> {
        let own = self.gpu;
        Course::all(self.node, self.all, self.holds).filter(move |c| !std::ptr::eq(c.gpu, own))
    }

    pub(super) fn state(&self, cell: usize) -> &'a State {
        &self.states[cell]
    }

    /// The phase that the cell belongs to.
    pub(super) fn mark(&self, cell: usize, t: &Thresholds) -> Option<Mark> {
        if !self.is_held(cell) || self.busy(cell).is_none() {
            return None;
        }
        PHASES.iter().find_map(|Phase { class, takes_work, mark, .. }| {
            Some(Mark { class: *class, takes_work: *takes_work, facts: mark(self, cell, t)? })
        })
    }

    pub(super) fn is_held(&self, cell: usize) -> bool {
        matches!(self.states[cell].held, Held::Yes { .. })
    }

    /// The share of the cell that was work; `None` where nothing says so, and after the last cell.
    pub(super) fn busy(&self, cell: usize) -> Option<f64> {
        self.states.get(cell)?.busy.as_ref().map(|b| b.ratio)
    }

    /// Neither work nor spinning kernels; `None` where nothing says so.
    pub(super) fn rests(&self, cell: usize, t: &Thresholds) -> Option<bool> {
        let busy = self.states[cell].busy.as_ref()?;
        Some(busy.ratio <= t.idle_busy_ratio && busy.spun == 0.0)
    }

    /// Who held the GPU for the most of the cell, where known.
    pub(super) fn owner(&self, cell: usize) -> Option<&'a str> {
        self.gpu.main_owner(cell)
    }
}
