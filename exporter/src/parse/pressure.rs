//! Pressure stall information: `/proc/pressure/*` and a cgroup's `*.pressure` (accounting/psi.rst).

use std::time::Duration;

use super::{ParseError, Parsed, each_line};

/// Cumulative stall times; a line that the kernel does not print is `None` (`irq` has only `full`, old `cpu` only
/// `some`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: Option<Duration>,
    /// All non-idle tasks waited at once.
    pub full: Option<Duration>,
}

/// Parses one file.
pub fn parse(text: &str) -> Parsed<Pressure> {
    const EXPECTED: &str = "some or full, with total=<microseconds>";
    let mut pressure = Pressure::default();
    let mut parsed = each_line(text, |number, line| {
        let error = || ParseError::new(number, EXPECTED, line);
        let mut words = line.split_ascii_whitespace();
        let field = match words.next() {
            Some("some") => &mut pressure.some,
            Some("full") => &mut pressure.full,
            _ => return Err(error()),
        };
        let total = words.find_map(|word| word.strip_prefix("total=")).and_then(|n| n.parse().ok());
        *field = Some(Duration::from_micros(total.ok_or_else(error)?));
        Ok(())
    });
    if text.trim().is_empty() {
        parsed.left_out.add(ParseError::new(1, EXPECTED, ""));
    }
    parsed.map(|()| pressure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_line_may_be_alone() {
        let full = parse("full avg10=0.00 avg60=0.00 avg300=0.00 total=100648410\n").value;
        assert_eq!(full, Pressure { some: None, full: Some(Duration::from_micros(100_648_410)) });
        let some = parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=3").value;
        assert_eq!(some, Pressure { some: Some(Duration::from_micros(3)), full: None });
    }

    #[test]
    fn malformed_lines_are_named_and_cost_themselves() {
        for (text, line) in [("", 1), ("some avg10=0.00\n", 1), ("some total=1\nmost total=2", 2), ("full total=-1", 1)]
        {
            assert_eq!(parse(text).left_out.first.unwrap().line, line, "{text:?}");
        }
        let read = parse("some total=1\nfull total=-4\n").value;
        assert_eq!(read, Pressure { some: Some(Duration::from_micros(1)), full: None });
    }

    proptest! {
        #[test]
        fn never_panics(text in "(some|full|\\PC)*(total=)?\\PC*") {
            let _ = parse(&text);
        }
    }
}
