//! `/proc/driver/nvidia-fs/stats`: what GPUDirect Storage did (NVIDIA gds-nvidia-fs, statistics version 4).

use super::{ParseError, Parsed, each_line};

/// Bytes of a MiB, in which the module tells them.
const MIB: u64 = 1 << 20;

/// What the module counts; `None` is what it does not tell, or a line that makes no sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Processes that have it open.
    pub processes: Option<u64>,
    /// From storage to the memory of GPUs.
    pub reads: Direction,
    /// From the memory of GPUs to storage.
    pub writes: Direction,
}

/// Reads or writes since the module was loaded, or its counts were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Completed ones; the module counts them while its parameter `rw_stats_enabled` is 1.
    pub operations: Option<u64>,
    /// Bytes of these, in whole MiB; as `operations`.
    pub bytes: Option<u64>,
    /// Failed ones; always counted.
    pub errors: Option<u64>,
}

/// Parses the file: a name, a colon, and values, of reads and writes as `name=value`. There are two lines of each while the
/// module counts them, the second with means of the last second.
pub fn parse(text: &str) -> Parsed<Stats> {
    let mut stats = Stats::default();
    let parsed = each_line(text, |number, line| {
        let Some((name, values)) = line.split_once(':') else { return Ok(()) };
        let bad = |expected| ParseError::new(number, expected, line);
        match name.trim() {
            "Active Process" => {
                stats.processes = Some(values.trim().parse().map_err(|_| bad("a number of processes"))?);
            }
            "Reads" => stats.reads.add(values, "readMiB").ok_or_else(|| bad("ok=, readMiB= and err= with numbers"))?,
            "Writes" => {
                stats.writes.add(values, "writeMiB").ok_or_else(|| bad("ok=, writeMiB= and err= with numbers"))?
            }
            _ => {}
        }
        Ok(())
    });
    parsed.map(|()| stats)
}

impl Direction {
    /// `None` where a value that is looked for is no number: then none of the line is taken.
    fn add(&mut self, values: &str, bytes: &str) -> Option<()> {
        let mut found = *self;
        for (name, value) in values.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "ok" => found.operations = Some(value.parse().ok()?),
                "err" => found.errors = Some(value.parse().ok()?),
                name if name == bytes => found.bytes = Some(value.parse::<u64>().ok()?.checked_mul(MIB)?),
                _ => {}
            }
        }
        *self = found;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNTS: &str = "GDS Version: 1.16.0.49\nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.25.7)\n\
        IO stats: Enabled, peer IO stats: Disabled\n\nActive Shadow-Buffer (MiB): 128\nActive Process: 2\n\
        Batches\t\t\t\t: n=0 ok=0 err=0 Avg-Submit-Latency(usec)=0\n\
        Reads\t\t\t\t: n=1050 ok=1048 err=2 readMiB=1024 io_state_err=1\n\
        Reads\t\t\t\t: Bandwidth(MiB/s)=13224 Avg-Latency(usec)=594\n\
        Sparse Reads\t\t        : n=7 io=0 holes=0 pages=0 \n\
        Writes\t\t\t\t: n=30 ok=30 err=0 writeMiB=15 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n\
        Writes\t\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n\
        Ops\t\t\t\t: Read=3 Write=1 BatchIO=0\n";

    #[test]
    fn a_module_that_counts() {
        let reads = Direction { operations: Some(1048), bytes: Some(1 << 30), errors: Some(2) };
        let writes = Direction { operations: Some(30), bytes: Some(15 << 20), errors: Some(0) };
        assert_eq!(parse(COUNTS).value, Stats { processes: Some(2), reads, writes });
    }

    #[test]
    fn a_module_that_counts_errors_alone() {
        let text = "IO stats: Disabled, peer IO stats: Disabled\nActive Process: 0\nReads : err=4 io_state_err=0\n\
            Writes : err=5 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\nOps : Read=0 Write=0 BatchIO=0\n";
        let only = |errors| Direction { errors: Some(errors), ..Direction::default() };
        assert_eq!(parse(text).value, Stats { processes: Some(0), reads: only(4), writes: only(5) });
    }

    #[test]
    fn a_bad_line_costs_itself() {
        let bad = parse(&COUNTS.replace("ok=1048", "ok=-1"));
        assert_eq!((bad.value.reads, bad.left_out.first.unwrap().line), (Direction::default(), 9));
        assert_eq!(bad.value.writes.operations, Some(30));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(Reads|Writes|Active Process|: |ok=|err=|readMiB=|[0-9]{1,21}|-| |\n|\\PC)*") {
            let _ = parse(&text);
        }
    }
}
