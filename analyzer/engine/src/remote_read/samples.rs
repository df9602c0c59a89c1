//! Reads an answer of samples: one `prometheus.ReadResponse`, compressed by snappy's block format.
//!
//! Prometheus writes no field for a value that equals zero, so -0 comes as 0. Chunks keep the sign.

use std::ops::Range;

use goodput_exposition::sample::{Sample, Series, TimeMs};
use prost::Message;

use super::Answer;
use super::messages::{ReadResponse, TimeSeries};
use crate::DecodeError;
use crate::order::in_order;

/// All series with a sample in this range, which does not include its end. The decompressed message has at most `limit`
/// bytes, see [`crate::DEFAULT_LIMIT`].
///
/// # Errors
///
/// The body or its message is malformed, broken off or too large, or it does not hold exactly one result.
pub fn decode(body: &[u8], range: &Range<TimeMs>, limit: usize) -> Result<Answer, DecodeError> {
    let message = decompress(body, limit)?;
    let response = ReadResponse::decode(message.as_slice()).map_err(|error| super::protobuf("ReadResponse", &error))?;
    drop(message);
    let count = response.results.len();
    let Ok([result]) = <[_; 1]>::try_from(response.results) else {
        return Err(DecodeError::Malformed(format!("{count} results; expected 1, for the only query")));
    };
    let mut answer = Answer::default();
    for found in result.timeseries {
        answer.histograms += found.histograms.len() as u64;
        let series = series(&found, range)?;
        if !series.samples.is_empty() {
            answer.series.push(series);
        }
    }
    Ok(answer)
}

fn series(found: &TimeSeries, range: &Range<TimeMs>) -> Result<Series, DecodeError> {
    let all = found.samples.iter().map(|sample| Sample { time_ms: sample.timestamp, value: sample.value });
    let mut samples = all.filter(|sample| range.contains(&sample.time_ms)).collect();
    in_order(&mut samples);
    Ok(Series { labels: super::labels(&found.labels)?, samples })
}

/// The body, decompressed. Its size is compared with the limit before memory is taken.
fn decompress(body: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let malformed = |error| DecodeError::Malformed(format!("expected a block of snappy: {error}"));
    let size = snap::raw::decompress_len(body).map_err(malformed)?;
    if size > limit {
        return Err(DecodeError::TooLarge { what: "decompressed message", bytes: size as u64, limit });
    }
    snap::raw::Decoder::new().decompress_vec(body).map_err(malformed)
}

#[cfg(test)]
mod tests;
