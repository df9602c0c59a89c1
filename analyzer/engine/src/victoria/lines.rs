//! Cuts a stream of bytes into lines.

use crate::DecodeError;
use crate::buffer::Buffer;

/// Reads lines from bytes that arrive in pieces of any size.
#[derive(Clone, Debug)]
pub struct Lines {
    buffer: Buffer,
    /// Bytes of the buffer's rest in which no newline is.
    searched: usize,
    limit: usize,
}

impl Lines {
    /// Reads lines of up to this many bytes, without the newline.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: Buffer::default(), searched: 0, limit }
    }

    /// Takes bytes of the stream. [`Lines::next_line`] must be called until it returns `None` before more are pushed, so
    /// that no more is kept than one line and these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// The next whole line, with its newline; none when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The line is too long. Every further call returns the same error.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, DecodeError> {
        let rest = self.buffer.rest();
        let found = rest[self.searched..].iter().position(|byte| *byte == b'\n').map(|end| self.searched + end);
        let length = found.unwrap_or(rest.len());
        if length > self.limit {
            return Err(DecodeError::TooLarge { what: "line", bytes: length as u64, limit: self.limit });
        }
        if found.is_none() {
            self.searched = length;
            return Ok(None);
        }
        self.searched = 0;
        Ok(Some(self.buffer.take(length + 1)))
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// The last line has no newline: the answer was broken off.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.buffer.rest().len() {
            0 => Ok(()),
            left => Err(DecodeError::BrokenOff(format!("line of {left} bytes; expected its newline"))),
        }
    }
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(crate::DEFAULT_LIMIT)
    }
}
