//! What is done to the job, and when: the schedules of the live lab.

use super::orders::{Order, Regime, Source};

const MIB: u64 = 1 << 20;
/// The data file.
pub const DATA_BYTES: u64 = 512 * MIB;
/// Device memory that the job holds.
const HELD_BYTES: u64 = 40 << 30;

/// Something that is done at the beginning of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// The job is told.
    Tell(Order),
    /// A quota for the job, in thousandths of a CPU; `None` lifts it.
    Quota(Option<u32>),
    /// The weight of its group against everybody else, as v1 counts it.
    Weight(u32),
    /// The CPUs that the job may use, as the kernel lists them.
    Cpus(&'static str),
    /// The memory that it may use, in bytes.
    Memory(u64),
    /// The rate of its reads from the disk, in bytes per second; `None` lifts it.
    Reads(Option<u64>),
    /// Neighbours outside its group: threads that compute on CPU 1, and threads that read from its disk.
    Neighbours {
        /// Threads that compute.
        spin: usize,
        /// Threads that read.
        read: usize,
    },
    /// So much of a file is swapped to.
    Swap(u64),
}

/// A part of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How long.
    pub seconds: u64,
    /// What is done at its beginning.
    pub acts: &'static [Act],
    /// The class that waiting for batches is lost to.
    pub waiting: &'static str,
    /// Classes that are as good an answer.
    pub also: &'static [&'static str],
}

/// A schedule.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name, and that of the trace.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Its steps, one after another.
    pub steps: &'static [Step],
}

/// A job whose loader is ahead: half a core for batches of 4 MiB, five a second.
pub const BASE: Regime = Regime {
    workers: 2,
    source: Source::Direct,
    data_bytes: DATA_BYTES,
    batch_bytes: 4 << 20,
    piece_bytes: 4 << 20,
    decode_ms: 100,
    train_ms: 200,
};
/// 0.9 cores.
const COSTLY: Regime = Regime { decode_ms: 180, ..BASE };
/// Two cores, if there were as many.
const LATE: Regime = Regime { workers: 3, decode_ms: 400, ..BASE };
/// A worker fewer than it takes: its one core gives half of the batches.
const ALONE: Regime = Regime { workers: 1, decode_ms: 400, ..BASE };
/// A batch of 256 files.
const SMALL_FILES: Regime = Regime { piece_bytes: 16 << 10, ..BASE };
/// 0.4 cores of one.
const ON_ONE: Regime = Regime { decode_ms: 80, ..BASE };
/// Batches by chance from a file that fits into the page cache.
const CACHED: Regime =
    Regime { source: Source::Cached, batch_bytes: 16 << 20, piece_bytes: 4 << 10, decode_ms: 50, ..BASE };
/// Batches by chance from each worker's 128 MiB of memory.
const MEMORY: Regime = Regime { source: Source::Memory, data_bytes: 128 * MIB, ..CACHED };

/// As Kubernetes gives to a pod that requests sixteen CPUs: others of the machine rarely hold it up.
pub const HEAVY: Act = Act::Weight(16 * 1024);
/// The job holds the GPU.
pub const HOLD: Act = Act::Tell(Order::Hold { used_bytes: HELD_BYTES });
const WARM: Act = Act::Tell(Order::Warm);
const PREPARE: Act = Act::Tell(Order::Prepare);
const REST: Act = Act::Tell(Order::Rest);
const SAVE: Act = Act::Tell(Order::Save { bytes: 4096 * MIB });

/// The job works.
pub const fn work(regime: Regime) -> Act {
    Act::Tell(Order::Work(regime))
}

/// Nothing was done to the job: what it waits for all the same is not known, unless it is for others of the machine.
const fn well(seconds: u64, acts: &'static [Act]) -> Step {
    Step { also: &["host_noise"], ..ill(seconds, acts, "unexplained") }
}

