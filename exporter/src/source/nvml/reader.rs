//! One GPU's reader: the only thread that calls the driver about that GPU.

mod sampling;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::absent::{Absent, Reading};
use super::busy::Integrator;
use super::fields::{BATCH, NVLINK_DATA_RX, NVLINK_DATA_TX, POWER_AVERAGE, POWER_INSTANT};
use super::mig::{self, Mig};
use super::power::Meter;
use super::raw::{self, Contexts};
use super::retry::Retry;
use super::shared::{Generation, Identity, Shared, Slot};
use super::values::{Memory, Totals, Values};
use super::{Process, merge};
use sampling::Profiler;

/// One cycle reads the counters. One second keeps what a rate over one 15 s scrape interval can be off by to 1/15, and
/// is far from any usual scrape interval: a cycle as long as that would alias.
const CYCLE: Duration = Duration::from_secs(1);

/// What an owner or a forecast is made of is read every so many cycles, three times per 15 s scrape; it is also the span
/// that GPM averages over.
const SLOW_CYCLES: u64 = 5;

/// Gauges that a scrape shows once are read every so many cycles: each 15 s scrape still has a new value.
const RARE_CYCLES: u64 = 10;

/// What moves with a GPU's power state, or is nothing that jobs here live by, is read every so many cycles: as often as
/// dcgm-exporter collects unless told otherwise.
const RAREST_CYCLES: u64 = 30;

/// What only an administrator changes is read every so many cycles.
const SETTING_CYCLES: u64 = 60;

/// First pause before a lost or failing GPU is looked up again.
const RETRY: Duration = Duration::from_secs(2);

/// Longest such pause: two scrapes at the usual interval.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Reads until the generation ends; looks the GPU up anew whenever it fails.
pub(super) fn run(shared: &Shared, nvml: &Nvml, slot: &Slot, generation: Generation) {
    let mut retry = Retry::new(RETRY, RETRY_LONGEST);
    while shared.alive(generation) {
        let began = shared.time.now();
        let read = Reader::open(shared, nvml, slot, generation).and_then(|mut reader| reader.run());
        let Err(why) = read else { return };
        if why.is_driver_gone() {
            shared.end(generation);
            return;
        }
        shared.fail(slot, why);
        let now = shared.time.now();
        shared.pause(generation, now + retry.pause(now.duration_since(began)));
    }
}

/// What a cycle reads. Cycles are counted by the clock: where it has jumped, as an injected one does, one cycle stands for
/// all that lie in between.
struct Due {
    before: Option<u64>,
    cycle: u64,
}

impl Due {
    /// The first cycle reads everything.
    fn first() -> Self {
        Self { before: None, cycle: 0 }
    }

    /// The cycle that begins this long after the first.
    fn advance(&mut self, since: Duration) {
        let by_clock = (since + CYCLE / 2).as_secs() / CYCLE.as_secs();
        self.before = Some(self.cycle);
        self.cycle = by_clock.max(self.cycle + 1);
    }

    fn every(&self, cycles: u64) -> bool {
        self.before.is_none_or(|before| before / cycles < self.cycle / cycles)
    }
}

struct Reader<'a> {
    shared: &'a Shared,
    slot: &'a Slot,
    generation: Generation,
    device: Device<'a>,
    gpm: Reading<Profiler<'a>>,
    mig: Mig<'a>,
    integrator: Integrator,
    power: Meter,
    opened: Instant,
    totals: Totals,
    values: Values,
    compute: Reading<Vec<Process>>,
    others: Vec<Process>,
    nvlink: Option<(Instant, f64)>,
}

impl<'a> Reader<'a> {
    fn open(shared: &'a Shared, nvml: &'a Nvml, slot: &'a Slot, generation: Generation) -> Reading<Self> {
        let device = shared.call(&slot.clock, || nvml.device_by_index(slot.index))?;
        let identity = identify(shared, slot, &device)?;
        let totals = shared.totals(&identity.uuid);
        shared.identify(slot, identity)?;
        shared.announce(slot);
        Ok(Self {
            shared,
            slot,
            generation,
            gpm: shared.call(&slot.clock, || Profiler::open(&device)),
            mig: Mig::default(),
            integrator: Integrator::resume(totals.busy.clone()),
            power: Meter::resume(totals.power.clone()),
            opened: shared.time.now(),
            totals,
            values: Values::default(),
            compute: Err(Absent::NotSupported),
            others: Vec::new(),
            nvlink: None,
            device,
        })
    }

