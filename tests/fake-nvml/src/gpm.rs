//! GPM: averages between two samples that the caller takes.

use crate::code::Code;
use crate::handle::Issued;
use crate::mig::Instance;
use crate::view::View;
use crate::work::{Area, Channel, average};
use std::collections::BTreeMap;
use std::ffi::CStr;

/// All samples of the library; freshly allocated ones are empty.
pub(crate) type Samples = Issued<Option<Sample>>;

#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub gpu: usize,
    /// Serial of the GPU instance, if it is of one.
    pub instance: Option<usize>,
    /// Values given to metrics, by id.
    pub given: BTreeMap<u32, f64>,
    pub at_us: u64,
    pub area: Area,
    counted: Option<Counted>,
}

/// What the counters that run from the boot on are made of: here, from when the driver was loaded.
#[derive(Debug, Clone)]
struct Counted {
    us: u64,
    area_before: Area,
    /// All multiprocessors count as one, at the clock of a busy GPU.
    sm_mhz: u32,
}

impl Sample {
    pub(crate) fn take(view: &View) -> Self {
        let (work, loaded_us) = (&view.gpu.work, view.node.loaded_us.min(view.now_us));
        let counted = || Counted {
            us: view.now_us - loaded_us,
            area_before: work.area(loaded_us),
            sm_mhz: view.gpu.profile.clocks.sm.busy,
        };
        Self {
            gpu: view.gpu.index,
            instance: None,
            given: view.gpu.gpm.clone(),
            at_us: view.now_us,
            area: work.area(view.now_us),
            counted: view.node.gpm_counters.then(counted),
        }
    }

    /// Of one GPU instance, which has no counters.
    pub(crate) fn take_of(view: &View, instance: &Instance) -> Self {
        let area = instance.work.area(view.now_us);
        Self {
            gpu: view.gpu.index,
            instance: instance.serial(),
            at_us: view.now_us,
            area,
            given: BTreeMap::new(),
            counted: None,
        }
    }
}

/// One metric: id and name from `nvml.h`, and what it follows.
pub(crate) struct Metric {
    id: u32,
    pub name: &'static CStr,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    /// The mean of a channel between two samples.
    Mean(Channel),
    /// A unit that nothing here uses.
    Idle,
    /// Cycles or bytes from the boot on, of a channel; all cycles without one.
    Count(Option<Channel>),
    /// Cycles of a unit that nothing here uses.
    CountIdle,
}

const fn metric(id: u32, name: &'static CStr, channel: Channel) -> Metric {
    Metric { id, name, of: Of::Mean(channel) }
}

const fn always_idle(id: u32, name: &'static CStr) -> Metric {
    Metric { id, name, of: Of::Idle }
}

const fn count(id: u32, name: &'static CStr, channel: Channel) -> Metric {
    Metric { id, name, of: Of::Count(Some(channel)) }
}

const fn count_idle(id: u32, name: &'static CStr) -> Metric {
    Metric { id, name, of: Of::CountIdle }
}

const METRICS: &[Metric] = &[
    metric(1, c"GRAPHICS_UTIL", Channel::Gpu),
    metric(2, c"SM_UTIL", Channel::Sm),
    metric(3, c"SM_OCCUPANCY", Channel::Occupancy),
    always_idle(4, c"INTEGER_UTIL"),
    metric(5, c"ANY_TENSOR_UTIL", Channel::Tensor),
    always_idle(6, c"DFMA_TENSOR_UTIL"),
    metric(7, c"HMMA_TENSOR_UTIL", Channel::Tensor),
    always_idle(9, c"IMMA_TENSOR_UTIL"),
    metric(10, c"DRAM_BW_UTIL", Channel::Dram),
    metric(11, c"FP64_UTIL", Channel::Fp64),
    metric(12, c"FP32_UTIL", Channel::Fp32),
    metric(13, c"FP16_UTIL", Channel::Fp16),
    metric(20, c"PCIE_TX_PER_SEC", Channel::PcieTx),
    metric(21, c"PCIE_RX_PER_SEC", Channel::PcieRx),
    metric(30, c"NVDEC_0_UTIL", Channel::Decoder),
    always_idle(40, c"NVJPG_0_UTIL"),
    always_idle(50, c"NVOFA_0_UTIL"),
    metric(60, c"NVLINK_TOTAL_RX_PER_SEC", Channel::NvlinkRx),
    metric(61, c"NVLINK_TOTAL_TX_PER_SEC", Channel::NvlinkTx),
    Metric { id: 248, name: c"SM_CYCLES_ELAPSED", of: Of::Count(None) },
    count(249, c"SM_CYCLES_ACTIVE", Channel::Sm),
    count(250, c"MMA_CYCLES_ACTIVE", Channel::Tensor),
    count_idle(251, c"DMMA_CYCLES_ACTIVE"),
    count(252, c"HMMA_CYCLES_ACTIVE", Channel::Tensor),
    count_idle(253, c"IMMA_CYCLES_ACTIVE"),
    count_idle(254, c"DFMA_CYCLES_ACTIVE"),
    count(255, c"PCIE_TX", Channel::PcieTx),
    count(256, c"PCIE_RX", Channel::PcieRx),
    count_idle(257, c"INTEGER_CYCLES_ACTIVE"),
    count(258, c"FP64_CYCLES_ACTIVE", Channel::Fp64),
    count(259, c"FP32_CYCLES_ACTIVE", Channel::Fp32),
    count(260, c"FP16_CYCLES_ACTIVE", Channel::Fp16),
];

const MIB: f64 = 1_048_576.0;

/// The metric of that id.
pub(crate) fn find(id: u32) -> Result<&'static Metric, Code> {
    METRICS.iter().find(|m| m.id == id).ok_or(Code::NOT_SUPPORTED)
}

impl Metric {
    pub(crate) fn unit(&self) -> &'static CStr {
        match self.of {
            Of::Mean(channel) if channel.is_rate() => c"MiB/s",
            Of::Mean(_) | Of::Idle => c"%",
            Of::Count(Some(channel)) if channel.is_rate() => c"bytes",
            Of::Count(_) | Of::CountIdle => c"cycles",
        }
    }

    /// Percent or MiB/s between the samples; cycles or bytes up to the second. Traffic of links is of the whole GPU alone
    /// (for A100 the maintainers of DCGM say so in its issue 88).
    pub(crate) fn value(&self, first: &Sample, second: &Sample) -> Result<f64, Code> {
        let mean = |channel| average(channel, &first.area, &second.area, second.at_us.saturating_sub(first.at_us));
        match self.of {
            Of::Mean(channel) if channel.is_rate() && first.instance.is_some() => Err(Code::NOT_SUPPORTED),
            Of::Mean(channel) if channel.is_rate() => Ok(mean(channel) / MIB),
            Of::Mean(channel) => Ok(mean(channel)),
            Of::Idle => Ok(0.0),
            Of::Count(channel) => second.count(channel),
            Of::CountIdle => second.counted.as_ref().map(|_| 0.0).ok_or(Code::NOT_SUPPORTED),
        }
    }
}

impl Sample {
    fn count(&self, channel: Option<Channel>) -> Result<f64, Code> {
        let counted = self.counted.as_ref().ok_or(Code::NOT_SUPPORTED)?;
        let cycles = f64::from(counted.sm_mhz);
        let amount = match channel {
            None => counted.us as f64 * cycles,
            Some(channel) => {
                let area = self.area[channel as usize] - counted.area_before[channel as usize];
                if channel.is_rate() { area / 1e6 } else { area / 100.0 * cycles }
            }
        };
        Ok(amount.floor())
    }
}
