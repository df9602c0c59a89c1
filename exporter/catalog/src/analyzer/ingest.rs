//! What comes in: remote write, events, scraping, discovery.

crate::metric_rows! {
    RECEIVED_SAMPLES = Counter None "goodput_analyzer_received_samples_total" ["outcome"] {
        "Samples that came in, by what became of them.",
        by "ingest", series "7", since "0.1.0"
    }
    LAST_SAMPLE = Gauge Seconds "goodput_analyzer_last_sample_timestamp_seconds" ["source"] {
        "Time of the newest sample of each source, which is the instance label.",
        by "ingest", series "1 per source", since "0.1.0"
    }
    REQUESTS = Counter None "goodput_analyzer_remote_write_requests_total" ["version", "outcome"] {
        "Remote-write requests by version of the protocol and outcome: taken; partly (a part was refused, the rest is stored); malformed, unsupported (never to be sent again); busy, sender_busy, memory, slow, no_space, not_stored (to be sent again).",
        by "ingest", series "1 per version and outcome that came", since "0.1.0"
    }
    REQUESTS_IN_WORK = Gauge None "goodput_analyzer_remote_write_requests_in_work" [] {
        "Requests of remote write and of events in work.",
        by "ingest", series "1", since "0.1.0"
    }
    SKIPPED_SERIES = Counter None "goodput_analyzer_skipped_series_total" ["reason"] {
        "Series of remote write and of scrapes that break a limit of labels or the data model, by reason; the rest of their request or scrape is stored. Series of metrics that no signal uses are not among them.",
        by "ingest", series "8", since "0.1.0"
    }
    PASSED_OVER = Counter None "goodput_analyzer_remote_write_passed_over_total" ["part"] {
        "Parts of remote-write requests that nothing here uses and that are not kept.",
        by "ingest", series "3", since "0.1.0"
    }
    EVENT_REQUESTS = Counter None "goodput_analyzer_event_requests_total" ["outcome"] {
        "Requests with events by outcome: taken; malformed, conflicting, unsupported (never to be sent again); busy, sender_busy, memory, slow, no_space, not_stored (to be sent again).",
        by "ingest", series "1 per outcome that came", since "0.1.0"
    }
    RECEIVED_EVENTS = Counter None "goodput_analyzer_received_events_total" ["outcome"] {
        "Events of jobs by what became of them.",
        by "ingest", series "2", since "0.1.0"
    }
    SCRAPES = Counter None "goodput_analyzer_scrapes_total" ["job", "outcome"] {
        "Scrapes by job and outcome: taken, or what failed; no_space or not_stored beside either when the samples were lost.",
        by "ingest", series "1 per job and outcome that came", since "0.1.0"
    }
    SCRAPE_TARGETS = Gauge None "goodput_analyzer_scrape_targets" ["job"] {
        "Targets by job, configured and discovered.",
        by "ingest", series "1 per job", since "0.1.0"
    }
    DISCOVERY_FAILURES = Counter None "goodput_analyzer_discovery_failures_total" ["job", "way"] {
        "Lists of targets that could not be read, by job and way (file, http, dns); the last list holds on.",
        by "ingest", series "1 per job and way of discovery", since "0.1.0"
    }
    INGEST_LIMIT = Gauge None "goodput_analyzer_ingest_limit" ["limit"] {
        "Bounds of what may come in, by their name in the configuration.",
        by "ingest", series "9", since "0.1.0"
    }
}
