//! Raw samples from anything with Prometheus' HTTP API: a range selector at an instant returns samples as they are stored.
//!
//! Prometheus before release 3 counts a sample at the start of the range in, later releases and VictoriaMetrics do not;
//! what lies outside is dropped here. None of them shows staleness markers that way, nor the bits of a NaN. Native
//! histograms are left out: no signal is one.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;
use tracing::warn;

use answer::{Found, Greeting, Matrix, Row};
pub use error::PullError;
use error::Refusal;
use goodput_exposition::sample::{Batch, Labels, Sample, Series, TimeMs};
use goodput_rules::signal::matcher_of;

mod answer;
mod error;

/// A larger answer is asked for in two halves: about 3 million samples.
const ANSWER_BYTES: usize = 64 << 20;
/// What a server cannot answer for so short a time it cannot answer at all.
const SHORTEST_MS: i64 = 60_000;
/// Prometheus gives a query up after 2 minutes by default (`--query.timeout`).
const TIMEOUT: Duration = Duration::from_secs(150);
/// The pause before the second attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// Thanos (`partial_response`) and VictoriaMetrics (`deny_partial_response`) then refuse instead of leaving something out.
/// Other servers ignore both.
const WHOLE: &str = "partial_response=false&deny_partial_response=1";
/// The same where a part is accepted: Thanos may be configured to refuse.
const PART: &str = "partial_response=true";
/// How many partial answers are kept with the server's words; all are counted.
const MAX_PARTIAL: usize = 20;

/// A server to pull from.
#[derive(Debug)]
pub struct Server {
    client: reqwest::Client,
    base: String,
    headers: HeaderMap,
    /// Where partial answers are noted when they are accepted.
    partial: Option<Mutex<Partial>>,
}

/// Partial answers that were accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// How many.
    pub answers: u64,
    /// The first of them.
    pub first: Vec<PartialAnswer>,
}

/// One answer that was not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialAnswer {
    /// Query and time range.
    pub asked: String,
    /// What the server said.
    pub reason: String,
}

impl Partial {
    /// How many answers were partial, what comes of that, and the first of them, a line each.
    #[must_use]
    pub fn summary(&self, after: &str) -> String {
        let mut text = format!("partial: the server left something out of {} answers{after}\n", self.answers);
        for PartialAnswer { asked, reason } in &self.first {
            let _ = writeln!(text, "  {asked}: {reason}");
        }
        text
    }
}

