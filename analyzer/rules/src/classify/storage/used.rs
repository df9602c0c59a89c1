//! What the network file systems of a run did in a window in which it waited for one, for reports to show beside what is lost.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use super::super::judge::Booked;
use super::super::run::Run;
use super::super::{Cause, MountUse, Node};
use super::best::AllBest;
use super::mounts::{export_of, names, point_of};
use crate::frame::named;
use crate::signal::Signal;
use goodput_exposition::sample::TimeMs;

/// Mounts of a run that are kept in a window, those that show most: more than anyone reads.
const KEPT_MOUNTS: usize = 32;

/// A node of a run.
struct Side<'a> {
    node: &'a Node,
    /// Cells of the window in which the run holds a GPU of it.
    cells: BTreeSet<usize>,
}

/// A mount over the window.
struct Used {
    told: MountUse,
    /// Cells of GPUs that waited for it.
    waited: usize,
}

/// The mounts of the nodes of runs that waited for one, those that show most, with what they did while the run held GPUs there.
pub(super) fn used(booked: &[Booked<'_>], best: &AllBest<'_>, start_ms: TimeMs) -> Vec<MountUse> {
    let waits = waits(booked);
    let mut sides: BTreeMap<&Run, Vec<Side<'_>>> = BTreeMap::new();
    for Booked { course, .. } in booked.iter().filter(|_| !waits.is_empty()) {
        let (node, owners) = (course.node, &course.gpu.owners);
        let held = node.body.clone().flat_map(|cell| owners[cell].iter().map(move |(owner, _)| (cell, owner)));
        for (cell, owner) in held {
            let Some((run, _)) = waits.get_key_value(&Run::of(node, owner)) else { continue };
            let sides = sides.entry(run).or_default();
            match sides.iter_mut().find(|side| ptr::eq(side.node, node)) {
                Some(side) => drop(side.cells.insert(cell)),
                None => sides.push(Side { node, cells: BTreeSet::from([cell]) }),
            }
        }
    }
    sides.into_iter().flat_map(|(run, sides)| of_run(run, &sides, &waits[run], best, start_ms)).collect()
}

/// Cells of GPUs that waited for a network file system, by node and mount point.
type Waits<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// By run, which waited for which mounts.
fn waits<'b>(booked: &'b [Booked<'_>]) -> BTreeMap<Run, Waits<'b>> {
    let mut waits: BTreeMap<Run, Waits<'b>> = BTreeMap::new();
    for Booked { course, cells, .. } in booked {
        let points =
            LazyCell::new(|| names(course.node).map(|name| point_of(course.node, name)).collect::<BTreeSet<_>>());
        for part in cells.iter().flatten().map(|(part, _)| part) {
            let which = part.cause.as_ref().and_then(Cause::storage);
            let Some((which, owner)) = which.zip(part.owner.as_deref()) else { continue };
            if part.charged_to.is_none() && points.contains(which) {
                let of_run = waits.entry(Run::of(course.node, owner)).or_default();
                *of_run.entry((&course.node.node, which)).or_default() += 1;
            }
        }
    }
    waits
}

fn of_run(run: &Run, sides: &[Side<'_>], waits: &Waits<'_>, best: &AllBest<'_>, start_ms: TimeMs) -> Vec<MountUse> {
    let mut all: Vec<Used> = Vec::new();
    for side in sides {
        all.extend(names(side.node).map(|name| {
            let told = MountUse {
                cluster: named(run.cluster()),
                owner: run.name().to_owned(),
                start_ms,
                best_read_seconds: best.of_mount(side.node, name),
                ..side.told(name)
            };
            Used { waited: waits.get(&(told.node.as_str(), told.mount.as_str())).copied().unwrap_or(0), told }
        }));
    }
    all.retain(|used| used.waited > 0 || used.told.is_used());
    all.sort_by(|a, b| {
        let seconds = b.told.waited_seconds().total_cmp(&a.told.waited_seconds());
        Reverse(a.waited).cmp(&Reverse(b.waited)).then(seconds)
    });
    let mounts = all.len();
    all.truncate(KEPT_MOUNTS);
    all.into_iter().map(|used| MountUse { mounts, ..used.told }).collect()
}

impl Side<'_> {
    /// What the mount of this name did there.
    fn told(&self, name: &str) -> MountUse {
        let node = self.node;
        let mut told = MountUse {
            node: node.node.clone(),
            mount: point_of(node, name).to_owned(),
            export: export_of(node, name).map(str::to_owned),
            ..MountUse::default()
        };
        for index in self.cells.iter().copied() {
            let seconds = (node.cells[index].end - node.cells[index].start) as f64 / 1000.0;
            let sum = |signal: Signal| {
                let found = node.host.split(signal, index).find(|(of, _)| *of == name);
                found.map(|(_, reading)| reading.mean * seconds)
            };
            told.add(&MountUse {
                read_bytes: sum(Signal::MountRead),
                reads: sum(Signal::MountReads),
                read_seconds: sum(Signal::MountReadTime),
                read_trip_seconds: sum(Signal::MountReadTrip),
                others: sum(Signal::MountOthers),
                other_seconds: sum(Signal::MountOtherTime),
                written_bytes: sum(Signal::MountWritten),
                retransmissions: sum(Signal::MountRetransmissions),
                ..MountUse::default()
            });
        }
        told
    }
}
