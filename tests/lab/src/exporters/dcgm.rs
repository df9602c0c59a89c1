//! The series of dcgm-exporter, and those of the same names that our exporter has.

use goodput_catalog::dcgm::{
    ENFORCED_POWER_LIMIT, FB_FREE, FB_USED, GPU_UTIL, MAX_SM_CLOCK, PCIE_LINK_GEN, PCIE_LINK_WIDTH, PCIE_MAX_LINK_GEN,
    PCIE_MAX_LINK_WIDTH, POWER_LIMIT_DEFAULT, POWER_USAGE, PROF_DRAM_ACTIVE, PROF_GR_ENGINE_ACTIVE, PROF_NVLINK_RX,
    PROF_PCIE_RX, PROF_SM_ACTIVE, PROF_SM_OCCUPANCY, PROF_TENSOR_ACTIVE, Row, SM_CLOCK, TOTAL_ENERGY, XID_ERRORS,
};
use goodput_catalog::{HOST_LABEL, Unit};

use super::{
    BARE_INSTANCE, DEVICE_MEMORY, FULL_CLOCK, Fields, Names, PODS, Recorder, Samples, View, instance_id, push,
};
use crate::counters::{Counters, GpuCounters};
use crate::phase::{LANES, STOCK_LIMIT};

/// Fields that every MIG instance has from our exporter too.
const OF_INSTANCES: [&Row; 7] = [
    &PROF_GR_ENGINE_ACTIVE,
    &PROF_SM_ACTIVE,
    &PROF_SM_OCCUPANCY,
    &PROF_TENSOR_ACTIVE,
    &PROF_DRAM_ACTIVE,
    &FB_USED,
    &FB_FREE,
];
/// Fields that are not in `default-counters.csv` of dcgm-exporter 4.8.
const UNUSUAL: [&Row; 9] = [
    &PROF_SM_ACTIVE,
    &PROF_SM_OCCUPANCY,
    &MAX_SM_CLOCK,
    &PCIE_LINK_GEN,
    &PCIE_MAX_LINK_GEN,
    &PCIE_LINK_WIDTH,
    &PCIE_MAX_LINK_WIDTH,
    &ENFORCED_POWER_LIMIT,
    &POWER_LIMIT_DEFAULT,
];

pub(super) fn is_among(rows: &[&Row], row: &Row) -> bool {
    rows.iter().any(|one| one.id == row.id)
}

/// Is this field in `default-counters.csv` of dcgm-exporter 4.8?
pub(super) fn is_usual(row: &Row) -> bool {
    !is_among(&UNUSUAL, row)
}

impl Recorder {
    /// DCGM's fields of every GPU, or of every MIG instance.
    pub(super) fn dcgm(&self, samples: &mut Samples, view: &View<'_>, job: &str, port: u16) {
        let (instance, ours) = (self.instance(port), job != "dcgm");
        let target = [("job", job), ("instance", instance.as_str())];
        let host_label = if self.names == Names::Legacy { HOST_LABEL } else { "hostname" };
        let mig = &view.phase.mig;
        for gpu in (0..view.gpus()).filter(|gpu| !view.is_lost(*gpu) && (mig.is_empty() || *gpu < mig.len())) {
            let of_board = if mig.is_empty() { gpu } else { 0 };
            let (uuid, index, id) = (self.uuid(of_board), (of_board + self.first_gpu).to_string(), instance_id(gpu));
            let device =
                [("gpu", index.as_str()), ("UUID", &uuid), (host_label, &self.node), ("modelName", self.model)];
            let pod = [("namespace", "ml"), ("pod", PODS[self.tenant])];
            let pod = if view.is_held(gpu) && !ours && self.names_pods { &pod[..] } else { &[] };
            let part = mig.get(gpu).map(|profile| [("GPU_I_ID", id.as_str()), ("GPU_I_PROFILE", profile.as_str())]);
            let labels: Vec<_> = device.iter().chain(pod).copied().chain(part.into_iter().flatten()).collect();
            if let Some(bytes) = view.phase.linked {
                push(samples, &PROF_NVLINK_RX.legacy, target, &labels, bytes);
            }
            for (row, value) in self.readings(view, gpu) {
                let of_instance = is_among(&OF_INSTANCES, row);
                // No exporter has the utilisation of an instance; our exporter serves the board's values once.
                let is_told = row.id != GPU_UTIL.id && (!ours || gpu == 0 || of_instance);
                let is_asked_for = ours || self.fields == Fields::More || is_usual(row);
                if !mig.is_empty() && !is_told || !is_asked_for {
                    continue;
                }
                let labels = if ours && !of_instance { &device[..] } else { &labels };
                let metric = if self.names == Names::Legacy { &row.legacy } else { &row.current };
                let value = value / base(metric.unit);
                let whole = matches!(metric.unit, Unit::Percent | Unit::Mebibytes);
                push(samples, metric, target, labels, if whole { value.round() } else { value });
            }
        }
    }

