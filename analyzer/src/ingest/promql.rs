//! Raw samples from anything with Prometheus' HTTP API: a range selector at an instant returns samples as they are stored.
//!
//! Prometheus before release 3 counts a sample at the start of the range in, later releases and VictoriaMetrics do not;
//! what lies outside is dropped here. None of them shows staleness markers that way, nor the bits of a NaN. Native
//! histograms are left out: no signal is one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tracing::warn;

use crate::sample::{Batch, Labels, Sample, Series, TimeMs};
use crate::signal::matcher_of;

/// A larger answer is asked for in two halves: about 3 million samples.
const ANSWER_BYTES: usize = 64 << 20;
/// What a server cannot answer for so short a time it cannot answer at all.
const SHORTEST_MS: i64 = 60_000;
/// Prometheus gives a query up after 2 minutes by default (`--query.timeout`).
const TIMEOUT: Duration = Duration::from_secs(150);
/// Characters of a foreign answer that an error shows.
const EXCERPT: usize = 200;
/// Attempts at what may be mended by itself, and the pause before the second; it doubles.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No answer came, or only part of one.
    #[error("{url}: {error}")]
    Http {
        /// The address.
        url: String,
        /// What failed.
        error: reqwest::Error,
    },
    /// An answer that says no.
    #[error("{url}: status {status}: {reason}")]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// What the server says.
        reason: String,
    },
    /// The server wants to know who asks, or does not let them.
    #[error(
        "{url}: status {status}: {reason}; the server {}: see --user, --bearer-token-file, --cert-file and --tenant",
        if *.status == StatusCode::FORBIDDEN { "does not allow this" } else { "wants credentials, or others" }
    )]
    Refused {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// What the server says.
        reason: String,
    },
    /// More than is taken at once, even for a short time.
    #[error("{url}: {what} in one minute: {reason}; a narrower --match asks for less at once")]
    TooMuch {
        /// The address.
        url: String,
        /// What was asked for.
        what: String,
        /// What the server says, or which limit it is.
        reason: String,
    },
    /// Not what the API is documented to answer.
    #[error("{url}: expected the answer of Prometheus' HTTP API below what stands before /api/v1/: {reason}")]
    Content {
        /// The address.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// A server to pull from.
#[derive(Debug)]
pub struct Server {
    client: reqwest::Client,
    base: String,
    headers: HeaderMap,
}

impl Server {
    /// `base` is what stands before `/api/v1/…`; the headers are sent with every request.
    #[must_use]
    pub fn new(client: reqwest::Client, base: &str, headers: HeaderMap) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), headers }
    }

    /// Does it answer as a Prometheus does? Asked once: a wrong address does not become right by waiting.
    pub async fn greet(&self) -> Result<(), PullError> {
        let path = "query?query=1";
        let body = self.once(path).await?;
        self.data(path, &body).map(|Greeting { .. }| ())
    }

    /// The names of all metrics that it has within the range.
    pub async fn metrics(&self, range: &Range<TimeMs>) -> Result<Vec<String>, PullError> {
        self.values_of("__name__", range).await
    }

    /// The values of a label within the range.
    pub async fn values_of(&self, label: &str, range: &Range<TimeMs>) -> Result<Vec<String>, PullError> {
        let path = format!("label/{label}/values?start={}&end={}", seconds(range.start), seconds(range.end));
        self.get(&path).await
    }

    /// How many samples of the metric lie in so many milliseconds before each of some times, a step apart; times without
    /// any are left out. Of a server that shifts such times, as VictoriaMetrics does, near to them.
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
        let found: Found = self.get(&format!("query_range?query={query}&start={start}&end={end}&step={step}")).await?;
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
        let found: Found = self.get(&path).await.map_err(|error| match error {
            PullError::TooMuch { url, reason, .. } => PullError::TooMuch { url, what: selector.clone(), reason },
            other => other,
        })?;
        if found.result_type != "matrix" {
            let reason = format!("{selector} has a {}, not a matrix", found.result_type);
            return Err(PullError::Content { url: self.url("query"), reason });
        }
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

    /// What the API answers, after as many attempts as it takes.
    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, PullError> {
        let (mut pause, mut left) = (PAUSE, ATTEMPTS - 1);
        let body = loop {
            match self.once(path).await {
                Err(error) if left > 0 && is_passing(&error) => {
                    warn!(%error, pause_ms = pause.as_millis(), "asking again");
                    tokio::time::sleep(pause).await;
                    (pause, left) = (pause * 2, left - 1);
                }
                answer => break answer?,
            }
        };
        self.data(path, &body)
    }

    fn data<T: serde::de::DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, PullError> {
        let wrong = |reason| PullError::Content { url: self.url(path), reason };
        let answer: Answer<T> = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        answer.data.ok_or_else(|| wrong("there is no data in it".to_owned()))
    }

    async fn once(&self, path: &str) -> Result<Vec<u8>, PullError> {
        let url = self.url(path);
        let http = |error: reqwest::Error| PullError::Http { url: url.clone(), error: error.without_url() };
        let request = self.client.get(&url).headers(self.headers.clone()).timeout(TIMEOUT);
        let mut response = request.send().await.map_err(http)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(http)? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                let reason = format!("an answer of more than {ANSWER_BYTES} bytes");
                return Err(PullError::TooMuch { url, what: String::new(), reason });
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let told: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let is_answer = told.error.is_some();
        let reason = told.error.unwrap_or_else(|| excerpt(&body));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(PullError::Refused { url, status, reason });
        }
        // Prometheus: 422 beyond --query.max-samples, 503 with this type beyond --query.timeout. VictoriaMetrics: 422.
        let too_much = status == StatusCode::UNPROCESSABLE_ENTITY || told.error_type.as_deref() == Some("timeout");
        if too_much {
            return Err(PullError::TooMuch { url, what: String::new(), reason });
        }
        if status == StatusCode::NOT_FOUND && !is_answer {
            return Err(PullError::Content { url, reason: format!("status {status}: {reason}") });
        }
        Err(PullError::Status { url, status, reason })
    }
}

/// The metric's series that match, as a selector.
fn series_of(metric: &str, matchers: &[String]) -> String {
    let matchers: Vec<&str> = matchers.iter().map(String::as_str).chain(matcher_of(metric)).collect();
    format!("{metric}{{{}}}", matchers.join(","))
}

/// The beginning of what is not the API's answer, on one line.
fn excerpt(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(EXCERPT).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// May the same request succeed a little later?
fn is_passing(error: &PullError) -> bool {
    match error {
        PullError::Http { .. } => true,
        PullError::Status { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
        PullError::Refused { .. } | PullError::TooMuch { .. } | PullError::Content { .. } => false,
    }
}

/// Seconds with a fraction, exact to the millisecond.
fn seconds(time: TimeMs) -> String {
    let mut text = String::new();
    let _ = write!(text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
    text
}

#[derive(Deserialize)]
struct Answer<T> {
    data: Option<T>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refusal {
    error: Option<String>,
    error_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    result_type: String,
    result: Vec<Row>,
}

/// What every answer to a query has, whatever its type.
#[derive(Deserialize)]
struct Greeting {
    #[serde(rename = "resultType")]
    _result_type: String,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
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
