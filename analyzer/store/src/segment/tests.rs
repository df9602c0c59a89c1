//! What is written is read back, whatever the format.

use proptest::prelude::*;

use super::about::About;
use super::encode::GROUP_ROWS;
use super::*;
use goodput_exposition::sample::{Labels, STALE_BITS};

const ALL: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;

fn row(id: u32, time_ms: TimeMs, value: f64) -> (SeriesId, Sample) {
    (SeriesId(id), Sample { time_ms, value })
}

fn encode(rows: impl Iterator<Item = (SeriesId, Sample)>) -> Result<(Vec<u8>, Vec<RowGroup>), String> {
    let rows: Vec<_> = rows.collect();
    let series = rows.chunk_by(|a, b| a.0 == b.0);
    let series = series.map(|rows| (rows[0].0, rows.iter().map(|(_, sample)| *sample).collect::<Vec<_>>()));
    let series: Vec<_> = series.collect();
    Encoder::of(series.iter().map(|(id, samples)| (*id, samples.as_slice())))?.finish(&About::default(), |_| None)
}

fn samples(bytes: &[u8], groups: &[RowGroup], ids: &[u32], range: &Range<TimeMs>) -> Vec<Vec<(TimeMs, u64)>> {
    let ids: Vec<_> = ids.iter().map(|id| SeriesId(*id)).collect();
    let mut out = vec![Vec::new(); ids.len()];
    decode(bytes, groups, &ids, range, &mut out).unwrap();
    out.iter().map(|samples| samples.iter().map(|s| (s.time_ms, s.value.to_bits())).collect()).collect()
}

#[test]
fn every_bit_pattern_comes_back() {
    let odd = [STALE_BITS, 0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0002, (-0.0_f64).to_bits(), 0, 1, u64::MAX];
    // Many repeats of few values, which is what invites a dictionary.
    let rows: Vec<_> = (0..100_000_u32)
        .map(|i| row(i / 1000, i64::from(i % 1000), f64::from_bits(odd[i as usize % odd.len()])))
        .collect();
    let (bytes, groups) = encode(rows.iter().copied()).unwrap();
    let read = samples(&bytes, &groups, &(0..100).collect::<Vec<_>>(), &ALL);
    let written: Vec<Vec<_>> =
        rows.chunks(1000).map(|series| series.iter().map(|(_, s)| (s.time_ms, s.value.to_bits())).collect()).collect();
    assert_eq!(read, written);
}

#[test]
fn only_the_asked_series_and_times_come_back() {
    let rows = (0..1_400_000_u32).map(|i| row(i / 30, i64::from(i % 30), f64::from(i)));
    let (bytes, groups) = encode(rows).unwrap();
    assert_eq!(
        groups.iter().map(|g| (g.first_row, g.rows)).collect::<Vec<_>>(),
        [(0, 1_048_590), (1_048_590, 351_410)]
    );
    let value = |i: u32| f64::from(i).to_bits();
    let got = samples(&bytes, &groups, &[0, 34_953, 46_665, 46_667], &(4..6));
    assert_eq!(got[0], [(4, value(4)), (5, value(5))]);
    assert_eq!(got[1], [(4, value(1_048_594)), (5, value(1_048_595))]);
    assert_eq!(got[2], [(4, value(1_399_954)), (5, value(1_399_955))]);
    assert_eq!(got[3], []);
}

#[test]
fn long_series_are_cut_and_their_own_times_kept() {
    let long = |id: u32, step: i64| (0..10_000).map(move |n| row(id, n * step, n as f64));
    let rows: Vec<_> = long(1, 15_000).chain(long(2, 15_000)).chain(long(3, 30_000)).chain(long(4, 15_000)).collect();
    let (bytes, groups) = encode(rows.iter().copied()).unwrap();
    let all = samples(&bytes, &groups, &[1, 2, 3, 4], &ALL);
    let written = rows.chunks(10_000).map(|s| s.iter().map(|(_, s)| (s.time_ms, s.value.to_bits())).collect());
    assert_eq!(all, written.collect::<Vec<Vec<_>>>());
    // The last chunk of series 4 has times that series 3 has not; asked alone, none before it is decoded.
    let end = samples(&bytes, &groups, &[4], &(9_999 * 15_000..TimeMs::MAX));
    assert_eq!(end, [[(9_999 * 15_000, 9_999_f64.to_bits())]]);
}

#[test]
fn a_node_scraped_for_hours_takes_a_byte_per_sample() {
    let counter = |id: u32, n: i64| (n * 50 + i64::from((id * 7 + n as u32 * 31) % 97)) as f64 / 100.0;
    let rows = (0..200_u32).flat_map(|id| (0..1000_i64).map(move |n| row(id, n * 15_000, counter(id, n))));
    let (bytes, groups) = encode(rows).unwrap();
    assert_eq!(groups.iter().map(|group| group.rows).sum::<usize>(), 200_000);
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
}

