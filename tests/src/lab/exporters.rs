//! What Prometheus would have stored of a simulated machine: the series of our exporter, of dcgm-exporter alone, or of
//! dcgm-exporter and node_exporter.

use std::collections::BTreeMap;

use goodput_analyzer::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_exporter::catalog::{Unit, dcgm, host};
use serde::Deserialize;

mod ours;

use super::counters::{Counters, GpuCounters};
use super::model::Machine;
use super::phase::{LANES, Phase, STOCK_LIMIT};

/// Which exporters run on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exporters {
    /// goodput-exporter.
    Ours,
    /// dcgm-exporter alone.
    Dcgm,
    /// dcgm-exporter and node_exporter.
    DcgmAndNode,
}

/// Whose spelling of DCGM's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// dcgm-exporter up to 4.8.
    #[default]
    Legacy,
    /// dcgm-exporter 4.9.
    Current,
}

/// Which of DCGM's fields dcgm-exporter is told to export. Ours exports all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fields {
    /// Those of its `default-counters.csv`.
    Usual,
    /// With SM activity and occupancy, power limits, the highest clock and the PCIe link besides.
    #[default]
    More,
}

/// UUID of a simulated GPU.
#[must_use]
pub fn uuid(node: &str, gpu: usize) -> String {
    let number: u32 = node.bytes().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("GPU-{number:08x}-0000-0000-0000-{gpu:012}")
}

/// Device memory of the simulated H100, in bytes, without what the driver reserves.
const DEVICE_MEMORY: f64 = 81_000.0 * 1_048_576.0;
/// Device memory that an unused instance takes: 98 MiB of a recorded A100's.
const BARE_INSTANCE: f64 = 98.0 * 1_048_576.0;
/// Size of the node's disk, in bytes.
const DISK_SIZE: f64 = 1.92e12;
/// Anonymous and shared memory of the process of one GPU, in bytes.
const PROCESS_MEMORY: f64 = 64e9;

/// A limit of a job's group, in bytes.
const MEMORY_LIMIT: f64 = 128e9;

/// Pods of the tenants, as dcgm-exporter names them.
const PODS: [&str; 4] = ["train-0", "serve-a-0", "serve-b-0", "serve-c-0"];

/// Who holds GPUs: usually the first alone.
const TENANTS: [&str; 4] = ["train", "serve-a", "serve-b", "serve-c"];

type Labelled = Vec<(String, String)>;
type Samples = Vec<(Labelled, f64)>;

/// A machine as exporters see it at one moment.
#[derive(Clone, Copy)]
pub struct View<'a> {
    machine: &'a Machine,
    phase: &'a Phase,
    /// What was counted a second ago: the driver's gauges are means over the last second at most.
    lately: Option<(&'a Counters, f64)>,
}

impl<'a> View<'a> {
    /// The machine now.
    #[must_use]
    pub fn of(machine: &'a Machine, phase: &'a Phase) -> Self {
        View { machine, phase, lately: None }
    }

    /// The same with the driver's gauges taken over the time since then, in seconds.
    #[must_use]
    pub fn since(self, counters: &'a Counters, seconds: f64) -> Self {
        View { lately: Some((counters, seconds)), ..self }
    }

    fn gpus(&self) -> usize {
        self.machine.counters.gpus.len()
    }

    fn is_held(&self, gpu: usize) -> bool {
        self.phase.job && gpu < self.machine.layout.gpus && !self.is_lost(gpu)
    }

    /// Is it the one that much of the schedule is about?
    fn is_odd(&self, gpu: usize) -> bool {
        self.phase.is_odd(gpu, self.machine.layout.gpus)
    }

    fn lanes(&self, gpu: usize) -> u32 {
        if self.is_odd(gpu) { self.phase.lanes } else { LANES }
    }

    fn is_lost(&self, gpu: usize) -> bool {
        self.phase.lost && self.is_odd(gpu)
    }
}

/// Series under construction, by their label text.
pub struct Recorder {
    node: String,
    exporters: Exporters,
    names: Names,
    fields: Fields,
    model: &'static str,
    /// Index on the node of the machine's first GPU.
    first_gpu: usize,
    /// Which of [`TENANTS`] the machine's job is.
    tenant: usize,
    /// Does dcgm-exporter name pods?
    names_pods: bool,
    /// Metrics that are not there, by the beginning of their name.
    without: Vec<&'static str>,
    series: BTreeMap<Labelled, Vec<Sample>>,
    last_scrape: Vec<Labelled>,
    /// The counters at the last scrape, and its time in seconds.
    before: (Counters, f64),
    /// The same when our exporter was started.
    started: (Counters, f64),
}

