//! What storage it was: the network file system whose reads were late or that the job saved to, and the disk that is limited.
//!
//! The rules of `dataloader_storage`, `checkpoint` and `io_limited` have booked the time. Here it gets its cause; no
//! time moves from class to class. A mount is never named for being used: reads of it have to take longer than they do at
//! best, or no other storage is read at all.

use std::collections::BTreeMap;

use super::cell::Part;
use super::judge::Booked;
use super::writing::writing;
use super::{Cause, CauseKind, Cell, Class, Fact, Node, Thresholds, io_limited};
use crate::signal::{Signal, export_and_point};

/// By cluster and mount: what a read takes in the best quarter of cells, in seconds, on the node where that is least.
type Best<'a> = BTreeMap<(&'a str, &'a str), f64>;

/// Reads of a mount in a cell that are too few to tell how long they take.
const FEW_READS: f64 = 10.0;
/// Share of all time of reads from which there is only one storage that they can have waited for.
const NEARLY_ALL: f64 = 0.9;
/// Of what the job writes, how much a mount has to get for the save to go there: scrapes of both do not fall together.
const AGREES: f64 = 0.5;

/// Gives the parts of storage classes their cause, where it is known.
pub(super) fn name(booked: &mut [Booked<'_>], t: &Thresholds) {
    let best = best(booked);
    for Booked { course, cells } in booked {
        for (parts, index) in cells.iter_mut().zip(course.node.body.clone()) {
            for (part, _) in parts.iter_mut().filter(|(part, _)| part.cause.is_none()) {
                let owner = part.owner.clone();
                let cell = Cell { node: course.node, gpu: course.gpu, owner: owner.as_deref(), index };
                cause(part, &cell, &best, t);
            }
        }
    }
}

fn cause(part: &mut Part, cell: &Cell<'_>, best: &Best<'_>, t: &Thresholds) {
    let mount = |mount: &str| point_of(cell.node, mount).to_owned();
    let found = match part.class {
        Class::DataloaderStorage => late(cell, best, t).map(|(kind, name, facts)| (kind, mount(name), facts)),
        Class::Checkpoint => saved_to(cell, t).map(|name| (CauseKind::NetworkMount, mount(name), Vec::new())),
        Class::IoLimited => {
            io_limited::reached(cell, t).map(|(disk, _)| (CauseKind::IoLimit, disk.to_owned(), Vec::new()))
        }
        _ => None,
    };
    if let Some((kind, which, facts)) = found {
        part.cause = Some(Cause { kind, which: Some(which) });
        part.facts.extend(facts);
    }
}

/// Where the export is mounted, as far as that is told apart from it.
fn point_of<'a>(node: &'a Node, mount: &'a str) -> &'a str {
    let known = node.host.splits(Signal::MountPoint).filter_map(|(of, _)| export_and_point(of));
    known.filter(|(export, _)| *export == mount).map(|(_, point)| point).next().unwrap_or(mount)
}

/// The mount that input was late from: for its lookups, if they take longer than all reads, else for its reads.
fn late<'a>(cell: &Cell<'a>, best: &Best<'_>, t: &Thresholds) -> Option<(CauseKind, &'a str, Vec<Fact>)> {
    let reads: f64 = cell.by_part(Signal::MountReadTime).map(|(_, reading)| reading.mean).sum();
    let reads = reads + cell.mean(Signal::NodeDiskReadTime).unwrap_or(0.0);
    let lookups = looked_up(cell, t).filter(|(_, in_flight)| *in_flight > reads);
    let lookups = lookups.map(|(mount, _)| (CauseKind::Metadata, mount, Vec::new()));
    lookups.or_else(|| slow(cell, best, t).map(|(mount, facts)| (CauseKind::SlowMount, mount, facts)))
}

/// The mount with the most time of requests other than reads and writes, and how many of them are in flight: at least
/// `io_waiting_ratio` in the mean, and several for each read.
pub(super) fn looked_up<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<(&'a str, f64)> {
    let all = cell.by_part(Signal::MountOtherTime).map(|(mount, reading)| (mount, reading.mean));
    let (mount, in_flight) = all.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let rate = |signal| part(cell, signal, mount).unwrap_or(0.0);
    let is_for_lookups = rate(Signal::MountOthers) >= t.metadata_ratio * rate(Signal::MountReads);
    (is_for_lookups && in_flight >= t.io_waiting_ratio).then_some((mount, in_flight))
}

