//! Clocks, temperatures, power, memory, utilization.

use super::{Ptr, check_version, gpu_calls};
use crate::code::Code;
use crate::event::Reading;
use crate::view::View;
use crate::work::Channel;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_uint, c_ulonglong};

gpu_calls! {
    nvmlDeviceGetUtilizationRates(utilization: Ptr<nvmlUtilization_t>) |view| {
        view.whole()?;
        utilization.set(nvmlUtilization_t {
            gpu: view.utilization(Channel::Gpu),
            memory: view.utilization(Channel::Memory),
        })
    };
    nvmlDeviceGetEncoderUtilization(utilization: Ptr<c_uint>, period_us: Ptr<c_uint>) |view|
        codec(&view, Some(Channel::Encoder), utilization, period_us);
    nvmlDeviceGetDecoderUtilization(utilization: Ptr<c_uint>, period_us: Ptr<c_uint>) |view|
        codec(&view, Some(Channel::Decoder), utilization, period_us);
    nvmlDeviceGetJpgUtilization(utilization: Ptr<c_uint>, period_us: Ptr<c_uint>) |view|
        codec(&view, None, utilization, period_us);
    nvmlDeviceGetOfaUtilization(utilization: Ptr<c_uint>, period_us: Ptr<c_uint>) |view|
        codec(&view, None, utilization, period_us);

    nvmlDeviceGetClockInfo(domain: nvmlClockType_t, mhz: Ptr<c_uint>) |view| mhz.set(clock(&view, domain)?);
    nvmlDeviceGetMaxClockInfo(domain: nvmlClockType_t, mhz: Ptr<c_uint>) |view| mhz.set(max_clock(&view, domain)?);
    nvmlDeviceGetMaxCustomerBoostClock(domain: nvmlClockType_t, mhz: Ptr<c_uint>) |view|
        mhz.set(max_clock(&view, domain)?);
    nvmlDeviceGetClock(domain: nvmlClockType_t, id: nvmlClockId_t, mhz: Ptr<c_uint>) |view| match id {
        nvmlClockId_enum_NVML_CLOCK_ID_CURRENT => mhz.set(clock(&view, domain)?),
        nvmlClockId_enum_NVML_CLOCK_ID_CUSTOMER_BOOST_MAX => mhz.set(max_clock(&view, domain)?),
        _ => Err(Code::NOT_SUPPORTED),
    };
    // Deprecated on new GPUs; absent unless a test sets them.
    nvmlDeviceGetApplicationsClock(domain: nvmlClockType_t, mhz: Ptr<c_uint>) |view| {
        let reading = match domain {
            nvmlClockType_enum_NVML_CLOCK_SM => Reading::SmApplicationClockMhz,
            nvmlClockType_enum_NVML_CLOCK_MEM => Reading::MemoryApplicationClockMhz,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        mhz.set(view.set(reading).ok_or(Code::NOT_SUPPORTED)? as c_uint)
    };
    nvmlDeviceGetCurrentClocksEventReasons(reasons: Ptr<c_ulonglong>) |view| reasons.set(view.clocks_event_reasons());
    nvmlDeviceGetCurrentClocksThrottleReasons(reasons: Ptr<c_ulonglong>) |view| reasons.set(view.clocks_event_reasons());
    nvmlDeviceGetSupportedClocksEventReasons(reasons: Ptr<c_ulonglong>) |_view| reasons.set(REASONS);
    nvmlDeviceGetSupportedClocksThrottleReasons(reasons: Ptr<c_ulonglong>) |_view| reasons.set(REASONS);
    nvmlDeviceGetViolationStatus(policy: nvmlPerfPolicyType_t, time: Ptr<nvmlViolationTime_t>) |view|
        time.set(nvmlViolationTime_t {
            referenceTime: view.now_us,
            violationTime: view.reason_ns(policy_reasons(policy)?),
        });
    nvmlDeviceGetPerformanceState(state: Ptr<nvmlPstates_t>) |view| state.set(view.pstate());
    nvmlDeviceGetPowerState(state: Ptr<nvmlPstates_t>) |view| state.set(view.pstate());

    nvmlDeviceGetTemperature(sensor: nvmlTemperatureSensors_t, celsius: Ptr<c_uint>) |view|
        if sensor == nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU {
            celsius.set(view.temperature_c())
        } else {
            Err(Code::INVALID_ARGUMENT)
        };
    nvmlDeviceGetTemperatureV(temperature: Ptr<nvmlTemperature_t>) |view| {
        let asked = temperature.get()?;
        check_version::<nvmlTemperature_v1_t>(asked.version, 1)?;
        if asked.sensorType != nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU {
            return Err(Code::INVALID_ARGUMENT);
        }
        temperature.set(nvmlTemperature_t { temperature: view.temperature_c() as i32, ..asked })
    };
    nvmlDeviceGetMarginTemperature(margin: Ptr<nvmlMarginTemperature_t>) |view| {
        let asked = margin.get()?;
        check_version::<nvmlMarginTemperature_v1_t>(asked.version, 1)?;
        let limit = view.gpu.profile.thresholds.as_ref().ok_or(Code::NOT_SUPPORTED)?.gpu_max;
        let left = limit as i32 - view.temperature_c() as i32;
        let left = view.set(Reading::TemperatureMarginC).map_or(left, |celsius| celsius as i32);
        margin.set(nvmlMarginTemperature_t { marginTemperature: left, ..asked })
    };
    nvmlDeviceGetTemperatureThreshold(which: nvmlTemperatureThresholds_t, celsius: Ptr<c_uint>) |view| {
        let thresholds = view.gpu.profile.thresholds.as_ref().ok_or(Code::NOT_SUPPORTED)?;
        celsius.set(match which {
            nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SHUTDOWN => thresholds.shutdown,
            nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SLOWDOWN => thresholds.slowdown,
            nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_GPU_MAX => thresholds.gpu_max,
            nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_MEM_MAX => {
                thresholds.memory_max.ok_or(Code::NOT_SUPPORTED)?
            }
            _ => return Err(Code::NOT_SUPPORTED),
        })
    };
    nvmlDeviceGetNumFans(fans: Ptr<c_uint>) |view| fans.set(u32::from(view.set(Reading::FanPercent).is_some()));
    nvmlDeviceGetFanSpeed(percent: Ptr<c_uint>) |view| percent.set(fan(&view)?);
    nvmlDeviceGetFanSpeed_v2(_fan: c_uint, percent: Ptr<c_uint>) |view| percent.set(fan(&view)?);

    nvmlDeviceGetPowerUsage(milliwatts: Ptr<c_uint>) |view| milliwatts.set(view.power_mw());
    nvmlDeviceGetTotalEnergyConsumption(millijoules: Ptr<c_ulonglong>) |view| millijoules.set(view.energy_mj());
    nvmlDeviceGetPowerManagementMode(mode: Ptr<nvmlEnableState_t>) |_view| mode.set(1);
    nvmlDeviceGetPowerManagementLimit(milliwatts: Ptr<c_uint>) |view| milliwatts.set(view.power_limit_mw());
    nvmlDeviceGetEnforcedPowerLimit(milliwatts: Ptr<c_uint>) |view| milliwatts.set(view.power_limit_mw());
    nvmlDeviceGetPowerManagementDefaultLimit(milliwatts: Ptr<c_uint>) |view|
        milliwatts.set(view.gpu.profile.power.default_limit);
    nvmlDeviceGetPowerManagementLimitConstraints(least: Ptr<c_uint>, most: Ptr<c_uint>) |view| {
        least.set(view.gpu.profile.power.min_limit)?;
        most.set(view.gpu.profile.power.max_limit)
    };

    nvmlDeviceGetBAR1MemoryInfo(memory: Ptr<nvmlBAR1Memory_t>) |view| {
        let (total, used) = view.bar1();
        memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used })
    };
    nvmlDeviceGetPersistenceMode(mode: Ptr<nvmlEnableState_t>) |view| mode.set(view.set_or(Reading::PersistenceMode, 1));
    nvmlDeviceGetComputeMode(mode: Ptr<nvmlComputeMode_t>) |view| mode.set(view.set_or(Reading::ComputeMode, 0));
}

