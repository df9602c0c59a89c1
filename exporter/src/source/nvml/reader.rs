//! One GPU's reader: makes all calls about that GPU, cycle by cycle.

mod lasting;
mod limits;
mod sampling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::absent::{Absent, Reading};
use super::busy::Integrator;
use super::calls::{ASKS, Ask, Pace};
use super::fields::{MEMORY_TEMPERATURE, POWER_AVERAGE, POWER_INSTANT, Plan, driver_number, entries, nvlink_data};
use super::mig::{self, Mig};
use super::power::Meter;
use super::raw::{self, Contexts, Layout};
use super::readers::CYCLE;
use super::shared::{Shared, Slot};
use super::values::{Totals, Values};
use super::{Process, merge};
use goodput_catalog::dcgm::{Call, Field, ROWS, Read, Scope};
use lasting::identify;
use sampling::Profiler;

/// Cycles between readings of what an owner or a forecast is made of: three per 15 s scrape; it is also the span that
/// GPM averages over.
const SLOW_CYCLES: u64 = 5;

/// Cycles between readings of gauges that a scrape shows once: each 15 s scrape still has a new value.
const RARE_CYCLES: u64 = 10;

/// Cycles between readings of what moves with a GPU's power state, or does not affect jobs here: as often as
/// dcgm-exporter collects by default.
const RAREST_CYCLES: u64 = 30;

/// Cycles between readings of what only an administrator changes.
const SETTING_CYCLES: u64 = 60;

/// Cycles between readings of what changes only when the node is rewired.
const PEER_CYCLES: u64 = 600;

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
    fn next(&self, since: Duration) -> Self {
        let by_clock = (since + CYCLE / 2).as_secs() / CYCLE.as_secs();
        Self { before: Some(self.cycle), cycle: by_clock.max(self.cycle + 1) }
    }

    fn every(&self, cycles: u64) -> bool {
        self.before.is_none_or(|before| before / cycles < self.cycle / cycles)
    }
}

