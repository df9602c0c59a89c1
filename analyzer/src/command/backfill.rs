//! `backfill`: history from a Prometheus, or whatever answers as one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine as _;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::history::History;
use crate::config::Config;
use crate::ingest::promql::Server;
use crate::judge::HOUR_MS;
use crate::report::Period;
use crate::sample::{Batch, Labels, Series, TimeMs};
use crate::signal;

/// One metric is asked for over so long at once; progress is noted after as much of all metrics.
const STEP_MS: i64 = HOUR_MS;

/// What `backfill` pulls, and from where.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The server, such as http://prometheus:9090: what stands before /api/v1/
    #[arg(long, value_name = "URL")]
    pub url: String,
    /// From: a date, a local time or one with offset, on a full hour
    #[arg(long, value_name = "TIME")]
    pub start: String,
    /// To (exclusive)
    #[arg(long, value_name = "TIME")]
    pub end: String,
    /// Only series that match, such as 'cluster="a"'; may be repeated
    #[arg(long = "match", value_name = "MATCHER")]
    pub matchers: Vec<String>,
    /// Label that series get which have none of that name, as external labels do; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub labels: Vec<(String, String)>,
    /// User of HTTP basic authentication
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// File with a bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub bearer_token_file: Option<PathBuf>,
    /// Certificates (PEM) of authorities to trust besides those of the system
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Client certificate and its key in one file (PEM)
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<PathBuf>,
    /// Judge the hours that the samples are of
    #[arg(long)]
    pub classify: bool,
}

/// Pulls, stores, says what became of it and, if asked, judges it.
pub(super) async fn run(config: Config, dir: &Path, args: Args) -> anyhow::Result<()> {
    let period = Period::between(&args.start, &args.end, &config.zone)?;
    let server = Server::new(client(&args)?, &args.url, authorization(&args)?);
    let mut history = History::open(&config, dir).await?;
    let pulled = pull(&config, dir, &args, &period, &server, &mut history).await;
    history.close().await?;
    super::print(&history.account())?;
    pulled.context("what came before this is stored; the same command goes on from there")?;
    if args.classify {
        return super::classify(config, dir, &period, false).await;
    }
    super::print(&history.advice(dir, &config.zone))
}

async fn pull(
    config: &Config,
    dir: &Path,
    args: &Args,
    period: &Period,
    server: &Server,
    history: &mut History,
) -> anyhow::Result<()> {
    let range = period.start_ms..period.end_ms;
    let configured = |name: &str| config.application.iter().any(|counter| counter.metric == name);
    let there = server.metrics(&range).await?;
    let metrics: Vec<&String> = there.iter().filter(|name| signal::is_known(name) || configured(name)).collect();
    if metrics.is_empty() {
        bail!("{}: none of its {} metrics of that time is one that signals use", args.url, there.len());
    }
    let mut progress = Progress::begin(dir, args, &range)?;
    let bar = progress_bar(args, range.end - progress.done.until_ms);
    while progress.done.until_ms < range.end {
        let start = progress.done.until_ms;
        let part = start..(start + STEP_MS).min(range.end);
        for metric in &metrics {
            let batch = server.samples(metric, &args.matchers, part.clone()).await?;
            history.append(labelled(batch, &args.labels)).await?;
        }
        progress.note(part.end)?;
        bar.inc((part.end - part.start).unsigned_abs());
    }
    bar.finish_and_clear();
    progress.finish()
}

fn labelled(batch: Batch, more: &[(String, String)]) -> Batch {
    let labelled = |Series { labels, samples }: Series| {
        let own = labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let new = more.iter().filter(|(name, _)| labels.get(name).is_none()).cloned();
        Series { labels: Labels::new(own.chain(new)), samples }
    };
    if more.is_empty() { batch } else { batch.into_iter().map(labelled).collect() }
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
}

impl Progress {
    /// Goes on where the same backfill ended before its end; one that asks for something else begins at its start.
    fn begin(dir: &Path, args: &Args, range: &std::ops::Range<TimeMs>) -> anyhow::Result<Self> {
        let path = dir.join("backfill.json");
        let Args { url, matchers, labels, .. } = args;
        let (url, matchers, labels) = (url.clone(), matchers.clone(), labels.clone());
        let mut done = Done { url, matchers, labels, start_ms: range.start, end_ms: range.end, until_ms: range.start };
        let noted: Option<Done> = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        if let Some(until_ms) = noted.map(|noted| noted.until_ms_of(&done)) {
            done.until_ms = until_ms;
        }
        Ok(Self { path, done })
    }

    /// Everything up to there is stored.
    fn note(&mut self, until_ms: TimeMs) -> anyhow::Result<()> {
        self.done.until_ms = until_ms;
        let temporary = self.path.with_extension("tmp");
        let written = fs::write(&temporary, serde_json::to_vec(&self.done)?);
        written
            .and_then(|()| fs::rename(&temporary, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn finish(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

impl Done {
    fn until_ms_of(self, asked: &Done) -> TimeMs {
        let until_ms = self.until_ms;
        if (Done { until_ms: asked.until_ms, ..self }) == *asked { until_ms } else { asked.until_ms }
    }
}

fn client(args: &Args) -> anyhow::Result<reqwest::Client> {
    // An error says that the process has chosen a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder().user_agent("goodput-analyzer");
    if let Some(path) = &args.ca_file {
        let found = reqwest::Certificate::from_pem_bundle(&read(path)?);
        let certificates = found.with_context(|| format!("{}: expected certificates (PEM)", path.display()))?;
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(path) = &args.cert_file {
        let found = reqwest::Identity::from_pem(&read(path)?);
        builder = builder
            .identity(found.with_context(|| format!("{}: expected a certificate and its key (PEM)", path.display()))?);
    }
    builder.build().context("cannot set up HTTP")
}

fn authorization(args: &Args) -> anyhow::Result<Option<HeaderValue>> {
    let text = match (&args.user, &args.password_file, &args.bearer_token_file) {
        (Some(user), Some(file), _) => {
            let credentials = format!("{user}:{}", secret(file)?);
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials))
        }
        (_, _, Some(file)) => format!("Bearer {}", secret(file)?),
        _ => return Ok(None),
    };
    let mut value = HeaderValue::from_str(&text).context("expected a secret without control characters")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn secret(path: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(read(path)?).with_context(|| format!("{}: expected UTF-8", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
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
