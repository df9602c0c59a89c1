//! `store`: what the data directory holds and how it is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::print;
use crate::config::Config;
use crate::judge::shown;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Problem, Rebuilt, RowAside, Status, Store, Which};

/// What takes no longer shows no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to do with the data directory.
#[derive(Clone, Debug, Subcommand)]
pub enum Args {
    /// Show what it holds, also while a server runs
    Status {
        /// Form of the answer
        #[arg(long, default_value = "text")]
        format: Format,
    },
    /// Read and check every segment, write-ahead row, verdict and event, also while a server runs; exit status 1 when one is bad
    Verify,
    /// Write what is in memory to segments and merge small ones; the server must be stopped
    Compact,
    /// Copy it as of one instant, also while a server runs; the copy, or a copy of it, is a data directory
    #[command(visible_alias = "snapshot")]
    Backup {
        /// The copy: a directory that is empty or does not exist
        #[arg(value_name = "DIR")]
        to: PathBuf,
        /// Hard links in place of copies of segments: quick and without space, but no second copy
        #[arg(long)]
        link: bool,
    },
    /// Verify a backup and put it into an empty data directory
    Restore {
        /// The backup
        #[arg(value_name = "DIR")]
        from: PathBuf,
    },
    /// Make goodput.db again from the segments; the server must be stopped, and the old file is kept under another name
    Rebuild,
    /// List the rows of results and events that were set aside as damaged, or remove them, also while a server runs
    BadRows {
        /// Remove rows: settled (their window was judged again, or they belong to none) or all
        #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "settled")]
        remove: Option<Remove>,
    },
    /// Check a file of quarantine/ or unknown/ and put it back into the index; the server must be stopped
    Unquarantine {
        /// Its name, or the number of the segment
        #[arg(value_name = "ID|NAME")]
        name: String,
    },
}

/// Form of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Which rows to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Remove {
    /// Rows whose window was judged again, and rows that belong to no window.
    Settled,
    /// All of them.
    All,
}

/// Runs the command.
pub(super) async fn run(args: Args, config: &Config, dir: &Path) -> anyhow::Result<()> {
    match args {
        Args::Status { format: Format::Text } => print(&text(&goodput_store::status(dir).await?)),
        Args::Status { format: Format::Json } => {
            print(&(serde_json::to_string_pretty(&goodput_store::status(dir).await?)? + "\n"))
        }
        Args::Verify => verify(dir).await,
        Args::Compact => compact(config, dir).await,
        Args::Backup { to, link } => {
            let mut progress = Progress::new("copying");
            let copied = goodput_store::backup(dir, &to, link, &mut |done, all| progress.show(done, all)).await?;
            progress.clear();
            print(&format!("{}: {} segments, {} bytes\n", to.display(), copied.segments, copied.bytes))
        }
        Args::Restore { from } => {
            let mut progress = Progress::new("restoring");
            let restored = goodput_store::restore(&from, dir, &mut |done, all| progress.show(done, all)).await?;
            progress.clear();
            print(&format!("{}: {} segments, {} samples in them\n", dir.display(), restored.segments, restored.samples))
        }
        Args::Rebuild => rebuild(dir).await,
        Args::BadRows { remove } => bad_rows(dir, remove).await,
        Args::Unquarantine { name } => {
            let (path, samples) = goodput_store::unquarantine(dir, &name).await?;
            print(&format!(
                "{}: {samples} samples are served again; `classify` judges their hours again\n",
                path.display()
            ))
        }
    }
}

async fn verify(dir: &Path) -> anyhow::Result<()> {
    let mut progress = Progress::new("reading");
    let found = goodput_store::verify(dir, &mut |done, all| progress.show(done, all)).await?;
    progress.clear();
    let mut out = String::new();
    for problem in found.problems.iter().chain(&found.bad_rows) {
        let _ = writeln!(out, "{}: {}", problem.path.display(), problem.reason);
    }
    let (segments, samples, rows) = (found.segments, found.samples, found.write_ahead);
    let _ = writeln!(out, "{segments} segments with {samples} samples are good; {rows} write-ahead rows were read");
    print(&out)?;
    match found.problems.len() + found.bad_rows.len() {
        0 => Ok(()),
        problems => bail!("{}: {problems} bad", dir.display()),
    }
}

async fn bad_rows(dir: &Path, remove: Option<Remove>) -> anyhow::Result<()> {
    let mut out = String::new();
    if let Some(remove) = remove {
        let which = match remove {
            Remove::Settled => Which::Settled,
            Remove::All => Which::All,
        };
        let removed = goodput_store::remove_bad_rows(dir, which).await?;
        let _ = writeln!(out, "{removed} rows removed");
    }
    let rows = goodput_store::bad_rows(dir).await?;
    for row in &rows {
        let _ = writeln!(out, "{}\n  {}", described(row), row.content);
    }
    let unsettled: Vec<_> =
        rows.iter().filter(|row| row.judged_ms.is_none()).filter_map(|row| row.start_ms.zip(row.end_ms)).collect();
    let _ = writeln!(out, "{} rows are set aside", rows.len());
    if let (Some(start), Some(end)) = (unsettled.iter().map(|w| w.0).min(), unsettled.iter().map(|w| w.1).max()) {
        let _ = writeln!(
            out,
            "{} of them belong to hours from {} to {} that were not judged again; the next start of `serve` does it while \
             their samples are there",
            unsettled.len(),
            shown(start),
            shown(end)
        );
    }
    print(&out)
}

