//! The decoder against an encoder of its own and, for 2.0, which no packaged Prometheus sends, against bytes written out
//! by hand from the format's definition.

mod given_up;

use proptest::prelude::*;
use prost::Message as _;

use super::super::Limits;
use super::super::skipped::{Rules, Skipped};
use super::*;
use goodput_exposition::sample::{Labels, STALE_BITS, SeriesRef};

#[derive(Clone, PartialEq, prost::Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
    #[prost(bytes = "vec", tag = "3")]
    metadata: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Point>,
    #[prost(bytes = "vec", tag = "3")]
    exemplars: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Point {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
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

/// Keeps every metric but `foreign`.
fn decode(body: &[u8], message: Message, limits: &Limits) -> Result<Decoded, DecodeError> {
    super::decode(body, message, &Rules { limits, keeps: &|metric| metric != "foreign" })
}

/// Of a request with a bad series between two good ones: the metrics that come through, and reason and detail of the other.
fn left_out(body: &[u8], message: Message, limits: &Limits) -> (Vec<String>, String) {
    let Decoded { batch, skipped, .. } = decode(body, message, limits).unwrap();
    let metrics = batch.series().map(|series| series.labels.metric().to_owned()).collect();
    let named: Vec<_> = skipped.named().map(|(metric, named)| (metric, named.fault.clone())).collect();
    let [(metric, fault)] = &*named else { panic!("{named:?}") };
    (metrics, format!("{} {metric:?}: {}", fault.reason.name(), fault.detail))
}

fn reason(body: &[u8], limits: &Limits) -> (u16, String) {
    let error = decode(body, Message::V1, limits).unwrap_err();
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
    let Decoded { batch, passed_over, .. } = decode(&body(&written), Message::V1, &Limits::default()).unwrap();
    assert_eq!(passed_over, PassedOver { histograms: 0, exemplars: 3, metadata: 1 });
    let series: Vec<_> = batch.series().collect();
    let labels = Labels::new([("__name__", "up"), ("a", "\u{e9}"), ("z", "1")]);
    assert_eq!(series.iter().map(|s| s.labels).collect::<Vec<_>>(), [labels.as_ref(), labels.as_ref()]);
    let bits =
        |series: &SeriesRef<'_>| series.samples.iter().map(|s| (s.time_ms, s.value.to_bits())).collect::<Vec<_>>();
    assert_eq!(bits(&series[0]), [(-5, 1.0_f64.to_bits()), (6, STALE_BITS)]);
    assert_eq!(bits(&series[1]), [(i64::MAX, 2.0_f64.to_bits())]);
}

#[test]
fn an_empty_request_is_one() {
    assert!(decode(&body(&[]), Message::V1, &Limits::default()).unwrap().batch.is_empty());
}

#[test]
fn refusals_say_what_was_wrong() {
    let cases: [(Vec<u8>, &str); 3] = [
        (b"garbage".to_vec(), "body is not snappy (block format): "),
        (compress(b"garbage"), "body is not a prometheus.WriteRequest: "),
        (compress(&[0x0a, 0x7f, 0x00]), "body is not a prometheus.WriteRequest: field 1 of 127 bytes is cut short"),
    ];
    for (body, expected) in cases {
        let (status, reason) = reason(&body, &Limits::default());
        assert!(status == 400 && reason.starts_with(expected), "{status} {reason:?}, expected {expected:?}");
    }
}

type RawLabel<'a> = (&'a [u8], &'a [u8]);

/// A series whose labels are these bytes.
fn raw_series(labels: &[RawLabel<'_>]) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut field);
        field.extend(content);
        field
    };
    let label = |(name, value): &RawLabel<'_>| field(1, &[field(1, name), field(2, value)].concat());
    let sample = field(2, &[b"\x09".as_slice(), &1.0_f64.to_le_bytes(), b"\x10\x07"].concat());
    field(1, &[labels.iter().map(label).collect::<Vec<_>>().concat(), sample].concat())
}

#[test]
fn a_bad_series_costs_itself() {
    let (long, huge) = ("x".repeat(6000), "y".repeat(1 << 20));
    let many: Vec<_> = (0..70).map(|n| format!("l{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_bytes(), b"1".as_slice())).chain([name("m")]).collect();
    fn name(metric: &str) -> (&[u8], &[u8]) {
        (b"__name__", metric.as_bytes())
    }
    let label = |name: &'static [u8], value: &'static [u8]| (name, value);
    let cases: [(Vec<RawLabel<'_>>, &str); 11] = [
        (vec![label(b"a", b"b")], r#"metric_name "": the metric name is missing"#),
        (vec![name(""), label(b"a", b"b")], r#"metric_name "": the metric name is missing"#),
        (vec![name("m"), label(b"", b"b")], r#"empty_label "m": label 2 has no name"#),
        (vec![name("m"), label(b"a", b"b"), label(b"a", b"c")], r#"duplicate_label "m": label "a" is there twice"#),
        (
            vec![label(b"b", b"b"), label(b"a", b"b"), label(b"b", b"c"), name("m")],
            r#"duplicate_label "m": label "b" is there twice"#,
        ),
        (vec![name("m"), (b"a", long.as_bytes())], r#"label_bytes "m": label "a" of 6001 bytes, more than 5120"#),
        (vec![(b"a", huge.as_bytes()), name("m")], r#"label_bytes "m": label "a" of 1048577 bytes, more than 5120"#),
        (many, r#"label_count "m": more than 64 labels"#),
        (vec![name("m"), label(b"a", b"\xff")], r#"invalid_utf8 "m": label "a" is not UTF-8"#),
        (vec![label(b"\xff", b"a"), name("m")], "invalid_utf8 \"m\": label \"\u{fffd}\" is not UTF-8"),
        (vec![label(b"__name__", b"\xff")], r#"invalid_utf8 "": label "__name__" is not UTF-8"#),
    ];
    for (labels, expected) in cases {
        let message = [raw_series(&[name("first")]), raw_series(&labels), raw_series(&[name("last")])].concat();
        let (metrics, reason) = left_out(&compress(&message), Message::V1, &Limits::default());
        assert_eq!((metrics, reason.as_str()), (vec!["first".to_owned(), "last".to_owned()], expected));
        let decoded = decode(&compress(&message), Message::V1, &Limits::default()).unwrap();
        assert_eq!((decoded.skipped.samples(), decoded.batch.sample_count()), (1, 2));
    }
}

#[test]
fn limits_of_labels_do_not_apply_to_a_metric_that_is_not_kept() {
    let long = "x".repeat(6000);
    let labels = [("__name__", "foreign"), ("a", long.as_str())];
    let written = [time_series(&labels, &[(1.0, 1), (2.0, 2)]), time_series(&[("__name__", "m")], &[(1.0, 1)])];
    let Decoded { batch, skipped, .. } = decode(&body(&written), Message::V1, &Limits::default()).unwrap();
    assert_eq!((skipped.series().count(), skipped.samples()), (0, 0));
    let named: Vec<_> = skipped.named().map(|(metric, named)| (metric, named.fault.bytes, named.kept)).collect();
    assert_eq!(named, [("foreign", 6001 + "__name__foreign".len(), false)]);
    let read: Vec<_> = batch.series().map(|s| (s.labels.iter().count(), s.samples.len())).collect();
    assert_eq!(read, [(0, 2), (1, 1)], "it comes without labels, to be counted as unknown");
}

#[test]
fn names_of_prometheus_3_are_names() {
    let written = [time_series(&[("__name__", "my.metric"), ("my.label", "\u{e9}")], &[(1.0, 1)])];
    let Decoded { batch, skipped, .. } = decode(&body(&written), Message::V1, &Limits::default()).unwrap();
    assert_eq!(skipped, Skipped::default());
    assert_eq!(batch.last_labels(), Labels::new([("__name__", "my.metric"), ("my.label", "\u{e9}")]).as_ref());
}

#[test]
fn a_message_of_the_other_version_is_named() {
    let one = body(&[time_series(&[("__name__", "m")], &[(1.0, 1)])]);
    let two = request_2(&["", "__name__", "m"], &[(&[1, 2], 1)]);
    let cases = [(one, Message::V2, "io.prometheus.write.v2.Request"), (two, Message::V1, "prometheus.WriteRequest")];
    for (body, message, announced) in cases {
        let error = decode(&body, message, &Limits::default()).unwrap_err();
        assert!(
            error.status() == 415 && error.to_string().starts_with(&format!("body is not a {announced}: ")),
            "{error}"
        );
    }
}

#[test]
fn limits_are_named() {
    let limits = Limits { body_bytes: 1000, decompressed_bytes: 2000, labels: 2, samples: 3, ..Limits::default() };
    let body_of = |labels: &[(&str, &str)], samples: usize| body(&[time_series(labels, &vec![(0.5, 1); samples])]);
    let name = ("__name__", "m");
    assert!(decode(&body_of(&[name, ("a", "")], 3), Message::V1, &limits).is_ok());
    let expect =
        |body: &[u8], expected: (u16, &str)| assert_eq!(reason(body, &limits), (expected.0, expected.1.to_owned()));
    expect(&[0; 1001], (413, "compressed body of 1001 bytes, more than the limit of 1000"));
    expect(&compress(&[0; 2001]), (413, "decompressed body of 2001 bytes, more than the limit of 2000"));
    expect(&body_of(&[name], 4), (400, "more than 3 samples in one request"));
    let (_, reason) = left_out(&body_of(&[name, ("a", ""), ("b", "")], 1), Message::V1, &limits);
    assert_eq!(reason, "label_count \"m\": more than 2 labels");
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
        for version in [Message::V1, Message::V2] {
            let _ = decode(&message, version, &Limits::default());
            let _ = decode(&compress(&message), version, &Limits::default());
        }
    }

    #[test]
    fn a_damaged_request_never_panics(place in 0_usize..200, byte in any::<u8>()) {
        let series = time_series(&[("__name__", "metric"), ("label", "value")], &[(1.0, 1), (2.0, 2)]);
        let mut message = WriteRequest { timeseries: vec![series; 3], metadata: Vec::new() }.encode_to_vec();
        let place = place % message.len();
        message[place] = byte;
        let _ = decode(&compress(&message), Message::V1, &Limits::default());
    }
}

/// `io.prometheus.write.v2.Request` by its own encoder.
#[derive(Clone, PartialEq, prost::Message)]
struct Request2 {
    #[prost(string, repeated, tag = "4")]
    symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    timeseries: Vec<TimeSeries2>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries2 {
    #[prost(uint32, repeated, tag = "1")]
    labels_refs: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Point2>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    histograms: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    exemplars: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    metadata: Vec<Vec<u8>>,
    #[prost(int64, tag = "6")]
    created_timestamp: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Point2 {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
    #[prost(int64, tag = "3")]
    start_timestamp: i64,
}

fn request_2(symbols: &[&str], all: &[(&[u32], usize)]) -> Vec<u8> {
    let point = Point2 { value: 0.5, timestamp: -7, start_timestamp: 3 };
    let series = |(refs, samples): &(&[u32], usize)| TimeSeries2 {
        labels_refs: refs.to_vec(),
        samples: vec![point; *samples],
        histograms: vec![b"h".to_vec(); 2],
        exemplars: vec![b"e".to_vec()],
        metadata: vec![vec![]],
        created_timestamp: 5,
    };
    let symbols = symbols.iter().map(|symbol| (*symbol).to_owned()).collect();
    let request = Request2 { symbols, timeseries: all.iter().map(series).collect() };
    compress(&request.encode_to_vec())
}

#[test]
fn version_2_is_read_as_its_bytes_say() {
    #[rustfmt::skip]
    let message = [
        // Field 4 (key 4 << 3 | 2 = 0x22), a symbol: length and text. Number 0 is the empty one.
        0x22, 0,
        0x22, 8, b'_', b'_', b'n', b'a', b'm', b'e', b'_', b'_',
        0x22, 1, b'm',
        // Field 5 (0x2a), a series of 41 bytes.
        0x2a, 41,
            // Field 1 (0x0a), the references 1 and 2, then 3 and 4, packed.
            0x0a, 4, 1, 2, 3, 4,
            // Field 2 (0x12), a sample of 15 bytes: field 1 (0x09), the value 1.5 as 8 bytes, little endian; field 2
            // (0x10), the time 1000 as a varint (0xe8 0x07); field 3 (0x18), the start 999.
            0x12, 15, 0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xe8, 0x07, 0x18, 0xe7, 0x07,
            // Field 4 (0x22), an exemplar with nothing but a value.
            0x22, 9, 0x09, 0, 0, 0, 0, 0, 0, 0, 0x40,
            // Field 5 (0x2a), metadata: field 1, the type 1 (a counter). Field 6 (0x30), the time of creation 998.
            0x2a, 2, 0x08, 1,
            0x30, 0xe6, 0x07,
        // A series of 20 bytes whose references come one by one (0x08), and out of order.
        0x2a, 21,
            0x08, 3, 0x08, 4, 0x08, 1, 0x08, 2,
            // The staleness marker at time 1.
            0x12, 11, 0x09, 0x02, 0, 0, 0, 0, 0, 0xf0, 0x7f, 0x10, 1,
        // A series of nothing but a native histogram (field 3, 0x1a).
        0x2a, 8, 0x0a, 2, 1, 2, 0x1a, 2, 0x08, 1,
        // The last symbols come after the series that refer to them.
        0x22, 1, b'a',
        0x22, 2, 0xc3, 0xa9,
    ];
    let Decoded { batch, passed_over, .. } = decode(&compress(&message), Message::V2, &Limits::default()).unwrap();
    assert_eq!(passed_over, PassedOver { histograms: 1, exemplars: 1, metadata: 1 });
    let labels = Labels::new([("__name__", "m"), ("a", "\u{e9}")]);
    let read: Vec<_> = batch.series().map(|s| (s.labels, s.samples[0].time_ms, s.samples[0].value.to_bits())).collect();
    assert_eq!(read, [(labels.as_ref(), 1000, 1.5_f64.to_bits()), (labels.as_ref(), 1, STALE_BITS)]);
    // The same bytes hold no field of version 1.
    assert!(matches!(decode(&compress(&message), Message::V1, &Limits::default()), Err(DecodeError::Other(..))));
}

#[test]
fn version_2_is_read_as_its_encoder_writes() {
    let body = request_2(&["", "__name__", "m", "b", "c"], &[(&[1, 2, 3, 4], 3), (&[1, 2], 0), (&[3, 4, 1, 2], 1)]);
    let Decoded { batch, passed_over, .. } = decode(&body, Message::V2, &Limits::default()).unwrap();
    assert_eq!(passed_over, PassedOver { histograms: 6, exemplars: 3, metadata: 3 });
    let labels = Labels::new([("__name__", "m"), ("b", "c")]);
    let read: Vec<_> = batch.series().map(|s| (s.labels.to_labels(), s.samples.len())).collect();
    assert_eq!(read, [(labels.clone(), 3), (labels, 1)]);
    assert_eq!(batch.series().next().map(|s| (s.samples[0].time_ms, s.samples[0].value)), Some((-7, 0.5)));
}

#[test]
fn version_2_says_what_was_wrong() {
    let limits = Limits { symbols: 4, decompressed_bytes: 2000, label_bytes: 900, samples: 9, ..Limits::default() };
    let long = "x".repeat(800);
    let cases = [
        (request_2(&[""; 5], &[]), 400, "body is not a io.prometheus.write.v2.Request: more than 4 symbols"),
        (request_2(&["", "__name__", "m"], &[(&[1, 2], 10)]), 400, "more than 9 samples in one request"),
        // A packed reference that is cut short.
        (compress(b"\x22\x00\x2a\x03\x0a\x01\xff"), 400, "body is not a io.prometheus.write.v2.Request: "),
        // Sent once and referred to three times.
        (
            request_2(&["", "__name__", &long], &[(&[1, 2], 1), (&[1, 2], 1), (&[1, 2], 1)]),
            413,
            "expanded body of 2433 bytes, more than the limit of 2000",
        ),
    ];
    for (body, status, expected) in cases {
        let error = decode(&body, Message::V2, &limits).unwrap_err();
        let (found, reason) = (error.status().as_u16(), error.to_string());
        assert!(found == status && reason.starts_with(expected), "{found} {reason:?}, expected {expected:?}");
    }
}

#[test]
fn a_bad_series_of_version_2_costs_itself() {
    let symbols = ["", "__name__", "m", "a"];
    let cases: [(&[u32], &str); 7] = [
        (&[1, 4], r#"symbol "": reference to symbol 4 of 4"#),
        (&[9, 9, 1, 2], r#"symbol "m": reference to symbol 9 of 4"#),
        (&[1, u32::MAX, 3, 3], r#"symbol "": reference to symbol 4294967295 of 4"#),
        (&[1, 2, 3], r#"symbol "m": label "a" has no value: the references are odd in number"#),
        (&[3, 2], r#"metric_name "": the metric name is missing"#),
        (&[3, 2, 1, 2, 3, 1], r#"duplicate_label "m": label "a" is there twice"#),
        (&[1, 2, 0, 2], r#"empty_label "m": label 2 has no name"#),
    ];
    for (refs, expected) in cases {
        let body = request_2(&symbols, &[(&[1, 2], 1), (refs, 1), (&[1, 2, 3, 2], 1)]);
        let (metrics, reason) = left_out(&body, Message::V2, &Limits::default());
        assert_eq!((metrics, reason.as_str()), (vec!["m".to_owned(), "m".to_owned()], expected));
    }
}

#[test]
fn a_symbol_that_is_not_utf8_costs_the_series_that_refer_to_it() {
    let mut message = vec![];
    for symbol in [b"".as_slice(), b"__name__", b"m", b"\xff"] {
        message.extend([&[0x22, symbol.len() as u8], symbol].concat());
    }
    let point = b"\x12\x0b\x09\0\0\0\0\0\0\xf8\x3f\x10\x01";
    for refs in [b"\x0a\x04\x01\x02\x03\x02", b"\x0a\x04\x01\x02\x02\x02"] {
        let series = [refs.as_slice(), point].concat();
        message.extend([&[0x2a, series.len() as u8], series.as_slice()].concat());
    }
    let (metrics, reason) = left_out(&compress(&message), Message::V2, &Limits::default());
    assert_eq!((metrics, reason.as_str()), (vec!["m".to_owned()], r#"invalid_utf8 "m": symbol 3 is not UTF-8"#));
}