/// The mount whose reads take so much longer than at best that this is a good part of all time of reads.
fn slow<'a>(cell: &Cell<'a>, best: &Best<'_>, t: &Thresholds) -> Option<(&'a str, Vec<Fact>)> {
    let all: f64 = cell.by_part(Signal::MountReadTime).map(|(_, reading)| reading.mean).sum();
    let fastest = cell.by_part(Signal::MountReadTime).filter_map(|(mount, _)| best.get(&key(cell.node, mount)));
    let fastest = fastest.copied().reduce(f64::min)?;
    let late = cell.by_part(Signal::MountReadTime).filter_map(|(mount, time)| {
        let reads = part(cell, Signal::MountReads, mount)?;
        let (each, excess) = (time.mean / reads, (time.mean - reads * fastest) / all);
        let is_slow = each >= (t.slow_mount_ratio * fastest).max(t.slow_mount_seconds);
        (is_slow && excess >= t.mount_excess_ratio).then_some((mount, each, excess))
    });
    let (mount, each, excess) = late.max_by(|(.., a), (.., b)| a.total_cmp(b)).or_else(|| only_one(cell, all, t))?;
    let limit = (t.slow_mount_ratio * fastest).max(t.slow_mount_seconds);
    let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let mut facts = vec![
        Fact { signal: "time of a read of the mount", unit: "seconds", value: each, threshold: limit },
        ratio("reads of the mount beyond their best / all reads", excess, t.mount_excess_ratio),
    ];
    let here = part(cell, Signal::MountReadTime, mount).zip(part(cell, Signal::MountReadTrip, mount));
    facts.extend(here.map(|(time, trip)| ratio("waiting at this node / time of its reads", 1.0 - trip / time, 0.0)));
    Some((mount, facts))
}

/// The mount that has nearly all time of reads, those of disks with it: then it is what they wait for, however long they
/// always took.
fn only_one<'a>(cell: &Cell<'a>, all: f64, t: &Thresholds) -> Option<(&'a str, f64, f64)> {
    let whole = all + cell.mean(Signal::NodeDiskReadTime)?;
    let found = cell.by_part(Signal::MountReadTime).find(|(_, time)| time.mean >= NEARLY_ALL * whole);
    let (mount, time) = found.filter(|(_, time)| time.mean >= t.io_waiting_ratio)?;
    let each = time.mean / part(cell, Signal::MountReads, mount)?;
    (each >= t.slow_mount_seconds).then_some((mount, each, time.mean / whole))
}

/// The mount that gets most of what is written around the cell.
fn saved_to<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<&'a str> {
    let near = || (cell.index.saturating_sub(1)..=cell.index + 1).map(|index| Cell { index, ..*cell });
    let near = || near().filter(|cell| cell.index < cell.node.cells.len());
    let written: f64 = near().filter_map(|cell| writing(&cell)).map(|writing| writing.reading.mean).sum();
    let mut mounts: BTreeMap<&str, f64> = BTreeMap::new();
    for (mount, reading) in near().flat_map(|cell| cell.by_part(Signal::MountWritten)) {
        *mounts.entry(mount).or_default() += reading.mean;
    }
    let (mount, most) = mounts.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (most >= AGREES * written && most >= t.claim_floor * t.checkpoint_bytes).then_some(mount)
}

fn best<'a>(booked: &[Booked<'a>]) -> Best<'a> {
    let mut best = Best::new();
    let mut nodes: Vec<&'a Node> = Vec::new();
    for node in booked.iter().map(|booked| booked.course.node) {
        if !nodes.iter().rev().any(|known| std::ptr::eq(*known, node)) {
            nodes.push(node);
        }
    }
    for node in nodes {
        for (mount, track) in node.host.splits(Signal::MountReadTime) {
            let reads = node.host.splits(Signal::MountReads).find(|(of, _)| *of == mount).map(|(_, reads)| reads);
            let each =
                track.iter().zip(reads.into_iter().flatten()).enumerate().filter_map(|(index, (time, reads))| {
                    let (time, reads) = (time.as_ref()?.mean, reads.as_ref()?.mean);
                    let seconds = (node.cells[index].end - node.cells[index].start) as f64 / 1000.0;
                    (reads * seconds >= FEW_READS).then_some(time / reads)
                });
            let mut each: Vec<f64> = each.collect();
            each.sort_by(f64::total_cmp);
            if let Some(quarter) = each.get(each.len() / 4) {
                let known = best.entry(key(node, mount)).or_insert(f64::INFINITY);
                *known = known.min(*quarter);
            }
        }
    }
    best
}

fn key<'a>(node: &'a Node, mount: &'a str) -> (&'a str, &'a str) {
    (node.cluster.as_str(), mount)
}

fn part(cell: &Cell<'_>, signal: Signal, of: &str) -> Option<f64> {
    cell.by_part(signal).find(|(name, _)| *name == of).map(|(_, reading)| reading.mean).filter(|value| *value > 0.0)
}
