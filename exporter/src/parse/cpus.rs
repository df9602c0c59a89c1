//! Lists (`0-3,8`) and masks (`00ff,00000000`) of CPUs and NUMA nodes, as sysfs and cpusets write them.

use super::{ParseError, trim};

/// The ranges of a list, both ends included; an empty list has none.
pub fn ranges(text: &str) -> Result<Vec<(u32, u32)>, ParseError> {
    let text = trim(text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|part| range(part).ok_or_else(|| ParseError::new(1, "a list of numbers and ranges such as 0-3,8", text)))
        .collect()
}

fn range(part: &str) -> Option<(u32, u32)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

/// How many numbers a list holds.
pub fn count_list(text: &str) -> Result<u64, ParseError> {
    Ok(ranges(text)?.iter().map(|(first, last)| u64::from(last - first) + 1).sum())
}

/// How many bits of a mask are set.
pub fn count_mask(text: &str) -> Result<u64, ParseError> {
    let text = trim(text);
    let bits = text.chars().filter(|c| *c != ',').map(|c| c.to_digit(16).map(|digit| u64::from(digit.count_ones())));
    bits.sum::<Option<u64>>()
        .ok_or_else(|| ParseError::new(1, "a mask of hexadecimal words such as 00ff,00000000", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_count() {
        for (text, count) in
            [("", 0), ("\n", 0), ("0\n\0", 1), ("0-87\n", 88), ("0,2,4-5", 4), ("0-2,33-34,45,72-73", 8)]
        {
            assert_eq!(count_list(text), Ok(count), "{text:?}");
        }
    }

    #[test]
    fn masks_count() {
        for (text, count) in [("0", 0), ("00fc0000\n", 6), ("ffffffff,ffffffff,00000000", 64), ("0000,00fc0000", 6)] {
            assert_eq!(count_mask(text), Ok(count), "{text:?}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["3-1", "a", "1,,2", "-1", "4294967296"] {
            assert!(ranges(text).is_err(), "{text:?}");
        }
        assert!(count_mask("fg").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = (count_list(&text), count_mask(&text));
        }
    }
}
