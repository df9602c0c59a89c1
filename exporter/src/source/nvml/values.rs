//! What is read of one GPU: plain values, each with its own reason to be absent.

use std::collections::BTreeMap;

use super::absent::{Absent, Reading};
use super::busy::Busy;
use super::fields::{BATCH, Field, GPM_METRICS, GpmMetric};

/// The readings of one GPU.
///
/// Field values are read every cycle, the rest every `SLOW_CYCLES` or `RARE_CYCLES`; those may be that much older than
/// the reading's age says. What needs two readings is not there before the second slow one.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) fields: Vec<Reading<f64>>,
    pub(crate) gpm: Vec<Reading<f64>>,
    /// Percent of the driver's sampling window in which a kernel ran.
    pub gpu_util_percent: Reading<f64>,
    /// Percent of the driver's sampling window in which device memory was accessed.
    pub memory_util_percent: Reading<f64>,
    /// Percent.
    pub encoder_util_percent: Reading<f64>,
    /// Percent.
    pub decoder_util_percent: Reading<f64>,
    /// Device memory.
    pub memory: Reading<Memory>,
    /// Celsius.
    pub temperature_celsius: Reading<f64>,
    /// Watts; averaged over 1 s where the driver does so.
    pub power_watts: Reading<f64>,
    /// MHz.
    pub sm_clock_mhz: Reading<f64>,
    /// MHz.
    pub memory_clock_mhz: Reading<f64>,
    /// Bit mask of `nvmlClocksEventReason*`.
    pub clock_event_reasons: Reading<f64>,
    /// PCIe generation of the link as it is now.
    pub pcie_gen: Reading<f64>,
    /// Lanes of the link as it is now.
    pub pcie_width: Reading<f64>,
    /// PCIe generation that GPU and slot can do.
    pub pcie_gen_max: Reading<f64>,
    /// Lanes that GPU and slot can do.
    pub pcie_width_max: Reading<f64>,
    /// NVLink payload of all links, both directions, bytes per second over the last slow period.
    pub nvlink_bytes_per_second: Reading<f64>,
    /// Does the driver keep the GPU initialised when nobody uses it?
    pub persistence_mode: Reading<bool>,
    /// Can utilisation samples be drained?
    pub samples: Reading<()>,
    /// Can XID events be received?
    pub events: Reading<()>,
}

/// Device memory, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Held by processes.
    pub used: u64,
    /// Held by driver and firmware.
    pub reserved: u64,
}

/// Totals of one GPU since the exporter's start; they survive a reload of the driver.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Busy and observed time, idle gaps.
    pub busy: Busy,
    /// XID events by code.
    pub xids: BTreeMap<u64, u64>,
    /// The last XID.
    pub last_xid: Option<u64>,
    /// Completed reading cycles.
    pub cycles: u64,
}

/// Nothing is known before the first reading.
impl Default for Values {
    fn default() -> Self {
        const NONE: Reading<f64> = Err(Absent::NotSupported);
        Self {
            fields: vec![NONE; BATCH.len()],
            gpm: vec![NONE; GPM_METRICS.len()],
            gpu_util_percent: NONE,
            memory_util_percent: NONE,
            encoder_util_percent: NONE,
            decoder_util_percent: NONE,
            memory: Err(Absent::NotSupported),
            temperature_celsius: NONE,
            power_watts: NONE,
            sm_clock_mhz: NONE,
            memory_clock_mhz: NONE,
            clock_event_reasons: NONE,
            pcie_gen: NONE,
            pcie_width: NONE,
            pcie_gen_max: NONE,
            pcie_width_max: NONE,
            nvlink_bytes_per_second: NONE,
            persistence_mode: Err(Absent::NotSupported),
            samples: Err(Absent::NotSupported),
            events: Err(Absent::NotSupported),
        }
    }
}

impl Values {
    /// The value of one field of the batch, in NVML's unit.
    pub fn field(&self, field: Field) -> Reading<f64> {
        by_position(BATCH, field, &self.fields)
    }

    /// Takes the value of one field of the batch, in NVML's unit.
    pub fn set_field(&mut self, field: Field, reading: Reading<f64>) {
        if let Some(place) = BATCH.iter().position(|f| *f == field).and_then(|i| self.fields.get_mut(i)) {
            *place = reading;
        }
    }

    /// The value of one GPM metric: percent or MiB/s, averaged over the last slow period.
    pub fn gpm(&self, metric: GpmMetric) -> Reading<f64> {
        by_position(GPM_METRICS, metric, &self.gpm)
    }

    /// Celsius. The driver says 0 where the board has no sensor.
    pub fn memory_temperature(&self) -> Reading<f64> {
        match self.field(super::fields::MEMORY_TEMPERATURE)? {
            0.0 => Err(Absent::NotSupported),
            celsius => Ok(celsius),
        }
    }
}

impl Totals {
    /// Distinct XID codes kept; NVIDIA's list has about 175, a GPU meets a handful.
    const XID_CODES: usize = 64;

    pub(super) fn count_xid(&mut self, code: u64) {
        self.last_xid = Some(code);
        if self.xids.len() < Self::XID_CODES || self.xids.contains_key(&code) {
            *self.xids.entry(code).or_default() += 1;
        }
    }
}

fn by_position<K: PartialEq>(keys: &[K], key: K, values: &[Reading<f64>]) -> Reading<f64> {
    let position = keys.iter().position(|k| *k == key);
    position.and_then(|i| values.get(i)).copied().unwrap_or(Err(Absent::NotSupported))
}
