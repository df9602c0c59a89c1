use goodput_exposition::sample::STALE_BITS;
use proptest::prelude::*;

use super::test_encoder::encode;
use super::*;

fn read(chunk: &[u8]) -> Result<Vec<(TimeMs, u64)>, DecodeError> {
    let mut found = Vec::new();
    let count = decode(chunk, |sample| found.push((sample.time_ms, sample.value.to_bits())))?;
    assert_eq!(count, found.len());
    Ok(found)
}

fn samples(pairs: &[(TimeMs, u64)]) -> Vec<Sample> {
    pairs.iter().map(|&(time_ms, bits)| Sample { time_ms, value: f64::from_bits(bits) }).collect()
}

fn holds(pairs: &[(TimeMs, u64)]) {
    assert_eq!(read(&encode(&samples(pairs))).unwrap(), pairs);
}

/// Chunks by hand: the bits of each sample after the two bytes of the number.
fn by_hand(count: u16, bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
    let bytes = bits.chunks(8).map(|byte| byte.iter().enumerate().fold(0, |sum, (n, bit)| sum | bit << (7 - n)));
    count.to_be_bytes().into_iter().chain(bytes).collect()
}

/// Bits of the first sample: time 1 (zig-zag 2), value 1.0 (0x3ff0…).
const FIRST: &str = "00000010 00111111 11110000 00000000 00000000 00000000 00000000 00000000 00000000";

#[test]
fn a_chunk_by_hand_is_read() {
    let one = 1.0_f64.to_bits();
    // Time + 5, the value unchanged; each difference of time by its prefix; values by a new window and the old one.
    let rows: &[(&str, TimeMs, u64)] = &[
        ("00000101 0", 6, one),
        ("0 0", 11, one),
        ("10 00000000000001 0", 17, one),
        ("10 11111111111111 0", 22, one),
        ("10 10000000000000 0", 22 + 5 + 8192, one),
        ("10 10000000000001 0", 22 + 5 + 8192 + 5 + 8192 - 8191, one),
        ("110 00000000000000001 0", 22 + 5 + 8192 + 5 + 8192 - 8191 + 7, one),
        ("1110 11111111111111111111 0", 22 + 5 + 8192 + 5 + 8192 - 8191 + 7 + 6, one),
        ("1111 1111111111111111111111111111111111111111111111111111111111111111 0", 8243, one),
        ("0 11 00001 000010 11", 8248, one ^ 0b11 << 61),
        ("0 10 01", 8253, one ^ 0b10 << 61),
        ("0 11 00000 000000 1000000000000000000000000000000000000000000000000000000000000001", 8258, !0),
    ];
    let mut bits = FIRST.to_owned();
    let mut expected = vec![(1, one)];
    for (row, time, value) in rows {
        bits += row;
        expected.push((*time, if *value == !0 { (one ^ 0b10 << 61) ^ (1 << 63 | 1) } else { *value }));
    }
    assert_eq!(read(&by_hand(expected.len() as u16, &bits)).unwrap(), expected);
}

#[test]
fn without_a_window_a_value_has_all_its_bits() {
    let changed = 0xf000_0000_0000_0003_u64;
    let chunk = by_hand(2, &format!("{FIRST} 00000101 10 {changed:064b}"));
    assert_eq!(read(&chunk).unwrap(), [(1, 1.0_f64.to_bits()), (6, 1.0_f64.to_bits() ^ changed)]);
}

