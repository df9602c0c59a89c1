//! Settings: a choice among words, or a module's switch.

use super::{ParseError, trim};

/// The active word of a list such as `always [madvise] never`.
pub fn active(text: &str) -> Result<&str, ParseError> {
    let choices = trim(text).split_ascii_whitespace();
    choices
        .filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .next()
        .ok_or_else(|| ParseError::new(1, "a choice in brackets, as in always [madvise] never", trim(text)))
}

/// A module's boolean parameter.
pub fn switch(text: &str) -> Result<bool, ParseError> {
    match trim(text) {
        "Y" => Ok(true),
        "N" => Ok(false),
        other => Err(ParseError::new(1, "Y or N", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn choices() {
        assert_eq!(active("always [madvise] never\n"), Ok("madvise"));
        assert_eq!(active("always defer [defer+madvise] madvise never\n"), Ok("defer+madvise"));
        assert_eq!(active("always never").unwrap_err().found, "always never");
    }

    #[test]
    fn switches() {
        assert_eq!((switch("Y\n"), switch("N\n")), (Ok(true), Ok(false)));
        assert_eq!(switch("1\n").unwrap_err().expected, "Y or N");
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\[|\\]| |Y|\\PC)*") {
            let _ = (active(&text).map(str::len), switch(&text));
        }
    }
}
