//! Bytes that arrive in pieces and are taken off in other pieces.

/// Bytes that have arrived and were not taken off yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the bytes begin that were not taken off.
    start: usize,
}

impl Buffer {
    /// Appends bytes. Memory of bytes that were taken off is used again.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes that were not taken off.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Takes off this many bytes, or all if there are fewer. Returns them.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.start = start.saturating_add(count).min(self.bytes.len());
        &self.bytes[start..self.start]
    }
}
