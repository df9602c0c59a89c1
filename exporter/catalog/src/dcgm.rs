//! DCGM's fields: what dcgm-exporter shows of a GPU, in both of its spellings.
//!
//! A field is one row: its number in DCGM, its name, unit and help in each generation, and how it is read. Names, kinds,
//! units and labels are the interface that dashboards and alerts of dcgm-exporter's users rest on.
//!
//! *Legacy* is dcgm-exporter up to 4.8, *current* is 4.9 with DCGM 4.7, which renamed most fields and moved many to base
//! units. Where the current spelling is not known for certain, the field keeps its legacy one there.

mod absent;
mod entry;
mod links;
mod range;
mod rows;

use std::collections::BTreeSet;

use super::{HOST_LABEL, Kind, Metric, Unit};

pub use absent::{ABSENT, Absent};
pub use links::*;
pub use rows::*;

/// Ids from here on are dcgm-exporter's own metrics, which DCGM does not number.
pub const FIRST_MADE: u16 = 9000;

/// How many labels every series begins with.
pub const LABELS: usize = 6;

/// A field of DCGM, or one of the metrics that dcgm-exporter makes itself.
#[derive(Debug)]
pub struct Row {
    /// DCGM's field id, or one from [`FIRST_MADE`] on.
    pub id: u16,
    /// Name, unit and labels up to dcgm-exporter 4.8.
    pub legacy: Metric,
    /// Name, unit and labels since dcgm-exporter 4.9; the same name where it is not known to have changed.
    pub current: Metric,
    /// How it is read.
    pub read: Read,
    /// The unit in which it is read and kept.
    pub unit: Unit,
    /// Is it served unless a selection says otherwise?
    pub default: bool,
}

/// How a value is had. Fields that are read in the same way share one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// One entry, or several to be summed, of `nvmlDeviceGetFieldValues`.
    Field(Field),
    /// GPM metric of that id, from two samples.
    Gpm(u32),
    /// A call that NVML has for it.
    Call(Call),
    /// Growth per second of the payload counters of NVLink, both directions.
    NvlinkRate(Scope),
    /// A text, which is no metric but a label of all others.
    Text(Text),
    /// Not read at all: counted from events and readings.
    Event(Event),
}

/// A field id of NVML, as in nvml.h of driver 580.82 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// The id.
    pub id: u32,
    /// Which links.
    pub scope: Scope,
}

/// What an NVML field is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The GPU.
    Gpu,
    /// All its NVLinks, summed by the driver.
    AllLinks,
    /// One NVLink.
    Link(u32),
    /// All its NVLinks, read one by one and summed here: the driver has no sum of these.
    EachLink,
}

/// What is counted rather than read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the row says what each is")]
pub enum Event {
    Xid,
    XidWindow,
    XidTotal,
    ClockWindow,
    ClockTotal,
    Health,
    PeerToPeer,
}

/// Names the ways of reading, each with the call of NVML behind it.
macro_rules! sources {
    ($(#[doc = $doc:literal])* $enum:ident { $($name:ident = $source:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the source says it")]
        pub enum $enum { $($name,)* }

        impl $enum {
            /// The call of NVML that it is read with.
            #[must_use]
            pub const fn source(self) -> &'static str {
                match self { $($enum::$name => $source,)* }
            }
        }
    };
}

