//! The node as the event log describes it: a pure fold of events.

use crate::code::Code;
use crate::event::*;
use crate::guest::Virtualization;
use crate::mig::{self, Layout};
use crate::profile::{self, Profile};
use crate::work::{Channel, Grid, Levels, Timeline};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The driver of a node that names none: one of the production branch with the field numbering of CUDA 13.0 Update 1.
const DRIVER: &str = "580.105.08";
const CUDA: i32 = 13_000;
/// A driver loaded at no stated time has been up since 2026-01-01, so that all readers agree on energy.
const LOADED_US: u64 = 1_767_225_600_000_000;

/// Everything the library answers from.
#[derive(Debug)]
pub(crate) struct Node {
    pub driver: String,
    pub cuda: i32,
    pub loaded: bool,
    pub loaded_us: u64,
    pub sample_epoch_us: u64,
    pub dry_when_idle: bool,
    /// The ring buffers of utilization.
    pub utilization: Grid,
    /// That of power.
    pub power: Grid,
    /// Does GPM have counters that run from the boot on?
    pub gpm_counters: bool,
    pub virtualization: Virtualization,
    /// What the clock shows while it is fixed.
    fixed_us: Option<u64>,
    /// How often the driver was loaded; what an older load handed out is stale.
    pub generation: u64,
    pub cpus: Vec<String>,
    pub gpus: Vec<Gpu>,
    /// In the order of the log.
    pub xids: Vec<Xid>,
    /// How often the call counts were asked for.
    pub counts_asked: u64,
    faults: Vec<(Match, Code)>,
    hangs: Vec<(Match, Option<u64>)>,
    /// The newest serial number of a MIG device.
    mig_serial: usize,
}

/// One GPU of the node.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub index: usize,
    pub profile: &'static Profile,
    pub pci: PciAddress,
    pub numa: u32,
    pub uuid: String,
    pub serial: String,
    pub lost: bool,
    /// Is the driver bound to it?
    pub bound: bool,
    pub work: Timeline,
    pub work_by_pid: BTreeMap<u32, Timeline>,
    pub processes: BTreeMap<u32, Process>,
    pub mig: Layout,
    /// Values given to fields, by id and scope, and to GPM metrics.
    pub fields: BTreeMap<(u32, Option<u32>), f64>,
    pub gpm: BTreeMap<u32, f64>,
    open: BTreeMap<String, Work>,
    readings: BTreeMap<Reading, Vec<(u64, Option<f64>)>>,
}

/// Work as it counts for its process, for its MIG instance and for the whole GPU.
#[derive(Debug)]
struct Work {
    pid: Option<u32>,
    /// Serial of the GPU instance: one that comes in its place has none of this.
    instance: Option<usize>,
    levels: Levels,
    of_gpu: Levels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PciAddress {
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub function: u32,
}

impl PciAddress {
    /// `DDDD:BB:DD.F`, with a domain of any length, in either case.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let hex = |part: &str| u32::from_str_radix(part, 16).ok();
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let address =
                PciAddress { domain: hex(domain)?, bus: hex(bus)?, device: hex(device)?, function: hex(function)? };
            (address.bus < 256 && address.device < 32 && address.function < 8).then_some(address)
        };
        parse().ok_or_else(|| format!("bad PCI address {text:?}, expected such as 0000:19:00.0"))
    }
}

fn grid(usual: Grid, key: &str, period_us: Option<u64>) -> Result<Grid, String> {
    period_us.map_or(Ok(usual), |us| usual.with_period(key, us))
}

