//! `export`: samples and verdicts as Parquet, also while another process has the data directory open.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::database::DatabaseArgs;
use crate::config::Config;
use crate::report::Period;
use goodput_exposition::sample::TimeMs;
use goodput_store::parquet::{self, Table};
use goodput_store::{Directory, ReadVerdicts, Selection, Snapshot};
use goodput_verdict::HOUR_MS;

/// Samples that are read at once, roughly: 64 MiB.
const SAMPLES_AT_ONCE: usize = 4_000_000;
/// Verdicts of so long are read at once.
const RESULTS_AT_ONCE_MS: i64 = 24 * HOUR_MS;

/// What `export` writes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// From: a date, a local time or one with offset, on a full hour
    #[arg(long, visible_alias = "since", value_name = "TIME")]
    pub start: String,
    /// To (exclusive)
    #[arg(long, visible_alias = "until", value_name = "TIME")]
    pub end: String,
    /// What to write
    #[arg(long, default_value = "samples")]
    pub what: What,
    /// Only samples of this metric; may be repeated
    #[arg(long = "metric", value_name = "NAME")]
    pub metrics: Vec<String>,
    /// Where the verdicts are, if not in --data.dir
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// The Parquet file; one that is there is replaced when the new one is whole
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// What an export holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Raw samples, as `import` reads them.
    Samples,
    /// The ledger's intervals.
    Intervals,
    /// What was advised.
    Advisories,
    /// Memory, disks, pods and GPUs that were at risk.
    Risks,
    /// What jobs counted themselves.
    Achieved,
}

/// Writes the file; says how many rows it has.
pub(super) async fn run(config: &Config, dir: &Path, args: Args) -> anyhow::Result<()> {
    let what = args.what;
    ensure!(
        args.metrics.is_empty() || what == What::Samples,
        "--metric: only samples have metrics; expected --what samples"
    );
    let period = Period::between(&args.start, &args.end, &config.zone)?;
    let range = period.start_ms..period.end_ms;
    let rows = match (what, args.database.look().await?) {
        (What::Samples, Some(_)) => bail!("--database.url: PostgreSQL has no samples; expected another --what"),
        (What::Samples, None) => samples(dir, range, args.metrics, &args.out).await?,
        (_, Some(fleet)) => results(&fleet, range, what, &args.out).await?,
        (_, None) => results(&Directory::new(dir), range, what, &args.out).await?,
    };
    super::print(&format!("{rows} rows in {}\n", args.out.display()))
}

async fn samples(dir: &Path, range: Range<TimeMs>, metrics: Vec<String>, out: &Path) -> anyhow::Result<u64> {
    let taken = Snapshot::take(dir, &range).await;
    let snapshot = taken.context("no samples to export; is this the --data.dir of serve?")?;
    let out = out.to_owned();
    let writing = tokio::task::spawn_blocking(move || {
        let mut table = Table::create(&out, &parquet::no_samples()?)?;
        let pieces = (snapshot.estimate(&range) / SAMPLES_AT_ONCE + 1) as i64;
        let step = ((range.end - range.start) / pieces).max(1);
        let bar = progress_bar(pieces_of(&range, step).count() as u64);
        for piece in pieces_of(&range, step) {
            let selection = Selection { metrics: metrics.clone(), labels: Vec::new(), range: piece };
            for frame in parquet::sample_frames(&snapshot.select(&selection)?) {
                table.write(&frame?)?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        anyhow::Ok(table.finish()?)
    });
    writing.await.context("writing the file panicked")?
}

async fn results(results: &impl ReadVerdicts, range: Range<TimeMs>, what: What, out: &Path) -> anyhow::Result<u64> {
    let frame = async |piece: Range<TimeMs>| {
        let read = results.verdicts(piece).await;
        let verdicts =
            read.context("no verdicts to export; is this the --data.dir of serve, or the --database.url of migrate?")?;
        anyhow::Ok(match what {
            What::Advisories => parquet::results(&verdicts.outlook.advisories)?,
            What::Risks => parquet::results(&verdicts.outlook.risks)?,
            What::Achieved => parquet::results(&verdicts.achieved)?,
            _ => parquet::results(&verdicts.intervals)?,
        })
    };
    let mut table = Table::create(out, &frame(range.start..range.start).await?)?;
    for piece in pieces_of(&range, RESULTS_AT_ONCE_MS) {
        table.write(&frame(piece).await?)?;
    }
    Ok(table.finish()?)
}

fn pieces_of(range: &Range<TimeMs>, step: i64) -> impl Iterator<Item = Range<TimeMs>> {
    let end = range.end;
    (range.start..end)
        .step_by(usize::try_from(step).unwrap_or(usize::MAX))
        .map(move |start| start..(start + step).min(end))
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(pieces: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("exporting {wide_bar} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(pieces).with_style(style)
}
