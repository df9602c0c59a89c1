//! Prometheus remote write 1.0, the receiving side.
//!
//! A refusal that a retry cannot mend is a 4xx, for then the sender drops the request; all else is a 503. Samples that
//! are well-formed but not wanted (too old, too new, of an unknown metric) are counted by the store and acknowledged.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use super::Limits;
use crate::sample::{Batch, Labels, Sample, Series};
use crate::store::Samples;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body, before or after decompression.
    #[error("{what} body of {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// `compressed` or `decompressed`.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The compression.
    #[error("body is not snappy (block format): {0}")]
    Snappy(String),
    /// The message.
    #[error("body is not a prometheus.WriteRequest: {0}")]
    Protobuf(String),
    /// A series that breaks the data model or a limit.
    #[error("series {series} of the request{}: {reason}", if metric.is_empty() { String::new() } else { format!(" ({metric})") })]
    Series {
        /// Which one, counted from 1.
        series: usize,
        /// Its metric name, as far as it is known.
        metric: String,
        /// What is wrong.
        reason: String,
    },
    /// More samples than one request may hold.
    #[error("more than {0} samples in one request")]
    Samples(usize),
}

impl DecodeError {
    /// 413 for what is too large as a whole, else 400.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// `prometheus.Label`.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `prometheus.Sample`; the timestamp in milliseconds.
#[derive(Clone, Copy, PartialEq, Message)]
struct Point {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

// The fields of the two outer messages. They are walked and not decoded as a whole, so that the limits hold before
// memory is taken: an empty series is two bytes on the wire and many times that as a struct.
const REQUEST_TIMESERIES: u32 = 1;
const SERIES_LABELS: u32 = 1;
const SERIES_SAMPLES: u32 = 2;

/// Decodes a request body. A series may occur several times in one request, as Prometheus sends it when it catches up.
/// Exemplars, histograms and metadata are passed over.
pub fn decode(body: &[u8], limits: &Limits) -> Result<Batch, DecodeError> {
    within("compressed", body.len(), limits.body_bytes)?;
    let length = snap::raw::decompress_len(body).map_err(snappy)?;
    within("decompressed", length, limits.decompressed_bytes)?;
    let request = snap::raw::Decoder::new().decompress_vec(body).map_err(snappy)?;
    let mut decoder = Decoder { limits, samples: 0, series: Vec::new() };
    walk(&request, |field, content| if field == REQUEST_TIMESERIES { decoder.series(content) } else { Ok(()) })?;
    Ok(Batch { series: decoder.series })
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<(), DecodeError> {
    if bytes > limit { Err(DecodeError::TooLarge { what, bytes, limit }) } else { Ok(()) }
}

fn snappy(error: snap::Error) -> DecodeError {
    DecodeError::Snappy(error.to_string())
}

fn protobuf(error: impl ToString) -> DecodeError {
    DecodeError::Protobuf(error.to_string())
}

/// Visits the fields of a message that have a length: number and content.
fn walk<'a>(
    mut message: &'a [u8],
    mut visit: impl FnMut(u32, &'a [u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while !message.is_empty() {
        let (field, wire_type) = decode_key(&mut message).map_err(protobuf)?;
        if wire_type == WireType::LengthDelimited {
            let length = decode_varint(&mut message).map_err(protobuf)?;
            let split = usize::try_from(length).ok().and_then(|length| message.split_at_checked(length));
            let (content, rest) =
                split.ok_or_else(|| protobuf(format!("field {field} of {length} bytes is cut short")))?;
            message = rest;
            visit(field, content)?;
        } else {
            skip_field(wire_type, field, &mut message, DecodeContext::default()).map_err(protobuf)?;
        }
    }
    Ok(())
}

struct Decoder<'a> {
    limits: &'a Limits,
    samples: usize,
    series: Vec<Series>,
}

impl Decoder<'_> {
    fn series(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let mut labels: Vec<Label> = Vec::new();
        let mut samples = Vec::new();
        walk(message, |field, content| match field {
            SERIES_LABELS => {
                let label = Label::decode(content).map_err(protobuf)?;
                self.check_label(&labels, &label).map_err(|reason| self.refused(&labels, reason))?;
                labels.push(label);
                Ok(())
            }
            SERIES_SAMPLES => {
                let Point { value, timestamp } = Point::decode(content).map_err(protobuf)?;
                samples.push(Sample { time_ms: timestamp, value });
                self.samples += 1;
                if self.samples > self.limits.samples { Err(DecodeError::Samples(self.limits.samples)) } else { Ok(()) }
            }
            _ => Ok(()),
        })?;
        if metric(&labels).is_empty() {
            return Err(self.refused(&labels, "it has no __name__ label".to_owned()));
        }
        if !samples.is_empty() {
            let labels = Labels::new(labels.into_iter().map(|label| (label.name, label.value)));
            self.series.push(Series { labels, samples });
        }
        Ok(())
    }

