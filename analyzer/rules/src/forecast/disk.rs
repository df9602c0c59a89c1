//! File systems that fill up: their space and their inodes, as node_exporter reports them.

use std::collections::{BTreeMap, BTreeSet};

use super::course::Course;
use super::{Forecast, Kind, Room, exhaustion};
use crate::classify::Thresholds;
use crate::frame::{self, STALENESS_MS, Source};
use crate::signal::Signal;
use goodput_exposition::sample::{Sample, TimeMs};

/// What there is of file systems.
pub(super) const SIGNALS: &[Signal] =
    &[Signal::FsSize, Signal::FsAvailable, Signal::FsInodes, Signal::FsInodesFree, Signal::FsReadOnly];

/// Types that are no disk's, that show another file system again, or that no process writes to. Memory that a tmpfs
/// takes is the node's.
const LEFT_OUT: &[&str] = &[
    "autofs",
    "bpf",
    "cgroup",
    "cgroup2",
    "devtmpfs",
    "efivarfs",
    "erofs",
    "fuse.lxcfs",
    "hugetlbfs",
    "iso9660",
    "nsfs",
    "overlay",
    "proc",
    "ramfs",
    "rootfs",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "udf",
];

/// One file system of a node.
#[derive(Debug)]
pub(super) struct FileSystem {
    pub(super) cluster: String,
    pub(super) node: String,
    /// The shortest path that it is mounted at.
    pub(super) mountpoint: String,
    by_signal: BTreeMap<Signal, Vec<Sample>>,
    /// Another node that has it too speaks for it.
    is_told_elsewhere: bool,
}

impl FileSystem {
    /// What is in use, and the most that can be; the reserve that is root's counts as in use. `None` where it is not told.
    pub(super) fn used(&self, room: Room) -> Option<(Vec<Sample>, f64)> {
        let (size, free) = match room {
            Room::Bytes => (Signal::FsSize, Signal::FsAvailable),
            Room::Inodes => (Signal::FsInodes, Signal::FsInodesFree),
        };
        // Some file systems make inodes as they go, and tell of none.
        let size = self.by_signal.get(&size)?.last().map(|s| s.value).filter(|size| *size > 0.0)?;
        let used = |s: &Sample| Sample { value: size - s.value, ..*s };
        Some((self.by_signal.get(&free)?.iter().map(used).collect(), size))
    }

    fn is_read_only(&self, now: TimeMs) -> bool {
        let samples = self.by_signal.get(&Signal::FsReadOnly).map_or(&[][..], Vec::as_slice);
        let last = samples[..samples.partition_point(|s| s.time_ms <= now)].last();
        last.is_some_and(|s| s.value > 0.0 && now - s.time_ms <= STALENESS_MS)
    }
}

/// Space and inodes of one file system.
pub(super) fn courses<'a>(disk: &'a FileSystem) -> Vec<Course<'a>> {
    let of = |room: &Room| {
        let (used, size) = disk.used(*room)?;
        Some(Course {
            kind: Kind::Disk(*room),
            cluster: &disk.cluster,
            node: &disk.node,
            entity: disk.mountpoint.clone(),
            gpus: Vec::new(),
            look: Box::new(move |now, t| look(disk, &used, size, now, t)),
        })
    };
    if disk.is_told_elsewhere { Vec::new() } else { Room::ALL.iter().filter_map(of).collect() }
}

/// Growth far from the end is what disks are for.
fn look(disk: &FileSystem, used: &[Sample], size: f64, now: TimeMs, t: &Thresholds) -> Option<Forecast> {
    if disk.is_read_only(now) {
        return None;
    }
    let mut exhaustion = exhaustion(used, size, now, t)?.or_reached();
    if exhaustion.used < (1.0 - t.disk_available_ratio) * size {
        exhaustion.at_risk = None;
    }
    Some(Forecast::Exhaustion(exhaustion))
}

