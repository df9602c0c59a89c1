//! `swap`: pages moved to and from swap, what there is of it, and zswap in front of it.

use super::*;
use crate::parse::{Parsed, choice, keyed, meminfo, number, swaps};
use goodput_catalog::memory::*;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Swap>("swap", "Swapping, swap devices and zswap; 5 small files.", 1);

/// Reads `/proc/vmstat`, `/proc/meminfo`, `/proc/swaps` and two settings.
#[derive(Default)]
pub struct Swap;

impl Collector for Swap {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let swaps = files::parse_optional(&roots.proc.join("swaps"), |text| devices(text, out));
        if matches!(swaps, Ok(None)) {
            return Ok(Done::NotApplicable("no /proc/swaps: kernel without CONFIG_SWAP".to_owned()));
        }
        files::found(swaps);
        settings(roots, out);
        all([traffic(context, out), sizes(context, out)])?;
        Ok(Done::Ok)
    }
}

fn traffic(context: &Context, out: &mut Families) -> Result<(), FileError> {
    context.common.parse(&context.roots.proc.join("vmstat"), |text| {
        keyed::each(text, |key, pages| {
            if let Some(metric) = vmstat_row(key) {
                out.push(metric, &[], pages as f64 * procfs::page_size() as f64);
            }
        })
    })
}

fn vmstat_row(key: &str) -> Option<&'static Metric> {
    Some(match key {
        "pswpin" => &SWAP_IN,
        "pswpout" => &SWAP_OUT,
        "zswpin" => &ZSWAP_IN,
        "zswpout" => &ZSWAP_OUT,
        _ => return None,
    })
}

fn devices(text: &str, out: &mut Families) -> Parsed<()> {
    swaps::parse(text).map(|swaps| {
        for swap in swaps {
            out.push(&SWAP_DEVICE_SIZE, &[swap.path, swap.kind], swap.size as f64);
            out.push(&SWAP_DEVICE_USED, &[swap.path, swap.kind], swap.used as f64);
        }
    })
}

fn sizes(context: &Context, out: &mut Families) -> Result<(), FileError> {
    let memory = context.common.parse(&context.roots.proc.join("meminfo"), meminfo::parse)?;
    for (metric, bytes) in [
        (&SWAP_TOTAL, memory.swap_total),
        (&SWAP_FREE, memory.swap_free),
        (&ZSWAP_POOL, memory.zswap),
        (&ZSWAP_STORED, memory.zswapped),
    ] {
        out.push(metric, &[], bytes.map(|n| n as f64));
    }
    Ok(())
}

fn settings(roots: &Roots, out: &mut Families) {
    let swappiness = files::get(&roots.proc.join("sys/vm/swappiness"), number::<u32>);
    out.push(&SWAPPINESS, &[], swappiness.map(f64::from));
    let zswap = files::get(&roots.sys.join("module/zswap/parameters/enabled"), choice::switch);
    out.push(&ZSWAP_ENABLED, &[], zswap.map(|on| f64::from(u8::from(on))));
}
