//! `thp`: transparent huge pages, the compaction they cause, and reserved huge pages.

use std::path::Path;

use super::*;
use crate::parse::{Parsed, choice, keyed, meminfo, number};
use goodput_catalog::memory::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Thp>(
    "thp",
    "Transparent huge pages, compaction and huge page pools; 9 small files, 3 per size of huge page.",
    1,
);

/// Reads `/sys/kernel/mm/{transparent_hugepage,hugepages}`, `/proc/vmstat` and `/proc/meminfo`.
#[derive(Default)]
pub struct Thp;

impl Collector for Thp {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        settings(roots, out);
        pools(&roots.sys.join("kernel/mm/hugepages"), out);
        let counted = context.common.parse(&roots.proc.join("vmstat"), |text| counters(text, out));
        let memory = context.common.parse(&roots.proc.join("meminfo"), meminfo::parse);
        let sized = memory.map(|memory| out.push(&THP_ANON, &[], memory.anon_huge_pages.map(|n| n as f64)));
        all([counted, sized])?;
        Ok(Done::Ok)
    }
}

fn settings(roots: &Roots, out: &mut Families) {
    let folder = roots.sys.join("kernel/mm/transparent_hugepage");
    let active = |file: &str| files::get(&folder.join(file), |text| choice::active(text).map(str::to_owned));
    if let Some(enabled) = active("enabled") {
        let [defrag, shmem] = [active("defrag"), active("shmem_enabled")].map(Option::unwrap_or_default);
        out.push_with(&THP, &[&enabled], &[&defrag, &shmem], 1.0);
    }
    let setting = |file: &str| files::get(&folder.join("khugepaged").join(file), number::<u32>);
    out.push(&KHUGEPAGED_DEFRAG, &[], setting("defrag").map(f64::from));
    out.push(&KHUGEPAGED_SCAN_PAGES, &[], setting("pages_to_scan").map(f64::from));
    out.push(&KHUGEPAGED_SLEEP, &[], setting("scan_sleep_millisecs").map(|ms| f64::from(ms) / 1e3));
    let proactiveness = files::get(&roots.proc.join("sys/vm/compaction_proactiveness"), number::<u32>);
    out.push(&COMPACTION_PROACTIVENESS, &[], proactiveness.map(f64::from));
}

fn counters(text: &str, out: &mut Families) -> Parsed<()> {
    let mut stalls: Option<u64> = None;
    let parsed = keyed::each(text, |key, count| {
        if let Some(metric) = vmstat_row(key) {
            out.push(metric, &[], count as f64);
        } else if key.starts_with("allocstall") {
            stalls = Some(stalls.unwrap_or_default().saturating_add(count));
        }
    });
    out.push(&RECLAIM_STALLS, &[], stalls.map(|n| n as f64));
    parsed
}

fn vmstat_row(key: &str) -> Option<&'static Metric> {
    Some(match key {
        "thp_fault_alloc" => &THP_FAULT_ALLOC,
        "thp_fault_fallback" => &THP_FAULT_FALLBACK,
        "thp_collapse_alloc" => &THP_COLLAPSE_ALLOC,
        "thp_collapse_alloc_failed" => &THP_COLLAPSE_ALLOC_FAILED,
        "thp_split_page" => &THP_SPLIT,
        "compact_stall" => &COMPACTION_STALLS,
        "compact_fail" => &COMPACTION_FAILURES,
        "compact_success" => &COMPACTION_SUCCESSES,
        "compact_daemon_wake" => &COMPACTION_WAKES,
        _ => return None,
    })
}

/// One folder per size of huge page, such as `hugepages-2048kB`.
fn pools(folder: &Path, out: &mut Families) {
    for name in files::names(folder).unwrap_or_default() {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        let Some(kibibytes) = size.strip_suffix("kB").and_then(|n| n.parse::<u64>().ok()) else { continue };
        for (metric, file) in
            [(&HUGETLB_TOTAL, "nr_hugepages"), (&HUGETLB_FREE, "free_hugepages"), (&HUGETLB_RESERVED, "resv_hugepages")]
        {
            let pages = files::get(&folder.join(&name).join(file), number::<u64>);
            out.push(metric, &[size], pages.map(|n| n as f64 * kibibytes as f64 * 1024.0));
        }
    }
}
