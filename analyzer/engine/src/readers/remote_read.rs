//! Asks by Prometheus' remote read: for chunks, and for samples where chunks are not there or not readable.

use std::ops::Range;

use goodput_exposition::sample::{Series, TimeMs};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use tracing::debug;

use crate::http::{ANSWER_BYTES, Asked, Http, SAMPLES, content_type, unzipped};
use crate::promql::{series_of, shown};
use crate::remote_read::chunked::Gathered;
use crate::remote_read::frames::Frames;
use crate::remote_read::matcher::MatcherError;
use crate::remote_read::messages::LabelMatcher;
use crate::remote_read::request::{Accept, body};
use crate::remote_read::{Answer, samples};
use crate::{DEFAULT_LIMIT, DecodeError, ReadError};

/// Content type of an answer of chunks, without its parameters.
const CHUNKS: &str = "application/x-streamed-protobuf";

/// That of an answer of samples, as far as all servers agree on it.
const SAMPLES_TYPE: &str = "application/x-protobuf";

/// The protocol's version, which every request names.
const VERSION: (&str, &str) = ("x-prometheus-remote-read-version", "0.1.0");

/// Can each of these be asked for?
pub(crate) fn parsed(matchers: &[String]) -> Result<Vec<LabelMatcher>, MatcherError> {
    matchers.iter().map(|matcher| matcher.parse()).collect()
}

/// The samples of a metric in the range, of series that match.
pub(crate) async fn part(
    http: &Http,
    metric: &str,
    matchers: &[String],
    range: &Range<TimeMs>,
) -> Result<Vec<Series>, ReadError> {
    let url = http.url("read");
    let asked = Asked { url: &url, what: &format!("{} {}", series_of(metric, matchers), shown(range)) };
    for accept in [Accept::ChunksOrSamples, Accept::Samples] {
        match read(http, &asked, (metric, matchers), range, accept).await? {
            Ok(Answer { series, histograms }) => {
                if histograms > 0 {
                    debug!(metric, histograms, "samples of native histograms are passed over");
                }
                return Ok(series);
            }
            Err(encoding) => debug!(metric, encoding, "chunks of an unknown encoding: asking for samples"),
        }
    }
    Err(asked.content("chunks of an unknown encoding where samples were asked for".to_owned()))
}

/// The answer, or the number of an encoding of chunks that is not known here.
async fn read(
    http: &Http,
    asked: &Asked<'_>,
    (metric, matchers): (&str, &[String]),
    range: &Range<TimeMs>,
    accept: Accept,
) -> Result<Result<Answer, i32>, ReadError> {
    let matchers = parsed(matchers).map_err(|error| asked.content(error.to_string()))?;
    let body = body(&[metric], &matchers, range, accept);
    let body = body.map_err(|error| asked.undecodable(&error))?;
    let response = http.post(asked.url, headers(), body).await?;
    let mut response = asked.accepted(response).await?;
    let answer = match content_type(&response) {
        kind if kind.starts_with(CHUNKS) => chunks(asked, &mut response, range).await?,
        kind if kind.starts_with(SAMPLES_TYPE) => {
            samples::decode(&asked.body(&mut response).await?, range, ANSWER_BYTES)
        }
        other => return Err(asked.content(format!("remote read answers with {other:?}, expected {SAMPLES_TYPE:?}"))),
    };
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(DecodeError::UnknownEncoding(encoding)) => Ok(Err(encoding)),
        Err(error) => Err(asked.undecodable(&error)),
    }
}

/// Reads a stream of frames to its end.
async fn chunks(
    asked: &Asked<'_>,
    response: &mut Response,
    range: &Range<TimeMs>,
) -> Result<Result<Answer, DecodeError>, ReadError> {
    let (mut frames, mut gathered, mut read) = (Frames::new(DEFAULT_LIMIT), Gathered::default(), 0);
    while let Some(bytes) = asked.more(response).await? {
        read += bytes.as_ref().len();
        if read > ANSWER_BYTES {
            return Err(asked.too_much(format!("an answer of more than {ANSWER_BYTES} bytes of chunks")));
        }
        frames.push(bytes.as_ref());
        if let Err(error) = gather(&mut frames, &mut gathered) {
            return Ok(Err(error));
        }
        if gathered.samples() > SAMPLES as u64 {
            return Err(asked.too_much(format!("an answer of more than {SAMPLES} samples")));
        }
    }
    Ok(frames.finish().and_then(|()| gathered.into_answer(range)))
}

fn gather(frames: &mut Frames, gathered: &mut Gathered) -> Result<(), DecodeError> {
    while let Some(frame) = frames.next_frame()? {
        gathered.add(frame)?;
    }
    Ok(())
}

fn headers() -> HeaderMap {
    let mut headers = unzipped();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(SAMPLES_TYPE));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    headers.insert(VERSION.0, HeaderValue::from_static(VERSION.1));
    headers
}
