//! Health under our own names.

use std::collections::BTreeMap;

use nvml_wrapper_sys::bindings as sys;

use crate::catalog::{Metric, health as rows};
use crate::family::Families;
use crate::source::nvml::health::{self, Fabric, Health, PcieLink};
use crate::source::nvml::{Gpu, Reading, fields};

/// The best PCIe link that GPUs of each model were seen with while busy.
pub(super) struct Peers<'a>(BTreeMap<&'a str, PcieLink>);

impl<'a> Peers<'a> {
    pub(super) fn of(gpus: &'a [Gpu]) -> Self {
        let mut best: BTreeMap<&str, PcieLink> = BTreeMap::new();
        for gpu in gpus {
            let Some(link) = gpu.values.health.busy_link else { continue };
            let best = best.entry(&gpu.model).or_insert(link);
            best.generation = best.generation.max(link.generation);
            best.width = best.width.max(link.width);
        }
        Self(best)
    }
}

/// Writes the readings.
pub(super) fn push(gpu: &Gpu, index: &str, driver: &str, peers: &Peers<'_>, out: &mut Families) {
    let (own, health) = ([index, gpu.uuid.as_str()], &*gpu.values.health);
    push_clocks(gpu, index, driver, out);
    out.push(&rows::RETIRED_PENDING, &own, gpu.values.field(fields::RETIRED_PENDING).ok());
    for (kind, field) in [("reset", health::RESET), ("drain_and_reset", health::DRAIN_AND_RESET)] {
        push_by(&rows::RESET_REQUIRED, own, kind, health.field(field), out);
    }
    for (spare, banks) in ["max", "high", "partial", "low", "none"].into_iter().zip(health.banks.into_iter().flatten())
    {
        push_by(&rows::ROW_REMAP_BANKS, own, spare, Ok(f64::from(banks)), out);
    }
    for (kind, field) in [
        ("crc_flit", fields::NVLINK_CRC_FLIT),
        ("crc_data", fields::NVLINK_CRC_DATA),
        ("replay", fields::NVLINK_REPLAY),
        ("recovery", fields::NVLINK_RECOVERY),
    ] {
        push_by(&rows::NVLINK_ERRORS, own, kind, gpu.values.field(field), out);
    }
    if let Ok((up, down)) = health.links {
        push_by(&rows::NVLINK_LINKS, own, "up", Ok(f64::from(up)), out);
        push_by(&rows::NVLINK_LINKS, own, "down", Ok(f64::from(down)), out);
    }
    push_pcie(gpu, own, peers, out);
    push_fabric(health, own, out);
}

fn push_by(row: &'static Metric, [index, uuid]: [&str; 2], label: &str, value: Reading<f64>, out: &mut Families) {
    out.push(row, &[index, uuid, label], value.ok());
}

/// Nanoseconds as seconds.
fn push_clocks(gpu: &Gpu, index: &str, driver: &str, out: &mut Families) {
    let (own, values, health) = ([index, gpu.uuid.as_str()], &gpu.values, &gpu.values.health);
    let seconds = |nanoseconds: Reading<f64>| nanoseconds.map(|ns| ns / 1e9);
    let [sw_thermal, hw_thermal, hw_power_brake] = match renumbered(driver) {
        true => [health::SW_THERMAL, health::HW_THERMAL, health::HW_POWER_BRAKE],
        false => [health::SW_THERMAL_OLD, health::HW_THERMAL_OLD, health::HW_POWER_BRAKE_OLD],
    };
    for (reason, nanoseconds) in [
        ("power_cap", values.field(fields::VIOLATION_POWER)),
        ("sync_boost", values.field(fields::VIOLATION_SYNC_BOOST)),
        ("sw_thermal", health.field(sw_thermal)),
        ("hw_thermal", health.field(hw_thermal)),
        ("hw_power_brake", health.field(hw_power_brake)),
    ] {
        push_by(&rows::CLOCK_EVENT, own, reason, seconds(nanoseconds), out);
    }
    for (policy, nanoseconds) in [
        ("thermal", values.field(fields::VIOLATION_THERMAL)),
        ("board_limit", values.field(fields::VIOLATION_BOARD_LIMIT)),
        ("low_utilization", values.field(fields::VIOLATION_LOW_UTILIZATION)),
        ("reliability", values.field(fields::VIOLATION_RELIABILITY)),
        ("application_clocks", health.field(health::VIOLATION_APP_CLOCKS)),
        ("base_clocks", health.field(health::VIOLATION_BASE_CLOCKS)),
    ] {
        push_by(&rows::CLOCK_VIOLATION, own, policy, seconds(nanoseconds), out);
    }
}

