//! What Prometheus would have stored of the simulated machine: the series of our exporter, or of dcgm-exporter alone or
//! beside node_exporter.

use std::collections::BTreeMap;

use goodput_analyzer::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use serde::Deserialize;

use crate::model::{Counters, NODE_CPUS, Phase, gpu_numa_node, process_numa_node};

/// Which exporters run on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exporters {
    Ours,
    Dcgm,
    DcgmAndNode,
}

/// UUID of a simulated GPU.
pub(crate) fn uuid(gpu: usize) -> String {
    format!("GPU-00000000-0000-0000-0000-00000000000{gpu}")
}

/// Draw of the simulated H100 in watts: bare, with a context, at work.
const WATTS: [f64; 3] = [68.0, 115.0, 520.0];
/// Device memory of the simulated job, in MiB.
const JOB_MEMORY: f64 = 40_000.0;
/// Anonymous and shared memory of the process of one GPU, in bytes.
const PROCESS_MEMORY: f64 = 64e9;

/// Series under construction, by their label text.
#[derive(Default)]
pub(crate) struct Recorder {
    gpus: usize,
    series: BTreeMap<Vec<(String, String)>, Vec<Sample>>,
    last_scrape: Vec<Vec<(String, String)>>,
    /// The counters at the last scrape, and its time in seconds.
    before: (Counters, f64),
}

impl Recorder {
    /// A recorder of a node whose job has so many GPUs.
    pub(crate) fn new(gpus: usize) -> Recorder {
        Recorder { gpus, ..Recorder::default() }
    }

    pub(crate) fn into_series(self) -> Vec<Series> {
        self.series.into_iter().map(|(labels, samples)| Series { labels: Labels::new(labels), samples }).collect()
    }

    /// One scrape of the node; series that are gone get Prometheus' staleness marker.
    pub(crate) fn scrape(
        &mut self,
        time_ms: TimeMs,
        exporters: Exporters,
        phase: &Phase,
        now: &Counters,
        seconds: f64,
    ) {
        let mut samples = Vec::new();
        let (before, then) = &self.before;
        let ratio = |gpu: usize| ((now.gpu_busy[gpu] - before.gpu_busy[gpu]) / (seconds - then)).clamp(0.0, 1.0);
        let busy: Vec<f64> = (0..self.gpus).map(ratio).collect();
        match exporters {
            Exporters::Ours => ours(&mut samples, phase, self.gpus, now, seconds),
            Exporters::Dcgm => dcgm(&mut samples, phase, &busy),
            Exporters::DcgmAndNode => {
                dcgm(&mut samples, phase, &busy);
                node(&mut samples, now);
            }
        }
        self.before = (*now, seconds);
        self.push_all(time_ms, samples);
    }

    /// A scrape that failed.
    pub(crate) fn miss(&mut self, time_ms: TimeMs) {
        self.push_all(time_ms, Vec::new());
    }

    fn push_all(&mut self, time_ms: TimeMs, samples: Vec<(Vec<(String, String)>, f64)>) {
        let mut present = Vec::new();
        for (labels, value) in samples {
            self.series.entry(labels.clone()).or_default().push(Sample { time_ms, value });
            present.push(labels);
        }
        for gone in self.last_scrape.iter().filter(|labels| !present.contains(labels)) {
            let marker = Sample { time_ms, value: f64::from_bits(STALE_BITS) };
            self.series.entry(gone.clone()).or_default().push(marker);
        }
        self.last_scrape = present;
    }
}

type Samples = Vec<(Vec<(String, String)>, f64)>;

fn push(samples: &mut Samples, name: &str, target: [(&str, &str); 2], labels: &[(&str, &str)], value: f64) {
    let all = [("__name__", name)].into_iter().chain(target).chain(labels.iter().copied());
    samples.push((all.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(), value));
}

const OURS: [(&str, &str); 2] = [("job", "goodput"), ("instance", "n1:9400")];

