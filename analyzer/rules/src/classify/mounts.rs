//! What storage it was: the network file system whose reads were late or that the job saved to, and the disk that is limited.
//!
//! The rules of `dataloader_storage`, `checkpoint` and `io_limited` have booked the time. Here it gets its cause; no
//! time moves from class to class. A mount is never named for being used: reads of it have to take longer than they do at
//! best, or no other storage is read at all.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::cell::Part;
use super::judge::Booked;
use super::loaders::is_alone;
use super::writing::writing;
use super::{Cause, CauseKind, Cell, Class, Fact, Node, Thresholds, io_limited};
use crate::frame::{Reading, sum};
use crate::signal::{Signal, export_and_point};

/// Mounts of a node that are looked at, at most: as many as there may be series of.
const MOST_MOUNTS: usize = 64;
/// Reads of a mount in a cell that are too few to tell how long they take.
const FEW_READS: f64 = 10.0;
/// Share of all time of reads from which there is only one storage that they can have waited for.
const NEARLY_ALL: f64 = 0.9;
/// Rates of the same thing agree within this factor, for scrapes of both do not fall together; and so do sizes of reads that can
/// be compared.
const AGREES: f64 = 2.0;

/// The mounts that a signal has in a cell, each file system once: where two exporters tell the same mounts, one by mount
/// point and one by export, those by mount point; of mounts of one export, which share their counts, the first.
fn distinct(node: &Node, signal: Signal, index: usize) -> Vec<(&str, &Reading)> {
    let has_points = node.host.split(signal, index).any(|(name, _)| name.starts_with('/'));
    let all = node.host.split(signal, index).filter(|(name, _)| !has_points || name.starts_with('/'));
    let mut found: Vec<(&str, &Reading)> = Vec::new();
    for (name, reading) in all.take(MOST_MOUNTS) {
        let is_known = |(_, other): &(&str, &Reading)| reading.mean > 0.0 && other.mean == reading.mean;
        if !found.iter().any(is_known) {
            found.push((name, reading));
        }
    }
    found
}

/// The signal of all network file systems of the node together; `None` where none is told.
pub(super) fn summed(node: &Node, signal: Signal, index: usize) -> Option<Reading> {
    distinct(node, signal, index).into_iter().map(|(_, reading)| *reading).reduce(sum)
}

/// What reads of a mount take in the best quarter of the cells in which there are some.
#[derive(Clone, Copy)]
struct Best {
    /// Seconds.
    seconds: f64,
    /// Bytes of a read, in the mean.
    size: Option<f64>,
}

/// The best of the mounts of nodes.
struct AllBest<'a> {
    /// By cluster, node and mount.
    own: BTreeMap<(&'a str, &'a str, &'a str), Best>,
    /// Seconds by cluster and export, of the node where it is best.
    of_exports: BTreeMap<(&'a str, &'a str), f64>,
}

/// Gives the parts of storage classes their cause, where it is known.
pub(super) fn name(booked: &mut [Booked<'_>], t: &Thresholds) {
    let best = AllBest::of(booked);
    booked.par_iter_mut().for_each(|Booked { course, cells }| {
        for (parts, index) in cells.iter_mut().zip(course.node.body.clone()) {
            for (part, _) in parts.iter_mut().filter(|(part, _)| part.cause.is_none()) {
                let owner = part.owner.clone();
                let cell = Cell { node: course.node, gpu: course.gpu, owner: owner.as_deref(), index };
                cause(part, &cell, &best, t);
            }
        }
    });
}

fn cause(part: &mut Part, cell: &Cell<'_>, best: &AllBest<'_>, t: &Thresholds) {
    let mount = |mount: &str| point_of(cell.node, mount).to_owned();
    let found = match part.class {
        Class::DataloaderStorage => late(cell, best, t).map(|(kind, name, facts)| (kind, Some(mount(name)), facts)),
        Class::Checkpoint => saved_to(cell, t).map(|name| (CauseKind::NetworkMount, Some(mount(name)), Vec::new())),
        Class::IoLimited => Some((CauseKind::IoLimit, io_limited::disk(cell, t).map(str::to_owned), Vec::new())),
        _ => None,
    };
    if let Some((kind, which, facts)) = found {
        part.cause = Some(Cause { kind, which });
        part.facts.extend(facts);
    }
}

/// Where the export is mounted, as far as that is told.
fn point_of<'a>(node: &'a Node, mount: &'a str) -> &'a str {
    let known = node.host.splits(Signal::MountPoint).filter_map(|(of, _)| export_and_point(of));
    known.filter(|(export, _)| *export == mount).map(|(_, point)| point).next().unwrap_or(mount)
}

/// What is mounted there, as far as that is told.
fn export_of<'a>(node: &'a Node, mount: &'a str) -> Option<&'a str> {
    if !mount.starts_with('/') {
        return Some(mount);
    }
    let known = node.host.splits(Signal::MountPoint).filter_map(|(of, _)| export_and_point(of));
    known.filter(|(_, point)| *point == mount).map(|(export, _)| export).next()
}

/// The mount that input was late from: for its lookups, if they take longer than all reads, else for its reads.
fn late<'a>(cell: &Cell<'a>, best: &AllBest<'_>, t: &Thresholds) -> Option<(CauseKind, &'a str, Vec<Fact>)> {
    let reads = read_time(cell).unwrap_or(0.0);
    let lookups = looked_up(cell, t).filter(|(_, in_flight)| *in_flight > reads);
    let lookups = lookups.map(|(mount, _)| (CauseKind::Metadata, mount, Vec::new()));
    lookups.or_else(|| slow(cell, best, t).map(|(mount, facts)| (CauseKind::SlowMount, mount, facts)))
}

