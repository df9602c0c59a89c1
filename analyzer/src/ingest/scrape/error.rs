//! Why a scrape brought nothing.

use std::time::Duration;

use goodput_exposition::TextError;

use goodput_engine::http::causes;

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// Its TLS files, credentials or address.
    #[error("{url}: {reason}")]
    Access {
        /// The target.
        url: String,
        /// Which file, and what is wrong with it.
        reason: String,
    },
    /// Connection, HTTP, compression.
    #[error("{url}: {}", causes(error))]
    Http {
        /// The target.
        url: String,
        /// What failed.
        error: reqwest::Error,
    },
    /// Not 200.
    #[error("{url}: status {status}, expected 200")]
    Status {
        /// The target.
        url: String,
        /// What came instead.
        status: u16,
    },
    /// The target was too slow.
    #[error("{url}: no complete answer within {limit:?}")]
    Timeout {
        /// The target.
        url: String,
        /// The time-out.
        limit: Duration,
    },
    /// The answer is too large.
    #[error("{url}: body of more than the limit of {limit} bytes")]
    TooLarge {
        /// The target.
        url: String,
        /// The limit, after decompression.
        limit: usize,
    },
    /// A limit of its job is broken.
    #[error("{url}: {reason}")]
    Limit {
        /// The target.
        url: String,
        /// Which limit, and by what.
        reason: String,
    },
    /// The answer is no exposition text.
    #[error("{url}: {error}")]
    Text {
        /// The target.
        url: String,
        /// Where it is wrong.
        error: TextError,
    },
}

impl ScrapeError {
    /// What it is counted as.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Access { .. } => "access",
            Self::Http { .. } => "http",
            Self::Status { .. } => "status",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::Limit { .. } => "limit",
            Self::Text { .. } => "text",
        }
    }
}
