//! `overlay`: the device that holds a container's writable layer, and what the container writes to it.

use super::*;
use crate::attribute::Owner;
use crate::collect::cgroup::MAX_OWNERS;
use crate::parse::mountinfo::{self, Mount};
use crate::parse::{cgroup, number};
use crate::source::cgroupfs;
use goodput_catalog::overlay::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Overlay>(
    "overlay",
    "Devices that hold the writable layers of containers with GPUs, and what those containers write to them; 4 small files per container, at most 64. No layer is walked.",
    1,
);

/// Reads `/proc/PID/mountinfo` of a process of each owner, `/proc/1/mountinfo` and `io.stat`.
#[derive(Default)]
pub struct Overlay;

impl Collector for Overlay {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let owners = context.owners.all().iter().filter(|owner| !owner.pids.is_empty());
        for owner in owners.take(MAX_OWNERS) {
            push(roots, owner, out);
        }
        Ok(Done::Ok)
    }
}

fn push(roots: &Roots, owner: &Owner, out: &mut Families) {
    let Some(upper) = upper_folder(roots, owner) else { return };
    let (kind, device) = place(roots, &upper).unwrap_or_default();
    let name = match device.is_empty() {
        true => String::new(),
        false => disk_name(roots, &device).unwrap_or_default(),
    };
    out.push_with(&OVERLAY_INFO, &[&owner.id], &[&kind, &name], 1.0);
    if name.is_empty() {
        return;
    }
    for group in owner.places.iter().filter(|place| place.controllers.is_empty()) {
        let path = cgroupfs::group(&cgroupfs::v2_root(roots), &group.path).join("io.stat");
        let Some(io) = files::get(&path, |text| cgroup::io_stat_of(text, &device)) else { continue };
        // A cgroup without a line for the device has done nothing on it.
        let io = io.unwrap_or_default();
        out.push(&OVERLAY_WRITTEN_BYTES, &[&owner.id, &name], io.written_bytes.map(|n| n as f64));
    }
}

/// What the kernel calls the disk.
pub(crate) fn disk_name(roots: &Roots, device: &str) -> Option<String> {
    let name = |text: &str| Ok(text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_owned));
    files::get(&roots.sys.join("dev/block").join(device).join("uevent"), name).flatten()
}

/// The folder of the writable layer, if the root of the owner's first process is an overlay that has one.
pub(crate) fn upper_folder(roots: &Roots, owner: &Owner) -> Option<String> {
    let pid = owner.pids.first()?;
    let find = |text: &str| {
        mountinfo::parse(text).map(|mounts| {
            let root = mounts.iter().rfind(|mount| mount.point == "/" && mount.kind == "overlay");
            root.and_then(|root| root.option("upperdir")).map(str::to_owned)
        })
    };
    files::get(&roots.proc.join(format!("{pid}/mountinfo")), find).flatten()
}

/// The file system that the folder is on, and its whole disk as cgroups count it; no device where it is on none.
pub(crate) fn place(roots: &Roots, folder: &str) -> Option<(String, String)> {
    let find = |text: &str| {
        mountinfo::parse(text).map(|mounts| {
            let holding = mountinfo::holding(&mounts, folder);
            holding.map(|Mount { kind, device, .. }| ((*kind).to_owned(), (*device).to_owned()))
        })
    };
    let found = files::get(&roots.proc.join("1/mountinfo"), find).flatten();
    let (kind, device) = found?;
    let block = roots.sys.join("dev/block").join(&device);
    if device.starts_with("0:") {
        return Some((kind, String::new()));
    }
    // I/O is counted by disk, not by partition; a partition's folder lies in its disk's.
    let disk = match files::get(&block.join("partition"), number::<u32>) {
        Some(_) => files::get(&block.join("../dev"), |text| Ok(text.trim().to_owned())),
        None => Some(device),
    };
    Some((kind, disk.unwrap_or_default()))
}
