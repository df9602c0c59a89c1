//! How deep a busy GPU works: what its kernels do while they are there, against what they did around. Kernels that spin
//! until other ranks are there, and gaps between kernels that are too short, keep engine and utilisation at 100 %, while
//! hardly any multiprocessor has work and little power is drawn.
//!
//! [`shallow`] compares the GPU with itself under the same owner, and with nothing else: programs differ in depth. What
//! always waits, or waits as much throughout the time looked at, is not seen. [`deeper`] compares ranks of one run, which
//! run the same program, at the same time.

use super::busy::busy;
use super::power;
use super::thresholds::confidence::{INFERRED, WEAK};
use super::{Cell, Fact, Thresholds, Verdict};
use crate::signal::Signal;

/// A busy cell in which the GPU did less than it does around.
#[derive(Debug)]
pub(super) struct Shallow {
    /// Share of its busy time that it would not have needed.
    pub(super) lost: f64,
    /// CPUs per GPU that the job used beyond what its loaders need for the batches that were done; `None` is not known.
    pub(super) extra_cores: Option<f64>,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
}

/// A way to see depth: 0 where kernels do nothing, and in proportion to how much of the busy time they do something.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    /// How evidence names it where it is held against another GPU's.
    against: &'static str,
    unit: &'static str,
    confidence: f64,
    depth: fn(&Cell<'_>, f64, &Thresholds) -> Option<f64>,
}

const MEASURES: [Measure; 2] = [
    Measure {
        name: "sm_active / busy",
        against: "sm_active / busy against the GPU waited for",
        unit: "ratio",
        confidence: INFERRED,
        depth: by_multiprocessors,
    },
    Measure {
        name: "gpu_power above spinning / busy",
        against: "gpu_power above spinning / busy against the GPU waited for",
        unit: "watts",
        confidence: WEAK,
        depth: by_power,
    },
];

/// Signals one of which it takes.
pub(super) const SIGNALS: [Signal; 3] = [Signal::SmActive, Signal::GpuEnergy, Signal::GpuPower];

/// How evidence names [`Shallow::extra_cores`].
pub(super) const EXTRA_CORES: &str = "job_cpu_usage beyond its loaders'";

/// Some spinning kernels occupy a few multiprocessors, so that this tells rather too little than too much.
fn by_multiprocessors(cell: &Cell<'_>, busy: f64, _: &Thresholds) -> Option<f64> {
    Some((cell.mean(Signal::SmActive)? / busy).min(1.0))
}

fn by_power(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Option<f64> {
    let (_, watts) = power::drawn(cell)?;
    let spinning = power::working_watts(cell, busy, t.power_near_idle_ratio)?;
    Some(((watts - spinning) / busy).max(0.0))
}

/// What one measure says of a cell, and the cells that it is compared with.
struct Compared<'a> {
    measure: Measure,
    depth: f64,
    usual: f64,
    deep: Vec<Cell<'a>>,
}

/// `None` where the GPU is not busy, nothing measures depth, or it is as deep as it usually is. Where both measures are
/// there they must agree, and the one that tells less is taken.
pub(super) fn shallow(cell: &Cell<'_>, t: &Thresholds) -> Option<Shallow> {
    cell.owner?;
    let compared: Option<Vec<_>> = MEASURES
        .into_iter()
        .filter_map(|measure| Some((measure, depth(cell, measure, t)?)))
        .map(|(measure, depth)| compare(cell, measure, depth, t))
        .collect();
    let least = compared?.into_iter().min_by(|a, b| a.lost().total_cmp(&b.lost()))?;
    if least.lost() < t.shallow_ratio || is_slowed(cell, &least.deep, t) {
        return None;
    }
    let Compared { measure: Measure { name, unit, confidence, .. }, depth, usual, .. } = least;
    Some(Shallow {
        lost: least.lost(),
        extra_cores: extra_cores(cell, &least),
        confidence,
        facts: vec![Fact { signal: name, unit, value: depth, threshold: usual * (1.0 - t.shallow_ratio) }],
    })
}

