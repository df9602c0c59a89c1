//! `backfill`: history from a Prometheus, or whatever answers as one.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::connection::{ConnectionArgs, Pull};
use super::history::{History, JudgeArgs};
use crate::config::Config;
use crate::report::Period;
use goodput_engine::{Engine, Partial, Reader};
use goodput_exposition::sample::TimeMs;
use goodput_rules::signal;
use goodput_verdict::HOUR_MS;

/// One metric is asked for over so long at once; progress is noted after as much of all metrics.
const STEP_MS: i64 = HOUR_MS;

/// What `backfill` pulls, and from where.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The server, such as http://prometheus:9090: what stands before /api/v1/
    #[arg(long, visible_alias = "prometheus", value_name = "URL")]
    pub url: String,
    /// From: a date, a local time or one with offset, on a full hour
    #[arg(long, visible_alias = "since", value_name = "TIME")]
    pub start: String,
    /// To (exclusive)
    #[arg(long, visible_alias = "until", value_name = "TIME")]
    pub end: String,
    /// Label that series get which have none of that name, as external labels do; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub labels: Vec<(String, String)>,
    /// How to reach it, and what to take
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Whether it is judged
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Pulls, stores, says what became of it and judges it.
pub(super) async fn run(config: Config, dir: &Path, args: Args) -> anyhow::Result<()> {
    let period = Period::between(&args.start, &args.end, &config.zone)?;
    let range = period.start_ms..period.end_ms;
    let begun = Progress::begun(dir, &args, &range)?;
    let engine = args.connection.engine(&args.url)?;
    let engine = args.connection.with_reader(engine, begun.as_ref().map(Done::reader)).await?;
    let mut history = History::open(&config, dir).await?;
    let progress = Progress::from(dir, begun.unwrap_or_else(|| Done::begin(&args, &range, engine.reader())));
    let pulled = pull(&config, &args, (progress, range), &engine, &mut history).await;
    history.close().await?;
    super::print(&history.account())?;
    let incomplete = pulled.context("what came before this is stored; the same command goes on from there")?;
    if let Some(incomplete) = incomplete {
        super::print(&incomplete)?;
    }
    // All of it: hours that an earlier run of the same command stored are not judged yet.
    args.judge.run(config, dir, &period.start, &period.end).await
}

async fn pull(
    config: &Config,
    args: &Args,
    (mut progress, range): (Progress, Range<TimeMs>),
    engine: &Engine,
    history: &mut History,
) -> anyhow::Result<Option<String>> {
    let configured = |name: &str| config.application.iter().any(|counter| counter.metric == name);
    let there = engine.metrics(&range).await?;
    let metrics: Vec<&String> = there.iter().filter(|name| signal::is_known(name) || configured(name)).collect();
    if metrics.is_empty() {
        bail!("{}: none of its {} metrics of that time is one that signals use", args.url, there.len());
    }
    let metrics = metrics.into_iter().cloned().collect();
    let pull = Pull {
        engine,
        metrics,
        matchers: &args.connection.matchers,
        labels: &args.labels,
        replica_labels: &config.ingest.replicas.labels,
    };
    // A list of metrics that is not whole may lack one in every piece.
    let is_list_partial = engine.partial().answers > 0;
    let bar = progress_bar(args, range.end - progress.done.until_ms);
    let again = progress.done.partial.clone().into_iter().map(|(start, end)| start..end);
    for part in again.chain(steps(progress.done.until_ms..range.end)) {
        let before = engine.partial().answers;
        pull.part(&part, history, |_| Ok(())).await?;
        progress.note(&part, !is_list_partial && engine.partial().answers == before)?;
        bar.inc((part.end - part.start).unsigned_abs());
    }
    bar.finish_and_clear();
    progress.finish(&engine.partial())
}

/// The pieces of a range.
fn steps(range: Range<TimeMs>) -> impl Iterator<Item = Range<TimeMs>> {
    let Range { start, end } = range;
    let starts =
        std::iter::successors(Some(start), |start| Some(start + STEP_MS)).take_while(move |start| *start < end);
    starts.map(move |start| start..(start + STEP_MS).min(end))
}

/// How far a backfill has come, in a file of the data directory while it is not at its end.
struct Progress {
    path: PathBuf,
    done: Done,
}

/// What was asked for, and how much of it is stored.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    url: String,
    matchers: Vec<String>,
    labels: Vec<(String, String)>,
    start_ms: TimeMs,
    end_ms: TimeMs,
    until_ms: TimeMs,
    /// Pieces before `until_ms` that the server answered in part: they are asked for again.
    #[serde(default)]
    partial: Vec<(TimeMs, TimeMs)>,
    /// How samples are read: by another reader the rest would be series of other labels. Earlier releases had one alone.
    #[serde(default = "promql")]
    reader: String,
}

fn promql() -> String {
    Reader::Promql.name().to_owned()
}

impl Progress {
    /// How far the same backfill came before, if it ended before its end. One that asks for something else begins at its
    /// start.
    fn begun(dir: &Path, args: &Args, range: &Range<TimeMs>) -> anyhow::Result<Option<Done>> {
        let path = path(dir);
        let noted: Option<Done> = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(noted.filter(|noted| noted.is_of(&Done::begin(args, range, Reader::Promql))))
    }

    /// Goes on from there.
    fn from(dir: &Path, done: Done) -> Self {
        Self { path: path(dir), done }
    }

    /// All samples of the piece are stored, or a part of them.
    fn note(&mut self, piece: &Range<TimeMs>, is_whole: bool) -> anyhow::Result<()> {
        let key = (piece.start, piece.end);
        self.done.partial.retain(|partial| *partial != key);
        if !is_whole {
            self.done.partial.push(key);
        }
        self.done.until_ms = self.done.until_ms.max(piece.end);
        let temporary = self.path.with_extension("tmp");
        let written = fs::write(&temporary, serde_json::to_vec(&self.done)?);
        written
            .and_then(|()| fs::rename(&temporary, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Forgets the progress unless pieces are partial; then says which.
    fn finish(self, partial: &Partial) -> anyhow::Result<Option<String>> {
        let pieces = self.done.partial.len();
        if pieces > 0 {
            let after = format!("; {pieces} pieces are not marked as done, the same command asks for them again");
            return Ok(Some(partial.summary(&after)));
        }
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
        Ok(None)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("backfill.json")
}

impl Done {
    /// Nothing yet.
    fn begin(args: &Args, range: &Range<TimeMs>, reader: Reader) -> Self {
        Self {
            url: args.url.clone(),
            matchers: args.connection.matchers.clone(),
            labels: args.labels.clone(),
            start_ms: range.start,
            end_ms: range.end,
            until_ms: range.start,
            partial: Vec::new(),
            reader: reader.name().to_owned(),
        }
    }

    fn reader(&self) -> Reader {
        Reader::ALL.into_iter().find(|reader| reader.name() == self.reader).unwrap_or(Reader::Promql)
    }

    /// Was the same asked for?
    fn is_of(&self, asked: &Done) -> bool {
        let of =
            |done: &Done| (done.url.clone(), done.matchers.clone(), done.labels.clone(), done.start_ms, done.end_ms);
        of(self) == of(asked)
    }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| "expected NAME=VALUE".to_owned())
}

/// Shown on a terminal only; goes to standard error.
fn progress_bar(args: &Args, ms: i64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(ms.unsigned_abs()).with_style(style).with_message(args.url.clone())
}
