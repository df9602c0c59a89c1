//! GPM: averages between two samples that the caller takes.

use crate::code::Code;
use crate::handle::Issued;
use crate::work::{Area, Channel, average};
use std::collections::BTreeMap;
use std::ffi::CStr;

/// All samples of the library; freshly allocated ones are empty.
pub(crate) type Samples = Issued<Option<Sample>>;

#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub gpu: usize,
    /// Values given to metrics, by id.
    pub given: BTreeMap<u32, f64>,
    pub at_us: u64,
    pub area: Area,
}

/// One metric: id and name from `nvml.h`, what it follows, and its unit.
pub(crate) struct Metric {
    id: u32,
    pub name: &'static CStr,
    channel: Option<Channel>,
}

const fn metric(id: u32, name: &'static CStr, channel: Channel) -> Metric {
    Metric { id, name, channel: Some(channel) }
}

const fn always_idle(id: u32, name: &'static CStr) -> Metric {
    Metric { id, name, channel: None }
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
];

const MIB: f64 = 1_048_576.0;

/// The metric of that id.
pub(crate) fn find(id: u32) -> Result<&'static Metric, Code> {
    METRICS.iter().find(|m| m.id == id).ok_or(Code::NOT_SUPPORTED)
}

impl Metric {
    pub(crate) fn unit(&self) -> &'static CStr {
        if self.is_rate() { c"MiB/s" } else { c"%" }
    }

    fn is_rate(&self) -> bool {
        self.channel.is_some_and(Channel::is_rate)
    }

    /// Percent or MiB/s between the samples.
    pub(crate) fn value(&self, first: &Sample, second: &Sample) -> f64 {
        let mean = |channel| average(channel, &first.area, &second.area, second.at_us.saturating_sub(first.at_us));
        self.channel.map_or(0.0, mean) / if self.is_rate() { MIB } else { 1.0 }
    }
}
