//! Rows of the `lustre` collector. They count what programs asked for, including reads answered by the page cache (as
//! opposed to those of NFS), and how long storage targets took to answer. A counter restarts with a mount, and when an administrator clears it.

crate::metric_rows! {
    LUSTRE_CLIENTS = Gauge None "goodput_lustre_clients" [] {
        "Lustre clients of the node, one per mount; series are made for the first 16.",
        from "/sys/fs/lustre/llite, before 2.12 /proc/fs/lustre/llite", by "lustre", series "1 where there is Lustre", since "0.1.0"
    }
    LUSTRE_DENIED = Gauge None "goodput_lustre_denied" [] {
        "Lustre clients, and connections of theirs to storage targets, whose counts this exporter may not read: debugfs takes root.",
        from "/sys/kernel/debug/lustre/llite/*/stats, /sys/kernel/debug/lustre/osc/*", by "lustre", series "1 where there is Lustre", since "0.1.0",
        for "why the calls of Lustre clients have no series"
    }
    LUSTRE_READ_BYTES = Counter Bytes "goodput_lustre_read_bytes_total" ["filesystem", "client"] {
        "Bytes that programs read from the file system, from the page cache too.",
        from "/sys/kernel/debug/lustre/llite/*/stats, before 2.12 /proc/fs/lustre/llite/*/stats: read_bytes, sum", by "lustre", series "1 per Lustre client, at most 16", since "0.1.0"
    }
    LUSTRE_WRITTEN_BYTES = Counter Bytes "goodput_lustre_written_bytes_total" ["filesystem", "client"] {
        "Bytes that programs wrote to the file system.",
        from "as goodput_lustre_read_bytes_total: write_bytes, sum", by "lustre", series "1 per Lustre client, at most 16", since "0.1.0"
    }
    LUSTRE_CALLS = Counter None "goodput_lustre_calls_total" ["filesystem", "client", "operation"] {
        "Calls of programs on the file system: read, write, and other (usually metadata).",
        from "as goodput_lustre_read_bytes_total: samples", by "lustre", series "3 per Lustre client, at most 16", since "0.1.0"
    }
    LUSTRE_CALL_TIME = Counter Seconds "goodput_lustre_call_seconds_total" ["filesystem", "client", "operation"] {
        "Time that such calls took together; no series from clients that do not measure it.",
        from "as goodput_lustre_read_bytes_total: lines in usec, sum", by "lustre", series "up to 3 per Lustre client, at most 16", since "0.1.0"
    }
    LUSTRE_TARGET_TIME = Counter Seconds "goodput_lustre_target_request_seconds_total" ["filesystem", "target"] {
        "Time from sending requests to a storage target (OST) to its answers, all together; no series where the client does not measure it. Where file systems have more than 64 targets together, the largest ones have target=\"all\", a sum.",
        from "/sys/kernel/debug/lustre/osc/*/stats, before 2.12 /proc/fs/lustre/osc/*/stats: req_waittime in usec, sum", by "lustre", series "1 per storage target, at most 64, else 1 per Lustre file system", since "0.3.0"
    }
    LUSTRE_TARGET_REQUESTS = Counter None "goodput_lustre_target_requests_total" ["filesystem", "target"] {
        "Requests that a storage target (OST) answered.",
        from "as goodput_lustre_target_request_seconds_total: samples", by "lustre", series "1 per storage target, at most 64, else 1 per Lustre file system", since "0.3.0"
    }
    LUSTRE_TARGET_EVICTIONS = Counter None "goodput_lustre_target_evictions_total" ["filesystem", "target"] {
        "Times that this client lost its locks and unwritten data of a storage target (OST): the server evicted it, or an administrator deactivated the target. No series before the first time.",
        from "/sys/kernel/debug/lustre/osc/*/import, before 2.12 /proc/fs/lustre/osc/*/import: generation, less the first", by "lustre", series "1 per storage target, at most 64, else 1 per Lustre file system", since "0.3.0"
    }
}
