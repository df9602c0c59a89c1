//! Why an engine gave no usable answer, and whether a retry may help.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::causes::causes;

/// Characters of a body that an error shows when the body is not the API's answer.
const EXCERPT: usize = 200;

/// The same of a server that cannot read its storage: VictoriaMetrics names query and time first, the cause last.
const STORAGE_EXCERPT: usize = 1000;

/// How a vmselect of current releases begins what it says of a storage that is away, in plain text with status 503.
const VMSELECT: &str = "cannot fetch data for";

/// What servers write when they cannot reach a part of their own storage (Go's net and gRPC, VictoriaMetrics, Thanos, Cortex).
const DEAD_STORAGE: [&str; 15] = [
    "connection refused",
    "connection reset",
    "cannot connect",
    "cannot fetch",
    "cannot dial",
    "dial tcp",
    "no such host",
    "no route to host",
    "i/o timeout",
    "broken pipe",
    "unavailable",
    "unreachable",
    "no store",
    "unhealthy",
    "live replicas",
];

/// What servers write when a query needs more than they allow.
const LIMITS: [&str; 9] = [
    "too many",
    "limit",
    "exceed",
    "larger than",
    "more than",
    "maximum",
    "not enough memory",
    "exhausted",
    "timed out",
];

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No answer came.
    #[error("{url}: no answer: {}", causes(error))]
    Unreachable {
        /// The address.
        url: String,
        /// What failed.
        error: reqwest::Error,
    },
    /// The answer ended before it was whole.
    #[error("{url}: the answer broke off: {reason}")]
    BrokenOff {
        /// The address.
        url: String,
        /// What is missing.
        reason: String,
    },
    /// The server answered that it failed.
    #[error("{url}: status {status}: {reason}")]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// What the server says.
        reason: String,
    },
    /// The server cannot read its own storage.
    #[error("{url}: status {status}: the server cannot read all of its storage: {reason}")]
    Storage {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// What the server says.
        reason: String,
    },
    /// The server requires credentials, or does not accept those that were sent.
    #[error(
        "{url}: status {status}: {reason}; the server {}: see --user, --bearer-token-file, --cert-file and --tenant",
        if *.status == StatusCode::FORBIDDEN { "does not allow this" } else { "requires credentials, or does not accept these" }
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
    #[error("{url}: {asked} needs more than a limit allows: {reason}; a narrower --match asks for less at once")]
    TooMuch {
        /// The address.
        url: String,
        /// Query and time range.
        asked: String,
        /// What the server says, or which limit it is.
        reason: String,
    },
    /// The server answered with a part of what it stores.
    #[error(
        "{url}: partial answer to {asked}: {reason}; repeat the command when the server has all of its storage, or take \
         what there is with --allow-partial"
    )]
    Partial {
        /// The address.
        url: String,
        /// Query and time range.
        asked: String,
        /// What the server says.
        reason: String,
    },
    /// The answer is not what the API is documented to give.
    #[error("{url}: expected the answer of Prometheus' HTTP API below what stands before /api/v1/: {reason}")]
    Content {
        /// The address.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// What an error says of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The same request may be answered later.
    Passing,
    /// Other credentials are wanted.
    Refused,
    /// A shorter range may be answered.
    TooMuch,
    /// The answer was a part of what was asked for.
    Incomplete,
    /// The answer, or the request, is not what the API is documented to be.
    Malformed,
}

impl ReadError {
    /// What it says of the next attempt.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } | Self::Storage { .. } => Kind::Passing,
            // What a server does not have today it has not got a second later (RFC 9110, 15.6.2).
            Self::Status { status, .. } if *status == StatusCode::NOT_IMPLEMENTED => Kind::Malformed,
            Self::Status { status, .. } if status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS => {
                Kind::Passing
            }
            Self::BrokenOff { .. } | Self::Partial { .. } => Kind::Incomplete,
            Self::Refused { .. } => Kind::Refused,
            Self::TooMuch { .. } => Kind::TooMuch,
            Self::Status { .. } | Self::Content { .. } => Kind::Malformed,
        }
    }

    /// The error of a request that got no status.
    pub(crate) fn unanswered(url: String, error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() || error.is_timeout() || error.is_builder() || error.is_redirect() {
            return Self::Unreachable { url, error };
        }
        Self::BrokenOff { url, reason: causes(&error) }
    }

    /// The error of a request whose body ended early.
    pub(crate) fn cut(url: String, error: reqwest::Error) -> Self {
        Self::BrokenOff { url, reason: causes(&error.without_url()) }
    }

    /// How often the same request is sent before this is the outcome. What passes by itself is worth a retry.
    pub(crate) fn attempts(&self) -> u32 {
        match (self, self.kind()) {
            // A store that was slow once may be in time; one that is down stays down for longer than retries last.
            (Self::Partial { .. }, _) => 3,
            (_, Kind::Passing | Kind::Incomplete) => 6,
            _ => 1,
        }
    }
}

/// The fields of an answer with `status: error`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    pub(crate) error: Option<String>,
    pub(crate) error_type: Option<String>,
}

