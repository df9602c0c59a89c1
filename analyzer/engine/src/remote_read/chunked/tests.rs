use proptest::prelude::*;

use super::super::messages::{ChunkedSeries, Label};
use super::*;
use crate::xor::test_encoder::encode;

fn label(name: &str, value: &str) -> Label {
    Label { name: name.to_owned(), value: value.to_owned() }
}

fn samples(times: &[TimeMs], value: f64) -> Vec<Sample> {
    times.iter().map(|&time_ms| Sample { time_ms, value }).collect()
}

fn chunk(times: &[TimeMs], value: f64) -> Chunk {
    Chunk { encoding: 1, data: encode(&samples(times, value)), ..Chunk::default() }
}

fn frame(metric: &str, chunks: Vec<Chunk>) -> ChunkedReadResponse {
    let series = ChunkedSeries { labels: vec![label("job", "x"), label("__name__", metric)], chunks };
    ChunkedReadResponse { chunked_series: vec![series], query_index: 0 }
}

fn answer(frames: Vec<ChunkedReadResponse>, range: Range<TimeMs>) -> Result<Answer, DecodeError> {
    let mut gathered = Gathered::default();
    frames.into_iter().try_for_each(|frame| gathered.add(frame))?;
    gathered.into_answer(&range)
}

fn pairs(series: &Series) -> Vec<(TimeMs, f64)> {
    series.samples.iter().map(|sample| (sample.time_ms, sample.value)).collect()
}

#[test]
fn a_series_goes_on_in_further_frames() {
    let two = ChunkedReadResponse {
        chunked_series: [frame("a", vec![chunk(&[5], 3.0)]), frame("b", vec![chunk(&[2], 4.0)])]
            .into_iter()
            .flat_map(|frame| frame.chunked_series)
            .collect(),
        query_index: 0,
    };
    let frames = vec![frame("a", vec![chunk(&[1, 2], 1.0)]), frame("a", vec![chunk(&[3], 2.0)]), two];
    let answer = answer(frames, 0..10).unwrap();
    assert_eq!(answer.series.iter().map(|series| series.labels.metric()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(pairs(&answer.series[0]), [(1, 1.0), (2, 1.0), (3, 2.0), (5, 3.0)]);
    assert_eq!(pairs(&answer.series[1]), [(2, 4.0)]);
    assert_eq!(answer.series[0].labels.get("job"), Some("x"));
}

#[test]
fn a_series_that_comes_again_after_another_is_one_series() {
    let frames = vec![
        frame("a", vec![chunk(&[1], 1.0)]),
        frame("b", vec![chunk(&[1], 2.0)]),
        frame("a", vec![chunk(&[2], 3.0)]),
    ];
    let answer = answer(frames, 0..10).unwrap();
    assert_eq!(answer.series.iter().map(pairs).collect::<Vec<_>>(), [vec![(1, 1.0), (2, 3.0)], vec![(1, 2.0)]]);
}

#[test]
fn samples_outside_of_the_range_are_cut() {
    let frames = vec![frame("a", vec![chunk(&[1, 2, 3, 4, 5], 1.0)]), frame("b", vec![chunk(&[1, 5], 1.0)])];
    let answer = answer(frames, 2..5).unwrap();
    assert_eq!(answer.series.iter().map(pairs).collect::<Vec<_>>(), [[(2, 1.0), (3, 1.0), (4, 1.0)]]);
}

#[test]
fn of_overlapping_chunks_the_first_is_kept() {
    let frames = vec![frame("a", vec![chunk(&[4, 6], 1.0), chunk(&[3, 4, 5, 6, 7], 2.0)])];
    let answer = answer(frames, 0..10).unwrap();
    assert_eq!(pairs(&answer.series[0]), [(3, 2.0), (4, 1.0), (5, 2.0), (6, 1.0), (7, 2.0)]);
}

#[test]
fn native_histograms_are_skipped_and_counted() {
    let histogram = |encoding, data: &[u8]| Chunk { encoding, data: data.to_vec(), ..Chunk::default() };
    let frames = vec![
        frame("a", vec![histogram(2, &[1, 2, 99, 99]), chunk(&[1], 1.0), histogram(3, &[0, 3])]),
        frame("b", vec![histogram(2, &[0, 1])]),
    ];
    let found = answer(frames, 0..10).unwrap();
    assert_eq!((found.series.len(), found.histograms), (1, 258 + 3 + 1));
    let short = answer(vec![frame("a", vec![histogram(2, &[1])])], 0..10);
    let text = "chunk of 1 bytes; expected 2 bytes with its number of samples";
    assert_eq!(short, Err(DecodeError::BrokenOff(text.to_owned())));
}

#[test]
fn an_encoding_that_is_not_known_is_named() {
    for encoding in [-1, 0, 4, 5, i32::MAX] {
        let other = Chunk { encoding, ..chunk(&[1], 1.0) };
        let frames = vec![frame("a", vec![chunk(&[1], 1.0), other])];
        assert_eq!(answer(frames, 0..10), Err(DecodeError::UnknownEncoding(encoding)));
    }
}

#[test]
fn an_answer_to_another_query_is_malformed() {
    for query_index in [1, -1] {
        let frames = vec![ChunkedReadResponse { query_index, ..frame("a", Vec::new()) }];
        let text = format!("frame for query {query_index}; expected query 0, the only one");
        assert_eq!(answer(frames, 0..10), Err(DecodeError::Malformed(text)));
    }
}

#[test]
fn a_label_that_is_there_twice_is_malformed() {
    let mut frame = frame("a", Vec::new());
    frame.chunked_series[0].labels.push(label("job", "y"));
    let text = "labels of a series with \"job\" twice; expected each name once";
    assert_eq!(answer(vec![frame], 0..10), Err(DecodeError::Malformed(text.to_owned())));
}

#[test]
fn a_chunk_that_is_cut_spoils_the_answer() {
    let mut cut = chunk(&[1, 2, 3], 1.0);
    cut.data.pop();
    cut.data.pop();
    assert!(matches!(answer(vec![frame("a", vec![cut])], 0..10), Err(DecodeError::BrokenOff(_))));
}

#[test]
fn packed_series_know_their_size() {
    let mut gathered = Gathered::default();
    let (one, two) = (chunk(&[1], 1.0), chunk(&[2, 3], 1.0));
    let bytes = one.data.len() + two.data.len();
    gathered.add(frame("a", vec![one, two])).unwrap();
    let (series, histograms) = gathered.into_packed();
    assert_eq!((series.len(), series[0].bytes(), histograms), (1, bytes, 0));
    assert_eq!(series[0].samples(&(0..10)).unwrap(), samples(&[1, 2, 3], 1.0));
}

proptest! {
    #[test]
    fn samples_of_chunks_are_found_in_order(chunks in proptest::collection::vec(proptest::collection::vec(0..40_i64, 0..20), 0..6)) {
        let mut expected = std::collections::BTreeMap::new();
        let mut frames = Vec::new();
        for (n, times) in chunks.iter().enumerate() {
            let times: std::collections::BTreeSet<_> = times.iter().copied().collect();
            let times: Vec<_> = times.into_iter().collect();
            times.iter().filter(|time| (5..35).contains(*time)).for_each(|time| {
                expected.entry(*time).or_insert(n as f64);
            });
            frames.push(frame("a", vec![chunk(&times, n as f64)]));
        }
        let found = answer(frames, 5..35).unwrap();
        let found: Vec<_> = found.series.iter().flat_map(pairs).collect();
        prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }
}
