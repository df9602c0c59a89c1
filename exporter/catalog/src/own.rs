//! Rows about the exporter itself. The `process_` names are those of every Prometheus client library.

crate::metric_rows! {
    BUILD_INFO = Info None "goodput_exporter_build_info" ["version", "revision", "date", "target"] {
        "Version of this exporter, its commit, the day of that, and the target it was built for.",
        from "the build", by "exporter", series "1", since "0.1.0"
    }
    SCRAPE_DURATION = Gauge Seconds "goodput_exporter_scrape_duration_seconds" [] {
        "How long it took to collect what this response carries.",
        from "own clock", by "exporter", series "1", since "0.1.0",
        for "to choose the scrape interval and timeout"
    }
    COLLECTOR_DURATION = Gauge Seconds "goodput_exporter_collector_duration_seconds" ["collector"] {
        "How long the collector took; while it is timed_out, how long it has been busy so far.",
        from "own clock", by "exporter", series "1 per collector", since "0.1.0"
    }
    COLLECTOR_STATE = Gauge None "goodput_exporter_collector_state" ["collector", "state"] {
        "1 for the outcome of the collector in this scrape, 0 for the others: ok, not_applicable, denied, failed, timed_out.",
        from "own bookkeeping", by "exporter", series "5 per collector", since "0.1.0"
    }
    LEFT_OUT = Counter None "goodput_exporter_left_out_total" [] {
        "Kernel files, and lines of them and of the relayed exporter, that could not be read or made no sense: they are absent, cost nothing else, and the log names each file once.",
        from "own bookkeeping", by "exporter", series "1", since "0.1.0"
    }
    REFUSED = Counter None "goodput_exporter_http_refused_total" ["reason"] {
        "Connections and requests that were refused, by reason; the log names each peer once. An idle connection that was closed to make room for another counts too.",
        from "own bookkeeping", by "exporter", series "1 per reason that held", since "0.1.0",
        for "to see why a client of the exporter is turned away, such as a second Prometheus past the limit of connections"
    }
    PROCESS_CPU = Counter Seconds "process_cpu_seconds_total" [] {
        "User and system CPU time of this exporter.",
        from "/proc/self/stat utime, stime", by "exporter", series "1", since "0.1.0"
    }
    PROCESS_RESIDENT = Gauge Bytes "process_resident_memory_bytes" [] {
        "Resident memory of this exporter.",
        from "/proc/self/stat rss", by "exporter", series "1", since "0.1.0"
    }
    PROCESS_VIRTUAL = Gauge Bytes "process_virtual_memory_bytes" [] {
        "Address space of this exporter.",
        from "/proc/self/stat vsize", by "exporter", series "1", since "0.1.0"
    }
    PROCESS_START = Gauge Seconds "process_start_time_seconds" [] {
        "When this exporter started, since the Unix epoch.",
        from "/proc/self/stat starttime", by "exporter", series "1", since "0.1.0"
    }
    PROCESS_FDS = Gauge None "process_open_fds" [] {
        "Open file descriptors of this exporter.",
        from "/proc/self/fd", by "exporter", series "1", since "0.1.0"
    }
    PROCESS_THREADS = Gauge None "process_threads" [] {
        "Threads of this exporter; a source that hangs keeps one.",
        from "/proc/self/stat num_threads", by "exporter", series "1", since "0.1.0"
    }
}
