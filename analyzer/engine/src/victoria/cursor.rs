//! Where a line is read.

use serde::Deserialize;

use super::malformed;
use crate::DecodeError;

/// A place in a line of JSON.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// The byte that is read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// Moves on by this many bytes, which were seen in the rest.
    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    /// Skips what JSON allows between its parts.
    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips spaces around this byte, if it is next after them. Is it?
    #[inline]
    pub(super) fn accept(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.at += 1;
            self.space();
        }
        is_next
    }

    /// Like [`Cursor::accept`], when nothing else may follow.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8, name: &str) -> Result<(), DecodeError> {
        if self.accept(byte) { Ok(()) } else { Err(self.unexpected(name)) }
    }

    /// Something else was expected here. At the end of the line that means that the line is broken off.
    #[cold]
    pub(super) fn unexpected(&self, expected: &str) -> DecodeError {
        if self.at >= self.line.len() {
            return DecodeError::BrokenOff(format!("line of export after {} bytes; expected {expected}", self.at));
        }
        malformed(expected, self.at)
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), DecodeError> {
        self.space();
        if self.at < self.line.len() { Err(malformed("nothing after the object", self.at)) } else { Ok(()) }
    }

    /// A value of JSON.
    pub(super) fn json<T: Deserialize<'a>>(&mut self, name: &str) -> Result<T, DecodeError> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) if !error.is_eof() => {
                let at = self.at + error.column().saturating_sub(1);
                let text = error.to_string();
                let why = text.split(" at line ").next().unwrap_or_default();
                Err(malformed(&format!("{name}: {why}"), at))
            }
            _ => {
                self.at = self.line.len();
                Err(self.unexpected(name))
            }
        }
    }

    /// An array of what `item` reads.
    #[inline]
    pub(super) fn array<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let mut items = Vec::new();
        self.expect(b'[', "[")?;
        if self.accept(b']') {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.accept(b',') {
                continue;
            }
            self.expect(b']', ", or ]")?;
            return Ok(items);
        }
    }

    /// The characters of a number that are next.
    #[inline]
    pub(super) fn number(&self) -> &'a str {
        let rest = self.rest();
        let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.bytes().position(|byte| !is_of_number(&byte)).unwrap_or(rest.len());
        &rest[..length]
    }
}
