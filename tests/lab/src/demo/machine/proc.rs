//! The files of the whole node.

use std::fmt::Write as _;

use super::cgroup::whole;
use super::layout::{self, CPUS, NODES, Source};
use super::model::{DiskTotals, NodeTotals, Slot};
use super::tree::{recorded, with_figures};
use super::{Counted, PAGE_BYTES};

/// Kernel ticks per second (`USER_HZ`).
const TICKS: f64 = 100.0;
const SECTOR: u64 = 512;
/// The partition that is swapped to, KiB.
const SWAP_KIB: u64 = 32 << 20;

/// What the files are written from.
pub(super) struct Node<'a> {
    pub(super) counted: &'a Counted,
    pub(super) rates: &'a Slot,
    /// Seconds since boot, and boot in seconds since 1970.
    pub(super) uptime: f64,
    pub(super) booted: u64,
    /// Bytes in use on each NUMA node: all of it, and of that file pages.
    pub(super) used: [f64; NODES],
    pub(super) file: [f64; NODES],
}

impl Node<'_> {
    /// Path and text of every file, from the roots' parent.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let (t, rates) = (&self.counted.node, &self.rates.node);
        let named = |(path, text): (&str, String)| (path.to_owned(), text);
        let mut files: Vec<(String, String)> = [
            ("proc/stat", self.stat()),
            ("proc/meminfo", self.meminfo()),
            ("proc/vmstat", vmstat(t)),
            ("proc/swaps", self.swaps()),
            ("proc/diskstats", diskstats(&self.counted.disks)),
            ("proc/interrupts", self.interrupts()),
            ("proc/softirqs", self.softirqs()),
            ("proc/net/softnet_stat", self.softnet()),
            ("proc/pressure/cpu", pressure([t.cpu_some, 0.0], [rates.cpu_some, 0.0])),
            ("proc/pressure/memory", pressure([t.memory_some, t.memory_full], [rates.memory_some, rates.memory_full])),
            ("proc/pressure/io", pressure([t.io_some, t.io_full], [rates.io_some, rates.io_full])),
        ]
        .map(named)
        .into();
        for node in 0..NODES {
            let folder = format!("sys/devices/system/node/node{node}");
            files.push((format!("{folder}/meminfo"), self.node_meminfo(node)));
            files.push((format!("{folder}/numastat"), numastat(t, node)));
        }
        for (row, (_, away)) in layout::rows().iter().zip(&self.rates.interrupts) {
            let cpu = if *away { row.cpu ^ 1 } else { row.cpu };
            files.push((format!("proc/irq/{}/effective_affinity_list", row.number), format!("{cpu}\n")));
        }
        files
    }

    fn stat(&self) -> String {
        let t = &self.counted.node;
        let modes = [t.user, 0.0, t.system, t.idle, t.iowait, t.irq, t.softirq, 0.0, 0.0, 0.0];
        let row = |name: &str, share: f64| {
            let ticks = modes.map(|seconds| whole(seconds * share * TICKS).to_string());
            format!("{name} {}\n", ticks.join(" "))
        };
        let mut text = row("cpu ", 1.0);
        for cpu in 0..CPUS {
            text += &row(&format!("cpu{cpu}"), 1.0 / f64::from(CPUS));
        }
        text + &format!(
            "ctxt {}\nbtime {}\nprocesses 40000\nprocs_running 3\n",
            whole(20_000.0 * self.uptime),
            self.booted
        )
    }

    fn meminfo(&self) -> String {
        let text = recorded("proc/meminfo");
        let total = 263_542_292;
        let (used, file) = (kib(self.used.iter().sum()), kib(self.file.iter().sum()));
        let free = total - used.min(total);
        let anon = used - file.min(used);
        with_figures(
            text,
            &[
                ("MemFree", free),
                ("MemAvailable", free + file * 9 / 10),
                ("Cached", file),
                ("Active", anon + file / 3),
                ("Inactive", file - file / 3),
                ("Active(anon)", anon),
                ("Active(file)", file / 3),
                ("Inactive(file)", file - file / 3),
                ("AnonPages", anon),
                ("AnonHugePages", anon / 3),
                ("SwapTotal", SWAP_KIB),
                ("SwapFree", SWAP_KIB - self.swapped_kib()),
            ],
        )
    }

    /// What was swapped out and not yet in again.
    fn swapped_kib(&self) -> u64 {
        let t = &self.counted.node;
        kib((t.swapped_out - t.swapped_in) * PAGE_BYTES).min(SWAP_KIB)
    }

    fn swaps(&self) -> String {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        format!("{header}/dev/nvme3n1p2                          partition\t{SWAP_KIB}\t{}\t\t-2\n", self.swapped_kib())
    }

    fn node_meminfo(&self, node: usize) -> String {
        let text = recorded(["sys/devices/system/node/node0/meminfo", "sys/devices/system/node/node1/meminfo"][node]);
        let total = [131_484_584, 132_057_708][node];
        let used = kib(self.used[node]).min(total);
        let file = kib(self.file[node]).min(used);
        with_figures(
            text,
            &[
                ("MemFree", total - used),
                ("MemUsed", used),
                ("FilePages", file),
                ("AnonPages", used - file),
                ("AnonHugePages", (used - file) / 3),
            ],
        )
    }

    fn interrupts(&self) -> String {
        let mut text = String::with_capacity(100_000);
        text.push_str("     ");
        for cpu in 0..CPUS {
            let _ = write!(text, " {:>10}", format!("CPU{cpu}"));
        }
        text.push('\n');
        for (row, counts) in layout::rows().iter().zip(&self.counted.interrupts) {
            let _ = write!(text, "{:>4}:", row.number);
            for cpu in 0..CPUS {
                let count = match cpu {
                    _ if cpu == row.cpu => whole(counts[0]),
                    _ if cpu == row.cpu ^ 1 => whole(counts[1]),
                    _ => 0,
                };
                let _ = write!(text, " {count:>10}");
            }
            let _ = writeln!(text, "  IR-PCI-MSIX-{} {:>4}-edge      {}", row.device, row.vector, row.action);
        }
        per_cpu(&mut text, "LOC", |_| whole(250.0 * self.uptime));
        text
    }

    /// Interrupts of the kind that a CPU took so far.
    fn taken(&self, cpu: u32, kind: fn(&Source) -> bool) -> f64 {
        let rows = layout::rows().iter().zip(&self.counted.interrupts).filter(|(row, _)| kind(&row.source));
        rows.map(|(row, counts)| {
            let here = f64::from(u8::from(row.cpu == cpu));
            let beside = f64::from(u8::from(row.cpu ^ 1 == cpu));
            here * counts[0] + beside * counts[1]
        })
        .sum()
    }

    fn softirqs(&self) -> String {
        let mut text = "            ".to_owned();
        (0..CPUS).for_each(|cpu| text.push_str(&format!(" {:>10}", format!("CPU{cpu}"))));
        text.push('\n');
        let (nic, disk) = (|s: &Source| matches!(s, Source::Nic(_)), |s: &Source| matches!(s, Source::Disk(_)));
        per_cpu(&mut text, "TIMER", |_| whole(90.0 * self.uptime));
        per_cpu(&mut text, "NET_RX", |cpu| whole(0.9 * self.taken(cpu, nic)));
        per_cpu(&mut text, "BLOCK", |cpu| whole(self.taken(cpu, disk)));
        per_cpu(&mut text, "SCHED", |_| whole(110.0 * self.uptime));
        per_cpu(&mut text, "RCU", |_| whole(40.0 * self.uptime));
        text
    }

    fn softnet(&self) -> String {
        let nic = |s: &Source| matches!(s, Source::Nic(_));
        let row = |cpu: u32| {
            // The kernel's own counts are of 32 bits.
            let processed = whole(6.0 * self.taken(cpu, nic)) as u32;
            let squeezed = processed / 50_000;
            format!("{processed:08x} 00000000 {squeezed:08x}{} {cpu:08x} 00000000 00000000\n", " 00000000".repeat(9))
        };
        (0..CPUS).map(row).collect()
    }
}

