//! Rows in the binary form of COPY. A value that PostgreSQL would refuse is found here: it costs its node, not the window.

use std::collections::HashSet;

use crate::checked::{Table, Value, check};

/// What every binary COPY begins with: signature, flags, length of further headers.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What ends it.
const END: [u8; 2] = (-1_i16).to_be_bytes();

/// Rows of one table.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    pub(super) count: u64,
}

impl Rows {
    /// Adds a row.
    pub(super) fn add<'v>(&mut self, values: impl ExactSizeIterator<Item = &'v Value<'v>>) {
        let columns = u16::try_from(values.len()).unwrap_or_default();
        self.bytes.extend(columns.to_be_bytes());
        for value in values {
            match value {
                Value::Null | Value::Refused(_) => self.bytes.extend((-1_i32).to_be_bytes()),
                Value::Integer(number) => self.field(&number.to_be_bytes()),
                Value::Real(number) => self.field(&number.to_be_bytes()),
                Value::Text(text) => self.field(text.as_bytes()),
            }
        }
        self.count += 1;
    }

    fn field(&mut self, bytes: &[u8]) {
        // No value of ours is near the two gigabytes that a length may say.
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        self.bytes.extend(length.to_be_bytes());
        self.bytes.extend(bytes);
    }

    /// Adds all of the others.
    pub(super) fn append(&mut self, others: &mut Self) {
        self.bytes.append(&mut others.bytes);
        self.count += std::mem::take(&mut others.count);
    }

    /// What is sent, piece by piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        const PIECE: usize = 1 << 20;
        std::iter::once(HEAD).chain(self.bytes.chunks(PIECE)).chain(std::iter::once(END.as_slice()))
    }
}

/// Can PostgreSQL keep a row of these values?
pub(super) fn keeps(table: &Table, values: &[Value<'_>], required: &HashSet<(String, String)>) -> sqlx::Result<()> {
    check(values)?;
    for (column, value) in table.columns.iter().zip(values) {
        let reason = match value {
            Value::Null if required.contains(&(table.name.to_owned(), (*column).to_owned())) => "has no value",
            // In JSON it is escaped, and no JSON with it is read.
            Value::Text(text) if text.contains('\0') || text.contains("\\u0000") => {
                "has a NUL character, which no text of PostgreSQL may have"
            }
            _ => continue,
        };
        return Err(sqlx::Error::Encode(format!("{column} of {} {reason}", table.name).into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_bytes_of_the_manual() {
        let mut rows = Rows::default();
        rows.add([Value::Integer(1), Value::Null, "ab".into(), Value::Real(1.0)].iter());
        let bytes = rows.pieces().collect::<Vec<_>>().concat();
        let row = [
            &4_i16.to_be_bytes() as &[u8],
            &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0xff; 4],
            &[0, 0, 0, 2, b'a', b'b'],
            &[0, 0, 0, 8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, [&b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"[..], &row.concat(), &[0xff, 0xff]].concat());
    }
}
