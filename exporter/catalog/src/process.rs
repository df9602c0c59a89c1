//! Rows of the `process` collector.
//!
//! A process tree is the processes of an owner that hold a GPU, with all that they started. Counters begin at 0 when
//! the exporter first sees a process, unless it was started since the scrape before; what one uses between the last
//! scrape and its end is not seen.

crate::metric_rows! {
    PROCESS_SKIPPED = Gauge None "goodput_process_skipped" [] {
        "Processes of GPU process trees that were not read, at least, because there are more than 256.",
        from "own bookkeeping", by "process", series "1", since "0.1.0"
    }
    PROCESS_IO_DENIED = Gauge None "goodput_process_io_denied" [] {
        "Processes whose I/O this exporter may not read (it takes CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE); their owners have no series of I/O.",
        from "/proc/PID/io", by "process", series "1", since "0.1.0"
    }
    PROCESS_COUNT = Gauge None "goodput_process_count" ["owner"] {
        "Processes of the owner that hold a GPU, with all that they started.",
        from "NVML process lists, /proc/PID/task/*/children", by "process", series "1 per owner of a GPU", since "0.1.0",
        for "to see whether all processes of a job are still there"
    }
    PROCESS_WORKERS = Gauge None "goodput_process_workers" ["owner"] {
        "Processes of the job that hold no GPU, usually data-loader workers.",
        from "/proc/PID/task/*/children", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_SATURATED_WORKERS = Gauge None "goodput_process_saturated_workers" ["owner"] {
        "Workers that computed for at least 85 % of the time since the previous reading: such a job needs more workers, or less work per worker.",
        from "/proc/PID/stat fields 14 and 15, /proc/uptime", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_THREADS = Gauge None "goodput_process_threads" ["owner"] {
        "Threads of the owner's process tree.",
        from "/proc/PID/stat field 20", by "process", series "1 per owner of a GPU", since "0.1.0",
        for "to find a job that starts far more threads than it has CPUs"
    }
    PROCESS_STATE = Gauge None "goodput_process_state" ["owner", "state"] {
        "Processes of the tree whose first thread is running (or waits for a CPU), sleeping, or in uninterruptible sleep (usually waiting for storage). The few that are in none of these are the rest of goodput_process_count.",
        from "/proc/PID/stat field 3", by "process", series "3 per owner of a GPU", since "0.1.0"
    }
    PROCESS_CPU = Counter Seconds "goodput_process_cpu_seconds_total" ["owner", "mode"] {
        "CPU time of the owner's process tree, in user mode and in the kernel.",
        from "/proc/PID/stat fields 14 and 15", by "process", series "2 per owner of a GPU", since "0.1.0",
        for "to see user and kernel time of a job, where its cgroup holds more than the job"
    }
    PROCESS_HOLDERS_CPU = Counter Seconds "goodput_process_holders_cpu_seconds_total" ["owner"] {
        "CPU time, in both modes, of those of them that hold a GPU. Near one second per second for each: it computes, or spins until its GPU is done.",
        from "/proc/PID/stat fields 14 and 15", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_RUN_DELAY = Counter Seconds "goodput_process_run_delay_seconds_total" ["owner"] {
        "Time for which the first threads of the tree were ready to run and waited for a CPU.",
        from "/proc/PID/schedstat word 2", by "process", series "1 per owner of a GPU", since "0.1.0",
        for "to see how long a job waits for a CPU, where the kernel has no PSI"
    }
    PROCESS_SWITCHES = Counter None "goodput_process_context_switches_total" ["owner", "kind"] {
        "Times that first threads of the tree left their CPU: voluntary to wait for something, involuntary for another thread.",
        from "/proc/PID/status {voluntary,nonvoluntary}_ctxt_switches", by "process", series "2 per owner of a GPU", since "0.1.0",
        for "to tell waiting (voluntary) from being pushed off the CPU (involuntary)"
    }
    PROCESS_FAULTS = Counter None "goodput_process_page_faults_total" ["owner", "kind"] {
        "Page faults of the tree: major had to wait for storage, minor did not.",
        from "/proc/PID/stat fields 10 and 12", by "process", series "2 per owner of a GPU", since "0.1.0",
        for "to see whether a job waits for pages from storage (major) or allocates all the time (minor)"
    }
    PROCESS_READ = Counter Bytes "goodput_process_storage_read_bytes_total" ["owner"] {
        "Bytes that the tree made the kernel read from storage; what the page cache had is not among them.",
        from "/proc/PID/io read_bytes", by "process", series "1 per owner of a GPU", since "0.1.0",
        for "to see what a job reads from storage, network file systems included, past the page cache"
    }
    PROCESS_WRITTEN = Counter Bytes "goodput_process_storage_written_bytes_total" ["owner"] {
        "Bytes that the tree gave the kernel to write to storage.",
        from "/proc/PID/io write_bytes", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_CALLS_READ = Counter Bytes "goodput_process_read_bytes_total" ["owner"] {
        "Bytes that the tree got from system calls that read: files in the page cache, pipes and terminals too.",
        from "/proc/PID/io rchar", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_MEMLOCK = Gauge Bytes "goodput_process_memlock_limit_bytes" ["owner"] {
        "Lowest limit of locked memory among the owner's processes that hold a GPU; no series when all are unlimited.",
        from "/proc/PID/limits Max locked memory", by "process", series "1 per owner of a GPU", since "0.1.0"
    }
    PROCESS_OOM_SCORE = Gauge None "goodput_process_oom_score" ["owner"] {
        "Highest score among the owner's processes that hold a GPU: memory use and adjustment together; the process with the highest of the node is killed first.",
        from "/proc/PID/oom_score", by "process", series "1 per owner of a GPU", since "0.1.0",
        for "to see which job the OOM killer takes first"
    }
}
