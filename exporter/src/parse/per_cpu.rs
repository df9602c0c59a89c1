//! Tables with one column per CPU: `/proc/interrupts` and `/proc/softirqs`.
//!
//! With 256 CPUs the former is megabytes of numbers, so that nothing is allocated per number.

use super::ParseError;

/// A table whose rows are still text.
pub struct Table<'a> {
    /// The CPU of each column.
    pub cpus: Vec<u32>,
    body: &'a str,
}

/// One row.
pub struct Row<'a> {
    number: usize,
    line: &'a str,
    /// What stands before the colon: an interrupt's number, or a name.
    pub name: &'a str,
    rest: &'a str,
}

impl<'a> Table<'a> {
    /// Reads the header.
    pub fn parse(text: &'a str) -> Result<Self, ParseError> {
        let (header, body) = text.split_once('\n').unwrap_or((text, ""));
        Ok(Self { cpus: columns(header)?, body })
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row<'a>, ParseError>> {
        let lines = self.body.lines().enumerate().map(|(i, line)| (i + 2, line));
        lines.filter_map(|(number, line)| Row::parse(number, line).transpose())
    }
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
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<(String, Vec<u64>, String)>, ParseError> {
        let table = Table::parse(text)?;
        let mut counts = Vec::new();
        let row = |row: Result<Row<'_>, ParseError>| {
            let row = row?;
            let rest = row.counts(table.cpus.len(), &mut counts)?.trim().to_owned();
            Ok((row.name.to_owned(), counts.clone(), rest))
        };
        table.rows().map(row).collect()
    }

    #[test]
    fn columns_are_the_cpus_that_are_online() {
        assert_eq!(Table::parse("      CPU0   CPU2  CPU5 \n").unwrap().cpus, [0, 2, 5]);
    }

    #[test]
    fn rows_with_and_without_a_description() {
        let text = "  CPU0 CPU1\n  8:  0  4294967295  IO-APIC 8-edge rtc0\nIPI0:2768808080 1   Rescheduling\nHI: 1 2\n";
        let expected = [
            ("8".to_owned(), vec![0, 4_294_967_295], "IO-APIC 8-edge rtc0".to_owned()),
            ("IPI0".to_owned(), vec![2_768_808_080, 1], "Rescheduling".to_owned()),
            ("HI".to_owned(), vec![1, 2], String::new()),
        ];
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn malformed_tables_name_their_line() {
        assert_eq!(read("").unwrap_err(), ParseError::new(1, "a header of CPU<number> columns", ""));
        assert_eq!(read("CPU0 eth0\n").unwrap_err().line, 1);
        assert_eq!(read("CPU0\n1: 5\nno colon\n").unwrap_err(), ParseError::new(3, "a name and a colon", "no colon"));
        let short = read("CPU0 CPU1\n\n 1: 5 rtc0\n").unwrap_err();
        assert_eq!(short, ParseError::new(3, "an unsigned number per CPU", "1: 5 rtc0"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(CPU[0-9]{1,11} ){0,3}\n([0-9]{1,21}|:| |\n|\\PC)*") {
            let _ = read(&text);
        }
    }
}
