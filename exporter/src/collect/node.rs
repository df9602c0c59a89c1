//! `node`: the few figures of the whole node without which GPU and cgroup figures cannot be read.

use std::collections::BTreeSet;

use super::monotone::Monotone;
use super::*;
use crate::parse::diskstats::{self, Disk};
use crate::parse::{meminfo, stat};
use crate::source::{blocks, hostname};
use goodput_catalog::host::*;

/// Most disks that get series of their own; storage networks can show thousands.
pub(super) const MAX_DISKS: usize = 64;

/// Devices that are no disks, or whose disks beneath them are counted already.
const NOT_DISKS: [&str; 7] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];

/// The row of this collector.
pub(crate) const ENTRY: Entry =
    Entry::new::<Node>("node", "Names, CPU time, memory and disks of the node; 5 small files.", 1);

/// Reads `/proc/stat`, `/proc/meminfo` and `/proc/diskstats`.
#[derive(Default)]
pub struct Node {
    ticks: Monotone<{ stat::TICKS_PER_SECOND as u64 }, usize, usize>,
}

impl Collector for Node {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        info(context, out);
        // Three files that have nothing to do with each other.
        all([self.cpu(context, out), memory(context, out), disks(context, out)])?;
        Ok(Done::Ok)
    }
}

impl Node {
    fn cpu(&mut self, context: &Context, out: &mut Families) -> Result<(), FileError> {
        let stat = context.common.parse(&context.roots.proc.join("stat"), stat::parse)?;
        out.push(&NODE_BOOT_TIME, &[], stat.boot_time.map(|n| n as f64));
        out.push(&NODE_CPUS, &[], (stat.cpus > 0).then_some(stat.cpus as f64));
        for (mode, ticks) in stat.ticks.iter().enumerate() {
            self.ticks.add(mode, mode, *ticks);
        }
        // Without the line there is nothing new, and nothing old is told as new.
        for (mode, ticks) in self.ticks.sums().take(stat.ticks.len()) {
            let Some(mode) = stat::MODES.get(*mode) else { continue };
            out.push(&NODE_CPU_SECONDS, &[mode], ticks as f64 / stat::TICKS_PER_SECOND);
        }
        Ok(())
    }
}

fn info(context: &Context, out: &mut Families) {
    let kernel = context.roots.proc.join("sys/kernel");
    let release = files::get(&kernel.join("osrelease"), |text| Ok(text.trim().to_owned())).unwrap_or_default();
    let nodename = hostname::read(&context.roots).unwrap_or_else(|| context.hostname.to_string());
    out.push_with(&NODE_INFO, &[&nodename, &context.hostname], &[&release], 1.0);
}

fn memory(context: &Context, out: &mut Families) -> Result<(), FileError> {
    let memory = context.common.parse(&context.roots.proc.join("meminfo"), meminfo::parse)?;
    out.push(&NODE_MEMORY_TOTAL, &[], memory.total.map(|n| n as f64));
    out.push(&NODE_MEMORY_AVAILABLE, &[], memory.available.map(|n| n as f64));
    Ok(())
}

/// `/proc/diskstats` mixes disks and partitions; `/sys/block` has only the former.
fn disks(context: &Context, out: &mut Families) -> Result<(), FileError> {
    let Some(whole) = blocks::whole(&context.roots) else { return Ok(()) };
    let whole: BTreeSet<&str> = whole.iter().map(String::as_str).filter(|name| is_disk(name)).collect();
    context.common.parse(&context.roots.proc.join("diskstats"), |text| {
        diskstats::parse(text).map(|all| {
            let disks: Vec<Disk<'_>> = all.into_iter().filter(|disk| whole.contains(disk.name)).collect();
            out.push(&NODE_DISKS, &[], disks.len() as f64);
            disks.iter().take(MAX_DISKS).for_each(|disk| push_disk(disk, out));
        })
    })
}

/// Is this a disk itself, and not one of its parts or something made of disks?
pub(super) fn is_disk(name: &str) -> bool {
    !NOT_DISKS.iter().any(|prefix| name.starts_with(prefix))
}

fn push_disk(disk: &Disk<'_>, out: &mut Families) {
    let device = &[disk.name];
    out.push(&DISK_READ_BYTES, device, disk.read_bytes as f64);
    out.push(&DISK_WRITTEN_BYTES, device, disk.written_bytes as f64);
    out.push(&DISK_READS, device, disk.reads as f64);
    out.push(&DISK_WRITES, device, disk.writes as f64);
    out.push(&DISK_READ_TIME, device, disk.read_time.as_secs_f64());
    out.push(&DISK_WRITE_TIME, device, disk.write_time.as_secs_f64());
    out.push(&DISK_IO_TIME, device, disk.io_time.as_secs_f64());
}