fn per_cpu(text: &mut String, name: &str, count: impl Fn(u32) -> u64) {
    let _ = write!(text, "{name:>4}:");
    (0..CPUS).for_each(|cpu| text.push_str(&format!(" {:>10}", count(cpu))));
    text.push('\n');
}

fn kib(bytes: f64) -> u64 {
    whole(bytes / 1024.0)
}

/// A file of pressure stall information: some and full, the seconds so far and the share now.
pub(super) fn pressure(totals: [f64; 2], rates: [f64; 2]) -> String {
    let line = |name: &str, total: f64, rate: f64| {
        let percent = 100.0 * rate.min(1.0);
        format!("{name} avg10={percent:.2} avg60={percent:.2} avg300={percent:.2} total={}\n", whole(total * 1e6))
    };
    line("some", totals[0], rates[0]) + &line("full", totals[1], rates[1])
}

fn vmstat(t: &NodeTotals) -> String {
    let figures = [
        ("pgfault", t.faults),
        ("pgmajfault", t.major_faults),
        ("pswpin", t.swapped_in),
        ("pswpout", t.swapped_out),
        ("workingset_refault_file", t.refaults),
        ("allocstall_normal", t.reclaim_stalls),
        ("thp_fault_alloc", t.huge_pages),
        ("thp_fault_fallback", 0.02 * t.huge_pages),
        ("compact_stall", 0.001 * t.huge_pages),
        ("compact_success", 0.000_8 * t.huge_pages),
        ("compact_fail", 0.000_2 * t.huge_pages),
        ("numa_pte_updates", 3.0 * t.hint_faults),
        ("numa_hint_faults", t.hint_faults),
        ("numa_hint_faults_local", 0.9 * t.hint_faults),
        ("numa_pages_migrated", t.migrated),
    ];
    with_figures(recorded("proc/vmstat"), &figures.map(|(key, count)| (key, whole(count))))
}

fn numastat(t: &NodeTotals, node: usize) -> String {
    let hit = whole([0.52, 0.48][node] * t.faults);
    let miss = hit / 2_000;
    let (local, other) = (hit - hit / 200, hit / 200 + miss);
    format!(
        "numa_hit {hit}\nnuma_miss {miss}\nnuma_foreign {miss}\ninterleave_hit 2000\nlocal_node {local}\nother_node {other}\n"
    )
}

fn diskstats(disks: &[DiskTotals]) -> String {
    let row = |(number, d): (usize, &DiskTotals)| {
        let numbers = [
            whole(d.reads),
            0,
            whole(d.read_bytes) / SECTOR,
            whole(d.read_seconds * 1e3),
            whole(d.writes),
            0,
            whole(d.written_bytes) / SECTOR,
            whole(d.write_seconds * 1e3),
            0,
            whole(d.busy * 1e3),
            whole((d.read_seconds + d.write_seconds) * 1e3),
        ];
        let numbers = numbers.map(|n| n.to_string()).join(" ");
        format!(" 259 {number:>7} nvme{number}n1 {numbers} 0 0 0 0 0 0\n")
    };
    disks.iter().enumerate().map(row).collect()
}
