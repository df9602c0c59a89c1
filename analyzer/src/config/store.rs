//! The section about the store's bounds.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::cli::duration;
use super::file::{duration_of, text};
use super::yaml::{Fields, Mistake, Value, line};
use crate::store::Options;

const DAY_S: u64 = 24 * 3600;

/// Bounds of the store; [`crate::store::Options`] says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Memory for samples that are not yet in a segment.
    pub head_bytes: usize,
    /// Age at which even a small head is written out.
    pub head_age: Duration,
    /// How much older than the newest sample of its series a sample may be.
    pub out_of_order: Duration,
    /// Series that may be active.
    pub max_series: usize,
    /// Those of one sender; none: four fifths of all.
    pub max_series_per_sender: Option<usize>,
    /// Bytes of the labels of all series.
    pub max_label_bytes: u64,
    /// GPUs that are judged.
    pub max_gpus: usize,
    /// Are series kept that no signal uses?
    pub keep_unknown: bool,
    /// How long samples are kept; none: for ever.
    pub retention: Option<Duration>,
    /// Bytes of segments beyond which the oldest go; none: no limit.
    pub retention_bytes: Option<u64>,
    /// How long verdicts are kept; none: for ever.
    pub retention_results: Option<Duration>,
    /// Bytes of the segments that one merge reads.
    pub segment_bytes: u64,
    /// Bytes of batches that may wait for the writer.
    pub queue_bytes: usize,
    /// Free bytes of the file system below which no samples are taken.
    pub min_free_disk_space_bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        let options = Options::new("", |_| true);
        Self {
            head_bytes: options.head_bytes,
            head_age: options.head_age,
            out_of_order: options.out_of_order,
            max_series: options.max_series,
            max_series_per_sender: options.max_series_per_sender,
            max_label_bytes: options.max_label_bytes,
            max_gpus: options.max_gpus,
            keep_unknown: false,
            retention: options.retention,
            retention_bytes: options.retention_bytes,
            retention_results: options.retention_results,
            segment_bytes: options.segment_bytes,
            queue_bytes: options.queue_bytes,
            min_free_disk_space_bytes: options.min_free_disk_space_bytes,
        }
    }
}

impl StoreLimits {
    /// What the store of this directory is told.
    pub fn options(self, dir: &Path, keep: fn(&str) -> bool) -> Options {
        let keep = if self.keep_unknown { |_: &str| true } else { keep };
        Options {
            head_bytes: self.head_bytes,
            head_age: self.head_age,
            out_of_order: self.out_of_order,
            max_series: self.max_series,
            max_series_per_sender: self.max_series_per_sender,
            max_label_bytes: self.max_label_bytes,
            max_gpus: self.max_gpus,
            retention: self.retention,
            retention_bytes: self.retention_bytes,
            retention_results: self.retention_results,
            segment_bytes: self.segment_bytes,
            queue_bytes: self.queue_bytes,
            min_free_disk_space_bytes: self.min_free_disk_space_bytes,
            ..Options::new(dir, keep)
        }
    }
}

/// Reads the section.
pub(super) fn store_limits(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> StoreLimits {
    let default = StoreLimits::default();
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let limits = StoreLimits {
        head_bytes: fields.optional("head_bytes", default.head_bytes, mistakes, count),
        head_age: fields.optional("head_age", default.head_age, mistakes, duration_of),
        out_of_order: fields.optional("out_of_order", default.out_of_order, mistakes, duration_of),
        max_series: fields.optional("max_series", default.max_series, mistakes, count),
        max_series_per_sender: fields.optional("max_series_per_sender", None, mistakes, |value| count(value).map(Some)),
        max_label_bytes: fields.optional("max_label_bytes", default.max_label_bytes, mistakes, count),
        max_gpus: fields.optional("max_gpus", default.max_gpus, mistakes, count),
        keep_unknown: fields.optional("keep_unknown", default.keep_unknown, mistakes, yes_or_no),
        retention: fields.optional("retention", default.retention, mistakes, age),
        retention_bytes: fields.optional("retention_bytes", default.retention_bytes, mistakes, bytes),
        retention_results: fields.optional("retention_results", default.retention_results, mistakes, age),
        segment_bytes: fields.optional("segment_bytes", default.segment_bytes, mistakes, count),
        queue_bytes: fields.optional("queue_bytes", default.queue_bytes, mistakes, count),
        min_free_disk_space_bytes: fields.optional(
            "min_free_disk_space_bytes",
            default.min_free_disk_space_bytes,
            mistakes,
            count,
        ),
    };
    fields.finish(mistakes);
    if limits.retention_results.is_some_and(|results| limits.retention.is_some_and(|samples| results < samples)) {
        let text = format!("{name}.retention_results: expected {name}.retention or longer, found less");
        mistakes.push(Mistake { line: line(value), text });
    }
    limits
}

pub(super) fn count<N: std::str::FromStr + PartialOrd + Default>(value: &Value) -> Result<N, String> {
    let number = text(value).and_then(|t| t.parse().ok()).filter(|n| *n > N::default());
    number.ok_or_else(|| "a whole number above 0".into())
}

fn yes_or_no(value: &Value) -> Result<bool, String> {
    text(value).and_then(|text| text.parse().ok()).ok_or_else(|| "true or false".into())
}

fn bytes(value: &Value) -> Result<Option<u64>, String> {
    match text(value) {
        Some("unlimited") => Ok(None),
        _ => count(value).map(Some).map_err(|_| "a whole number of bytes above 0, or unlimited".into()),
    }
}

/// A day is the least: verdicts of hours that are not final rest on samples.
fn age(value: &Value) -> Result<Option<Duration>, String> {
    let days = |text: &str| {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let days = match unit {
            "d" => 1,
            "w" => 7,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(days * DAY_S).map(Duration::from_secs)
    };
    let text = text(value).unwrap_or_default();
    if text == "forever" {
        return Ok(None);
    }
    let age = days(text).or_else(|| duration(text).ok()).filter(|age| age.as_secs() >= DAY_S);
    age.map(Some).ok_or_else(|| "1d or longer, such as 15d, 2w or 36h, or forever".into())
}

/// The section in the file's own form.
pub(super) fn write(limits: &StoreLimits, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let age = |age: Option<Duration>| age.map_or("forever".to_owned(), |age| format!("{}s", age.as_secs()));
    let bytes = limits.retention_bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    writeln!(f, "store:\n  head_bytes: {}\n  head_age: {}s", limits.head_bytes, limits.head_age.as_secs())?;
    writeln!(f, "  out_of_order: {}s\n  max_series: {}", limits.out_of_order.as_secs(), limits.max_series)?;
    if let Some(max) = limits.max_series_per_sender {
        writeln!(f, "  max_series_per_sender: {max}")?;
    }
    writeln!(f, "  max_label_bytes: {}\n  max_gpus: {}", limits.max_label_bytes, limits.max_gpus)?;
    writeln!(f, "  keep_unknown: {}", limits.keep_unknown)?;
    writeln!(f, "  retention: {}\n  retention_bytes: {bytes}", age(limits.retention))?;
    writeln!(f, "  retention_results: {}", age(limits.retention_results))?;
    writeln!(f, "  segment_bytes: {}\n  queue_bytes: {}", limits.segment_bytes, limits.queue_bytes)?;
    writeln!(f, "  min_free_disk_space_bytes: {}", limits.min_free_disk_space_bytes)
}
