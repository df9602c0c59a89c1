//! The samples of one group commit as bytes.
//!
//! Format 1: the byte 1, then per series: id as the difference from the series before, number of samples, then per
//! sample: time as the difference from the sample before (over series borders: one scrape has one time), value as
//! 8 bytes. Differences and numbers are LEB128, signed ones zigzag; the value is the f64's bits, little endian.

use super::catalogue::SeriesId;
use super::varint::{put, put_signed, take, take_signed, take_value};
use goodput_exposition::sample::{Sample, TimeMs};

const FORMAT: u8 = 1;

/// Encodes rows that are sorted by series.
pub(super) fn encode(rows: &[(SeriesId, Sample)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + rows.len() * 11);
    out.push(FORMAT);
    let (mut last_id, mut last_ms): (u32, TimeMs) = (0, 0);
    for series in rows.chunk_by(|a, b| a.0 == b.0) {
        let id = series[0].0.0;
        put_signed(&mut out, i64::from(id) - i64::from(last_id));
        put(&mut out, series.len() as u64);
        for (_, sample) in series {
            put_signed(&mut out, sample.time_ms.wrapping_sub(last_ms));
            out.extend_from_slice(&sample.value.to_bits().to_le_bytes());
            last_ms = sample.time_ms;
        }
        last_id = id;
    }
    out
}

/// What [`encode`] wrote, if it still has the checksum that was written with it.
pub(super) fn open(checksum: u32, bytes: &[u8]) -> Result<Vec<(SeriesId, Sample)>, String> {
    let found = crc32fast::hash(bytes);
    if found == checksum { decode(bytes) } else { Err(format!("checksum {found:08x}, {checksum:08x} was written")) }
}

/// What [`encode`] wrote, or what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<(SeriesId, Sample)>, String> {
    let mut rest = match bytes.split_first() {
        Some((&FORMAT, rest)) => rest,
        Some((format, _)) => return Err(format!("format {format}, expected {FORMAT}")),
        None => return Err("empty".to_owned()),
    };
    let mut rows = Vec::new();
    let (mut id, mut time_ms): (i64, TimeMs) = (0, 0);
    while !rest.is_empty() {
        id = id.saturating_add(take_signed(&mut rest)?);
        let series = SeriesId(u32::try_from(id).map_err(|_| format!("series id {id} out of range"))?);
        for _ in 0..take(&mut rest)? {
            time_ms = time_ms.wrapping_add(take_signed(&mut rest)?);
            rows.push((series, Sample { time_ms, value: take_value(&mut rest)? }));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_back_bit_for_bit(mut rows in proptest::collection::vec((any::<u32>(), any::<i64>(), any::<u64>()), 0..50)) {
            rows.sort_by_key(|row| row.0);
            let sample = |(id, time_ms, bits)| (SeriesId(id), Sample { time_ms, value: f64::from_bits(bits) });
            let written: Vec<_> = rows.iter().copied().map(sample).collect();
            let read = decode(&encode(&written)).unwrap();
            let bits = |(id, s): &(SeriesId, Sample)| (id.0, s.time_ms, s.value.to_bits());
            prop_assert_eq!(read.iter().map(bits).collect::<Vec<_>>(), rows);
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_scrape_takes_eleven_bytes_per_sample() {
        let rows: Vec<_> =
            (0..1000).map(|id| (SeriesId(id), Sample { time_ms: 1_700_000_000_000, value: 0.1 })).collect();
        assert!(encode(&rows).len() < 11 * 1000 + 10);
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(decode(&[]).unwrap_err(), "empty");
        assert_eq!(decode(&[9]).unwrap_err(), "format 9, expected 1");
        assert_eq!(decode(&[1, 2, 1, 0, 7]).unwrap_err(), "cut short within a value");
        assert_eq!(decode(&[1, 1, 0]).unwrap_err(), "series id -1 out of range");
    }
}
