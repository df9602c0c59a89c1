//! `io_limited`: the job reads or writes as much as a limit on its cgroup lets it, and the GPU waits for that. The disk is
//! sound.

use super::server_clock::is_server;
use super::thresholds::confidence::{COUNTED, NODE_WIDE};
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

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some((_, facts)) = reached(cell, t).filter(|_| !is_server(cell, t)) else { return Verdict::No };
    let levels = [(Signal::JobIoPressure, COUNTED), (Signal::NodeIoPressure, NODE_WIDE)];
    let waiting = levels.into_iter().find_map(|(signal, grade)| Some((signal, cell.mean(signal)?, grade)));
    let Some((signal, max_share, confidence)) = waiting else {
        return Verdict::without(&[Signal::JobIoPressure, Signal::NodeIoPressure]);
    };
    if max_share < t.io_waiting_ratio {
        return Verdict::No;
    }
    let facts = facts.into_iter().chain([Fact::of(signal, max_share, t.io_waiting_ratio)]).collect();
    Verdict::Claim { max_share, confidence, facts }
}

/// The disk whose limit the job reaches, if any, and the numbers that say so. What it did is known of all disks
/// together.
pub(super) fn reached<'a>(cell: &Cell<'a>, t: &Thresholds) -> Option<(&'a str, Vec<Fact>)> {
    LIMITED.into_iter().find_map(|(limit, did)| {
        let done = cell.read(did)?;
        let lowest = cell.by_part(limit).min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
        let (device, limit) = lowest.map(|(device, limit)| (device, limit.mean))?;
        let is_reached = done.max >= t.io_limit_ratio * limit && done.mean <= ABOVE * limit;
        is_reached.then(|| (device, vec![Fact::of(did, done.max, t.io_limit_ratio * limit)]))
    })
}
