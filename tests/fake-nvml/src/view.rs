//! What one GPU reports at one moment: set values first, else a model driven by its work.

use crate::code::Code;
use crate::event::{Process, ProcessKind, Reading};
use crate::mig::{Compute, Instance};
use crate::profile::{Architecture, Range};
use crate::state::{Gpu, Node};
use crate::work::{Channel, Grid};

/// Clocks and power states react within the shortest utilization period.
const ACTIVE_US: u64 = Grid::UTILIZATION.period_us;
/// Temperature follows the load of the last half minute, the order of the recorded warm-up of an H100.
const THERMAL_US: u64 = 30_000_000;
/// `nvmlDeviceGetPowerUsage` averages over one second where it averages.
const POWER_WINDOW_US: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// A GPU of the node at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub node: &'a Node,
    pub gpu: &'a Gpu,
    /// The part of the GPU that is asked, where it is a MIG device.
    pub mig: Option<(&'a Instance, &'a Compute)>,
    pub now_us: u64,
}

/// Bytes of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub total: u64,
    pub reserved: u64,
    pub used: u64,
    pub free: u64,
}

impl<'a> View<'a> {
    /// The same GPU at another moment.
    pub(crate) fn at(&self, now_us: u64) -> Self {
        View { now_us, ..*self }
    }

    pub(crate) fn set(&self, reading: Reading) -> Option<f64> {
        self.gpu.set_value(reading, self.now_us)
    }

    /// The set value, or one that does not follow work.
    pub(crate) fn set_or(&self, reading: Reading, default: u32) -> u32 {
        self.set(reading).map_or(default, |value| value as u32)
    }

    /// The set count, or none so far.
    pub(crate) fn count(&self, reading: Reading) -> u64 {
        self.set(reading).map_or(0, |value| value as u64)
    }

    fn active(&self) -> bool {
        self.gpu.work.average(Channel::Gpu, self.now_us.saturating_sub(ACTIVE_US), self.now_us) > 0.0
    }

    fn by_activity(&self, range: Range) -> u32 {
        if self.active() { range.busy } else { range.idle }
    }

    fn by_heat(&self, range: Range) -> u32 {
        let sm = self.gpu.work.average(Channel::Sm, self.now_us.saturating_sub(THERMAL_US), self.now_us);
        (f64::from(range.idle) + f64::from(range.busy - range.idle) * sm / 100.0).round() as u32
    }

    /// The newest sample of the ring buffer, percent.
    pub(crate) fn utilization(&self, channel: Channel) -> u32 {
        self.utilization_at(channel, self.node.utilization.newest(self.now_us))
    }

    /// The sample whose period ends there, percent.
    pub(crate) fn utilization_at(&self, channel: Channel, end_us: u64) -> u32 {
        let from_us = end_us.saturating_sub(self.node.utilization.period_us);
        self.gpu.work.average(channel, from_us, end_us).round() as u32
    }

    /// Milliwatts times microseconds between two moments.
    fn energy(&self, from_us: u64, to_us: u64) -> f64 {
        let draw = self.gpu.profile.power.draw;
        let (idle, above) = (f64::from(draw.idle), f64::from(draw.busy - draw.idle));
        let stretch = |(from, to, set): (u64, u64, Option<f64>)| {
            let power = set.unwrap_or_else(|| idle + above * self.gpu.work.average(Channel::Sm, from, to) / 100.0);
            power * (to - from) as f64
        };
        self.gpu.set_values(Reading::PowerMw, from_us, to_us).into_iter().map(stretch).sum()
    }

    fn mean_power_mw(&self, from_us: u64, to_us: u64) -> u32 {
        (self.energy(from_us, to_us) / (to_us - from_us).max(1) as f64).round() as u32
    }

    /// The power sample whose period ends there.
    pub(crate) fn power_at_mw(&self, end_us: u64) -> u32 {
        self.mean_power_mw(end_us.saturating_sub(self.node.power.period_us), end_us)
    }

    pub(crate) fn instant_power_mw(&self) -> u32 {
        self.set(Reading::PowerMw).map_or_else(|| self.power_at_mw(self.now_us), |set| set as u32)
    }

