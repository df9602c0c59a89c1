//! Health under our own names.

use std::collections::BTreeMap;

use nvml_wrapper_sys::bindings as sys;

use crate::source::nvml::health::PcieLink;
use crate::source::nvml::{Gpu, Reading, fields};
use goodput_catalog::dcgm::Call;
use goodput_catalog::{Metric, health as rows};
use goodput_exposition::Families;

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
pub(super) fn push(gpu: &Gpu, index: &str, peers: &Peers<'_>, out: &mut Families) {
    let (own, values) = ([index, gpu.uuid.as_str()], &gpu.values);
    let mut push = |row, label: &str, value: Reading<f64>| push_by(row, own, label, value, out);
    for (reason, nanoseconds) in fields::CLOCK_EVENTS {
        push(&rows::CLOCK_EVENT, reason, values.field(nanoseconds).map(|ns| ns / 1e9));
    }
    for (policy, nanoseconds) in fields::CLOCK_VIOLATIONS {
        push(&rows::CLOCK_VIOLATION, policy, values.field(nanoseconds).map(|ns| ns / 1e9));
    }
    for (kind, flag) in fields::RESETS {
        push(&rows::RESET_REQUIRED, kind, values.field(flag));
    }
    for (kind, errors) in fields::NVLINK_ERRORS {
        push(&rows::NVLINK_ERRORS, kind, values.field(errors));
    }
    for (spare, banks) in SPARE_ROWS {
        push(&rows::ROW_REMAP_BANKS, spare, values.call(banks));
    }
    if let Ok((up, down)) = values.health.links {
        push(&rows::NVLINK_LINKS, "up", Ok(f64::from(up)));
        push(&rows::NVLINK_LINKS, "down", Ok(f64::from(down)));
    }
    out.push(&rows::RETIRED_PENDING, &own, values.field(fields::RETIRED_PENDING).ok());
    push_pcie(gpu, own, peers, out);
    push_fabric(gpu, own, out);
}

/// Memory banks by how many of their spare rows are left.
const SPARE_ROWS: [(&str, Call); 5] = [
    ("max", Call::RemapMax),
    ("high", Call::RemapHigh),
    ("partial", Call::RemapPartial),
    ("low", Call::RemapLow),
    ("none", Call::RemapNone),
];

fn push_by(row: &'static Metric, [index, uuid]: [&str; 2], label: &str, value: Reading<f64>, out: &mut Families) {
    out.push(row, &[index, uuid, label], value.ok());
}

fn push_pcie(gpu: &Gpu, own: [&str; 2], Peers(peers): &Peers<'_>, out: &mut Families) {
    let (Some(link), Some(best)) = (gpu.values.health.busy_link, peers.get(gpu.model.as_str())) else { return };
    for (aspect, now, max, of_peers) in [
        ("generation", link.generation, gpu.values.call(Call::PcieGenerationMax), best.generation),
        ("width", link.width, gpu.values.call(Call::PcieWidthMax), best.width),
    ] {
        for (against, better) in [("max", max), ("peers", Ok(of_peers))] {
            let degraded = better.ok().map(|better| f64::from(u8::from(now < better)));
            out.push(&rows::PCIE_DEGRADED, &[own[0], own[1], aspect, against], degraded);
        }
    }
}

fn push_fabric(gpu: &Gpu, own: [&str; 2], out: &mut Families) {
    let Some(now) = gpu.values.call(Call::FabricStatus).ok().and_then(fabric_state) else { return };
    for state in ["not_started", "in_progress", "completed", "failed"] {
        push_by(&rows::FABRIC_STATE, own, state, Ok(f64::from(u8::from(state == now))), out);
    }
    let Ok(mask) = gpu.values.call(Call::FabricHealthMask) else { return };
    for (problem, there) in problems(mask as u32) {
        push_by(&rows::FABRIC_PROBLEM, own, problem, Ok(f64::from(u8::from(there))), out);
    }
}

/// `None` for a GPU that is in no fabric. A registration that ended in a failure has a code of its own, DCGM's.
fn fabric_state(status: f64) -> Option<&'static str> {
    match status as u32 {
        sys::NVML_GPU_FABRIC_STATE_NOT_STARTED => Some("not_started"),
        sys::NVML_GPU_FABRIC_STATE_IN_PROGRESS => Some("in_progress"),
        sys::NVML_GPU_FABRIC_STATE_COMPLETED => Some("completed"),
        4 => Some("failed"),
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
    fn every_state_of_the_fabric_has_a_name_and_no_fabric_none() {
        let names = [0.0, 1.0, 2.0, 3.0, 4.0].map(fabric_state);
        assert_eq!(names, [None, Some("not_started"), Some("in_progress"), Some("completed"), Some("failed")]);
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
