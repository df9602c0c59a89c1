//! Which NVML fields and GPM metrics are read.
//!
//! Ids and units are those of nvml.h (API 13); none of them is among 251-273, whose numbers changed with driver 580.82.

/// One entry of a batched `nvmlDeviceGetFieldValues`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(super) id: u32,
    pub(super) scope: u32,
}

/// Scope of an NVLink throughput counter that sums all links.
const ALL_LINKS: u32 = u32::MAX;

macro_rules! fields {
    ($($(#[doc = $doc:literal])* $name:ident = $id:literal $(in $scope:ident)?;)*) => {
        $($(#[doc = $doc])* pub const $name: Field = Field { id: $id, scope: fields!(@scope $($scope)?) };)*
        /// Everything that one cycle asks for, in one call.
        pub static BATCH: &[Field] = &[$($name),*];
    };
    (@scope) => { 0 };
    (@scope $scope:ident) => { $scope };
}

fields! {
    /// Single-bit ECC errors since the driver was loaded.
    ECC_SBE_VOLATILE = 3;
    /// Double-bit ECC errors since the driver was loaded.
    ECC_DBE_VOLATILE = 4;
    /// Single-bit ECC errors over the board's life.
    ECC_SBE_AGGREGATE = 5;
    /// Double-bit ECC errors over the board's life.
    ECC_DBE_AGGREGATE = 6;
    /// Pages retired for single-bit errors (before Ampere).
    RETIRED_SBE = 29;
    /// Pages retired for double-bit errors (before Ampere).
    RETIRED_DBE = 30;
    /// Is a page retirement pending (before Ampere)?
    RETIRED_PENDING = 31;
    /// Flow-control CRC errors of all NVLinks (NVLink 4 and older).
    NVLINK_CRC_FLIT = 38;
    /// Data CRC errors of all NVLinks (NVLink 4 and older).
    NVLINK_CRC_DATA = 45;
    /// Replays of all NVLinks (NVLink 4 and older).
    NVLINK_REPLAY = 52;
    /// Recoveries of all NVLinks (NVLink 4 and older).
    NVLINK_RECOVERY = 59;
    /// ns throttled by the power limit.
    VIOLATION_POWER = 74;
    /// ns throttled by temperature.
    VIOLATION_THERMAL = 75;
    /// ns throttled by sync boost.
    VIOLATION_SYNC_BOOST = 76;
    /// ns throttled by the board limit.
    VIOLATION_BOARD_LIMIT = 77;
    /// ns at lowered clocks for lack of work.
    VIOLATION_LOW_UTILIZATION = 78;
    /// ns throttled by the reliability limit.
    VIOLATION_RELIABILITY = 79;
    /// Memory temperature, Celsius; 0 where there is no sensor.
    MEMORY_TEMPERATURE = 82;
    /// mJ since the driver was loaded.
    ENERGY = 83;
    /// PCIe replays.
    PCIE_REPLAY = 94;
    /// KiB of NVLink payload sent.
    NVLINK_DATA_TX = 138 in ALL_LINKS;
    /// KiB of NVLink payload received.
    NVLINK_DATA_RX = 139 in ALL_LINKS;
    /// Rows remapped for correctable errors.
    REMAPPED_CORRECTABLE = 142;
    /// Rows remapped for uncorrectable errors.
    REMAPPED_UNCORRECTABLE = 143;
    /// Does a row remapping wait for a reset?
    REMAP_PENDING = 144;
    /// Has a row remapping failed?
    REMAP_FAILURE = 145;
    /// mW, averaged over one second (Ampere and later, without GA100).
    POWER_AVERAGE = 185;
    /// mW at this instant.
    POWER_INSTANT = 186;
    /// mW, the lowest limit that can be set.
    POWER_LIMIT_MIN = 187;
    /// mW, the highest limit that can be set.
    POWER_LIMIT_MAX = 188;
    /// mW, the limit the board starts with.
    POWER_LIMIT_DEFAULT = 189;
    /// mW, the limit in force.
    POWER_LIMIT_ENFORCED = 190;
    /// mW, the limit somebody asked for.
    POWER_LIMIT_REQUESTED = 192;
    /// What the driver wants done: 0 nothing, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.
    RECOVERY_ACTION = 230;
}

/// A GPM metric id. GPM gives shares in percent and rates in MiB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpmMetric(pub(super) u32);

macro_rules! gpm {
    ($($name:ident = $id:literal;)*) => {
        $(#[allow(missing_docs, reason = "the name says it")] pub const $name: GpmMetric = GpmMetric($id);)*
        /// Everything that is computed from one pair of GPM samples.
        pub static GPM_METRICS: &[GpmMetric] = &[$($name),*];
    };
}

gpm! {
    GPM_GRAPHICS_ACTIVE = 1;
    GPM_SM_ACTIVE = 2;
    GPM_SM_OCCUPANCY = 3;
    GPM_TENSOR_ACTIVE = 5;
    GPM_DRAM_ACTIVE = 10;
    GPM_FP64_ACTIVE = 11;
    GPM_FP32_ACTIVE = 12;
    GPM_FP16_ACTIVE = 13;
    GPM_PCIE_TX = 20;
    GPM_PCIE_RX = 21;
    GPM_NVLINK_RX = 60;
    GPM_NVLINK_TX = 61;
}