impl Node {
    /// Eight idle H100, or what the spec says.
    pub(crate) fn new(spec: &NodeSpec) -> Result<Self, String> {
        let profile = match &spec.model {
            Some(model) => profile::find(model)?,
            None => &profile::PROFILES[0],
        };
        let count = spec.count.unwrap_or(spec.gpus.len().max(profile.slots.len()));
        let default = GpuSpec::default();
        let gpus = (0..count).map(|i| Gpu::new(i, profile, spec.gpus.get(i).unwrap_or(&default)));
        Ok(Node {
            driver: spec.driver.clone().unwrap_or_else(|| DRIVER.to_owned()),
            cuda: spec.cuda.unwrap_or(CUDA),
            loaded: true,
            loaded_us: spec.loaded_us.unwrap_or(LOADED_US),
            sample_epoch_us: spec.sample_epoch_us.unwrap_or(0),
            dry_when_idle: spec.dry_when_idle,
            utilization: grid(Grid::UTILIZATION, "sample_period_us", spec.sample_period_us)?,
            power: grid(Grid::POWER, "power_sample_period_us", spec.power_sample_period_us)?,
            gpm_counters: spec.gpm_counters,
            virtualization: spec.virtualization,
            fixed_us: None,
            generation: 0,
            cpus: spec.cpus.clone().unwrap_or_else(|| profile.cpus.iter().map(|c| (*c).to_owned()).collect()),
            gpus: gpus.collect::<Result<_, _>>()?,
            xids: Vec::new(),
            counts_asked: 0,
            faults: Vec::new(),
            hangs: Vec::new(),
            mig_serial: 0,
        })
    }

    /// Applies one line of the log.
    pub(crate) fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Node(_) => return Err("the node line must be the first".to_owned()),
            Event::Busy(busy) => self.gpu(busy.gpu)?.busy(&busy)?,
            Event::Start(start) => self.gpu(start.gpu)?.start(&start)?,
            Event::Stop(stop) => self.gpu(stop.gpu)?.stop(&stop.id, stop.at_us),
            Event::Process(process) => _ = self.gpu(process.gpu)?.processes.insert(process.pid, process),
            Event::Exit(exit) => self.gpu(exit.gpu)?.exit(exit.pid, exit.at_us),
            Event::Set(set) => self.gpu(set.gpu)?.set(&set),
            Event::Field(field) => {
                _ = self.gpu(field.gpu)?.fields.insert((field.id, field.scope), field.value);
            }
            Event::Gpm(metric) => _ = self.gpu(metric.gpu)?.gpm.insert(metric.id, metric.value),
            Event::Xid(xid) => {
                self.gpu(xid.gpu)?;
                self.xids.push(xid);
            }
            Event::Lose(target) => self.gpu(target.gpu)?.lost = true,
            Event::Find(target) => self.gpu(target.gpu)?.lost = false,
            Event::Unbind(target) => self.gpu(target.gpu)?.bound = false,
            Event::Bind(target) => self.gpu(target.gpu)?.bound = true,
            Event::Unload(_) => self.loaded = false,
            Event::Load(load) => self.load(load),
            Event::Fault(fault) => self.faults.push((Match { call: fault.call, gpu: fault.gpu }, fault.code)),
            Event::Hang(hang) => self.hangs.push((Match { call: hang.call, gpu: hang.gpu }, hang.for_us)),
            Event::Clear(gone) => {
                self.faults.retain(|(match_, _)| *match_ != gone);
                self.hangs.retain(|(match_, _)| *match_ != gone);
            }
            Event::Count(_) => self.counts_asked += 1,
            Event::Clock(clock) => self.fixed_us = clock.now_us,
            Event::Mig(mig) => self.change_mig(&mig)?,
        }
        Ok(())
    }

    /// Microseconds since 1970 by the driver's clock.
    pub(crate) fn now_us(&self) -> u64 {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64);
        self.fixed_us.unwrap_or_else(wall)
    }

    /// The GPUs that the driver lists, in the order of their NVML indices.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter(|gpu| gpu.bound)
    }

    fn gpu(&mut self, index: usize) -> Result<&mut Gpu, String> {
        let count = self.gpus.len();
        self.gpus.get_mut(index).ok_or_else(|| format!("no GPU {index}, the node has {count}"))
    }

    fn change_mig(&mut self, line: &Mig) -> Result<(), String> {
        let mut serial = self.mig_serial;
        let gpu = self.gpu(line.gpu)?;
        gpu.mig.change(line, gpu.profile, &mut serial)?;
        self.mig_serial = serial;
        Ok(())
    }

    fn load(&mut self, load: Load) {
        self.loaded = true;
        self.loaded_us = load.at_us;
        self.generation += 1;
        self.driver = load.driver.unwrap_or_else(|| std::mem::take(&mut self.driver));
    }

    /// The injected return code of the call, the newest line first.
    pub(crate) fn fault(&self, call: &str, gpu: Option<usize>) -> Option<Code> {
        self.faults.iter().rev().find(|(match_, _)| match_.hits(call, gpu)).map(|(_, code)| *code)
    }

    /// Whether any call or field answers with an error.
    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Whether the call hangs, and for how long if not until cleared.
    pub(crate) fn hang(&self, call: &str, gpu: Option<usize>) -> Option<Option<u64>> {
        self.hangs.iter().rev().find(|(match_, _)| match_.hits(call, gpu)).map(|(_, for_us)| *for_us)
    }
}

