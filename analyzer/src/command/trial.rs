//! `try`: the report of a week from a Prometheus that is there already. Nothing is installed, and nothing is left behind.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use tokio::signal::unix::{self, SignalKind, signal};
use tracing::{info, warn};

use super::cli::{PeriodArgs, ReportFormat};
use super::connection::{ConnectionArgs, Pull};
use super::history::{History, full_hours};
use super::{asked_period, form, progress_bar, write};
use crate::config::Config;
use crate::deliver::{self, directory};
use crate::judge::{Judge, windows};
use crate::report::{PartialAnswers, Period, Price, Report, Site, Trial, Wanted, intervals, stored_by_team, text};
use estimate::Estimate;
use goodput_engine::{Engine, Partial};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::Abstentions;
use goodput_rules::frame::{Scrapes, Unjoined};
use goodput_rules::signal::{self as signals, Scope, Signal};
use goodput_store::{Options, Samples as _, Store, wall_clock};
use goodput_verdict::{HOUR_MS, Interval};

mod estimate;

/// A query for one metric covers a day at most, and about this many samples.
const AT_ONCE_MS: i64 = 24 * HOUR_MS;
const SAMPLES_AT_ONCE: f64 = 1e6;
/// Any of these signals says busy or not.
const BUSY: [Signal; 4] = [Signal::GpuBusy, Signal::GrEngineActive, Signal::SmActive, Signal::GpuUtilization];
/// How many names an error lists.
const MAX_NAMES: usize = 12;
/// How many GPUs and targets without a node are written out.
const MAX_UNJOINED: usize = 5;

/// What `try` reports, and from where.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The server, such as http://prometheus:9090: what stands before /api/v1/
    #[arg(long, visible_alias = "url", value_name = "URL")]
    pub prometheus: String,
    /// What the report is about
    #[command(flatten)]
    pub period: PeriodArgs,
    /// How to reach it, and what to take
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Samples, as estimated, beyond which nothing is read
    #[arg(long, value_name = "COUNT", default_value_t = 100_000_000)]
    pub max_samples: u64,
    /// Form of the report
    #[arg(long, default_value = "markdown")]
    pub format: ReportFormat,
    /// File to write instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Directory to write every form of the report to, instead of standard output
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format"])]
    pub output: Option<PathBuf>,
}

/// Examples of the command's help.
pub const EXAMPLES: &str = "Examples:
  Last week, on the terminal:
    goodput-analyzer try --prometheus http://prometheus:9090
  Two days, of one cluster, as HTML, Markdown, JSON and CSV in a directory:
    goodput-analyzer try --prometheus http://thanos:9090 --since 2026-11-16 --until 2026-11-18 --match 'cluster=\"a\"' --output report
  With prices and a time zone (docs/use/report.md), from Mimir:
    goodput-analyzer try --config.file goodput.yml --prometheus https://mimir.example/prometheus --tenant ml --bearer-token-file token

Samples go to a directory of its own below TMPDIR, which is removed at the end, also after Ctrl-C.";

/// Pulls, judges and reports; the directory with the samples is gone when this returns.
pub(super) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let store = Options { retention: None, retention_bytes: None, retention_results: None, ..config.store };
    let config = Config { store, ..config };
    let period = asked_period(&args.period, &config.zone)?;
    let now = wall_clock();
    ensure!(period.start_ms < now, "{}: expected a time that has begun", period.label);
    let engine = args.connection.engine(&args.prometheus)?;
    engine.greet().await.with_context(|| format!("cannot read from {}", args.prometheus))?;
    let engine = args.connection.with_reader(engine, None).await?;
    let [mut interrupt, mut terminate, mut hang_up] = interruptions()?;
    let temporary = tempfile::Builder::new().prefix("goodput-try-").tempdir();
    let temporary = temporary.context("cannot make a temporary directory (TMPDIR says where)")?;
    let mut history = History::open(&config, temporary.path()).await?;
    let store = history.store.clone();
    let work = Work { config: &config, args: &args, engine: &engine, period, until: now };
    let interrupted = || Err(anyhow::anyhow!("interrupted; nothing is left behind"));
    let done = tokio::select! {
        done = work.report(&mut history) => done,
        _ = interrupt.recv() => interrupted(),
        _ = terminate.recv() => interrupted(),
        _ = hang_up.recv() => interrupted(),
    };
    // The writer releases the directory before it is removed, whatever became of the work.
    store.close().await;
    let path = temporary.path().to_owned();
    temporary.close().with_context(|| format!("cannot remove {}", path.display()))?;
    let (report, intervals) = done?;
    if engine.partial().answers > 0 {
        warn!("{}", engine.partial().summary("; the report says so").trim_end());
    }
    match &args.output {
        Some(dir) => write_all(dir, &report, &intervals, &config.prices),
        None => {
            let format = args.format.with_teams(report.teams.is_configured);
            write(&form(&report, &intervals, &config.prices, format, &Site::default())?, args.out.as_deref())
        }
    }
}

