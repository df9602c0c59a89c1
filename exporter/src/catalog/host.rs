//! Rows of the host collectors.

crate::metric_rows! {
    PRESSURE_WAITING = Counter Seconds "goodput_pressure_waiting_seconds_total" ["resource"] {
        "Time in which at least one task of the node waited for the resource (PSI some).",
        from "/proc/pressure/{cpu,memory,io} some total", by "pressure", series "3", since "0.1.0"
    }
}
