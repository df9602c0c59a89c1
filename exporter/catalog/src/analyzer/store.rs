//! What the store holds, what it did, and the bounds that it was given.

crate::metric_rows! {
    SERIES = Gauge None "goodput_analyzer_store_series" [] {
        "Active series, which count towards max_series.",
        by "store", series "1", since "0.1.0"
    }
    CATALOGUE_SERIES = Gauge None "goodput_analyzer_store_catalogue_series" [] {
        "Series in the catalogue: active ones, and evicted ones whose samples are still stored.",
        by "store", series "1", since "0.1.0"
    }
    LABEL_BYTES = Gauge Bytes "goodput_analyzer_store_label_bytes" [] {
        "Bytes of the labels of all series in the catalogue.",
        by "store", series "1", since "0.1.0"
    }
    QUEUE_BYTES = Gauge Bytes "goodput_analyzer_store_queue_bytes" [] {
        "Bytes of batches that wait for the writer.",
        by "store", series "1", since "0.1.0"
    }
    SHORT_OF_SPACE = Gauge None "goodput_analyzer_store_short_of_space" [] {
        "1 while no samples are taken because too little of the disk is free.",
        by "store", series "1", since "0.1.0"
    }
    HEAD_BYTES = Gauge Bytes "goodput_analyzer_store_head_bytes" [] {
        "Memory of samples that are not in a segment yet.",
        by "store", series "1", since "0.1.0"
    }
    WRITE_AHEAD_BYTES = Gauge Bytes "goodput_analyzer_store_write_ahead_bytes" [] {
        "Size of the write-ahead's samples on disk.",
        by "store", series "1", since "0.1.0"
    }
    SEGMENTS = Gauge None "goodput_analyzer_store_segments" [] {
        "Segments that are served.",
        by "store", series "1", since "0.1.0"
    }
    SEGMENT_BYTES = Gauge Bytes "goodput_analyzer_store_segment_bytes" [] {
        "Size of all segments on disk.",
        by "store", series "1", since "0.1.0"
    }
    QUARANTINED = Gauge None "goodput_analyzer_store_quarantined" [] {
        "Segments and write-ahead rows that are set aside as damaged.",
        by "store", series "1", since "0.1.0"
    }
    UNKNOWN_FILES = Gauge None "goodput_analyzer_store_unknown_files" [] {
        "Files in `unknown/`, which the index of segments does not know.",
        by "store", series "1", since "0.1.0"
    }
    BAD_ROWS = Gauge None "goodput_analyzer_store_bad_rows" [] {
        "Rows of verdicts, risks, advisories, deliveries, events and series that are set aside as damaged.",
        by "store", series "1", since "0.1.0"
    }
    FLUSH_FAILURES = Counter None "goodput_analyzer_store_flush_failures_total" [] {
        "Segments that could not be written; their samples stay in the write-ahead.",
        by "store", series "1", since "0.1.0"
    }
    READ_ERRORS = Counter None "goodput_analyzer_store_read_errors_total" [] {
        "Reads of segments that the file system failed; nothing is set aside for them.",
        by "store", series "1", since "0.1.0"
    }
    MISSING_SAMPLES = Counter None "goodput_analyzer_store_missing_samples_total" [] {
        "Acknowledged samples that the last start found missing from goodput.db.",
        by "store", series "1", since "0.1.0"
    }
    MERGES = Counter None "goodput_analyzer_store_merges_total" [] {
        "Merges of small segments into larger ones.",
        by "store", series "1", since "0.1.0"
    }
    MERGED_SEGMENTS = Counter None "goodput_analyzer_store_merged_segments_total" [] {
        "Segments that merges have replaced.",
        by "store", series "1", since "0.1.0"
    }
    REMOVED_SEGMENTS = Counter None "goodput_analyzer_store_removed_segments_total" [] {
        "Segments that retention has removed.",
        by "store", series "1", since "0.1.0"
    }
    REMOVED_SAMPLES = Counter None "goodput_analyzer_store_removed_samples_total" [] {
        "Samples that retention has removed.",
        by "store", series "1", since "0.1.0"
    }
    REMOVED_BYTES = Counter Bytes "goodput_analyzer_store_removed_bytes_total" [] {
        "Size of the segments that retention has removed.",
        by "store", series "1", since "0.1.0"
    }
    REMOVED_VERDICTS = Counter None "goodput_analyzer_store_removed_verdicts_total" [] {
        "Rows of verdicts that retention has removed.",
        by "store", series "1", since "0.1.0"
    }
    EVICTED_SERIES = Counter None "goodput_analyzer_store_evicted_series_total" [] {
        "Series that had ended and were evicted to make room for new ones; their samples stay readable.",
        by "store", series "1", since "0.1.0"
    }
    REMOVED_SERIES = Counter None "goodput_analyzer_store_removed_series_total" [] {
        "Series that left the catalogue with the last of their samples.",
        by "store", series "1", since "0.1.0"
    }
    UPKEEP_FAILURES = Counter None "goodput_analyzer_store_upkeep_failures_total" [] {
        "Merges and removals that failed and are tried again.",
        by "store", series "1", since "0.1.0"
    }
    FREE_BYTES = Gauge Bytes "goodput_analyzer_store_free_bytes" [] {
        "Free bytes of the file system that the data directory is on.",
        by "store", series "1 where the file system tells", since "0.1.0"
    }
    COMMIT_DURATION = Gauge Seconds "goodput_analyzer_store_commit_duration_seconds" [] {
        "How long the last group commit took, fsync included.",
        by "store", series "1 after the first commit", since "0.1.0"
    }
    RAW_FROM = Gauge Seconds "goodput_analyzer_store_raw_from_timestamp_seconds" [] {
        "Samples before this were removed by retention.",
        by "store", series "1 after retention removed some", since "0.1.0"
    }
    LIMIT = Gauge None "goodput_analyzer_store_limit" ["limit"] {
        "Bounds of the store, by their names in the configuration; absent where there is none.",
        by "store", series "8, and 1 per retention that is set", since "0.1.0"
    }
}
