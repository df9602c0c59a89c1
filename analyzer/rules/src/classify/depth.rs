//! How deep a busy GPU works: what its kernels do while they are there, compared with what they did around. Kernels
//! that spin until other ranks are there, and gaps between kernels that are too short, keep engine and utilisation at
//! 100 %. Meanwhile almost no multiprocessor or tensor core has work, memory rests and little power is drawn.
//!
//! [`shallow`] compares the GPU with itself under the same owner, and with nothing else: programs differ in depth. What
//! always waits, or waits as much throughout the time looked at, is not seen. [`deeper`] compares ranks of one run, which
//! run the same program, at the same time.

use super::cpu::Holders;
use super::thresholds::confidence::{INFERRED, WEAK};
use super::work::{active, profiled_busy, work};
use super::{Cell, Fact, Thresholds, Verdict, power};
use crate::frame::{Depths, GpuFrame};
use crate::signal::Signal;

/// A busy cell in which the GPU did less than it does around.
#[derive(Debug)]
pub(super) struct Shallow {
    /// Share of its busy time that it would not have needed.
    pub(super) lost: f64,
    /// The same if it went into kernels of a collective that spun: multiprocessors that these may have occupied are
    /// then allowed for, as far as power also shows more.
    pub(super) spun: f64,
    /// CPUs per GPU that were used beyond what the job's loaders need for the batches that were done; `None` is not known.
    pub(super) extra_cores: Option<Cores>,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
}

/// The share of its busy time for which a GPU had kernels that did nothing.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) share: f64,
    pub(super) confidence: f64,
    pub(super) facts: Vec<Fact>,
}

/// CPUs in use per GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    pub(super) per_gpu: f64,
    /// By the job, or by all of a node whose GPUs are all the job's.
    pub(super) signal: Signal,
}

/// A way to see depth: 0 where kernels do nothing, and in proportion to how much of the busy time they do something.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    /// How evidence names it where it is compared with another GPU's.
    against: &'static str,
    unit: &'static str,
    confidence: f64,
    depth: fn(&Cell<'_>, f64, &Thresholds) -> Option<f64>,
    /// The most of it that spinning kernels show.
    spinning: fn(&Thresholds) -> f64,
    /// Do spinning kernels never show in it, so that it tells how much was spun?
    is_exact: bool,
    /// What a program must reach at its usual depth for the measure to say anything of it.
    least: fn(&Thresholds) -> f64,
}

const MEASURES: [Measure; 4] = [
    Measure {
        name: "sm_active / busy",
        against: "sm_active / busy against the GPU waited for",
        unit: "ratio",
        confidence: INFERRED,
        depth: by_multiprocessors,
        spinning: |t| t.spinning_sm_ratio,
        is_exact: false,
        least: |_| 0.0,
    },
    Measure {
        name: "gpu_power above spinning / busy",
        against: "gpu_power above spinning / busy against the GPU waited for",
        unit: "watts",
        confidence: WEAK,
        depth: by_power,
        spinning: |_| 0.0,
        is_exact: false,
        least: |_| 0.0,
    },
    Measure {
        name: "tensor_active / busy",
        against: "tensor_active / busy against the GPU waited for",
        unit: "ratio",
        confidence: INFERRED,
        depth: by_tensor_cores,
        spinning: |_| 0.0,
        is_exact: true,
        least: |t| t.depth_floor_ratio,
    },
    Measure {
        name: "dram_active / busy",
        against: "dram_active / busy against the GPU waited for",
        unit: "ratio",
        confidence: INFERRED,
        depth: by_memory,
        spinning: |t| t.spinning_dram_ratio,
        is_exact: false,
        least: |t| t.depth_floor_ratio,
    },
];

/// At least one of these signals is needed.
pub(super) const SIGNALS: [Signal; 5] =
    [Signal::SmActive, Signal::TensorActive, Signal::DramActive, Signal::GpuEnergy, Signal::GpuPower];

/// How many of the node's GPUs are held in the cell.
pub(super) struct HeldGpus {
    pub(super) by_anyone: u32,
    /// By the owner that the cell is judged for.
    pub(super) by_owner: u32,
}