    /// Cycle by cycle, until the generation ends or the GPU fails.
    fn run(&mut self) -> Reading<()> {
        self.opened = self.shared.time.now();
        let mut began = self.opened;
        let mut due = Due::first();
        while self.shared.alive(self.generation) {
            self.cycle(&due, began)?;
            self.shared.pause(self.generation, began + CYCLE);
            began = self.shared.time.now();
            due.advance(began.duration_since(self.opened));
        }
        Ok(())
    }

    fn cycle(&mut self, due: &Due, began: Instant) -> Reading<()> {
        // The batch is what tells whether the GPU is there; everything else may be missing one by one.
        self.values.fields = self.ask(|d| raw::field_values(d, BATCH))?;
        self.values.power_watts = self.power_usage();
        self.sample(due, began);
        if due.every(SLOW_CYCLES) {
            self.read_slow(began);
            self.read_mig(due.every(RAREST_CYCLES));
        }
        if due.every(RARE_CYCLES) {
            self.read_rare();
            self.read_health(due);
        }
        if due.every(RAREST_CYCLES) {
            self.read_rarest();
        }
        if due.every(SETTING_CYCLES) {
            self.read_settings()?;
        }
        self.totals.busy.clone_from(&self.integrator.busy);
        self.totals.power.clone_from(&self.power.power);
        self.totals.cycles += 1;
        let processes = self.compute.as_ref().map(|c| merge(c, &self.others)).map_err(|e| *e);
        self.slot.clock.check()?;
        self.shared.publish(self.slot, began, self.values.clone(), processes, &self.totals);
        Ok(())
    }

    fn read_slow(&mut self, now: Instant) {
        let utilization = self.wrapped(|d| d.utilization_rates());
        self.values.gpu_util_percent = utilization.as_ref().map(|u| f64::from(u.gpu)).map_err(|e| *e);
        self.values.memory_util_percent = utilization.map(|u| f64::from(u.memory));
        self.values.memory = self.wrapped(|d| d.memory_info()).map(|m| Memory {
            total: m.total,
            free: m.free,
            used: m.used,
            reserved: m.reserved,
        });
        let reasons = self.ask(raw::clock_event_reasons);
        reasons.iter().for_each(|mask| self.totals.clock_events.sample(now, *mask));
        self.values.clock_event_reasons = reasons.map(|mask| mask as f64);
        self.compute = self.ask(|d| raw::processes(d, Contexts::Compute));
        self.values.nvlink_bytes_per_second = self.nvlink_rate(now);
    }

    fn read_mig(&mut self, look: bool) {
        let gpu = mig::Parent { shared: self.shared, slot: self.slot, device: &self.device };
        self.mig.read(&gpu, look, &mut self.compute, &mut self.totals.instances);
        self.values.mig_mode = self.mig.mode();
        self.values.instances = self.mig.instances();
    }

    fn read_rare(&mut self) {
        self.values.temperature_celsius = self.number(|d| d.temperature(TemperatureSensor::Gpu));
        self.values.sm_clock_mhz = self.number(|d| d.clock_info(Clock::SM));
        let lists = [Contexts::Graphics, Contexts::Mps].map(|list| self.ask(|d| raw::processes(d, list)));
        self.others = lists.into_iter().flatten().flatten().collect();
    }

    fn read_rarest(&mut self) {
        self.values.memory_clock_mhz = self.number(|d| d.clock_info(Clock::Memory));
        self.values.encoder_util_percent = self.number(|d| d.encoder_utilization().map(|u| u.utilization));
        self.values.decoder_util_percent = self.number(|d| d.decoder_utilization().map(|u| u.utilization));
        self.values.pcie_gen = self.number(|d| d.current_pcie_link_gen());
        self.values.pcie_width = self.number(|d| d.current_pcie_link_width());
        // In a cycle that has just read the utilization, too.
        let health = Arc::make_mut(&mut self.values.health);
        health.judge_link(self.values.gpu_util_percent, self.values.pcie_gen, self.values.pcie_width);
    }

