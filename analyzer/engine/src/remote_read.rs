//! Prometheus' remote read: the request, and both kinds of answers. Whether an answer is one or the other is said by the
//! `Content-Type` of the HTTP response: see [`CHUNKS_TYPE`].
//!
//! Source of the formats: `prompb/remote.proto`, `prompb/types.proto` and "Remote Read API" of Prometheus' documentation.

pub mod chunked;
pub mod frames;
pub mod matcher;
pub mod messages;
pub mod request;
pub mod samples;

use goodput_exposition::sample::{Labels, Series};

use crate::DecodeError;

/// Content type of an answer of frames of compressed chunks. Every other answer is one message of samples.
pub const CHUNKS_TYPE: &str = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";

/// What an engine answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Every series with a sample in the range; the samples in order of time, no time twice.
    pub series: Vec<Series>,
    /// Samples of native histograms that were skipped. They are counted before the range is cut.
    pub histograms: u64,
}

/// The labels of a message.
fn labels(pairs: &[messages::Label]) -> Result<Labels, DecodeError> {
    let mut names: Vec<&str> = pairs.iter().map(|label| label.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let text = format!("labels of a series with {:?} twice; expected each name once", twice[0]);
        return Err(DecodeError::Malformed(text));
    }
    Ok(Labels::new(pairs.iter().map(|label| (&label.name, &label.value))))
}

/// The error of a protobuf message of this name that cannot be read.
fn protobuf(name: &str, error: &prost::DecodeError) -> DecodeError {
    DecodeError::Malformed(format!("expected a protobuf message {name}: {error}"))
}
