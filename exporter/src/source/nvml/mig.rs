//! The MIG instances of one GPU: who they are, and what each of them tells.
//!
//! A GPU instance has memory, activity (GPM, Hopper and later) and processes of its own, and its compute instances
//! share them; a compute instance in its GPU instance is a MIG device, which is what CUDA sees. NVML gives no
//! utilisation of either. No process can use a GPU instance without compute instances; it is not listed without root,
//! and not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::Process;
use super::absent::{Absent, Reading};
use super::activity::GRAPHICS_ACTIVE;
use super::calls;
use super::raw::{self, Contexts, Gpm, Layout};
use super::shared::{Shared, Slot};
use super::values::Values;
use goodput_catalog::dcgm::{Call, Read};

/// Whether a GPU is cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigMode {
    /// Now.
    pub current: bool,
    /// From the next reset of the GPU on.
    pub pending: bool,
}

/// One GPU instance, as last read.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// Its id on the GPU, dcgm-exporter's `GPU_I_ID`.
    pub id: u32,
    /// As dcgm-exporter's `GPU_I_PROFILE`, such as `3g.71gb`; the driver may not tell.
    pub profile: Option<String>,
    /// How many of the GPU's slices it has.
    pub slices: Option<u32>,
    /// Its MIG devices, in NVML's order.
    pub devices: Vec<MigDevice>,
    /// Its readings: memory and GPM alone.
    pub values: Values,
}

/// One compute instance in its GPU instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigDevice {
    /// `MIG-…`
    pub uuid: String,
    /// Id of the compute instance within the GPU instance.
    pub compute_instance: u32,
}

/// Totals of every GPU instance that a GPU has had, by id and profile. One that is created again goes on from them.
pub type InstanceTotals = BTreeMap<(u32, Option<String>), InstanceBusy>;

/// Busy time of a GPU instance: the integral of GPM's graphics activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceBusy {
    busy_us: u64,
    observed_us: u64,
}

impl InstanceBusy {
    /// Integral of activity over time, seconds.
    #[must_use]
    pub fn busy_seconds(&self) -> f64 {
        self.busy_us as f64 / 1e6
    }

    /// Time that the pairs of GPM samples cover, seconds.
    #[must_use]
    pub fn observed_seconds(&self) -> f64 {
        self.observed_us as f64 / 1e6
    }

    /// Adds a stretch with its average activity. An activity that cannot be is none: its stretch is not observed.
    fn add(&mut self, stretch: Duration, percent: f64) {
        if (0.0..=100.0).contains(&percent) {
            let micros = u64::try_from(stretch.as_micros()).unwrap_or(u64::MAX);
            self.observed_us = self.observed_us.saturating_add(micros);
            self.busy_us = self.busy_us.saturating_add((micros as f64 * percent / 100.0) as u64);
        }
    }
}

/// More MIG devices or slices than any GPU has; a number above it is no answer.
const MOST_DEVICES: u32 = 64;

/// Both numbers are 0 or 1; anything above is no answer.
fn mode(current: u32, pending: u32) -> Reading<MigMode> {
    match (current, pending) {
        (0 | 1, 0 | 1) => Ok(MigMode { current: current == 1, pending: pending == 1 }),
        _ => Err(Absent::UNKNOWN),
    }
}

/// The GPU that the instances are of, and how it is asked.
pub(super) struct Parent<'s, 'nvml> {
    pub(super) shared: &'s Shared,
    pub(super) slot: &'s Slot,
    pub(super) device: &'s Device<'nvml>,
    pub(super) layout: Layout,
}

impl<'nvml> Parent<'_, 'nvml> {
    fn ask<T>(&self, call: impl FnOnce() -> Reading<T>) -> Reading<T> {
        self.shared.ask(self.slot, call)
    }

    fn wrapped<T>(&self, call: impl FnOnce() -> Result<T, NvmlError>) -> Reading<T> {
        self.ask(|| call().map_err(Absent::from))
    }
}