/// The mount with the most time of requests other than reads and writes, and how many of them are in flight: at least
/// `io_waiting_ratio` in the mean, and several for each read.
pub(super) fn looked_up<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<(&'a str, f64)> {
    let all = distinct(cell.node, Signal::MountOtherTime, cell.index).into_iter();
    let (mount, in_flight) =
        all.map(|(mount, reading)| (mount, reading.mean)).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let (others, reads) = (rate(cell, Signal::MountOthers, mount)?, rate(cell, Signal::MountReads, mount)?);
    (others >= t.metadata_ratio * reads && in_flight >= t.io_waiting_ratio).then_some((mount, in_flight))
}

/// Reads in flight, of all network file systems and disks.
fn read_time(cell: &Cell<'_>) -> Option<f64> {
    let of_mounts = summed(cell.node, Signal::MountReadTime, cell.index).map(|reading| reading.mean);
    of_mounts.into_iter().chain(cell.mean(Signal::NodeDiskReadTime)).reduce(|a, b| a + b)
}

/// The mount whose reads take so much longer than at best that this is a good part of all time of reads.
fn slow<'a>(cell: &Cell<'a>, best: &AllBest<'_>, t: &Thresholds) -> Option<(&'a str, Vec<Fact>)> {
    let all = read_time(cell)?;
    let seconds = (cell.node.cells[cell.index].end - cell.node.cells[cell.index].start) as f64 / 1000.0;
    let mounts = distinct(cell.node, Signal::MountReadTime, cell.index).into_iter();
    let late = mounts.filter(|(_, time)| time.mean >= t.io_waiting_ratio).filter_map(|(mount, time)| {
        let reads = rate(cell, Signal::MountReads, mount).filter(|reads| reads * seconds >= FEW_READS)?;
        let least = best.of_mount(cell.node, mount)?;
        let limit = (t.slow_mount_ratio * least).max(t.slow_mount_seconds);
        let (each, excess) = (time.mean / reads, (time.mean - reads * least) / all);
        let is_only_one = cell.read(Signal::NodeDiskReadTime).is_some() && time.mean >= NEARLY_ALL * all;
        let is_slow = each >= limit && excess >= t.mount_excess_ratio;
        (is_slow || is_only_one && each >= t.slow_mount_seconds).then_some((mount, each, limit, excess, time.mean))
    });
    let (mount, each, limit, excess, time) = late.max_by(|a, b| a.3.total_cmp(&b.3))?;
    let ratio = |signal, value, threshold| Fact { signal, unit: "ratio", value, threshold };
    let mut facts = vec![
        Fact { signal: "time of a read of the mount", unit: "seconds", value: each, threshold: limit },
        ratio("reads of the mount beyond their best / all reads", excess, t.mount_excess_ratio),
    ];
    let trip = rate(cell, Signal::MountReadTrip, mount);
    facts.extend(trip.map(|trip| ratio("waiting at this node / time of its reads", 1.0 - trip / time, 0.0)));
    Some((mount, facts))
}

