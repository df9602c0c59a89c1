//! Times and values of one series' samples as few bytes, bit for bit. Pure.
//!
//! Whole numbers: the first one, then the largest step that all differences to it are multiples of (0: all are equal,
//! and nothing follows), then what remains after both are taken out: fewer than [`FEW`] as the differences from one to
//! the next, more as a chunk of the `pco` format, which puts each number into one of a few ranges and codes range and
//! place within it.
//!
//! Values: an exponent E, the exceptions, and the values times 10^E as whole numbers, where they are whole numbers over
//! 10^E to the last bit, as those are that a program printed with few digits. Exceptions (markers, a negative zero, an
//! infinity) stand by their places with all their bits; their whole number is that of the value before. Values that are
//! no such decimals are kept as floats: the byte [`FLOATS`], then fewer than [`FEW`] as they are, more in `pco`'s format.
//! Numbers are LEB128, signed ones zigzag; bits are little endian.

use pco::data_types::Number;
use pco::errors::PcoResult;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use super::varint::{put, put_signed, take, take_signed, take_value};

/// Samples of a chunk at most: one that is needed in part is decoded as a whole.
pub(super) const MOST: usize = 4096;

/// From this many numbers on, what `pco` says about its ranges weighs less than what it saves.
const FEW: usize = 32;

/// Of `pco`'s effort, 0 to 12. Higher ones took longer and saved less than 0.1 %, on the model of a node that the store
/// is measured with.
const LEVEL: usize = 4;

/// Powers of ten that a value may be scaled by. All are exact floats.
const SCALES: [f64; 13] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];

/// Stands where values that are decimals have their exponent.
const FLOATS: u8 = 0xff;

/// At most one exception in this many values, and one more.
const EXCEPTIONS: usize = 16;

pub(super) fn encode_times(times: &[i64]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    put_integers(&mut out, times)?;
    Ok(out)
}

/// What [`encode_times`] wrote of `count` times.
pub(super) fn decode_times(bytes: &[u8], count: usize) -> Result<Vec<i64>, String> {
    take_integers(bytes, within(count)?)
}

pub(super) fn encode_values(values: &[f64]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match Decimals::of(values) {
        Some(decimals) => {
            out.push(decimals.exponent as u8);
            put(&mut out, decimals.exceptions.len() as u64);
            for (place, value) in &decimals.exceptions {
                put(&mut out, *place as u64);
                out.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            put_integers(&mut out, &decimals.integers)?;
        }
        None => {
            out.push(FLOATS);
            if values.len() < FEW {
                values.iter().for_each(|value| out.extend_from_slice(&value.to_bits().to_le_bytes()));
            } else {
                put_chunk(&mut out, values, &ChunkConfig::default().with_compression_level(LEVEL))?;
            }
        }
    }
    Ok(out)
}

/// What [`encode_values`] wrote of `count` values.
pub(super) fn decode_values(bytes: &[u8], count: usize) -> Result<Vec<f64>, String> {
    let count = within(count)?;
    let (tag, mut rest) = bytes.split_first().ok_or("no values")?;
    if *tag == FLOATS {
        return if count < FEW { (0..count).map(|_| take_value(&mut rest)).collect() } else { take_chunk(rest, count) };
    }
    let scale = SCALES.get(usize::from(*tag)).ok_or_else(|| format!("exponent {tag}, expected at most 12"))?;
    let mut exceptions = Vec::new();
    for _ in 0..take(&mut rest)? {
        let place = take(&mut rest)?;
        exceptions.push((usize::try_from(place).map_err(|error| error.to_string())?, take_value(&mut rest)?));
    }
    let mut values: Vec<f64> = take_integers(rest, count)?.into_iter().map(|integer| integer as f64 / scale).collect();
    for (place, value) in exceptions {
        *values.get_mut(place).ok_or_else(|| format!("exception {place} of {count} values"))? = value;
    }
    Ok(values)
}

/// Reads the bytes as times and as values of `count` samples, for a caller whose bytes may be neither.
///
/// # Errors
/// Why they are not times, else why they are not values.
pub fn read_chunk(bytes: &[u8], count: usize) -> Result<(Vec<i64>, Vec<f64>), String> {
    let (times, values) = (decode_times(bytes, count), decode_values(bytes, count));
    Ok((times?, values?))
}

/// Memory is taken for `count`, so a number that was read is not taken at its word.
fn within(count: usize) -> Result<usize, String> {
    if count <= MOST { Ok(count) } else { Err(format!("{count} samples in a chunk, expected at most {MOST}")) }
}

/// Values as whole numbers over a power of ten.
struct Decimals {
    exponent: usize,
    integers: Vec<i64>,
    exceptions: Vec<(usize, f64)>,
}

impl Decimals {
    /// `None` when too many of the values are no decimals.
    fn of(values: &[f64]) -> Option<Self> {
        let most = values.len() / EXCEPTIONS + 1;
        let (mut exponent, mut odd) = (0, 0);
        for value in values {
            match (exponent..SCALES.len()).find(|exponent| scaled(*value, *exponent).is_some()) {
                Some(enough) => exponent = enough,
                None => odd += 1,
            }
            if odd > most {
                return None;
            }
        }
        let (mut integers, mut exceptions) = (Vec::with_capacity(values.len()), Vec::new());
        let mut last = values.iter().find_map(|value| scaled(*value, exponent)).unwrap_or_default();
        for (place, value) in values.iter().enumerate() {
            match scaled(*value, exponent) {
                Some(integer) => last = integer,
                // Among them large values that a smaller exponent was enough for.
                None => exceptions.push((place, *value)),
            }
            integers.push(last);
        }
        (exceptions.len() <= most).then_some(Self { exponent, integers, exceptions })
    }
}

/// The whole number that gives the value's very bits when it is divided by the power of ten.
fn scaled(value: f64, exponent: usize) -> Option<i64> {
    let scale = SCALES[exponent];
    // Half is added towards the outside, so that cutting off rounds; what this does to large values is found out next.
    let integer = if exponent == 0 { value as i64 } else { (value * scale + 0.5_f64.copysign(value)) as i64 };
    ((integer as f64 / scale).to_bits() == value.to_bits()).then_some(integer)
}

fn put_integers(out: &mut Vec<u8>, integers: &[i64]) -> Result<(), String> {
    let Some(first) = integers.first().copied() else { return Ok(()) };
    let (base, step) = match common_step(integers, first) {
        Some(step) => (first, step),
        None => (0, 1),
    };
    put_signed(out, base);
    put(out, step.unsigned_abs());
    if step == 0 {
        return Ok(());
    }
    let rest: Vec<i64> = integers.iter().map(|integer| (integer - base) / step).collect();
    if rest.len() < FEW {
        let mut last = 0;
        for number in rest {
            put_signed(out, number.wrapping_sub(last));
            last = number;
        }
        return Ok(());
    }
    let delta = if differences_are_smaller(&rest) { DeltaSpec::TryConsecutive(1) } else { DeltaSpec::NoOp };
    let config = ChunkConfig::default().with_compression_level(LEVEL).with_mode_spec(ModeSpec::Classic);
    put_chunk(out, &rest, &config.with_delta_spec(delta))
}

fn take_integers(mut bytes: &[u8], count: usize) -> Result<Vec<i64>, String> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let (base, step) = (take_signed(&mut bytes)?, take(&mut bytes)?.cast_signed());
    let mut integers = if step == 0 {
        vec![0; count]
    } else if count < FEW {
        let mut last: i64 = 0;
        let mut next = || {
            last = last.wrapping_add(take_signed(&mut bytes)?);
            Ok::<_, String>(last)
        };
        (0..count).map(|_| next()).collect::<Result<_, _>>()?
    } else {
        take_chunk(bytes, count)?
    };
    for integer in &mut integers {
        *integer = base.wrapping_add(integer.wrapping_mul(step));
    }
    Ok(integers)
}

