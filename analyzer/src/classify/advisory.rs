//! What deserves attention though no GPU-time can be charged to it.

use serde::{Deserialize, Serialize};

use super::cell::{Part, State, owned};
use super::held::Held;
use super::intervals::{Entry, Grounds};
use super::{
    Cell, Class, Evidence, Thresholds, clock_locked, cross_numa, low_occupancy, memory_bound, oversized_gpu,
    power_throttle, small_batch, tensor_unused,
};
use crate::sample::TimeMs;

/// What an advisory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// The GPU's processes, or their memory, are on another NUMA node than the GPU.
    CrossNuma,
    /// The clock is fixed below the highest that the GPU can do.
    ClockLocked,
    /// The GPU is at its stock power limit most of the time.
    PowerCapped,
    /// Kernels are busy without the tensor cores.
    TensorUnused,
    /// Device memory is what kernels wait for.
    MemoryBound,
    /// The same at full clocks, which do not make it faster.
    EnergyInefficient,
    /// Multiprocessors have few warps to choose from.
    LowOccupancy,
    /// Kernels have work for few multiprocessors, and memory is free for more.
    SmallBatch,
    /// An instance of the GPU would do.
    OversizedGpu,
}

impl Advice {
    /// Every advice.
    pub const ALL: &'static [Advice] = &[
        Advice::CrossNuma,
        Advice::ClockLocked,
        Advice::PowerCapped,
        Advice::TensorUnused,
        Advice::MemoryBound,
        Advice::EnergyInefficient,
        Advice::LowOccupancy,
        Advice::SmallBatch,
        Advice::OversizedGpu,
    ];

    /// The name in reports and stored results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Advice::CrossNuma => "cross_numa",
            Advice::ClockLocked => "clock_locked",
            Advice::PowerCapped => "power_capped",
            Advice::TensorUnused => "tensor_unused",
            Advice::MemoryBound => "memory_bound",
            Advice::EnergyInefficient => "energy_inefficient",
            Advice::LowOccupancy => "low_occupancy",
            Advice::SmallBatch => "small_batch",
            Advice::OversizedGpu => "oversized_gpu",
        }
    }
}

/// Consecutive cells of one GPU in which the same is advised. It has no GPU-milliseconds: the ledger does not know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advisory {
    /// The GPU's UUID.
    pub gpu: String,
    /// The cluster of its node, as of [`Interval`](super::Interval).
    pub cluster: Option<String>,
    /// Its node.
    pub node: String,
    /// Its model, where known.
    pub model: Option<String>,
    /// Who held it, where known.
    pub owner: Option<String>,
    /// The run that the owner is, as of [`Interval`](super::Interval).
    pub run: Option<String>,
    /// What is advised.
    pub advice: Advice,
    /// Start of the first cell.
    pub start_ms: TimeMs,
    /// End of the last cell.
    pub end_ms: TimeMs,
    /// 0 to 1.
    pub confidence: f64,
    /// The numbers behind it, averaged over the cells.
    pub evidence: Vec<Evidence>,
}

/// Finds one advice: asked of every cell of a held GPU, whether it works or not.
#[derive(Debug)]
pub(super) struct Adviser {
    pub(super) advice: Advice,
    /// The classes of time that is charged to the same, or comes before it: where there is any, nothing is left to advise.
    pub(super) charged_as: &'static [Class],
    /// `None` where nothing is wrong or nothing is known.
    pub(super) judge: fn(&Cell<'_>, &Thresholds) -> Option<Grounds>,
}

/// Everything that is advised.
pub(super) static ADVISERS: &[Adviser] = &[
    cross_numa::ADVISER,
    clock_locked::ADVISER,
    power_throttle::ADVISER,
    tensor_unused::ADVISER,
    memory_bound::ADVISER,
    memory_bound::AT_FULL_CLOCK,
    low_occupancy::ADVISER,
    small_batch::ADVISER,
    oversized_gpu::ADVISER,
];

/// What must agree for the advice of two neighbouring cells to be one advisory.
pub(super) type Key = (Advice, Option<String>);

/// What is advised in a cell, by owner, weighted with the owner's known milliseconds.
pub(super) fn advise(cell: &Cell<'_>, state: &State, booked: &[(Part, i64)], t: &Thresholds) -> Vec<Entry<Key>> {
    // What is advised is done to the whole GPU.
    if cell.gpu.instance.is_some() || !matches!(state.held, Held::Yes { .. }) {
        return Vec::new();
    }
    let mut advised = Vec::new();
    for (owner, ms) in owned(cell, state, cell.gpu.known_ms[cell.index]).into_iter().filter(|(_, ms)| *ms > 0) {
        let cell = Cell { owner, ..*cell };
        let own = || booked.iter().filter(|(part, _)| part.owner.as_deref() == owner);
        for adviser in ADVISERS {
            let grounds = (adviser.judge)(&cell, t);
            let grounds = grounds.filter(|_| !own().any(|(part, _)| adviser.charged_as.contains(&part.class)));
            advised.extend(grounds.map(|grounds| Entry {
                key: (adviser.advice, owner.map(str::to_owned)),
                grounds,
                ms,
                energy: None,
                variance_ms2: 0,
            }));
        }
    }
    advised
}