impl Server {
    /// `base` is what stands before `/api/v1/…`; the headers are sent with every request.
    #[must_use]
    pub fn new(client: reqwest::Client, base: &str, headers: HeaderMap) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), headers, partial: None }
    }

    /// The same server, with partial answers accepted and noted.
    #[must_use]
    pub fn allowing_partial(self, allow: bool) -> Self {
        Self { partial: allow.then(Mutex::default), ..self }
    }

    /// The partial answers so far.
    #[must_use]
    pub fn partial(&self) -> Partial {
        self.partial.as_ref().map(|partial| partial.lock().clone()).unwrap_or_default()
    }

    /// Does it answer as a Prometheus does? Asked once: a wrong address does not become right by waiting.
    pub async fn greet(&self) -> Result<(), PullError> {
        self.once("query?query=1", "the query 1").await.map(|Greeting { .. }| ())
    }

    /// The names of all metrics that it has within the range.
    pub async fn metrics(&self, range: &Range<TimeMs>) -> Result<Vec<String>, PullError> {
        self.values_of("__name__", range).await
    }

    /// The values of a label within the range.
    pub async fn values_of(&self, label: &str, range: &Range<TimeMs>) -> Result<Vec<String>, PullError> {
        let path = format!("label/{label}/values?start={}&end={}", seconds(range.start), seconds(range.end));
        self.get(&path, &format!("values of the label {label} {}", shown(range))).await
    }

    /// How many samples of the metric lie in the `window_ms` milliseconds before each of some times, a step apart;
    /// times without any are left out. Of a server that shifts such times, as VictoriaMetrics does, near to them.
    pub async fn counts(
        &self,
        metric: &str,
        matchers: &[String],
        window_ms: i64,
        (times, step_ms): (Range<TimeMs>, i64),
    ) -> Result<Vec<(TimeMs, f64)>, PullError> {
        let promql = format!("sum(count_over_time({}[{window_ms}ms]))", series_of(metric, matchers));
        let query = utf8_percent_encode(&promql, NON_ALPHANUMERIC);
        let (start, end, step) = (seconds(times.start), seconds(times.end), seconds(step_ms));
        let asked = format!("{promql} {}", shown(&times));
        let path = format!("query_range?query={query}&start={start}&end={end}&step={step}");
        let found = self.matrix(&path, &promql, &asked).await?;
        let rows = found.result.into_iter().flat_map(|row| row.values);
        rows.map(|(seconds, count)| self.sample("query_range", &promql, seconds, &count)).collect()
    }

    /// All samples of a metric within the range, of series that match (`label="value"`, as in a selector).
    pub async fn samples(&self, metric: &str, matchers: &[String], range: Range<TimeMs>) -> Result<Batch, PullError> {
        let mut batch = Batch::default();
        let mut parts = vec![range];
        while let Some(part) = parts.pop() {
            let middle = part.start + (part.end - part.start) / 2;
            match self.part(metric, matchers, &part).await {
                Ok(series) => series.iter().for_each(|s| batch.push(s.labels.as_ref(), &s.samples)),
                Err(PullError::TooMuch { .. }) if part.end - part.start > SHORTEST_MS => {
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(batch)
    }

    async fn part(&self, metric: &str, matchers: &[String], part: &Range<TimeMs>) -> Result<Vec<Series>, PullError> {
        // The range ends with the instant: the last millisecond that is wanted.
        let selector = format!("{}[{}ms]", series_of(metric, matchers), part.end - part.start);
        let query = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
        let path = format!("query?query={query}&time={}", seconds(part.end - 1));
        let found = self.matrix(&path, &selector, &format!("{selector} {}", shown(part))).await?;
        let mut series = Vec::with_capacity(found.result.len());
        for Row { metric, values } in found.result {
            let mut samples = Vec::with_capacity(values.len());
            for (seconds, value) in values {
                let (time_ms, value) = self.sample("query", &selector, seconds, &value)?;
                if part.contains(&time_ms) {
                    samples.push(Sample { time_ms, value });
                }
            }
            series.push(Series { labels: Labels::new(metric), samples });
        }
        Ok(series)
    }

    fn sample(&self, path: &str, query: &str, seconds: f64, value: &str) -> Result<(TimeMs, f64), PullError> {
        let wrong = |_| PullError::Content { url: self.url(path), reason: format!("{query}: {value:?} is no number") };
        Ok(((seconds * 1000.0).round() as TimeMs, value.parse().map_err(wrong)?))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.base)
    }

    /// The answer to a query that gives a matrix.
    async fn matrix(&self, path: &str, query: &str, asked: &str) -> Result<Matrix, PullError> {
        let found: Matrix = self.get(path, asked).await?;
        if found.result_type == "matrix" {
            return Ok(found);
        }
        let reason = format!("{query} has a {}, not a matrix", found.result_type);
        Err(PullError::Content { url: self.url("query"), reason })
    }

    /// What the API answers, after as many attempts as the error is worth. `asked` is query and time range, for errors.
    async fn get<T: DeserializeOwned>(&self, path: &str, asked: &str) -> Result<T, PullError> {
        let (mut pause, mut attempt) = (PAUSE, 1);
        loop {
            match self.once(path, asked).await {
                Err(error) if attempt < error.attempts() => {
                    warn!(%error, pause_ms = pause.as_millis(), "asking again");
                    tokio::time::sleep(pause).await;
                    (pause, attempt) = (pause * 2, attempt + 1);
                }
                answer => return answer,
            }
        }
    }

    async fn once<T: DeserializeOwned>(&self, path: &str, asked: &str) -> Result<T, PullError> {
        let url = self.url(path);
        let (status, body) = self.body(&url, asked).await?;
        let Found { data, partial } = answer::read(&url, asked, &body)?;
        let cut = (status == StatusCode::PARTIAL_CONTENT).then(|| format!("status {status}"));
        let Some(reason) = partial.or(cut) else { return Ok(data) };
        let Some(noted) = &self.partial else {
            return Err(PullError::Partial { url, asked: asked.to_owned(), reason });
        };
        warn!(asked, reason, "partial answer");
        let mut noted = noted.lock();
        noted.answers += 1;
        if noted.first.len() < MAX_PARTIAL {
            noted.first.push(PartialAnswer { asked: asked.to_owned(), reason });
        }
        Ok(data)
    }

    /// Status and body of an answer with data.
    async fn body(&self, url: &str, asked: &str) -> Result<(StatusCode, Vec<u8>), PullError> {
        let manner = if self.partial.is_some() { PART } else { WHOLE };
        let whole = format!("{url}{}{manner}", if url.contains('?') { '&' } else { '?' });
        let request = self.client.get(whole).headers(self.headers.clone()).timeout(TIMEOUT);
        let mut response = request.send().await.map_err(|error| PullError::unanswered(url.to_owned(), error))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| PullError::cut(url.to_owned(), error))? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                let reason = format!("an answer of more than {ANSWER_BYTES} bytes");
                return Err(PullError::TooMuch { url: url.to_owned(), asked: asked.to_owned(), reason });
            }
            body.extend_from_slice(&chunk);
        }
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok((status, body)),
            status if status.is_success() => {
                Err(PullError::Content { url: url.to_owned(), reason: format!("status {status}, expected 200 OK") })
            }
            status => {
                let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
                Err(refusal.of(url.to_owned(), asked, status, &body))
            }
        }
    }
}

/// The metric's series that match, as a selector.
fn series_of(metric: &str, matchers: &[String]) -> String {
    let matchers: Vec<&str> = matchers.iter().map(String::as_str).chain(matcher_of(metric)).collect();
    format!("{metric}{{{}}}", matchers.join(","))
}

/// A time range in words.
fn shown(range: &Range<TimeMs>) -> String {
    let show = |time| Timestamp::from_millisecond(time).map_or_else(|_| time.to_string(), |time| time.to_string());
    format!("from {} to {}", show(range.start), show(range.end))
}

/// Seconds with a fraction, exact to the millisecond.
fn seconds(time: TimeMs) -> String {
    let mut text = String::new();
    let _ = write!(text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_pods_those_of_jobs_alone_are_asked_for() {
        let matchers = ["cluster=\"a\"".to_owned()];
        assert_eq!(series_of("up", &matchers), "up{cluster=\"a\"}");
        let pods = "kube_pod_owner{cluster=\"a\",owner_kind=~\".*Job|JobSet\"}";
        assert_eq!(series_of("kube_pod_owner", &matchers), pods);
    }
}
