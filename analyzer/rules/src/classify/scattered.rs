//! `scattered_gpus`: the GPUs of a run are on more nodes, or on one node on more NUMA nodes, than they need to be, and a set that is
//! closer together was free when the run began.
//!
//! A GPU was free where samples say in every cell before the start that no process was on it: one without samples was
//! not. It is told for a while after the start, as long as the cells before it are in the frame.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::held::Held;
use super::intervals::{Entry, Grounds};
use super::judge::Booked;
use super::phase::Course;
use super::straggler::{self, Member};
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::thresholds::ms;
use super::{Advice, Cell, Fact, Thresholds, advisory};
use crate::frame::Reading;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// GPUs of a set that are named.
const NAMED_GPUS: usize = 16;
/// A cell that is known for less says nothing about all of it.
const KNOWN: f64 = 0.9;

/// A part of the machines: a node, or a NUMA node of one.
type Part<'a> = (&'a str, Option<&'a str>);
/// The part that a GPU is of; `None` where it is not known, or of none that is looked at.
type PartOf<'f, 'a> = &'f dyn Fn(&Course<'a>) -> Option<Part<'a>>;

/// What is advised of one cell of a GPU.
struct Advised {
    gpu: usize,
    /// Which of its booked cells.
    index: usize,
    entry: Entry<advisory::Key>,
}

/// A set that is closer together than the run's.
#[derive(Clone)]
struct Compact {
    /// What the parts are.
    unit: &'static str,
    /// Parts that the run's GPUs are on.
    used: usize,
    /// Parts that the set is on.
    needed: usize,
    /// The set, to be read.
    named: String,
}

/// GPUs of a run, since it began.
struct Own<'m, 'a> {
    members: Vec<Member<'m>>,
    start_ms: TimeMs,
    booked: &'m [Booked<'a>],
    t: &'m Thresholds,
}