/// Does this driver number the clock event counters as 580.82 and later do?
fn renumbered(driver: &str) -> bool {
    let mut parts = driver.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(580), Some(82))
}

fn push_pcie(gpu: &Gpu, own: [&str; 2], Peers(peers): &Peers<'_>, out: &mut Families) {
    let (Some(link), Some(best)) = (gpu.values.health.busy_link, peers.get(gpu.model.as_str())) else { return };
    for (aspect, now, max, of_peers) in [
        ("generation", link.generation, gpu.values.pcie_gen_max, best.generation),
        ("width", link.width, gpu.values.pcie_width_max, best.width),
    ] {
        for (against, better) in [("max", max), ("peers", Ok(of_peers))] {
            let degraded = better.ok().map(|better| f64::from(u8::from(now < better)));
            out.push(&rows::PCIE_DEGRADED, &[own[0], own[1], aspect, against], degraded);
        }
    }
}

fn push_fabric(health: &Health, own: [&str; 2], out: &mut Families) {
    let Ok(fabric) = health.fabric else { return };
    let Some(now) = fabric_state(fabric) else { return };
    for state in ["not_started", "in_progress", "completed", "failed"] {
        push_by(&rows::FABRIC_STATE, own, state, Ok(f64::from(u8::from(state == now))), out);
    }
    for (problem, there) in problems(fabric.health_mask) {
        push_by(&rows::FABRIC_PROBLEM, own, problem, Ok(f64::from(u8::from(there))), out);
    }
}

/// `None` for a GPU that is in no fabric.
fn fabric_state(fabric: Fabric) -> Option<&'static str> {
    match u32::from(fabric.state) {
        sys::NVML_GPU_FABRIC_STATE_NOT_STARTED => Some("not_started"),
        sys::NVML_GPU_FABRIC_STATE_IN_PROGRESS => Some("in_progress"),
        sys::NVML_GPU_FABRIC_STATE_COMPLETED if fabric.status == 0 => Some("completed"),
        sys::NVML_GPU_FABRIC_STATE_COMPLETED => Some("failed"),
        _ => None,
    }
}

/// What the mask says of each problem: 1 for there, 2 for not there, 0 for not told. The configuration is 1 when right, and
/// anything above is what is wrong with it.
fn problems(mask: u32) -> impl Iterator<Item = (&'static str, bool)> {
    let bits = move |shift: u32, width: u32| Some(mask >> shift & width).filter(|value| *value != 0);
    let flags = [
        ("degraded_bandwidth", sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW),
        ("route_recovery", sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY),
        ("route_unhealthy", sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY),
        ("access_timeout_recovery", sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY),
    ];
    let flags = flags.into_iter().map(move |(name, shift)| (name, bits(shift, 3).map(|value| value == 1)));
    let shift = sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION;
    let configuration = bits(shift, sys::NVML_GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION);
    let right = sys::NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE;
    let all = flags.chain([("incorrect_configuration", configuration.map(|value| value != right))]);
    all.filter_map(|(name, there)| Some((name, there?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_events_are_renumbered_from_one_version_on() {
        for (driver, expected) in
            [("570.86.15", false), ("580.65.06", false), ("580.82.07", true), ("590.48.01", true), ("", false)]
        {
            assert_eq!(renumbered(driver), expected, "{driver}");
        }
    }

    #[test]
    fn a_fabric_is_completed_only_if_it_went_well() {
        let fabric = |state, status| fabric_state(Fabric { state, status, health_mask: 0 });
        assert_eq!([fabric(0, 0), fabric(1, 0), fabric(2, 0)], [None, Some("not_started"), Some("in_progress")]);
        assert_eq!([fabric(3, 0), fabric(3, 999)], [Some("completed"), Some("failed")]);
    }

    #[test]
    fn the_health_mask_tells_what_it_knows() {
        let all = |mask| problems(mask).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        // Bandwidth degraded, no route recovery, no insufficient NVLinks told, configuration right.
        assert_eq!(
            all(1 | 2 << 2 | 1 << 8),
            [("degraded_bandwidth", true), ("route_recovery", false), ("incorrect_configuration", false)]
        );
        assert_eq!(all(5 << 8), [("incorrect_configuration", true)]);
    }
}