/// The mount that gets most of what is written around the cell, where that is the job's: one owner has all GPUs of the node that
/// are held, or its processes write as much.
fn saved_to<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<&'a str> {
    let last = cell.node.cells.len() - 1;
    let near = || (cell.index.saturating_sub(1)..=(cell.index + 1).min(last)).map(|index| Cell { index, ..*cell });
    let mut mounts: BTreeMap<&str, f64> = BTreeMap::new();
    for (mount, reading) in near().flat_map(|cell| distinct(cell.node, Signal::MountWritten, cell.index)) {
        *mounts.entry(mount).or_default() += reading.mean;
    }
    let (mount, most) = mounts.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let written: f64 = near().filter_map(|cell| writing(&cell)).map(|writing| writing.reading.mean).sum();
    let of_processes: f64 = near().filter_map(|cell| cell.mean(Signal::JobStorageWritten)).sum();
    let is_its = is_alone(cell) || (of_processes >= most / AGREES && of_processes <= most * AGREES);
    (is_its && most >= written / AGREES && most >= t.idle_written_bytes).then_some(mount)
}

impl<'a> AllBest<'a> {
    fn of(booked: &[Booked<'a>]) -> Self {
        let mut best = AllBest { own: BTreeMap::new(), of_exports: BTreeMap::new() };
        let mut nodes: Vec<&'a Node> = booked.iter().map(|booked| booked.course.node).collect();
        nodes.sort_by_key(|node| (&node.cluster, &node.node));
        nodes.dedup_by(|a, b| std::ptr::eq(*a, *b));
        for node in nodes {
            let tracks = |signal| node.host.splits(signal).collect::<BTreeMap<_, _>>();
            let (reads, bytes) = (tracks(Signal::MountReads), tracks(Signal::MountRead));
            for (mount, times) in node.host.splits(Signal::MountReadTime).take(MOST_MOUNTS) {
                let known = reads.get(mount).and_then(|reads| Best::of(node, times, reads, bytes.get(mount).copied()));
                let Some(known) = known else { continue };
                best.own.insert((&node.cluster, &node.node, mount), known);
                if let Some(export) = export_of(node, mount) {
                    let least = best.of_exports.entry((&node.cluster, export)).or_insert(f64::INFINITY);
                    *least = least.min(known.seconds);
                }
            }
        }
        best
    }

    /// Seconds that a read of the mount takes at best: here, of the same export elsewhere, or of another mount of the node
    /// whose reads are of about that size.
    fn of_mount(&self, node: &Node, mount: &str) -> Option<f64> {
        let (cluster, name) = (node.cluster.as_str(), node.node.as_str());
        let own = self.own.get(&(cluster, name, mount))?;
        let elsewhere = export_of(node, mount).and_then(|export| self.of_exports.get(&(cluster, export)));
        let here = self.own.range((cluster, name, "")..).take_while(|((c, n, _), _)| (*c, *n) == (cluster, name));
        let alike = here.filter(|(_, other)| other.is_like(own)).map(|(_, other)| other.seconds);
        alike.chain(elsewhere.copied()).chain([own.seconds]).reduce(f64::min)
    }
}

impl Best {
    fn of(
        node: &Node,
        times: &[Option<Reading>],
        reads: &[Option<Reading>],
        bytes: Option<&[Option<Reading>]>,
    ) -> Option<Best> {
        let each = times.iter().zip(reads).enumerate().filter_map(|(index, (time, reads))| {
            let (time, reads) = (time.as_ref()?.mean, reads.as_ref()?.mean);
            let seconds = (node.cells[index].end - node.cells[index].start) as f64 / 1000.0;
            (reads * seconds >= FEW_READS).then_some(time / reads)
        });
        let mut each: Vec<f64> = each.collect();
        each.sort_by(f64::total_cmp);
        let total = |track: &[Option<Reading>]| track.iter().flatten().map(|reading| reading.mean).sum::<f64>();
        let size = bytes.map(|bytes| total(bytes) / total(reads));
        Some(Best { seconds: *each.get(each.len() / 4)?, size })
    }

    /// Are reads of both about as large?
    fn is_like(&self, other: &Best) -> bool {
        self.size.zip(other.size).is_some_and(|(a, b)| a <= AGREES * b && b <= AGREES * a)
    }
}

fn rate(cell: &Cell<'_>, signal: Signal, of: &str) -> Option<f64> {
    cell.by_part(signal).find(|(name, _)| *name == of).map(|(_, reading)| reading.mean)
}