/// The greatest common divisor of all differences to the first; `None` when a difference has more than 63 bits.
fn common_step(integers: &[i64], first: i64) -> Option<i64> {
    let mut step: i64 = 0;
    for integer in integers {
        let mut rest = integer.checked_sub(first).filter(|rest| *rest != i64::MIN)?.abs();
        while step != 1 && rest != 0 {
            (step, rest) = (rest, step % rest);
        }
    }
    Some(step)
}

/// Do numbers lie closer to the one before than all lie together? Counts bits, against the one in the middle.
fn differences_are_smaller(numbers: &[i64]) -> bool {
    let bits = |number: i64| u64::from(64 - number.unsigned_abs().leading_zeros());
    let difference = |place: usize| numbers[place].wrapping_sub(numbers[place - 1]);
    let middle = numbers.len() / 2;
    let (typical, usual) = (numbers[middle], difference(middle));
    let apart: u64 = numbers.iter().map(|number| bits(number.wrapping_sub(typical))).sum();
    let stepwise: u64 = (1..numbers.len()).map(|place| bits(difference(place).wrapping_sub(usual))).sum();
    stepwise < apart
}

fn put_chunk<T: Number>(out: &mut Vec<u8>, numbers: &[T], config: &ChunkConfig) -> Result<(), String> {
    let mut written = || -> PcoResult<()> {
        let file = FileCompressor::default();
        file.write_header(&mut *out)?;
        let mut chunk = file.chunk_compressor(numbers, config)?;
        chunk.write_meta(&mut *out)?;
        chunk.write_page(0, &mut *out)?;
        Ok(())
    };
    written().map_err(|error| error.to_string())
}