impl Gpu {
    fn new(index: usize, profile: &'static Profile, spec: &GpuSpec) -> Result<Self, String> {
        let (pci, numa) = match (&spec.pci, profile.slots.get(index)) {
            (Some(pci), slot) => (pci.as_str(), slot.map_or(0, |(_, numa)| *numa)),
            (None, Some((pci, numa))) => (*pci, *numa),
            (None, None) => return Err(format!("GPU {index} needs a pci address: {} has none to offer", profile.name)),
        };
        let id = profile.pci_id.0 >> 16;
        Ok(Gpu {
            index,
            profile,
            pci: PciAddress::parse(pci)?,
            numa: spec.numa.unwrap_or(numa),
            uuid: spec.uuid.clone().unwrap_or_else(|| format!("GPU-{id:08x}-0000-4000-8000-{index:012x}")),
            serial: spec.serial.clone().unwrap_or_else(|| format!("165{index:010}")),
            lost: false,
            bound: true,
            work: Timeline::default(),
            work_by_pid: BTreeMap::new(),
            processes: BTreeMap::new(),
            mig: Layout::default(),
            fields: BTreeMap::new(),
            gpm: BTreeMap::new(),
            open: BTreeMap::new(),
            readings: BTreeMap::new(),
        })
    }

    fn busy(&mut self, busy: &Busy) -> Result<(), String> {
        if busy.to_us < busy.from_us {
            return Err(format!("busy ends at {} before it begins at {}", busy.to_us, busy.from_us));
        }
        let work = self.work_of(busy.pid, busy.instance, &busy.load)?;
        self.timelines(&work).for_each(|(t, levels)| t.begin(busy.from_us, Some(busy.to_us), levels));
        Ok(())
    }

    fn start(&mut self, start: &Start) -> Result<(), String> {
        if self.open.contains_key(&start.id) {
            return Err(format!("work {:?} is started twice on GPU {}", start.id, self.index));
        }
        let work = self.work_of(start.pid, start.instance, &start.load)?;
        self.timelines(&work).for_each(|(t, levels)| t.begin(start.at_us, None, levels));
        self.open.insert(start.id.clone(), work);
        Ok(())
    }

    fn stop(&mut self, id: &str, at_us: u64) {
        if let Some(work) = self.open.remove(id) {
            self.timelines(&work).for_each(|(t, levels)| t.end(at_us, levels));
        }
    }

