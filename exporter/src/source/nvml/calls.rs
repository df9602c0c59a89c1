//! Calls of NVML for single numbers: how often each is made, and what it gives.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::error::NvmlError;

use super::absent::{Absent, Reading};
use super::single;
use goodput_catalog::dcgm::Call;

/// How often a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// What moves with the work.
    Slow,
    /// What moves in seconds, and steers nothing.
    Rare,
    /// What almost never moves.
    Rarest,
    /// What only an administrator or a fault changes.
    Setting,
    /// What stays while the GPU is there.
    Once,
}

/// One call. A failure is one of all that it gives; a share of nothing is not given.
pub(super) struct Ask {
    pub(super) pace: Pace,
    pub(super) gives: &'static [Call],
    pub(super) read: fn(&Device<'_>) -> Reading<Vec<f64>>,
}

const fn ask(pace: Pace, gives: &'static [Call], read: fn(&Device<'_>) -> Reading<Vec<f64>>) -> Ask {
    Ask { pace, gives, read }
}

/// What [`memory`] gives, in its order.
pub(super) const MEMORY: &[Call] =
    &[Call::MemoryTotal, Call::MemoryFree, Call::MemoryUsed, Call::MemoryUsedShare, Call::MemoryReserved];

/// Every call, in the order in which they are made.
pub(super) static ASKS: &[Ask] = &[
    ask(Pace::Slow, &[Call::GpuUtilization, Call::MemoryUtilization], |d| {
        d.utilization_rates().map(|u| vec![u.gpu.into(), u.memory.into()]).map_err(Absent::from)
    }),
    ask(Pace::Slow, MEMORY, memory),
    ask(Pace::Rare, &[Call::Temperature], |d| one(d.temperature(TemperatureSensor::Gpu))),
    ask(Pace::Rare, &[Call::SmClock], |d| one(d.clock_info(Clock::SM))),
    ask(Pace::Rarest, &[Call::MemoryClock], |d| one(d.clock_info(Clock::Memory))),
    ask(Pace::Rarest, &[Call::VideoClock], |d| one(d.clock_info(Clock::Video))),
    ask(Pace::Slow, &[Call::ClockEventReasons], |d| Ok(vec![super::raw::clock_event_reasons(d)? as f64])),
    ask(Pace::Rare, &[Call::TemperatureMargin], |d| Ok(vec![single::temperature_margin(d)?])),
    ask(Pace::Rarest, &[Call::EncoderUtilization], |d| one(d.encoder_utilization().map(|u| u.utilization))),
    ask(Pace::Rarest, &[Call::DecoderUtilization], |d| one(d.decoder_utilization().map(|u| u.utilization))),
    ask(Pace::Rarest, &[Call::PcieGeneration], |d| one(d.current_pcie_link_gen())),
    ask(Pace::Rarest, &[Call::PcieWidth], |d| one(d.current_pcie_link_width())),
    ask(Pace::Rarest, &[Call::PerformanceState], performance_state),
    ask(Pace::Rarest, &[Call::FanSpeed], |d| one(d.fan_speed(0))),
    ask(Pace::Rarest, &[Call::Bar1Total, Call::Bar1Used, Call::Bar1Free], |d| {
        let bar1 = d.bar1_memory_info().map_err(Absent::from)?;
        Ok([bar1.total, bar1.used, bar1.free].map(|bytes| bytes as f64).to_vec())
    }),
    ask(Pace::Setting, &[Call::SmApplicationClock], |d| one(d.applications_clock(Clock::SM))),
    ask(Pace::Setting, &[Call::MemoryApplicationClock], |d| one(d.applications_clock(Clock::Memory))),
    ask(
        Pace::Setting,
        &[Call::RemapMax, Call::RemapHigh, Call::RemapPartial, Call::RemapLow, Call::RemapNone],
        single::remap_histogram,
    ),
    ask(
        Pace::Setting,
        &[Call::FabricStatus, Call::FabricError, Call::FabricClique, Call::FabricHealthMask, Call::FabricHealthSummary],
        single::fabric,
    ),
    ask(Pace::Setting, &[Call::VgpuLicense], |d| Ok(vec![f64::from(u8::from(single::is_vgpu_licensed(d)?))])),
    ask(Pace::Once, &[Call::SmClockMax], |d| one(d.max_clock_info(Clock::SM))),
    ask(Pace::Once, &[Call::MemoryClockMax], |d| one(d.max_clock_info(Clock::Memory))),
    ask(Pace::Once, &[Call::VideoClockMax], |d| one(d.max_clock_info(Clock::Video))),
    ask(Pace::Once, &[Call::PcieGenerationMax], |d| one(d.max_pcie_link_gen())),
    ask(Pace::Once, &[Call::PcieWidthMax], |d| one(d.max_pcie_link_width())),
    ask(Pace::Once, &[Call::TemperatureMax], |d| one(d.temperature_threshold(TemperatureThreshold::GpuMax))),
    ask(Pace::Once, &[Call::MemoryTemperatureMax], |d| one(d.temperature_threshold(TemperatureThreshold::MemoryMax))),
    ask(Pace::Once, &[Call::TemperatureSlowdown], |d| one(d.temperature_threshold(TemperatureThreshold::Slowdown))),
    ask(Pace::Once, &[Call::TemperatureShutdown], |d| one(d.temperature_threshold(TemperatureThreshold::Shutdown))),
];

fn one(number: Result<u32, NvmlError>) -> Reading<Vec<f64>> {
    Ok(vec![f64::from(number.map_err(Absent::from)?)])
}

/// NVML has a state for `unknown`, which is no state.
fn performance_state(device: &Device<'_>) -> Reading<Vec<f64>> {
    match device.performance_state().map_err(Absent::from)? {
        PerformanceState::Unknown => Err(Absent::NotSupported),
        state => Ok(vec![f64::from(state.as_c())]),
    }
}

/// Bytes, and the used share of what is not reserved; of all, as DCGM has it, where the driver does not tell what is.
pub(super) fn memory(device: &Device<'_>) -> Reading<Vec<f64>> {
    let memory = single::memory(device)?;
    let mut values = [memory.total, memory.free, memory.used].map(|bytes| bytes as f64).to_vec();
    let usable = memory.total.checked_sub(memory.reserved.unwrap_or(0)).filter(|bytes| *bytes > 0);
    if let Some(usable) = usable {
        values.push(memory.used as f64 / usable as f64);
        values.extend(memory.reserved.map(|bytes| bytes as f64));
    }
    Ok(values)
}
