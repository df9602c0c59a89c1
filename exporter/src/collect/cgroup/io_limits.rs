//! The limits that are set on the block I/O of an owner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::attribute::{Owner, Place};
use crate::collect::overlay;
use crate::parse::Parsed;
use crate::parse::io_limits::{self, Kind, Limit};
use crate::source::cgroupfs;
use crate::source::files::{self, Roots};
use goodput_catalog::Metric;
use goodput_catalog::host::{
    CGROUP_IO_LATENCY_TARGET, CGROUP_IO_LIMIT_BYTES, CGROUP_IO_LIMIT_OPERATIONS, CGROUP_IO_WEIGHT,
};
use goodput_exposition::Families;

/// Most devices of an owner whose limits are shown.
const MAX_DEVICES: usize = 8;

/// Weight of a cgroup for which none was set (admin-guide/cgroup-v2.rst).
pub(crate) const DEFAULT_WEIGHT: u64 = 100;

/// v1 has a file per limit.
const V1: [(&str, Kind); 4] = [
    ("blkio.throttle.read_bps_device", Kind::ReadBytes),
    ("blkio.throttle.write_bps_device", Kind::WrittenBytes),
    ("blkio.throttle.read_iops_device", Kind::Reads),
    ("blkio.throttle.write_iops_device", Kind::Writes),
];

/// One group whose limits hold for an owner.
pub(crate) struct Group {
    /// Its path in the hierarchy.
    pub(crate) path: String,
    folder: PathBuf,
    is_v2: bool,
}

/// The owner's groups, and in v2 those above them. In v1 the limits of a group do not hold for those below it: blk-throttle
/// keeps them flat there (`throtl_pd_init` in block/blk-throttle.c).
pub(crate) fn groups(roots: &Roots, owner: &Owner) -> Vec<Group> {
    let mut groups = Vec::new();
    for Place { controllers, path } in &owner.places {
        if controllers.is_empty() {
            let root = cgroupfs::v2_root(roots);
            let group = |path: String| Group { folder: cgroupfs::group(&root, &path), path, is_v2: true };
            groups.extend(cgroupfs::upwards(path).map(group));
        } else if controllers.split(',').any(|name| name == "blkio") {
            let folder = cgroupfs::v1_group(roots, controllers, "blkio", path);
            groups.extend(folder.map(|folder| Group { path: path.clone(), folder, is_v2: false }));
        }
    }
    groups
}

impl Group {
    /// Its limits, each with the name of its file; `None` where it has no file of them.
    pub(crate) fn limits(&self) -> Option<Vec<(&'static str, Limit)>> {
        if self.is_v2 {
            return self.named("io.max", io_limits::io_max);
        }
        let found = V1.into_iter().filter_map(|(file, kind)| self.named(file, |text| io_limits::throttle(text, kind)));
        found.reduce(|all, more| [all, more].concat())
    }

    fn named(
        &self,
        file: &'static str,
        parse: impl FnOnce(&str) -> Parsed<Vec<Limit>>,
    ) -> Option<Vec<(&'static str, Limit)>> {
        let limits = files::get(&self.folder.join(file), parse)?;
        Some(limits.into_iter().map(|limit| (file, limit)).collect())
    }

    /// Its weight, where that is not the default.
    pub(crate) fn weight(&self) -> Option<u64> {
        let weight = self.is_v2.then(|| files::get(&self.folder.join("io.weight"), io_limits::io_weight))??;
        weight.filter(|weight| *weight != DEFAULT_WEIGHT)
    }

    /// The latency that its I/O is to have, by device.
    pub(crate) fn targets(&self) -> Vec<(String, Duration)> {
        let read = || files::get(&self.folder.join("io.latency"), io_limits::io_latency);
        self.is_v2.then(read).flatten().unwrap_or_default()
    }
}

/// What is set for one group.
struct Settings {
    limits: Vec<(&'static str, Limit)>,
    weight: Option<u64>,
    targets: Vec<(String, Duration)>,
}

/// What one scrape has read: groups above the owners are the same for many of them.
#[derive(Default)]
pub(super) struct Seen {
    groups: BTreeMap<PathBuf, Settings>,
    names: BTreeMap<String, String>,
}

impl Seen {
    /// Writes the lowest limit of each kind and device that holds for the owner, its lowest weight and its lowest targets.
    pub(super) fn push(&mut self, roots: &Roots, owner: &Owner, out: &mut Families) {
        let mut limits: BTreeMap<String, BTreeMap<Kind, u64>> = BTreeMap::new();
        let mut targets: BTreeMap<String, Duration> = BTreeMap::new();
        let mut weight: Option<u64> = None;
        for group in groups(roots, owner) {
            let read = || Settings {
                limits: group.limits().unwrap_or_default(),
                weight: group.weight(),
                targets: group.targets(),
            };
            let found = self.groups.entry(group.folder.clone()).or_insert_with(read);
            weight = weight.into_iter().chain(found.weight).min();
            for (_, Limit { device, kind, most }) in &found.limits {
                least(limits.entry(device.clone()).or_default(), *kind, *most);
            }
            for (device, target) in &found.targets {
                least(&mut targets, device.clone(), *target);
            }
        }
        out.push(&CGROUP_IO_WEIGHT, &[&owner.id], weight.map(|weight| weight as f64));
        for (device, limits) in limits.into_iter().take(MAX_DEVICES) {
            let name = self.name(roots, device);
            for (kind, most) in limits {
                let (metric, direction) = shown(kind);
                out.push(metric, &[&owner.id, name, direction], most as f64);
            }
        }
        for (device, target) in targets.into_iter().take(MAX_DEVICES) {
            out.push(&CGROUP_IO_LATENCY_TARGET, &[&owner.id, self.name(roots, device)], target.as_secs_f64());
        }
    }

    fn name(&mut self, roots: &Roots, device: String) -> &str {
        self.names.entry(device).or_insert_with_key(|device| name(roots, device))
    }
}

fn least<K: Ord, V: Ord + Copy>(all: &mut BTreeMap<K, V>, key: K, value: V) {
    all.entry(key).and_modify(|known| *known = value.min(*known)).or_insert(value);
}

/// The device's name as the metrics of disks have it; its numbers where sysfs does not know it.
pub(crate) fn name(roots: &Roots, device: &str) -> String {
    overlay::disk_name(roots, device).unwrap_or_else(|| device.to_owned())
}

fn shown(kind: Kind) -> (&'static Metric, &'static str) {
    match kind {
        Kind::ReadBytes => (&CGROUP_IO_LIMIT_BYTES, "read"),
        Kind::WrittenBytes => (&CGROUP_IO_LIMIT_BYTES, "write"),
        Kind::Reads => (&CGROUP_IO_LIMIT_OPERATIONS, "read"),
        Kind::Writes => (&CGROUP_IO_LIMIT_OPERATIONS, "write"),
    }
}
