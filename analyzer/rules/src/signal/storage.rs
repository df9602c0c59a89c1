//! Rows of the table for storage: network file systems, GPUDirect Storage, disks, and limits that are set on them.

use goodput_catalog::{gds, host, lustre, storage};

use super::Signal;
use super::table::{Row, Split, row};
use goodput_exposition::sample::Labels;

/// Labels in which node_exporter's series of one export differ.
const ADDRESSES: &[&str] = &["mountaddr", "protocol"];
/// The same, of all operations but reads and writes together.
const OPERATIONS: &[&str] = &["mountaddr", "protocol", "operation"];

/// Ours, which folds all operations but two into one.
const fn ours(metric: &'static str, operation: &'static str, signal: Signal) -> Row {
    row(metric, signal).only("operation", operation).by(Split::Mount)
}

const fn theirs(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).by(Split::Mount).sum_over(ADDRESSES)
}

/// Of a Lustre file system, all mounts of it together.
const fn client(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).by(Split::Mount).sum_over(&["client"])
}

/// Of a storage target. What all targets have together says nothing of one.
const fn target(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).but_for("target", "all").by(Split::Target)
}

/// A limit on what the job reads from a disk, or writes.
const fn limit(metric: &'static str, direction: &'static str, signal: Signal) -> Row {
    row(metric, signal).only("direction", direction).by(Split::Disk)
}

/// A network file system as it is mounted.
pub(crate) struct Mounted<'a> {
    pub(crate) export: &'a str,
    pub(crate) point: &'a str,
    /// The time after which a request is sent again; node_exporter does not tell it.
    pub(crate) timeout_seconds: Option<f64>,
}

impl Mounted<'_> {
    /// What its labels say, in one. The kernel writes a tab within a name as `\011`.
    pub(super) fn text(labels: &Labels) -> Option<String> {
        let point = labels.get("mountpoint").or_else(|| labels.get("mount"))?;
        let timeout = labels.get("timeo_seconds").unwrap_or_default();
        Some(format!("{}\t{point}\t{timeout}", labels.get("export")?))
    }

    /// The same, read back.
    pub(crate) fn parse(text: &str) -> Option<Mounted<'_>> {
        let mut parts = text.split('\t');
        let (export, point) = (parts.next()?, parts.next()?);
        let timeout_seconds = parts.next().and_then(|seconds| seconds.parse().ok()).filter(|seconds| *seconds > 0.0);
        Some(Mounted { export, point, timeout_seconds })
    }
}

const REQUESTS: &str = "node_mountstats_nfs_operations_requests_total";
const REQUEST_TIME: &str = "node_mountstats_nfs_operations_request_time_seconds_total";
const RESPONSE_TIME: &str = "node_mountstats_nfs_operations_response_time_seconds_total";

/// Of one metric the first row that applies is taken: what is neither a read nor a write stands last.
pub(super) static ROWS: &[Row] = &[
    ours(storage::NFS_REQUESTS.name, "read", Signal::MountReads),
    ours(storage::NFS_EXECUTION.name, "read", Signal::MountReadTime),
    ours(storage::NFS_ROUND_TRIP.name, "read", Signal::MountReadTrip),
    ours(storage::NFS_REQUESTS.name, "other", Signal::MountOthers),
    ours(storage::NFS_EXECUTION.name, "other", Signal::MountOtherTime),
    row(storage::NFS_READ_BYTES.name, Signal::MountRead).by(Split::Mount),
    row(storage::NFS_WRITTEN_BYTES.name, Signal::MountWritten).by(Split::Mount),
    theirs(REQUESTS, Signal::MountReads).only("operation", "READ"),
    theirs(REQUEST_TIME, Signal::MountReadTime).only("operation", "READ"),
    theirs(RESPONSE_TIME, Signal::MountReadTrip).only("operation", "READ"),
    theirs(REQUESTS, Signal::MountOthers).but_for("operation", "WRITE").sum_over(OPERATIONS),
    theirs(REQUEST_TIME, Signal::MountOtherTime).but_for("operation", "WRITE").sum_over(OPERATIONS),
    theirs("node_mountstats_nfs_total_read_bytes_total", Signal::MountRead),
    theirs("node_mountstats_nfs_total_write_bytes_total", Signal::MountWritten),
    row(storage::NFS_MOUNT_INFO.name, Signal::MountPoint).by(Split::MountPoint),
    row("node_mountstats_nfs_mountpoint_info", Signal::MountPoint).by(Split::MountPoint),
    row(storage::NFS_RETRANSMISSIONS.name, Signal::MountRetransmissions).sum_over(&["operation"]).by(Split::Mount),
    client(lustre::LUSTRE_CALLS.name, Signal::MountReads).only("operation", "read"),
    client(lustre::LUSTRE_CALL_TIME.name, Signal::MountReadTime).only("operation", "read"),
    client(lustre::LUSTRE_READ_BYTES.name, Signal::MountRead),
    client(lustre::LUSTRE_WRITTEN_BYTES.name, Signal::MountWritten),
    target(lustre::LUSTRE_TARGET_REQUESTS.name, Signal::TargetRequests),
    target(lustre::LUSTRE_TARGET_TIME.name, Signal::TargetTime),
    row(gds::GDS_OPERATIONS.name, Signal::GdsOperations).sum_over(&["direction"]),
    row(gds::GDS_PROCESSES.name, Signal::GdsProcesses),
    row("node_nfs_rpc_retransmissions_total", Signal::NodeNfsRetransmissions),
    row(host::DISK_READ_TIME.name, Signal::DiskReadTime).by(Split::Disk),
    row("node_disk_read_time_seconds_total", Signal::DiskReadTime).by(Split::Disk),
    row(host::DISK_READS.name, Signal::DiskReads).by(Split::Disk),
    row("node_disk_reads_completed_total", Signal::DiskReads).by(Split::Disk),
    limit(host::CGROUP_IO_LIMIT_BYTES.name, "read", Signal::JobReadLimit),
    limit(host::CGROUP_IO_LIMIT_BYTES.name, "write", Signal::JobWriteLimit),
    limit(host::CGROUP_IO_LIMIT_OPERATIONS.name, "read", Signal::JobReadsLimit),
    limit(host::CGROUP_IO_LIMIT_OPERATIONS.name, "write", Signal::JobWritesLimit),
    row(host::CGROUP_READS.name, Signal::JobReads),
    row(host::CGROUP_WRITES.name, Signal::JobWrites),
];
