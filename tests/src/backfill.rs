//! `backfill` as users run it, and what it stored, bit for bit.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use goodput_exposition::sample::{Labels, TimeMs};
use goodput_lab::bin;
use goodput_store::{Selection, Snapshot, wall_clock};

/// One hour in milliseconds.
pub const HOUR: TimeMs = 3_600_000;
/// Metrics that signals use.
pub const METRICS: [&str; 3] = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "goodput_gpu_busy_seconds_total"];

/// Series in order of their labels; time and bits of every sample.
pub type Bits = Vec<(Labels, Vec<(TimeMs, u64)>)>;

/// A full hour yesterday: within what the servers keep by default.
#[must_use]
pub fn start() -> TimeMs {
    (wall_clock() / HOUR - 30) * HOUR
}

/// Backfills the range from what stands before `/api/v1/`, read this way; what the program wrote.
pub fn backfill(data: &Path, url: &str, reader: &str, range: Range<TimeMs>) -> Result<String> {
    let (from, to) = (show(range.start)?, show(range.end)?);
    analyzer(data, &["backfill", "--url", url, "--start", &from, "--end", &to, "--reader", reader])
}

fn show(time: TimeMs) -> Result<String> {
    Ok(jiff::Timestamp::from_millisecond(time)?.to_string())
}

/// All samples of a data directory.
pub fn bits(data: &Path) -> Result<Bits> {
    let range = 0..TimeMs::MAX;
    let snapshot =
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(Snapshot::take(data, &range))?;
    let series = snapshot.select(&Selection { range, ..Selection::default() })?;
    let bits = series.into_iter().map(|series| {
        let samples = series.samples.iter().map(|sample| (sample.time_ms, sample.value.to_bits())).collect();
        (series.labels, samples)
    });
    Ok(bits.collect())
}

/// Runs the analyzer over a data directory; what it wrote.
pub fn analyzer(data: &Path, args: &[&str]) -> Result<String> {
    let program = bin("goodput-analyzer")?;
    run(text_of(&program), &[&["--log.level=info", "--data.dir", text_of(data)], args].concat())
}

/// What it writes; an error with that text when it fails.
#[allow(clippy::disallowed_methods, reason = "the programs under test")]
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {args:?}: {said}");
    Ok(said)
}

/// The path as an argument.
#[must_use]
pub fn text_of(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