/// The instances of one GPU, as its reader holds them.
pub(super) struct Mig<'nvml> {
    mode: Reading<MigMode>,
    /// The most MIG devices that the GPU can have; asked until the driver has answered.
    most: Option<u32>,
    parts: Vec<Part<'nvml>>,
    /// GPU instances that processes are said to be on, and that a look has not found.
    strangers: BTreeSet<u32>,
    /// Why MIG devices cannot be read, where they cannot.
    refused: Option<Absent>,
    /// Was the last look incomplete for a reason that may pass?
    again: bool,
}

/// One GPU instance.
struct Part<'nvml> {
    held: Vec<Held<'nvml>>,
    instance: Instance,
    gpm: Reading<Gpm<'nvml>>,
    /// When its newest GPM sample was taken.
    sampled: Option<Instant>,
}

/// The handle of one MIG device, and whose it is.
struct Held<'nvml> {
    device: Device<'nvml>,
    name: Option<String>,
    gpu_instance: u32,
    public: MigDevice,
}

impl Default for Mig<'_> {
    fn default() -> Self {
        let mode = Err(Absent::NotSupported);
        Self { mode, most: None, parts: Vec::new(), strangers: BTreeSet::new(), refused: None, again: false }
    }
}

impl<'nvml> Mig<'nvml> {
    pub(super) fn mode(&self) -> Reading<MigMode> {
        self.mode
    }

    /// How many slices the GPU can be cut into, while it is: as many as it can have MIG devices.
    pub(super) fn slices(&self) -> Option<u32> {
        self.most.filter(|most| *most > 0 && self.mode.is_ok_and(|mode| mode.current))
    }

    /// What the instances' readings gave and cannot be.
    pub(super) fn take_absurd(&mut self) -> Vec<(Read, f64)> {
        self.parts.iter_mut().flat_map(|part| part.instance.values.take_absurd()).collect()
    }

    pub(super) fn instances(&self) -> Vec<Arc<Instance>> {
        self.parts.iter().map(|part| Arc::new(part.instance.clone())).collect()
    }

    /// Reads every instance. Looks first what there is when told to, when the last look was incomplete, when a process is on
    /// an instance that is not known, and when one does not answer any more.
    pub(super) fn read(
        &mut self,
        gpu: &Parent<'_, 'nvml>,
        look: bool,
        compute: &mut Reading<Vec<Process>>,
        totals: &mut InstanceTotals,
    ) {
        if look || self.again || !self.unknown(compute).is_subset(&self.strangers) {
            self.look(gpu);
        }
        if !self.read_memory(gpu) {
            self.look(gpu);
            self.read_memory(gpu);
        }
        for part in &mut self.parts {
            part.read_gpm(gpu, totals);
        }
        if *compute == Err(Absent::NotPermitted) && !self.parts.is_empty() {
            *compute = self.processes(gpu);
        }
        self.strangers = self.unknown(compute);
    }

    /// The instances of processes that are none of the known.
    fn unknown(&self, compute: &Reading<Vec<Process>>) -> BTreeSet<u32> {
        let named = compute.iter().flatten().filter_map(|process| process.instance);
        named.filter(|id| self.parts.iter().all(|part| part.instance.id != *id)).collect()
    }

    /// Finds out the mode and the instances. One that is as before keeps its readings.
    fn look(&mut self, gpu: &Parent<'_, 'nvml>) {
        let mode = gpu.wrapped(|| gpu.device.mig_mode()).and_then(|bits| mode(bits.current, bits.pending));
        self.again = mode.is_err_and(Absent::may_pass);
        if self.again && self.mode.is_ok() {
            // What was found before stands until the driver says otherwise.
            return;
        }
        self.mode = mode;
        let mut found: BTreeMap<u32, Vec<Held<'nvml>>> = BTreeMap::new();
        if self.mode.is_ok_and(|mode| mode.current) {
            for held in self.devices(gpu) {
                found.entry(held.gpu_instance).or_default().push(held);
            }
        }
        let mut before = std::mem::take(&mut self.parts);
        let count = before.len();
        let part = |(id, held): (u32, Vec<Held<'nvml>>)| match before.iter().position(|part| part.is(id, &held)) {
            Some(position) => Part { held, ..before.swap_remove(position) },
            None => Part::new(gpu, id, held),
        };
        self.parts = found.into_iter().map(part).collect();
        if self.again {
            // Devices that did not tell who they are may be theirs.
            let here = |part: &Part<'_>| self.parts.iter().any(|other| other.instance.id == part.instance.id);
            let (_, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut before).into_iter().partition(here);
            self.parts.extend(kept);
            self.parts.sort_by_key(|part| part.instance.id);
        }
        if !before.is_empty() || self.parts.len() != count {
            tracing::info!(gpu = gpu.slot.index, instances = self.parts.len(), "the gpu's mig instances have changed");
        }
    }