fn take_chunk<T: Number>(bytes: &[u8], count: usize) -> Result<Vec<T>, String> {
    let read = || -> PcoResult<(Vec<T>, usize)> {
        let (file, rest) = FileDecompressor::new(bytes)?;
        let (mut chunk, rest) = file.chunk_decompressor(rest)?;
        let mut numbers = vec![T::default(); count];
        let progress = chunk.page_decompressor(rest, count)?.read(&mut numbers)?;
        Ok((numbers, progress.n_processed))
    };
    let (numbers, processed) = read().map_err(|error| error.to_string())?;
    if processed == count { Ok(numbers) } else { Err(format!("{processed} numbers, expected {count}")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use goodput_exposition::sample::STALE_BITS;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Values come back to the bit; how many bytes they took.
    fn values_take(values: &[f64]) -> usize {
        let encoded = encode_values(values).unwrap();
        assert_eq!(bits(&decode_values(&encoded, values.len()).unwrap()), bits(values));
        encoded.len()
    }

    fn times_take(times: &[i64]) -> usize {
        let encoded = encode_times(times).unwrap();
        assert_eq!(decode_times(&encoded, times.len()).unwrap(), times);
        encoded.len()
    }

    /// Numbers that look random and are the same every time.
    fn noise(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed), |x| {
            Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|x| x >> 33)
    }

    #[test]
    fn a_regular_scrape_and_a_constant_take_next_to_nothing() {
        let times: Vec<_> = (0..1000).map(|n| 1_700_000_000_000 + 15_000 * n).collect();
        assert!(times_take(&times) < 40);
        assert!(values_take(&[141.0; 1000]) < 8);
        assert!(values_take(&[0.25; 1000]) < 8);
        assert!(times_take(&[]) == 0 && values_take(&[]) < 3);
    }

    #[test]
    fn what_is_printed_with_few_digits_takes_what_its_noise_takes() {
        // 400 equally likely values are 8.6 bits each, 1,000 are 10, 16 are 4; ranges and their numbers come on top.
        let gauge: Vec<f64> = noise(1).take(1000).map(|n| (600 + n % 400) as f64 / 1000.0).collect();
        assert!(values_take(&gauge) < 1000 * 10 / 8);
        let steps = noise(2).take(1000).scan(5_000_000, |sum, n| {
            *sum += n % 1000;
            Some(*sum as f64 / 100.0)
        });
        assert!(values_take(&steps.collect::<Vec<_>>()) < 1000 * 11 / 8);
        let pages: Vec<f64> = noise(3).take(1000).map(|n| (50_000 + n % 16) as f64 * 2_097_152.0).collect();
        assert!(values_take(&pages) < 1000 * 5 / 8);
    }

    #[test]
    fn a_marker_does_not_spoil_its_chunk() {
        let mut values = vec![7.0; 1000];
        values[999] = f64::from_bits(STALE_BITS);
        values[0] = -0.0;
        assert!(values_take(&values) < 40);
    }

    #[test]
    fn every_bit_pattern_comes_back() {
        let odd =
            [STALE_BITS, 0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0002, 1 << 63, 0, 1, u64::MAX].map(f64::from_bits);
        let large = [9_007_199_254_740_993.0, -1e18, 9.3e18, i64::MIN as f64, i64::MAX as f64, 1e300, 0.1, 1.0 / 3.0];
        for count in [1, 10, FEW - 1, FEW, 100, MOST] {
            values_take(&odd.into_iter().cycle().take(count).collect::<Vec<_>>());
            values_take(&large.into_iter().cycle().take(count).collect::<Vec<_>>());
            values_take(&(0..count).map(|n| f64::from(n as u32).sqrt()).collect::<Vec<_>>());
            times_take(&[i64::MIN, i64::MAX, 0, -1].into_iter().cycle().take(count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(decode_values(&[], 1).unwrap_err(), "no values");
        assert_eq!(decode_values(&[13, 0], 1).unwrap_err(), "exponent 13, expected at most 12");
        assert_eq!(decode_values(&[0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0], 1).unwrap_err(), "exception 5 of 1 values");
        assert_eq!(decode_times(&[2, 1], 2).unwrap_err(), "cut short within a number");
        assert_eq!(decode_times(&[2, 0], 5000).unwrap_err(), "5000 samples in a chunk, expected at most 4096");
    }

    proptest! {
        #[test]
        fn reads_back_bit_for_bit(
            times in proptest::collection::vec(any::<i64>(), 0..80),
            values in proptest::collection::vec(any::<u64>(), 0..80),
            decimals in proptest::collection::vec((-2_000_000_i64..2_000_000, 0_usize..6), 0..80),
        ) {
            times_take(&times);
            values_take(&values.into_iter().map(f64::from_bits).collect::<Vec<_>>());
            values_take(&decimals.into_iter().map(|(n, e)| n as f64 / SCALES[e]).collect::<Vec<_>>());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0..5000_usize) {
            let _ = read_chunk(&bytes, count);
        }

        /// What was written, with some bytes changed: nearer to what a torn disk gives than garbage.
        #[test]
        fn flipped_bytes_never_panic(
            seed in any::<u64>(),
            count in 1..400_usize,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let values: Vec<f64> = noise(seed).take(count).map(|n| (n % 1000) as f64 / 10.0).collect();
            let mut encoded = encode_values(&values).unwrap();
            for (place, with) in flips {
                let place = place.index(encoded.len());
                encoded[place] ^= with;
            }
            let _ = decode_values(&encoded, count);
        }
    }
}