fn ours(samples: &mut Samples, phase: &Phase, gpus: usize, c: &Counters, seconds: f64) {
    for gpu in 0..gpus {
        let uuid = uuid(gpu);
        let mut gauge = |name, value| push(samples, name, OURS, &[("UUID", &uuid)], value);
        gauge("goodput_gpu_busy_seconds_total", c.gpu_busy[gpu]);
        gauge("goodput_gpu_observed_seconds_total", seconds);
        gauge("goodput_gpu_processes", f64::from(u8::from(phase.job)));
    }
    placement(samples, phase, gpus);
    let mut node = |name, labels: &[(&str, &str)], value| push(samples, name, OURS, labels, value);
    node("goodput_node_info", &[("nodename", "n1")], 1.0);
    for (resource, value) in [("cpu", c.node_cpu_waiting), ("memory", c.node_memory_waiting), ("io", c.node_io_waiting)]
    {
        node("goodput_pressure_waiting_seconds_total", &[("resource", resource)], value);
    }
    for (mode, value) in c.modes() {
        node("goodput_node_cpu_seconds_total", &[("mode", mode)], value);
    }
    node("goodput_disk_written_bytes_total", &[("device", "nvme0n1")], c.written);
    if !phase.job {
        return;
    }
    for gpu in 0..gpus {
        push(samples, "goodput_gpu_owner_info", OURS, &[("UUID", &uuid(gpu)), ("owner", "train")], 1.0);
    }
    let mut job = |name, value| push(samples, name, OURS, &[("owner", "train")], value);
    job("goodput_cgroup_cpu_usage_seconds_total", c.cpu_usage);
    job("goodput_cgroup_allowed_cpus", phase.cpus as f64);
    job("goodput_cgroup_cpu_periods_total", c.periods);
    job("goodput_cgroup_cpu_throttled_periods_total", c.throttled_periods);
    job("goodput_cgroup_cpu_throttled_seconds_total", c.throttled);
    job("goodput_cgroup_major_faults_total", c.refaults);
    job("goodput_cgroup_io_written_bytes_total", c.written);
    if let Some(quota) = phase.quota {
        job("goodput_cgroup_cpu_limit_cores", quota);
    }
    for (resource, value) in [("cpu", c.job_cpu_waiting), ("memory", c.job_memory_waiting), ("io", c.job_io_waiting)] {
        let labels = [("owner", "train"), ("resource", resource)];
        push(samples, "goodput_cgroup_pressure_waiting_seconds_total", OURS, &labels, value);
    }
    for (kind, share) in [("anon", 0.25), ("file", 0.75)] {
        let labels = [("owner", "train"), ("kind", kind)];
        push(samples, "goodput_cgroup_refault_pages_total", OURS, &labels, share * c.refaults);
    }
}

/// Which NUMA node each GPU hangs on, and where the processes of the GPUs may run and have their memory.
fn placement(samples: &mut Samples, phase: &Phase, gpus: usize) {
    const NUMA_NODES: [&str; 2] = ["0", "1"];
    let mut job_memory = [0.0; 2];
    for gpu in 0..gpus {
        let (uuid, home) = (uuid(gpu), process_numa_node(gpu, gpus, phase));
        job_memory[home] += PROCESS_MEMORY;
        let own = NUMA_NODES[gpu_numa_node(gpu)];
        push(samples, "goodput_gpu_numa_info", OURS, &[("UUID", &uuid), ("node", own)], 1.0);
        for (node, name) in NUMA_NODES.into_iter().enumerate().filter(|_| phase.job) {
            let cpus = if node == home { NODE_CPUS / 2 } else { 0 };
            push(samples, "goodput_gpu_numa_allowed_cpus", OURS, &[("UUID", &uuid), ("node", name)], cpus as f64);
        }
    }
    for (bytes, name) in job_memory.into_iter().zip(NUMA_NODES).filter(|_| phase.job) {
        let labels = [("owner", "train"), ("node", name)];
        push(samples, "goodput_cgroup_numa_anon_shmem_bytes", OURS, &labels, bytes);
    }
}

/// dcgm-exporter: gauges, which are means over the time since the last scrape at best.
fn dcgm(samples: &mut Samples, phase: &Phase, busy: &[f64]) {
    let idle = if phase.job { WATTS[1] } else { WATTS[0] };
    let target = [("job", "dcgm"), ("instance", "10.0.0.1:9400")];
    let pod = if phase.job { &[("namespace", "ml"), ("pod", "train-0")][..] } else { &[] };
    for (gpu, busy) in busy.iter().enumerate() {
        let uuid = uuid(gpu);
        let device = [("UUID", uuid.as_str()), ("Hostname", "n1"), ("modelName", "NVIDIA H100 80GB HBM3")];
        let labels: Vec<_> = device.iter().chain(pod).copied().collect();
        let mut gauge = |name, value| push(samples, name, target, &labels, value);
        gauge("DCGM_FI_DEV_GPU_UTIL", (100.0 * busy).round());
        gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", *busy);
        gauge("DCGM_FI_DEV_POWER_USAGE", idle + busy * (WATTS[2] - idle));
        gauge("DCGM_FI_DEV_FB_USED", if phase.job { JOB_MEMORY } else { 0.0 });
    }
}

fn node(samples: &mut Samples, c: &Counters) {
    let target = [("job", "node"), ("instance", "10.0.0.1:9100")];
    let mut host = |name, labels: &[(&str, &str)], value| push(samples, name, target, labels, value);
    host("node_uname_info", &[("nodename", "n1")], 1.0);
    host("node_disk_written_bytes_total", &[("device", "nvme0n1")], c.written);
    host("node_pressure_io_waiting_seconds_total", &[], c.node_io_waiting);
    host("node_pressure_memory_waiting_seconds_total", &[], c.node_memory_waiting);
    for cpu in ["0", "1"] {
        for (mode, value) in c.modes() {
            host("node_cpu_seconds_total", &[("cpu", cpu), ("mode", mode)], value / 2.0);
        }
    }
}