fn depth(cell: &Cell<'_>, measure: Measure, t: &Thresholds) -> Option<f64> {
    let busy = busy(cell, t).filter(|busy| busy.ratio >= t.derate_busy_ratio)?;
    (measure.depth)(cell, busy.ratio, t)
}

/// Does a GPU do more while it is busy than another of the same run and model at the same time? The measures that both
/// have must agree.
pub(super) fn deeper(cell: &Cell<'_>, than: &Cell<'_>, t: &Thresholds) -> Verdict {
    if cell.gpu.model.is_none() || cell.gpu.model != than.gpu.model {
        return Verdict::No;
    }
    let with_spinning = |cell: &Cell<'_>, measure: Measure| {
        let share =
            busy(cell, t).map(|busy| busy.ratio.max(busy.spun)).filter(|share| *share >= t.derate_busy_ratio)?;
        (measure.depth)(cell, share, t)
    };
    let pairs = MEASURES.into_iter().filter_map(|m| Some((m, with_spinning(cell, m)?, with_spinning(than, m)?)));
    let pairs: Vec<(Measure, f64, f64)> = pairs.collect();
    let Some(confidence) = pairs.iter().map(|(measure, ..)| measure.confidence).reduce(f64::max) else {
        return Verdict::Abstain { missing: SIGNALS.to_vec() };
    };
    if pairs.iter().any(|(_, own, other)| own - other < t.shallow_ratio * own || *own <= 0.0) {
        return Verdict::No;
    }
    let fact = |(Measure { against, unit, .. }, own, other): (Measure, f64, f64)| Fact {
        signal: against,
        unit,
        value: other,
        threshold: own * (1.0 - t.shallow_ratio),
    };
    Verdict::Claim { max_share: 1.0, confidence, facts: pairs.into_iter().map(fact).collect() }
}

impl Compared<'_> {
    fn lost(&self) -> f64 {
        1.0 - self.depth / self.usual
    }
}

/// Against the depth that a tenth of the owner's busy cells around reach; these must be several.
fn compare<'a>(cell: &Cell<'a>, measure: Measure, here: f64, t: &Thresholds) -> Option<Compared<'a>> {
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let mut cells: Vec<(f64, Cell<'a>)> =
        around.filter(Cell::is_held_by_owner).filter_map(|cell| Some((depth(&cell, measure, t)?, cell))).collect();
    cells.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (usual, _) = *cells.get(cells.len() / 10).filter(|(usual, _)| *usual > 0.0)?;
    let deep = cells.into_iter().filter(|(depth, _)| *depth >= usual * (1.0 - t.shallow_ratio)).map(|(_, cell)| cell);
    let deep: Vec<Cell<'a>> = deep.collect();
    (deep.len() as f64 >= t.deep_cells).then_some(Compared { measure, depth: here, usual, deep })
}

/// At lower clocks less power is drawn, and nobody waits.
fn is_slowed(cell: &Cell<'_>, deep: &[Cell<'_>], t: &Thresholds) -> bool {
    let usual = mean(deep.iter().map(|cell| cell.mean(Signal::SmClock)));
    let clock = cell.mean(Signal::SmClock);
    clock.zip(usual).is_some_and(|(clock, usual)| clock < usual * t.shallow_clock_ratio)
}

/// Loaders do as much less as the GPU does; what the job uses beyond that is another thread's.
fn extra_cores(cell: &Cell<'_>, compared: &Compared<'_>) -> Option<f64> {
    let usual = mean(compared.deep.iter().map(cores_per_gpu))?;
    Some(cores_per_gpu(cell)? - usual * (1.0 - compared.lost()))
}

fn cores_per_gpu(cell: &Cell<'_>) -> Option<f64> {
    let gpus = cell.node.gpus.iter().filter(|gpu| Cell { gpu, ..*cell }.is_held_by_owner()).count();
    (gpus > 0).then_some(cell.mean(Signal::JobCpuUsage)? / gpus as f64)
}

/// Of those that are known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
