//! Tables with one column per CPU: `/proc/interrupts` and `/proc/softirqs`.
//!
//! With 256 CPUs the former is megabytes of numbers, so that nothing is allocated per number.

use super::{LeftOut, ParseError, Parsed};

/// One row.
pub struct Row<'a> {
    number: usize,
    line: &'a str,
    /// What stands before the colon: an interrupt's number, or a name.
    pub name: &'a str,
    rest: &'a str,
}

/// Calls `each` with the CPU of each column, and with the name and the counts of every row.
pub fn each(text: &str, mut each: impl FnMut(&[u32], &str, &[u64])) -> Parsed<()> {
    let (header, body) = text.split_once('\n').unwrap_or((text, ""));
    let (mut left_out, mut counts) = (LeftOut::default(), Vec::new());
    let Some(cpus) = left_out.keep(columns(header)) else { return left_out.with(()) };
    for (line, number) in body.lines().zip(2..) {
        let read = Row::parse(number, line).and_then(|row| match row {
            Some(row) => row.counts(cpus.len(), &mut counts).map(|_| Some(row)),
            None => Ok(None),
        });
        if let Some(row) = left_out.keep(read).flatten() {
            each(&cpus, row.name, &counts);
        }
    }
    left_out.with(())
}

/// The CPU of each column, by the first line.
pub fn columns(header: &str) -> Result<Vec<u32>, ParseError> {
    let column = |word: &str| word.strip_prefix("CPU")?.parse().ok();
    let cpus: Option<Vec<u32>> = header.split_ascii_whitespace().map(column).collect();
    let none = || ParseError::new(1, "a header of CPU<number> columns", header.trim());
    cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(none)
}

impl<'a> Row<'a> {
    /// A line below the header; `None` where nothing is on it.
    pub fn parse(number: usize, line: &'a str) -> Result<Option<Self>, ParseError> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        let (name, rest) =
            line.split_once(':').ok_or_else(|| ParseError::new(number, "a name and a colon", line.trim()))?;
        Ok(Some(Row { number, line, name: name.trim(), rest }))
    }

    /// Puts one number per column into `counts`, and returns what stands behind them.
    pub fn counts(&self, columns: usize, counts: &mut Vec<u64>) -> Result<&'a str, ParseError> {
        counts.clear();
        let mut rest = self.rest;
        for _ in 0..columns {
            let (count, behind) = next_number(rest)
                .ok_or_else(|| ParseError::new(self.number, "an unsigned number per CPU", self.line.trim()))?;
            counts.push(count);
            rest = behind;
        }
        Ok(rest)
    }
}

fn next_number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_ascii_start();
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let is_whole = rest.bytes().next().is_none_or(|byte| byte.is_ascii_whitespace());
    Some((digits.parse().ok()?, rest)).filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Vec<(String, Vec<u64>)>, LeftOut) {
        let mut rows = Vec::new();
        let parsed = each(text, |_, name, counts| rows.push((name.to_owned(), counts.to_vec())));
        (rows, parsed.left_out)
    }

    #[test]
    fn columns_are_the_cpus_that_are_online() {
        assert_eq!(columns("      CPU0   CPU2  CPU5 ").unwrap(), [0, 2, 5]);
    }

    #[test]
    fn rows_with_and_without_a_description() {
        let text = "  CPU0 CPU1\n  8:  0  4294967295  IO-APIC 8-edge rtc0\nIPI0:2768808080 1   Rescheduling\nHI: 1 2\n";
        let expected = [("8", vec![0, 4_294_967_295]), ("IPI0", vec![2_768_808_080, 1]), ("HI", vec![1, 2])];
        assert_eq!(read(text), (expected.map(|(name, counts)| (name.to_owned(), counts)).to_vec(), LeftOut::default()));
        let row = Row::parse(2, "  8:  0  7  IO-APIC 8-edge rtc0").unwrap().unwrap();
        assert_eq!(row.counts(2, &mut Vec::new()), Ok("  IO-APIC 8-edge rtc0"));
    }

    #[test]
    fn malformed_tables_name_their_line_and_keep_the_others() {
        let left = |text: &str| (read(text).0.len(), read(text).1.first.unwrap());
        assert_eq!(left(""), (0, ParseError::new(1, "a header of CPU<number> columns", "")));
        assert_eq!(left("CPU0 eth0\n1: 5\n").1.line, 1);
        assert_eq!(left("CPU0\n1: 5x\n2: 6 rtc0\n").1.line, 2);
        assert_eq!(left("CPU0\n1: 5\nno colon\n"), (1, ParseError::new(3, "a name and a colon", "no colon")));
        let short = left("CPU0 CPU1\n\n 1: 5 rtc0\n 2: 5 6\n");
        assert_eq!(short, (1, ParseError::new(3, "an unsigned number per CPU", "1: 5 rtc0")));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(CPU[0-9]{1,11} ){0,3}\n([0-9]{1,21}|:| |\n|\\PC)*") {
            let _ = read(&text);
        }
    }
}