/// What a segment says of itself, of a node's series with the labels that DCGM series have.
#[test]
fn labels_take_little_of_a_segment() {
    let labels = |id: SeriesId| {
        let (gpu, metric) = (id.0 % 8, id.0 / 8);
        let host = format!("gpu-node-{:04}", metric / 60);
        let pairs = [
            ("__name__", format!("DCGM_FI_DEV_METRIC_{}", metric % 60)),
            ("Hostname", host.clone()),
            ("UUID", format!("GPU-{:08x}-{:04x}-5f6a-9b1c-{:012x}", id.0 % 8 * 77_777_777, metric / 60, gpu * 99_999)),
            ("device", format!("nvidia{gpu}")),
            ("gpu", gpu.to_string()),
            ("instance", format!("{host}:9400")),
            ("job", "gpu".to_owned()),
            ("modelName", "NVIDIA H100 80GB HBM3".to_owned()),
            ("pod", format!("train-{}-{:x}", gpu / 4, metric / 60 * 7919)),
        ];
        Some(Labels::new(pairs))
    };
    let size = |named: bool| {
        let mut encoder = Encoder::new().unwrap();
        for id in 0..4800 {
            let sample = |n: i64| Sample { time_ms: n * 15_000, value: f64::from(id) + (n * n % 97) as f64 };
            encoder.push(SeriesId(id), &(0..240).map(sample).collect::<Vec<_>>()).unwrap();
        }
        encoder.finish(&About::default(), |id| labels(id).filter(|_| named)).unwrap().0.len()
    };
    let per_series = (size(true) - size(false)) as f64 / 4800.0;
    assert!(per_series < 40.0, "{per_series} bytes per series");
}

/// Written in format 1: series 1 and 3 at 0, 15 and 30 s, odd values.
#[test]
fn a_segment_of_format_1_is_read() {
    let bytes = include_bytes!("../../fixtures/segment-format-1.parquet");
    let group = RowGroup {
        first_row: 0,
        rows: 6,
        first_series: SeriesId(1),
        last_series: SeriesId(3),
        first_ms: 0,
        last_ms: 30_000,
    };
    let odd = [(0, 0.1_f64.to_bits()), (15_000, STALE_BITS), (30_000, (-0.0_f64).to_bits())];
    assert_eq!(samples(bytes, &[group], &[1, 2, 3], &ALL), [odd.to_vec(), vec![], odd.to_vec()]);
    assert_eq!(samples(bytes, &[group], &[3], &(1..20_000)), [odd[1..2].to_vec()]);
}

#[test]
fn a_format_of_the_future_and_a_wrong_index_are_errors() {
    let (mut bytes, groups) = encode((0..10).map(|n| row(1, n, 0.5))).unwrap();
    let error = decode(&bytes, &[], &[], &ALL, &mut []).unwrap_err();
    assert_eq!(error, "1 row groups, 0 in the index");
    // The value follows its key, its length and the tag of its field.
    let key = bytes.windows(FORMAT_KEY.len()).position(|window| window == FORMAT_KEY.as_bytes()).unwrap();
    let place = key + FORMAT_KEY.len() + 2;
    assert_eq!(&bytes[place..=place], FORMAT.as_bytes());
    bytes[place] = b'2';
    let of = |bytes: &[u8]| samples(bytes, &groups, &[1], &ALL);
    assert_eq!(of(&bytes), [(0..10).map(|n| (n, 0.5_f64.to_bits())).collect::<Vec<_>>()], "format 2 has these rows");
    assert!(about::describe(&bytes).unwrap_err().contains("format 2, which does not name its series"));
    bytes[place] = b'4';
    assert_eq!(decode(&bytes, &groups, &[], &ALL, &mut []).unwrap_err(), "format 4, expected at most 3");
}

#[test]
fn a_group_is_skipped_when_it_cannot_hold_the_answer() {
    let group = RowGroup {
        first_row: 0,
        rows: 1,
        first_series: SeriesId(5),
        last_series: SeriesId(9),
        first_ms: 100,
        last_ms: 200,
    };
    assert!(group.may_hold(&[SeriesId(9)], &(200..201)));
    assert!(!group.may_hold(&[SeriesId(4), SeriesId(10)], &(0..1000)));
    assert!(!group.may_hold(&[SeriesId(5)], &(0..100)));
    assert!(!group.may_hold(&[SeriesId(5)], &(201..300)));
}

#[test]
fn no_parquet_is_an_error() {
    assert!(decode(b"PAR1 but nothing else PAR1", &[], &[], &ALL, &mut []).is_err());
}

#[test]
fn series_that_are_there_are_taken_out() {
    let rows = (0..700_000_u32).map(|i| row(2 * (i / 10), i64::from(i % 10), 1.0));
    let (bytes, groups) = encode(rows).unwrap();
    assert_eq!(groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [10 * GROUP_ROWS, 700_000 - 10 * GROUP_ROWS]);
    let mut ids = [0, 1, 131_070, 131_071, 131_072, 139_998, 139_999].map(SeriesId).to_vec();
    take_out(&bytes, &mut ids).unwrap();
    assert_eq!(ids, [1, 131_071, 139_999].map(SeriesId));
    let old = include_bytes!("../../fixtures/segment-format-1.parquet");
    let mut ids = [1, 2, 3].map(SeriesId).to_vec();
    take_out(old, &mut ids).unwrap();
    assert_eq!(ids, [SeriesId(2)]);
    take_out(b"PAR1 but nothing else PAR1", &mut ids).unwrap_err();
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_, groups) = encode([row(1, 0, 0.5)].into_iter()).unwrap();
        for bytes in [&bytes, &[b"PAR1".as_slice(), &bytes, b"PAR1"].concat()] {
            decode(bytes, &groups, &[SeriesId(1)], &ALL, &mut [Vec::new()]).unwrap_err();
        }
    }
}