impl HeldGpus {
    pub(super) fn around(cell: &Cell<'_>) -> HeldGpus {
        let own = |gpu: &GpuFrame| Cell { gpu, ..*cell }.is_held_by_owner();
        let held = cell.node.gpus.iter().filter(|gpu| !gpu.owners[cell.index].is_empty());
        let none = HeldGpus { by_anyone: 0, by_owner: 0 };
        held.fold(none, |held, gpu| HeldGpus {
            by_anyone: held.by_anyone + 1,
            by_owner: held.by_owner + u32::from(own(gpu)),
        })
    }
}

impl Cores {
    /// As evidence.
    pub(super) fn fact(self, threshold: f64) -> Fact {
        let of_node = self.signal == Signal::NodeCpuBusy;
        let signal = if of_node { "node_cpu_busy beyond loaders'" } else { "job_cpu_usage beyond its loaders'" };
        Fact { signal, unit: "cores per GPU", value: self.per_gpu, threshold }
    }
}

fn by_multiprocessors(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Option<f64> {
    Some((active(cell, Signal::SmActive)? / profiled_busy(cell, busy, t)).min(1.0))
}

fn by_tensor_cores(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Option<f64> {
    Some((cell.mean(Signal::TensorActive)? / profiled_busy(cell, busy, t)).min(1.0))
}

fn by_memory(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Option<f64> {
    Some((cell.mean(Signal::DramActive)? / profiled_busy(cell, busy, t)).min(1.0))
}

fn by_power(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Option<f64> {
    let (_, watts) = power::drawn(cell)?;
    let spinning = power::working_watts(cell, busy, t.power_near_idle_ratio)?;
    Some(((watts - spinning) / busy).max(0.0))
}

/// What one measure says of a cell, and the cells that it is compared with.
struct Compared {
    /// Which of [`MEASURES`].
    measure: usize,
    depth: f64,
    usual: f64,
}

/// `None` where the GPU is not busy, nothing measures depth, or it is as deep as it usually is. Where several measures are
/// there they must agree, and the one that tells least is taken.
pub(super) fn shallow(cell: &Cell<'_>, t: &Thresholds) -> Option<Shallow> {
    cell.owner?;
    let mut told = Vec::new();
    for (measure, depth) in work(cell, t)?.depths.into_iter().enumerate() {
        let Some(depth) = depth else { continue };
        match sight(cell, measure, depth, t) {
            Sight::Usual => return None,
            Sight::Untold => {}
            Sight::Shallow => told.push((measure, depth)),
        }
    }
    let told = told.into_iter();
    let compared: Vec<Compared> =
        told.map(|(measure, depth)| compare(cell, measure, depth, t)).collect::<Option<_>>()?;
    let most = compared.iter().map(|c| c.lost_at_most(t)).reduce(f64::min)?;
    let is_one = compared.len() == 1;
    let exactly = compared.iter().find(|c| MEASURES[c.measure].is_exact).map(Compared::lost);
    let least = compared.into_iter().min_by(|a, b| a.lost().total_cmp(&b.lost()))?;
    let lost = least.lost();
    let spun = if is_one { lost } else { most };
    if spun < t.shallow_ratio {
        return None;
    }
    let deep = least.deep(cell, t);
    if is_slowed(cell, &deep, t) {
        return None;
    }
    let extra_cores = extra_cores(cell, &deep, lost, t);
    let Compared { measure, depth, usual } = least;
    let Measure { name, unit, confidence, .. } = MEASURES[measure];
    Some(Shallow {
        lost,
        // Whatever else spinning kernels do, they multiply no matrices.
        spun: exactly.unwrap_or(spun),
        extra_cores,
        confidence,
        facts: vec![Fact { signal: name, unit, value: depth, threshold: usual * (1.0 - t.shallow_ratio) }],
    })
}

/// That few multiprocessors have work while there are kernels: each is too small for the GPU.
pub(super) fn few_multiprocessors(cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
    let (active, engine) = (active(cell, Signal::SmActive)?, cell.mean(Signal::GrEngineActive)?);
    let value = active / engine;
    let fact = Fact { signal: "sm_active / gr_engine_active", unit: "ratio", value, threshold: t.spinning_sm_ratio };
    (fact.is_number() && value <= t.spinning_sm_ratio).then_some(fact)
}

/// How deep a cell is, by each of [`MEASURES`], in which the GPU was busy for this share.
pub(super) fn depths(cell: &Cell<'_>, busy: f64, t: &Thresholds) -> Depths {
    MEASURES.map(|measure| (measure.depth)(cell, busy, t))
}

/// Does a GPU do more while it is busy than another of the same run and model at the same time? The measures that both
/// have must agree.
pub(super) fn deeper(cell: &Cell<'_>, than: &Cell<'_>, t: &Thresholds) -> Verdict {
    if cell.gpu.model.is_none() || cell.gpu.model != than.gpu.model {
        return Verdict::No;
    }
    let with_spinning = |cell: &Cell<'_>, measure: Measure| {
        let share =
            work(cell, t).map(|work| work.ratio.max(work.spun)).filter(|share| *share >= t.derate_busy_ratio)?;
        (measure.depth)(cell, share, t)
    };
    let pairs = MEASURES.into_iter().filter_map(|m| Some((m, with_spinning(cell, m)?, with_spinning(than, m)?)));
    let pairs: Vec<(Measure, f64, f64)> = pairs.collect();
    let Some(confidence) = pairs.iter().map(|(measure, ..)| measure.confidence).reduce(f64::max) else {
        return Verdict::without(&SIGNALS);
    };
    let pairs: Vec<_> = pairs.into_iter().filter(|(measure, own, _)| *own >= (measure.least)(t)).collect();
    if pairs.is_empty() || pairs.iter().any(|(_, own, other)| own - other < t.shallow_ratio * own || *own <= 0.0) {
        return Verdict::No;
    }
    // Boards of a model draw differently while they spin: watts alone prove work only above what any board spins at.
    let by_watts = pairs.iter().all(|(measure, ..)| measure.unit == Signal::GpuPower.unit());
    let works =
        || power::drawn(cell).zip(power::level(cell, t.spinning_power_ratio)).is_some_and(|((_, w), line)| w >= line);
    if by_watts && !works() {
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

impl Compared {
    /// The cells of usual depth, deepest first.
    fn deep<'a>(&self, cell: &Cell<'a>, t: &Thresholds) -> Vec<Cell<'a>> {
        let mut cells: Vec<(f64, Cell<'a>)> = busy_around(cell, self.measure, t).collect();
        cells.retain(|(depth, _)| is_deep(*depth, self.usual, t));
        cells.sort_by(|a, b| b.0.total_cmp(&a.0));
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    fn lost(&self) -> f64 {
        1.0 - self.depth / self.usual
    }

    /// The same if spinning kernels show as much as they may.
    fn lost_at_most(&self, t: &Thresholds) -> f64 {
        let spinning = (MEASURES[self.measure].spinning)(t);
        if self.usual > spinning { ((self.usual - self.depth) / (self.usual - spinning)).min(1.0) } else { self.lost() }
    }
}

/// What a measure says of a cell before anything is sorted to say more.
enum Sight {
    /// The program does not use what is measured.
    Untold,
    /// About as deep as a tenth of the owner's busy cells around. So are most.
    Usual,
    Shallow,
}

fn sight(cell: &Cell<'_>, measure: usize, here: f64, t: &Thresholds) -> Sight {
    let (least, spinning) = ((MEASURES[measure].least)(t), (MEASURES[measure].spinning)(t));
    // The depths from which `lost_at_most` is the ratio or more, worked out once for all cells.
    let kept = 1.0 - t.shallow_ratio;
    let (bar, bar_of_spinning) = ((here - t.shallow_ratio * spinning) / kept, here / kept);
    let is_alike = |(lowest, highest): (f64, f64)| lowest >= least && highest < bar && highest < bar_of_spinning;
    if cell.gpu.extremes.depths[measure].is_some_and(is_alike) && cell.is_held_by_owner() {
        return Sight::Usual;
    }
    let (mut all, mut enough, mut deeper) = (0, 0, 0);
    for (depth, _) in busy_around(cell, measure, t) {
        all += 1;
        enough += usize::from(depth >= least);
        deeper += usize::from(depth >= if depth > spinning { bar } else { bar_of_spinning });
    }
    match all / 10 {
        tenth if enough <= tenth => Sight::Untold,
        tenth if deeper <= tenth => Sight::Usual,
        _ => Sight::Shallow,
    }
}

/// Against the depth that a tenth of the owner's busy cells around reach; these must be several.
fn compare(cell: &Cell<'_>, measure: usize, here: f64, t: &Thresholds) -> Option<Compared> {
    let mut depths: Vec<f64> = busy_around(cell, measure, t).map(|(depth, _)| depth).collect();
    let tenth = depths.len() / 10;
    if depths.is_empty() {
        return None;
    }
    let usual = *depths.select_nth_unstable_by(tenth, |a, b| b.total_cmp(a)).1;
    let deep = depths.iter().filter(|depth| is_deep(**depth, usual, t)).count();
    (usual > 0.0 && deep as f64 >= t.deep_cells).then_some(Compared { measure, depth: here, usual })
}

/// The owner's busy cells around, and how deep they are.
fn busy_around<'a>(cell: &Cell<'a>, measure: usize, t: &Thresholds) -> impl Iterator<Item = (f64, Cell<'a>)> {
    let around = cell.node.around(cell.index, t.derate_around_seconds).map(|index| Cell { index, ..*cell });
    let deep = around.filter_map(move |cell| Some((work(&cell, t)?.depths[measure]?, cell)));
    deep.filter(|(_, cell)| cell.is_held_by_owner())
}

fn is_deep(depth: f64, usual: f64, t: &Thresholds) -> bool {
    depth >= usual * (1.0 - t.shallow_ratio)
}

/// At lower clocks less power is drawn, and no rank waits.
fn is_slowed(cell: &Cell<'_>, deep: &[Cell<'_>], t: &Thresholds) -> bool {
    let usual = mean(deep.iter().map(|cell| cell.mean(Signal::SmClock)));
    let clock = cell.mean(Signal::SmClock);
    clock.zip(usual).is_some_and(|(clock, usual)| clock < usual * t.shallow_clock_ratio)
}

/// Loaders do as much less as the GPU does; what is used beyond that is another thread's. A thread that holds the GPU and is
/// busy whether the GPU works deep or not may launch or spin: it tells nothing.
fn extra_cores(cell: &Cell<'_>, deep: &[Cell<'_>], lost: f64, t: &Thresholds) -> Option<Cores> {
    let here = cores(cell)?;
    let usual = mean(deep.iter().map(|cell| cores(cell).filter(|c| c.signal == here.signal).map(|c| c.per_gpu)))?;
    let holders = |cell: &Cell<'_>| Holders::of(cell).map(|holders| holders.cores);
    let always = holders(cell).zip(mean(deep.iter().map(holders)));
    let always = always.filter(|(here, usual)| here.min(*usual) >= t.launching_cores).unwrap_or_default();
    Some(Cores { per_gpu: here.per_gpu - always.0 - (usual - always.1) * (1.0 - lost), ..here })
}

fn cores(cell: &Cell<'_>) -> Option<Cores> {
    let by_owner = HeldGpus::around(cell).by_owner;
    let (signal, used) = used_cores(cell).filter(|_| by_owner > 0)?;
    Some(Cores { per_gpu: used / f64::from(by_owner), signal })
}

/// CPUs that the job uses, else those that its node uses in addition to its daemons, if no other owner holds a GPU
/// there.
pub(super) fn used_cores(cell: &Cell<'_>) -> Option<(Signal, f64)> {
    let is_alone = || {
        let HeldGpus { by_anyone, by_owner } = HeldGpus::around(cell);
        by_anyone == by_owner
    };
    let of_node = || {
        let used = cell.mean(Signal::NodeCpuBusy).filter(|_| is_alone())?;
        Some((Signal::NodeCpuBusy, used - cell.node.background_cores))
    };
    cell.mean(Signal::JobCpuUsage).map(|used| (Signal::JobCpuUsage, used)).or_else(of_node)
}

/// Of those that are known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