    /// What each field says of a GPU, in base units. Utilisation and power are what they were in the last second;
    /// profiling is the mean over the time since the last scrape, as dcgm-exporter and GPM give it.
    pub(super) fn readings(&self, view: &View<'_>, gpu: usize) -> [(&'static Row, f64); 20] {
        let (c, now, phase) = (&view.machine.counters, view.machine.now(), view.phase);
        let scraped = (&self.before.0, self.before.1);
        let lately = view.lately.unwrap_or(scraped);
        let per_second = |grown: f64, then| if now > then { (grown / (now - then)).max(0.0) } else { 0.0 };
        let rate = |(before, then): (&Counters, f64), of: fn(&GpuCounters) -> f64| {
            per_second(of(&c.gpus[gpu]) - before.gpus.get(gpu).map_or(0.0, of), then)
        };
        // What the board of instances draws is as much as they do in the mean, were each a GPU.
        let joules = |c: &Counters| match c.gpus.len() {
            all if !phase.mig.is_empty() => c.gpus.iter().map(|g| g.joules).sum::<f64>() / all as f64,
            _ => c.gpus.get(gpu).map_or(0.0, |g| g.joules),
        };
        let board = view.machine.layout.board;
        let memory = board.map_or(DEVICE_MEMORY, |b| b.memory) * phase.slices(gpu);
        let bare = if phase.mig.is_empty() { 0.0 } else { BARE_INSTANCE };
        let used = if view.is_held(gpu) { view.machine.memory * memory } else { bare };
        let is_odd = view.is_odd(gpu);
        let clock = if is_odd { phase.odd_clock() } else { 1.0 };
        let full_clock = board.map_or(FULL_CLOCK, |b| b.clock);
        let stock = board.map_or(STOCK_LIMIT, |b| b.limit);
        let limit = if is_odd { phase.power_limit * stock / STOCK_LIMIT } else { stock };
        [
            (&GPU_UTIL, rate(lately, |g| g.busy).min(1.0)),
            (&PROF_GR_ENGINE_ACTIVE, rate(scraped, |g| g.busy).min(1.0)),
            (&PROF_SM_ACTIVE, rate(scraped, |g| g.active).min(1.0)),
            (&PROF_SM_OCCUPANCY, rate(scraped, |g| g.occupied).min(1.0)),
            (&PROF_TENSOR_ACTIVE, rate(scraped, |g| g.tensor).min(1.0)),
            (&PROF_DRAM_ACTIVE, rate(scraped, |g| g.dram).min(1.0)),
            (&POWER_USAGE, per_second(joules(c) - joules(lately.0), lately.1)),
            (&TOTAL_ENERGY, joules(c)),
            (&PROF_PCIE_RX, rate(scraped, |g| g.received)),
            (&SM_CLOCK, full_clock * clock),
            (&MAX_SM_CLOCK, full_clock),
            (&PCIE_LINK_GEN, 5.0),
            (&PCIE_MAX_LINK_GEN, 5.0),
            (&PCIE_LINK_WIDTH, f64::from(view.lanes(gpu))),
            (&PCIE_MAX_LINK_WIDTH, f64::from(LANES)),
            (&ENFORCED_POWER_LIMIT, limit),
            (&POWER_LIMIT_DEFAULT, stock),
            (&FB_USED, used),
            (&FB_FREE, memory - used),
            (&XID_ERRORS, if is_odd { f64::from(phase.xid) } else { 0.0 }),
        ]
    }
}

/// The unit, in base units.
fn base(unit: Unit) -> f64 {
    match unit {
        Unit::Percent => 0.01,
        Unit::Millijoules => 0.001,
        Unit::Mebibytes => 1_048_576.0,
        Unit::Megahertz => 1e6,
        _ => 1.0,
    }
}