impl Refusal {
    /// The error that it is, of an answer with this status.
    pub(crate) fn of(self, url: String, asked: &str, status: StatusCode, body: &[u8]) -> ReadError {
        let is_vmselect =
            status == StatusCode::SERVICE_UNAVAILABLE && excerpt(body, STORAGE_EXCERPT).contains(VMSELECT);
        // Remote read and exports say in plain text what PromQL says in JSON; what a proxy says has other statuses.
        let is_answer =
            self.error.is_some() || self.error_type.is_some() || is_vmselect || matches!(status.as_u16(), 400 | 422);
        let kind = self.error_type.unwrap_or_default();
        let said = self.error.filter(|error| !error.is_empty());
        let characters = if is_vmselect { STORAGE_EXCERPT } else { EXCERPT };
        let reason = said.unwrap_or_else(|| if kind.is_empty() { excerpt(body, characters) } else { kind.clone() });
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return ReadError::Refused { url, status, reason };
        }
        if status == StatusCode::NOT_FOUND && !is_answer {
            return ReadError::Content { url, reason: format!("status {status}: {reason}") };
        }
        let words = reason.to_ascii_lowercase();
        let says = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
        if is_answer && (says(&DEAD_STORAGE) || kind == "unavailable") {
            return ReadError::Storage { url, status, reason };
        }
        // Prometheus: 422 beyond --query.max-samples, 503 with the type `timeout` beyond --query.timeout. VictoriaMetrics: 422.
        let is_limit = kind == "timeout" || matches!(status.as_u16(), 200 | 400 | 413 | 422) && says(&LIMITS);
        if is_answer && is_limit || status == StatusCode::PAYLOAD_TOO_LARGE {
            return ReadError::TooMuch { url, asked: asked.to_owned(), reason };
        }
        ReadError::Status { url, status, reason }
    }
}

/// The beginning of what is not the API's answer, on one line.
fn excerpt(body: &[u8], characters: usize) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(characters).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> &'static str {
        let refusal: Refusal = serde_json::from_str(body).unwrap_or_default();
        let status = StatusCode::from_u16(status).unwrap();
        match refusal.of("http://a".to_owned(), "up[1h]", status, body.as_bytes()) {
            ReadError::Refused { .. } => "refused",
            ReadError::TooMuch { .. } => "too much",
            ReadError::Storage { .. } => "storage",
            ReadError::Status { .. } => "status",
            ReadError::Content { .. } => "content",
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_limit_a_dead_storage_and_a_refusal_are_told_apart() {
        for (status, body, wanted) in [
            (
                422,
                r#"{"errorType":"execution","error":"query processing would load too many samples into memory"}"#,
                "too much",
            ),
            (503, r#"{"errorType":"timeout","error":"query timed out in expression evaluation"}"#, "too much"),
            (
                422,
                r#"{"errorType":"422","error":"cannot select more than -search.maxSamplesPerQuery=1000 samples"}"#,
                "too much",
            ),
            (
                422,
                r#"{"errorType":"execution","error":"the query hit the max number of series limit (err-mimir-max-series-per-query)"}"#,
                "too much",
            ),
            (
                422,
                r#"{"errorType":"execution","error":"rpc error: code = ResourceExhausted desc = exceeded series limit"}"#,
                "too much",
            ),
            (200, r#"{"errorType":"execution","error":"the query exceeded the maximum number of chunks"}"#, "too much"),
            (413, "<html>Request Entity Too Large", "too much"),
            (
                422,
                r#"{"errorType":"422","error":"cannot fetch query results from vmstorage nodes: dial tcp4 10.0.0.7:8401: connection refused"}"#,
                "storage",
            ),
            (
                422,
                r#"{"errorType":"execution","error":"expanding series: proxy Series(): rpc error: code = Unavailable desc = store gone"}"#,
                "storage",
            ),
            (503, r#"{"errorType":"unavailable","error":"TSDB not ready"}"#, "storage"),
            (200, r#"{"errorType":"execution","error":"dial tcp 10.0.0.7:9090: i/o timeout"}"#, "storage"),
            (422, r#"{"errorType":"execution","error":"multiple matches for labels"}"#, "status"),
            (400, r#"{"errorType":"bad_data","error":"invalid parameter"}"#, "status"),
            (200, r#"{"errorType":"internal","error":"oops"}"#, "status"),
            (502, "<html>bad gateway", "status"),
            (503, "no healthy upstream: connection refused", "status"),
            (401, "no org id", "refused"),
            (403, r#"{"errorType":"forbidden","error":"limit"}"#, "refused"),
            (404, "not here", "content"),
            (400, "exceeded sample limit (50000000)", "too much"),
            (400, "cannot fetch data from vmstorage nodes: cannot dial", "storage"),
            (
                503,
                "error when exporting data on the time range (start=1795708800000, end=1795712399999): cannot fetch data for \"filters=[{__name__=\\\"a\\\"}]\": cannot dial storage node",
                "storage",
            ),
            (400, "unsupported path requested", "status"),
            (400, "too many unhealthy instances in the ring", "storage"),
            (400, "at least 1 live replicas required, could only find 0", "storage"),
        ] {
            assert_eq!(kind(status, body), wanted, "{status} {body}");
        }
    }
}
