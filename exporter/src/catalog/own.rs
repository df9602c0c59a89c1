//! Rows about the exporter itself.

crate::metric_rows! {
    COLLECTOR_DURATION = Gauge Seconds "goodput_exporter_collector_duration_seconds" ["collector"] {
        "How long the collector took in this scrape.",
        from "own clock", by "exporter", series "1 per collector", since "0.1.0"
    }
    COLLECTOR_STATE = Gauge None "goodput_exporter_collector_state" ["collector", "state"] {
        "1 for the outcome of the collector in this scrape, 0 for the others: ok, not_applicable, failed, timed_out.",
        from "own bookkeeping", by "exporter", series "4 per collector", since "0.1.0"
    }
}
