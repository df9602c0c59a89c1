//! `/proc/swaps`: the swap devices in use (`swap_show` in mm/swapfile.c).

use super::{ParseError, Parsed, each_line};

/// One device or file that pages are swapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap<'a> {
    /// Its path; the kernel writes white space and backslashes in it as octal escapes, such as `\040`.
    pub path: &'a str,
    /// `partition` or `file`.
    pub kind: &'a str,
    /// Bytes it can hold.
    pub size: u64,
    /// Bytes it holds.
    pub used: u64,
}

/// Parses every line below the header.
pub fn parse(text: &str) -> Parsed<Vec<Swap<'_>>> {
    let (mut swaps, mut is_head) = (Vec::new(), true);
    let parsed = each_line(text, |number, line| {
        if std::mem::replace(&mut is_head, false) {
            return Ok(());
        }
        let expected = || ParseError::new(number, "a path, a type, a size and a use in KiB", line);
        swaps.push(swap(line).ok_or_else(expected)?);
        Ok(())
    });
    parsed.map(|()| swaps)
}

fn swap(line: &str) -> Option<Swap<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (path, kind) = (words.next()?, words.next()?);
    let mut bytes = || words.next()?.parse::<u64>().ok()?.checked_mul(1024);
    Some(Swap { path, kind, size: bytes()?, used: bytes()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn devices_and_files() {
        let text = format!("{HEADER}/dev/zram0   partition\t8388604\t\t76\t\t100\n/swap\\040file file\t4\t0\t-2\n");
        let expected = [
            Swap { path: "/dev/zram0", kind: "partition", size: 8_388_604 << 10, used: 76 << 10 },
            Swap { path: "/swap\\040file", kind: "file", size: 4096, used: 0 },
        ];
        assert_eq!(parse(&text).value, expected);
        assert_eq!(parse(HEADER).value, []);
    }

    #[test]
    fn a_short_line_is_named() {
        assert_eq!(parse(&format!("{HEADER}/a file 4 0 1\n/b file 4\n")).left_out.first.unwrap().line, 3);
    }

    proptest! {
        #[test]
        fn never_panics(text in "h\n([0-9]{1,21}|/| |\t|\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
