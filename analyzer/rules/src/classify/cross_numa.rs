//! `cross_numa`: the GPU's processes, or their memory, are on another NUMA node than its PCI slot.
//!
//! Being there is an advisory. GPU-time is claimed only where other GPUs of the same owner, whose processes are on their
//! own nodes, work more at the same time: the difference to their median bounds what the placement can have cost.
//!
//! A socket may be divided into several NUMA nodes (Intel's sub-NUMA clustering, AMD's nodes per socket), and a process that
//! is bound to the socket is on the GPU's node in part. It is compared with all the same, where it has no more CPUs than the
//! process that is elsewhere: what it does better is not for want of them.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::thresholds::confidence::{COUNTED, INFERRED};
use super::{Advice, Cell, Class, Fact, Rule, Thresholds, Verdict, busy};
use crate::median::upper_median;
use crate::signal::{LADDER, Signal};

pub(super) const RULE: Rule = Rule {
    class: Class::CrossNuma,
    explains: &[Class::DataloaderCpu, Class::FeedingUnsplit, Class::ServingHost],
    judge,
};
pub(super) const ADVISER: Adviser =
    Adviser { advice: Advice::CrossNuma, charged_as: &[Class::CrossNuma], judge: advise };

/// What it takes to tell.
const SIGNALS: [Signal; 4] =
    [Signal::GpuNuma, Signal::GpuAllowedCpus, Signal::JobNumaAllowedCpus, Signal::JobNumaMemory];

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let Some(place) = Place::of(cell) else { return Verdict::without(&SIGNALS) };
    let mut facts = place.off_node(t);
    facts.extend(place.moved(cell, t));
    if facts.is_empty() {
        return Verdict::No;
    }
    let Some(own) = busy::busy(cell, t) else { return Verdict::without(&LADDER) };
    let others = cell.node.gpus.iter().filter(|gpu| gpu.uuid != cell.gpu.uuid && gpu.model == cell.gpu.model);
    let comparable = others.map(|gpu| Cell { gpu, ..*cell }).filter(|c| c.is_held_by_owner());
    let on_node = comparable.filter(|c| Place::of(c).is_some_and(|p| p.is_nearer(&place, t)));
    let working = on_node.filter_map(|c| busy::busy(&c, t)).map(|b| b.ratio).filter(|b| *b >= t.sustained_busy_ratio);
    // Of two that are on their nodes, the better; the best of many is ahead by chance.
    let behind = upper_median(working.collect()).unwrap_or(0.0) - own.ratio;
    if behind < t.cross_numa_behind_ratio {
        return Verdict::No;
    }
    let signal = "busy of the owner's on-node GPUs - busy";
    facts.push(Fact { signal, unit: "ratio", value: behind, threshold: t.cross_numa_behind_ratio });
    Verdict::Claim { max_share: behind, confidence: INFERRED, facts }
}

fn advise(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let facts = Place::of(cell)?.off_node(t);
    (!facts.is_empty()).then_some(Grounds { confidence: COUNTED, facts, missing: Vec::new() })
}

/// Does the NUMA node have CPUs? Those of memory alone, as the GPU's own on GH200, GB200 and POWER9 or a CXL expander, are
/// as near as the CPUs that they hang on, and no process can be elsewhere for them. Nodes with CPUs have a series of their
/// CPU time, or of the CPUs that a GPU's processes or a job may use there. Without any of these, all have CPUs.
fn has_cpus(cell: &Cell<'_>, node: &str) -> bool {
    let mut timed = cell.by_numa_node(Signal::NodeIrqTime).map(|(node, _)| node).peekable();
    let is_timed = timed.peek().is_some();
    if timed.any(|known| known == node) {
        return true;
    }
    let gpus = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell });
    let of_gpus = gpus.flat_map(|cell| cell.by_numa_node(Signal::GpuAllowedCpus));
    let (mut is_told, mut is_named) = (false, false);
    for (known, cpus) in of_gpus.chain(cell.by_numa_node(Signal::JobNumaAllowedCpus)) {
        is_told = true;
        is_named |= known == node;
        if known == node && cpus > 0.0 {
            return true;
        }
    }
    !is_timed && (!is_told || is_named)
}

