//! How findings spell lists and sizes.

pub(super) use crate::parse::cpus::spell as ranges;

/// Most items of a list that are spelled out.
const MOST: usize = 4;

/// `a, b, c, d and 3 more`.
pub(super) fn list(items: &[String]) -> String {
    let shown = items.get(..MOST).unwrap_or(items).join(", ");
    match items.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `1 CPU`, `2 CPUs`.
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `1.5 GiB`; whole bytes below one KiB.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    if value < 1.0 {
        return format!("{bytes} bytes");
    }
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let digits = if value >= 10.0 || value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (size, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (8 << 20, "8 MiB"),
            (3 << 29, "1.5 GiB"),
            (200 << 30, "200 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn lists_are_cut() {
        let items = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&items(0)), "");
        assert_eq!(list(&items(4)), "0, 1, 2, 3");
        assert_eq!(list(&items(6)), "0, 1, 2, 3 and 2 more");
        assert_eq!(ranges(&[(0, 3), (8, 8)]), "0-3,8");
        assert_eq!([0, 1, 2].map(|n| count(n, "GPU")), ["0 GPUs", "1 GPU", "2 GPUs"]);
    }
}
