//! Whole numbers of few bytes: LEB128, signed ones zigzag.

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, zigzag(number));
}

pub(super) fn take(rest: &mut &[u8]) -> Result<u64, String> {
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

pub(super) fn take_signed(rest: &mut &[u8]) -> Result<i64, String> {
    take(rest).map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
}

/// The float of these bits, which are the next 8 bytes, little endian.
pub(super) fn take_value(rest: &mut &[u8]) -> Result<f64, String> {
    let (bits, after) = rest.split_first_chunk().ok_or("cut short within a value")?;
    *rest = after;
    Ok(f64::from_bits(u64::from_le_bytes(*bits)))
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}
