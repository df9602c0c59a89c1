//! Writes XOR chunks for tests, bit by bit and with nothing of the decoder.

use goodput_exposition::sample::Sample;

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    free: u32,
}

impl Writer {
    fn bits(&mut self, value: u64, count: u32) {
        for bit in (0..count).rev() {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            self.free -= 1;
            *self.bytes.last_mut().unwrap() |= ((value >> bit & 1) as u8) << self.free;
        }
    }

    fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bits(value & 0x7f | 0x80, 8);
            value >>= 7;
        }
        self.bits(value, 8);
    }

    fn change(&mut self, change: i64) {
        let fits = |bits: u32| change > -(1 << (bits - 1)) && change <= 1 << (bits - 1);
        match change {
            0 => self.bits(0, 1),
            _ if fits(14) => self.prefixed(0b10, 2, change, 14),
            _ if fits(17) => self.prefixed(0b110, 3, change, 17),
            _ if fits(20) => self.prefixed(0b1110, 4, change, 20),
            _ => self.prefixed(0b1111, 4, change, 64),
        }
    }

    fn prefixed(&mut self, prefix: u64, length: u32, change: i64, bits: u32) {
        self.bits(prefix, length);
        self.bits(change as u64, bits);
    }
}

/// The chunk of these samples, at most 65,535.
pub(crate) fn encode(samples: &[Sample]) -> Vec<u8> {
    let mut writer = Writer { bytes: (samples.len() as u16).to_be_bytes().to_vec(), free: 0 };
    let mut window: Option<(u32, u32)> = None;
    let (mut difference, mut value) = (0_i64, 0_u64);
    for (n, sample) in samples.iter().enumerate() {
        let passed = if n == 0 { 0 } else { sample.time_ms.wrapping_sub(samples[n - 1].time_ms) };
        match n {
            0 => writer.uvarint((sample.time_ms << 1 ^ sample.time_ms >> 63) as u64),
            1 => writer.uvarint(passed as u64),
            _ => writer.change(passed.wrapping_sub(difference)),
        }
        let changed = sample.value.to_bits() ^ value;
        (difference, value) = (passed, sample.value.to_bits());
        if n == 0 {
            writer.bits(value, 64);
            continue;
        }
        if changed == 0 {
            writer.bits(0, 1);
            continue;
        }
        let (leading, trailing) = (changed.leading_zeros().min(31), changed.trailing_zeros());
        match window {
            Some((before, after)) if leading >= before && trailing >= after => {
                writer.bits(0b10, 2);
                writer.bits(changed >> after, 64 - before - after);
            }
            _ => {
                window = Some((leading, trailing));
                let significant = 64 - leading - trailing;
                writer.bits(0b11, 2);
                writer.bits(u64::from(leading), 5);
                writer.bits(u64::from(significant) & 63, 6);
                writer.bits(changed >> trailing, significant);
            }
        }
    }
    writer.bytes
}
