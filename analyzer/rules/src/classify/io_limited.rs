//! `io_limited`: the job reads or writes as much as a limit on its cgroup lets it, and the GPU waits for that. The disk is
//! sound.

use super::server_clock::is_server;
use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule {
    class: Class::IoLimited,
    explains: &[Class::Checkpoint, Class::DataloaderStorage, Class::FeedingUnsplit],
    judge,
};

/// Limits of one disk, and what the job did on all disks.
const LIMITED: [(Signal, Signal); 4] = [
    (Signal::JobReadLimit, Signal::JobRead),
    (Signal::JobWriteLimit, Signal::JobWritten),
    (Signal::JobReadsLimit, Signal::JobReads),
    (Signal::JobWritesLimit, Signal::JobWrites),
];

/// How far the job may be above the limit of a disk before some of what it does is on another disk, where others have no
/// limit: the kernel lets a burst of a scrape or two pass.
const ABOVE: f64 = 1.1;

/// A limit that the job reaches.
struct Reached<'a> {
    /// The disk; `None` where several have the same.
    device: Option<&'a str>,
    /// Share of the cell that what was done takes at the limit.
    share: f64,
    fact: Fact,
}

/// The kernel counts a limit by disk, and what a job does on all disks together: which disk it was is inferred.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(reached) = reached(cell, t).filter(|_| !is_server(cell, t)) else { return Verdict::No };
    let levels = [(Signal::JobIoPressure, INFERRED), (Signal::NodeIoPressure, NODE_WIDE)];
    let waiting = levels.into_iter().find_map(|(signal, grade)| Some((signal, cell.mean(signal)?, grade)));
    let Some((signal, waits, confidence)) = waiting else {
        return Verdict::without(&[Signal::JobIoPressure, Signal::NodeIoPressure]);
    };
    if waits < t.io_waiting_ratio {
        return Verdict::No;
    }
    let facts = vec![reached.fact, Fact::of(signal, waits, t.io_waiting_ratio)];
    Verdict::Claim { max_share: waits.min(reached.share), confidence, facts }
}

/// The disk whose limit the job reaches, where it is one.
pub(super) fn disk<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<&'a str> {
    reached(cell, t)?.device
}

fn reached<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<Reached<'a>> {
    LIMITED.into_iter().find_map(|(limit, did)| {
        let done = cell.read(did)?;
        let lowest = cell.by_part(limit).map(|(_, limit)| limit.mean).reduce(f64::min)?;
        let mut devices = cell.by_part(limit).filter(|(_, limit)| limit.mean == lowest).map(|(device, _)| device);
        let device = devices.next().filter(|_| devices.next().is_none());
        let counted = counted_once(cell);
        let (most, mean) = (counted * done.max, counted * done.mean);
        let is_reached = most >= t.io_limit_ratio * lowest && mean <= ABOVE * lowest;
        let fact = Fact::of(did, most, t.io_limit_ratio * lowest);
        is_reached.then(|| Reached { device, share: (mean / lowest).min(1.0), fact })
    })
}

/// A cgroup counts what goes through stacked devices (RAID, encryption) for each of them, and a job reads no more than all disks
/// of its node do: by how much its counts are to be multiplied.
fn counted_once(cell: &Cell<'_>) -> f64 {
    let of_node = cell.mean(Signal::NodeDiskRead).zip(cell.mean(Signal::JobRead));
    of_node.filter(|(node, job)| *job > ABOVE * node && *node > 0.0).map_or(1.0, |(node, job)| node / job)
}
