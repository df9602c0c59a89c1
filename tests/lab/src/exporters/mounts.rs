//! What goodput-exporter says of network file systems, of the reads of the disk, and of limits on them.

use goodput_catalog::{gds, host, lustre, process, storage};

use super::{Recorder, Samples, View, push};
use crate::storage::{Asked, Mounted, TIMEOUT, Waits};

/// The node's only disk.
const DISK: &str = "nvme0n1";
/// Share of the time of a request that is the round trip.
const ROUND_TRIP: f64 = 0.9;

/// A target's labels, and what comes of it.
struct Told<'a> {
    samples: &'a mut Samples,
    target: [(&'a str, &'a str); 2],
}

impl Recorder {
    /// Network file systems of the node, and its disk.
    pub(super) fn mounts(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let (Some(phase), mounts) = (&view.phase.storage, &view.machine.counters.mounts) else { return };
        let mut told = Told { samples, target };
        told.mount("/data", "filer:/data", &[("read", mounts.data), ("other", mounts.lookups)]);
        told.mount("/home", "filer:/home", &[("read", mounts.home)]);
        if phase.archive > 0.0 {
            told.mount("/archive", "archive:/", &[("read", mounts.archive)]);
        }
        if phase.scratch > 0.0 {
            told.mount("/scratch", "flash:/", &[("read", mounts.scratch)]);
        }
        told.mount("/ckpt", "filer:/ckpt", &[]);
        let saves = [("mount", "/ckpt"), ("export", "filer:/ckpt")];
        let written = mounts.saved + mounts.others_saved;
        push(told.samples, &storage::NFS_WRITTEN_BYTES, target, &saves, written.round());
        let asleep = [("owner", self.owner()), ("state", "uninterruptible")];
        push(told.samples, &process::PROCESS_STATE, target, &asleep, mounts.asleep as f64);
        if phase.waits == Waits::Lustre {
            told.lustre(mounts);
        }
        if phase.direct.is_some() {
            push(told.samples, &gds::GDS_PROCESSES, target, &[], 1.0);
            push(told.samples, &gds::GDS_OPERATIONS, target, &[("direction", "read")], mounts.direct.round());
        }
        if phase.tells_disk {
            let disk = [("device", DISK)];
            push(told.samples, &host::DISK_READS, target, &disk, mounts.disk.count.round());
            push(told.samples, &host::DISK_READ_TIME, target, &disk, mounts.disk.time);
        }
        if let Some(limit) = phase.limit {
            let labels = [("owner", self.owner()), ("device", DISK), ("direction", "read")];
            push(told.samples, &host::CGROUP_IO_LIMIT_BYTES, target, &labels, limit);
        }
    }
}

impl Told<'_> {
    /// The Lustre file system, with its storage targets.
    fn lustre(&mut self, mounts: &Mounted) {
        let of = [("filesystem", "scratch"), ("client", "ffff9a0b1c2d3800")];
        let read = [of[0], of[1], ("operation", "read")];
        push(self.samples, &lustre::LUSTRE_READ_BYTES, self.target, &of, mounts.lustre.read.round());
        push(self.samples, &lustre::LUSTRE_CALLS, self.target, &read, mounts.lustre.count.round());
        push(self.samples, &lustre::LUSTRE_CALL_TIME, self.target, &read, mounts.lustre.time);
        for (number, asked) in mounts.targets.iter().enumerate() {
            let target = format!("OST{number:04x}");
            let labels = [of[0], ("target", target.as_str())];
            push(self.samples, &lustre::LUSTRE_TARGET_REQUESTS, self.target, &labels, asked.count.round());
            push(self.samples, &lustre::LUSTRE_TARGET_TIME, self.target, &labels, asked.time);
        }
    }

    /// One mount, with its requests by operation.
    fn mount(&mut self, mount: &str, export: &str, operations: &[(&str, Asked)]) {
        let at = [("mount", mount), ("export", export)];
        let timeout = TIMEOUT.to_string();
        let options = [("version", "4.2"), ("proto", "tcp"), ("nconnect", "1"), ("hard", "true")];
        let made = [&at[..], &options, &[("timeo_seconds", timeout.as_str())]].concat();
        push(self.samples, &storage::NFS_MOUNT_INFO, self.target, &made, 1.0);
        for (operation, asked) in operations {
            let labels = [at[0], ("operation", operation)];
            for (row, value) in [
                (&storage::NFS_REQUESTS, asked.count.round()),
                (&storage::NFS_RETRANSMISSIONS, asked.again),
                (&storage::NFS_EXECUTION, asked.time),
                (&storage::NFS_ROUND_TRIP, ROUND_TRIP * asked.time),
            ] {
                push(self.samples, row, self.target, &labels, value);
            }
            if *operation == "read" {
                push(self.samples, &storage::NFS_READ_BYTES, self.target, &at, asked.read.round());
            }
        }
    }
}