pub(super) struct Reader<'a> {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    device: Device<'a>,
    gpm: Reading<Profiler<'a>>,
    mig: Mig<'a>,
    integrator: Integrator,
    power: Meter,
    opened: Instant,
    /// What the last cycle has read; `None` before the first, and where something else is to be read.
    due: Option<Due>,
    totals: Totals,
    values: Values,
    compute: Reading<Vec<Process>>,
    others: Vec<Process>,
    /// Bytes over NVLink at the last look, by scope.
    nvlink: BTreeMap<Scope, (Instant, f64)>,
    nvml: &'a Nvml,
    plan: Arc<Plan>,
    /// How the driver lists processes.
    layout: Layout,
    /// Power limits that no field gives.
    limits: Vec<(Field, Reading<f64>)>,
    /// Readings that have been named as absurd.
    named: BTreeSet<Read>,
    /// Entries of one field-values call, field by field of the plan.
    batch: Vec<(u32, u32)>,
    /// How many of the entries belong to each field.
    batch_sizes: Vec<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn open(shared: &Arc<Shared>, nvml: &'a Nvml, slot: &Arc<Slot>) -> Reading<Self> {
        let device = shared.call(&slot.clock, || nvml.device_by_index(slot.index))?;
        let identity = identify(shared, slot, &device)?;
        let totals = shared.totals(&identity.uuid);
        shared.identify(slot, identity)?;
        shared.announce(slot);
        let mut reader = Self {
            shared: Arc::clone(shared),
            slot: Arc::clone(slot),
            gpm: shared.call(&slot.clock, || Profiler::open(&device)),
            mig: Mig::default(),
            integrator: Integrator::resume(totals.busy.clone()),
            power: Meter::resume(totals.power.clone()),
            opened: shared.time.now(),
            due: None,
            totals,
            values: Values::default(),
            compute: Err(Absent::NotSupported),
            others: Vec::new(),
            nvlink: BTreeMap::new(),
            nvml,
            plan: shared.plan(),
            layout: Layout::default(),
            limits: Vec::new(),
            named: BTreeSet::new(),
            batch: Vec::new(),
            batch_sizes: Vec::new(),
            device,
        };
        reader.follow_plan()?;
        Ok(reader)
    }

    /// Prepares what the plan asks for on this driver.
    fn follow_plan(&mut self) -> Reading<()> {
        let driver = self.wrapped(|_| self.nvml.sys_driver_version())?;
        let driver = driver_number(&driver);
        self.layout = Layout::of(driver);
        self.batch = self.plan.fields.iter().flat_map(|field| entries(*field, driver)).collect();
        self.batch_sizes = self.plan.fields.iter().map(|field| entries(*field, driver).count()).collect();
        if let Ok(profiler) = &mut self.gpm {
            profiler.want(&self.plan.gpm);
        }
        self.ask_all(|ask| ask.pace == Pace::Once);
        self.read_texts();
        self.due = None;
        Ok(())
    }

    /// One cycle.
    pub(super) fn read(&mut self) -> Reading<()> {
        let began = self.shared.time.now();
        let plan = self.shared.plan();
        if !Arc::ptr_eq(&plan, &self.plan) {
            self.plan = plan;
            self.follow_plan()?;
        }
        let due = self.due.as_ref().map_or_else(Due::first, |due| due.next(began.duration_since(self.opened)));
        self.cycle(&due, began)?;
        self.due = Some(due);
        Ok(())
    }

    fn cycle(&mut self, due: &Due, began: Instant) -> Reading<()> {
        // The batch is what tells whether the GPU is there; everything else may be missing one by one.
        self.read_fields()?;
        self.derive();
        self.sample(due, began);
        if due.every(SLOW_CYCLES) {
            self.read_slow(began);
            self.read_mig(due.every(RAREST_CYCLES));
        }
        if due.every(RARE_CYCLES) {
            self.read_rare();
        }
        if due.every(RAREST_CYCLES) {
            self.read_rarest();
        }
        if due.every(SETTING_CYCLES) {
            self.read_settings(due)?;
        }
        self.totals.busy.clone_from(&self.integrator.busy);
        self.totals.power.clone_from(&self.power.power);
        self.totals.cycles += 1;
        self.name_absurd();
        let processes = self.compute.as_ref().map(|c| merge(c, &self.others)).map_err(|e| *e);
        self.slot.clock.check()?;
        self.shared.publish(&self.slot, began, self.values.clone(), processes, &self.totals);
        Ok(())
    }

    /// Counts what the driver gave and cannot be, and names each kind of it once.
    fn name_absurd(&mut self) {
        let absurd = self.values.take_absurd().into_iter().chain(self.mig.take_absurd());
        for (read, value) in absurd {
            self.totals.absurd = self.totals.absurd.saturating_add(1);
            if self.named.insert(read) {
                let of = ROWS.iter().find(|row| row.read == read).map_or("a reading", |row| row.legacy.name);
                let gpu = self.slot.index;
                tracing::warn!(gpu, %value, ?read, "the driver's answer cannot be and is left out: {of}");
            }
        }
    }

    /// Reads all fields in one call. Of a field with an entry per link, the sum of the links that answer.
    fn read_fields(&mut self) -> Reading<()> {
        let answers = self.ask(|d| raw::field_values(d, &self.batch))?;
        let mut answers = answers.into_iter();
        for (field, size) in self.plan.fields.iter().zip(&self.batch_sizes) {
            let read = Read::Field(*field);
            let entries =
                answers.by_ref().take(*size).map(|entry| entry.and_then(|value| self.values.admit(read, value)));
            let sum = total(entries);
            self.values.set(read, sum);
        }
        Ok(())
    }

    /// Makes those of the calls that give anything the selection wants.
    fn ask_all(&mut self, which: impl Fn(&Ask) -> bool) {
        let plan = Arc::clone(&self.plan);
        for ask in ASKS.iter().filter(|ask| which(ask) && plan.wants(ask.gives)) {
            let answer = self.ask(|device| (ask.read)(device));
            self.values.set_calls(ask.gives, answer);
        }
    }

    fn read_slow(&mut self, now: Instant) {
        self.ask_all(|ask| ask.pace == Pace::Slow);
        if let Ok(reasons) = self.values.call(Call::ClockEventReasons) {
            self.totals.clock_events.note(reasons as u64);
        }
        self.compute = self.ask(|d| raw::processes(d, Contexts::Compute, self.layout));
        for scope in Arc::clone(&self.plan).rates() {
            let rate = self.nvlink_rate(scope, now);
            self.values.set(Read::NvlinkRate(scope), rate);
        }
    }

    fn read_rare(&mut self) {
        self.ask_all(|ask| ask.pace == Pace::Rare);
        let [graphics, mps] =
            [Contexts::Graphics, Contexts::Mps].map(|list| self.ask(|d| raw::processes(d, list, self.layout)));
        self.values.mps_clients = mps.as_ref().map(Vec::len).map_err(|why| *why);
        let clients = mps.into_iter().flatten().map(|process| Process { mps: true, ..process });
        self.others = graphics.into_iter().flatten().chain(clients).collect();
    }

    fn read_rarest(&mut self) {
        self.ask_all(|ask| ask.pace == Pace::Rarest);
        // In a cycle that has just read the utilization, too.
        let [util, generation, width] =
            [Call::GpuUtilization, Call::PcieGeneration, Call::PcieWidth].map(|call| self.values.call(call));
        self.values.health.judge_link(util, generation, width);
    }

    fn read_mig(&mut self, look: bool) {
        let gpu = mig::Parent { shared: &self.shared, slot: &self.slot, device: &self.device, layout: self.layout };
        self.mig.read(&gpu, look, &mut self.compute, &mut self.totals.instances);
        self.values.mig_mode = self.mig.mode();
        self.values.mig_slices = self.mig.slices();
        self.values.instances = self.mig.instances();
    }

    /// Readings that are made of others.
    fn derive(&mut self) {
        self.show_limits();
        let plan = Arc::clone(&self.plan);
        let wanted = |call| plan.has(Read::Call(call));
        if wanted(Call::Power) {
            let milliwatts = self.power();
            self.values.set(Read::Call(Call::Power), milliwatts);
        }
        if wanted(Call::MemoryTemperature) {
            let celsius = self.values.field(MEMORY_TEMPERATURE);
            // The driver says 0 where the board has no sensor.
            let celsius = celsius.and_then(|c| if c == 0.0 { Err(Absent::NotSupported) } else { Ok(c) });
            self.values.set(Read::Call(Call::MemoryTemperature), celsius);
        }
    }

    /// The average where the driver has one, as `nvmlDeviceGetPowerUsage` gives it; else what that call gives.
    fn power(&self) -> Reading<f64> {
        let milliwatts = self.values.field(POWER_AVERAGE).or_else(|_| self.values.field(POWER_INSTANT));
        milliwatts.or_else(|_| self.number(|d| d.power_usage()))
    }

    /// Bytes per second in both directions; the counters are in KiB.
    fn nvlink_rate(&mut self, scope: Scope, now: Instant) -> Reading<f64> {
        let [sent, received] = nvlink_data(scope).map(|(_, field)| self.values.field(field));
        let bytes = (sent? + received?) * 1024.0;
        let (then, before) = self.nvlink.insert(scope, (now, bytes)).ok_or(Absent::NotSupported)?;
        if bytes < before {
            return Err(Absent::UNKNOWN);
        }
        Ok((bytes - before) / now.duration_since(then).as_secs_f64())
    }

    fn ask<T>(&self, call: impl FnOnce(&Device<'a>) -> Reading<T>) -> Reading<T> {
        self.shared.ask(&self.slot, || call(&self.device))
    }

    fn wrapped<T>(&self, call: impl FnOnce(&Device<'a>) -> Result<T, NvmlError>) -> Reading<T> {
        self.ask(|device| call(device).map_err(Absent::from))
    }

    fn number(&self, call: impl FnOnce(&Device<'a>) -> Result<u32, NvmlError>) -> Reading<f64> {
        self.wrapped(call).map(f64::from)
    }
}

/// The sum of the entries that answer; where none does, why the first does not.
fn total(entries: impl Iterator<Item = Reading<f64>>) -> Reading<f64> {
    let add = |sum: Reading<f64>, next: Reading<f64>| match (sum, next) {
        (Ok(sum), Ok(next)) => Ok(sum + next),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
        (Err(why), Err(_)) => Err(why),
    };
    entries.reduce(add).unwrap_or(Err(Absent::NotSupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which something is due every `every` cycles, of cycles that begin at these milliseconds.
    fn due(every: u64, begun: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut due = Due::first();
        let mut seconds = vec![0];
        for ms in begun {
            due = due.next(Duration::from_millis(ms));
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
