//! Why an answer cannot be read.

/// Why an answer cannot be read. Nothing of the answer may be used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes do not follow the format. The text says where, what was expected and what was found.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// Reading on would take more memory than the limit allows.
    #[error("{what} of {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// What is too large, such as `frame`.
        what: &'static str,
        /// Its size, as far as it is known.
        bytes: u64,
        /// The largest size that is read.
        limit: usize,
    },
    /// The bytes end too early. The text says what was expected to follow.
    #[error("answer broken off: {0}")]
    BrokenOff(String),
    /// A chunk of an encoding that is not read. The engine can be asked for samples instead of chunks.
    #[error("chunk encoding {0}; expected 1 (XOR), 2 or 3 (native histograms)")]
    UnknownEncoding(i32),
}