sources! {
    /// A number that NVML has a call for, or that is made of such.
    Call {
        SmClock = "nvmlDeviceGetClockInfo SM",
        MemoryClock = "nvmlDeviceGetClockInfo MEM",
        VideoClock = "nvmlDeviceGetClockInfo VIDEO",
        SmApplicationClock = "nvmlDeviceGetApplicationsClock SM",
        MemoryApplicationClock = "nvmlDeviceGetApplicationsClock MEM",
        SmClockMax = "nvmlDeviceGetMaxClockInfo SM",
        MemoryClockMax = "nvmlDeviceGetMaxClockInfo MEM",
        VideoClockMax = "nvmlDeviceGetMaxClockInfo VIDEO",
        ClockEventReasons = "nvmlDeviceGetCurrentClocksEventReasons",
        Temperature = "nvmlDeviceGetTemperature",
        MemoryTemperature = "NVML field 82, where it is not 0",
        TemperatureMargin = "nvmlDeviceGetMarginTemperature",
        TemperatureMax = "nvmlDeviceGetTemperatureThreshold GPU_MAX",
        MemoryTemperatureMax = "nvmlDeviceGetTemperatureThreshold MEM_MAX",
        TemperatureSlowdown = "nvmlDeviceGetTemperatureThreshold SLOWDOWN",
        TemperatureShutdown = "nvmlDeviceGetTemperatureThreshold SHUTDOWN",
        Power = "NVML field 185, else 186, else nvmlDeviceGetPowerUsage",
        PowerUsage = "nvmlDeviceGetPowerUsage",
        PerformanceState = "nvmlDeviceGetPerformanceState",
        FanSpeed = "nvmlDeviceGetFanSpeed_v2",
        PcieGeneration = "nvmlDeviceGetCurrPcieLinkGeneration",
        PcieWidth = "nvmlDeviceGetCurrPcieLinkWidth",
        PcieGenerationMax = "nvmlDeviceGetMaxPcieLinkGeneration",
        PcieWidthMax = "nvmlDeviceGetMaxPcieLinkWidth",
        GpuUtilization = "nvmlDeviceGetUtilizationRates",
        MemoryUtilization = "nvmlDeviceGetUtilizationRates",
        EncoderUtilization = "nvmlDeviceGetEncoderUtilization",
        DecoderUtilization = "nvmlDeviceGetDecoderUtilization",
        MemoryTotal = "nvmlDeviceGetMemoryInfo_v2",
        MemoryFree = "nvmlDeviceGetMemoryInfo_v2",
        MemoryUsed = "nvmlDeviceGetMemoryInfo_v2",
        MemoryReserved = "nvmlDeviceGetMemoryInfo_v2",
        MemoryUsedShare = "nvmlDeviceGetMemoryInfo_v2",
        Bar1Total = "nvmlDeviceGetBAR1MemoryInfo",
        Bar1Used = "nvmlDeviceGetBAR1MemoryInfo",
        Bar1Free = "nvmlDeviceGetBAR1MemoryInfo",
        RemapMax = "nvmlDeviceGetRowRemapperHistogram",
        RemapHigh = "nvmlDeviceGetRowRemapperHistogram",
        RemapPartial = "nvmlDeviceGetRowRemapperHistogram",
        RemapLow = "nvmlDeviceGetRowRemapperHistogram",
        RemapNone = "nvmlDeviceGetRowRemapperHistogram",
        FabricStatus = "nvmlDeviceGetGpuFabricInfoV",
        FabricError = "nvmlDeviceGetGpuFabricInfoV",
        FabricClique = "nvmlDeviceGetGpuFabricInfoV",
        FabricHealthMask = "nvmlDeviceGetGpuFabricInfoV",
        FabricHealthSummary = "nvmlDeviceGetGpuFabricInfoV",
        VgpuLicense = "nvmlDeviceGetGridLicensableFeatures_v4, in a vGPU guest",
    }
}

sources! {
    /// A text about the GPU or its driver.
    Text {
        DriverVersion = "nvmlSystemGetDriverVersion",
        NvmlVersion = "nvmlSystemGetNVMLVersion",
        Brand = "nvmlDeviceGetBrand",
        Serial = "nvmlDeviceGetSerial",
        OemInforom = "nvmlDeviceGetInforomVersion OEM",
        EccInforom = "nvmlDeviceGetInforomVersion ECC",
        PowerInforom = "nvmlDeviceGetInforomVersion POWER",
        InforomImage = "nvmlDeviceGetInforomImageVersion",
        Vbios = "nvmlDeviceGetVbiosVersion",
    }
}

/// `--dcgm.names`: which spelling of dcgm-exporter's names is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// `legacy`
    #[default]
    Legacy,
    /// `current`
    Current,
    /// `both`
    Both,
}

impl Names {
    /// Every spelling, as the flag names it, and what it is.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Legacy, "legacy", "As dcgm-exporter up to 4.8 spells them"),
        (Self::Current, "current", "As dcgm-exporter 4.9 spells them, in its units"),
        (Self::Both, "both", "Both; what has one name in both is served once, with the legacy labels"),
    ];
}

/// Which fields are read and served, by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<u16>);

/// What dcgm-exporter serves by default, and what this exporter always has beyond that.
impl Default for Selection {
    fn default() -> Self {
        Self::new(ROWS.iter().filter(|row| row.default).map(|row| row.id))
    }
}

impl Selection {
    /// Exactly these fields.
    #[must_use]
    pub fn new(ids: impl IntoIterator<Item = u16>) -> Self {
        Self(ids.into_iter().collect())
    }

    /// Is the field among them?
    #[must_use]
    pub fn has(&self, row: &Row) -> bool {
        self.0.contains(&row.id)
    }

    /// The rows, in the order of the catalog.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        ROWS.iter().copied().filter(|row| self.has(row))
    }
}

impl Row {
    /// Is it a label of all other fields instead of a metric?
    #[must_use]
    pub fn is_label(&self) -> bool {
        matches!(self.read, Read::Text(_))
    }

    /// Does the current generation spell it differently?
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.legacy.name != self.current.name
    }

    /// What is written of the field: one metric, or both where both spellings are asked for and differ.
    pub fn spelled(&'static self, names: Names) -> impl Iterator<Item = &'static Metric> {
        let legacy = (names != Names::Current).then_some(&self.legacy);
        let current = (names == Names::Current || (names == Names::Both && self.is_renamed())).then_some(&self.current);
        legacy.into_iter().chain(current)
    }
}

