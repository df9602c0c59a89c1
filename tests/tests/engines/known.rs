//! Series that are known to the last bit, and writing them to an engine.

use anyhow::Result;
use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_lab::remote_write::{TimeSeries, WriteRequest};
use goodput_tests::backfill::{Bits, HOUR, METRICS};

/// From one sample to the next; not a whole number of them is an hour.
const STEP: TimeMs = 14_993;

/// Samples after which the first series of all ends with a marker.
const ENDS_AFTER: i64 = 300;

/// Series of a request that a server takes in one order of time.
const SLICE: TimeMs = HOUR / 3;

/// The values of engines that keep every bit: the first ones are the ends of what a float can be. The sign of zero is not
/// among them: protobuf leaves out a number that equals zero, so remote write does not carry it.
pub(crate) fn exact(n: i64) -> f64 {
    const ENDS: [f64; 5] = [5e-324, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
    let end = usize::try_from(n).ok().and_then(|n| ENDS.get(n));
    end.copied().unwrap_or((n as f64 + 0.1) / 3.0)
}

/// Values that VictoriaMetrics keeps, which stores decimals. They do not compress to nothing.
pub(crate) fn decimal(n: i64) -> f64 {
    ((n * 7_919) % 10_007) as f64 * 0.25 + 1000.0
}

/// Series of every metric and GPU over three hours from the start on, with samples at both ends.
pub(crate) fn series(start: TimeMs, gpus: i64, value: impl Fn(i64) -> f64) -> Vec<Series> {
    let mut all = Vec::new();
    for metric in METRICS {
        for gpu in 0..gpus {
            let (uuid, gpu) = (format!("GPU-{gpu}"), gpu.to_string());
            let labels = Labels::new([("__name__", metric), ("UUID", &uuid), ("gpu", &gpu)]);
            let times = (0..3 * HOUR / STEP + 1).map(|n| (n, start + n * STEP));
            let samples = times.map(|(n, time_ms)| Sample { time_ms, value: value(n) }).collect();
            all.push(Series { labels, samples });
        }
    }
    if let Some(Series { samples, .. }) = all.first_mut() {
        samples.retain(|sample| sample.time_ms <= start + ENDS_AFTER * STEP);
        samples.last_mut().into_iter().for_each(|last| last.value = f64::from_bits(STALE_BITS));
    }
    all
}

/// Writes the series to this address of a receiver of remote write, all of them a while at a time: a server takes nothing
/// that is much older than what it has.
pub(crate) fn write(url: &str, series: &[Series]) -> Result<()> {
    let times = || series.iter().flat_map(|series| &series.samples).map(|sample| sample.time_ms);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    for from in (first..=last).step_by(usize::try_from(SLICE)?) {
        let part = |series: &Series| {
            let labels: Vec<(&str, &str)> = series.labels.iter().collect();
            let samples = series.samples.iter().filter(|sample| (from..from + SLICE).contains(&sample.time_ms));
            TimeSeries::new(&labels, samples.map(|sample| (sample.time_ms, sample.value)))
        };
        let body = WriteRequest { timeseries: series.iter().map(part).collect() }.body()?;
        let request = ureq::post(url).header("Content-Type", "application/x-protobuf");
        request
            .header("Content-Encoding", "snappy")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0")
            .send(&body)?;
    }
    Ok(())
}

/// What is stored of the series when they come with these labels besides.
pub(crate) fn stored(series: &[Series], more: &[(&str, &str)]) -> Bits {
    let with = |series: &Series| {
        let labels = Labels::new(series.labels.iter().chain(more.iter().copied()));
        let samples = series.samples.iter().map(|sample| (sample.time_ms, sample.value.to_bits())).collect();
        (labels, samples)
    };
    let mut all: Bits = series.iter().map(with).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}
