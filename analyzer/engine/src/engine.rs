//! One engine: which of its ways to give samples is used, and reading by it.

use std::ops::Range;

use goodput_exposition::sample::{Batch, Series, TimeMs};
use reqwest::Client;
use reqwest::header::HeaderMap;
use tracing::{info, warn};

use crate::ReadError;
use crate::http::Http;
use crate::partial::{Noted, Partial};
use crate::promql::Api;
use crate::read_error::Kind;
use crate::readers::{remote_read, victoria};
use crate::retry::again;

/// What an engine cannot answer for so short a time it cannot answer at all.
const SHORTEST_MS: i64 = 60_000;

/// A metric that no one has, to see whether a way to read is there at all.
const PROBED: &str = "goodput_probe";

/// A way to read raw samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Prometheus' remote read: Prometheus from release 2.13 on, Mimir, Cortex. Exact to the bit, staleness markers included;
    /// where the engine has no chunks, a negative zero has no sign.
    /// Its series have the external labels of the server, as what it sends by remote write has.
    RemoteRead,
    /// `/api/v1/export` of VictoriaMetrics, single or cluster: as it keeps samples, staleness markers included.
    Victoria,
    /// Range selectors: Thanos, and anything else that speaks PromQL. Staleness markers are not shown.
    Promql,
}

impl Reader {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RemoteRead, Self::Victoria, Self::Promql];

    /// As options and logs name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RemoteRead => "remote_read",
            Self::Victoria => "victoria",
            Self::Promql => "promql",
        }
    }
}

/// An engine to read from.
#[derive(Debug)]
pub struct Engine {
    api: Api,
    reader: Reader,
}

impl Engine {
    /// `base` is what stands before `/api/v1/…`; the headers are sent with every request. It is read by PromQL until
    /// [`Engine::by`] chooses. Where partial answers are accepted, they are noted.
    #[must_use]
    pub fn new(client: Client, base: &str, headers: HeaderMap, allow_partial: bool) -> Self {
        let noted = allow_partial.then(Noted::default);
        Self { api: Api { http: Http::new(client, base, headers), noted }, reader: Reader::Promql }
    }

    /// The same, read this way; without one, by the cheapest that answers. Only PromQL gives partial answers, so it is the
    /// one that is used where they are accepted. `matchers` are those of later reads.
    ///
    /// # Errors
    ///
    /// The way that is asked for does not answer; or without one, the engine does not say whether a way is there.
    pub async fn by(self, wanted: Option<Reader>, matchers: &[String]) -> Result<Self, ReadError> {
        let reader = match wanted {
            // The next request is by PromQL anyway.
            Some(Reader::Promql) => Reader::Promql,
            Some(reader) => {
                self.probe(reader, matchers).await?;
                reader
            }
            None => self.cheapest(matchers).await?,
        };
        info!(reader = reader.name(), "how samples are read");
        Ok(Self { reader, ..self })
    }

    async fn cheapest(&self, matchers: &[String]) -> Result<Reader, ReadError> {
        if self.api.noted.is_some() {
            return Ok(Reader::Promql);
        }
        let unread = remote_read::parsed(matchers).err();
        if let Some(reason) = &unread {
            warn!(%reason, "not read by remote read");
        }
        for reader in [Reader::RemoteRead, Reader::Victoria] {
            if unread.is_some() && reader == Reader::RemoteRead {
                continue;
            }
            // An engine that is only busy must not be read another way today than tomorrow.
            match self.probe(reader, matchers).await.map_err(|error| (error.kind(), error)) {
                Ok(()) => return Ok(reader),
                Err((Kind::Malformed | Kind::Refused, _)) => {}
                Err((_, error)) => return Err(error),
            }
        }
        Ok(Reader::Promql)
    }

    /// Does this way answer, when it is asked for a metric that no one has?
    async fn probe(&self, reader: Reader, matchers: &[String]) -> Result<(), ReadError> {
        let once = async || match self.part(reader, PROBED, matchers, &(0..1)).await {
            // A way that names its own storage is there.
            Err(ReadError::Storage { .. }) => Ok(()),
            outcome => outcome.map(drop),
        };
        again(once).await
    }

    /// How samples are read.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader
    }

    /// The partial answers so far.
    #[must_use]
    pub fn partial(&self) -> Partial {
        self.api.noted.as_ref().map(Noted::partial).unwrap_or_default()
    }

    /// Does it answer as a Prometheus does? Asked once: a wrong address does not become right by waiting.
    ///
    /// # Errors
    ///
    /// It does not.
    pub async fn greet(&self) -> Result<(), ReadError> {
        self.api.greet().await
    }

    /// The names of all metrics that it has within the range.
    ///
    /// # Errors
    ///
    /// There is no usable answer.
    pub async fn metrics(&self, range: &Range<TimeMs>) -> Result<Vec<String>, ReadError> {
        self.api.values_of("__name__", range).await
    }

    /// The values of a label within the range.
    ///
    /// # Errors
    ///
    /// There is no usable answer.
    pub async fn values_of(&self, label: &str, range: &Range<TimeMs>) -> Result<Vec<String>, ReadError> {
        self.api.values_of(label, range).await
    }

    /// How many samples of the metric lie in the `window_ms` milliseconds before each of some times, a step apart;
    /// times without any are left out. Of a server that shifts such times, as VictoriaMetrics does, near to them.
    ///
    /// # Errors
    ///
    /// There is no usable answer.
    pub async fn counts(
        &self,
        metric: &str,
        matchers: &[String],
        window_ms: i64,
        times: (Range<TimeMs>, i64),
    ) -> Result<Vec<(TimeMs, f64)>, ReadError> {
        self.api.counts(metric, matchers, window_ms, times).await
    }

    /// All samples of a metric within the range, of series that match (`label="value"`, as in a selector). What is too much
    /// at once is read in parts. A series may be there several times.
    ///
    /// # Errors
    ///
    /// A part of it has no usable answer.
    pub async fn samples(&self, metric: &str, matchers: &[String], range: Range<TimeMs>) -> Result<Batch, ReadError> {
        let mut batch = Batch::default();
        let mut parts = vec![range];
        while let Some(part) = parts.pop() {
            let middle = part.start + (part.end - part.start) / 2;
            match again(|| self.part(self.reader, metric, matchers, &part)).await {
                Ok(series) => series.iter().for_each(|s| batch.push(s.labels.as_ref(), &s.samples)),
                Err(ReadError::TooMuch { .. }) if part.end - part.start > SHORTEST_MS => {
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(batch)
    }

    async fn part(
        &self,
        reader: Reader,
        metric: &str,
        matchers: &[String],
        range: &Range<TimeMs>,
    ) -> Result<Vec<Series>, ReadError> {
        match reader {
            Reader::RemoteRead => remote_read::part(&self.api.http, metric, matchers, range).await,
            Reader::Victoria => victoria::part(&self.api.http, metric, matchers, range).await,
            Reader::Promql => self.api.part(metric, matchers, range).await,
        }
    }
}

#[cfg(test)]
mod tests;
