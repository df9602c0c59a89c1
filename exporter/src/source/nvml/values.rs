//! What is read of one GPU: plain values, each with its own reason to be absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::absent::{Absent, Reading};
use super::busy::Busy;
use super::clock_events::ClockEvents;
use crate::catalog::dcgm::{Call, Field, Read, Text};

/// The readings of one GPU: one per way of reading, in NVML's unit, whatever is made of it.
///
/// Field values are read every cycle, the rest every `SLOW_CYCLES` or `RARE_CYCLES`; those may be that much older than
/// the reading's age says. What needs two readings is not there before the second slow one.
#[derive(Clone, Debug)]
pub struct Values {
    readings: BTreeMap<Read, Reading<f64>>,
    /// Texts of the GPU and its driver, as they were when the GPU was opened.
    pub texts: Arc<BTreeMap<Text, String>>,
    /// NVLink between this GPU and others: index of the other, and NVML's code of the state.
    pub peers: Arc<Vec<(u32, u32)>>,
    /// Does the driver keep the GPU initialised when nobody uses it?
    pub persistence_mode: Reading<bool>,
    /// Can utilisation samples be drained?
    pub samples: Reading<()>,
    /// Can XID events be received?
    pub events: Reading<()>,
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
    /// How often reasons for the clocks were seen and set in.
    pub clock_events: ClockEvents,
    /// Completed reading cycles.
    pub cycles: u64,
}

/// Nothing is known before the first reading.
impl Default for Values {
    fn default() -> Self {
        Self {
            readings: BTreeMap::new(),
            texts: Arc::default(),
            peers: Arc::default(),
            persistence_mode: Err(Absent::NotSupported),
            samples: Err(Absent::NotSupported),
            events: Err(Absent::NotSupported),
        }
    }
}

impl Values {
    /// One reading, in NVML's unit. What is not read is not supported.
    pub fn get(&self, read: Read) -> Reading<f64> {
        self.readings.get(&read).copied().unwrap_or(Err(Absent::NotSupported))
    }

    /// What a field of NVML reads.
    pub fn field(&self, field: Field) -> Reading<f64> {
        self.get(Read::Field(field))
    }

    /// What a call of NVML reads.
    pub fn call(&self, call: Call) -> Reading<f64> {
        self.get(Read::Call(call))
    }

    /// Takes a reading, in NVML's unit.
    pub fn set(&mut self, read: Read, reading: Reading<f64>) {
        self.readings.insert(read, reading);
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