/// What [`GPU_HEALTH_STATUS`] is judged by.
pub static HEALTH: [&Row; 16] = [
    &PCIE_REPLAY,
    &PCIE_LINK_GEN,
    &PCIE_LINK_WIDTH,
    &ECC_DBE_VOL,
    &RETIRED_SBE,
    &RETIRED_DBE,
    &RETIRED_PENDING,
    &UNCORRECTABLE_REMAPPED_ROWS,
    &ROW_REMAP_FAILURE,
    &NVLINK_CRC_FLIT,
    &NVLINK_CRC_DATA,
    &NVLINK_REPLAY,
    &NVLINK_RECOVERY,
    &POWER_USAGE,
    &POWER_VIOLATION,
    &THERMAL_VIOLATION,
];

/// Further spellings that configurations of dcgm-exporter have: names before the legacy generation, and names that only
/// one release between the two had.
const ALIASES: &[(&str, u16)] = &[
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 112),
    ("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", 449),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS", 1421),
];

/// The field of that name, in either generation's spelling.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Row> {
    let alias = || ALIASES.iter().find(|(alias, _)| *alias == name).and_then(|(_, id)| by_id(*id));
    ROWS.iter().copied().find(|row| row.legacy.name == name || row.current.name == name).or_else(alias)
}

/// The field of that id.
#[must_use]
pub fn by_id(id: u16) -> Option<&'static Row> {
    ROWS.iter().copied().find(|row| row.id == id)
}

/// Every metric of the rows: the legacy ones, and the current ones that are spelled differently.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    ROWS.iter().copied().filter(|row| !row.is_label()).flat_map(|row| row.spelled(Names::Both))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_name_finds_its_row() {
        let ids: BTreeSet<_> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), ROWS.len());
        for row in ROWS {
            for name in [row.legacy.name, row.current.name] {
                assert_eq!(by_name(name).map(|found| found.id), Some(row.id), "{name}");
            }
        }
        for (alias, id) in ALIASES {
            assert_eq!(by_name(alias).map(|found| found.id), Some(*id), "{alias}");
        }
        assert!(by_name("DCGM_FI_DEV_NO_SUCH_FIELD").is_none());
    }

    #[test]
    fn every_unit_of_a_row_can_be_had_from_the_one_it_is_read_in() {
        for row in ROWS {
            for metric in [&row.legacy, &row.current] {
                assert!(row.unit.convert(1.0, metric.unit).is_some(), "{}: {:?}", metric.name, row.unit);
            }
        }
    }

    #[test]
    fn nothing_is_both_served_and_absent() {
        for row in ROWS {
            assert!(ABSENT.iter().all(|absent| !absent.has(row.id)), "{}", row.legacy.name);
        }
    }

    #[test]
    fn both_spellings_never_write_one_name_twice() {
        for row in ROWS {
            let names: Vec<_> = row.spelled(Names::Both).map(|metric| metric.name).collect();
            assert_eq!(names.len(), 1 + usize::from(row.is_renamed()), "{names:?}");
            assert_eq!(row.spelled(Names::Legacy).map(|m| m.name).collect::<Vec<_>>(), [row.legacy.name]);
            assert_eq!(row.spelled(Names::Current).map(|m| m.name).collect::<Vec<_>>(), [row.current.name]);
        }
    }

    #[test]
    fn the_default_selection_fits_the_budget_in_both_spellings() {
        let selection = Selection::default();
        let series = selection.rows().filter(|row| !row.is_label()).flat_map(|row| row.spelled(Names::Both));
        // 250 series per GPU, including up to 110 of our own metrics.
        assert!((90..=140).contains(&series.count()));
    }

    #[test]
    fn values_are_rendered_in_the_unit_of_each_generation() {
        for (row, read, legacy, current) in [
            (&SM_CLOCK, 1755.0, 1755.0, 1.755e9),
            (&TOTAL_ENERGY, 9_007_199_254.0, 9_007_199_254.0, 9_007_199.254),
            (&GPU_UTIL, 57.0, 57.0, 0.57),
            (&POWER_USAGE, 113_611.0, 113.611, 113.611),
            (&FB_USED, 1_572_863.0, 1.0, 1_572_863.0),
            (&POWER_VIOLATION, 2_500_000_000.0, 2.5e9, 2.5),
            (&PROF_PCIE_TX, 1.5, 1_572_864.0, 1_572_864.0),
            (&NVLINK_BANDWIDTH, 2e9, 2000.0, 2e9),
        ] {
            let rendered = [&row.legacy, &row.current].map(|metric| row.unit.convert(read, metric.unit));
            assert_eq!(rendered, [Some(legacy), Some(current)], "{}", row.legacy.name);
        }
    }
}
