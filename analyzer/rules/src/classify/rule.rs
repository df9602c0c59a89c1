//! What a rule is, and what it sees.

use super::loaders::Load;
use super::{Class, Evidence, Node, Thresholds};
use crate::frame::{Elsewhere, GpuFrame, Reading, Tracks};
use crate::signal::{Scope, Signal};
use crate::told::Who;

/// A way to explain time in which a held GPU did not work.
#[derive(Debug)]
pub struct Rule {
    /// What it names as the cause.
    pub class: Class,
    /// Symptoms that this cause brings about: they get only what it leaves.
    pub explains: &'static [Class],
    /// The rule itself: pure, and never called for time without data, not held, or busy.
    pub judge: fn(&Cell<'_>, &Thresholds) -> Verdict,
}

/// What a rule says about a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It cannot tell: these are the signals it lacks.
    Abstain {
        /// Any one of them may be enough.
        missing: Vec<Signal>,
    },
    /// The evidence is against it.
    No,
    /// The evidence is for it.
    Claim {
        /// The most of the cell that it can explain, as a share: 0 to 1.
        max_share: f64,
        /// 0 to 1.
        confidence: f64,
        /// The numbers it rests on.
        facts: Vec<Fact>,
    },
}

impl Verdict {
    /// It cannot tell: it lacks these signals.
    pub(super) fn without(missing: &[Signal]) -> Verdict {
        Verdict::Abstain { missing: missing.to_vec() }
    }

    /// The same, but a claim that rests on what is no number is none: a division by nothing proves nothing.
    #[must_use]
    pub fn sound(self) -> Verdict {
        match self {
            Verdict::Claim { max_share, confidence, facts }
                if !max_share.is_finite() || !confidence.is_finite() || !facts.iter().all(Fact::is_number) =>
            {
                Verdict::No
            }
            sound => sound,
        }
    }
}

/// A number that a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// Name of the signal, or a formula over such names.
    pub signal: &'static str,
    /// Unit of value and threshold.
    pub unit: &'static str,
    /// Its value in the cell.
    pub value: f64,
    /// What it was compared with.
    pub threshold: f64,
}

impl Fact {
    /// The signal's reading against a threshold of the same unit.
    #[must_use]
    pub fn of(signal: Signal, value: f64, threshold: f64) -> Fact {
        Fact { signal: signal.name(), unit: signal.unit(), value, threshold }
    }

    /// Are value and threshold numbers, and not the outcome of a division by nothing?
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.value.is_finite() && self.threshold.is_finite()
    }
}

impl From<Fact> for Evidence {
    fn from(fact: Fact) -> Evidence {
        let (signal, unit) = (fact.signal.to_owned(), fact.unit.to_owned());
        Evidence { signal, value: fact.value, unit, threshold: fact.threshold }
    }
}

/// One GPU in one cell of the grid, as one of its owners had it.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The node.
    pub node: &'a Node,
    /// The GPU, one of the node's.
    pub gpu: &'a GpuFrame,
    /// The owner, where known.
    pub owner: Option<&'a str>,
    /// Which of the node's cells.
    pub index: usize,
    /// What is known of the owner: looked up by name once, for rules read it all the time.
    pub(super) job: Option<&'a Tracks>,
    /// What its loaders did, cell by cell; empty until the node is looked at.
    pub(super) loads: &'a [Load],
}

impl<'a> Cell<'a> {
    /// The cell of this index.
    #[must_use]
    pub fn of(node: &'a Node, gpu: &'a GpuFrame, owner: Option<&'a str>, index: usize) -> Cell<'a> {
        let (job, loads) = owner.map_or((None, None), |owner| (node.jobs.get(owner), node.loads.get(owner)));
        Cell { node, gpu, owner, index, job, loads: loads.map_or(&[], Vec::as_slice) }
    }

    /// The same, as this owner had it.
    pub(super) fn of_owner(&self, owner: Option<&'a str>) -> Cell<'a> {
        Cell::of(self.node, self.gpu, owner, self.index)
    }

    /// How long it is.
    pub(super) fn seconds(&self) -> f64 {
        let span = &self.node.cells[self.index];
        (span.end - span.start) as f64 / 1000.0
    }

    /// The reading of a signal: of the GPU, its node or its owner, as the signal's scope says; `None` is not known.
    #[must_use]
    #[inline]
    pub fn read(&self, signal: Signal) -> Option<&'a Reading> {
        self.tracks(signal)?.read(signal, self.index)
    }

    #[inline]
    fn tracks(&self, signal: Signal) -> Option<&'a Tracks> {
        match signal.scope() {
            Scope::Gpu => Some(&self.gpu.tracks),
            Scope::Node => Some(&self.node.host),
            Scope::Job => self.job,
        }
    }

    /// What the owner's loaders did.
    pub(super) fn load(&self) -> Option<&'a Load> {
        self.loads.get(self.index)
    }

    /// The mean of a reading.
    #[must_use]
    #[inline]
    pub fn mean(&self, signal: Signal) -> Option<f64> {
        self.read(signal).map(|r| r.mean)
    }

    /// The readings of a signal that is one per NUMA node, port, mount or disk.
    pub fn by_part(&self, signal: Signal) -> impl Iterator<Item = (&'a str, &'a Reading)> + use<'a> {
        let (tracks, index) = (self.tracks(signal).into_iter(), self.index);
        tracks.flat_map(move |t| t.split(signal, index))
    }

    /// The means of a signal that is one per NUMA node.
    pub fn by_numa_node(&self, signal: Signal) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
        self.by_part(signal).map(|(node, reading)| (node, reading.mean))
    }

    /// The NUMA node of the GPU's PCI slot.
    #[must_use]
    pub fn numa_node(&self) -> Option<&'a str> {
        self.by_numa_node(Signal::GpuNuma).map(|(node, _)| node).next()
    }

    /// Whose time it is, as jobs tell of it.
    pub(super) fn who(&self) -> Who<'a> {
        Who { cluster: &self.node.cluster, node: &self.node.node, owner: self.owner }
    }

    /// Does the cell's owner hold the cell's GPU? One that is not known holds nothing.
    #[must_use]
    #[inline]
    pub fn is_held_by_owner(&self) -> bool {
        self.owner.is_some_and(|owner| self.gpu.is_held_by(owner, self.index))
    }

    /// What the rest of the owner's run has; nothing where that is not known.
    pub(super) fn elsewhere(&self) -> Elsewhere {
        let of_owner = self.owner.and_then(|owner| self.node.elsewhere.get(owner));
        of_owner.and_then(|cells| cells.get(self.index)).copied().unwrap_or_default()
    }

    /// Are all GPUs of the owner known to hang on the same NUMA node?
    #[must_use]
    pub fn owner_has_one_numa_node(&self) -> bool {
        let all = self.node.gpus.iter().map(|gpu| Cell { gpu, ..*self });
        let home = self.numa_node();
        home.is_some() && all.filter(Cell::is_held_by_owner).all(|cell| cell.numa_node() == home)
    }
}
