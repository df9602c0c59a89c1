//! `/proc/meminfo`, and a NUMA node's `meminfo`, whose lines start with `Node N`.

use super::{ParseError, Parsed, each_line};

/// Sizes in bytes; what the kernel does not print is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// `MemTotal`
    pub total: Option<u64>,
    /// `MemFree`
    pub free: Option<u64>,
    /// `MemUsed`, only in a node's file.
    pub used: Option<u64>,
    /// `MemAvailable`, only in the host's file.
    pub available: Option<u64>,
    /// `SwapTotal`, only in the host's file.
    pub swap_total: Option<u64>,
    /// `SwapFree`, only in the host's file.
    pub swap_free: Option<u64>,
    /// `Zswap`: what compressed pages take.
    pub zswap: Option<u64>,
    /// `Zswapped`: what they were before.
    pub zswapped: Option<u64>,
    /// `AnonHugePages`
    pub anon_huge_pages: Option<u64>,
    /// `HardwareCorrupted`, only in the host's file.
    pub hardware_corrupted: Option<u64>,
}

/// Parses either file.
pub fn parse(text: &str) -> Parsed<Meminfo> {
    let mut meminfo = Meminfo::default();
    let parsed = each_line(text, |number, line| {
        let (key, value) = line.split_once(':').ok_or_else(|| ParseError::new(number, "a name and a colon", line))?;
        let field = match key.rsplit(' ').next().unwrap_or(key) {
            "MemTotal" => &mut meminfo.total,
            "MemFree" => &mut meminfo.free,
            "MemUsed" => &mut meminfo.used,
            "MemAvailable" => &mut meminfo.available,
            "SwapTotal" => &mut meminfo.swap_total,
            "SwapFree" => &mut meminfo.swap_free,
            "Zswap" => &mut meminfo.zswap,
            "Zswapped" => &mut meminfo.zswapped,
            "AnonHugePages" => &mut meminfo.anon_huge_pages,
            "HardwareCorrupted" => &mut meminfo.hardware_corrupted,
            _ => return Ok(()),
        };
        *field = Some(kibibytes(value).ok_or_else(|| ParseError::new(number, "a size in kB", line))?);
        Ok(())
    });
    parsed.map(|()| meminfo)
}

/// Calls `each` with the name and the bytes of every size in the host's file. Counts of huge pages are no sizes.
pub fn each(text: &str, mut each: impl FnMut(&str, u64)) -> Parsed<()> {
    each_line(text, |number, line| {
        let (key, value) = line.split_once(':').ok_or_else(|| ParseError::new(number, "a name and a colon", line))?;
        if !key.starts_with("HugePages_") {
            each(key, kibibytes(value).ok_or_else(|| ParseError::new(number, "a size in kB", line))?);
        }
        Ok(())
    })
}

/// `kB` of these files is 1024 bytes (filesystems/proc.rst).
fn kibibytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_shapes() {
        let node =
            parse("\nNode 250 MemTotal:       15728640 kB\nNode 250 MemFree:  15728576 kB\nNode 250 MemUsed: 64 kB\n");
        assert_eq!(
            node.value,
            Meminfo {
                total: Some(16_106_127_360),
                free: Some(16_106_061_824),
                used: Some(65_536),
                ..Meminfo::default()
            }
        );
        let host = parse("MemTotal: 2 kB\nMemAvailable: 1 kB\nHugePages_Total: 0\n");
        assert_eq!(host.value, Meminfo { total: Some(2048), available: Some(1024), ..Meminfo::default() });
    }

    #[test]
    fn malformed_values_name_their_line_and_cost_it_alone() {
        let first = |text: &str| parse(text).left_out.first.unwrap();
        assert_eq!(first("MemTotal: 2 kB\nMemFree: x kB").line, 2);
        assert_eq!(first("MemTotal 2 kB").expected, "a name and a colon");
        assert_eq!(first("MemTotal: 18446744073709551615 kB").line, 1);
        let read = parse("MemFree:\nMemTotal: 2 kB\n\u{1}\nMemAvailable: -1 kB\nSwapTotal: 4 kB\n");
        let expected = Meminfo { total: Some(2048), swap_total: Some(4096), ..Meminfo::default() };
        assert_eq!((read.value, read.left_out.count), (expected, 3));
    }

    #[test]
    fn every_size() {
        let mut all = Vec::new();
        let text = "Dirty: 2 kB\nHugePages_Total: 7\nHardwareCorrupted:\nActive(anon): 1 kB\n";
        let left = each(text, |key, bytes| all.push((key.to_owned(), bytes))).left_out;
        assert_eq!(all, [("Dirty".to_owned(), 2048), ("Active(anon)".to_owned(), 1024)]);
        assert_eq!(left.first.unwrap().expected, "a size in kB");
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = (parse(&text), each(&text, |_, _| {}));
        }
    }
}