    /// The driver takes a dead process off the GPU, with the work it had open.
    fn exit(&mut self, pid: u32, at_us: u64) {
        self.processes.remove(&pid);
        let ids: Vec<_> =
            self.open.iter().filter(|(_, work)| work.pid == Some(pid)).map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.stop(id, at_us));
    }

    /// The work of an instance is of the whole GPU as much as the instance's slices are.
    fn work_of(&self, pid: Option<u32>, instance: Option<u32>, load: &BTreeMap<Channel, f64>) -> Result<Work, String> {
        let levels = Levels::from_load(load)?;
        let find = |id| self.mig.instance(id).ok_or_else(|| format!("GPU {} has no GPU instance {id}", self.index));
        let instance = instance.map(find).transpose()?;
        let of_gpu = instance.map_or(levels, |instance| levels.share(instance.slices, mig::SLICES));
        Ok(Work { pid, instance: instance.and_then(mig::Instance::serial), levels, of_gpu })
    }

    fn timelines<'a>(&'a mut self, work: &'a Work) -> impl Iterator<Item = (&'a mut Timeline, &'a Levels)> {
        let process = work.pid.map(|pid| (self.work_by_pid.entry(pid).or_default(), &work.of_gpu));
        let instance =
            work.instance.and_then(|serial| self.mig.instances.iter_mut().find(|i| i.serial() == Some(serial)));
        let instance = instance.map(|instance| (&mut instance.work, &work.levels));
        std::iter::once((&mut self.work, &work.of_gpu)).chain(process).chain(instance)
    }

    fn set(&mut self, set: &Set) {
        let changes = self.readings.entry(set.reading).or_default();
        let next = changes.partition_point(|(at, _)| *at <= set.at_us);
        changes.insert(next, (set.at_us, set.value));
    }

    /// The value set for the reading at the instant, if one is.
    pub(crate) fn set_value(&self, reading: Reading, at_us: u64) -> Option<f64> {
        let changes = self.readings.get(&reading)?;
        changes.partition_point(|(at, _)| *at <= at_us).checked_sub(1).and_then(|i| changes[i].1)
    }

    /// The stretches of `[from_us, to_us)` with what was set in each.
    pub(crate) fn set_values(&self, reading: Reading, from_us: u64, to_us: u64) -> Vec<(u64, u64, Option<f64>)> {
        let changes = self.readings.get(&reading).map_or(&[][..], Vec::as_slice);
        let inner = changes.iter().map(|(at, _)| *at).filter(|at| (from_us + 1..to_us).contains(at));
        let mut edges: Vec<u64> = std::iter::once(from_us).chain(inner).chain([to_us]).collect();
        edges.dedup();
        edges.windows(2).map(|edge| (edge[0], edge[1], self.set_value(reading, edge[0]))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A default node after these lines.
    fn node(lines: &[&str]) -> Node {
        let mut node = Node::new(&NodeSpec::default()).unwrap();
        for line in lines {
            node.apply(serde_json::from_str(line).unwrap()).unwrap();
        }
        node
    }

    fn refusal(line: &str) -> String {
        node(&[]).apply(serde_json::from_str(line).unwrap()).unwrap_err()
    }

    #[test]
    fn the_default_node_is_eight_h100_at_the_addresses_of_the_recorded_machine() {
        let node = node(&[]);
        assert_eq!(node.gpus.len(), 8);
        assert_eq!(node.gpus[7].pci, PciAddress { domain: 0, bus: 0xdb, device: 0, function: 0 });
        assert_eq!(node.gpus[4].numa, 1);
        assert_eq!(node.gpus[1].uuid, "GPU-00002330-0000-4000-8000-000000000001");
    }

    #[test]
    fn every_model_makes_a_node() {
        for profile in profile::PROFILES {
            let spec = NodeSpec { model: Some(profile.name.to_owned()), ..NodeSpec::default() };
            let node = Node::new(&spec).unwrap();
            assert_eq!(node.gpus.len(), profile.slots.len());
            assert!(node.gpus.iter().all(|gpu| (gpu.numa as usize) < node.cpus.len()));
        }
    }

    #[test]
    fn work_is_on_the_gpu_and_on_its_process_until_the_process_dies() {
        let node = node(&[
            r#"{"process":{"gpu":2,"pid":77,"used_bytes":1024}}"#,
            r#"{"start":{"gpu":2,"id":"step","pid":77,"at_us":1000}}"#,
            r#"{"exit":{"gpu":2,"pid":77,"at_us":1500}}"#,
            r#"{"stop":{"gpu":2,"id":"step","at_us":9000}}"#,
        ]);
        let gpu = &node.gpus[2];
        assert!(gpu.processes.is_empty());
        assert_eq!(gpu.work.average(Channel::Gpu, 1000, 2000), 50.0);
        assert_eq!(gpu.work_by_pid[&77].average(Channel::Gpu, 1000, 2000), 50.0);
        assert_eq!(node.gpus[1].work.average(Channel::Gpu, 1000, 2000), 0.0);
    }

    #[test]
    fn readings_are_set_from_a_moment_on_and_given_back() {
        let node = node(&[
            r#"{"set":{"gpu":0,"at_us":200,"reading":"power_mw","value":null}}"#,
            r#"{"set":{"gpu":0,"at_us":100,"reading":"power_mw","value":500000}}"#,
        ]);
        let gpu = &node.gpus[0];
        let at = |at| gpu.set_value(Reading::PowerMw, at);
        assert_eq!((at(99), at(100), at(199), at(200)), (None, Some(5e5), Some(5e5), None));
        let stretches = gpu.set_values(Reading::PowerMw, 50, 300);
        assert_eq!(stretches, [(50, 100, None), (100, 200, Some(5e5)), (200, 300, None)]);
        assert_eq!(gpu.set_values(Reading::Pstate, 0, 9), [(0, 9, None)]);
    }

    #[test]
    fn faults_and_hangs_last_until_the_same_line_clears_them() {
        let mut node = node(&[
            r#"{"fault":{"gpu":1,"code":"UNKNOWN"}}"#,
            r#"{"fault":{"call":"nvmlDeviceGetName","gpu":1,"code":"NO_PERMISSION"}}"#,
            r#"{"hang":{"call":"nvmlDeviceGetName"}}"#,
        ]);
        assert_eq!(node.fault("nvmlDeviceGetName", Some(1)), Some(Code::NO_PERMISSION));
        assert_eq!(node.fault("nvmlDeviceGetSerial", Some(1)), Some(Code::UNKNOWN));
        assert_eq!(node.fault("nvmlDeviceGetSerial", Some(0)), None);
        assert_eq!(node.hang("nvmlDeviceGetName", Some(0)), Some(None));
        node.apply(serde_json::from_str(r#"{"clear":{"call":"nvmlDeviceGetName","gpu":1}}"#).unwrap()).unwrap();
        assert_eq!(node.fault("nvmlDeviceGetName", Some(1)), Some(Code::UNKNOWN));
        assert!(node.hang("nvmlDeviceGetName", Some(1)).is_some());
    }

    #[test]
    fn the_clock_stands_where_it_is_fixed_until_it_is_given_back() {
        let mut node = node(&[r#"{"clock":{"now_us":1790000000000000}}"#]);
        assert_eq!(node.now_us(), 1_790_000_000_000_000);
        node.apply(serde_json::from_str(r#"{"clock":{}}"#).unwrap()).unwrap();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        assert!(node.now_us() >= wall);
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        assert_eq!(refusal(r#"{"node":{}}"#), "the node line must be the first");
        assert_eq!(refusal(r#"{"lose":{"gpu":8}}"#), "no GPU 8, the node has 8");
        assert_eq!(refusal(r#"{"busy":{"gpu":0,"from_us":2,"to_us":1}}"#), "busy ends at 1 before it begins at 2");
        let spec = NodeSpec { model: Some("NVIDIA L4".into()), count: Some(2), ..NodeSpec::default() };
        assert_eq!(Node::new(&spec).unwrap_err(), "GPU 1 needs a pci address: NVIDIA L4 has none to offer");
        let spec = NodeSpec { sample_period_us: Some(1_000_001), ..NodeSpec::default() };
        let expected = "sample_period_us is 1000001, expected 166667 to 1000000";
        assert_eq!(Node::new(&spec).unwrap_err(), expected);
        assert!(PciAddress::parse("19:00.0").is_err() && PciAddress::parse("0:19:20.0").is_err());
    }
}
