//! Ways in; each ends in a [`crate::sample::Batch`].

#[cfg(test)]
mod http_tests;
pub mod remote_write;
pub mod scrape;
pub mod text;

use std::time::Duration;

/// How much one sender may bring at once. What goes beyond is refused as a whole, with an error that names the limit.
/// Remote write takes at most `requests` times both body sizes and what its samples need: with the defaults well
/// under 1 GiB, and two orders of magnitude less with the requests that a Prometheus sends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request body as it is sent. Default 16 MiB.
    pub body_bytes: usize,
    /// Bytes of a body once decompressed. Default 32 MiB, what VictoriaMetrics takes (`-maxInsertRequestSize`).
    pub decompressed_bytes: usize,
    /// Samples of a request or scrape. Default 250,000.
    pub samples: usize,
    /// Labels of a series, the name included. Default 64: node and pod labels joined stay well below.
    pub labels: usize,
    /// Bytes of a label's name and value together. Default 5120: Linux' longest path and a long name.
    pub label_bytes: usize,
    /// Remote-write requests that may be in work at once. Default 16.
    pub requests: usize,
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
            requests: 16,
            read: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod fixture {
    use std::path::Path;

    /// A file of the recorded fixtures beside the repository.
    pub(super) fn read(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures").join(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; this test needs the recorded fixtures", path.display()))
    }
}
