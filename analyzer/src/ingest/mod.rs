//! Ways in; each ends in a [`crate::sample::Batch`].

pub mod access;
mod discover;
pub mod events;
pub mod file;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod http_tests;
pub mod job;
#[cfg(test)]
mod limits_tests;
pub mod promql;
#[cfg(test)]
mod reach_tests;
pub mod remote_write;
pub mod replicas;
pub mod scrape;
mod skipped;
pub mod tally;
pub mod text;
mod work;

use std::time::Duration;

pub use skipped::{Fault, Named, Reason, Rules, Skipped};
pub use work::Work;

/// How much one sender may bring at once. A body or a number of samples beyond its limit is refused as a whole, with an
/// error that names the limit; a series beyond a limit of labels is skipped alone; what is only too much at once is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request body as it is sent. Default 16 MiB.
    pub body_bytes: usize,
    /// Bytes of a body once decompressed, and of its labels. Default 32 MiB, what VictoriaMetrics takes
    /// (`-maxInsertRequestSize`).
    pub decompressed_bytes: usize,
    /// Samples of a request or scrape. Default 250,000.
    pub samples: usize,
    /// Labels of a series, the name included. Default 64: node and pod labels joined stay well below.
    pub labels: usize,
    /// Bytes of a label's name and value together. Default 5120: Linux' longest path and a long name.
    pub label_bytes: usize,
    /// Symbols of a remote-write 2.0 request. Default 500,000: two for each sample that a request may hold.
    pub symbols: usize,
    /// Requests of remote write and of events that may be in work at once. Default 32.
    pub requests: usize,
    /// Those of one sender's address that may be in work at once. Default 8: a flood from one address
    /// leaves three quarters of the places to the others.
    pub sender_requests: usize,
    /// Memory of all requests in work: bodies as sent, and twice their decompressed size for the message and the batch.
    /// Default 256 MiB.
    pub work_bytes: usize,
    /// How long a sender may take to send a body. Default 30 s, the time-out of Prometheus' remote write.
    pub read: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            decompressed_bytes: 32 << 20,
            samples: 250_000,
            labels: 64,
            label_bytes: 5120,
            symbols: 500_000,
            requests: 32,
            sender_requests: 8,
            work_bytes: 256 << 20,
            read: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Name and value of each that is a number, as they are configured and exported.
    #[must_use]
    pub fn list(&self) -> [(&'static str, usize); 9] {
        [
            ("body_bytes", self.body_bytes),
            ("decompressed_bytes", self.decompressed_bytes),
            ("samples", self.samples),
            ("labels", self.labels),
            ("label_bytes", self.label_bytes),
            ("symbols", self.symbols),
            ("requests", self.requests),
            ("sender_requests", self.sender_requests),
            ("work_bytes", self.work_bytes),
        ]
    }
}

#[cfg(test)]
mod fixture {
    use std::path::Path;

    /// A file of the recorded fixtures next to the repository.
    pub(super) fn read(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures").join(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; this test needs the recorded fixtures", path.display()))
    }
}