    /// A set power is shown at once: a test that sets it waits for no window.
    pub(crate) fn average_power_mw(&self) -> u32 {
        let from_us = self.now_us.saturating_sub(POWER_WINDOW_US);
        self.set(Reading::PowerMw).map_or_else(|| self.mean_power_mw(from_us, self.now_us), |set| set as u32)
    }

    pub(crate) fn power_mw(&self) -> u32 {
        if self.gpu.profile.power.averaged { self.average_power_mw() } else { self.instant_power_mw() }
    }

    pub(crate) fn power_limit_mw(&self) -> u32 {
        self.set_or(Reading::PowerLimitMw, self.gpu.profile.power.default_limit)
    }

    /// Millijoules since the driver was loaded.
    pub(crate) fn energy_mj(&self) -> u64 {
        let modelled = || (self.energy(self.node.loaded_us.min(self.now_us), self.now_us) / 1e6) as u64;
        self.set(Reading::EnergyMj).map_or_else(modelled, |set| set as u64)
    }

    pub(crate) fn temperature_c(&self) -> u32 {
        self.set_or(Reading::TemperatureC, self.by_heat(self.gpu.profile.core_temperature))
    }

    pub(crate) fn memory_temperature_c(&self) -> Result<u32, Code> {
        let range = self.gpu.profile.memory_temperature.ok_or(Code::NOT_SUPPORTED)?;
        Ok(self.set_or(Reading::MemoryTemperatureC, self.by_heat(range)))
    }

    pub(crate) fn sm_clock_mhz(&self) -> u32 {
        self.set_or(Reading::SmClockMhz, self.by_activity(self.gpu.profile.clocks.sm))
    }

    pub(crate) fn memory_clock_mhz(&self) -> u32 {
        self.set_or(Reading::MemoryClockMhz, self.by_activity(self.gpu.profile.clocks.memory))
    }

    pub(crate) fn video_clock_mhz(&self) -> u32 {
        self.set_or(Reading::VideoClockMhz, self.by_activity(self.gpu.profile.clocks.video))
    }

    pub(crate) fn pstate(&self) -> u32 {
        let model = Range { idle: self.gpu.profile.idle_pstate, busy: 0 };
        self.set_or(Reading::Pstate, self.by_activity(model))
    }

    pub(crate) fn pcie_generation(&self) -> u32 {
        self.set_or(Reading::PcieGeneration, self.by_activity(self.gpu.profile.pcie.generation))
    }

    /// The bit mask of clock event reasons; 1 is "GPU idle".
    pub(crate) fn clocks_event_reasons(&self) -> u64 {
        self.set(Reading::ClocksEventReasons).map_or_else(|| u64::from(!self.active()), |set| set as u64)
    }

    /// Nanoseconds since the driver was loaded in which one of the reasons was set.
    pub(crate) fn reason_ns(&self, mask: u64) -> u64 {
        let stretches = self.gpu.set_values(Reading::ClocksEventReasons, self.node.loaded_us, self.now_us);
        let held = stretches.iter().filter(|(_, _, set)| set.is_some_and(|set| set as u64 & mask != 0));
        held.map(|(from, to, _)| (to - from) * 1000).sum()
    }