/// Ctrl-C, and what a supervisor or a closed terminal sends: from now on they end nothing by themselves.
fn interruptions() -> anyhow::Result<[unix::Signal; 3]> {
    let watch = |kind| signal(kind).context("cannot watch for signals");
    Ok([watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?])
}

fn write_all(dir: &Path, report: &Report, intervals: &[Interval], prices: &[Price]) -> anyhow::Result<()> {
    let stem = report.period.label.replace(' ', "_").replace(':', "");
    let forms = deliver::forms(report, intervals, prices, &Site::default())?;
    directory::write(dir, &stem, &forms)?;
    let path = |ending: &str| format!("{}\n", dir.join(format!("{stem}.{ending}")).display());
    super::print(&forms.iter().map(|(ending, _)| path(ending)).collect::<String>())
}

/// A report in the making.
struct Work<'a> {
    config: &'a Config,
    args: &'a Args,
    engine: &'a Engine,
    period: Period,
    /// Now: what is later cannot be there.
    until: TimeMs,
}

/// What is found out while judging.
#[derive(Default)]
struct Found {
    abstentions: Abstentions,
    scrapes: Scrapes,
    unjoined: BTreeSet<Unjoined>,
}

impl Work<'_> {
    async fn report(&self, history: &mut History) -> anyhow::Result<(Report, Vec<Interval>)> {
        self.pull(history).await?;
        let found = self.judge(&history.store).await?;
        let (teams, prices) = (self.config.teams(), self.config.prices.as_slice());
        let wanted = Wanted { prices, teams: &teams, team: None };
        let report = stored_by_team(&history.store, self.period.clone(), wanted).await?;
        let report = report.with_terms(&self.config.terms());
        let intervals = intervals(&history.store, &self.period).await?;
        ensure!(!intervals.is_empty(), "no GPU of {} has a sample with a UUID within the period", self.args.prometheus);
        let trial = self.trial(found, &report, history.counts.stored);
        let partial = trial.partial.as_ref().map(|partial| {
            format!(
                "The report rests on partial answers: {} left something out of {} answers, so capacity and classes may be \
                 wrong; the last section lists them.",
                self.args.prometheus, partial.answers
            )
        });
        let warnings = report.warnings.into_iter().chain(partial).collect();
        Ok((Report { trial: Some(trial), warnings, ..report }, intervals))
    }

    /// All samples that verdicts on the period rest on.
    async fn pull(&self, history: &mut History) -> anyhow::Result<()> {
        let range = self.period.start_ms - HOUR_MS..(self.period.end_ms + HOUR_MS).min(self.until);
        let metrics = self.metrics(&range).await?;
        let pull = Pull {
            engine: self.engine,
            metrics,
            matchers: &self.args.connection.matchers,
            labels: &[],
            replica_labels: &self.config.ingest.replicas.labels,
        };
        let estimate = Estimate::of(&pull, &range).await?;
        self.bound(&estimate)?;
        let samples = estimate.samples();
        info!(metrics = pull.metrics.len(), "reading about {} samples", text::quantity(samples as f64));
        let bar = progress_bar("reading", samples);
        let step = estimate.ms_for(SAMPLES_AT_ONCE).clamp(HOUR_MS / 4, AT_ONCE_MS);
        let Range { mut start, end } = range;
        while start < end {
            let part = start..(start + step).min(end);
            pull.part(&part, history, |history| {
                let read = history.counts.stored + history.counts.duplicate;
                bar.set_position(read);
                // An estimate may miss a burst; a disk must not be filled by it.
                ensure!(
                    read / 2 <= self.args.max_samples,
                    "more than twice --max-samples, which the estimate did not see"
                );
                Ok(())
            })
            .await?;
            start = part.end;
        }
        bar.finish_and_clear();
        ensure!(history.counts.stored > 0, "{}: no samples within the period match", self.args.prometheus);
        Ok(())
    }

    /// The metrics to read, some of GPUs among them.
    async fn metrics(&self, range: &Range<TimeMs>) -> anyhow::Result<Vec<String>> {
        let there = self.engine.metrics(range).await?;
        let configured = |name: &str| self.config.application.iter().any(|counter| counter.metric == name);
        let is_of_gpus = |name: &String| signals::is_of(name, Scope::Gpu);
        if !there.iter().any(is_of_gpus) {
            let jobs = self.engine.values_of("job", range).await?;
            let hint = self.elsewhere(&is_of_gpus).await.unwrap_or_default();
            bail!("{hint}{}", no_gpus(&self.args.prometheus, &self.period, &there, &jobs));
        }
        // Those of containers would be read of every pod there is, for the few that hold GPUs.
        let is_read = |name: &String| signals::is_known(name) && !signals::is_of_containers(name) || configured(name);
        Ok(there.into_iter().filter(is_read).collect())
    }

    /// When the server has metrics of GPUs, where that is another time. Some servers refuse to look at all time.
    async fn elsewhere(&self, is_of_gpus: &dyn Fn(&String) -> bool) -> Option<String> {
        let has = async |range| Some(self.engine.metrics(&range).await.ok()?.iter().any(is_of_gpus));
        let (start, end) = full_hours(self.until - 23 * HOUR_MS, self.until, &self.config.zone);
        if has(self.until - 24 * HOUR_MS..self.until).await? {
            return Some(format!(
                "the server has metrics of GPUs of the last day, and none of {}: report it with --since {start} --until \
                 {end}.\n",
                self.period.label
            ));
        }
        let hint = "the server has metrics of GPUs at other times: see --week, --since and --until.\n";
        has(0..self.until).await?.then(|| hint.to_owned())
    }

    fn bound(&self, estimate: &Estimate) -> anyhow::Result<()> {
        let (samples, most) = (estimate.samples(), self.args.max_samples);
        ensure!(
            samples <= most,
            "about {} samples, more than --max-samples {most}; most of them: {}. Ask for less time (--since, --until) or \
             fewer series (--match), or allow more",
            text::quantity(samples as f64),
            estimate.greatest(),
        );
        Ok(())
    }

    async fn judge(&self, store: &Store) -> anyhow::Result<Found> {
        let judge = Judge::new(store.clone(), self.config.thresholds.clone()).counting(self.config.application.clone());
        let until = self.period.end_ms.min(self.until);
        let windows = windows(self.period.start_ms..until, &self.config.zone);
        let bar = progress_bar("judging", windows.len() as u64);
        let (mut found, mut reader) = (Found::default(), judge.reader(until));
        for window in windows {
            found.unjoined.extend(judge.judge(&mut reader, &window, until).await?.unjoined);
            let series = store.select(&crate::judge::selection(&window)).await?;
            let (thresholds, window) = (self.config.thresholds.clone(), window.start..window.end.min(until));
            let Found { mut abstentions, mut scrapes, unjoined } = found;
            let looking = tokio::task::spawn_blocking(move || {
                abstentions.add(&series, &window, &thresholds);
                scrapes.add(&series, &window);
                (abstentions, scrapes)
            });
            (abstentions, scrapes) = looking.await.context("the judging thread died")?;
            found = Found { abstentions, scrapes, unjoined };
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(found)
    }

    fn trial(&self, found: Found, report: &Report, samples: u64) -> Trial {
        let scraped = found.scrapes.list();
        let thresholds = &self.config.thresholds;
        let trial = Trial::of(found.abstentions, &scraped, report.fleet.capacity.gpu_ms, thresholds);
        let mut notes: Vec<String> = self.lateness(report).into_iter().chain(trial.notes).collect();
        notes.extend(found.unjoined.iter().take(MAX_UNJOINED).map(Unjoined::to_string));
        if let Some(more) = found.unjoined.len().checked_sub(MAX_UNJOINED).filter(|more| *more > 0) {
            notes.push(format!("{more} more that could not be joined to a node"));
        }
        let Partial { answers, first } = self.engine.partial();
        let first = first.into_iter().map(|answer| (answer.asked, answer.reason)).collect();
        let partial = Some(PartialAnswers { answers, first }).filter(|partial| partial.answers > 0);
        Trial { server: self.args.prometheus.clone(), samples, partial, notes, ..trial }
    }

    /// That the samples begin after the period.
    fn lateness(&self, report: &Report) -> Option<String> {
        let start = report.accounted.as_ref()?.start_ms;
        (start > self.period.start_ms).then(|| {
            format!(
                "The server has samples of GPUs from {} on, and the report is of what there is: it keeps no older ones, or \
                 scraped none.",
                self.period.show(start)
            )
        })
    }
}

/// What was looked for, and what there is instead.
fn no_gpus(url: &str, period: &Period, there: &[String], jobs: &[String]) -> String {
    let list = |names: &[&str]| {
        let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(MAX_NAMES);
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    };
    let wanted = signals::metrics_of(&BUSY);
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let mut told = format!(
        "{url}: no metric of GPUs among its {} from {} to {}; looked for {} and what else dcgm-exporter and \
         goodput-exporter write",
        there.len(),
        period.start,
        period.end,
        list(&wanted)
    );
    let alike: Vec<&str> = there.iter().map(String::as_str).filter(|name| is_like_a_gpu(name)).collect();
    if !alike.is_empty() {
        let _ = write!(told, "; it has others: {}", list(&alike));
    }
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let _ = match jobs.as_slice() {
        [] => write!(told, "; it has no jobs then"),
        jobs => write!(told, "; its jobs then: {}", list(jobs)),
    };
    told
}

fn is_like_a_gpu(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["gpu", "nvidia", "dcgm"].iter().any(|part| name.contains(part))
}
