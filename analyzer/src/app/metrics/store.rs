//! What the store holds, what it did, and the bounds that it was given.

use goodput_catalog::analyzer::store as rows;

use super::{Page, seconds};
use goodput_settings::Section as _;
use goodput_store::Stats;

pub(super) fn push(page: &mut Page, stats: &Stats) {
    let done = &stats.upkeep;
    let numbers = [
        (&rows::SERIES, stats.series),
        (&rows::CATALOGUE_SERIES, stats.catalogue_series),
        (&rows::LABEL_BYTES, stats.label_bytes),
        (&rows::QUEUE_BYTES, stats.queue_bytes),
        (&rows::SHORT_OF_SPACE, u64::from(stats.short_of_space)),
        (&rows::HEAD_BYTES, stats.head_bytes),
        (&rows::WRITE_AHEAD_BYTES, stats.write_ahead_bytes),
        (&rows::SEGMENTS, stats.segments),
        (&rows::SEGMENT_BYTES, stats.segment_bytes),
        (&rows::QUARANTINED, stats.quarantined),
        (&rows::UNKNOWN_FILES, stats.unknown_files),
        (&rows::BAD_ROWS, stats.bad_rows),
        (&rows::FLUSH_FAILURES, stats.failed_flushes),
        (&rows::READ_ERRORS, stats.read_errors),
        (&rows::MISSING_SAMPLES, stats.missing_samples),
        (&rows::MERGES, done.merges),
        (&rows::MERGED_SEGMENTS, done.merged_segments),
        (&rows::REMOVED_SEGMENTS, done.removed_segments),
        (&rows::REMOVED_SAMPLES, done.removed_samples),
        (&rows::REMOVED_BYTES, done.removed_bytes),
        (&rows::REMOVED_VERDICTS, done.removed_verdicts),
        (&rows::EVICTED_SERIES, stats.evicted_series),
        (&rows::REMOVED_SERIES, done.removed_series),
        (&rows::UPKEEP_FAILURES, done.failures),
    ];
    for (row, value) in numbers {
        page.push(row, &[], value);
    }
    if let Some(free) = stats.free_bytes {
        page.push(&rows::FREE_BYTES, &[], free);
    }
    if let Some(took) = stats.last_commit {
        page.push(&rows::COMMIT_DURATION, &[], took.as_secs_f64());
    }
    if let Some(time) = stats.raw_from {
        page.push(&rows::RAW_FROM, &[], seconds(time));
    }
    for (limit, value) in stats.limits.limits() {
        page.push(&rows::LIMIT, &[&limit], value);
    }
}