    /// Utilization is of no GPU that is cut up, nor of its parts.
    pub(crate) fn whole(&self) -> Result<(), Code> {
        if self.gpu.mig.enabled { Err(Code::NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Compute instances share the memory of their GPU instance, and none of it is reserved.
    pub(crate) fn memory(&self) -> Memory {
        if let Some((instance, _)) = self.mig {
            let total = instance.memory_bytes;
            let here = self.gpu.processes.values().filter(|p| p.instance == Some(instance.id));
            let used = here.filter_map(|p| p.used_bytes).sum::<u64>().min(total);
            return Memory { total, reserved: 0, used, free: total - used };
        }
        let total = self.gpu.profile.memory_mib * MIB;
        let reserved = self.set(Reading::ReservedBytes).map_or(self.gpu.profile.reserved_mib * MIB, |set| set as u64);
        let reserved = reserved.min(total);
        let by_processes = || self.gpu.processes.values().filter_map(|p| p.used_bytes).sum();
        let used = self.set(Reading::UsedBytes).map_or_else(by_processes, |set| set as u64).min(total - reserved);
        Memory { total, reserved, used, free: total - reserved - used }
    }

    /// Total and used bytes of the BAR1 window: what is mapped of device memory and 1 MiB more, as recorded.
    pub(crate) fn bar1(&self) -> (u64, u64) {
        let total = self.gpu.profile.bar1_mib * MIB;
        let used = self.set(Reading::Bar1UsedBytes).map_or(self.memory().used + MIB, |set| set as u64);
        (total, used.min(total))
    }

    /// Processes of the kind: of the MIG device where one is asked, else of all the GPU.
    pub(crate) fn processes(&self, kind: ProcessKind) -> Vec<&'a Process> {
        let here =
            |p: &&Process| self.mig.is_none_or(|(gi, ci)| p.instance == Some(gi.id) && p.compute_instance == ci.id);
        self.gpu.processes.values().filter(|p| p.kind == kind).filter(here).collect()
    }

    /// GPM came with Hopper.
    pub(crate) fn has_gpm(&self) -> bool {
        self.gpu.profile.architecture >= Architecture::Hopper
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NodeSpec;

    const S: u64 = 1_000_000;
    const LOADED: u64 = 1_000 * S;

    fn node(model: &str, lines: &[String]) -> Node {
        let spec =
            NodeSpec { model: Some(model.to_owned()), count: Some(1), loaded_us: Some(LOADED), ..NodeSpec::default() };
        let mut node = Node::new(&spec).unwrap();
        for line in lines {
            node.apply(serde_json::from_str(line).unwrap()).unwrap();
        }
        node
    }

    fn at(node: &Node, seconds: u64) -> View<'_> {
        View { node, gpu: &node.gpus[0], mig: None, now_us: LOADED + seconds * S }
    }

    fn set(reading: &str, seconds: u64, value: u64) -> String {
        format!(r#"{{"set":{{"gpu":0,"at_us":{},"reading":"{reading}","value":{value}}}}}"#, LOADED + seconds * S)
    }

    fn busy(from: u64, to: u64) -> String {
        format!(r#"{{"busy":{{"gpu":0,"from_us":{},"to_us":{}}}}}"#, LOADED + from * S, LOADED + to * S)
    }

    #[test]
    fn an_idle_h100_reads_as_recorded() {
        let node = node("NVIDIA H100 80GB HBM3", &[]);
        let view = at(&node, 100);
        assert_eq!((view.power_mw(), view.temperature_c(), view.sm_clock_mhz()), (68_920, 29, 345));
        assert_eq!((view.clocks_event_reasons(), view.pstate(), view.memory_temperature_c()), (1, 0, Ok(37)));
        assert_eq!(view.energy_mj(), 6_892_000);
        let memory = view.memory();
        assert_eq!((memory.total / MIB, memory.reserved / MIB, memory.used, memory.free / MIB), (81559, 480, 0, 81079));
    }

    #[test]
    fn work_raises_clocks_power_heat_and_energy_and_its_end_lowers_them() {
        let node = node("NVIDIA L4", &[busy(100, 200)]);
        let view = at(&node, 200);
        assert_eq!((view.power_mw(), view.sm_clock_mhz(), view.pstate()), (71_500, 2040, 0));
        assert_eq!((view.temperature_c(), view.utilization(Channel::Gpu)), (70, 100));
        assert_eq!((view.clocks_event_reasons(), view.pcie_generation()), (0, 4));
        let later = at(&node, 300);
        assert_eq!((later.power_mw(), later.sm_clock_mhz(), later.pstate()), (16_365, 210, 8));
        assert_eq!(later.energy_mj(), 200 * 16_365 + 100 * 71_500);
        assert_eq!(later.memory_temperature_c(), Err(Code::NOT_SUPPORTED));
    }

    #[test]
    fn a_sample_covers_its_own_period_alone() {
        let period = Grid::UTILIZATION.period_us;
        let from = LOADED.next_multiple_of(period);
        let line = format!(r#"{{"busy":{{"gpu":0,"from_us":{from},"to_us":{}}}}}"#, from + period);
        let node = node("NVIDIA L4", &[line]);
        let view = at(&node, 100);
        let samples = [0, 1, 2].map(|i| view.utilization_at(Channel::Gpu, from + i * period));
        assert_eq!(samples, [0, 100, 0]);
    }

    #[test]
    fn set_power_counts_into_energy_from_its_moment_on() {
        let node = node("NVIDIA H100 80GB HBM3", &[set("power_mw", 100, 200_000)]);
        assert_eq!(at(&node, 150).energy_mj(), 100 * 68_920 + 50 * 200_000);
        assert_eq!(at(&node, 100).power_mw(), 200_000);
    }

    #[test]
    fn throttle_time_is_the_time_its_reason_was_set() {
        let lines = [set("clocks_event_reasons", 10, 4), set("clocks_event_reasons", 15, 0)];
        let node = node("Tesla T4", &lines);
        assert_eq!(at(&node, 12).reason_ns(4), 2_000_000_000);
        assert_eq!((at(&node, 90).reason_ns(4), at(&node, 90).reason_ns(0x20)), (5_000_000_000, 0));
    }

    #[test]
    fn memory_is_what_the_processes_hold() {
        let lines = [r#"{"process":{"gpu":0,"pid":1,"used_bytes":1048576}}"#, r#"{"process":{"gpu":0,"pid":2}}"#];
        let node = node("Tesla T4", &lines.map(str::to_owned));
        let view = at(&node, 0);
        assert_eq!(view.memory().used, MIB);
        assert_eq!(view.bar1(), (256 * MIB, 2 * MIB));
        let held: Vec<_> = view.processes(ProcessKind::Compute).iter().map(|p| (p.pid, p.used_bytes)).collect();
        assert_eq!(held, [(1, Some(MIB)), (2, None)]);
    }

    #[test]
    fn what_is_reserved_is_neither_used_nor_free() {
        let node = node("Tesla T4", &[set("used_bytes", 0, 5 * MIB), set("reserved_bytes", 0, 10 * MIB)]);
        let memory = at(&node, 1).memory();
        assert_eq!((memory.reserved, memory.used, memory.free), (10 * MIB, 5 * MIB, (15360 - 15) * MIB));
    }

    #[test]
    fn an_instance_has_its_own_memory_and_is_a_part_of_the_gpus_work() {
        let layout = r#"{"mig":{"gpu":0,"instances":[{"id":2,"profile":"3g.40gb"},{"id":9,"profile":"1g.10gb"}]}}"#;
        let process = r#"{"process":{"gpu":0,"pid":1,"used_bytes":1048576,"instance":9}}"#;
        let work = format!(r#"{{"busy":{{"gpu":0,"instance":9,"from_us":{LOADED},"to_us":{}}}}}"#, LOADED + 70 * S);
        let node = node("NVIDIA H100 80GB HBM3", &[layout.to_owned(), process.to_owned(), work]);
        let whole = at(&node, 70);
        let part = |i: usize| View { mig: whole.gpu.mig.devices().nth(i), ..whole };
        assert_eq!((part(0).memory().used, part(1).memory().used, whole.memory().used), (0, MIB, MIB));
        assert_eq!(part(1).memory().total, 9984 * MIB);
        assert_eq!(
            (part(0).processes(ProcessKind::Compute).len(), part(1).processes(ProcessKind::Compute).len()),
            (0, 1)
        );
        let busy = |work: &crate::work::Timeline| work.average(Channel::Gpu, LOADED, LOADED + 70 * S);
        let instances = &whole.gpu.mig.instances;
        assert_eq!((busy(&instances[0].work), busy(&instances[1].work)), (0.0, 100.0));
        assert!((busy(&whole.gpu.work) - 100.0 / 7.0).abs() < 0.001);
        assert_eq!(whole.whole(), Err(Code::NOT_SUPPORTED));
    }
}
