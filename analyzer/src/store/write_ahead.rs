//! The samples of one group commit as bytes.
//!
//! Format 1: the byte 1, then per series: id as the difference from the series before, number of samples, then per
//! sample: time as the difference from the sample before (over series borders: one scrape has one time), value as
//! 8 bytes. Differences and numbers are LEB128, signed ones zigzag; the value is the f64's bits, little endian.

use super::catalogue::SeriesId;
use crate::sample::{Sample, TimeMs};

const FORMAT: u8 = 1;

/// Encodes rows that are sorted by series.
pub(super) fn encode(rows: &[(SeriesId, Sample)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + rows.len() * 11);
    out.push(FORMAT);
    let (mut last_id, mut last_ms): (u32, TimeMs) = (0, 0);
    for series in rows.chunk_by(|a, b| a.0 == b.0) {
        let id = series[0].0.0;
        put(&mut out, zigzag(i64::from(id) - i64::from(last_id)));
        put(&mut out, series.len() as u64);
        for (_, sample) in series {
            put(&mut out, zigzag(sample.time_ms.wrapping_sub(last_ms)));
            out.extend_from_slice(&sample.value.to_bits().to_le_bytes());
            last_ms = sample.time_ms;
        }
        last_id = id;
    }
    out
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
        id = id.saturating_add(unzigzag(take(&mut rest)?));
        let series = SeriesId(u32::try_from(id).map_err(|_| format!("series id {id} out of range"))?);
        for _ in 0..take(&mut rest)? {
            time_ms = time_ms.wrapping_add(unzigzag(take(&mut rest)?));
            let (value, after) = rest.split_first_chunk().ok_or("cut short within a value")?;
            rows.push((series, Sample { time_ms, value: f64::from_bits(u64::from_le_bytes(*value)) }));
            rest = after;
        }
    }
    Ok(rows)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or("cut short within a number")?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("number of more than 64 bits".to_owned())
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
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