impl Recorder {
    /// A recorder of the node of this name.
    #[must_use]
    pub fn new(node: &str, exporters: Exporters) -> Recorder {
        let node = node.to_owned();
        let (names, fields, without, before, started) = Default::default();
        let (series, last_scrape) = (BTreeMap::new(), Vec::new());
        let (model, first_gpu, tenant, names_pods) = (H100, 0, 0, true);
        Recorder {
            node,
            exporters,
            names,
            fields,
            model,
            first_gpu,
            tenant,
            names_pods,
            without,
            series,
            last_scrape,
            before,
            started,
        }
    }

    /// The same with other names, and without some metrics.
    #[must_use]
    pub fn speaking(self, names: Names, without: &[&'static str]) -> Recorder {
        Recorder { names, without: without.to_vec(), ..self }
    }

    /// The same of GPUs of this model, and of these fields where dcgm-exporter serves them.
    #[must_use]
    pub fn telling(self, model: &'static str, fields: Fields) -> Recorder {
        Recorder { model, fields, ..self }
    }

    /// The same of a machine that is a part of a node: its GPUs are those from this index on, and its job is that tenant.
    #[must_use]
    pub fn being_part(self, first_gpu: usize, tenant: usize) -> Recorder {
        Recorder { first_gpu, tenant: tenant.min(TENANTS.len() - 1), ..self }
    }

    /// The same of a dcgm-exporter that does not know which pod holds a GPU.
    #[must_use]
    pub fn naming_pods(self, names_pods: bool) -> Recorder {
        Recorder { names_pods, ..self }
    }

    fn uuid(&self, gpu: usize) -> String {
        uuid(&self.node, gpu + self.first_gpu)
    }

    fn owner(&self) -> &'static str {
        TENANTS[self.tenant]
    }

