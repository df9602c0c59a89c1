//! What reads of a mount or a disk take in the best quarter of cells.

use std::collections::BTreeMap;

use super::super::Node;
use super::super::judge::Booked;
use super::FEW_READS;
use super::mounts::{MOST_MOUNTS, export_of, is_lustre};
use crate::frame::Reading;
use crate::signal::Signal;

/// Sizes of reads within this factor can be compared.
const AGREES: f64 = 2.0;

/// Reads of a mount, at best.
#[derive(Clone, Copy)]
struct Best {
    /// Seconds.
    seconds: f64,
    /// Bytes of a read, in the mean.
    size: Option<f64>,
}

/// By cluster, node and mount.
type ByName<'a> = BTreeMap<(&'a str, &'a str, &'a str), Best>;

/// The best of the mounts of nodes.
pub(super) struct AllBest<'a> {
    mounts: ByName<'a>,
    /// Seconds by cluster and export, of the node where it is best.
    of_exports: BTreeMap<(&'a str, &'a str), f64>,
}

impl<'a> AllBest<'a> {
    pub(super) fn of(booked: &[Booked<'a>]) -> Self {
        let mut best = AllBest { mounts: BTreeMap::new(), of_exports: BTreeMap::new() };
        let mut nodes: Vec<&'a Node> = booked.iter().map(|booked| booked.course.node).collect();
        nodes.sort_by_key(|node| (&node.cluster, &node.node));
        nodes.dedup_by(|a, b| std::ptr::eq(*a, *b));
        for node in nodes {
            let (cluster, name) = (node.cluster.as_str(), node.node.as_str());
            for (mount, known) in mounts(node) {
                best.mounts.insert((cluster, name, mount), known);
                if let Some(export) = export_of(node, mount) {
                    let least = best.of_exports.entry((cluster, export)).or_insert(f64::INFINITY);
                    *least = least.min(known.seconds);
                }
            }
        }
        best
    }

    /// Seconds that a read of the mount takes at best: here, of the same export elsewhere, or of another mount of that kind on
    /// the node, whose reads are of about that size.
    pub(super) fn of_mount(&self, node: &Node, mount: &str) -> Option<f64> {
        let (cluster, name) = (node.cluster.as_str(), node.node.as_str());
        let own = self.mounts.get(&(cluster, name, mount))?;
        let elsewhere = export_of(node, mount).and_then(|export| self.of_exports.get(&(cluster, export)));
        let here = self.mounts.range((cluster, name, "")..).take_while(|((c, n, _), _)| (*c, *n) == (cluster, name));
        let alike = here.filter(|((.., name), other)| is_lustre(name) == is_lustre(mount) && other.is_like(own));
        let alike = alike.map(|(_, other)| other.seconds);
        alike.chain(elsewhere.copied()).chain([own.seconds]).reduce(f64::min)
    }
}

/// Seconds that a read of the disk takes in the best quarter of the cells in which it has at least half as many reads a second:
/// with fewer of them at once each is faster. The size of its reads is not known, so it is compared with itself alone.
pub(super) fn of_disk(node: &Node, disk: &str, reads_per_second: f64) -> Option<f64> {
    let track = |signal| node.host.splits(signal).find(|(name, _)| *name == disk).map(|(_, track)| track);
    let (times, reads) = (track(Signal::DiskReadTime)?, track(Signal::DiskReads)?);
    let each = times.iter().zip(reads).filter_map(|(time, reads)| {
        let (time, reads) = (time.as_ref()?.mean, reads.as_ref()?.mean);
        (2.0 * reads >= reads_per_second).then_some(time / reads)
    });
    quarter(each.collect())
}

/// The mounts whose reads the node tells: how many, how long they took, and perhaps their bytes.
fn mounts(node: &Node) -> impl Iterator<Item = (&str, Best)> + use<'_> {
    let tracks = |signal| node.host.splits(signal).collect::<BTreeMap<_, _>>();
    let (reads, bytes) = (tracks(Signal::MountReads), tracks(Signal::MountRead));
    node.host.splits(Signal::MountReadTime).take(MOST_MOUNTS).filter_map(move |(mount, times)| {
        let known = Best::of(node, times, reads.get(mount)?, bytes.get(mount).copied())?;
        Some((mount, known))
    })
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
        let seconds = quarter(each.collect())?;
        let total = |track: &[Option<Reading>]| track.iter().flatten().map(|reading| reading.mean).sum::<f64>();
        let size = bytes.map(|bytes| total(bytes) / total(reads));
        Some(Best { seconds, size })
    }

    /// Are reads of both about as large?
    fn is_like(&self, other: &Best) -> bool {
        self.size.zip(other.size).is_some_and(|(a, b)| a <= AGREES * b && b <= AGREES * a)
    }
}

/// The lower quartile.
fn quarter(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied()
}
