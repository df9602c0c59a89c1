//! `host_to_device`: batches are on their way to the GPU over PCIe, and it has nothing to do meanwhile.

use super::busy::busy;
use super::thresholds::confidence::INFERRED;
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const VERSION: u32 = 2;

pub(super) const RULE: Rule =
    Rule { class: Class::HostToDevice, explains: &[Class::DataloaderCpu, Class::FeedingUnsplit], judge };

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(received) = cell.mean(Signal::PcieReceive) else {
        return Verdict::Abstain { missing: vec![Signal::PcieReceive] };
    };
    let Some(busy) = busy(cell, t) else { return Verdict::No };
    // What is copied may also be copied while kernels run: it explains no more than the rest of the cell.
    let copying = received / t.slow_copy_bytes;
    let idle = 1.0 - busy.ratio.max(busy.spun);
    if copying < t.copying_ratio {
        return Verdict::No;
    }
    let facts = vec![
        Fact::of(Signal::PcieReceive, received, t.copying_ratio * t.slow_copy_bytes),
        Fact { signal: "pcie_receive / slowest copy", unit: "ratio", value: copying, threshold: t.copying_ratio },
    ];
    Verdict::Claim { max_share: copying.min(idle), confidence: INFERRED, facts }
}
