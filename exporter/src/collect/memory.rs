//! `memory`: what the node's memory is used for, and what it takes to get some back.

use std::collections::BTreeMap;

use super::*;
use crate::parse::{keyed, meminfo};
use goodput_catalog::reclaim::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Memory>(
    "memory",
    "What the node's memory is used for, writing back, reclaim and OOM kills; 2 small files.",
    1,
);

/// Reads `/proc/meminfo` and `/proc/vmstat`.
#[derive(Default)]
pub struct Memory;

impl Collector for Memory {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let sizes = context.common.parse(&context.roots.proc.join("meminfo"), |text| {
            meminfo::each(text, |key, bytes| {
                if let Some((row, label)) = meminfo_row(key) {
                    out.push(row, label, bytes as f64);
                }
            })
        });
        all([sizes, vmstat(context, out)])?;
        Ok(Done::Ok)
    }
}

/// A row, and its label's value if it has one.
type Row = (&'static Metric, &'static [&'static str]);

fn meminfo_row(key: &str) -> Option<Row> {
    Some(match key {
        "Cached" => (&MEMORY_CACHED, &[]),
        "Shmem" => (&MEMORY_SHMEM, &[]),
        "AnonPages" => (&MEMORY_ANON, &[]),
        "Dirty" => (&MEMORY_DIRTY, &[]),
        "Writeback" => (&MEMORY_WRITEBACK, &[]),
        "SReclaimable" => (&MEMORY_SLAB, &["reclaimable"]),
        "SUnreclaim" => (&MEMORY_SLAB, &["unreclaimable"]),
        "PageTables" => (&MEMORY_PAGE_TABLES, &[]),
        "Mlocked" => (&MEMORY_MLOCKED, &[]),
        "Unevictable" => (&MEMORY_UNEVICTABLE, &[]),
        "Committed_AS" => (&MEMORY_COMMITTED, &[]),
        "CommitLimit" => (&MEMORY_COMMIT_LIMIT, &[]),
        "HardwareCorrupted" => (&MEMORY_CORRUPTED, &[]),
        _ => return None,
    })
}

fn vmstat(context: &Context, out: &mut Families) -> Result<(), FileError> {
    let page_bytes = procfs::page_size() as f64;
    let mut sums: BTreeMap<&str, (Row, u64)> = BTreeMap::new();
    let (mut pinned, mut unpinned) = (None, None);
    let mut add = |key: &str, count: u64| match key {
        "nr_foll_pin_acquired" => pinned = Some(count),
        "nr_foll_pin_released" => unpinned = Some(count),
        "nr_dirty_threshold" => out.push(&MEMORY_DIRTY_LIMIT, &["throttle"], count as f64 * page_bytes),
        "nr_dirty_background_threshold" => out.push(&MEMORY_DIRTY_LIMIT, &["background"], count as f64 * page_bytes),
        _ => {
            if let Some((name, row)) = vmstat_row(key) {
                let sum = &mut sums.entry(name).or_insert((row, 0)).1;
                *sum = sum.saturating_add(count);
            }
        }
    };
    context.common.parse(&context.roots.proc.join("vmstat"), |text| keyed::each(text, &mut add))?;
    for ((row, label), sum) in sums.into_values() {
        out.push(row, label, sum as f64);
    }
    // The two are read one after the other, so that fewer may seem pinned than let go.
    let pages = pinned.zip(unpinned).map(|(pinned, unpinned)| pinned.saturating_sub(unpinned));
    out.push(&MEMORY_PINNED, &[], pages.map(|pages: u64| pages as f64 * page_bytes));
    Ok(())
}

/// The figure that a line belongs to: the first whose name it has, or begins with. Kernels before 4.13 count reclaim by
/// zone, as in `pgscan_direct_normal`; before 5.9 all refaults are of files, later ones say so.
fn vmstat_row(key: &str) -> Option<(&'static str, Row)> {
    let figures: [(&'static str, Row); 9] = [
        ("pgscan_direct_throttle", (&MEMORY_THROTTLES, &[])),
        ("oom_kill", (&MEMORY_OOM_KILLS, &[])),
        ("pgmajfault", (&MEMORY_MAJOR_FAULTS, &[])),
        ("workingset_refault_anon", (&MEMORY_REFAULTS, &["anon"])),
        ("workingset_refault", (&MEMORY_REFAULTS, &["file"])),
        ("pgscan_direct", (&MEMORY_SCANNED, &["direct"])),
        ("pgscan_kswapd", (&MEMORY_SCANNED, &["kswapd"])),
        ("pgsteal_direct", (&MEMORY_RECLAIMED, &["direct"])),
        ("pgsteal_kswapd", (&MEMORY_RECLAIMED, &["kswapd"])),
    ];
    let part_of = |name: &str| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    figures.into_iter().find(|(name, _)| part_of(name))
}
