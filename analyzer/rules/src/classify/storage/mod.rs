//! What storage it was: the network file system, its storage target, or the disk whose reads were late, the mount that the job saved to, and the disk
//! that is limited.
//!
//! The rules of `dataloader_storage`, `checkpoint` and `io_limited` have booked the time. Here it gets its cause; no
//! time moves from class to class. A storage is never named for being used, not even where it is the only one: reads of it have
//! to take longer than they do at best, or be small.

mod best;
mod mounts;
mod targets;
mod unanswered;
mod used;

use rayon::prelude::*;

use super::cell::Part;
use super::judge::Booked;
use super::{Cause, CauseKind, Cell, Class, Fact, MountUse, Thresholds, io_limited};
use crate::frame::Reading;
use crate::signal::Signal;
use best::{AllBest, of_disk};
use goodput_exposition::sample::TimeMs;
pub(super) use mounts::{looked_up, most_read, summed};
pub(super) use unanswered::unanswered;

/// Reads of a storage in a cell that are too few to tell how long they take.
const FEW_READS: f64 = 10.0;

/// A mount or disk that the node reads, in a cell.
struct Reads<'a> {
    /// What it has where its reads are late.
    kind: CauseKind,
    name: &'a str,
    /// Reads in flight, in the mean.
    in_flight: f64,
    /// Reads per second; `None` where they are too few.
    rate: Option<f64>,
    /// Bytes of a read, in the mean.
    size: Option<f64>,
}

/// What is named, with the evidence.
type Named<'a> = (CauseKind, &'a str, Vec<Fact>);

/// Gives the parts of storage classes their cause, where it is known. Gives what the mounts of runs that waited for one did.
pub(super) fn name(booked: &mut [Booked<'_>], start_ms: TimeMs, t: &Thresholds) -> Vec<MountUse> {
    let best = AllBest::of(booked);
    booked.par_iter_mut().for_each(|Booked { course, cells, .. }| {
        for (parts, index) in cells.iter_mut().zip(course.node.body.clone()) {
            for (part, _) in parts.iter_mut().filter(|(part, _)| part.cause.is_none()) {
                let owner = part.owner.clone();
                let cell = Cell::of(course.node, course.gpu, owner.as_deref(), index);
                cause(part, &cell, &best, t);
            }
        }
    });
    used::used(booked, &best, start_ms)
}

fn cause(part: &mut Part, cell: &Cell<'_>, best: &AllBest<'_>, t: &Thresholds) {
    let at = |name: &str| mounts::point_of(cell.node, name).to_owned();
    let found = match part.class {
        Class::DataloaderStorage => late(cell, best, t).map(|(kind, name, facts)| (kind, Some(at(name)), facts)),
        Class::Checkpoint => {
            mounts::saved_to(cell, t).map(|name| (CauseKind::NetworkMount, Some(at(name)), Vec::new()))
        }
        Class::IoLimited => Some((CauseKind::IoLimit, io_limited::disk(cell, t).map(str::to_owned), Vec::new())),
        _ => None,
    };
    if let Some((kind, which, facts)) = found {
        part.cause = Some(Cause { kind, which });
        part.facts.extend(facts);
    }
}

/// What input was late from: the mount whose lookups take longer than all reads, else the storage whose reads are late, else
/// the mount whose server did not answer, else the storage whose reads are small. Requests that are only late are not sent again:
/// where those of the mount were, its server did not answer.
fn late<'a>(cell: &Cell<'a>, best: &AllBest<'_>, t: &Thresholds) -> Option<Named<'a>> {
    let reads = all_reads(cell);
    let in_flight: f64 = reads.iter().map(|reads| reads.in_flight).sum();
    let lookups = looked_up(cell, t).filter(|(_, looking)| *looking > in_flight);
    let lookups = lookups.map(|(mount, _)| (CauseKind::Metadata, mount, Vec::new()));
    let late = lookups.or_else(|| slow(&reads, in_flight, cell, best, t));
    let is_it = |mount: &str| {
        let at = |name| mounts::point_of(cell.node, name);
        late.as_ref().is_none_or(|(_, late, _)| at(late) == at(mount))
    };
    let silent = silent(cell, t).filter(|(_, mount, _)| is_it(mount));
    silent.or(late).or_else(|| small(&reads, in_flight, t))
}

/// The mount whose server did not answer for a good part of the cell.
fn silent<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<Named<'a>> {
    let unanswered = unanswered(cell)?;
    let is_long = unanswered.waited_seconds >= t.io_waiting_ratio * cell.seconds();
    is_long.then_some((CauseKind::NotAnswering, unanswered.mount?, Vec::new()))
}

/// Disks that are made of others (device mapper, software RAID, caches, mirrors), whose reads are counted at those too.
const STACKED: [&str; 4] = ["dm-", "md", "bcache", "drbd"];

/// Disks of the node, without those that are made of others and those that are parts or paths of one (`sda1`, `nvme0c0n1`).
fn is_whole_disk(name: &str) -> bool {
    let is_part = |start: &str| name.starts_with(start) && name.ends_with(|c: char| c.is_ascii_digit());
    let of_nvme = name.strip_prefix("nvme");
    let is_path_or_part = of_nvme.is_some_and(|rest| rest.contains(['c', 'p']));
    let is_stacked = STACKED.iter().any(|kind| name.starts_with(kind));
    let is_part =
        ["sd", "hd", "vd", "xvd"].into_iter().any(is_part) || name.starts_with("mmcblk") && name.contains('p');
    !is_stacked && !is_path_or_part && !is_part
}