    /// The machine's jobs, the first of them first.
    fn tenants(&self) -> impl Iterator<Item = &'static str> {
        TENANTS.into_iter().skip(self.tenant)
    }

    /// All that was recorded.
    #[must_use]
    pub fn into_series(self) -> Vec<Series> {
        self.series.into_iter().map(|(labels, samples)| Series { labels: Labels::new(labels), samples }).collect()
    }

    /// Our exporter restarts: what it counts itself begins at zero.
    pub fn restart(&mut self, machine: &Machine) {
        self.started = (machine.counters.clone(), machine.now());
    }

    /// One scrape of the node; series that are gone get Prometheus' staleness marker.
    pub fn scrape(&mut self, time_ms: TimeMs, view: &View<'_>) {
        let mut samples = Samples::new();
        match self.exporters {
            Exporters::Ours => {
                self.ours(&mut samples, view);
                self.dcgm(&mut samples, view, "goodput", 9400);
            }
            Exporters::Dcgm => self.dcgm(&mut samples, view, "dcgm", 9401),
            Exporters::DcgmAndNode => {
                self.dcgm(&mut samples, view, "dcgm", 9401);
                self.node_exporter(&mut samples, view);
            }
        }
        // The kernel gives its start in whole seconds.
        let booted = (time_ms as f64 / 1000.0 - view.machine.now() + view.machine.booted).round();
        match self.exporters {
            Exporters::Ours => {
                let instance = self.instance(9400);
                push(
                    &mut samples,
                    host::NODE_BOOT_TIME.name,
                    [("job", "goodput"), ("instance", &instance)],
                    &[],
                    booted,
                );
            }
            Exporters::Dcgm => {}
            Exporters::DcgmAndNode => {
                let instance = self.instance(9100);
                push(&mut samples, "node_boot_time_seconds", [("job", "node"), ("instance", &instance)], &[], booted);
            }
        }
        let target = [("job", "kube-state-metrics"), ("instance", "10.0.0.9:8080")];
        let cordoned = f64::from(u8::from(view.phase.cordoned));
        push(&mut samples, "kube_node_spec_unschedulable", target, &[("node", &self.node)], cordoned);
        if view.phase.tells_requests {
            self.server(&mut samples, view);
        }
        samples.retain(|(labels, _)| !self.without.iter().any(|start| labels[0].1.starts_with(start)));
        self.before = (view.machine.counters.clone(), view.machine.now());
        self.push_all(time_ms, samples);
    }

    /// A scrape that failed.
    pub fn miss(&mut self, time_ms: TimeMs) {
        self.push_all(time_ms, Vec::new());
    }

    fn push_all(&mut self, time_ms: TimeMs, samples: Samples) {
        let mut present = Vec::new();
        for (labels, value) in samples {
            self.series.entry(labels.clone()).or_default().push(Sample { time_ms, value });
            present.push(labels);
        }
        present.sort_unstable();
        for gone in self.last_scrape.iter().filter(|labels| present.binary_search(labels).is_err()) {
            let marker = Sample { time_ms, value: f64::from_bits(STALE_BITS) };
            self.series.entry(gone.clone()).or_default().push(marker);
        }
        self.last_scrape = present;
    }

    fn instance(&self, port: u16) -> String {
        format!("{}:{port}", self.node)
    }

    /// DCGM's fields. Utilisation and power are what they were in the last second; profiling is the mean over the time
    /// since the last scrape, as dcgm-exporter and GPM give it.
    fn dcgm(&self, samples: &mut Samples, view: &View<'_>, job: &str, port: u16) {
        let (c, now) = (&view.machine.counters, view.machine.now());
        let instance = self.instance(port);
        let target = [("job", job), ("instance", instance.as_str())];
        let host_label = if self.names == Names::Legacy { "Hostname" } else { "hostname" };
        let scraped = (&self.before.0, self.before.1);
        let lately = view.lately.unwrap_or(scraped);
        let mig = &view.phase.mig;
        for gpu in (0..view.gpus()).filter(|gpu| !view.is_lost(*gpu) && (mig.is_empty() || *gpu < mig.len())) {
            let of_board = if mig.is_empty() { gpu } else { 0 };
            let (uuid, index, id) = (self.uuid(of_board), (of_board + self.first_gpu).to_string(), instance_id(gpu));
            let device =
                [("gpu", index.as_str()), ("UUID", &uuid), (host_label, &self.node), ("modelName", self.model)];
            let held = view.is_held(gpu);
            let pod = [("namespace", "ml"), ("pod", PODS[self.tenant])];
            let pod = if held && job == "dcgm" && self.names_pods { &pod[..] } else { &[] };
            let part = mig.get(gpu).map(|profile| [("GPU_I_ID", id.as_str()), ("GPU_I_PROFILE", profile.as_str())]);
            let labels: Vec<_> = device.iter().chain(pod).copied().chain(part.into_iter().flatten()).collect();
            let per_second = |grown: f64, then| if now > then { (grown / (now - then)).max(0.0) } else { 0.0 };
            let rate = |(before, then): (&Counters, f64), of: fn(&GpuCounters) -> f64| {
                per_second(of(&c.gpus[gpu]) - before.gpus.get(gpu).map_or(0.0, of), then)
            };
            // What the board of instances draws is as much as they do in the mean, were each a GPU.
            let joules = |c: &Counters| match c.gpus.len() {
                all if !mig.is_empty() => c.gpus.iter().map(|g| g.joules).sum::<f64>() / all as f64,
                _ => c.gpus.get(gpu).map_or(0.0, |g| g.joules),
            };
            let board = view.machine.layout.board;
            let memory = board.map_or(DEVICE_MEMORY, |b| b.memory) * view.phase.slices(gpu);
            let bare = if mig.is_empty() { 0.0 } else { BARE_INSTANCE };
            let used = if held { view.machine.memory * memory } else { bare };
            if let Some(bytes) = view.phase.linked {
                push(samples, dcgm::PROF_NVLINK_RX.legacy.name, target, &labels, bytes);
            }
            let clock = if view.is_odd(gpu) { view.phase.odd_clock() } else { 1.0 };
            let stock = board.map_or(STOCK_LIMIT, |b| b.limit);
            let limit = if view.is_odd(gpu) { view.phase.power_limit * stock / STOCK_LIMIT } else { stock };
            let full_clock = board.map_or(FULL_CLOCK, |b| b.clock);
            for (row, value) in [
                (&dcgm::GPU_UTIL, rate(lately, |g| g.busy).min(1.0)),
                (&dcgm::PROF_GR_ENGINE_ACTIVE, rate(scraped, |g| g.busy).min(1.0)),
                (&dcgm::PROF_SM_ACTIVE, rate(scraped, |g| g.active).min(1.0)),
                (&dcgm::PROF_SM_OCCUPANCY, rate(scraped, |g| g.occupied).min(1.0)),
                (&dcgm::PROF_TENSOR_ACTIVE, rate(scraped, |g| g.tensor).min(1.0)),
                (&dcgm::PROF_DRAM_ACTIVE, rate(scraped, |g| g.dram).min(1.0)),
                (&dcgm::POWER_USAGE, per_second(joules(c) - joules(lately.0), lately.1)),
                (&dcgm::TOTAL_ENERGY, joules(c)),
                (&dcgm::PROF_PCIE_RX, rate(scraped, |g| g.received)),
                (&dcgm::SM_CLOCK, full_clock * clock),
                (&dcgm::MAX_SM_CLOCK, full_clock),
                (&dcgm::PCIE_LINK_GEN, 5.0),
                (&dcgm::PCIE_MAX_LINK_GEN, 5.0),
                (&dcgm::PCIE_LINK_WIDTH, f64::from(view.lanes(gpu))),
                (&dcgm::PCIE_MAX_LINK_WIDTH, f64::from(LANES)),
                (&dcgm::ENFORCED_POWER_LIMIT, limit),
                (&dcgm::POWER_LIMIT_DEFAULT, stock),
                (&dcgm::FB_USED, used),
                (&dcgm::FB_FREE, memory - used),
                (&dcgm::XID_ERRORS, if view.is_odd(gpu) { f64::from(view.phase.xid) } else { 0.0 }),
            ] {
                let name = row.legacy.name;
                // No exporter has the utilisation of an instance; our exporter serves the board's values once.
                let is_told = name != dcgm::GPU_UTIL.legacy.name && (job == "dcgm" || gpu == 0 || is_of_instance(name));
                let is_asked_for = job != "dcgm" || self.fields == Fields::More || is_usual(name);
                if !mig.is_empty() && !is_told || !is_asked_for {
                    continue;
                }
                let is_boards = job != "dcgm" && !is_of_instance(name);
                let labels = if is_boards { &device[..] } else { &labels };
                let metric = if self.names == Names::Legacy { &row.legacy } else { &row.current };
                let value = value / base(metric.unit);
                let whole = matches!(metric.unit, Unit::Percent | Unit::Mebibytes);
                push(samples, metric.name, target, labels, if whole { value.round() } else { value });
            }
        }
    }

    /// vLLM's own metrics, under the name of its pod, or of its owner where our exporter names owners otherwise.
    fn server(&self, samples: &mut Samples, view: &View<'_>) {
        let instance = self.instance(8000);
        let target = [("job", "vllm"), ("instance", instance.as_str())];
        let own = self.exporters == Exporters::Ours;
        let pod = [("namespace", "ml"), ("pod", PODS[self.tenant])];
        let owner = [("owner", self.owner())];
        let who = if own { &owner[..] } else { &pod[..] };
        let (open, waiting) = view.machine.requests_open();
        let answered = view.machine.counters.requests - (open + waiting) as f64;
        for (name, value) in [
            ("vllm:num_requests_running", open as f64),
            ("vllm:num_requests_waiting", waiting as f64),
            ("vllm:request_success_total", answered.max(0.0)),
        ] {
            push(samples, name, target, who, value);
        }
    }

    fn node_exporter(&self, samples: &mut Samples, view: &View<'_>) {
        let c = &view.machine.counters;
        let instance = self.instance(9100);
        let target = [("job", "node"), ("instance", instance.as_str())];
        let mut host = |name, labels: &[(&str, &str)], value| push(samples, name, target, labels, value);
        host("node_uname_info", &[("nodename", &self.node)], 1.0);
        host("node_disk_read_bytes_total", &[("device", "nvme0n1")], c.read);
        host("node_disk_written_bytes_total", &[("device", "nvme0n1")], c.written + c.others_written);
        let disk = [("device", "/dev/nvme0n1p1"), ("fstype", "ext4"), ("mountpoint", "/")];
        host("node_filesystem_size_bytes", &disk, DISK_SIZE);
        host("node_filesystem_avail_bytes", &disk, (DISK_SIZE * (1.0 - view.machine.disk)).round());
        host("node_filesystem_readonly", &disk, 0.0);
        host("node_pressure_cpu_waiting_seconds_total", &[], c.node_cpu_waiting);
        host("node_pressure_io_waiting_seconds_total", &[], c.node_io_waiting);
        host("node_pressure_memory_waiting_seconds_total", &[], c.node_memory_waiting);
        for cpu in ["0", "1"] {
            for (mode, value) in c.modes() {
                host("node_cpu_seconds_total", &[("cpu", cpu), ("mode", mode)], value / 2.0);
            }
        }
    }
}

