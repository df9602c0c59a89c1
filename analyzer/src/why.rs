//! `why`: one minute of scraping, then a verdict with its evidence.

pub use args::{WhyArgs, WhyFormat};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

mod answer;
mod args;
mod block;
mod collectives;
mod exporter;
mod health;
mod table;
mod text;

pub use answer::{AdvisoryAnswer, Answer, ClassAnswer, GpuAnswer};
pub use collectives::{CollectivesAnswer, LastAnswer};
pub use health::{AtRisk, Audit, Damaged, Health};

use crate::ingest::Limits;
use crate::ingest::scrape::{ScrapeError, Scraper, Target};
use exporter::Exporter;
use goodput_exposition::sample::{Batch, Labels, Sample, Series, TimeMs};
use goodput_rules::classify::Thresholds;
use text::Form;

/// An exporter may answer from what it read within the last second, so that faster scrapes would show nothing more.
const EVERY: Duration = Duration::from_secs(1);
/// A scrape that takes longer is given up, and the next one tried.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often the log says how far it is, where standard error is no terminal.
const TOLD_EVERY: u64 = 15;
/// Columns where standard output is no terminal, and the most that are read with ease.
const WIDTH: usize = 110;

/// Scrapes, judges and renders.
pub async fn run(args: &WhyArgs, thresholds: &Thresholds) -> anyhow::Result<String> {
    let own;
    let address = match &args.target {
        Some(address) => address,
        None => {
            own = Exporter::start().await?;
            &own.address
        }
    };
    let target = Target { interval: EVERY, timeout: TIMEOUT, ..Target::new("why", address) };
    let scraper = Scraper::new(Limits::default(), Arc::default());
    let first = scraper.scrape_once(&target).await.map_err(not_metrics)?;
    let series = collect(&scraper, &target, first, args.duration).await;
    let Some(start) = series.iter().flat_map(|s| &s.samples).map(|s| s.time_ms).min() else {
        bail!("{}: no samples", target.url);
    };
    let mut answer = answer::answer(series, start, args.duration, thresholds)?;
    if answer.gpus.is_empty() {
        bail!("{}: no GPU among its metrics, so there is nothing to judge", target.url);
    }
    narrow(&mut answer, args)?;
    Ok(match args.format {
        WhyFormat::Text => answer.text(Form { width: width(), is_verbose: args.verbose }),
        WhyFormat::Json => serde_json::to_string_pretty(&answer)? + "\n",
    })
}

/// Columns of the terminal.
fn width() -> usize {
    console::Term::stdout().size_checked().map_or(WIDTH, |(_, columns)| usize::from(columns).min(WIDTH))
}

/// Text that cannot be read is most often that of some other server.
fn not_metrics(error: ScrapeError) -> anyhow::Error {
    let is_text = matches!(error, ScrapeError::Text { .. });
    let error = anyhow::Error::new(error);
    if is_text { error.context("this is not a page of metrics") } else { error }
}

fn narrow(answer: &mut Answer, args: &WhyArgs) -> anyhow::Result<()> {
    let all: Vec<String> = answer.gpus.iter().map(GpuAnswer::name).collect();
    if let Some(gpu) = &args.gpu {
        answer.keep_gpu(gpu);
    }
    if let Some(owner) = &args.owner {
        answer.keep_owner(owner);
    }
    if answer.gpus.is_empty() {
        let wanted = args.gpu.as_ref().or(args.owner.as_ref()).cloned().unwrap_or_default();
        bail!("no GPU matches {wanted:?}; there are {}", all.join(", "));
    }
    Ok(())
}

/// Scrapes on for as long as asked. A scrape that fails leaves a gap, which the verdict shows as such.
async fn collect(scraper: &Scraper, target: &Target, first: Batch, duration: Duration) -> Vec<Series> {
    let mut all = Collected::default();
    all.add(first);
    let bar = progress_bar(target, duration);
    log_progress(&bar, target);
    let end = Instant::now() + duration;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    loop {
        tokio::select! {
            biased;
            () = sleep_until(end) => break,
            _ = ticks.tick() => {}
        }
        match scraper.scrape_once(target).await {
            Ok(batch) => all.add(batch),
            Err(error) => report_gap(&bar, &error),
        }
        bar.inc(1);
        log_progress(&bar, target);
    }
    if let Ok(batch) = scraper.scrape_once(target).await {
        all.add(batch);
    }
    bar.finish_and_clear();
    all.series()
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(target: &Target, duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} s").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(duration.as_secs()).with_style(style).with_message(format!("scraping {}", target.url))
}

/// The bar's stand-in where there is no terminal.
fn log_progress(bar: &ProgressBar, target: &Target) {
    if bar.is_hidden() && bar.position().is_multiple_of(TOLD_EVERY) {
        tracing::info!("scraping {}: {} of {} s", target.url, bar.position(), bar.length().unwrap_or_default());
    }
}

fn report_gap(bar: &ProgressBar, error: &ScrapeError) {
    bar.suspend(|| tracing::warn!(%error, "scrape failed"));
}

/// Batches joined by series.
#[derive(Default)]
struct Collected(HashMap<Labels, Vec<Sample>>);

impl Collected {
    fn add(&mut self, batch: Batch) {
        for Series { labels, samples } in batch {
            let all = self.0.entry(labels).or_default();
            let last: Option<TimeMs> = all.last().map(|s| s.time_ms);
            all.extend(samples.into_iter().filter(|s| last.is_none_or(|last| s.time_ms > last)));
        }
    }

    fn series(self) -> Vec<Series> {
        let mut series: Vec<Series> = self.0.into_iter().map(|(labels, samples)| Series { labels, samples }).collect();
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        series
    }
}
