//! `/proc/net/softnet_stat`: one line of hexadecimal words per online CPU (`softnet_seq_show` in net/core/net-procfs.c).

use super::{ParseError, Parsed, rows};

/// What one CPU did with received packets; each figure wraps at 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softnet {
    /// The CPU. Kernels before 5.10 do not print it; there the lines are counted, which is wrong only while a CPU other
    /// than the last is offline.
    pub cpu: u32,
    /// Packets taken from the queues.
    pub processed: u32,
    /// Packets dropped because the backlog queue was full.
    pub dropped: u32,
    /// Times the work was cut off with packets left.
    pub squeezed: u32,
}

/// Parses every line.
pub fn parse(text: &str) -> Parsed<Vec<Softnet>> {
    let mut places = 0..;
    rows(text, |number, line| {
        let read = places.next().and_then(|at| cpu(line, at));
        read.ok_or_else(|| ParseError::new(number, "at least 3 hexadecimal words of 32 bits", line))
    })
}

fn cpu(line: &str, at: u32) -> Option<Softnet> {
    let mut words = line.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16).ok());
    let (processed, dropped, squeezed) = (words.next()??, words.next()??, words.next()??);
    let cpu = words.nth(9).map_or(Some(at), |word| word)?;
    Some(Softnet { cpu, processed, dropped, squeezed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn old_and_new_lines() {
        let old = "00049279 00000000 00000001 0 0 0 0 0 0 0 0\n000dfb82 00000029 0000000a 0 0 0 0 0 0 0 0\n";
        let expected = [
            Softnet { cpu: 0, processed: 0x49279, dropped: 0, squeezed: 1 },
            Softnet { cpu: 1, processed: 0xdfb82, dropped: 0x29, squeezed: 10 },
        ];
        assert_eq!(parse(old).value, expected);
        let new = "000091f1 00000000 00000002 0 0 0 0 0 0 0 0 0 00000007 00000000 00000000\n";
        assert_eq!(parse(new).value, [Softnet { cpu: 7, processed: 0x91f1, dropped: 0, squeezed: 2 }]);
    }

    #[test]
    fn malformed_lines_are_named() {
        for text in ["0 0 0\n0 0\n", "0 0 0\n0 0 x\n", "0 0 0\n0 0 100000000\n"] {
            assert_eq!(parse(text).left_out.first.unwrap().line, 2, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "([0-9a-f]{1,9}| |\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