/// Where a device is mounted, and each signal of it, as each target tells it.
type Told<'s, 'a> = BTreeMap<&'a str, BTreeMap<Signal, Vec<&'s Source<'a>>>>;

/// All that can be written to, once each: a device that is mounted at several places is one, and so is a network file
/// system (`SERVER:PATH`) that several nodes of a cluster have, which the first of them speaks for.
pub(super) fn file_systems(sources: &[Source<'_>]) -> Vec<FileSystem> {
    let (mut all, mut shared) = (Vec::new(), BTreeSet::new());
    for node in frame::by_name(sources) {
        let mut devices: BTreeMap<&str, Told<'_, '_>> = BTreeMap::new();
        for source in node.sources.into_iter().filter(|s| SIGNALS.contains(&s.meaning.signal)) {
            if let [device, fstype, mountpoint] = source.meaning.part[..]
                && !LEFT_OUT.contains(&fstype)
            {
                let by_signal = devices.entry(device).or_default().entry(mountpoint).or_default();
                by_signal.entry(source.meaning.signal).or_default().push(source);
            }
        }
        for (device, mounts) in devices {
            let is_network = device.contains(':');
            let is_told_elsewhere = is_network && !shared.insert((node.cluster.clone(), device.to_owned()));
            let shortest = mounts.into_iter().min_by_key(|(mountpoint, _)| (mountpoint.len(), *mountpoint));
            all.extend(shortest.map(|(mountpoint, told)| FileSystem {
                cluster: node.cluster.clone(),
                node: node.node.clone(),
                mountpoint: mountpoint.to_owned(),
                by_signal: told.into_iter().map(|(signal, same)| (signal, longest(signal, &same))).collect(),
                is_told_elsewhere,
            }));
        }
    }
    all
}

/// Of several targets that tell the same, the one with the most samples.
fn longest(signal: Signal, same: &[&Source<'_>]) -> Vec<Sample> {
    let admitted = |source: &&Source<'_>| -> Vec<Sample> {
        source.samples.iter().filter(|s| signal.admits(s.value)).copied().collect()
    };
    same.iter().map(admitted).max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Told, hours};
    use super::super::{prospects, risks};
    use super::*;
    use goodput_exposition::sample::Series;

    const MINUTE: i64 = 60_000;
    const TB: f64 = 1e12;

    /// A file system of 1 TB over 4 hours; `used` is the share in use by minute.
    fn disk(node: &str, labels: [&'static str; 3], used: impl Fn(f64) -> f64) -> Vec<Series> {
        let told = Told::new(node).and([("device", labels[0]), ("fstype", labels[1]), ("mountpoint", labels[2])]);
        vec![
            told.series("node_filesystem_size_bytes", &|_| TB),
            told.series("node_filesystem_avail_bytes", &|minute| TB * (1.0 - used(minute))),
            told.series("node_filesystem_files", &|_| 1e6),
            told.series("node_filesystem_files_free", &|_| 9e5),
        ]
    }

    const ROOT: [&str; 3] = ["/dev/sda1", "ext4", "/"];

    /// The share of the disk that fills within six hours of the first sample.
    fn filling(minute: f64) -> f64 {
        0.4 + 0.6 * minute / 360.0
    }

    fn at_risk(series: &[Series]) -> Vec<(String, String, &'static str)> {
        let all = prospects(series, 240 * MINUTE, &Thresholds::default());
        let told = all.into_iter().filter(|p| p.is_risk() && matches!(p.kind, Kind::Disk(_)));
        told.map(|p| (p.node, p.entity, p.kind.which())).collect()
    }

    #[test]
    fn a_disk_that_fills_is_told_hours_before_it_is_full() {
        let series = disk("n1", ROOT, filling);
        let all = risks(&series, &(0..240 * MINUTE), 240 * MINUTE, &Thresholds::default());
        let [risk] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((risk.last.kind, risk.last.entity.as_str()), (Kind::Disk(Room::Bytes), "/"));
        assert_eq!(risk.last.owners, [] as [String; 0]);
        // Known as soon as three fifths are in use and the end is four hours off, two hours after the first sample.
        assert!((120 * MINUTE..=130 * MINUTE).contains(&risk.start_ms), "{} min", risk.start_ms / MINUTE);
        assert!(risk.end_ms == 240 * MINUTE, "without a pause");
        let earliest = risk.earliest_ms.unwrap();
        assert!((earliest - 360 * MINUTE).abs() < 5 * MINUTE, "{} min", earliest / MINUTE);
    }

    #[test]
    fn inodes_run_out_too() {
        let mut series = disk("n1", ROOT, |_| 0.2);
        let told = Told::new("n1").and([("device", ROOT[0]), ("fstype", ROOT[1]), ("mountpoint", ROOT[2])]);
        series[3] = told.series("node_filesystem_files_free", &|minute| 1e6 * (1.0 - filling(minute)));
        assert_eq!(at_risk(&series), [("n1".to_owned(), "/".to_owned(), "inodes")]);
    }

    #[test]
    fn checkpoints_that_come_and_go_are_no_risk_and_neither_is_a_full_but_flat_disk() {
        for period in [10.0, 20.0, 30.0, 45.0, 60.0] {
            let series = disk("n1", ROOT, |minute| 0.65 + 0.3 * (minute % period) / period);
            // The first rise of a slow one is like any growth; two hours show that it comes back.
            let all = risks(&series, &(120 * MINUTE..240 * MINUTE), 240 * MINUTE, &Thresholds::default());
            assert_eq!(all, [], "saves that are removed every {period} minutes");
        }
        assert_eq!(at_risk(&disk("n1", ROOT, |_| 0.97)), []);
        assert_eq!(at_risk(&disk("n1", ROOT, |minute| 0.1 + 0.4 * minute / 240.0)), [], "half of it is free");
        let full = at_risk(&disk("n1", ROOT, |_| 1.0));
        assert_eq!(full, [("n1".to_owned(), "/".to_owned(), "bytes")], "there is no time left");
    }

    #[test]
    fn what_is_no_disk_is_left_out_and_each_disk_is_told_once() {
        for fstype in ["tmpfs", "overlay", "squashfs"] {
            assert_eq!(at_risk(&disk("n1", ["none", fstype, "/run"], filling)), [], "{fstype}");
        }
        let mut read_only = disk("n1", ROOT, filling);
        let told = Told::new("n1").and([("device", ROOT[0]), ("fstype", ROOT[1]), ("mountpoint", ROOT[2])]);
        read_only.push(told.series("node_filesystem_readonly", &|_| 1.0));
        assert_eq!(at_risk(&read_only), []);

        let bound = [
            disk("n1", ["/dev/sdb", "xfs", "/var/lib/data"], filling),
            disk("n1", ["/dev/sdb", "xfs", "/data"], filling),
        ];
        assert_eq!(at_risk(&bound.concat()), [("n1".to_owned(), "/data".to_owned(), "bytes")]);
        let nfs = ["nas:/scratch", "nfs4", "/scratch"];
        let shared = [disk("n1", nfs, filling), disk("n2", nfs, filling)].concat();
        assert_eq!(at_risk(&shared), [("n1".to_owned(), "/scratch".to_owned(), "bytes")]);
    }

    #[test]
    fn a_disk_that_is_not_known_is_not_forecast() {
        let short = hours(disk("n1", ROOT, filling), 0..20 * MINUTE);
        assert_eq!(prospects(&short, 20 * MINUTE, &Thresholds::default()), []);
        let without_size = disk("n1", ROOT, filling).split_off(1);
        assert!(prospects(&without_size, 240 * MINUTE, &Thresholds::default()).iter().all(|p| !p.is_risk()));
    }
}
