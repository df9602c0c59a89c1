//! `import`: history from files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;

use super::history::{History, JudgeArgs};
use crate::config::Config;
use crate::ingest::Rules;
use crate::ingest::file::{self, BadLines, FileError, Source};
use goodput_store::Ingest as _;

/// Batches that may wait for the store: reading goes on while one is stored.
const QUEUE: usize = 2;

/// What `import` reads.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// OpenMetrics text with timestamps, plain, .gz or .zst, or Parquet as `export` writes it; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Whether it is judged
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Stores what the files hold, says what became of it and judges it. What cannot be read costs itself: the other
/// lines and files are stored, and the end is an error that says what is missing.
pub(super) async fn run(config: Config, dir: &Path, args: Args) -> anyhow::Result<()> {
    let mut history = History::open(&config, dir).await?;
    let mut problems = Vec::new();
    for path in &args.files {
        match import(&mut history, path).await {
            Ok(bad) => problems.extend(summary(path, &bad)),
            Err(Failed::File(error)) => problems.push(error.to_string()),
            Err(Failed::Store(error)) => {
                history.close().await?;
                super::print(&history.account())?;
                return Err(error);
            }
        }
    }
    history.close().await?;
    super::print(&history.account())?;
    if let Some((start, end)) = history.hours(&config.zone) {
        args.judge.run(config, dir, &start, &end).await?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("\n");
    anyhow::bail!("not everything was imported:\n{problems}\ncorrect it and import again: nothing is stored twice")
}

/// Why a file was not imported to its end.
enum Failed {
    /// The others can be.
    File(FileError),
    /// Nothing more can be stored.
    Store(anyhow::Error),
}

async fn import(history: &mut History, path: &Path) -> Result<BadLines, Failed> {
    let source = Source::open(path).map_err(Failed::File)?;
    let bar = progress_bar(path, source.bytes);
    let (batches, mut arriving) = mpsc::channel(QUEUE);
    let reading = {
        let (bar, store, limits) = (bar.clone(), history.store.clone(), history.limits);
        tokio::task::spawn_blocking(move || {
            let rules = Rules { limits: &limits, keeps: &|metric| store.keeps(metric) };
            file::read(source, &rules, &bar, &batches)
        })
    };
    while let Some(batch) = arriving.recv().await {
        let stored = history.append(batch).await;
        let failed = || format!("{}: cannot store its samples", path.display());
        stored.with_context(failed).map_err(Failed::Store)?;
    }
    let read = reading.await.context("reading the file panicked").map_err(Failed::Store)?;
    bar.finish_and_clear();
    read.map_err(Failed::File)
}

/// The bad lines of a file; nothing where there are none.
fn summary(path: &Path, bad: &BadLines) -> Option<String> {
    let (path, count) = (path.display(), bad.count);
    let noun = if count == 1 { "line or row" } else { "lines or rows" };
    let first: Vec<_> = bad.first.iter().map(|error| format!("\n  {error}")).collect();
    let more = count.saturating_sub(first.len() as u64);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    (count > 0).then(|| format!("{path}: {count} {noun} skipped:{}{more}", first.concat()))
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(path: &Path, bytes: Option<u64>) -> ProgressBar {
    let known = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let template = if bytes.is_some() { known } else { "{msg} {bytes} {elapsed}" };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    let bar = bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(style).with_message(path.display().to_string())
}
