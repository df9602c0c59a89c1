//! Files of `key value` lines: `numastat`, `cpu.stat`, `memory.stat`, `memory.events`, `memory.oom_control`.

use super::{ParseError, lines};

/// Calls `each` with the key and the value of every line.
pub fn each(text: &str, mut each: impl FnMut(&str, u64)) -> Result<(), ParseError> {
    for (number, line) in lines(text) {
        let pair = line.split_once(' ').and_then(|(key, value)| Some((key, value.trim_start().parse().ok()?)));
        let Some((key, value)) = pair else {
            return Err(ParseError::new(number, "a key and an unsigned number", line));
        };
        each(key, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_without_a_number_is_named() {
        let error = each("numa_hit 1\nnuma_miss many\n", |_, _| {}).unwrap_err();
        assert_eq!(error, ParseError::new(2, "a key and an unsigned number", "numa_miss many"));
    }

    #[test]
    fn a_trailing_nul_is_no_line() {
        let mut seen = Vec::new();
        each("a 1\nb  2\n\0", |k, v| seen.push((k.to_owned(), v))).unwrap();
        assert_eq!(seen, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = each(&text, |_, _| {});
        }
    }
}
