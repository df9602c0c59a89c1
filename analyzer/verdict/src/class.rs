//! The classes of the ledger: one row per class, and only here, in a file per group (limits on a job apart).
//!
//! A row is all that is said of a class: reports, pages and dashboards read it, and the tests of this crate hold the
//! tables of README and `docs/` to it. When a rule books time on the class is `goodput-rules`' to say.

pub(crate) mod by_cause;
mod capacity;
mod colour;
mod comms;
mod derate;
mod feeding;
mod gain;
mod group;
mod held;
mod limit;
mod loss;
mod productive;
mod remedy;
mod saving;
mod schema;
mod serving;
mod sharing;
mod start_up;
#[cfg(test)]
mod tests;
mod unexplained;

use serde::{Deserialize, Serialize};

use colour::ink;
pub use gain::{Basis, Gain, Grade};
pub use group::Group;
pub use remedy::Remedy;

/// What is said of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassInfo {
    /// The name in reports, metrics and stored results.
    pub name: &'static str,
    /// The class in a few words, which people read before its name.
    pub title: &'static str,
    /// The group it is summed under.
    pub group: Group,
    /// Version of what books time on it, which is raised when its verdicts change.
    pub version: u32,
    /// The class in one sentence.
    pub meaning: &'static str,
    /// Its colour on a light page, `#rrggbb`: a shade of the hue of its group.
    pub light: &'static str,
    /// Its colour on a dark page, `#rrggbb`.
    pub dark: &'static str,
    /// The letter or digit that stands for it in swatches and bars, beside its colour.
    pub key: &'static str,
    /// What is to be seen after acting.
    pub check: &'static str,
    /// What acting is said to return; `None` where no source gives a figure.
    pub gain: Option<&'static Gain>,
    /// What to do about it, most promising first. Only what is true: the loss is the most that a remedy can return.
    pub remedies: &'static [Remedy],
}

impl ClassInfo {
    /// The colour, `#rrggbb`, of what is written on its colour on a light page.
    #[must_use]
    pub fn light_ink(&self) -> &'static str {
        ink(self.light)
    }

    /// The colour, `#rrggbb`, of what is written on its colour on a dark page.
    #[must_use]
    pub fn dark_ink(&self) -> &'static str {
        ink(self.dark)
    }
}

/// The check of a class that has no signal of its own to look at.
const FALLS: &str = "The time of this class falls in the next report.";

macro_rules! classes {
    ($($variant:ident = $group:ident::$row:ident,)*) => {
        /// Where a GPU-millisecond went. Every GPU-millisecond has exactly one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $(#[doc = concat!("Its row is `", stringify!($row), "` in `class/", stringify!($group), ".rs`.")] $variant,)*
        }

        impl Class {
            /// Every class, in the order in which reports list them.
            pub const ALL: &'static [Class] = &[$(Class::$variant),*];

            /// Its row.
            #[must_use]
            pub const fn info(self) -> &'static ClassInfo {
                match self { $(Class::$variant => &$group::$row),* }
            }

            /// The sum of the versions of all.
            pub(crate) const VERSIONS: u32 = 0 $(+ $group::$row.version)*;
        }
    };
}

classes! {
    Productive = productive::PRODUCTIVE,
    NoData = capacity::NO_DATA,
    Down = capacity::DOWN,
    Maintenance = capacity::MAINTENANCE,
    Unallocated = capacity::UNALLOCATED,
    IdleHeld = held::IDLE_HELD,
    NoDemand = held::NO_DEMAND,
    PartialAllocation = held::PARTIAL_ALLOCATION,
    GangWait = held::GANG_WAIT,
    KeepAlive = held::KEEP_ALIVE,
    StrandedMig = held::STRANDED_MIG,
    ColdStart = start_up::COLD_START,
    DataloaderCpu = feeding::DATALOADER_CPU,
    DataloaderStorage = feeding::DATALOADER_STORAGE,
    IoLimited = limit::IO_LIMITED,
    CpuThrottled = limit::CPU_THROTTLED,
    HostNoise = feeding::HOST_NOISE,
    IrqPlacement = feeding::IRQ_PLACEMENT,
    MemoryPressure = feeding::MEMORY_PRESSURE,
    ThpCompaction = feeding::THP_COMPACTION,
    CrossNuma = feeding::CROSS_NUMA,
    HostToDevice = feeding::HOST_TO_DEVICE,
    LaunchBound = feeding::LAUNCH_BOUND,
    ServingHost = serving::SERVING_HOST,
    FeedingUnsplit = feeding::FEEDING_UNSPLIT,
    CollectiveWait = comms::COLLECTIVE_WAIT,
    Straggler = comms::STRAGGLER,
    NetworkSlow = comms::NETWORK_SLOW,
    Checkpoint = saving::CHECKPOINT,
    ThermalThrottle = derate::THERMAL_THROTTLE,
    PowerThrottle = derate::POWER_THROTTLE,
    ClockLocked = derate::CLOCK_LOCKED,
    PcieDegraded = derate::PCIE_DEGRADED,
    LostWork = loss::LOST_WORK,
    Recompute = loss::RECOMPUTE,
    TimesliceGap = sharing::TIMESLICE_GAP,
    Unexplained = unexplained::UNEXPLAINED,
}

impl Class {
    /// The name in reports, metrics and stored results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The class of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.iter().copied().find(|class| class.name() == name)
    }

    /// The class in a few words, which people read before its name.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.info().title
    }

    /// The group it is summed under.
    #[must_use]
    pub const fn group(self) -> Group {
        self.info().group
    }

    /// Version of what books time on it, which is raised when its verdicts change.
    #[must_use]
    pub const fn version(self) -> u32 {
        self.info().version
    }
}