fn all_reads<'a>(cell: &Cell<'a>) -> Vec<Reads<'a>> {
    let enough = |rate: Option<f64>| rate.filter(|rate| rate * cell.seconds() >= FEW_READS);
    let mount = |(name, time): (&'a str, &Reading)| {
        let rate = enough(rate(cell, Signal::MountReads, name));
        let size = self::rate(cell, Signal::MountRead, name).zip(rate).map(|(bytes, reads)| bytes / reads);
        Reads { kind: CauseKind::SlowMount, name, in_flight: time.mean, rate, size }
    };
    // Bytes are known of all disks together.
    let reading =
        cell.by_part(Signal::DiskReads).filter(|(name, reads)| is_whole_disk(name) && reads.mean > 0.0).count();
    let bytes = cell.mean(Signal::NodeDiskRead).filter(|_| reading == 1);
    let disk = |(name, time): (&'a str, &Reading)| {
        let rate = enough(rate(cell, Signal::DiskReads, name));
        let size = bytes.zip(rate).map(|(bytes, reads)| bytes / reads);
        Reads { kind: CauseKind::SlowDisk, name, in_flight: time.mean, rate, size }
    };
    let disks = cell.by_part(Signal::DiskReadTime).filter(|(name, _)| is_whole_disk(name));
    mounts::distinct(cell.node, Signal::MountReadTime, cell.index)
        .into_iter()
        .map(mount)
        .chain(disks.map(disk))
        .collect()
}

/// The storage whose reads take so much longer than at best that this is a good part of all time of reads.
fn slow<'a>(reads: &[Reads<'a>], all: f64, cell: &Cell<'a>, best: &AllBest<'_>, t: &Thresholds) -> Option<Named<'a>> {
    let late = reads.iter().filter(|reads| reads.in_flight >= t.io_waiting_ratio).filter_map(|reads| {
        let rate = reads.rate?;
        let is_mount = reads.kind == CauseKind::SlowMount;
        let floor = if is_mount { t.slow_mount_seconds } else { t.slow_disk_seconds };
        let own = if is_mount { best.of_mount(cell.node, reads.name) } else { of_disk(cell.node, reads.name, rate) };
        let (each, target) = (reads.in_flight / rate, targets::slowest(cell, reads.name, t));
        // A target that is slow for days is slow at best, too: the others say what its requests should take.
        let as_others = target.as_ref().map(|target| each * (1.0 - target.excess));
        let least = own.into_iter().chain(as_others).reduce(f64::min)?;
        let limit = (t.slow_mount_ratio * least).max(floor);
        let excess = (reads.in_flight - rate * least) / all;
        (each >= limit && excess >= t.mount_excess_ratio).then_some((reads, each, limit, excess, target))
    });
    let (reads, each, limit, excess, target) = late.max_by(|a, b| a.3.total_cmp(&b.3))?;
    let mut facts = vec![
        Fact { signal: "time of a read of the storage", unit: "seconds", value: each, threshold: limit },
        ratio("reads of the storage beyond their best / all reads", excess, t.mount_excess_ratio),
    ];
    let trip = rate(cell, Signal::MountReadTrip, reads.name).filter(|_| reads.kind == CauseKind::SlowMount);
    facts.extend(trip.map(|trip| ratio("waiting at this node / time of its reads", 1.0 - trip / reads.in_flight, 0.0)));
    let target = target.filter(|_| reads.kind == CauseKind::SlowMount);
    facts.extend(target.iter().flat_map(|target| target.facts));
    let (kind, name) = target.map_or((reads.kind, reads.name), |target| (CauseKind::SlowTarget, target.name));
    Some((kind, name, facts))
}

/// The storage that most reads wait for, where a read has few bytes: each waits for a seek or a round trip of its own. It is no
/// mount where the reads of disks are not told, which may be what the job waits for.
fn small<'a>(reads: &[Reads<'a>], all: f64, t: &Thresholds) -> Option<Named<'a>> {
    let most = reads.iter().max_by(|a, b| a.in_flight.total_cmp(&b.in_flight))?;
    let size = most.size.filter(|size| most.rate.is_some() && *size < t.small_read_bytes)?;
    let knows_disks = reads.iter().any(|reads| reads.kind == CauseKind::SlowDisk);
    let is_it = knows_disks && most.in_flight >= t.io_waiting_ratio && 2.0 * most.in_flight > all;
    let fact = Fact { signal: "bytes of a read", unit: "bytes", value: size, threshold: t.small_read_bytes };
    is_it.then(|| (CauseKind::SmallReads, most.name, vec![fact]))
}

fn ratio(signal: &'static str, value: f64, threshold: f64) -> Fact {
    Fact { signal, unit: "ratio", value, threshold }
}

fn rate(cell: &Cell<'_>, signal: Signal, of: &str) -> Option<f64> {
    cell.by_part(signal).find(|(name, _)| *name == of).map(|(_, reading)| reading.mean)
}
