//! Rows of the `placement` collector.
//!
//! An estimate: what a thread used in a minute counts for the node of the CPU that it was found on at the end, and only
//! the busiest threads count. Where threads are kept on one node it is exact but for what is left out; compare its sum
//! with `goodput_process_cpu_seconds_total` to see how much that is. What threads used before they were first found,
//! and after they were last found, is in neither node.

crate::metric_rows! {
    PLACEMENT_CPU = Counter Seconds "goodput_process_numa_cpu_estimated_seconds_total" ["owner"] + ["node"] {
        "CPU time of the 256 busiest threads of GPU process trees, by the NUMA node of the CPU that each was found on; sampled every 60 s, an estimate.",
        from "/proc/PID/task/TID/stat fields 14, 15 and 39", by "placement", series "1 per owner of a GPU and NUMA node with CPUs", since "0.1.0",
        for "to see on which NUMA node a job that is not bound runs in fact"
    }
    PLACEMENT_SKIPPED = Gauge None "goodput_process_numa_skipped_threads" [] {
        "Threads of GPU process trees that the last sample did not look at, because there are more than 1,024; sampled every 60 s.",
        from "own bookkeeping", by "placement", series "1", since "0.1.0"
    }
}
