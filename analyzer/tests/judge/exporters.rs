//! What Prometheus would have stored of the simulated machine: the series of our exporter, or of dcgm-exporter alone or
//! beside node_exporter.

use std::collections::BTreeMap;

use goodput_analyzer::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use serde::Deserialize;

use crate::model::{Counters, Phase};

/// Which exporters run on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exporters {
    Ours,
    Dcgm,
    DcgmAndNode,
}

pub(crate) const GPU: &str = "GPU-00000000-0000-0000-0000-000000000001";
/// Draw of the simulated H100 in watts: bare, with a context, at work.
const WATTS: [f64; 3] = [68.0, 115.0, 520.0];
/// Device memory of the simulated job, in MiB.
const JOB_MEMORY: f64 = 40_000.0;

/// Series under construction, by their label text.
#[derive(Default)]
pub(crate) struct Recorder {
    series: BTreeMap<Vec<(String, String)>, Vec<Sample>>,
    last_scrape: Vec<Vec<(String, String)>>,
    /// The counters at the last scrape, and its time in seconds.
    before: (Counters, f64),
}

impl Recorder {
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
        let busy = ((now.gpu_busy - before.gpu_busy) / (seconds - then)).clamp(0.0, 1.0);
        match exporters {
            Exporters::Ours => ours(&mut samples, phase, now, seconds),
            Exporters::Dcgm => dcgm(&mut samples, phase, busy),
            Exporters::DcgmAndNode => {
                dcgm(&mut samples, phase, busy);
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

fn ours(samples: &mut Samples, phase: &Phase, c: &Counters, seconds: f64) {
    let mut gpu = |name, value| push(samples, name, OURS, &[("gpu", "0"), ("UUID", GPU)], value);
    gpu("goodput_gpu_busy_seconds_total", c.gpu_busy);
    gpu("goodput_gpu_observed_seconds_total", seconds);
    gpu("goodput_gpu_processes", f64::from(u8::from(phase.job)));
    let mut node = |name, labels: &[(&str, &str)], value| push(samples, name, OURS, labels, value);
    node("goodput_node_info", &[("nodename", "n1")], 1.0);
    node("goodput_pressure_waiting_seconds_total", &[("resource", "io")], c.node_io_waiting);
    node("goodput_pressure_waiting_seconds_total", &[("resource", "cpu")], c.node_cpu_waiting);
    for (mode, value) in [("user", c.node_busy), ("idle", c.node_idle), ("iowait", c.node_iowait)] {
        node("goodput_node_cpu_seconds_total", &[("mode", mode)], value);
    }
    if !phase.job {
        return;
    }
    push(samples, "goodput_gpu_owner_info", OURS, &[("gpu", "0"), ("UUID", GPU), ("owner", "train")], 1.0);
    let mut job = |name, value| push(samples, name, OURS, &[("owner", "train")], value);
    job("goodput_cgroup_cpu_usage_seconds_total", c.cpu_usage);
    job("goodput_cgroup_allowed_cpus", phase.cpus as f64);
    job("goodput_cgroup_cpu_periods_total", c.periods);
    job("goodput_cgroup_cpu_throttled_periods_total", c.throttled_periods);
    job("goodput_cgroup_cpu_throttled_seconds_total", c.throttled);
    if let Some(quota) = phase.quota {
        job("goodput_cgroup_cpu_limit_cores", quota);
    }
    for (resource, value) in [("cpu", c.job_cpu_waiting), ("io", c.job_io_waiting)] {
        let labels = [("owner", "train"), ("resource", resource)];
        push(samples, "goodput_cgroup_pressure_waiting_seconds_total", OURS, &labels, value);
    }
}

/// dcgm-exporter: gauges, which are means over the time since the last scrape at best.
fn dcgm(samples: &mut Samples, phase: &Phase, busy: f64) {
    let idle = if phase.job { WATTS[1] } else { WATTS[0] };
    let target = [("job", "dcgm"), ("instance", "10.0.0.1:9400")];
    let device = [("gpu", "0"), ("UUID", GPU), ("Hostname", "n1"), ("modelName", "NVIDIA H100 80GB HBM3")];
    let pod = if phase.job { &[("namespace", "ml"), ("pod", "train-0")][..] } else { &[] };
    let labels: Vec<_> = device.iter().chain(pod).copied().collect();
    let mut gpu = |name, value| push(samples, name, target, &labels, value);
    gpu("DCGM_FI_DEV_GPU_UTIL", (100.0 * busy).round());
    gpu("DCGM_FI_PROF_GR_ENGINE_ACTIVE", busy);
    gpu("DCGM_FI_DEV_POWER_USAGE", idle + busy * (WATTS[2] - idle));
    gpu("DCGM_FI_DEV_FB_USED", if phase.job { JOB_MEMORY } else { 0.0 });
}

fn node(samples: &mut Samples, c: &Counters) {
    let target = [("job", "node"), ("instance", "10.0.0.1:9100")];
    let mut host = |name, labels: &[(&str, &str)], value| push(samples, name, target, labels, value);
    host("node_uname_info", &[("nodename", "n1")], 1.0);
    host("node_pressure_io_waiting_seconds_total", &[], c.node_io_waiting);
    for cpu in ["0", "1"] {
        for (mode, value) in [("user", c.node_busy), ("idle", c.node_idle), ("iowait", c.node_iowait)] {
            host("node_cpu_seconds_total", &[("cpu", cpu), ("mode", mode)], value / 2.0);
        }
    }
}
