//! What is read of one GPU: plain values, each with its own reason to be absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::absent::{Absent, Reading};
use super::activity::Activity;
use super::busy::Busy;
use super::clock_events::ClockEvents;
use super::health::Health;
use super::mig::{Instance, InstanceTotals, MigMode};
use super::power::Power;
use crate::catalog::dcgm::{Call, Field, Read, Text};

/// The readings of one GPU: one per way of reading, in NVML's unit, whatever is made of it.
///
/// Field values are read every cycle, the rest at the pace of [`super::calls`]; those may be that much older than the
/// reading's age says. What needs two readings is not there before the second.
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
    /// Is the GPU cut up into MIG instances?
    pub mig_mode: Reading<MigMode>,
    /// Its GPU instances, in order of id.
    pub instances: Vec<Arc<Instance>>,
    /// What tells of its health beside readings.
    pub health: Health,
}

/// Totals of one GPU since the exporter's start; they survive a reload of the driver.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Busy and observed time, idle gaps.
    pub busy: Busy,
    /// Moments of power.
    pub power: Power,
    /// What GPM adds up to.
    pub activity: Activity,
    /// Totals of the GPU's MIG instances.
    pub instances: InstanceTotals,
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
            mig_mode: Err(Absent::NotSupported),
            instances: Vec::new(),
            health: Health::default(),
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

    /// Is it worth asking for again: not had, for a reason that may pass?
    pub(super) fn is_missing(&self, read: Read) -> bool {
        self.get(read).is_err_and(|why| why != Absent::NotSupported)
    }

    /// Takes a reading, in NVML's unit.
    pub fn set(&mut self, read: Read, reading: Reading<f64>) {
        self.readings.insert(read, reading);
    }
}
