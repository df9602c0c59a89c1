use proptest::prelude::*;

use super::super::messages::{self, Label, QueryResult};
use super::*;
use crate::DEFAULT_LIMIT;

const RANGE: Range<TimeMs> = 10..20;

fn series(metric: &str, times: &[TimeMs]) -> TimeSeries {
    let sample = |(n, timestamp): (usize, &TimeMs)| messages::Sample { value: n as f64, timestamp: *timestamp };
    TimeSeries {
        labels: vec![Label { name: "__name__".to_owned(), value: metric.to_owned() }],
        samples: times.iter().enumerate().map(sample).collect(),
        histograms: Vec::new(),
    }
}

fn body(results: Vec<Vec<TimeSeries>>) -> Vec<u8> {
    let results = results.into_iter().map(|timeseries| QueryResult { timeseries }).collect();
    compressed(&ReadResponse { results }.encode_to_vec())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

fn read(body: &[u8]) -> Result<Answer, DecodeError> {
    decode(body, &RANGE, DEFAULT_LIMIT)
}

fn malformed(body: &[u8]) -> String {
    match read(body) {
        Err(DecodeError::Malformed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn samples_are_cut_and_in_order() {
    let answer = read(&body(vec![vec![series("a", &[9, 10, 19, 20, 12, 10]), series("b", &[9, 20])]])).unwrap();
    let [found] = answer.series.as_slice() else { panic!("{answer:?}") };
    assert_eq!(found.labels.metric(), "a");
    let pairs: Vec<_> = found.samples.iter().map(|sample| (sample.time_ms, sample.value)).collect();
    assert_eq!(pairs, [(10, 1.0), (12, 4.0), (19, 2.0)]);
}

#[test]
fn bits_of_values_are_kept() {
    let mut one = series("a", &[10, 11]);
    one.samples[0].value = f64::from_bits(goodput_exposition::sample::STALE_BITS);
    one.samples[1].value = f64::from_bits(0xfff8_0000_0000_1234);
    let bits: Vec<_> = one.samples.iter().map(|sample| sample.value.to_bits()).collect();
    let answer = read(&body(vec![vec![one]])).unwrap();
    assert_eq!(answer.series[0].samples.iter().map(|sample| sample.value.to_bits()).collect::<Vec<_>>(), bits);
}

#[test]
fn native_histograms_are_skipped_and_counted() {
    let histograms = TimeSeries { histograms: vec![vec![1, 2, 3], vec![]], ..series("a", &[]) };
    let answer = read(&body(vec![vec![histograms, series("b", &[11])]])).unwrap();
    assert_eq!((answer.series.len(), answer.histograms), (1, 2));
}

#[test]
fn an_answer_has_one_result() {
    assert_eq!(read(&body(vec![vec![]])).unwrap(), Answer::default());
    assert_eq!(malformed(&body(vec![])), "0 results; expected 1, for the only query");
    assert_eq!(malformed(&body(vec![vec![], vec![]])), "2 results; expected 1, for the only query");
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_its_header_alone() {
    // A header that promises 4 GiB, and nothing after it.
    let bytes = u64::from(u32::MAX);
    let error = DecodeError::TooLarge { what: "decompressed message", bytes, limit: DEFAULT_LIMIT };
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(error));
    let body = body(vec![vec![series("a", &[10, 11, 12])]]);
    let size = snap::raw::decompress_len(&body).unwrap();
    assert!(decode(&body, &RANGE, size).is_ok());
    let error = DecodeError::TooLarge { what: "decompressed message", bytes: size as u64, limit: size - 1 };
    assert_eq!(decode(&body, &RANGE, size - 1), Err(error));
}

#[test]
fn a_body_cut_anywhere_is_malformed() {
    let body = body(vec![vec![series("a", &[10, 11, 12]), series("b", &[10, 11, 12])]]);
    for end in 0..body.len() {
        assert!(malformed(&body[..end]).starts_with("expected a block of snappy: "), "{end}");
    }
}

#[test]
fn a_message_cut_within_its_result_is_malformed() {
    let body = body(vec![vec![series("a", &[10, 11, 12])]]);
    let message = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    for end in 0..message.len() {
        malformed(&compressed(&message[..end]));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, &RANGE, 1 << 16);
        let _ = decode(&compressed(&bytes), &RANGE, 1 << 16);
    }
}
