//! The limits that are set on the block I/O of an owner.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::attribute::{Owner, Place};
use crate::collect::overlay;
use crate::parse::Parsed;
use crate::parse::io_limits::{self, Kind, Limit};
use crate::source::cgroupfs;
use crate::source::files::{self, Roots};
use goodput_catalog::Metric;
use goodput_catalog::host::{CGROUP_IO_LIMIT_BYTES, CGROUP_IO_LIMIT_OPERATIONS};
use goodput_exposition::Families;

/// Most devices of an owner whose limits are shown.
const MAX_DEVICES: usize = 8;

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
            return self.read("io.max", io_limits::io_max);
        }
        let found = V1.into_iter().filter_map(|(file, kind)| self.read(file, |text| io_limits::throttle(text, kind)));
        found.reduce(|all, more| [all, more].concat())
    }

    fn read(
        &self,
        file: &'static str,
        parse: impl FnOnce(&str) -> Parsed<Vec<Limit>>,
    ) -> Option<Vec<(&'static str, Limit)>> {
        let limits = files::get(&self.folder.join(file), parse)?;
        Some(limits.into_iter().map(|limit| (file, limit)).collect())
    }
}

/// What one scrape has read: groups above the owners are the same for many of them.
#[derive(Default)]
pub(super) struct Seen {
    groups: BTreeMap<PathBuf, Vec<(&'static str, Limit)>>,
    names: BTreeMap<String, String>,
}

impl Seen {
    /// Writes the lowest limit of each kind and device that holds for the owner.
    pub(super) fn push(&mut self, roots: &Roots, owner: &Owner, out: &mut Families) {
        let mut lowest: BTreeMap<String, BTreeMap<Kind, u64>> = BTreeMap::new();
        for group in groups(roots, owner) {
            let limits = self.groups.entry(group.folder.clone()).or_insert_with(|| group.limits().unwrap_or_default());
            for (_, Limit { device, kind, most }) in limits {
                let least = lowest.entry(device.clone()).or_default().entry(*kind).or_insert(*most);
                *least = (*least).min(*most);
            }
        }
        for (device, limits) in lowest.into_iter().take(MAX_DEVICES) {
            let name = self.names.entry(device).or_insert_with_key(|device| name(roots, device));
            for (kind, most) in limits {
                let (metric, direction) = shown(kind);
                out.push(metric, &[&owner.id, name, direction], most as f64);
            }
        }
    }
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