/// Advises what is known of runs that began in the window or shortly before it.
pub(super) fn advise(booked: &mut [Booked<'_>], t: &Thresholds) {
    let (runs, all) = (straggler::runs(booked), &*booked);
    let advised: Vec<Advised> = runs.par_iter().flat_map_iter(|(_, members)| of_run(members, all, t)).collect();
    for Advised { gpu, index, entry } in advised {
        booked[gpu].advised.entry(index).or_default().push(entry);
    }
}

fn of_run(members: &[Member<'_>], booked: &[Booked<'_>], t: &Thresholds) -> Vec<Advised> {
    let start = |member: &Member<'_>| {
        let Course { node, gpu, .. } = booked[member.gpu].course;
        let first = (0..node.cells.len()).find(|cell| gpu.is_held_by(member.owner, *cell))?;
        Some(node.cells[first].start)
    };
    let Some(start_ms) = members.iter().filter_map(start).min() else { return Vec::new() };
    let told = start_ms..start_ms.saturating_add(ms(t.scattered_told_seconds));
    let mut by_cell: BTreeMap<TimeMs, Vec<(Member<'_>, usize)>> = BTreeMap::new();
    for member in members {
        let Course { node, gpu, .. } = booked[member.gpu].course;
        for (index, cell) in node.body.clone().enumerate() {
            if told.contains(&node.cells[cell].start) && gpu.is_held_by(member.owner, cell) {
                by_cell.entry(node.cells[cell].start).or_default().push((*member, index));
            }
        }
    }
    let mut known: BTreeMap<Vec<usize>, BTreeMap<usize, Compact>> = BTreeMap::new();
    let mut all = Vec::new();
    for cells in by_cell.into_values() {
        let members: Vec<Member<'_>> = cells.iter().map(|(member, _)| *member).collect();
        let gpus = members.iter().map(|member| member.gpu).collect();
        let own = || Own { members, start_ms, booked, t }.compact();
        let closer = known.entry(gpus).or_insert_with(own);
        let of_cell = |(member, index): &(Member<'_>, usize)| {
            let compact = closer.get(&member.gpu)?;
            Some(compact.advised(member, *index, &booked[member.gpu], t))
        };
        all.extend(cells.iter().filter_map(of_cell));
    }
    all
}

impl<'a> Own<'_, 'a> {
    /// For each GPU of the run the closer set, where there was one: of nodes, else of NUMA nodes of its own node.
    fn compact(&self) -> BTreeMap<usize, Compact> {
        let by_node: PartOf<'_, 'a> = &|course| Some((course.node.node.as_str(), None));
        if let Some(closer) = self.closer(&self.members, "nodes", by_node) {
            return self.members.iter().map(|member| (member.gpu, closer.clone())).collect();
        }
        let mut nodes: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
        for member in &self.members {
            nodes.entry(&self.booked[member.gpu].course.node.node).or_default().push(*member);
        }
        let mut all = BTreeMap::new();
        for (name, members) in nodes {
            let by_numa: PartOf<'_, 'a> = &|course| {
                let node = course.node.node.as_str();
                Some((node, Some(numa_node(course)?))).filter(|_| node == name)
            };
            let closer = self.closer(&members, "NUMA nodes", by_numa);
            all.extend(closer.iter().flat_map(|closer| members.iter().map(|member| (member.gpu, closer.clone()))));
        }
        all
    }

    /// A set of as many GPUs of the same model on fewer parts, all of them free before the start.
    fn closer(&self, members: &[Member<'_>], unit: &'static str, part: PartOf<'_, 'a>) -> Option<Compact> {
        let used: Option<BTreeSet<Part<'_>>> =
            members.iter().map(|member| part(&self.booked[member.gpu].course)).collect();
        let used = used.filter(|used| used.len() > 1)?.len();
        let first = &self.booked[members[0].gpu].course;
        let mut free: BTreeMap<Part<'_>, Vec<&str>> = BTreeMap::new();
        for (gpu, Booked { course, .. }) in self.booked.iter().enumerate() {
            let is_alike = course.gpu.model == first.gpu.model && course.node.cluster == first.node.cluster;
            let is_own = members.iter().any(|member| member.gpu == gpu);
            if is_alike
                && let Some(part) = part(course)
                && self.was_free(course, is_own)
            {
                free.entry(part).or_default().push(&course.gpu.uuid);
            }
        }
        let mut parts: Vec<_> = free.into_iter().collect();
        parts.sort_by_key(|(_, gpus)| std::cmp::Reverse(gpus.len()));
        let mut missing = members.len();
        let mut chosen = Vec::new();
        for (part, mut gpus) in parts {
            gpus.truncate(missing);
            missing -= gpus.len();
            chosen.extend((!gpus.is_empty()).then_some((part, gpus)));
        }
        let is_closer = missing == 0 && chosen.len() < used;
        is_closer.then(|| Compact { unit, used, needed: chosen.len(), named: named(&chosen) })
    }

    /// Was the GPU free all the time before the start, and, where it is none of the run's, at the start too? Another job may have
    /// been faster.
    fn was_free(&self, course: &Course<'_>, is_own: bool) -> bool {
        let node = course.node;
        let since = self.start_ms - ms(self.t.free_seconds);
        let start = node.cells.partition_point(|cell| cell.start < self.start_ms);
        let first = node.cells.partition_point(|cell| cell.end <= since);
        let end = if is_own { start } else { start + 1 };
        let is_seen = first < start && end <= node.cells.len() && node.cells[first].start <= since;
        course.gpu.instance.is_none() && is_seen && (first..end).all(|index| is_free(course, index))
    }
}

/// Do samples say of the whole cell that nothing was on the GPU, and that its node took jobs?
fn is_free(course: &Course<'_>, index: usize) -> bool {
    let Course { node, gpu, .. } = *course;
    let counted = matches!(course.state(index).held, Held::No { confidence, .. } if confidence >= COUNTED);
    let whole_ms = (node.cells[index].end - node.cells[index].start) as f64;
    let cell = Cell::of(node, gpu, None, index);
    let is_empty = |processes: &Reading| {
        // What bridges a gap is no sample.
        processes.max <= 0.0 && processes.samples > 0 && processes.covered_ms as f64 >= KNOWN * whole_ms
    };
    counted
        && cell.read(Signal::GpuProcesses).is_some_and(is_empty)
        && gpu.owners[index].is_empty()
        && gpu.cut.layouts(index).is_empty()
        && cell.read(Signal::NodeUnschedulable).is_none_or(|closed| closed.max <= 0.0)
}

/// The NUMA node of the GPU, where it is told in any cell.
fn numa_node<'a>(course: &Course<'a>) -> Option<&'a str> {
    let Course { node, gpu, .. } = *course;
    (0..node.cells.len()).find_map(|index| Cell::of(node, gpu, None, index).numa_node())
}

/// The set, such as `n1, NUMA node 0: GPU-1 GPU-3`.
fn named(chosen: &[(Part<'_>, Vec<&str>)]) -> String {
    let mut left = NAMED_GPUS;
    let mut parts = Vec::new();
    for ((node, numa), gpus) in chosen {
        let place = numa.map_or_else(|| (*node).to_owned(), |numa| format!("{node}, NUMA node {numa}"));
        let shown = &gpus[..gpus.len().min(left)];
        left -= shown.len();
        let more = gpus.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{place}: {}{more}", shown.join(" ")));
    }
    parts.join("; ")
}

impl Compact {
    fn advised(&self, member: &Member<'_>, index: usize, booked: &Booked<'_>, t: &Thresholds) -> Advised {
        let node = booked.course.node;
        let span = &node.cells[node.body.start + index];
        let (parts, free) = (
            "parts of the machines that the GPUs of the run are on",
            "time for which the closer set was free, at least",
        );
        let facts = vec![
            Fact { signal: parts, unit: self.unit, value: self.used as f64, threshold: self.needed as f64 },
            Fact { signal: free, unit: "seconds", value: t.free_seconds, threshold: t.free_seconds },
        ];
        let grounds = Grounds { confidence: INFERRED, facts, missing: Vec::new() };
        let key = (Advice::ScatteredGpus, Some(member.owner.to_owned()), None, Some(self.named.clone()));
        let entry = Entry { key, grounds, ms: span.end - span.start, energy: None, variance_ms2: 0 };
        Advised { gpu: member.gpu, index, entry }
    }
}
