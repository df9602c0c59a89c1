//! Files of one cgroup whose shape is theirs alone (admin-guide/cgroup-v2.rst, cgroup-v1/{memory,blkio-controller}.rst).

use std::collections::{BTreeMap, BTreeSet};

use super::{LeftOut, ParseError, Parsed, each_line, lines, trim};

/// v1 spells "no limit" as the largest page count in bytes, which depends on the page size; with pages of 64 KiB, the
/// largest there are, it is this.
const V1_UNLIMITED: u64 = 0x7FFF_FFFF_FFFF_0000;

/// `memory.max` and similar files, also v1's `memory.limit_in_bytes`: a number, or `max` for none.
pub fn limit(text: &str) -> Result<Option<u64>, ParseError> {
    match trim(text) {
        "max" => Ok(None),
        text => match text.parse() {
            Ok(limit) => Ok((limit < V1_UNLIMITED).then_some(limit)),
            Err(_) => Err(ParseError::new(1, "an unsigned number or max", text)),
        },
    }
}

/// `cpu.max`: quota over period, in CPUs; `None` when unlimited.
pub fn cpu_max(text: &str) -> Result<Option<f64>, ParseError> {
    let error = || ParseError::new(1, "a quota or max, and a period above 0, in microseconds", text);
    let (quota, period) = trim(text).split_once(' ').ok_or_else(error)?;
    let period = period.parse::<u64>().ok().filter(|p| *p > 0).ok_or_else(error)?;
    match quota {
        "max" => Ok(None),
        quota => Ok(Some(quota.parse::<u64>().map_err(|_| error())? as f64 / period as f64)),
    }
}

/// Block I/O of one cgroup, summed over devices; `None` where a part of the sum makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Reads.
    pub reads: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
}

/// A cgroup without a line has done nothing.
impl Default for Io {
    fn default() -> Self {
        Self { read_bytes: Some(0), written_bytes: Some(0), reads: Some(0), writes: Some(0) }
    }
}

/// `io.stat`, without the devices that `is_stacked` names by their numbers: what goes through a device that is made of
/// disks is counted again at the disks. Devices without I/O may share a line with the next one (kernels before 5.16),
/// so words are read, not lines.
pub fn io_stat(text: &str, mut is_stacked: impl FnMut(&str) -> bool) -> Parsed<Io> {
    let (mut io, mut left_out) = (Io::default(), LeftOut::default());
    // The last device of a line has the numbers.
    let mut is_stacked = |line: &str| {
        line.split_ascii_whitespace().take_while(|word| !word.contains('=')).last().is_some_and(&mut is_stacked)
    };
    // Where no disk is counted, what is made of disks is all there is.
    let some_disk = lines(text).any(|(_, line)| line.contains('=') && !is_stacked(line));
    for (number, line) in lines(text) {
        if some_disk && is_stacked(line) {
            continue;
        }
        for (key, value) in line.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
            let field = match key {
                "rbytes" => &mut io.read_bytes,
                "wbytes" => &mut io.written_bytes,
                "rios" => &mut io.reads,
                "wios" => &mut io.writes,
                _ => continue,
            };
            let number_of =
                |n: &str| n.parse::<u64>().map_err(|_| ParseError::new(number, "key=<unsigned number>", line));
            let sum = left_out.keep(number_of(value)).zip(*field);
            *field = sum.map(|(n, sum)| sum.saturating_add(n));
        }
    }
    left_out.with(io)
}

/// The line of `io.stat` for one device, such as `259:0`; `None` when the cgroup has done nothing on it.
pub fn io_stat_of(text: &str, device: &str) -> Parsed<Option<Io>> {
    let (mut found, mut left_out) = (None, LeftOut::default());
    for (number, line) in lines(text) {
        // The last device of a line has the numbers: see `io_stat`.
        let Some((before, _)) = line.split_once("rbytes=") else { continue };
        if before.split_ascii_whitespace().last() == Some(device) {
            let read = io_stat(line, |_| false);
            found = Some(read.value);
            if let Some(error) = read.left_out.first {
                left_out.add(ParseError { line: number, ..error });
            }
        }
    }
    left_out.with(found)
}