/// All reasons of the recorded GPUs: idle, application clocks, power cap, slowdowns, sync boost, thermal, brake, display.
const REASONS: u64 = 0x1ff;

fn codec(view: &View, channel: Option<Channel>, utilization: Ptr<c_uint>, period_us: Ptr<c_uint>) -> crate::code::Done {
    view.whole()?;
    utilization.set(channel.map_or(0, |channel| view.utilization(channel)))?;
    period_us.set(view.node.utilization.period_us as c_uint)
}

fn clock(view: &View, domain: nvmlClockType_t) -> Result<c_uint, Code> {
    match domain {
        nvmlClockType_enum_NVML_CLOCK_GRAPHICS | nvmlClockType_enum_NVML_CLOCK_SM => Ok(view.sm_clock_mhz()),
        nvmlClockType_enum_NVML_CLOCK_MEM => Ok(view.memory_clock_mhz()),
        nvmlClockType_enum_NVML_CLOCK_VIDEO => Ok(view.video_clock_mhz()),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

fn max_clock(view: &View, domain: nvmlClockType_t) -> Result<c_uint, Code> {
    let clocks = &view.gpu.profile.clocks;
    match domain {
        nvmlClockType_enum_NVML_CLOCK_GRAPHICS | nvmlClockType_enum_NVML_CLOCK_SM => Ok(clocks.sm.busy),
        nvmlClockType_enum_NVML_CLOCK_MEM => Ok(clocks.memory.busy),
        nvmlClockType_enum_NVML_CLOCK_VIDEO => Ok(clocks.video.busy),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

fn policy_reasons(policy: nvmlPerfPolicyType_t) -> Result<u64, Code> {
    match policy {
        nvmlPerfPolicyType_enum_NVML_PERF_POLICY_POWER => Ok(nvmlClocksEventReasonSwPowerCap as u64),
        nvmlPerfPolicyType_enum_NVML_PERF_POLICY_THERMAL => {
            Ok((nvmlClocksEventReasonSwThermalSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown) as u64)
        }
        nvmlPerfPolicyType_enum_NVML_PERF_POLICY_SYNC_BOOST => Ok(nvmlClocksEventReasonSyncBoost as u64),
        policy if policy < nvmlPerfPolicyType_enum_NVML_PERF_POLICY_COUNT => Ok(0),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

/// Passively cooled, all of them, unless a test sets a fan.
fn fan(view: &View) -> Result<c_uint, Code> {
    view.set(Reading::FanPercent).map(|percent| percent as c_uint).ok_or(Code::NOT_SUPPORTED)
}
