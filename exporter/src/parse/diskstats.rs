//! `/proc/diskstats` (admin-guide/iostats.rst).

use std::time::Duration;

use super::{ParseError, Parsed, rows};

/// A sector of these statistics, whatever the disk's own (block/stat.rst).
const SECTOR_BYTES: u64 = 512;

/// Totals of one block device since boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// Kernel name, such as `nvme0n1`.
    pub name: &'a str,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Sum of the durations of all reads.
    pub read_time: Duration,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of the durations of all writes.
    pub write_time: Duration,
    /// Time with at least one request in flight.
    pub io_time: Duration,
    /// Requests in flight at this moment.
    pub in_flight: u64,
    /// Time weighted by the requests in flight.
    pub queue_time: Duration,
}

/// Parses every line.
pub fn parse(text: &str) -> Parsed<Vec<Disk<'_>>> {
    rows(text, |number, line| {
        disk(line).ok_or_else(|| ParseError::new(number, "a device name and at least 11 unsigned numbers", line))
    })
}

fn disk(line: &str) -> Option<Disk<'_>> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?;
    let mut numbers = [0u64; 11];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let [reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, in_flight, io_ms, queue_ms] = numbers;
    Some(Disk {
        name,
        reads,
        read_bytes: sectors_read.checked_mul(SECTOR_BYTES)?,
        read_time: Duration::from_millis(read_ms),
        writes,
        written_bytes: sectors_written.checked_mul(SECTOR_BYTES)?,
        write_time: Duration::from_millis(write_ms),
        io_time: Duration::from_millis(io_ms),
        in_flight,
        queue_time: Duration::from_millis(queue_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn old_and_new_lines() {
        let old = "   8       0 sda 25354637 34367663 1003346126 18492372 28444756 11134226 505697032 63877960 0 9653880 82621804\n";
        let disks = parse(old).value;
        assert_eq!(disks[0].name, "sda");
        assert_eq!(disks[0].read_bytes, 513_713_216_512);
        assert_eq!(disks[0].io_time, Duration::from_millis(9_653_880));
        assert_eq!(disks[0].queue_time, Duration::from_millis(82_621_804));
        let new = "254 0 vda 96048 8378 6119738 72848 22127 249696 39758232 187021 0 14920 261463 9128 8 1460800 1571 1062 21";
        assert_eq!(parse(new).value[0].write_time, Duration::from_millis(187_021));
    }

    #[test]
    fn a_short_line_is_named() {
        let disks = parse("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3 4\n8 2 sda2 1 2 3 4 5 6 7 8 9 10 11\n");
        assert_eq!(disks.left_out.first.unwrap().line, 2);
        assert_eq!(disks.value.iter().map(|disk| disk.name).collect::<Vec<_>>(), ["sda", "sda2"]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|([0-9]{1,20} ?\n?)*") {
            let _ = parse(&text);
        }
    }
}