    fn read_settings(&mut self) -> Reading<()> {
        self.values.persistence_mode = self.wrapped(|d| d.is_in_persistent_mode());
        self.values.pcie_gen_max = self.number(|d| d.max_pcie_link_gen());
        self.values.pcie_width_max = self.number(|d| d.max_pcie_link_width());
        if self.gpm.as_ref().is_err_and(|why| *why != Absent::NotSupported) {
            self.gpm = self.ask(Profiler::open);
        }
        if self.shared.is_half_identified(self.slot) {
            self.shared.identify(self.slot, identify(self.shared, self.slot, &self.device)?)?;
        }
        Ok(())
    }

    fn read_health(&mut self, due: &Due) {
        let health = Arc::make_mut(&mut self.values.health);
        health.read(self.shared, self.slot, &self.device);
        if due.every(SETTING_CYCLES) {
            health.read_slow(self.shared, self.slot, &self.device);
        }
    }

    /// The average where the driver has one, as `nvmlDeviceGetPowerUsage` gives it; else what that call gives.
    fn power_usage(&self) -> Reading<f64> {
        let milliwatts = self.values.field(POWER_AVERAGE).or_else(|_| self.values.field(POWER_INSTANT));
        milliwatts.or_else(|_| self.number(|d| d.power_usage())).map(|mw| mw / 1000.0)
    }

    /// Both directions; the counters are in KiB.
    fn nvlink_rate(&mut self, now: Instant) -> Reading<f64> {
        let bytes = (self.values.field(NVLINK_DATA_TX)? + self.values.field(NVLINK_DATA_RX)?) * 1024.0;
        let (then, before) = self.nvlink.replace((now, bytes)).ok_or(Absent::NotSupported)?;
        if bytes < before {
            return Err(Absent::UNKNOWN);
        }
        Ok((bytes - before) / now.duration_since(then).as_secs_f64())
    }

    fn ask<T>(&self, call: impl FnOnce(&Device<'a>) -> Reading<T>) -> Reading<T> {
        self.shared.ask(self.slot, || call(&self.device))
    }

    fn wrapped<T>(&self, call: impl FnOnce(&Device<'a>) -> Result<T, NvmlError>) -> Reading<T> {
        self.ask(|device| call(device).map_err(Absent::from))
    }

    fn number(&self, call: impl FnOnce(&Device<'a>) -> Result<u32, NvmlError>) -> Reading<f64> {
        self.wrapped(call).map(f64::from)
    }
}

fn identify(shared: &Shared, slot: &Slot, device: &Device<'_>) -> Reading<Identity> {
    let text = |call: &dyn Fn() -> Result<String, NvmlError>| shared.ask(slot, || call().map_err(Absent::from));
    Ok(Identity {
        uuid: text(&|| device.uuid())?,
        pci_bus_id: text(&|| device.pci_info().map(|pci| pci.bus_id))?.to_ascii_uppercase(),
        model: text(&|| device.name())?,
        minor: shared.call(&slot.clock, || device.minor_number()).map_err(Absent::from),
        serial: text(&|| device.serial()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which something is due every so many cycles, of cycles that begin at these milliseconds.
    fn due(every: u64, begun: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut due = Due::first();
        let mut seconds = vec![0];
        for ms in begun {
            due.advance(Duration::from_millis(ms));
            seconds.extend(due.every(every).then_some(ms / 1000));
        }
        seconds
    }

    #[test]
    fn cadences_hold_whether_cycles_are_early_late_or_far_apart() {
        assert_eq!(due(5, (1..=12).map(|s| s * 1000 - 1)), [0, 4, 9], "a wait ends up to a millisecond early");
        assert_eq!(due(5, (1..=12).map(|s| s * 1001)), [0, 5, 10]);
        assert_eq!(due(60, [60_000, 120_000, 180_000]), [0, 60, 120, 180], "every step of a minute reads everything");
        assert_eq!(due(5, [4000, 6000, 9000, 11_000]), [0, 6, 11]);
        assert_eq!(due(2, [1, 2, 3, 4].map(|_| 0)), [0, 0, 0], "a clock that stands still still counts cycles");
    }
}