    fn check_label(&self, before: &[Label], label: &Label) -> Result<(), String> {
        let Limits { labels, label_bytes, .. } = *self.limits;
        if before.len() >= labels {
            return Err(format!("more than {labels} labels"));
        }
        if label.name.is_empty() {
            return Err(format!("label {} has no name", before.len() + 1));
        }
        let bytes = label.name.len() + label.value.len();
        if bytes > label_bytes {
            let start: String = label.name.chars().take(64).collect();
            return Err(format!("label {start} of {bytes} bytes, more than {label_bytes}"));
        }
        if before.iter().any(|other| other.name == label.name) {
            return Err(format!("label {} is there twice", label.name));
        }
        Ok(())
    }

    fn refused(&self, labels: &[Label], reason: String) -> DecodeError {
        DecodeError::Series { series: self.series.len() + 1, metric: metric(labels).to_owned(), reason }
    }
}

fn metric(labels: &[Label]) -> &str {
    labels.iter().find(|label| label.name == "__name__").map_or("", |label| &label.value)
}

struct Receiver<S> {
    store: S,
    limits: Limits,
    /// One permit per request in work.
    permits: Semaphore,
}

/// Serves `POST /api/v1/write`.
pub fn router<S: Samples + 'static>(store: S, limits: Limits) -> Router {
    let receiver = Receiver { store, limits, permits: Semaphore::new(limits.requests) };
    Router::new()
        .route("/api/v1/write", post(receive::<S>))
        .layer(DefaultBodyLimit::max(limits.body_bytes))
        .with_state(Arc::new(receiver))
}

async fn receive<S: Samples + 'static>(State(receiver): State<Arc<Receiver<S>>>, request: Request) -> Response {
    match receiver.receive(request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err((status, reason)) if status == StatusCode::SERVICE_UNAVAILABLE => {
            warn!(%reason, "remote write put off");
            (status, [(header::RETRY_AFTER, "1")], reason + "\n").into_response()
        }
        Err((status, reason)) => {
            debug!(%status, %reason, "remote write refused");
            (status, reason + "\n").into_response()
        }
    }
}

type Refusal = (StatusCode, String);

impl<S: Samples> Receiver<S> {
    async fn receive(&self, request: Request) -> Result<(), Refusal> {
        check_headers(request.headers())?;
        let busy = |_| (StatusCode::SERVICE_UNAVAILABLE, format!("{} requests are in work", self.limits.requests));
        let _permit = self.permits.try_acquire().map_err(busy)?;
        let body = self.body(request).await?;
        let limits = self.limits;
        // Decompressing megabytes would hold up other requests of this thread.
        let decoded = tokio::task::spawn_blocking(move || decode(&body, &limits)).await;
        let batch = decoded
            .map_err(|error| (StatusCode::BAD_REQUEST, format!("decoding failed: {error}")))?
            .map_err(|error| (error.status(), error.to_string()))?;
        let stored = self.store.append(batch).await;
        stored.map(drop).map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
    }

    async fn body(&self, request: Request) -> Result<Bytes, Refusal> {
        let limit = self.limits.body_bytes;
        match tokio::time::timeout(self.limits.read, Bytes::from_request(request, &())).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err((error.status(), format!("compressed body of more than the limit of {limit} bytes")))
            }
            Ok(Err(error)) => Err((error.status(), error.body_text())),
            Err(_) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("body not sent within {:?}", self.limits.read))),
        }
    }
}

