//! Rows of the `overlay` collector.
//!
//! The kernel does not count I/O by mount. What can be known without privileges is on which device a container's
//! writable layer lies, and what the container's cgroup does on that device: its volumes on the same device are among
//! it, writes that the page cache still holds are not. Reads are left out, as most are of the image's layers. How much the layer holds takes a walk through it, which this
//! exporter does not do. cgroup v1 tells reads and direct writes alone, so that there is no such series of it.

crate::metric_rows! {
    OVERLAY_INFO = Info None "goodput_overlay_info" ["owner"] + ["filesystem", "device"] {
        "The owner's root is an overlay with a writable layer; the file system and disk that hold it, left out where the node's first process does not see them or it is on no disk.",
        from "/proc/PID/mountinfo upperdir, /proc/1/mountinfo, /sys/dev/block", by "overlay", series "1 per container with a GPU, at most 64", since "0.1.0"
    }
    OVERLAY_WRITTEN_BYTES = Counter Bytes "goodput_overlay_device_written_bytes_total" ["owner", "device"] {
        "Bytes that the owner wrote to the disk that holds its writable layer, whatever file they were of.",
        from "v2 io.stat wbytes of the disk", by "overlay", series "1 per container with a GPU, at most 64 (v2)", since "0.1.0",
        for "to see how much a container writes to the disk of its writable layer, after a warning of overlay_layer"
    }
}
