//! Rows of the `gds` collector: GPUDirect Storage by NVIDIA's module nvidia-fs, of the whole node. Newer releases read NVMe without
//! the module, by the kernel's own peer-to-peer DMA; these rows do not know of it.

crate::metric_rows! {
    GDS_PROCESSES = Gauge None "goodput_gds_processes" [] {
        "Processes that have GPUDirect Storage open.",
        from "/proc/driver/nvidia-fs/stats: Active Process", by "gds", series "1 where nvidia-fs is loaded", since "0.3.0"
    }
    GDS_OPERATIONS = Counter None "goodput_gds_operations_total" ["direction"] {
        "Reads and writes between storage and the memory of GPUs that GPUDirect Storage completed; no series while the module does not count them (rw_stats_enabled=0, the default).",
        from "/proc/driver/nvidia-fs/stats: Reads and Writes, ok", by "gds", series "2 where nvidia-fs counts them", since "0.3.0"
    }
    GDS_BYTES = Counter Bytes "goodput_gds_bytes_total" ["direction"] {
        "Bytes that GPUDirect Storage moved between storage and the memory of GPUs, in whole MiB; no series while the module does not count them.",
        from "/proc/driver/nvidia-fs/stats: readMiB, writeMiB", by "gds", series "2 where nvidia-fs counts them", since "0.3.0"
    }
    GDS_ERRORS = Counter None "goodput_gds_errors_total" ["direction"] {
        "Reads and writes of GPUDirect Storage that failed.",
        from "/proc/driver/nvidia-fs/stats: Reads and Writes, err", by "gds", series "2 where nvidia-fs is loaded", since "0.3.0"
    }
}
