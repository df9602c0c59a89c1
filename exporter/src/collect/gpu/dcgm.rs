//! dcgm-exporter's families: one line per family.

use crate::catalog::{Metric, dcgm as rows, dcgm_events};
use crate::family::Families;
use crate::source::nvml::fields::{self, Field, GpmMetric};
use crate::source::nvml::{Absent, Gpu, Memory, Reading, Values};

/// Values of the labels that all of dcgm-exporter's GPU series have, in the order of the rows.
pub(super) type Labels<'a> = [&'a str; 7];

/// Values of the labels of the GPU's owner, in the order of the rows; empty where it has none, or several.
pub(super) type OwnerLabels<'a> = [&'a str; 4];

/// How a family's value is had from a reading, in the unit of its row.
type Get = fn(&Values) -> Reading<f64>;

static FAMILIES: &[(&Metric, Get)] = &[
    (&rows::SM_CLOCK, |v| v.sm_clock_mhz),
    (&rows::MEM_CLOCK, |v| v.memory_clock_mhz),
    (&rows::CLOCKS_EVENT_REASONS, |v| v.clock_event_reasons),
    (&rows::MEMORY_TEMP, Values::memory_temperature),
    (&rows::GPU_TEMP, |v| v.temperature_celsius),
    (&rows::POWER_USAGE, |v| v.power_watts),
    (&rows::POWER_USAGE_INSTANT, |v| watts(v, fields::POWER_INSTANT)),
    (&rows::TOTAL_ENERGY, |v| v.field(fields::ENERGY)),
    (&rows::POWER_LIMIT, |v| watts(v, fields::POWER_LIMIT_REQUESTED)),
    (&rows::POWER_LIMIT_MIN, |v| watts(v, fields::POWER_LIMIT_MIN)),
    (&rows::POWER_LIMIT_MAX, |v| watts(v, fields::POWER_LIMIT_MAX)),
    (&rows::POWER_LIMIT_DEFAULT, |v| watts(v, fields::POWER_LIMIT_DEFAULT)),
    (&rows::ENFORCED_POWER_LIMIT, |v| watts(v, fields::POWER_LIMIT_ENFORCED)),
    (&rows::PCIE_REPLAY, |v| v.field(fields::PCIE_REPLAY)),
    (&rows::PCIE_LINK_GEN, |v| v.pcie_gen),
    (&rows::PCIE_LINK_WIDTH, |v| v.pcie_width),
    (&rows::PCIE_MAX_LINK_GEN, |v| v.pcie_gen_max),
    (&rows::PCIE_MAX_LINK_WIDTH, |v| v.pcie_width_max),
    (&rows::GPU_UTIL, |v| v.gpu_util_percent),
    (&rows::MEM_COPY_UTIL, |v| v.memory_util_percent),
    (&rows::ENC_UTIL, |v| v.encoder_util_percent),
    (&rows::DEC_UTIL, |v| v.decoder_util_percent),
    (&rows::POWER_VIOLATION, |v| v.field(fields::VIOLATION_POWER)),
    (&rows::THERMAL_VIOLATION, |v| v.field(fields::VIOLATION_THERMAL)),
    (&rows::SYNC_BOOST_VIOLATION, |v| v.field(fields::VIOLATION_SYNC_BOOST)),
    (&rows::BOARD_LIMIT_VIOLATION, |v| v.field(fields::VIOLATION_BOARD_LIMIT)),
    (&rows::LOW_UTIL_VIOLATION, |v| v.field(fields::VIOLATION_LOW_UTILIZATION)),
    (&rows::RELIABILITY_VIOLATION, |v| v.field(fields::VIOLATION_RELIABILITY)),
    (&rows::FB_TOTAL, |v| mebibytes(v, |m| m.total)),
    (&rows::FB_FREE, |v| mebibytes(v, |m| m.free)),
    (&rows::FB_USED, |v| mebibytes(v, |m| m.used)),
    (&rows::FB_RESERVED, |v| mebibytes(v, |m| m.reserved)),
    (&rows::FB_USED_PERCENT, used_share),
    (&rows::ECC_SBE_VOL, |v| v.field(fields::ECC_SBE_VOLATILE)),
    (&rows::ECC_DBE_VOL, |v| v.field(fields::ECC_DBE_VOLATILE)),
    (&rows::ECC_SBE_AGG, |v| v.field(fields::ECC_SBE_AGGREGATE)),
    (&rows::ECC_DBE_AGG, |v| v.field(fields::ECC_DBE_AGGREGATE)),
    (&rows::RETIRED_SBE, |v| v.field(fields::RETIRED_SBE)),
    (&rows::RETIRED_DBE, |v| v.field(fields::RETIRED_DBE)),
    (&rows::RETIRED_PENDING, |v| v.field(fields::RETIRED_PENDING)),
    (&rows::UNCORRECTABLE_REMAPPED_ROWS, |v| v.field(fields::REMAPPED_UNCORRECTABLE)),
    (&rows::CORRECTABLE_REMAPPED_ROWS, |v| v.field(fields::REMAPPED_CORRECTABLE)),
    (&rows::ROW_REMAP_FAILURE, |v| v.field(fields::REMAP_FAILURE)),
    (&rows::ROW_REMAP_PENDING, |v| v.field(fields::REMAP_PENDING)),
    (&rows::NVLINK_CRC_FLIT, |v| v.field(fields::NVLINK_CRC_FLIT)),
    (&rows::NVLINK_CRC_DATA, |v| v.field(fields::NVLINK_CRC_DATA)),
    (&rows::NVLINK_REPLAY, |v| v.field(fields::NVLINK_REPLAY)),
    (&rows::NVLINK_RECOVERY, |v| v.field(fields::NVLINK_RECOVERY)),
    (&rows::NVLINK_BANDWIDTH, |v| v.nvlink_bytes_per_second.map(|rate| rate / 1e6)),
    (&rows::PROF_GR_ENGINE_ACTIVE, |v| share(v, fields::GPM_GRAPHICS_ACTIVE)),
    (&rows::PROF_SM_ACTIVE, |v| share(v, fields::GPM_SM_ACTIVE)),
    (&rows::PROF_SM_OCCUPANCY, |v| share(v, fields::GPM_SM_OCCUPANCY)),
    (&rows::PROF_TENSOR_ACTIVE, |v| share(v, fields::GPM_TENSOR_ACTIVE)),
    (&rows::PROF_DRAM_ACTIVE, |v| share(v, fields::GPM_DRAM_ACTIVE)),
    (&rows::PROF_FP64_ACTIVE, |v| share(v, fields::GPM_FP64_ACTIVE)),
    (&rows::PROF_FP32_ACTIVE, |v| share(v, fields::GPM_FP32_ACTIVE)),
    (&rows::PROF_FP16_ACTIVE, |v| share(v, fields::GPM_FP16_ACTIVE)),
    (&rows::PROF_PCIE_TX, |v| bytes_per_second(v, fields::GPM_PCIE_TX)),
    (&rows::PROF_PCIE_RX, |v| bytes_per_second(v, fields::GPM_PCIE_RX)),
    (&rows::PROF_NVLINK_TX, |v| bytes_per_second(v, fields::GPM_NVLINK_TX)),
    (&rows::PROF_NVLINK_RX, |v| bytes_per_second(v, fields::GPM_NVLINK_RX)),
];

