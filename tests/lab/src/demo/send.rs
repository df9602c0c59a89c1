//! From exposition text to the analyzer: what its scraper would have made of it, by remote write.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use goodput_analyzer::ingest::scrape::{Seen, Target, succeeded};
use goodput_analyzer::ingest::{Limits, Rules};
use goodput_exposition::Format;
use goodput_exposition::sample::{Labels, Sample};

use crate::remote_write::{Label, Sample as Point, TimeSeries, WriteRequest};

/// Samples of one request: well below what the analyzer takes at once, and enough steps that a series' labels are sent
/// once for dozens of samples.
const REQUEST_SAMPLES: usize = 120_000;

/// How long the analyzer may take for a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends the scrapes of one exporter.
pub struct Sender {
    url: String,
    agent: ureq::Agent,
    target: Target,
    limits: Limits,
    seen: Seen,
    pending: HashMap<Labels, Vec<Sample>>,
    waiting: usize,
    /// Samples that the analyzer has taken.
    pub sent: u64,
}

impl Sender {
    /// To this analyzer, under the labels that its own scraper gives the exporter.
    #[must_use]
    pub fn new(analyzer: SocketAddr, job: &str, exporter: SocketAddr) -> Self {
        let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build();
        Self {
            url: format!("http://{analyzer}/api/v1/write"),
            agent: agent.into(),
            target: Target::new(job, &exporter.to_string()),
            limits: Limits::default(),
            seen: Seen::default(),
            pending: HashMap::new(),
            waiting: 0,
            sent: 0,
        }
    }

    /// Takes one scrape; sends when enough have come together.
    ///
    /// # Errors
    /// When the text is none, or the analyzer does not take the samples.
    pub fn add(&mut self, text: &str, at: SystemTime) -> Result<()> {
        let at_ms = i64::try_from(at.duration_since(UNIX_EPOCH)?.as_millis())?;
        let rules = Rules::of_all(&self.limits);
        let read = succeeded(text, Format::OpenMetrics, &rules, &self.target, at_ms, &mut self.seen);
        let (batch, skipped) = read.context("the history's text")?;
        if let Some((metric, named)) = skipped.named().next() {
            bail!("the history's text: {metric}: {}", named.fault.detail);
        }
        for series in batch {
            self.waiting += series.samples.len();
            self.pending.entry(series.labels).or_default().extend(series.samples);
        }
        if self.waiting >= REQUEST_SAMPLES { self.flush() } else { Ok(()) }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// When the analyzer does not take the samples.
    pub fn flush(&mut self) -> Result<()> {
        let timeseries = self.pending.drain().map(|(labels, samples)| time_series(&labels, &samples)).collect();
        let body = WriteRequest { timeseries }.body()?;
        let request = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/x-protobuf")
            .header("Content-Encoding", "snappy")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0");
        let mut response = request.send(&body).with_context(|| format!("cannot send history to {}", self.url))?;
        if !response.status().is_success() {
            let reason = response.body_mut().read_to_string().unwrap_or_default();
            bail!("{} refused history with status {}: {}", self.url, response.status().as_u16(), reason.trim());
        }
        self.sent += std::mem::take(&mut self.waiting) as u64;
        Ok(())
    }
}

fn time_series(labels: &Labels, samples: &[Sample]) -> TimeSeries {
    let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
    let point = |sample: &Sample| Point { value: sample.value, timestamp: sample.time_ms };
    TimeSeries { labels: labels.iter().map(label).collect(), samples: samples.iter().map(point).collect() }
}
