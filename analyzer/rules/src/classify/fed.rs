//! Signs that a GPU gets input from outside. Work on and off alone proves no late input: servers, decoders and simulations
//! work so as well.

use super::depth::{HeldGpus, few_multiprocessors};
use super::work::work;
use super::{Cell, Fact, Thresholds};
use crate::signal::Signal;

/// What the job itself reads: from block devices, else by system calls, which page cache and network file systems answer.
pub(super) const READ: [Signal; 2] = [Signal::JobRead, Signal::JobCallsRead];

/// The sign that input comes from outside, whatever it is late for.
pub(super) fn sign(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    reads(cell, t).or_else(|| node_reads(cell, t)).or_else(|| arrives(cell, t)).or_else(|| waits(cell, t))
}

/// Does the job read as a loader does? It says of a job alone that it reads, never that it does not.
pub(super) fn reads(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    READ.into_iter().find_map(|signal| at_least(cell, signal, t.input_read_bytes))
}

/// The same of a node whose held GPUs are all the job's.
pub(super) fn node_reads(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let HeldGpus { by_anyone, by_owner } = HeldGpus::around(cell);
    at_least(cell, Signal::NodeDiskRead, t.input_read_bytes).filter(|_| by_anyone == by_owner)
}

/// Bytes that come to the GPU for each second of its work: more than the commands to launch kernels take. Kernels that
/// occupy few multiprocessors may be launched at such a rate that the commands are as many bytes.
fn arrives(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let (received, work) = (cell.mean(Signal::PcieReceive)?, work(cell, t)?);
    let value = received / work.ratio.max(work.spun);
    let fact = Fact { signal: "pcie_receive / busy", ..Fact::of(Signal::PcieReceive, value, t.input_bytes) };
    let is_input = value.is_finite() && value >= t.input_bytes && few_multiprocessors(cell, t).is_none();
    is_input.then_some(fact)
}

fn waits(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    [Signal::JobIoPressure, Signal::NodeIoPressure].into_iter().find_map(|s| at_least(cell, s, t.io_waiting_ratio))
}

fn at_least(cell: &Cell<'_>, signal: Signal, threshold: f64) -> Option<Fact> {
    cell.mean(signal).filter(|value| *value >= threshold).map(|value| Fact::of(signal, value, threshold))
}
