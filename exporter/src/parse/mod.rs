//! Pure text to plain structs: only what the procfs crate lacks.

/// What a parser expected and did not find.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: expected {expected}, found {found:?}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there, cut to 80 characters.
    pub found: String,
}

impl ParseError {
    /// An error about line `line` (from 1) whose text is `found`.
    #[must_use]
    pub fn new(line: usize, expected: &'static str, found: &str) -> Self {
        Self { line, expected, found: found.chars().take(80).collect() }
    }
}
