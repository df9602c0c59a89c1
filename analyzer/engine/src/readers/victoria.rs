//! Asks VictoriaMetrics for an export: lines of JSON with every sample as it is stored, staleness markers included.

use std::ops::Range;

use goodput_exposition::sample::{Series, TimeMs};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::{Asked, Http, SAMPLES, content_type, unzipped};
use crate::promql::{seconds, series_of, shown};
use crate::victoria::{Lines, parse_line};
use crate::{DEFAULT_LIMIT, DecodeError, ReadError};

/// Content type of an export, without its parameters. What answers otherwise, or with nothing, is no VictoriaMetrics.
const LINES: &str = "application/stream+json";

/// Bytes that are taken at once: as many samples as are taken at once have about 100 MB, the rest is for labels.
const BYTES: usize = 256 << 20;

/// The samples of a metric in the range, of series that match. A series may come in several parts.
pub(crate) async fn part(
    http: &Http,
    metric: &str,
    matchers: &[String],
    range: &Range<TimeMs>,
) -> Result<Vec<Series>, ReadError> {
    let selector = series_of(metric, matchers);
    let query = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
    let url = http.url("export");
    let asked = Asked { url: &url, what: &format!("{selector} {}", shown(range)) };
    // The end is part of what VictoriaMetrics exports.
    let (start, end) = (seconds(range.start), seconds(range.end - 1));
    let response = http.get(&format!("{url}?match%5B%5D={query}&start={start}&end={end}"), unzipped()).await?;
    let mut response = asked.accepted(response).await?;
    let kind = content_type(&response);
    if !kind.starts_with(LINES) {
        return Err(asked.content(format!("an export answers with {kind:?}, expected {LINES:?}")));
    }
    let (mut lines, mut all, mut taken, mut read_bytes) = (Lines::new(DEFAULT_LIMIT), Vec::new(), 0, 0);
    while let Some(bytes) = asked.more(&mut response).await? {
        read_bytes += bytes.as_ref().len();
        lines.push(bytes.as_ref());
        let read = series_in(&mut lines, range, &mut all).map_err(|error| asked.undecodable(&error))?;
        taken += read;
        if taken > SAMPLES || read_bytes > BYTES {
            return Err(asked.too_much(format!("an answer of more than {SAMPLES} samples or {BYTES} bytes")));
        }
    }
    lines.finish().map_err(|error| asked.undecodable(&error))?;
    Ok(all)
}

/// Reads the whole lines that have come; the number of their samples.
fn series_in(lines: &mut Lines, range: &Range<TimeMs>, all: &mut Vec<Series>) -> Result<usize, DecodeError> {
    let mut samples = 0;
    while let Some(line) = lines.next_line()? {
        let series = parse_line(line, range)?;
        samples += series.samples.len();
        if !series.samples.is_empty() {
            all.push(series);
        }
    }
    Ok(samples)
}
