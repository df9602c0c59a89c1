//! Hangs: all ranks of a run wait in a collective, and nothing is exchanged for so long that no slow network explains it. One
//! of them never came, or went into another collective.

use super::super::cell::Part;
use super::super::judge::Booked;
use super::super::straggler::Member;
use super::super::thresholds::ms;
use super::super::{Cause, CauseKind, Class, Thresholds};
use super::exchange::Exchange;

/// Waiting from which a rank does nothing else in a cell (own choice: cells of spinning kernels alone are above it).
pub(super) const ALL_OF_IT: f64 = 0.95;

/// A cell of a GPU in which its run hangs.
pub(super) struct Hung {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    owner: String,
}

/// The cells of the window in which the run hangs, of each of its GPUs.
pub(super) fn hung(run: &Exchange<'_>, members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Hung> {
    let cells = (0..run.cells().len()).filter(|cell| hangs(run, *cell, members, booked, t));
    let cells: Vec<usize> = cells.collect();
    let lasts = |cells: &[usize]| {
        let (first, last) = (&run.cells()[cells[0]], &run.cells()[cells[cells.len() - 1]]);
        last.end - first.start >= ms(t.idle_window_seconds)
    };
    let long = cells.chunk_by(|a, b| a + 1 == *b).filter(|cells| lasts(cells)).flatten();
    let long = long.filter(|cell| run.body().contains(*cell));
    long.flat_map(|cell| members.iter().filter_map(|member| place(run, *cell, *member, booked))).collect()
}

/// Do the kernels of all of its GPUs spin all the time, while no node exchanges anything?
fn hangs(run: &Exchange<'_>, cell: usize, members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> bool {
    let rates = || run.at(cell).map(|(_, side, index)| side.exchanged(index));
    let is_silent = rates().all(|rate| rate.is_some_and(|rate| rate < t.exchange_bytes)) && rates().next().is_some();
    let spins = |member: &Member<'_>| {
        let course = booked[member.gpu].course;
        let index = run.index_at(course.node, cell).filter(|index| course.gpu.is_held_by(member.owner, *index))?;
        Some(course.state(index).busy.as_ref().map_or(0.0, |busy| busy.spun))
    };
    let mut spinning = members.iter().filter_map(spins).peekable();
    is_silent && spinning.peek().is_some() && spinning.all(|share| share >= ALL_OF_IT)
}

/// Where the cell of the first node is among the booked ones of the GPU.
fn place(run: &Exchange<'_>, cell: usize, member: Member<'_>, booked: &[Booked<'_>]) -> Option<Hung> {
    let node = booked[member.gpu].course.node;
    let index = run.index_at(node, cell)?.checked_sub(node.body.start)?;
    (index < booked[member.gpu].cells.len()).then(|| Hung { gpu: member.gpu, index, owner: member.owner.to_owned() })
}

impl Hung {
    /// Says so of what the GPU waited.
    pub(super) fn mark(&self, booked: &mut [Booked<'_>]) {
        let is_its =
            |part: &Part| part.class == Class::CollectiveWait && part.owner.as_deref() == Some(self.owner.as_str());
        let waits = booked[self.gpu].cells[self.index].iter_mut().filter(|(part, _)| is_its(part));
        waits.for_each(|(part, _)| part.cause = Some(Cause { kind: CauseKind::Hang, which: None }));
    }
}
