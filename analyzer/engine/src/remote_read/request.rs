//! Builds the body of a remote read.

use std::ops::Range;

use goodput_exposition::sample::TimeMs;
use prost::Message;

use super::messages::{LabelMatcher, MatchType, Query, ReadRequest, ResponseType};
use crate::DecodeError;

/// Which answers the engine may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Frames of compressed chunks; samples from an engine that has no such frames.
    ChunksOrSamples,
    /// Samples only.
    Samples,
}

impl Accept {
    /// In the order in which the engine tries them.
    fn types(self) -> Vec<i32> {
        let types: &[ResponseType] = match self {
            Self::ChunksOrSamples => &[ResponseType::StreamedXorChunks, ResponseType::Samples],
            Self::Samples => &[ResponseType::Samples],
        };
        types.iter().map(|kind| *kind as i32).collect()
    }
}

/// The body, compressed by snappy, that asks for all series with one of these metric names for which all matchers hold, in
/// a range that does not include its end. Without a name the series of all metrics are asked for.
///
/// # Errors
///
/// The request is larger than snappy can compress.
pub fn body<T: AsRef<str>>(
    metrics: &[T],
    matchers: &[LabelMatcher],
    range: &Range<TimeMs>,
    accept: Accept,
) -> Result<Vec<u8>, DecodeError> {
    let query = Query {
        start_timestamp_ms: range.start,
        end_timestamp_ms: range.end.saturating_sub(1),
        matchers: by_name(metrics).into_iter().chain(matchers.iter().cloned()).collect(),
    };
    let request = ReadRequest { queries: vec![query], accepted_response_types: accept.types() }.encode_to_vec();
    let too_large = DecodeError::TooLarge { what: "request", bytes: request.len() as u64, limit: u32::MAX as usize };
    snap::raw::Encoder::new().compress_vec(&request).map_err(|_| too_large)
}

/// The matcher of metric names; none without names.
fn by_name<T: AsRef<str>>(metrics: &[T]) -> Option<LabelMatcher> {
    let (kind, value) = match metrics {
        [] => return None,
        [one] => (MatchType::Equal, one.as_ref().to_owned()),
        some => {
            let escaped: Vec<String> = some.iter().map(|name| escaped(name.as_ref())).collect();
            (MatchType::Matches, escaped.join("|"))
        }
    };
    Some(LabelMatcher { kind: kind.into(), name: "__name__".to_owned(), value })
}

/// The regular expression of RE2 that matches this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests;
