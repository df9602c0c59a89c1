//! Files of `key value` lines: `numastat`, `cpu.stat`, `memory.stat`, `memory.events`, `memory.oom_control`.

use super::{ParseError, Parsed, each_line};

/// Calls `each` with the key and the value of every line.
pub fn each(text: &str, mut each: impl FnMut(&str, u64)) -> Parsed<()> {
    each_line(text, |number, line| {
        let pair = line.split_once(' ').and_then(|(key, value)| Some((key, value.trim_start().parse().ok()?)));
        let (key, value) = pair.ok_or_else(|| ParseError::new(number, "a key and an unsigned number", line))?;
        each(key, value);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_without_a_number_is_named_and_costs_itself() {
        let mut seen = Vec::new();
        let left =
            each("numa_hit 1\nnuma_miss many\nanon -4096\nfile 2\n", |k, v| seen.push((k.to_owned(), v))).left_out;
        assert_eq!(left.first, Some(ParseError::new(2, "a key and an unsigned number", "numa_miss many")));
        assert_eq!((left.count, seen), (2, vec![("numa_hit".to_owned(), 1), ("file".to_owned(), 2)]));
    }

    #[test]
    fn a_trailing_nul_is_no_line() {
        let mut seen = Vec::new();
        each("a 1\nb  2\n\0", |k, v| seen.push((k.to_owned(), v)));
        assert_eq!(seen, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = each(&text, |_, _| {});
        }
    }
}