#[test]
fn extreme_times_and_values_are_exact() {
    let values = [0.0, -0.0, 1.0, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
    let bits = values.map(f64::to_bits).into_iter().chain([STALE_BITS, 0x7ff8_0000_0000_0001, 1, !0]);
    let times = [0, i64::MIN, i64::MAX, -1, 1, i64::MIN + 1, 1_700_000_000_000];
    let pairs: Vec<_> = times.into_iter().cycle().zip(bits).collect();
    holds(&pairs);
    pairs.iter().for_each(|pair| holds(&[*pair]));
    holds(&[]);
}

#[test]
fn every_size_of_a_step_in_time_is_exact() {
    let edges = (0..63).flat_map(|bit| [(1_i64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    for change in edges.flat_map(|edge| [edge, -edge]) {
        holds(&[(0, 7), (10, 7), (20_i64.wrapping_add(change), 7), (30, 8)]);
    }
}

#[test]
fn the_bits_of_a_used_window_may_lie_anywhere() {
    for bit in 0..64 {
        for other in 0..64 {
            holds(&[(0, 0), (15, 1 << bit), (30, 1 << bit | 1 << other), (45, 0), (60, 1 << other)]);
        }
    }
}

fn full_chunk() -> Vec<u8> {
    let sample = |n: i64| Sample { time_ms: 1_700_000_000_000 + n * 15_000 + n % 7, value: (n * n) as f64 / 3.0 };
    encode(&(0..120).map(sample).collect::<Vec<_>>())
}

#[test]
fn a_chunk_cut_anywhere_is_broken_off_and_says_where() {
    let chunk = full_chunk();
    let all = read(&chunk).unwrap();
    for end in 0..chunk.len() {
        let mut found = Vec::new();
        let error = decode(&chunk[..end], |sample| found.push((sample.time_ms, sample.value.to_bits()))).unwrap_err();
        assert!(all.starts_with(&found) && found.len() < all.len());
        let expected = match end {
            0 | 1 => format!("XOR chunk of {end} bytes; expected 2 bytes with its length"),
            _ => format!("XOR chunk after {} of 120 samples; expected the bits of another one", found.len()),
        };
        assert_eq!(error, DecodeError::BrokenOff(expected));
    }
}

#[test]
fn bytes_after_the_last_sample_are_ignored() {
    let mut chunk = full_chunk();
    let all = read(&chunk).unwrap();
    chunk.extend([0xff; 20]);
    assert_eq!(read(&chunk).unwrap(), all);
}

#[test]
fn bits_that_no_writer_writes_are_malformed() {
    let long = format!("{} 00000000", "11111111 ".repeat(10));
    let beyond = format!("{} 00000010 {}", "11111111 ".repeat(9), "0".repeat(64));
    let most = format!("{} 00000001 {}", "11111111 ".repeat(9), "0".repeat(64));
    let malformed = |bits: &str, count| match read(&by_hand(count, bits)) {
        Err(DecodeError::Malformed(text)) => text,
        other => panic!("{other:?}"),
    };
    let varint = "XOR chunk after 0 of 1 samples: expected a varint of at most 64 bits";
    assert_eq!(malformed(&long, 1), varint);
    assert_eq!(malformed(&beyond, 1), varint);
    assert_eq!(read(&by_hand(1, &most)).unwrap(), [(i64::MIN, 0)]);
    let window = format!("{FIRST} 00000101 11 11111 100010 {}", "1".repeat(64));
    let text = "XOR chunk after 1 of 2 samples: expected at most 64 leading and significant bits";
    assert_eq!(malformed(&window, 2), text);
}

fn any_pairs() -> impl Strategy<Value = Vec<(TimeMs, u64)>> {
    let time = prop_oneof![
        3 => (0..200_000_i64).prop_map(|step| 1_700_000_000_000 + step),
        1 => any::<i64>(),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0)],
    ];
    let value = prop_oneof![
        2 => (0..50_u32).prop_map(|n| f64::from(n).to_bits()),
        1 => any::<u64>(),
        1 => Just(STALE_BITS),
        1 => any::<f64>().prop_map(f64::to_bits),
    ];
    proptest::collection::vec((time, value), 0..130)
}

proptest! {
    #[test]
    fn written_samples_are_read(pairs in any_pairs()) {
        holds(&pairs);
    }

    #[test]
    fn a_regular_series_is_read(start in 0..i64::MAX / 2, step in 1..100_000_i64, jitter in proptest::collection::vec(-30..30_i64, 120)) {
        let pairs: Vec<_> = jitter.iter().enumerate()
            .map(|(n, jitter)| (start + n as i64 * step + jitter, (n as f64 * 0.1).to_bits())).collect();
        holds(&pairs);
    }

    #[test]
    fn any_bytes_are_safe(chunk in proptest::collection::vec(any::<u8>(), 0..300)) {
        let count = chunk.first_chunk().map_or(0, |count| usize::from(u16::from_be_bytes(*count)));
        let mut found = 0;
        match decode(&chunk, |_| found += 1) {
            Ok(read) => prop_assert_eq!((read, found), (count, count)),
            Err(_) => prop_assert!(found <= count),
        }
    }

    #[test]
    fn ones_are_safe(length in 0..100_usize, pairs in any_pairs()) {
        let mut chunk = encode(&samples(&pairs));
        let end = chunk.len().min(length);
        chunk[end..].fill(0xff);
        let _ = decode(&chunk, |_| ());
    }
}
