//! What is read of one GPU: plain values, each with its own reason to be absent.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use nvml_wrapper::enum_wrappers::device::ComputeMode;

use super::absent::{Absent, Reading};
use super::activity::{Activity, SHARE_MOST};
use super::busy::Busy;
use super::clock_events::ClockEvents;
use super::health::Health;
use super::mig::{Instance, InstanceTotals, MigMode};
use super::power::Power;
use goodput_catalog::dcgm::{Call, Field, Read, Text};

/// The readings of one GPU: one per way of reading, in NVML's unit, whatever is made of it.
///
/// Field values are read every cycle, the rest at the pace of [`super::calls`]; those may be that much older than the
/// reading's age says. What needs two readings is not there before the second.
#[derive(Clone, Debug)]
pub struct Values {
    /// In the order of `Read`. Each snapshot copies them once a second, which a flat list makes cheap.
    readings: Vec<(Read, Reading<f64>)>,
    /// What the driver gave and cannot be, until the reader has named it.
    absurd: Vec<(Read, f64)>,
    /// Texts of the GPU and its driver, as they were when the GPU was opened.
    pub texts: Arc<BTreeMap<Text, String>>,
    /// NVLink between this GPU and others: index of the other, and NVML's code of the state.
    pub peers: Arc<Vec<(u32, u32)>>,
    /// Does the driver keep the GPU initialised when no process uses it?
    pub persistence_mode: Reading<bool>,
    /// Who may use the GPU?
    pub compute_mode: Reading<ComputeMode>,
    /// Can utilisation samples be drained?
    pub samples: Reading<()>,
    /// Is the GPU cut up into MIG instances?
    pub mig_mode: Reading<MigMode>,
    /// How many slices it can be cut into, while it is.
    pub mig_slices: Option<u32>,
    /// Its GPU instances, in order of id.
    pub instances: Vec<Arc<Instance>>,
    /// How many of its processes are clients of an MPS server.
    pub mps_clients: Reading<usize>,
    /// Its health, apart from readings.
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
    /// Answers of the driver that cannot be.
    pub absurd: u64,
}

/// Nothing is known before the first reading.
impl Default for Values {
    fn default() -> Self {
        Self {
            readings: Vec::new(),
            absurd: Vec::new(),
            texts: Arc::default(),
            peers: Arc::default(),
            persistence_mode: Err(Absent::NotSupported),
            compute_mode: Err(Absent::NotSupported),
            samples: Err(Absent::NotSupported),
            mps_clients: Err(Absent::NotSupported),
            mig_mode: Err(Absent::NotSupported),
            mig_slices: None,
            instances: Vec::new(),
            health: Health::default(),
        }
    }
}

impl Values {
    /// One reading, in NVML's unit. What is not read is not supported.
    pub fn get(&self, read: Read) -> Reading<f64> {
        self.place(read).map_or(Err(Absent::NotSupported), |at| self.readings[at].1)
    }

    /// Where the reading is, else where it would be.
    fn place(&self, read: Read) -> Result<usize, usize> {
        self.readings.binary_search_by(|(known, _)| known.cmp(&read))
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

    /// Takes what one call gives, in its order. A failure is one of all of it; what is missing at the end is not given.
    pub(super) fn set_calls(&mut self, gives: &[Call], answer: Reading<Vec<f64>>) {
        for (i, call) in gives.iter().enumerate() {
            let value = answer.as_ref().map_err(|why| *why);
            let value = value.and_then(|values| values.get(i).copied().ok_or(Absent::NotSupported));
            self.set(Read::Call(*call), value);
        }
    }

    /// Takes GPM's answers for these metrics; a failure is one of them all.
    pub(super) fn set_gpm(&mut self, ids: &[u32], answers: Reading<Vec<Reading<f64>>>) {
        let answers = answers.unwrap_or_else(|why| vec![Err(why); ids.len()]);
        for (id, answer) in ids.iter().zip(answers) {
            self.set(Read::Gpm(*id), answer);
        }
    }

    /// What cannot be is absent. The counters behind a share are not read at the very same moment: a full one may come out as
    /// a little more.
    pub(super) fn admit(&mut self, read: Read, value: f64) -> Reading<f64> {
        let range = read.plausible();
        if range.contains(&value) {
            return Ok(value);
        }
        let is_full = matches!(read, Read::Gpm(_)) && *range.end() == 100.0 && (100.0..=SHARE_MOST).contains(&value);
        if is_full {
            return Ok(100.0);
        }
        self.absurd.push((read, value));
        Err(Absent::UNKNOWN)
    }

    /// What was not admitted since this was asked last.
    pub(super) fn take_absurd(&mut self) -> Vec<(Read, f64)> {
        std::mem::take(&mut self.absurd)
    }

    /// Takes a reading, in NVML's unit.
    pub fn set(&mut self, read: Read, reading: Reading<f64>) {
        let reading = reading.and_then(|value| self.admit(read, value));
        match self.place(read) {
            Ok(at) => self.readings[at].1 = reading,
            Err(at) => self.readings.insert(at, (read, reading)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_absent_and_told_once() {
        let mut values = Values::default();
        let (share, power) = (Read::Gpm(1), Read::Call(Call::Power));
        for (read, value, kept) in [
            (share, 42.0, Ok(42.0)),
            (share, 101.5, Ok(100.0)),
            (share, 250.0, Err(Absent::UNKNOWN)),
            (share, f64::NAN, Err(Absent::UNKNOWN)),
            (power, 113_611.0, Ok(113_611.0)),
            (power, 4_294_967_295.0, Err(Absent::UNKNOWN)),
        ] {
            values.set(read, Ok(value));
            assert_eq!(values.get(read), kept, "{value}");
        }
        assert_eq!(values.take_absurd().len(), 3);
        assert!(values.take_absurd().is_empty());
    }
}
