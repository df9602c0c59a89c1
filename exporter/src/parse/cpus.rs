//! Lists (`0-3,8`) and masks (`00ff,00000000`) of CPUs and NUMA nodes, as sysfs and cpusets write them.

use super::{ParseError, trim};

/// The ranges of a list, both ends included; an empty list has none.
pub fn ranges(text: &str) -> Result<Vec<(u32, u32)>, ParseError> {
    let text = trim(text);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let expected = || ParseError::new(1, "a list of numbers and ranges such as 0-3,8", text);
        ranges.extend(range(part.trim()).ok_or_else(expected)?);
    }
    Ok(ranges)
}

/// More numbers than a kernel has CPUs (`NR_CPUS`).
const MOST: u32 = 65_536;

/// A number, a range, or the first numbers of each group in a range: `0-15:2/4` is 0,1,4,5,8,9,12,13
/// (bitmap_parselist).
fn range(part: &str) -> Option<Vec<(u32, u32)>> {
    let (range, groups) = part.split_once(':').map_or((part, None), |(range, groups)| (range, Some(groups)));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    if first > last {
        return None;
    }
    let Some(groups) = groups else { return Some(vec![(first, last)]) };
    let (used, size) = groups.split_once('/')?;
    let (used, size): (u32, u32) = (used.parse().ok()?, size.parse().ok()?);
    if used == 0 || used > size || last > MOST {
        return None;
    }
    let begins = (first..=last).step_by(size as usize);
    Some(begins.map(|begin| (begin, begin.saturating_add(used - 1).min(last))).collect())
}

/// The ranges of the bits that are set in a mask.
pub fn mask(text: &str) -> Result<Vec<(u32, u32)>, ParseError> {
    let text = trim(text);
    let text = text.strip_prefix("0x").unwrap_or(text);
    let error = || ParseError::new(1, "a mask of hexadecimal words such as 00ff,00000000", text);
    let mut bits = Vec::new();
    for (digit, at) in text.chars().rev().filter(|c| *c != ',').zip((0u32..).step_by(4)) {
        let digit = digit.to_digit(16).ok_or_else(error)?;
        bits.extend((0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| (at + bit, at + bit)));
    }
    Ok(union(bits))
}

/// All numbers of the given ranges, as ranges in order that neither touch nor overlap.
#[must_use]
pub fn union(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// `0-3,8`, as the kernel writes them.
#[must_use]
pub fn spell(ranges: &[(u32, u32)]) -> String {
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// How many numbers ranges hold that do not overlap.
#[must_use]
pub fn count(ranges: &[(u32, u32)]) -> u64 {
    ranges.iter().map(|(first, last)| u64::from(last.saturating_sub(*first)) + 1).sum()
}

/// How many numbers two such lists of ranges have in common.
#[must_use]
pub fn count_common(some: &[(u32, u32)], others: &[(u32, u32)]) -> u64 {
    let common = |a: &(u32, u32), b: &(u32, u32)| (a.0.max(b.0), a.1.min(b.1));
    let pairs = some.iter().flat_map(|a| others.iter().map(move |b| common(a, b)));
    pairs.filter(|(first, last)| first <= last).map(|range| count(&[range])).sum()
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
            assert_eq!(ranges(text).map(|r| super::count(&r)), Ok(count), "{text:?}");
        }
    }

    #[test]
    fn groups_within_a_range() {
        assert_eq!(ranges("0-15:2/4\n"), Ok(vec![(0, 1), (4, 5), (8, 9), (12, 13)]));
        assert_eq!(ranges("0-3:1/2,8"), Ok(vec![(0, 0), (2, 2), (8, 8)]));
        assert_eq!(ranges("0-4:3/4"), Ok(vec![(0, 2), (4, 4)]));
        for text in ["0-3:0/2", "0-3:3/2", "0-3:1", "0-4000000000:1/2", "0-3:1/0"] {
            assert!(ranges(text).is_err(), "{text}");
        }
    }

    #[test]
    fn masks_count() {
        for (text, count) in [("0", 0), ("00fc0000\n", 6), ("ffffffff,ffffffff,00000000", 64), ("0000,00fc0000", 6)] {
            assert_eq!(mask(text).map(|r| super::count(&r)), Ok(count), "{text:?}");
        }
    }

    #[test]
    fn masks_are_ranges() {
        assert_eq!(mask("00fc0001\n"), Ok(vec![(0, 0), (18, 23)]));
        assert_eq!(mask("1,00000000,80000000"), Ok(vec![(31, 31), (64, 64)]));
        assert_eq!(mask("1,80000000"), Ok(vec![(31, 32)]));
    }

    #[test]
    fn sets() {
        assert_eq!(union(vec![(8, 9), (0, 3), (2, 5), (6, 6)]), [(0, 6), (8, 9)]);
        assert_eq!(union(vec![(0, u32::MAX), (5, 5)]), [(0, u32::MAX)]);
        assert_eq!(count_common(&[(0, 3), (8, 9)], &[(2, 8), (20, 30)]), 3);
        assert_eq!(count_common(&[(0, 3)], &[]), 0);
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["3-1", "a", "1,,2", "-1", "4294967296"] {
            assert!(ranges(text).is_err(), "{text:?}");
        }
        assert!(mask("fg").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = (ranges(&text), mask(&text));
        }
    }
}
