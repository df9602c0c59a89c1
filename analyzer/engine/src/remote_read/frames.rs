//! Cuts a stream of bytes into the frames of a streamed answer and checks them.
//!
//! A frame is the length of its message (uvarint), the CRC-32C of the message (4 bytes, big-endian) and the message, a
//! `prometheus.ChunkedReadResponse`. Source: `ChunkedWriter` in "Remote Read API" of Prometheus' documentation.

use prost::Message;

use super::messages::ChunkedReadResponse;
use crate::DecodeError;
use crate::buffer::Buffer;

/// Bytes of the longest uvarint of 64 bits.
const VARINT_BYTES: usize = 10;

/// Bytes of the checksum.
const CRC_BYTES: usize = 4;

/// Reads frames from bytes that arrive in pieces of any size.
#[derive(Clone, Debug)]
pub struct Frames {
    buffer: Buffer,
    limit: usize,
    /// Bytes of all frames that were read.
    read: u64,
}

impl Frames {
    /// Reads messages of up to this many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: Buffer::default(), limit, read: 0 }
    }

    /// Takes bytes of the stream. [`Frames::next_frame`] must be called until it returns `None` before more are pushed,
    /// so that no more is kept than one frame and these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// The next whole message; none when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The frame is malformed or too large, or its checksum is wrong. Every further call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<ChunkedReadResponse>, DecodeError> {
        let Some((length, start)) = self.length()? else {
            return Ok(None);
        };
        let end = length.saturating_add(start + CRC_BYTES);
        let Some((frame, _)) = self.buffer.rest().split_at_checked(end) else {
            return Ok(None);
        };
        let Some((crc, message)) = frame[start..].split_first_chunk() else {
            return Ok(None);
        };
        let (expected, found) = (u32::from_be_bytes(*crc), crc32c::crc32c(message));
        if expected != found {
            let text = format!("frame at byte {}: expected CRC-32C {expected:08x}, found {found:08x}", self.read);
            // A server that fails in the middle writes its error behind the frames: nothing of it has a checksum.
            return Err(DecodeError::BrokenOff(text));
        }
        let message =
            ChunkedReadResponse::decode(message).map_err(|error| super::protobuf("ChunkedReadResponse", &error))?;
        self.read += frame.len() as u64;
        self.buffer.take(end);
        Ok(Some(message))
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// Bytes of a frame are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.buffer.rest().len() {
            0 => Ok(()),
            left => {
                let text = format!("frame at byte {}; expected more than its first {left} bytes", self.read);
                Err(DecodeError::BrokenOff(text))
            }
        }
    }

    /// The length of the next message and the bytes that say it; none when more bytes are needed.
    fn length(&self) -> Result<Option<(usize, usize)>, DecodeError> {
        let mut length = 0_u64;
        for (n, byte) in self.buffer.rest().iter().take(VARINT_BYTES).enumerate() {
            if n + 1 == VARINT_BYTES && *byte > 1 {
                break;
            }
            length |= u64::from(byte & 0x7f) << (7 * n);
            if *byte < 0x80 {
                let size = usize::try_from(length).ok().filter(|size| *size <= self.limit);
                let too_large = DecodeError::TooLarge { what: "frame", bytes: length, limit: self.limit };
                return size.map(|size| Some((size, n + 1))).ok_or(too_large);
            }
        }
        if self.buffer.rest().len() < VARINT_BYTES {
            return Ok(None);
        }
        let text = format!("frame at byte {}: expected its length as a uvarint of at most 64 bits", self.read);
        Err(DecodeError::Malformed(text))
    }
}

impl Default for Frames {
    fn default() -> Self {
        Self::new(crate::DEFAULT_LIMIT)
    }
}

#[cfg(test)]
mod tests;