/// `blkio.throttle.io_service_bytes` and `io_serviced`: what was read and what was written, summed over devices; `None`
/// for a sum with a part that makes no sense. Nothing without a device: the kernel then writes a total of 0, whether nothing
/// was read or nothing is counted (blk-throttle.c counts on a disk from the first limit that any group had on it since
/// boot; Linux 6.10 and later).
pub fn blkio(text: &str) -> Parsed<Option<[Option<u64>; 2]>> {
    let mut sums = None;
    let parsed = each_line(text, |number, line| {
        let mut words = line.split_ascii_whitespace();
        let operation = words.nth(1);
        let Some(at) = ["Read", "Write"].iter().position(|name| operation == Some(*name)) else { return Ok(()) };
        let count = words.next().and_then(|n| n.parse::<u64>().ok());
        let sum = &mut sums.get_or_insert([Some(0); 2])[at];
        *sum = sum.zip(count).map(|(sum, count): (u64, u64)| sum.saturating_add(count));
        count.map(drop).ok_or_else(|| ParseError::new(number, "device, operation and an unsigned number", line))
    });
    parsed.map(|()| sums)
}

/// Memory of one cgroup on one NUMA node; v2 counts bytes, v1 pages. What a line that makes no sense is part of is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Anonymous and shared memory.
    pub anon_shmem: Option<u64>,
    /// Page cache of files, without shared memory.
    pub file: Option<u64>,
}

/// v2 `memory.numa_stat`, by node id. There shared memory counts as `file`.
pub fn numa_stat(text: &str) -> Parsed<BTreeMap<u32, NodeMemory>> {
    per_node(text, ["anon", "file", "shmem"], |[anon, file, shmem]| NodeMemory {
        anon_shmem: anon.zip(shmem).map(|(anon, shmem)| anon.saturating_add(shmem)),
        file: file.zip(shmem).map(|(file, shmem)| file.saturating_sub(shmem)),
    })
}

/// v1 `memory.numa_stat`, by node id, descendants included. There shared memory counts as `anon`.
pub fn numa_stat_v1(text: &str) -> Parsed<BTreeMap<u32, NodeMemory>> {
    per_node(text, ["hierarchical_anon", "hierarchical_file"], |[anon_shmem, file]| NodeMemory { anon_shmem, file })
}

/// Makes the memory of every node of the values of these lines: 0 where there is no such line, `None` where it makes no
/// sense. v1 writes the sum of a line's nodes behind its name, as in `anon=1 N0=1`.
fn per_node<const N: usize>(
    text: &str,
    keys: [&str; N],
    make: impl Fn([Option<u64>; N]) -> NodeMemory,
) -> Parsed<BTreeMap<u32, NodeMemory>> {
    let mut by_key = [const { Some(BTreeMap::new()) }; N];
    let parsed = each_line(text, |number, line| {
        let key = line.split([' ', '=']).next();
        let Some(at) = keys.iter().position(|name| key == Some(*name)) else { return Ok(()) };
        by_key[at] = line.split_ascii_whitespace().skip(1).map(of_node).collect();
        match by_key[at] {
            Some(_) => Ok(()),
            None => Err(ParseError::new(number, "N<node>=<unsigned number>", line)),
        }
    });
    let nodes: BTreeSet<u32> = by_key.iter().flatten().flat_map(BTreeMap::keys).copied().collect();
    let memory = |node: u32| {
        let value =
            |values: &Option<BTreeMap<u32, u64>>| Some(values.as_ref()?.get(&node).copied().unwrap_or_default());
        (node, make(by_key.each_ref().map(value)))
    };
    parsed.map(|()| nodes.into_iter().map(memory).collect())
}