/// Does every MIG instance have this field of DCGM?
fn is_of_instance(field: &str) -> bool {
    ["PROF_GR", "PROF_SM", "PROF_PIPE", "PROF_DRAM", "DEV_FB"]
        .iter()
        .any(|of| field["DCGM_FI_".len()..].starts_with(of))
}

/// Is this field in `default-counters.csv` of dcgm-exporter 4.8?
fn is_usual(field: &str) -> bool {
    let others = ["PROF_SM", "DEV_MAX_SM_CLOCK", "DEV_PCIE_", "DEV_ENFORCED_POWER", "DEV_POWER_MGMT"];
    !others.iter().any(|of| field["DCGM_FI_".len()..].starts_with(of))
}

/// The id of the MIG instance in the place of this GPU.
fn instance_id(gpu: usize) -> String {
    (gpu + 1).to_string()
}

/// The model of simulated GPUs, as the driver names it.
pub const H100: &str = "NVIDIA H100 80GB HBM3";
/// Highest SM clock of an H100 SXM, in hertz.
const FULL_CLOCK: f64 = 1.98e9;

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

fn push(samples: &mut Samples, name: &str, target: [(&str, &str); 2], labels: &[(&str, &str)], value: f64) {
    let all = [("__name__", name)].into_iter().chain(target).chain(labels.iter().copied());
    samples.push((all.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(), value));
}