    /// Every MIG device that is there and tells who it is.
    fn devices(&mut self, gpu: &Parent<'_, 'nvml>) -> Vec<Held<'nvml>> {
        let (mut devices, mut refused) = (Vec::new(), None);
        if self.most.is_none() {
            match gpu.wrapped(|| gpu.device.mig_device_count()) {
                Ok(most) => self.most = Some(most).filter(|most| *most <= MOST_DEVICES),
                Err(why) => refused = Some(why),
            }
        }
        for index in 0..self.most.unwrap_or(0) {
            let device = gpu.ask(|| match gpu.device.mig_device_by_index(index) {
                Err(NvmlError::NotFound) => Ok(None),
                found => found.map(Some).map_err(Absent::from),
            });
            match device.and_then(|device| device.map(|device| self.hold(gpu, device)).transpose()) {
                Ok(held) => devices.extend(held),
                Err(why) => refused = Some(why),
            }
        }
        self.again |= refused.is_some_and(Absent::may_pass);
        if self.refused != refused {
            self.refused = refused;
            if let Some(why) = refused {
                tracing::warn!(gpu = gpu.slot.index, ?why, "some mig devices of the gpu cannot be read");
            }
        }
        devices
    }

    /// Who the device is. The driver makes UUIDs of the ids, so that a known one of the same name has the same ids.
    fn hold(&self, gpu: &Parent<'_, 'nvml>, device: Device<'nvml>) -> Reading<Held<'nvml>> {
        let uuid = gpu.wrapped(|| device.uuid())?;
        let name = gpu.wrapped(|| device.name()).ok();
        let known = self.parts.iter().flat_map(|part| &part.held).find(|h| h.public.uuid == uuid && h.name == name);
        let (gpu_instance, compute_instance) = match known {
            Some(known) => (known.gpu_instance, known.public.compute_instance),
            None => {
                let of_gpu = gpu.ask(|| raw::gpu_instance_id(&device))?;
                (of_gpu, gpu.ask(|| raw::compute_instance_id(&device))?)
            }
        };
        Ok(Held { device, name, gpu_instance, public: MigDevice { uuid, compute_instance } })
    }

    /// Says whether every instance is still there. One that is not is forgotten: its successor may look the same.
    fn read_memory(&mut self, gpu: &Parent<'_, 'nvml>) -> bool {
        let count = self.parts.len();
        self.parts.retain_mut(|part| {
            let told = part.instance.values.call(Call::MemoryTotal).is_ok();
            part.read_memory(gpu);
            !told || part.instance.values.call(Call::MemoryTotal).is_ok()
        });
        self.parts.len() == count
    }

    /// The processes by asking every MIG device: all of the GPU are only told to the privileged.
    fn processes(&self, gpu: &Parent<'_, 'nvml>) -> Reading<Vec<Process>> {
        let mut all = Vec::new();
        for held in self.parts.iter().flat_map(|part| &part.held) {
            let here = gpu.ask(|| raw::processes(&held.device, Contexts::Compute, gpu.layout))?;
            all.extend(here.into_iter().map(|process| Process { instance: Some(held.gpu_instance), ..process }));
        }
        Ok(all)
    }
}