/// Remote write 2.0 has the same media type with a parameter; a sender that gets a 415 falls back to 1.0.
fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let get = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = get(header::CONTENT_TYPE).replace(' ', "").to_ascii_lowercase();
    if !["application/x-protobuf", "application/x-protobuf;proto=prometheus.writerequest"].contains(&&*content_type) {
        let reason = format!("content type {content_type:?}, expected application/x-protobuf (remote write 1.0)");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    let encoding = get(header::CONTENT_ENCODING);
    if encoding != "snappy" {
        let reason = format!("content encoding {encoding:?}, expected snappy");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sample::STALE_BITS;

    #[derive(Clone, PartialEq, Message)]
    struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        timeseries: Vec<TimeSeries>,
        #[prost(bytes = "vec", tag = "3")]
        metadata: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct TimeSeries {
        #[prost(message, repeated, tag = "1")]
        labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        samples: Vec<Point>,
        #[prost(bytes = "vec", tag = "3")]
        exemplars: Vec<u8>,
    }

    fn time_series(labels: &[(&str, &str)], samples: &[(f64, i64)]) -> TimeSeries {
        let label = |(name, value): &(&str, &str)| Label { name: (*name).to_owned(), value: (*value).to_owned() };
        let point = |(value, timestamp): &(f64, i64)| Point { value: *value, timestamp: *timestamp };
        TimeSeries {
            labels: labels.iter().map(label).collect(),
            samples: samples.iter().map(point).collect(),
            exemplars: b"passed over".to_vec(),
        }
    }

    fn compress(message: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(message).unwrap()
    }

    fn body(timeseries: &[TimeSeries]) -> Vec<u8> {
        let request = WriteRequest { timeseries: timeseries.to_vec(), metadata: b"passed over".to_vec() };
        compress(&request.encode_to_vec())
    }

    fn reason(body: &[u8], limits: &Limits) -> (u16, String) {
        let error = decode(body, limits).unwrap_err();
        (error.status().as_u16(), error.to_string())
    }

    #[test]
    fn decodes_series_bit_for_bit() {
        let stale = f64::from_bits(STALE_BITS);
        let written = [
            time_series(&[("__name__", "up"), ("z", "1"), ("a", "\u{e9}"), ("gone", "")], &[(1.0, -5), (stale, 6)]),
            time_series(&[("__name__", "only_a_histogram")], &[]),
            time_series(&[("__name__", "up"), ("a", "\u{e9}"), ("z", "1")], &[(2.0, i64::MAX)]),
        ];
        let batch = decode(&body(&written), &Limits::default()).unwrap();
        let labels = Labels::new([("__name__", "up"), ("a", "\u{e9}"), ("z", "1")]);
        assert_eq!(batch.series.iter().map(|s| &s.labels).collect::<Vec<_>>(), [&labels, &labels]);
        let bits = |series: &Series| series.samples.iter().map(|s| (s.time_ms, s.value.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(&batch.series[0]), [(-5, 1.0_f64.to_bits()), (6, STALE_BITS)]);
        assert_eq!(bits(&batch.series[1]), [(i64::MAX, 2.0_f64.to_bits())]);
    }

    #[test]
    fn an_empty_request_is_one() {
        assert_eq!(decode(&body(&[]), &Limits::default()).unwrap(), Batch::default());
    }

    #[test]
    fn refusals_say_what_was_wrong() {
        let limits = Limits::default();
        let name = ("__name__", "m");
        let long = "x".repeat(6000);
        let cases: [(Vec<u8>, &str); 8] = [
            (b"garbage".to_vec(), "body is not snappy (block format): "),
            (compress(b"garbage"), "body is not a prometheus.WriteRequest: "),
            (compress(&[0x0a, 0x7f, 0x00]), "body is not a prometheus.WriteRequest: field 1 of 127 bytes is cut short"),
            (body(&[time_series(&[("a", "b")], &[(1.0, 1)])]), "series 1 of the request: it has no __name__ label"),
            (
                body(&[time_series(&[name], &[(1.0, 1)]), time_series(&[name, ("", "b")], &[])]),
                "series 2 of the request (m): label 2 has no name",
            ),
            (
                body(&[time_series(&[name, ("a", "b"), ("a", "c")], &[])]),
                "series 1 of the request (m): label a is there twice",
            ),
            (
                body(&[time_series(&[name, ("a", &long)], &[])]),
                "series 1 of the request (m): label a of 6001 bytes, more than 5120",
            ),
            (body(&[time_series(&[("a", "b"); 70], &[])]), "series 1 of the request: label a is there twice"),
        ];
        for (body, expected) in cases {
            let (status, reason) = reason(&body, &limits);
            assert!(status == 400 && reason.starts_with(expected), "{status} {reason:?}, expected {expected:?}");
        }
    }

    #[test]
    fn limits_are_named() {
        let limits = Limits { body_bytes: 1000, decompressed_bytes: 2000, labels: 2, samples: 3, ..Limits::default() };
        let body_of = |labels: &[(&str, &str)], samples: usize| body(&[time_series(labels, &vec![(0.5, 1); samples])]);
        let name = ("__name__", "m");
        assert!(decode(&body_of(&[name, ("a", "")], 3), &limits).is_ok());
        let expect =
            |body: &[u8], expected: (u16, &str)| assert_eq!(reason(body, &limits), (expected.0, expected.1.to_owned()));
        expect(&[0; 1001], (413, "compressed body of 1001 bytes, more than the limit of 1000"));
        expect(&compress(&[0; 2001]), (413, "decompressed body of 2001 bytes, more than the limit of 2000"));
        expect(&body_of(&[name], 4), (400, "more than 3 samples in one request"));
        expect(&body_of(&[name, ("a", ""), ("b", "")], 1), (400, "series 1 of the request (m): more than 2 labels"));
    }

    #[test]
    fn a_lying_snappy_header_takes_no_memory() {
        // The header promises 4 GiB - 1.
        let (status, reason) = reason(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], &Limits::default());
        assert!(status == 413 && reason.contains("4294967295 bytes"), "{status} {reason}");
    }

    proptest! {
        #[test]
        fn garbage_never_panics(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&message, &Limits::default());
            let _ = decode(&compress(&message), &Limits::default());
        }

        #[test]
        fn a_damaged_request_never_panics(place in 0_usize..200, byte in any::<u8>()) {
            let series = time_series(&[("__name__", "metric"), ("label", "value")], &[(1.0, 1), (2.0, 2)]);
            let mut message = WriteRequest { timeseries: vec![series; 3], metadata: Vec::new() }.encode_to_vec();
            let place = place % message.len();
            message[place] = byte;
            let _ = decode(&compress(&message), &Limits::default());
        }
    }
}
