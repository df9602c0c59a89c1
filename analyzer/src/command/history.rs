//! What the commands that bring history in have in common: an account of what was stored, and judging it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::Config;
use crate::ingest::{Limits, Rules, Skipped};
use crate::report::Period;
use goodput_exposition::sample::{Batch, TimeMs};
use goodput_store::{Appended, Ingest, Options, Store, StoreError};
use goodput_verdict::HOUR_MS;

/// Whether what came in is judged.
#[derive(clap::Args, Debug)]
pub struct JudgeArgs {
    /// Only store the samples; print the command that judges them
    #[arg(long)]
    pub no_judge: bool,
    /// Asked for judging in earlier releases, which is now done anyhow
    #[arg(long, hide = true, conflicts_with = "no_judge")]
    pub classify: bool,
}

impl JudgeArgs {
    /// Judges the hours from start to end, or says by which command that is done. The directory must be free.
    pub(super) async fn run(&self, config: Config, dir: &Path, start: &str, end: &str) -> anyhow::Result<()> {
        let command = format!("goodput-analyzer --data.dir={} classify --start {start} --end {end}", dir.display());
        if self.no_judge {
            return super::print(&format!("judge these hours with\n  {command}\n"));
        }
        let period = Period::between(start, end, &config.zone)?;
        let judged = super::classify(config, dir, &period, false).await;
        judged.with_context(|| format!("the samples are stored, and not judged; judge them with\n  {command}\n"))
    }
}

/// The store, open for samples of any age, and what went in.
pub(super) struct History {
    pub(super) store: Store,
    /// Those of everything else that comes in.
    pub(super) limits: Limits,
    pub(super) counts: Appended,
    skipped: Skipped,
    /// First and last time of what came.
    span: Option<(TimeMs, TimeMs)>,
}

impl History {
    pub(super) async fn open(config: &Config, dir: &Path) -> Result<Self, StoreError> {
        let store = Store::open(Options { history: true, ..config.store_options(dir) }).await?;
        let limits = config.ingest.limits;
        Ok(Self { store, limits, counts: Appended::default(), skipped: Skipped::default(), span: None })
    }

    /// Stores a batch, but for series that break a limit or the data model.
    pub(super) async fn append(&mut self, batch: Batch) -> Result<(), StoreError> {
        let rules = Rules { limits: &self.limits, keeps: &|metric| self.store.keeps(metric) };
        let (batch, skipped) = rules.admitted(batch);
        self.skipped.absorb(skipped);
        let times = batch.series().flat_map(|series| series.samples).map(|sample| sample.time_ms);
        let span = times.fold(self.span, |span, time| {
            Some(span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))))
        });
        let counts = self.store.append(batch).await?;
        self.counts += counts;
        if counts.stored + counts.duplicate > 0 {
            self.span = span;
        }
        Ok(())
    }

    /// Writes everything to segments and releases the directory.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let flushed = self.store.flush().await;
        self.store.close().await;
        flushed
    }

    /// Start and end of the full hours that samples came for, as `classify` takes them.
    pub(super) fn hours(&self, zone: &TimeZone) -> Option<(String, String)> {
        let (first, last) = self.span?;
        Some(full_hours(first, last, zone))
    }

    /// What became of the samples, one reason a line.
    pub(super) fn account(&self) -> String {
        let Appended { stored, duplicate, conflicting, out_of_bounds, unknown, over_limit } = self.counts;
        let mut text = String::new();
        for (count, what) in [
            (stored, "stored"),
            (duplicate, "there already, with the same value"),
            (conflicting, "dropped: another value is there for the same time"),
            (out_of_bounds, "dropped: newer than the clock, or before 1970"),
            (unknown, "dropped: of metrics that no signal uses"),
            (over_limit, "dropped: of series beyond store.max_series"),
        ] {
            if count > 0 || what == "stored" {
                let _ = writeln!(text, "{count:>14}  {what}");
            }
        }
        if self.skipped.samples() > 0 {
            let (samples, reasons) = (self.skipped.samples(), self.skipped.reasons());
            let first = self.skipped.first().unwrap_or_default();
            let _ = writeln!(text, "{samples:>14}  dropped: {reasons}; the first is {first}");
        }
        text
    }
}

/// Start and end of the full hours around two times, as commands take them.
pub(super) fn full_hours(first: TimeMs, last: TimeMs, zone: &TimeZone) -> (String, String) {
    let into = |time: TimeMs| {
        let instant = Timestamp::from_millisecond(time).unwrap_or_default();
        (time + i64::from(zone.to_offset(instant).seconds()) * 1000).rem_euclid(HOUR_MS)
    };
    let shown = |time| Timestamp::from_millisecond(time).unwrap_or_default().to_string();
    (shown(first - into(first)), shown(last - into(last) + HOUR_MS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::{Labels, Sample, Series};

    #[tokio::test]
    async fn a_series_beyond_a_limit_of_the_configuration_costs_itself() {
        let config = Config::parse("ingest: {label_bytes: 40}\n").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::open(&config, dir.path()).await.unwrap();
        let series = |metric: &str, owner: &str| Series {
            labels: Labels::new([("__name__", metric), ("owner", owner)]),
            samples: vec![Sample { time_ms: 1_772_409_600_000, value: 1.0 }],
        };
        let long = "x".repeat(40);
        let known = "DCGM_FI_DEV_GPU_UTIL";
        let all = [series(known, "a"), series(known, &long), series("foreign", &long)];
        history.append(all.into_iter().collect()).await.unwrap();
        assert_eq!((history.counts.stored, history.counts.unknown), (1, 1));
        let dropped = "             1  dropped: 1 series by label_bytes; the first is \"DCGM_FI_DEV_GPU_UTIL\": label \"owner\" of 45 bytes, more than 40\n";
        assert!(history.account().ends_with(dropped), "{}", history.account());
        history.close().await.unwrap();
    }
}
