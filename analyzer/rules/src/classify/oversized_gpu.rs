//! `oversized_gpu`: for an hour a job has done so little with its only GPU, in so little of its memory, that an instance of
//! it would do.

use super::advisory::Adviser;
use super::depth::HeldGpus;
use super::intervals::Grounds;
use super::thresholds::confidence::INFERRED;
use super::work::work;
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::mig::slices_of_gpu;
use crate::signal::Signal;

/// What starves a GPU is fixed before the GPU is made smaller.
const STARVED: &[Class] = &[
    Class::ColdStart,
    Class::LostWork,
    Class::IdleHeld,
    Class::NoDemand,
    Class::PartialAllocation,
    Class::GangWait,
    Class::KeepAlive,
    Class::CpuThrottled,
    Class::CrossNuma,
    Class::HostNoise,
    Class::IrqPlacement,
    Class::MemoryPressure,
    Class::ThpCompaction,
    Class::DataloaderCpu,
    Class::DataloaderStorage,
    Class::HostToDevice,
    Class::FeedingUnsplit,
    Class::Checkpoint,
    Class::CollectiveWait,
    Class::Straggler,
];

pub(super) const ADVISER: Adviser = Adviser { advice: Advice::OversizedGpu, charged_as: STARVED, judge: advise };

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let little = |cell: &Cell<'_>| Some((work(cell, t)?.ratio, cell.mean(Signal::FbUsed)?));
    // Most GPUs do more than that in any cell, and are not looked at any further.
    little(cell).filter(|(_, used)| *used < t.oversized_memory_bytes)?;
    let is_cut = cell.mean(Signal::MigCapacity).is_some();
    let is_only_one = HeldGpus::around(cell).by_owner == 1 && cell.elsewhere().held == 0;
    slices_of_gpu(cell.gpu.model.as_deref()).filter(|_| is_only_one && !is_cut)?;

    let (mut cells, mut busy, mut most) = (0, 0.0, 0.0_f64);
    for index in cell.node.around(cell.index, t.derate_around_seconds) {
        let at = Cell { index, ..*cell };
        let (ratio, used) = little(&at).filter(|_| at.is_held_by_owner())?;
        (cells, busy, most) = (cells + 1, busy + ratio, most.max(used));
    }
    let busy = busy / f64::from(cells);
    let fits = busy > t.idle_busy_ratio && busy <= t.oversized_busy_ratio && most < t.oversized_memory_bytes;
    let facts = vec![
        Fact { signal: "busy in the hour around", unit: "ratio", value: busy, threshold: t.oversized_busy_ratio },
        Fact { signal: "most fb_used in it", unit: "bytes", value: most, threshold: t.oversized_memory_bytes },
    ];
    fits.then_some(Grounds { confidence: INFERRED, facts, missing: Vec::new() })
}