impl<'nvml> Part<'nvml> {
    fn new(gpu: &Parent<'_, 'nvml>, id: u32, held: Vec<Held<'nvml>>) -> Self {
        let first = held.first();
        let attributes = first.and_then(|first| gpu.wrapped(|| first.device.attributes()).ok());
        let instance = Instance {
            id,
            profile: first.and_then(|first| profile(first.name.as_deref()?)).map(str::to_owned),
            slices: attributes.map(|attributes| attributes.gpu_instance_slice_count).filter(|n| *n <= MOST_DEVICES),
            devices: held.iter().map(|held| held.public.clone()).collect(),
            values: Values::default(),
        };
        Self { held, instance, gpm: gpu.ask(|| Gpm::open(gpu.device)), sampled: None }
    }

    /// Is it the instance of that id and these devices?
    fn is(&self, id: u32, held: &[Held<'_>]) -> bool {
        let same = |(a, b): (&Held<'_>, &Held<'_>)| a.public == b.public && a.name == b.name;
        self.instance.id == id && self.held.len() == held.len() && self.held.iter().zip(held).all(same)
    }

    fn read_memory(&mut self, gpu: &Parent<'_, 'nvml>) {
        let Some(first) = self.held.first() else { return };
        let answer = gpu.ask(|| calls::memory(&first.device));
        self.instance.values.set_calls(calls::MEMORY, answer);
    }

    fn read_gpm(&mut self, gpu: &Parent<'_, 'nvml>, totals: &mut InstanceTotals) {
        if self.gpm.as_ref().is_err_and(|why| why.may_pass()) {
            self.gpm = gpu.ask(|| Gpm::open(gpu.device));
        }
        let Ok(gpm) = &mut self.gpm else { return };
        let plan = gpu.shared.plan();
        let ids = &plan.gpm;
        let instance = &mut self.instance;
        let now = gpu.shared.time.now();
        let taken = gpu.ask(|| gpm.sample_instance(gpu.device, instance.id));
        let before = std::mem::replace(&mut self.sampled, taken.is_ok().then_some(now));
        let read = match (taken, before) {
            (Ok(()), None) => return,
            (Ok(()), Some(_)) => gpu.ask(|| gpm.metrics(ids)),
            (Err(why), _) => Err(why),
        };
        instance.values.set_gpm(ids, read);
        if let (Some(before), Ok(percent)) = (before, instance.values.get(Read::Gpm(GRAPHICS_ACTIVE))) {
            let total = totals.entry((instance.id, instance.profile.clone())).or_default();
            total.add(now.duration_since(before), percent);
        }
    }
}

/// The GPU instance's profile in the name of a MIG device, such as `NVIDIA H200 MIG 1c.3g.71gb`: without the part of the
/// compute instance, which is there when it does not fill the GPU instance.
fn profile(name: &str) -> Option<&str> {
    let (_, profile) = name.rsplit_once(" MIG ")?;
    let is_compute = |part: &str| part.strip_suffix('c').is_some_and(|slices| slices.parse::<u32>().is_ok());
    match profile.split_once('.') {
        Some((part, rest)) if is_compute(part) => Some(rest),
        _ => Some(profile),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_those_of_the_gpu_instance() {
        for (name, expected) in [
            ("NVIDIA H200 MIG 1c.3g.71gb", Some("3g.71gb")),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", Some("1g.5gb")),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", Some("1g.10gb+me")),
            ("NVIDIA H200", None),
        ] {
            assert_eq!(profile(name), expected, "{name}");
        }
    }

    #[test]
    fn busy_time_is_never_more_than_what_was_observed() {
        let mut busy = InstanceBusy::default();
        busy.add(Duration::from_secs(5), 40.0);
        busy.add(Duration::from_secs(5), 100.0);
        assert_eq!((busy.busy_seconds(), busy.observed_seconds()), (7.0, 10.0));
        for nonsense in [-1.0, 100.1, f64::NAN, f64::INFINITY] {
            busy.add(Duration::from_secs(5), nonsense);
        }
        assert_eq!((busy.busy_seconds(), busy.observed_seconds()), (7.0, 10.0));
    }
}
