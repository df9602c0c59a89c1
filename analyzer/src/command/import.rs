//! `import`: history from files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;

use super::history::History;
use crate::config::Config;
use crate::ingest::file::{self, Source};
use crate::report::Period;

/// Batches that may wait for the store: reading goes on while one is stored.
const QUEUE: usize = 2;

/// What `import` reads.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// OpenMetrics text with timestamps, plain, .gz or .zst, or Parquet as `export` writes it; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Judge the hours that the samples are of
    #[arg(long)]
    pub classify: bool,
}

/// Stores what the files hold; says what became of it and, if asked, judges it.
pub(super) async fn run(config: Config, dir: &Path, args: Args) -> anyhow::Result<()> {
    let mut history = History::open(&config, dir).await?;
    let mut outcome = Ok(());
    for path in &args.files {
        outcome = import(&mut history, path).await;
        if outcome.is_err() {
            break;
        }
    }
    history.close().await?;
    super::print(&history.account())?;
    outcome?;
    match history.hours(&config.zone) {
        Some((start, end)) if args.classify => {
            let period = Period::between(&start, &end, &config.zone)?;
            super::classify(config, dir, &period, false).await
        }
        _ => super::print(&history.advice(dir, &config.zone)),
    }
}

async fn import(history: &mut History, path: &Path) -> anyhow::Result<()> {
    let source = Source::open(path)?;
    let bar = progress_bar(path, source.bytes);
    let (batches, mut arriving) = mpsc::channel(QUEUE);
    let reading = {
        let bar = bar.clone();
        tokio::task::spawn_blocking(move || file::read(source, &bar, &batches))
    };
    while let Some(batch) = arriving.recv().await {
        history.append(batch).await.with_context(|| format!("{}: cannot store its samples", path.display()))?;
    }
    let read = reading.await.context("reading the file panicked")?;
    bar.finish_and_clear();
    read.context("what stands before this place is stored; mend the file and import it again: nothing is stored twice")
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(path: &Path, bytes: Option<u64>) -> ProgressBar {
    let known = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let template = if bytes.is_some() { known } else { "{msg} {bytes} {elapsed}" };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    let bar = bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(style).with_message(path.display().to_string())
}