fn described(row: &RowAside) -> String {
    let window = match (row.start_ms, row.end_ms, row.judged_ms) {
        (None, _, _) | (_, None, _) => String::new(),
        (Some(start), Some(end), None) => format!("; {} to {} was not judged again", shown(start), shown(end)),
        (Some(start), Some(end), Some(_)) => format!("; {} to {} was judged again", shown(start), shown(end)),
    };
    format!("row {} of {}, found {}: {}{window}", row.place, row.name, shown(row.found_ms), row.reason)
}

async fn rebuild(dir: &Path) -> anyhow::Result<()> {
    let mut progress = Progress::new("indexing");
    let rebuilt = goodput_store::rebuild(dir, &mut |done, all| progress.show(done, all)).await?;
    progress.clear();
    let mut out = String::new();
    for Problem { path, reason } in &rebuilt.unknown {
        let _ = writeln!(out, "{}: not indexed: {reason}", path.display());
    }
    let Rebuilt { segments, samples, series, .. } = rebuilt;
    let _ = writeln!(out, "{}: {segments} segments, {samples} samples in them, {series} series", dir.display());
    let verdicts = match rebuilt.kept_verdicts {
        true => "verdicts and the write-ahead are those of the old database",
        false => "there are no verdicts; `classify` judges the samples again",
    };
    let _ = writeln!(out, "{verdicts}");
    if let Some(old) = &rebuilt.old {
        let _ = writeln!(out, "the old database is {}", old.display());
    }
    print(&out)
}

async fn compact(config: &Config, dir: &Path) -> anyhow::Result<()> {
    goodput_store::status(dir).await?;
    let store = Store::open(config.store_options(dir)).await?;
    let before = store.stats();
    let mut progress = Progress::new("merging");
    let merged = async {
        store.flush().await?;
        let mut done = 0;
        while let Some(compacted) = store.compact().await? {
            done += compacted.bytes;
            progress.show(done.min(before.segment_bytes), before.segment_bytes);
        }
        Ok::<_, goodput_store::StoreError>(())
    };
    let merged = merged.await;
    progress.clear();
    let after = store.stats();
    store.close().await;
    merged?;
    let of = |stats: &goodput_store::Stats| format!("{} segments of {} bytes", stats.segments, stats.segment_bytes);
    let until = goodput_store::untouched_until(dir).and_then(|until| Timestamp::try_from(until).ok());
    let untouched = until.map_or(String::new(), |until| {
        format!("segments were absent at a start: nothing is merged before {until:.0}\n")
    });
    print(&format!("{} became {}\n{untouched}", of(&before), of(&after)))
}

/// A bar on the terminal's standard error, for what takes longer than [`PATIENCE`].
struct Progress {
    bar: ProgressBar,
    since: Instant,
}

impl Progress {
    fn new(what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        Self { bar: bar.with_style(style.unwrap_or(ProgressStyle::default_bar())), since: Instant::now() }
    }

    fn show(&mut self, done: u64, all: u64) {
        if self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn text(status: &Status) -> String {
    let mut out = String::new();
    let mut row = |name: &str, count: u64, what: String| {
        let _ = writeln!(out, "{name:<14} {count:>14}  {what}");
    };
    let segments = &status.segments;
    row("series", status.series, String::new());
    row("segments", segments.count, format!("{} bytes", segments.bytes));
    row("samples", segments.samples, span(segments.first_ms, segments.last_ms));
    row("write-ahead", status.write_ahead.rows, format!("{} bytes, not in segments yet", status.write_ahead.bytes));
    for verdicts in &status.verdicts {
        row(verdicts.name, verdicts.rows, span(verdicts.first_ms, verdicts.last_ms));
    }
    row("quarantine", status.quarantine.len() as u64, String::new());
    row("unknown", status.unknown_files, "files in unknown/".to_owned());
    row("missing", status.missing_samples, "acknowledged samples that starts did not find".to_owned());
    row("bad rows", status.bad_rows.len() as u64, String::new());
    let _ = writeln!(out, "{:<14} {:>14}  schema {}", "database", status.database_bytes, status.schema);
    if let Some(raw_from) = status.raw_from_ms {
        let _ = writeln!(out, "samples before {} have been removed by retention", shown(raw_from));
    }
    for name in &status.absent_segments {
        let _ = writeln!(out, "segments/{name} is in the index, and its file is absent");
    }
    for aside in &status.quarantine {
        let _ = writeln!(out, "quarantine/{}, found {}: {}", aside.name, shown(aside.found_ms), aside.reason);
    }
    for row in &status.bad_rows {
        let _ = writeln!(out, "{}", described(row));
    }
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn span(first: Option<TimeMs>, last: Option<TimeMs>) -> String {
    first.zip(last).map_or(String::new(), |(first, last)| format!("{} to {}", shown(first), shown(last)))
}
