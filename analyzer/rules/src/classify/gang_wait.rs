//! `gang_wait`: a job holds the GPU and rests until others of its GPUs, mostly on other nodes, are its own too.

use std::collections::BTreeMap;
use std::ops::Range;

use super::cold_start::starting_since;
use super::depth::{HeldGpus, used_cores};
use super::exchange::works_alone;
use super::phase::{Course, Phase, holder};
use super::{Cell, Class, Fact, Node, Thresholds};
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

pub(super) const PHASE: Phase = Phase { class: Class::GangWait, takes_work: false, mark, missing };

fn missing(cell: &Cell<'_>) -> Vec<Signal> {
    let cpu = used_cores(cell).is_none().then_some(Signal::JobCpuUsage);
    holder(cell).into_iter().chain(cpu).collect()
}

/// What the owner does besides waiting, compared with the most that a waiting owner does: CPUs, those of its node by
/// the number of its GPUs there, and reading, where it is known.
pub(super) fn activity(cell: &Cell<'_>, t: &Thresholds) -> Option<Vec<Fact>> {
    let (signal, used) = used_cores(cell)?;
    let gpus = if signal == Signal::NodeCpuBusy { HeldGpus::around(cell).by_owner } else { 1 };
    let cpu = Fact::of(signal, used, t.gang_wait_cores * f64::from(gpus));
    let read = cell.mean(Signal::JobRead).map(|read| Fact::of(Signal::JobRead, read, t.gang_wait_read_bytes));
    Some([cpu].into_iter().chain(read).collect())
}

/// Who held which GPUs of all nodes, and when: the view of a run, by its cluster and name, across nodes.
#[derive(Debug, Default)]
pub(super) struct Holds<'a>(BTreeMap<(&'a str, &'a str), Vec<Hold<'a>>>);

/// Cells in a row in which an owner of the run held a GPU.
#[derive(Debug)]
struct Hold<'a> {
    gpu: &'a str,
    span: Range<TimeMs>,
    /// Was the GPU seen without this owner right before?
    is_start_seen: bool,
}

impl<'a> Holds<'a> {
    pub(super) fn of(nodes: &'a [Node]) -> Holds<'a> {
        let mut holds = Holds::default();
        for (node, gpu) in nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu))) {
            for (index, span) in node.cells.iter().enumerate() {
                for (owner, _) in &gpu.owners[index] {
                    let all = holds.0.entry((&node.cluster, node.runs.name(owner))).or_default();
                    match all.last_mut().filter(|last| last.gpu == gpu.uuid && last.span.end == span.start) {
                        Some(last) => last.span.end = span.end,
                        None => {
                            let is_start_seen = index.checked_sub(1).is_some_and(|before| gpu.known_ms[before] > 0);
                            all.push(Hold { gpu: &gpu.uuid, span: span.clone(), is_start_seen });
                        }
                    }
                }
            }
        }
        holds
    }

    /// GPUs that the owner's run takes within `later`, and did not hold within `sooner`.
    fn missing(&self, node: &Node, owner: &str, sooner: &Range<TimeMs>, later: &Range<TimeMs>) -> usize {
        let run = (node.cluster.as_str(), node.runs.name(owner));
        let holds = self.0.get(&run).map_or(&[][..], Vec::as_slice);
        let had =
            |gpu: &str| holds.iter().any(|h| h.gpu == gpu && h.span.start < sooner.end && sooner.start < h.span.end);
        holds.iter().filter(|h| h.is_start_seen && later.contains(&h.span.start) && !had(h.gpu)).count()
    }
}

fn mark(course: &Course<'_>, index: usize, t: &Thresholds) -> Option<Vec<Fact>> {
    let (cells, owner) = (&course.node.cells, course.owner(index)?);
    let cell = Cell::of(course.node, course.gpu, Some(owner), index);
    let soon = starting_since(course, index, t).map(|begun| {
        let sooner = cells[begun].start..cells[index].end;
        let later = cells[index].end..cells[index].start + (t.cold_start_seconds * 1000.0) as i64;
        course.holds.missing(course.node, owner, &sooner, &later)
    });
    let in_the_end = course.node.long_starts.of(&cell).map(|start| start.to_come(cells[index].end));
    let missing = soon.max(in_the_end)? as f64;
    let activity = activity(&cell, t)?;
    if works_alone(&cell, t) {
        return None;
    }
    let told = Fact { signal: "GPUs of the owner still to come", unit: "GPUs", value: missing, threshold: 1.0 };
    let waits = missing >= 1.0 && activity.iter().all(|fact| fact.value <= fact.threshold);
    waits.then(|| [told].into_iter().chain(activity).collect())
}
