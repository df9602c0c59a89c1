//! Prometheus' HTTP API: what names there are, how many samples, and raw samples from anything that speaks PromQL. A range
//! selector at an instant returns samples as they are stored.
//!
//! Prometheus before release 3 counts a sample at the start of the range in, later releases and VictoriaMetrics do not;
//! what lies outside is dropped here. Prometheus shows no staleness markers that way, VictoriaMetrics shows them as NaN, and
//! neither shows the bits of a NaN. Native histograms are left out: no signal is one.

mod answer;

use std::fmt::Write as _;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;

use crate::ReadError;
use crate::http::{Asked, Http};
use crate::partial::Noted;
use crate::retry::again;
use answer::{Found, Greeting, Matrix, Row};

/// Thanos (`partial_response`) and VictoriaMetrics (`deny_partial_response`) then refuse instead of leaving something out,
/// and Thanos answers with raw samples (`max_source_resolution`). Other servers ignore all of it.
const WHOLE: &str = "partial_response=false&deny_partial_response=1&max_source_resolution=0s";
/// The same where a part is accepted: Thanos may be configured to refuse.
const PART: &str = "partial_response=true&max_source_resolution=0s";

/// The API of one server.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) http: Http,
    /// Where partial answers are noted when they are accepted.
    pub(crate) noted: Option<Noted>,
}

impl Api {
    /// Does it answer as a Prometheus does? Asked once: a wrong address does not become right by waiting.
    pub(crate) async fn greet(&self) -> Result<(), ReadError> {
        self.once("query?query=1", "the query 1").await.map(|Greeting { .. }| ())
    }

    /// The values of a label within the range.
    pub(crate) async fn values_of(&self, label: &str, range: &Range<TimeMs>) -> Result<Vec<String>, ReadError> {
        let path = format!("label/{label}/values?start={}&end={}", seconds(range.start), seconds(range.end));
        let what = format!("values of the label {label} {}", shown(range));
        again(|| self.once(&path, &what)).await
    }

    /// How many samples of the metric lie in the `window_ms` milliseconds before each of some times, a step apart;
    /// times without any are left out. Of a server that shifts such times, as VictoriaMetrics does, near to them.
    pub(crate) async fn counts(
        &self,
        metric: &str,
        matchers: &[String],
        window_ms: i64,
        (times, step_ms): (Range<TimeMs>, i64),
    ) -> Result<Vec<(TimeMs, f64)>, ReadError> {
        let promql = format!("sum(count_over_time({}[{window_ms}ms]))", series_of(metric, matchers));
        let query = utf8_percent_encode(&promql, NON_ALPHANUMERIC);
        let (start, end, step) = (seconds(times.start), seconds(times.end), seconds(step_ms));
        let asked = format!("{promql} {}", shown(&times));
        let path = format!("query_range?query={query}&start={start}&end={end}&step={step}");
        let found = again(|| self.matrix(&path, &promql, &asked)).await?;
        let rows = found.result.into_iter().flat_map(|row| row.values);
        rows.map(|(seconds, count)| self.sample("query_range", &promql, seconds, &count)).collect()
    }

    /// The samples of a metric in the range, of series that match; one attempt.
    pub(crate) async fn part(
        &self,
        metric: &str,
        matchers: &[String],
        part: &Range<TimeMs>,
    ) -> Result<Vec<Series>, ReadError> {
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

    fn sample(&self, path: &str, query: &str, seconds: f64, value: &str) -> Result<(TimeMs, f64), ReadError> {
        let wrong =
            |_| ReadError::Content { url: self.http.url(path), reason: format!("{query}: {value:?} is no number") };
        Ok(((seconds * 1000.0).round() as TimeMs, value.parse().map_err(wrong)?))
    }

    /// The answer to a query that gives a matrix.
    async fn matrix(&self, path: &str, query: &str, asked: &str) -> Result<Matrix, ReadError> {
        let found: Matrix = self.once(path, asked).await?;
        if found.result_type == "matrix" {
            return Ok(found);
        }
        let reason = format!("{query} has a {}, not a matrix", found.result_type);
        Err(ReadError::Content { url: self.http.url("query"), reason })
    }

    /// What the API answers to one attempt. `what` is query and time range, for errors.
    async fn once<T: DeserializeOwned>(&self, path: &str, what: &str) -> Result<T, ReadError> {
        let url = self.http.url(path);
        let asked = Asked { url: &url, what };
        let manner = if self.noted.is_some() { PART } else { WHOLE };
        let joint = if url.contains('?') { '&' } else { '?' };
        let mut response = self.http.get(&format!("{url}{joint}{manner}"), HeaderMap::new()).await?;
        let status = response.status();
        let body = asked.body(&mut response).await?;
        if !matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
            return Err(asked.refusal(status, &body));
        }
        let Found { data, partial } = answer::read(&url, what, &body)?;
        let cut = (status == StatusCode::PARTIAL_CONTENT).then(|| format!("status {status}"));
        let Some(reason) = partial.or(cut) else { return Ok(data) };
        let Some(noted) = &self.noted else {
            return Err(ReadError::Partial { url, asked: what.to_owned(), reason });
        };
        noted.add(what, reason);
        Ok(data)
    }
}

/// The metric's series that match, as a selector.
pub(crate) fn series_of(metric: &str, matchers: &[String]) -> String {
    format!("{metric}{{{}}}", matchers.join(","))
}

/// A time range in words.
pub(crate) fn shown(range: &Range<TimeMs>) -> String {
    let show = |time| Timestamp::from_millisecond(time).map_or_else(|_| time.to_string(), |time| time.to_string());
    format!("from {} to {}", show(range.start), show(range.end))
}

/// Seconds with a fraction, exact to the millisecond.
pub(crate) fn seconds(time: TimeMs) -> String {
    let mut text = String::new();
    let _ = write!(text, "{}.{:03}", time.div_euclid(1000), time.rem_euclid(1000));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_has_all_matchers_and_times_are_exact() {
        let matchers = ["cluster=\"a\"", "job=~\"x|y\""].map(str::to_owned);
        assert_eq!(series_of("up", &matchers), "up{cluster=\"a\",job=~\"x|y\"}");
        assert_eq!(series_of("up", &[]), "up{}");
        assert_eq!([seconds(1_700_000_000_001), seconds(-1)], ["1700000000.001", "-1.999"]);
    }
}