fn of_node(word: &str) -> Option<(u32, u64)> {
    let (node, value) = word.strip_prefix('N')?.split_once('=')?;
    Some((node.parse().ok()?, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits() {
        for (text, expected) in [
            ("max\n", None),
            ("2147483648\n", Some(2_147_483_648)),
            ("9223372036854771712\n", None),
            ("9223372036854710272\n", None),
            ("0", Some(0)),
        ] {
            assert_eq!(limit(text), Ok(expected), "{text}");
        }
        assert!(limit("-1").is_err());
    }

    #[test]
    fn quotas() {
        assert_eq!(cpu_max("4800000 100000\n"), Ok(Some(48.0)));
        assert_eq!(cpu_max("max 100000\n"), Ok(None));
        for text in ["100000", "x 100000", "100000 0", ""] {
            assert!(cpu_max(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn io_sums_devices_and_survives_joined_lines() {
        let text =
            "253:0 259:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n8:0 rbytes=10 wbytes=20 rios=30 wios=40\n";
        let [one, ten] = [[1, 2, 3, 4], [10, 20, 30, 40]];
        let io = |[a, b, c, d]: [u64; 4]| Io {
            read_bytes: Some(a),
            written_bytes: Some(b),
            reads: Some(c),
            writes: Some(d),
        };
        assert_eq!(io_stat(text, |_| false).value, io([11, 22, 33, 44]));
        assert_eq!(io_stat(text, |device| device == "259:0").value, io(ten), "a device that is made of others");
        assert_eq!(io_stat(text, |device| device == "8:0").value, io(one));
        assert_eq!(io_stat("", |_| false).value, Io::default());
        let bad = io_stat("8:0 rbytes=1 wbytes=2\n8:16 rbytes=-4 wbytes=3", |_| false);
        assert_eq!(bad.left_out.first.unwrap().line, 2);
        assert_eq!((bad.value.read_bytes, bad.value.written_bytes), (None, Some(5)), "a part would be too little");
    }

    #[test]
    fn blkio_sums_devices() {
        let text = "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\n8:16 Read 1\nTotal 12\n";
        assert_eq!(blkio(text), LeftOut::default().with(Some([Some(6), Some(6)])));
        assert_eq!(blkio("Total 0\n").value, None, "nothing is counted, or nothing was read");
        let bad = blkio("8:0 Read -5\n8:0 Write 6\n8:16 Read 1\n8:16 Write\n");
        assert_eq!((bad.value, bad.left_out.count), (Some([None, None]), 2));
        assert_eq!(blkio("8:0 Read -5\n8:0 Write 6\n").value, Some([None, Some(6)]), "a bad line costs its own sum");
    }

    #[test]
    fn shared_memory_goes_with_anonymous_memory() {
        let v2 = numa_stat("anon N0=10 N8=20\nfile N0=100 N8=200\nshmem N0=0 N8=5\npagetables N0=1 N8=1\n").value;
        assert_eq!(v2[&8], NodeMemory { anon_shmem: Some(25), file: Some(195) });
        let v1 = numa_stat_v1("total=9 N0=9\nanon=1 N0=1\nhierarchical_file=3 N0=3\nhierarchical_anon=4 N0=4\n").value;
        assert_eq!(v1[&0], NodeMemory { anon_shmem: Some(4), file: Some(3) });
    }

    #[test]
    fn a_bad_line_of_a_node_costs_what_it_is_part_of() {
        for (text, anon_shmem, file) in [
            ("anon N0=-1\nfile N0=5\nshmem N0=2\n", None, Some(3)),
            ("anon N0=1\nfile 0=5\nshmem N0=2\n", Some(3), None),
            ("anon N0=1\nfile N0=5\nshmem N0\n", None, None),
            ("anon N0=1\nfile N0=5\n", Some(1), Some(5)),
        ] {
            let parsed = numa_stat(text);
            assert_eq!(parsed.value[&0], NodeMemory { anon_shmem, file }, "{text}");
            assert_eq!(parsed.left_out.count, u64::from(anon_shmem.is_none() || file.is_none()), "{text}");
        }
        let v1 = numa_stat_v1("hierarchical_file=3 N0=-3\nhierarchical_anon=4 N0=4\n").value;
        assert_eq!(v1[&0], NodeMemory { anon_shmem: Some(4), file: None });
    }

    proptest! {
        #[test]
        fn never_panics(text in "(anon|file|shmem| N[0-9]=|hierarchical_|rbytes=|[0-9]{1,21}|Read| |\n|\\PC)*") {
            let _ = (limit(&text), cpu_max(&text), io_stat(&text, |_| false), blkio(&text), numa_stat(&text), numa_stat_v1(&text));
        }
    }
}
