//! What deserves attention though no GPU-time can be charged to it.

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cause, Evidence};

goodput_catalog::named! {
    /// What an advisory says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Advice {
        /// The GPU's processes, or their memory, are on another NUMA node than the GPU.
        CrossNuma = "cross_numa",
        /// The clock is fixed below the highest that the GPU can do.
        ClockLocked = "clock_locked",
        /// The GPU is at its stock power limit most of the time.
        PowerCapped = "power_capped",
        /// Kernels are busy without the tensor cores.
        TensorUnused = "tensor_unused",
        /// Device memory is what kernels wait for.
        MemoryBound = "memory_bound",
        /// The same at full clocks, which do not make it faster.
        EnergyInefficient = "energy_inefficient",
        /// Multiprocessors have few warps to choose from.
        LowOccupancy = "low_occupancy",
        /// Kernels have work for few multiprocessors, and memory is free for more.
        SmallBatch = "small_batch",
        /// An instance of the GPU would do.
        OversizedGpu = "oversized_gpu",
        /// Requests wait for their server, whose KV cache has room.
        Queueing = "queueing",
        /// Requests wait for room in the KV cache of their server, or lose it.
        KvFull = "kv_full",
        /// Ports of a run show a fault nearly all the time, so that nothing sound is there to compare with.
        NetworkConstant = "network_constant",
        /// Ports of a run show a fault, and its ranks wait little, or how long they wait for it is not known.
        NetworkEvidence = "network_evidence",
        /// The ranks of a run on one node wait long in collectives.
        ExchangeTooLarge = "exchange_too_large",
        /// GPUDirect Storage is open, and what is read goes around it.
        GdsFellBack = "gds_fell_back",
        /// The GPUs of a run are further apart than others that were free when it began.
        ScatteredGpus = "scattered_gpus",
    }
}

/// Consecutive cells of one GPU in which the same is advised. It has no GPU-milliseconds: the ledger does not know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advisory {
    /// The GPU's UUID.
    pub gpu: String,
    /// The cluster of its node; null where its series name none, and in verdicts of earlier releases.
    pub cluster: Option<String>,
    /// Its node.
    pub node: String,
    /// Its model; null where unknown.
    pub model: Option<String>,
    /// Who held it; null where unknown.
    pub owner: Option<String>,
    /// The run that the owner is: its own name, or that of the job whose ranks are owners of their own, as pods are.
    /// Null where the owner is unknown, and in verdicts of earlier releases.
    pub run: Option<String>,
    /// What is advised.
    pub advice: Advice,
    /// Of a network the fault, and the port of `node` that has it; null of other advice, and in verdicts of earlier releases.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// Of `scattered_gpus` the GPUs that were free and are closer together, by node; null of other advice, and in verdicts of
    /// earlier releases.
    #[serde(default)]
    pub free: Option<String>,
    /// Start of the first cell, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// End of the last cell, Unix milliseconds, UTC.
    pub end_ms: TimeMs,
    /// 0 to 1: how sure the rule is.
    pub confidence: f64,
    /// The numbers behind it, averaged over the cells.
    pub evidence: Vec<Evidence>,
}
