//! Ways in; each ends in a [`goodput_exposition::sample::Batch`].

pub mod access;
pub(crate) mod copies;
mod discover;
mod dns;
pub mod event_body;
pub mod events;
pub mod file;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod http_tests;
pub mod job;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod reach_tests;
pub mod remote_write;
pub mod replicas;
pub mod scrape;
mod skipped;
pub mod tally;
mod work;

use std::time::Duration;

use goodput_settings::kind::{Bytes, Count, Period};
use goodput_settings::settings;

pub use skipped::{Named, Rules, Skipped};
pub use work::Work;

settings! {
    /// How much one sender may bring at once. A body or a number of samples beyond its limit is refused as a whole, with an
    /// error that names the limit; a series beyond a limit of labels is skipped alone; what is only too much at once is put
    /// off.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Limits: "ingest" {}
    body_bytes: Bytes = 16 << 20,
        "Bytes of a request's body as it is sent. A larger body is refused with status 413.", limit;
    // What VictoriaMetrics takes (`-maxInsertRequestSize`).
    decompressed_bytes: Bytes = 32 << 20,
        "Bytes of a body once decompressed, of the labels that a 2.0 body stands for, and of a target's answer. A larger body is refused with status 413; a scrape fails.",
        limit;
    samples: Count = 250_000,
        "Samples of a request or scrape. A request with more is refused with status 400; a scrape fails.", limit;
    // Labels of node and pod joined stay well below.
    labels: Count = 64,
        "Labels of a series, its name and those of its target included. A series with more is skipped.", limit;
    // Linux' longest path and a long name.
    label_bytes: Bytes = 5120,
        "Bytes of a label's name and value together. A series with a longer label is skipped; a longer label of a discovered target is left out.",
        limit;
    // Two for each sample that a request may hold.
    symbols: Count = 500_000,
        "Symbols of a remote-write 2.0 request. A request with more is refused with status 400.", limit;
    requests: Count = 32,
        "Requests of remote write and of events together that may be in work at once. Further ones are answered with status 503, as by the next two limits.",
        limit "goodput_analyzer_remote_write_requests_in_work";
    // A flood from one address leaves three quarters of the places to the others.
    sender_requests: Count = 8,
        "Requests of one address that may be in work at once: a flood leaves room for other senders.", limit;
    work_bytes: Bytes = 256 << 20,
        "Memory of all requests in work: their bodies, and twice their size once decompressed.", limit;
    // The time-out of Prometheus' remote write.
    read as "read_timeout": Period = Duration::from_secs(30),
        "How long a sender may take to send a body. A slower one is answered with status 503.";
}

impl Limits {
    /// Those that text is read by.
    #[must_use]
    pub fn of_text(&self) -> goodput_exposition::Limits {
        let Self { samples, labels, label_bytes, .. } = *self;
        goodput_exposition::Limits { samples, labels, label_bytes }
    }
}