/// Where the GPU's processes may run and where their memory is, as shares on the GPU's own NUMA node.
struct Place {
    cpus: Option<Fact>,
    memory: Option<Fact>,
    /// The CPUs that the GPU's own processes may use.
    count: Option<f64>,
}

impl Place {
    /// `None` where the GPU's node is not known, or nothing of its processes is.
    fn of(cell: &Cell<'_>) -> Option<Place> {
        let home = cell.numa_node()?;
        let share = |signal, name| {
            let reachable = cell.by_numa_node(signal).filter(|(node, _)| *node == home || has_cpus(cell, node));
            let (on, off) = reachable.fold((0.0, 0.0), |(on, off), (node, value)| match node == home {
                true => (on + value, off),
                false => (on, off + value),
            });
            let value = on / (on + off);
            (on + off > 0.0).then_some(Fact { signal: name, unit: "ratio", value, threshold: 0.0 })
        };
        let of_gpu = share(Signal::GpuAllowedCpus, "gpu_allowed_cpus on its NUMA node / all");
        // What is known of the owner as a whole speaks for one GPU only if all of the owner's GPUs share a node.
        let of_owner = |signal, name| share(signal, name).filter(|_| cell.owner_has_one_numa_node());
        let place = Place {
            cpus: of_gpu
                .or_else(|| of_owner(Signal::JobNumaAllowedCpus, "job_numa_allowed_cpus on the GPU's NUMA node / all")),
            memory: of_owner(Signal::JobNumaMemory, "job_numa_memory on the GPU's NUMA node / all"),
            count: cell.by_numa_node(Signal::GpuAllowedCpus).map(|(_, cpus)| cpus).reduce(|a, b| a + b),
        };
        (place.cpus.is_some() || place.memory.is_some()).then_some(place)
    }

    /// The facts that say that it is elsewhere; empty where nothing does.
    fn off_node(&self, t: &Thresholds) -> Vec<Fact> {
        let below =
            |fact: Option<Fact>, threshold| fact.filter(|f| f.value < threshold).map(|f| Fact { threshold, ..f });
        let cpus = below(self.cpus, t.cross_numa_cpus_ratio);
        let memory = below(self.memory, t.cross_numa_memory_ratio);
        cpus.into_iter().chain(memory).collect()
    }

    /// The fact that its processes were there for a part of the cell: of the cells before and after it one is off its node,
    /// the other one [nearer](Self::is_nearer), and this one lies between them.
    fn moved(&self, cell: &Cell<'_>, t: &Thresholds) -> Option<Fact> {
        let own = self.cpus.filter(|f| f.value >= t.cross_numa_cpus_ratio)?;
        let least = own.value + t.cross_numa_cpus_ratio;
        if least > 1.0 {
            return None;
        }
        let beside = |index: usize| (index < cell.node.cells.len()).then(|| Place::of(&Cell { index, ..*cell }))?;
        let (before, after) = (beside(cell.index.checked_sub(1)?)?, beside(cell.index + 1)?);
        let is_off = |place: &Place| !place.off_node(t).is_empty();
        let is_on = |on: &Place, off: &Place| on.is_nearer(off, t) && on.cpus.is_some_and(|f| f.value >= least);
        let moved = is_off(&before) && is_on(&after, &before) || is_on(&before, &after) && is_off(&after);
        moved.then_some(Fact { threshold: least, ..own })
    }

    /// Do its processes run on the GPU's node and nowhere else?
    fn is_on_node(&self, t: &Thresholds) -> bool {
        let on = self.cpus.is_some_and(|f| f.value > 1.0 - t.cross_numa_cpus_ratio);
        on && self.memory.is_none_or(|f| f.value >= t.cross_numa_memory_ratio)
    }

    /// Do its processes run on the GPU's node and nowhere else, or there in part, with no more CPUs than the other's have?
    fn is_nearer(&self, than: &Place, t: &Thresholds) -> bool {
        let is_partly_on = self.cpus.is_some_and(|f| f.value >= t.cross_numa_cpus_ratio) && self.off_node(t).is_empty();
        let has_no_more = self.count.zip(than.count).is_some_and(|(own, other)| own <= other);
        self.is_on_node(t) || is_partly_on && has_no_more
    }
}