/// Writes the readings of a GPU or of a MIG instance; `optional` are the rows' optional labels.
pub(super) fn push(values: &Values, labels: &Labels<'_>, optional: &[&str], out: &mut Families) {
    for (metric, get) in FAMILIES {
        out.push_with(metric, labels, optional, get(values).ok());
    }
}

/// Writes what samples of the clock event reasons showed.
pub(super) fn push_clock_events(gpu: &Gpu, labels: &Labels<'_>, owner: &OwnerLabels<'_>, out: &mut Families) {
    let events = &gpu.totals.clock_events;
    for (reason, samples, begun) in events.counts().filter(|_| !events.is_empty()) {
        let labels: Vec<_> = labels.iter().copied().chain([reason]).collect();
        out.push_with(&dcgm_events::CLOCK_EVENTS_TOTAL, &labels, owner, begun as f64);
        let labels: Vec<_> = labels.into_iter().chain([super::xid::WINDOW_MS]).collect();
        out.push_with(&dcgm_events::CLOCK_EVENTS_COUNT, &labels, owner, samples as f64);
    }
}

fn watts(values: &Values, milliwatts: Field) -> Reading<f64> {
    values.field(milliwatts).map(|mw| mw / 1000.0)
}

/// Whole MiB, rounded down as DCGM does.
fn mebibytes(values: &Values, part: fn(Memory) -> u64) -> Reading<f64> {
    values.memory.map(|memory| (part(memory) >> 20) as f64)
}

fn used_share(values: &Values) -> Reading<f64> {
    let memory = values.memory?;
    let usable = memory.total.checked_sub(memory.reserved).filter(|bytes| *bytes > 0).ok_or(Absent::NotSupported)?;
    Ok(memory.used as f64 / usable as f64)
}

fn share(values: &Values, percent: GpmMetric) -> Reading<f64> {
    values.gpm(percent).map(|p| p / 100.0)
}

fn bytes_per_second(values: &Values, mebibytes: GpmMetric) -> Reading<f64> {
    values.gpm(mebibytes).map(|rate| rate * f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_written() {
        for row in rows::ROWS {
            let by_table = FAMILIES.iter().any(|(metric, _)| metric.name == row.name);
            let by_hand = [rows::XID_ERRORS.name, rows::XID_ERRORS_TOTAL.name].contains(&row.name);
            assert!(by_table != by_hand, "{}", row.name);
        }
    }
}
