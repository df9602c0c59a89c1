//! Decodes Prometheus' XOR chunks (chunk encoding 1), the form of Gorilla, bit for bit. Any bytes are safe to decode.
//!
//! Source of the format: "Chunk data formats" in Prometheus' documentation of its TSDB (`tsdb/docs/format/chunks.md`).
//! A chunk begins with the number of its samples (2 bytes, big-endian). Then follow bits, most significant first:
//!
//! * first sample: time (zig-zag varint), value (64 bits);
//! * second sample: difference of time (uvarint), value;
//! * further samples: change of that difference, value.

mod bits;
#[cfg(test)]
pub(crate) mod test_encoder;
#[cfg(test)]
mod tests;

use goodput_exposition::sample::{Sample, TimeMs};

use crate::DecodeError;
use bits::Bits;

/// Number of the encoding in a message of remote read.
pub const ENCODING: i32 = 1;

/// Bits of a change of the time's difference, by the number of ones in its prefix.
const CHANGE_BITS: [u32; 5] = [0, 14, 17, 20, 64];

/// Passes every sample of a chunk on, in the order of the chunk, and returns their number. Bytes after the last sample
/// are ignored. On an error the samples that were passed on are not all of the chunk.
///
/// # Errors
///
/// The chunk is shorter than its samples, or its bits do not follow the format.
pub fn decode(chunk: &[u8], mut take: impl FnMut(Sample)) -> Result<usize, DecodeError> {
    let Some((count, data)) = chunk.split_first_chunk() else {
        let found = chunk.len();
        return Err(DecodeError::BrokenOff(format!("XOR chunk of {found} bytes; expected 2 bytes with its length")));
    };
    let count = usize::from(u16::from_be_bytes(*count));
    let mut state = State { bits: Bits::new(data), time: 0, difference: 0, value: 0, window: Window::ALL };
    for read in 0..count {
        let step = match read {
            0 => state.first(),
            1 => state.second(),
            _ => state.further(),
        };
        step.map_err(|stop| stop.after(read, count))?;
        take(Sample { time_ms: state.time, value: f64::from_bits(state.value) });
    }
    Ok(count)
}

/// Why no further sample can be read.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The bits are used up.
    End,
    /// A varint has more than 64 bits.
    Varint,
    /// The significant bits do not fit behind the leading zeros.
    Window,
}

impl Stop {
    #[cold]
    fn after(self, read: usize, count: usize) -> DecodeError {
        let at = format!("XOR chunk after {read} of {count} samples");
        match self {
            Self::End => DecodeError::BrokenOff(format!("{at}; expected the bits of another one")),
            Self::Varint => DecodeError::Malformed(format!("{at}: expected a varint of at most 64 bits")),
            Self::Window => DecodeError::Malformed(format!("{at}: expected at most 64 leading and significant bits")),
        }
    }
}

/// Where the changed bits of a value lie.
#[derive(Clone, Copy, Debug)]
struct Window {
    significant: u32,
    trailing: u32,
}

impl Window {
    /// The window of a chunk that has not set one, as in Prometheus' reader.
    const ALL: Self = Self { significant: 64, trailing: 0 };
}

/// The last sample. The next one is stored relative to it.
#[derive(Debug)]
struct State<'a> {
    bits: Bits<'a>,
    time: TimeMs,
    difference: i64,
    value: u64,
    window: Window,
}

impl State<'_> {
    fn first(&mut self) -> Result<(), Stop> {
        let zigzag = self.uvarint()?;
        self.time = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        self.value = self.bits.take(64).ok_or(Stop::End)?;
        Ok(())
    }

    fn second(&mut self) -> Result<(), Stop> {
        self.difference = self.uvarint()? as i64;
        self.next_sample()
    }

    #[inline]
    fn further(&mut self) -> Result<(), Stop> {
        self.difference = self.difference.wrapping_add(self.change()?);
        self.next_sample()
    }

    /// Reads the rest of a sample, whose difference of time is known. Times wrap around, as the writer's do.
    #[inline]
    fn next_sample(&mut self) -> Result<(), Stop> {
        self.time = self.time.wrapping_add(self.difference);
        self.next_value()
    }

    /// Reads an unsigned varint: 7 bits a byte, least significant first, the highest bit says that more follow.
    fn uvarint(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bits.take(8).ok_or(Stop::End)?;
            if shift == 63 && byte > 1 {
                break;
            }
            number |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::Varint)
    }

    /// Reads how the difference of time changes.
    #[inline]
    fn change(&mut self) -> Result<i64, Stop> {
        let ones = self.bits.ones(4).ok_or(Stop::End)?;
        let bits = CHANGE_BITS[ones as usize];
        if bits == 0 {
            return Ok(0);
        }
        let raw = self.bits.take(bits).ok_or(Stop::End)? as i64;
        // With n bits, -(2^(n-1) - 1) ..= 2^(n-1) is written: one more above zero than in two's complement.
        Ok(if bits < 64 && raw > 1 << (bits - 1) { raw - (1 << bits) } else { raw })
    }

    /// Reads a value that is relative to the last one.
    #[inline]
    fn next_value(&mut self) -> Result<(), Stop> {
        match self.bits.ones(2).ok_or(Stop::End)? {
            0 => return Ok(()),
            1 => {}
            _ => self.window = self.next_window()?,
        }
        let changed = self.bits.take(self.window.significant).ok_or(Stop::End)?;
        self.value ^= changed << self.window.trailing;
        Ok(())
    }

    #[inline]
    fn next_window(&mut self) -> Result<Window, Stop> {
        let both = self.bits.take(11).ok_or(Stop::End)? as u32;
        // 64 does not fit into the 6 bits: it is written as 0.
        let (leading, significant) = (both >> 6, if both & 63 == 0 { 64 } else { both & 63 });
        let trailing = 64_u32.checked_sub(leading + significant).ok_or(Stop::Window)?;
        Ok(Window { significant, trailing })
    }
}
