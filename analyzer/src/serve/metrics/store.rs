//! What the store holds, what it did, and the bounds that it was given.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Ratio, seconds};
use crate::store::{Limits, Stats};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

pub(super) fn register(registry: &mut Registry, stats: &Stats) {
    let gauges = [
        ("series", "Active series, which count towards max_series", stats.series),
        (
            "catalogue_series",
            "Series in the catalogue: active ones, and evicted ones whose samples are still stored",
            stats.catalogue_series,
        ),
        ("label_bytes", "Bytes of the labels of all series in the catalogue", stats.label_bytes),
        ("queue_bytes", "Bytes of batches that wait for the writer", stats.queue_bytes),
        (
            "short_of_space",
            "1 while no samples are taken because too little of the disk is free",
            u64::from(stats.short_of_space),
        ),
        ("head_bytes", "Memory of samples that are not in a segment yet", stats.head_bytes),
        ("write_ahead_bytes", "Their size in the write-ahead", stats.write_ahead_bytes),
        ("segments", "Segments that are served", stats.segments),
        ("segment_bytes", "Their size on disk", stats.segment_bytes),
        ("quarantined", "Segments and write-ahead rows that are set aside as damaged", stats.quarantined),
        ("unknown_files", "Files in `unknown/`, which the index of segments does not know", stats.unknown_files),
        (
            "bad_rows",
            "Rows of verdicts, risks, advisories, deliveries, events and series that are set aside as damaged",
            stats.bad_rows,
        ),
    ];
    for (name, help, value) in gauges {
        let gauge = Gauge::<i64>::default();
        gauge.set(value.cast_signed());
        registry.register(name, help, gauge);
    }
    let done = &stats.upkeep;
    let counters = [
        (
            "flush_failures",
            "Segments that could not be written; their samples stay in the write-ahead",
            stats.failed_flushes,
        ),
        (
            "read_errors",
            "Reads of segments that the file system failed; nothing is set aside for them",
            stats.read_errors,
        ),
        (
            "missing_samples",
            "Acknowledged samples that the last start found missing from goodput.db",
            stats.missing_samples,
        ),
        ("merges", "Merges of small segments into larger ones", done.merges),
        ("merged_segments", "Segments that merges have replaced", done.merged_segments),
        ("removed_segments", "Segments that retention has removed", done.removed_segments),
        ("removed_samples", "Samples that retention has removed", done.removed_samples),
        ("removed_bytes", "Size of the segments that retention has removed", done.removed_bytes),
        ("removed_verdicts", "Rows of verdicts that retention has removed", done.removed_verdicts),
        (
            "evicted_series",
            "Series that had ended and were evicted to make room for new ones; their samples stay readable",
            stats.evicted_series,
        ),
        ("removed_series", "Series that left the catalogue with the last of their samples", done.removed_series),
        ("upkeep_failures", "Merges and removals that failed and are tried again", done.failures),
    ];
    for (name, help, value) in counters {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    }
    if let Some(free) = stats.free_bytes {
        let gauge = Gauge::<i64>::default();
        gauge.set(free.cast_signed());
        registry.register("free_bytes", "Free bytes of the file system that the data directory is on", gauge);
    }
    if let Some(took) = stats.last_commit {
        let gauge = Ratio::default();
        gauge.set(took.as_secs_f64());
        registry.register("commit_duration_seconds", "How long the last group commit took, fsync included", gauge);
    }
    if let Some(time) = stats.raw_from {
        let gauge = Ratio::default();
        gauge.set(seconds(time));
        registry.register("raw_from_timestamp_seconds", "Samples before this were removed by retention", gauge);
    }
    limits(registry, &stats.limits);
}

fn limits(registry: &mut Registry, limits: &Limits) {
    let family = Family::<Limit, Gauge>::default();
    let seconds = |age: Option<std::time::Duration>| age.map(|age| age.as_secs());
    let all = [
        ("head_bytes", Some(limits.head_bytes)),
        ("queue_bytes", Some(limits.queue_bytes)),
        ("max_series", Some(limits.max_series)),
        ("max_series_per_sender", Some(limits.max_series_per_sender)),
        ("max_label_bytes", Some(limits.max_label_bytes)),
        ("max_gpus", Some(limits.max_gpus)),
        ("min_free_disk_space_bytes", Some(limits.min_free_disk_space_bytes)),
        ("segment_bytes", Some(limits.segment_bytes)),
        ("retention_bytes", limits.retention_bytes),
        ("retention_seconds", seconds(limits.retention)),
        ("retention_results_seconds", seconds(limits.retention_results)),
    ];
    for (limit, value) in all {
        if let Some(value) = value {
            family.get_or_create(&Limit { limit }).set(value.cast_signed());
        }
    }
    registry.register(
        "limit",
        "Bounds of the store, by their names in the configuration; absent where there is none",
        family,
    );
}
