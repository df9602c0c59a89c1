//! Rows of the `storage` collector: what the `node` collector's rows of whole disks leave out.

crate::metric_rows! {
    DISK_QUEUE_TIME = Counter Seconds "goodput_disk_queue_seconds_total" ["device"] {
        "Time weighted by the requests in flight; its rate is the mean length of the disk's queue.",
        from "/proc/diskstats field 14", by "storage", series "1 per whole disk, at most 64", since "0.1.0",
        for "to see whether a disk has a queue, as the column aqu-sz of iostat does"
    }
    DISK_IN_FLIGHT = Gauge None "goodput_disk_requests_in_flight" ["device"] {
        "Requests that the disk works on at this moment.",
        from "/proc/diskstats field 12", by "storage", series "1 per whole disk, at most 64", since "0.1.0"
    }
    STACKED_DEVICES = Gauge None "goodput_disk_stacked_devices" [] {
        "Devices made of others (RAID, LVM, encryption, multipath) that have seen I/O; series are made for the first 16.",
        from "/proc/diskstats, /sys/block", by "storage", series "1", since "0.1.0"
    }
    STACKED_READ_BYTES = Counter Bytes "goodput_disk_stacked_read_bytes_total" ["device"] + ["name"] {
        "Bytes read from the stacked device; its disks count them too.",
        from "/proc/diskstats field 6, /sys/block/*/dm/name", by "storage", series "1 per stacked device, at most 16", since "0.1.0",
        for "to see what reaches a RAID, LVM or encrypted device, against its disks"
    }
    STACKED_WRITTEN_BYTES = Counter Bytes "goodput_disk_stacked_written_bytes_total" ["device"] + ["name"] {
        "Bytes written to the stacked device; its disks count them too.",
        from "/proc/diskstats field 10, /sys/block/*/dm/name", by "storage", series "1 per stacked device, at most 16", since "0.1.0",
        for "to see what reaches a RAID, LVM or encrypted device, against its disks"
    }
    STACKED_READ_TIME = Counter Seconds "goodput_disk_stacked_read_time_seconds_total" ["device"] + ["name"] {
        "Time that all reads from the stacked device took together; older kernels say 0 for RAID.",
        from "/proc/diskstats field 7, /sys/block/*/dm/name", by "storage", series "1 per stacked device, at most 16", since "0.1.0",
        for "the mean time of a read from a RAID, LVM or encrypted device, against that of its disks"
    }
    STACKED_WRITE_TIME = Counter Seconds "goodput_disk_stacked_write_time_seconds_total" ["device"] + ["name"] {
        "Time that all writes to the stacked device took together; older kernels say 0 for RAID.",
        from "/proc/diskstats field 11, /sys/block/*/dm/name", by "storage", series "1 per stacked device, at most 16", since "0.1.0",
        for "the mean time of a write to a RAID, LVM or encrypted device, against that of its disks"
    }
    NFS_MOUNTS = Gauge None "goodput_nfs_mounts" [] {
        "NFS mounts of the node; series are made for the first 16.",
        from "/proc/1/mountstats, else /proc/self/mountstats", by "storage", series "1 where there is NFS", since "0.1.0"
    }
    NFS_MOUNT_INFO = Info None "goodput_nfs_mount_info" ["mount", "export"] + ["version", "proto", "nconnect", "timeo_seconds", "hard"] {
        "How the NFS mount was made: NFS version, transport, connections to the server, time after which a request counts as lost, and whether requests are repeated until the server answers (hard) or fail.",
        from "/proc/1/mountstats opts:", by "storage", series "1 per NFS mount, at most 16", since "0.3.0"
    }
    NFS_READ_BYTES = Counter Bytes "goodput_nfs_read_bytes_total" ["mount", "export"] {
        "Bytes read from the server, without what the page cache had; mounts of one export may share their counts.",
        from "/proc/1/mountstats bytes: word 5", by "storage", series "1 per NFS mount, at most 16", since "0.1.0"
    }
    NFS_WRITTEN_BYTES = Counter Bytes "goodput_nfs_written_bytes_total" ["mount", "export"] {
        "Bytes written to the server; mounts of one export may share their counts.",
        from "/proc/1/mountstats bytes: word 6", by "storage", series "1 per NFS mount, at most 16", since "0.1.0"
    }
    NFS_REQUESTS = Counter None "goodput_nfs_requests_total" ["mount", "operation"] {
        "Requests to the server: read, write, and other (usually metadata).",
        from "/proc/1/mountstats per-op statistics, word 1", by "storage", series "3 per NFS mount, at most 16", since "0.1.0"
    }
    NFS_RETRANSMISSIONS = Counter None "goodput_nfs_retransmissions_total" ["mount", "operation"] {
        "Requests that were sent again because no answer came.",
        from "/proc/1/mountstats per-op statistics, word 2 - word 1", by "storage", series "3 per NFS mount, at most 16", since "0.1.0"
    }
    NFS_ROUND_TRIP = Counter Seconds "goodput_nfs_round_trip_seconds_total" ["mount", "operation"] {
        "Time from sending a request to its answer, summed over requests: network and server.",
        from "/proc/1/mountstats per-op statistics, word 7", by "storage", series "3 per NFS mount, at most 16", since "0.1.0"
    }
    NFS_EXECUTION = Counter Seconds "goodput_nfs_execution_seconds_total" ["mount", "operation"] {
        "Time from making a request to its end, summed over requests: the round trip, and waiting at this node.",
        from "/proc/1/mountstats per-op statistics, word 8", by "storage", series "3 per NFS mount, at most 16", since "0.1.0"
    }
}
