//! The lines of the event log; the crate documentation shows each.

use crate::code::Code;
use crate::guest::Virtualization;
use crate::work::Channel;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Event {
    Node(NodeSpec),
    Busy(Busy),
    Start(Start),
    Stop(Stop),
    Process(Process),
    Exit(Exit),
    Set(Set),
    Field(FieldSpec),
    Gpm(GpmSpec),
    Xid(Xid),
    Lose(Target),
    Find(Target),
    Unbind(Target),
    Bind(Target),
    Unload(Empty),
    Load(Load),
    Fault(Fault),
    Hang(Hang),
    Clear(Match),
    Count(Empty),
    Clock(Clock),
    Mig(Mig),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSpec {
    pub model: Option<String>,
    pub count: Option<usize>,
    pub driver: Option<String>,
    /// As `nvmlSystemGetCudaDriverVersion`: 1000 major + 10 minor.
    pub cuda: Option<i32>,
    pub loaded_us: Option<u64>,
    /// From when sample timestamps count, if not from 1970.
    pub sample_epoch_us: Option<u64>,
    /// No utilization samples are kept of an idle GPU.
    #[serde(default)]
    pub dry_when_idle: bool,
    /// From one utilization sample to the next.
    pub sample_period_us: Option<u64>,
    /// From one power sample to the next.
    pub power_sample_period_us: Option<u64>,
    /// GPM counts cycles and bytes from the boot on.
    #[serde(default)]
    pub gpm_counters: bool,
    #[serde(default)]
    pub virtualization: Virtualization,
    /// CPU list of each NUMA node.
    pub cpus: Option<Vec<String>>,
    #[serde(default)]
    pub gpus: Vec<GpuSpec>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuSpec {
    pub pci: Option<String>,
    pub numa: Option<u32>,
    pub uuid: Option<String>,
    pub serial: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Busy {
    pub gpu: usize,
    pub from_us: u64,
    pub to_us: u64,
    pub pid: Option<u32>,
    /// The GPU instance that works.
    pub instance: Option<u32>,
    #[serde(default)]
    pub load: BTreeMap<Channel, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    pub gpu: usize,
    pub id: String,
    pub at_us: u64,
    pub pid: Option<u32>,
    /// The GPU instance that works.
    pub instance: Option<u32>,
    #[serde(default)]
    pub load: BTreeMap<Channel, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    pub gpu: usize,
    pub id: String,
    pub at_us: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Process {
    pub gpu: usize,
    pub pid: u32,
    pub used_bytes: Option<u64>,
    /// The GPU instance that it runs on.
    pub instance: Option<u32>,
    /// The compute instance in that, the first if left out.
    #[serde(default)]
    pub compute_instance: u32,
    #[serde(default)]
    pub kind: ProcessKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessKind {
    #[default]
    Compute,
    Graphics,
    Mps,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exit {
    pub gpu: usize,
    pub pid: u32,
    pub at_us: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub gpu: usize,
    pub at_us: u64,
    pub reading: Reading,
    /// `null` gives the reading back to the model.
    pub value: Option<f64>,
}

/// What a `set` line can fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    PowerMw,
    PowerLimitMw,
    EnergyMj,
    TemperatureC,
    MemoryTemperatureC,
    UsedBytes,
    ReservedBytes,
    Bar1UsedBytes,
    SmClockMhz,
    MemoryClockMhz,
    VideoClockMhz,
    Pstate,
    FanPercent,
    ClocksEventReasons,
    PersistenceMode,
    ComputeMode,
    EccMode,
    EccCorrectedVolatile,
    EccUncorrectedVolatile,
    EccCorrectedAggregate,
    EccUncorrectedAggregate,
    RetiredSbe,
    RetiredDbe,
    RetiredPending,
    RemappedCorrectable,
    RemappedUncorrectable,
    RemapPending,
    RemapFailure,
    PcieGeneration,
    PcieWidth,
    PcieReplays,
    NvlinkActiveMask,
    NvlinkCrcErrors,
    NvlinkReplayErrors,
    NvlinkRecoveryErrors,
    FabricState,
    RecoveryAction,
    SmApplicationClockMhz,
    MemoryApplicationClockMhz,
    TemperatureMarginC,
    RemapBanksHigh,
    RemapBanksPartial,
    RemapBanksLow,
    RemapBanksNone,
    FabricStatus,
    FabricClique,
    FabricHealthMask,
    FabricHealthSummary,
    P2pStatus,
    VgpuLicensed,
}

/// The value of an entry of `nvmlDeviceGetFieldValues`, whatever the model says; of every scope where none is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldSpec {
    pub gpu: usize,
    pub id: u32,
    pub scope: Option<u32>,
    pub value: f64,
}

/// The value of a GPM metric, whatever the work was.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpmSpec {
    pub gpu: usize,
    pub id: u32,
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Xid {
    pub gpu: usize,
    pub code: u64,
    /// The MIG GPU instance it is about.
    pub instance: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub gpu: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clock {
    /// Without it the wall clock holds again.
    pub now_us: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub at_us: u64,
    pub driver: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub call: Option<String>,
    pub gpu: Option<usize>,
    pub code: Code,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hang {
    pub call: Option<String>,
    pub gpu: Option<usize>,
    /// Each call blocks this long; without it, until cleared.
    pub for_us: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mig {
    pub gpu: usize,
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// The mode from the next reset on, if it differs.
    pub pending: Option<bool>,
    #[serde(default)]
    pub instances: Vec<InstanceSpec>,
}

fn enabled() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstanceSpec {
    pub id: u32,
    pub profile: String,
    /// Slices of each compute instance; one that fills the GPU instance if left out.
    #[serde(default)]
    pub compute: Vec<u32>,
}

/// Which calls a line is about: those named so (a trailing `*` stands for any ending), on that GPU; all without.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Match {
    pub call: Option<String>,
    pub gpu: Option<usize>,
}

impl Match {
    pub(crate) fn hits(&self, call: &str, gpu: Option<usize>) -> bool {
        let named = self.call.as_deref().is_none_or(|name| match name.strip_suffix('*') {
            Some(prefix) => call.starts_with(prefix),
            None => call == name,
        });
        named && (self.gpu.is_none() || self.gpu == gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_by_name_prefix_and_gpu() {
        let all = Match { call: None, gpu: None };
        assert!(all.hits("nvmlDeviceGetName", Some(3)) && all.hits("nvmlInit_v2", None));
        let named = Match { call: Some("nvmlDeviceGet*".into()), gpu: Some(1) };
        assert!(named.hits("nvmlDeviceGetName", Some(1)));
        assert!(!named.hits("nvmlDeviceGetName", Some(0)) && !named.hits("nvmlEventSetWait_v2", Some(1)));
        let exact = Match { call: Some("nvmlInit".into()), gpu: None };
        assert!(!exact.hits("nvmlInit_v2", None));
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = serde_json::from_str::<Event>(r#"{"busy":{"gpu":0,"from_us":1,"to_us":2,"sm":3}}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `sm`"), "{error}");
    }
}
