//! `nvmlDeviceGetFieldValues`: one field of one GPU. Ids are those of `nvml.h`.

use crate::code::Code;
use crate::driver::Driver;
use crate::event::Reading;
use crate::profile::Architecture;
use crate::view::View;
use crate::work::Channel;

/// A value with the type the driver gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    UnsignedInt(u32),
    UnsignedLongLong(u64),
    SignedInt(i32),
}

use Value::{SignedInt, UnsignedInt, UnsignedLongLong};

/// All links together.
const ALL_LINKS: u32 = u32::MAX;
/// Clock event reason bits of `nvml.h`.
const SW_POWER_CAP: u64 = 0x4;
const SYNC_BOOST: u64 = 0x10;
const SW_THERMAL: u64 = 0x20;
const HW_THERMAL: u64 = 0x40;
const HW_POWER_BRAKE: u64 = 0x80;

/// The field of the GPU; `scope` is a link for NVLink fields.
pub(crate) fn read(view: &View, id: u32, scope: u32) -> Result<Value, Code> {
    let fault = || view.node.fault(&format!("field:{id}"), Some(view.gpu.index));
    if let Some(code) = view.node.has_faults().then(fault).flatten() {
        return Err(code);
    }
    let given = |scope| view.gpu.fields.get(&(id, scope)).copied();
    if let Some(value) = given(Some(scope)).or_else(|| given(None)) {
        return Ok(if value < 0.0 { SignedInt(value as i32) } else { UnsignedLongLong(value as u64) });
    }
    if view.node.virtualization.hides_field(id) {
        return Err(Code::NOT_SUPPORTED);
    }
    if id == 0 || id >= Driver::of(&view.node.driver).fields() {
        return Err(Code::INVALID_ARGUMENT);
    }
    match id {
        1..=6 | 29..=31 | 92 | 93 | 142..=145 => memory_health(view, id),
        38 | 45 | 52 | 59 | 90 | 91 | 138..=141 | 147 | 161..=165 => nvlink(view, id, scope),
        74..=81 | 251..=253 | 269..=271 => violation(view, canonical(view, id)?),
        82 => view.memory_temperature_c().map(UnsignedInt),
        83 | 191 => Ok(UnsignedLongLong(view.energy_mj())),
        94 | 95 | 169 | 173..=183 | 197 | 198 => Ok(pcie(view, id)),
        185..=190 | 192 => power(view, id).map(UnsignedInt),
        193..=196 => margin(view, id),
        226 => Ok(UnsignedInt(u32::from(matches!(view.set_or(Reading::RecoveryAction, 0), 1 | 4)))),
        227 => Ok(UnsignedInt(u32::from(view.set_or(Reading::RecoveryAction, 0) == 4))),
        230 => Ok(UnsignedInt(view.set_or(Reading::RecoveryAction, 0))),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn memory_health(view: &View, id: u32) -> Result<Value, Code> {
    let remaps = view.gpu.profile.remap_banks.is_some();
    let count = |reading| Ok(UnsignedLongLong(view.count(reading)));
    let small = |reading| Ok(UnsignedInt(view.set_or(reading, 0)));
    match id {
        1 | 2 => Ok(UnsignedInt(view.set_or(Reading::EccMode, 1))),
        3 => count(Reading::EccCorrectedVolatile),
        4 => count(Reading::EccUncorrectedVolatile),
        5 => count(Reading::EccCorrectedAggregate),
        6 => count(Reading::EccUncorrectedAggregate),
        29 if !remaps => small(Reading::RetiredSbe),
        30 if !remaps => small(Reading::RetiredDbe),
        31 | 92 | 93 if !remaps => small(Reading::RetiredPending),
        142 if remaps => small(Reading::RemappedCorrectable),
        143 if remaps => small(Reading::RemappedUncorrectable),
        144 if remaps => small(Reading::RemapPending),
        145 if remaps => small(Reading::RemapFailure),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn nvlink(view: &View, id: u32, scope: u32) -> Result<Value, Code> {
    view.whole()?;
    let link = view.gpu.profile.nvlink.as_ref().ok_or(Code::NOT_SUPPORTED)?;
    if scope != ALL_LINKS && scope >= link.links {
        return Err(Code::INVALID_ARGUMENT);
    }
    let share = if scope == ALL_LINKS { 1 } else { u64::from(link.links) };
    let kib = |channel| {
        let bytes = view.gpu.work.area(view.now_us)[channel as usize] / 1e6;
        Ok(UnsignedLongLong(bytes as u64 / 1024 / share))
    };
    // Set errors are those of link 0.
    let errors = |reading| Ok(UnsignedLongLong(if scope == ALL_LINKS || scope == 0 { view.count(reading) } else { 0 }));
    let total = |reading| Ok(UnsignedLongLong(view.count(reading)));
    match id {
        38 | 45 => total(Reading::NvlinkCrcErrors),
        52 => total(Reading::NvlinkReplayErrors),
        59 => total(Reading::NvlinkRecoveryErrors),
        161 => errors(Reading::NvlinkReplayErrors),
        162 => errors(Reading::NvlinkRecoveryErrors),
        163 => errors(Reading::NvlinkCrcErrors),
        90 | 164 => Ok(UnsignedInt(link.speed_mbps)),
        91 => Ok(UnsignedInt(link.links)),
        147 if view.gpu.profile.fabric => Ok(UnsignedInt(link.links)),
        138 | 140 => kib(Channel::NvlinkTx),
        139 | 141 => kib(Channel::NvlinkRx),
        165 => Ok(UnsignedInt(u32::from(link_is_active(view, scope)))),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// All links are up unless a mask is set.
pub(crate) fn link_is_active(view: &View, link: u32) -> bool {
    view.set(Reading::NvlinkActiveMask).is_none_or(|mask| (mask as u64) >> (link % 64) & 1 == 1)
}

fn canonical(view: &View, id: u32) -> Result<u32, Code> {
    let renumbered = Driver::of(&view.node.driver).is_renumbered();
    match id {
        269..=271 if renumbered => Ok(id - 18),
        251..=253 if !renumbered => Ok(id),
        251.. => Err(Code::NOT_SUPPORTED),
        _ => Ok(id),
    }
}

fn violation(view: &View, id: u32) -> Result<Value, Code> {
    let reasons = match id {
        74 => SW_POWER_CAP,
        75 => SW_THERMAL | HW_THERMAL,
        76 => SYNC_BOOST,
        77..=81 => 0,
        251 => SW_THERMAL,
        252 => HW_THERMAL,
        253 => HW_POWER_BRAKE,
        _ => return Err(Code::NOT_SUPPORTED),
    };
    Ok(UnsignedLongLong(view.reason_ns(reasons)))
}

fn pcie(view: &View, id: u32) -> Value {
    let bytes = |channel| UnsignedLongLong((view.gpu.work.area(view.now_us)[channel as usize] / 1e6) as u64);
    match id {
        94 => UnsignedInt(view.set_or(Reading::PcieReplays, 0)),
        197 => bytes(Channel::PcieTx),
        198 => bytes(Channel::PcieRx),
        _ => UnsignedInt(0),
    }
}

fn power(view: &View, id: u32) -> Result<u32, Code> {
    let power = &view.gpu.profile.power;
    match id {
        185 if !power.averaged => Err(Code::NOT_SUPPORTED),
        185 => Ok(view.average_power_mw()),
        186 => Ok(view.instant_power_mw()),
        187 => Ok(power.min_limit),
        188 => Ok(power.max_limit),
        189 => Ok(power.default_limit),
        _ => Ok(view.power_limit_mw()),
    }
}

/// Thresholds as distances, on Hopper: shutdown, slowdown, memory, GPU; values as recorded on an H100.
fn margin(view: &View, id: u32) -> Result<Value, Code> {
    if view.gpu.profile.architecture < Architecture::Hopper {
        return Err(Code::NOT_SUPPORTED);
    }
    Ok(SignedInt(match id {
        193 => -8,
        194 => -2,
        _ => 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NodeSpec;
    use crate::state::Node;

    fn field(model: &str, driver: &str, lines: &[&str], id: u32, scope: u32) -> Result<Value, Code> {
        let spec = NodeSpec {
            model: Some(model.to_owned()),
            driver: Some(driver.to_owned()),
            loaded_us: Some(0),
            ..NodeSpec::default()
        };
        let mut node = Node::new(&spec).unwrap();
        for line in lines {
            node.apply(serde_json::from_str(line).unwrap()).unwrap();
        }
        read(&View { node: &node, gpu: &node.gpus[0], mig: None, now_us: 10_000_000 }, id, scope)
    }

    const H100: &str = "NVIDIA H100 80GB HBM3";
    const BRAKE: &[&str] = &[r#"{"set":{"gpu":0,"at_us":9000000,"reading":"clocks_event_reasons","value":128}}"#];

    #[test]
    fn clock_event_counters_move_with_the_driver() {
        let second = Ok(UnsignedLongLong(1_000_000_000));
        assert_eq!(field(H100, "580.105.08", BRAKE, 271, 0), second);
        assert_eq!(field(H100, "580.105.08", BRAKE, 253, 0), Err(Code::NOT_SUPPORTED));
        assert_eq!(field(H100, "570.86.15", BRAKE, 253, 0), second);
        assert_eq!(field(H100, "570.86.15", BRAKE, 271, 0), Err(Code::INVALID_ARGUMENT), "its header ends before");
        assert_eq!(field(H100, "590.48.01", BRAKE, 74, 0), Ok(UnsignedLongLong(0)));
    }

    #[test]
    fn what_a_model_lacks_is_not_supported() {
        for (model, id) in
            [("Tesla T4", 82), ("Tesla T4", 143), (H100, 29), ("NVIDIA L4", 138), ("NVIDIA A100-SXM4-80GB", 185)]
        {
            assert_eq!(field(model, "580.105.08", &[], id, 0), Err(Code::NOT_SUPPORTED), "{model} {id}");
        }
        assert_eq!(field(H100, "580.105.08", &[], 9999, 0), Err(Code::INVALID_ARGUMENT));
        assert_eq!(field(H100, "580.105.08", &[], 138, 18), Err(Code::INVALID_ARGUMENT));
    }

    #[test]
    fn link_traffic_is_counted_in_kib_and_shared_by_the_links() {
        let line = r#"{"busy":{"gpu":0,"from_us":0,"to_us":1000000,"load":{"nvlink_tx":18432000}}}"#;
        assert_eq!(field(H100, "580.105.08", &[line], 138, ALL_LINKS), Ok(UnsignedLongLong(18_000)));
        assert_eq!(field(H100, "580.105.08", &[line], 138, 3), Ok(UnsignedLongLong(1_000)));
    }

    #[test]
    fn a_field_can_fail_alone() {
        let line = r#"{"fault":{"call":"field:82","code":"NO_DATA"}}"#;
        assert_eq!(field(H100, "580.105.08", &[line], 82, 0), Err(Code::NO_DATA));
        assert!(field(H100, "580.105.08", &[line], 83, 0).is_ok());
    }
}