const fn ill(seconds: u64, acts: &'static [Act], waiting: &'static str) -> Step {
    Step { seconds, acts, waiting, also: &[] }
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "healthy", shows: "nothing is the matter", steps: &[well(210, &[HEAVY, HOLD, work(BASE)])] },
    Scenario {
        name: "cpu_throttled",
        shows: "a quota of half a core for 0.9",
        steps: &[
            well(80, &[HEAVY, HOLD, work(COSTLY)]),
            ill(130, &[Act::Quota(Some(500))], "cpu_throttled"),
            well(60, &[Act::Quota(None)]),
        ],
    },
    Scenario {
        name: "dataloader_cpu",
        shows: "preparation takes two cores of one that the job may use; then one worker is too few for the CPUs there are",
        steps: &[
            well(80, &[HEAVY, HOLD, work(BASE)]),
            ill(110, &[Act::Cpus("1"), work(LATE)], "dataloader_cpu"),
            well(50, &[Act::Cpus("0-1"), work(BASE)]),
            ill(110, &[work(ALONE)], "dataloader_cpu"),
            well(30, &[work(BASE)]),
        ],
    },
    Scenario {
        name: "dataloader_storage",
        shows: "reads at 8 MiB/s where 20 are needed; then small files from a disk that others keep busy",
        steps: &[
            well(80, &[HEAVY, HOLD, work(BASE)]),
            ill(110, &[Act::Reads(Some(8 * MIB))], "dataloader_storage"),
            well(50, &[Act::Reads(None), work(SMALL_FILES)]),
            ill(110, &[Act::Neighbours { spin: 0, read: 6 }], "dataloader_storage"),
            well(30, &[Act::Neighbours { spin: 0, read: 0 }]),
        ],
    },
    Scenario {
        name: "memory_pressure",
        shows: "data of 512 MiB, read by chance through the page cache, under a memory limit of 160 MiB",
        steps: &[
            well(80, &[HEAVY, WARM, HOLD, work(CACHED)]),
            ill(130, &[Act::Memory(160 * MIB)], "memory_pressure"),
            // What was dropped comes back.
            Step { also: &["dataloader_storage"], ..ill(60, &[Act::Memory(1 << 40)], "memory_pressure") },
        ],
    },
    Scenario {
        name: "memory_swap",
        shows: "256 MiB of anonymous memory, used by chance, under a memory limit of 64 MiB, with a swap file",
        steps: &[
            well(70, &[Act::Swap(1024 * MIB), HEAVY, HOLD, work(MEMORY)]),
            ill(110, &[Act::Memory(64 * MIB)], "memory_pressure"),
            ill(40, &[Act::Memory(1 << 40)], "memory_pressure"),
        ],
    },
    Scenario {
        name: "host_noise",
        shows: "five neighbours outside the job's group compute on its one CPU, of which it needs 0.4",
        steps: &[
            well(80, &[Act::Cpus("1"), HOLD, work(ON_ONE)]),
            ill(130, &[Act::Neighbours { spin: 5, read: 0 }], "host_noise"),
            well(60, &[Act::Neighbours { spin: 0, read: 0 }]),
        ],
    },
    Scenario {
        name: "checkpoint",
        shows: "4 GiB are saved through the page cache and synced while the GPU waits: once as the group's disk is not \
                accounted yet, once as it is, for a limit that no disk reaches",
        steps: &[
            well(80, &[HEAVY, HOLD, work(BASE)]),
            well(70, &[SAVE]),
            well(50, &[Act::Reads(Some(1 << 40))]),
            well(70, &[SAVE]),
        ],
    },
    Scenario {
        name: "cold_start",
        shows: "a free GPU is taken, and works two and a half minutes later",
        steps: &[well(100, &[]), well(150, &[HEAVY, HOLD, PREPARE, WARM]), well(90, &[work(BASE)])],
    },
    Scenario {
        name: "idle_held",
        shows: "a job runs out of work for six and a half minutes, and goes on",
        steps: &[well(80, &[HEAVY, HOLD, work(BASE)]), well(390, &[REST]), well(70, &[work(BASE)])],
    },
];
