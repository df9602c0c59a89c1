//! `storage`: queues of disks, devices made of disks, and NFS.

use super::node::{self, MAX_DISKS};
use super::*;
use crate::parse::diskstats::{self, Disk};
use crate::parse::mountstats::{self, Mount, Operations, Options};
use crate::source::{blocks, process};
use goodput_catalog::storage::*;

/// Most stacked devices that get series of their own; a node that runs containers on LVM can show hundreds.
const MAX_STACKED: usize = 16;

/// Most NFS mounts that get series of their own.
const MAX_MOUNTS: usize = 16;

/// Device mapper (LVM, encryption, multipath) and Linux RAID.
const STACKED: [&str; 2] = ["dm-", "md"];

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Storage>(
    "storage",
    "Queues of disks, devices made of disks, and NFS; 2 files and 1 per stacked device. No device, server or file system is asked, so a dead one cannot hang it.",
    1,
);

/// Reads `/proc/diskstats`, `/sys/block` and `/proc/1/mountstats`.
#[derive(Default)]
pub struct Storage;

impl Collector for Storage {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        // Two sources that have nothing to do with each other.
        let (disks, nfs) = (disks(context, out), nfs(&context.roots, out));
        if disks? || nfs {
            return Ok(Done::Ok);
        }
        Ok(Done::NotApplicable("no disk in /sys/block, no NFS mount".to_owned()))
    }
}

fn disks(context: &Context, out: &mut Families) -> Result<bool, FileError> {
    let roots = &context.roots;
    let Some(names) = blocks::whole(roots) else { return Ok(false) };
    context.common.parse(&roots.proc.join("diskstats"), |text| {
        diskstats::parse(text).map(|all| push_disks(roots, &all, &names, out))
    })?;
    Ok(true)
}

fn push_disks(roots: &Roots, all: &[Disk<'_>], names: &[String], out: &mut Families) {
    let present = || all.iter().filter(|disk| names.iter().any(|name| name == disk.name));
    for disk in present().filter(|disk| node::is_disk(disk.name)).take(MAX_DISKS) {
        out.push(&DISK_QUEUE_TIME, &[disk.name], disk.queue_time.as_secs_f64());
        out.push(&DISK_IN_FLIGHT, &[disk.name], disk.in_flight as f64);
    }
    let stacked: Vec<_> = present().filter(|disk| is_stacked(disk)).collect();
    out.push(&STACKED_DEVICES, &[], stacked.len() as f64);
    for disk in stacked.into_iter().take(MAX_STACKED) {
        push_stacked(roots, disk, out);
    }
}

/// One that never saw I/O is a snapshot's origin, an empty array or the like.
fn is_stacked(disk: &Disk<'_>) -> bool {
    STACKED.iter().any(|prefix| disk.name.starts_with(prefix)) && disk.reads + disk.writes > 0
}

fn push_stacked(roots: &Roots, disk: &Disk<'_>, out: &mut Families) {
    let path = roots.sys.join("block").join(disk.name).join("dm/name");
    let name = files::get(&path, |text| Ok(text.trim().to_owned())).unwrap_or_default();
    for (row, value) in [
        (&STACKED_READ_BYTES, disk.read_bytes as f64),
        (&STACKED_WRITTEN_BYTES, disk.written_bytes as f64),
        (&STACKED_READ_TIME, disk.read_time.as_secs_f64()),
        (&STACKED_WRITE_TIME, disk.write_time.as_secs_f64()),
    ] {
        out.push_with(row, &[disk.name], &[&name], value);
    }
}

fn nfs(roots: &Roots, out: &mut Families) -> bool {
    let push = |text: &str| {
        mountstats::parse(text).map(|mounts| {
            if !mounts.is_empty() {
                out.push(&NFS_MOUNTS, &[], mounts.len() as f64);
            }
            mounts.iter().take(MAX_MOUNTS).for_each(|mount| push_mount(mount, out));
            !mounts.is_empty()
        })
    };
    process::of_first(roots, "mountstats", "self/mountstats", push).unwrap_or_default()
}

fn push_mount(mount: &Mount<'_>, out: &mut Families) {
    if let Some(options) = &mount.options {
        push_options(mount, options, out);
    }
    out.push(&NFS_READ_BYTES, &[mount.point, mount.export], mount.read_bytes.map(|n| n as f64));
    out.push(&NFS_WRITTEN_BYTES, &[mount.point, mount.export], mount.written_bytes.map(|n| n as f64));
    for (kind, operations) in [("read", &mount.read), ("write", &mount.write), ("other", &mount.other)] {
        let labels = [mount.point, kind];
        let Some(operations) = operations else { continue };
        let Operations { requests, transmissions, round_trip, execution } = operations;
        out.push(&NFS_REQUESTS, &labels, *requests as f64);
        out.push(&NFS_RETRANSMISSIONS, &labels, transmissions.saturating_sub(*requests) as f64);
        out.push(&NFS_ROUND_TRIP, &labels, round_trip.as_secs_f64());
        out.push(&NFS_EXECUTION, &labels, execution.as_secs_f64());
    }
}

fn push_options(mount: &Mount<'_>, options: &Options<'_>, out: &mut Families) {
    let timeout = options.timeout.map(|timeout| timeout.as_secs_f64().to_string()).unwrap_or_default();
    let hard = options.is_hard.map(|hard| hard.to_string()).unwrap_or_default();
    let [version, protocol] = [options.version, options.protocol].map(Option::unwrap_or_default);
    let labels = [version, protocol, &options.connections.to_string(), &timeout, &hard];
    out.push_with(&NFS_MOUNT_INFO, &[mount.point, mount.export], &labels, 1.0);
}
