//! Reads bits, most significant first, and never beyond the last byte.
//!
//! Shifts and counts wrap where they are in range anyway: checking them in release builds costs a tenth of the speed.

/// Bits that are valid after loading, if there are bytes.
const LOADED: u32 = 56;

/// Bits that were not read yet.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    /// The next bits, the first of them highest. Bits below the first `valid` ones are zero or what will be loaded there.
    next: u64,
    /// How many bits of `next` may be read.
    valid: u32,
    /// Bytes that are not in `valid`.
    bytes: &'a [u8],
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { next: 0, valid: 0, bytes }
    }

    /// Loads until at least 56 bits are valid or no byte is left.
    #[inline]
    fn load(&mut self) {
        if let Some(word) = self.bytes.first_chunk() {
            // Less than 64 bits are valid here, so the shift is in range. Only whole bytes count as loaded; the bits of
            // the next byte that fit too are loaded a second time later, unchanged.
            self.next |= u64::from_be_bytes(*word) >> self.valid;
            let loaded = (64 - self.valid) / 8;
            self.bytes = &self.bytes[loaded as usize..];
            self.valid += loaded * 8;
            return;
        }
        while self.valid <= LOADED
            && let Some((byte, rest)) = self.bytes.split_first()
        {
            self.next |= u64::from(*byte) << (LOADED - self.valid);
            self.bytes = rest;
            self.valid += 8;
        }
    }

    /// Takes 1 to 64 bits; none when there are fewer.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> Option<u64> {
        if count > LOADED {
            let high = self.take_few(count - 32)?;
            return Some(high << 32 | self.take_few(32)?);
        }
        self.take_few(count)
    }

    /// Takes 1 to 56 bits.
    #[inline]
    fn take_few(&mut self, count: u32) -> Option<u64> {
        if count > self.valid {
            self.load();
            if count > self.valid {
                return None;
            }
        }
        let taken = self.next.wrapping_shr(64 - count);
        self.skip(count);
        Some(taken)
    }

    /// Takes ones up to the first zero, which is taken too, or up to this many ones. Returns the number of ones.
    #[inline]
    pub(super) fn ones(&mut self, most: u32) -> Option<u32> {
        if self.valid <= most {
            self.load();
        }
        let ones = self.next.leading_ones().min(most);
        let count = (ones + 1).min(most);
        if count > self.valid {
            return None;
        }
        self.skip(count);
        Some(ones)
    }

    /// Drops valid bits, fewer than 64.
    #[inline]
    fn skip(&mut self, count: u32) {
        self.next = self.next.wrapping_shl(count);
        self.valid = self.valid.wrapping_sub(count);
    }
}
