//! What Prometheus would have stored of a simulated machine: the series of our exporter, of dcgm-exporter alone, or of
//! dcgm-exporter and node_exporter.

use std::collections::BTreeMap;

use goodput_catalog::{HOST_LABEL, Metric};
use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use serde::Deserialize;

mod collectives;
mod dcgm;
mod mounts;
pub mod others;
mod ours;
pub mod servers;

use super::counters::Counters;
use super::model::Machine;
use super::phase::{LANES, Phase};

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
        // The kernel gives its start in whole seconds.
        let booted = (time_ms as f64 / 1000.0 - view.machine.now() + view.machine.booted).round();
        match self.exporters {
            Exporters::Ours => {
                self.ours(&mut samples, view, booted);
                self.dcgm(&mut samples, view, "goodput", 9400);
            }
            Exporters::Dcgm => self.dcgm(&mut samples, view, "dcgm", 9401),
            Exporters::DcgmAndNode => {
                self.dcgm(&mut samples, view, "dcgm", 9401);
                self.node_exporter(&mut samples, view, booted);
            }
        }
        self.kube_state(&mut samples, view);
        if view.phase.tells_requests {
            self.server(&mut samples, view);
        }
        self.inference(&mut samples, view);
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
}

/// The id of the MIG instance in the place of this GPU.
fn instance_id(gpu: usize) -> String {
    (gpu + 1).to_string()
}

/// The model of simulated GPUs, as the driver names it.
pub const H100: &str = "NVIDIA H100 80GB HBM3";
/// Highest SM clock of an H100 SXM, in hertz.
const FULL_CLOCK: f64 = 1.98e9;

/// Adds a sample of this row with the labels of the target and its own, which are among the row's.
fn push(samples: &mut Samples, row: &Metric, target: [(&str, &str); 2], labels: &[(&str, &str)], value: f64) {
    debug_assert!(labels.iter().all(|(name, _)| has(row, name)), "{}: {labels:?}", row.name);
    let all = [("__name__", row.name)].into_iter().chain(target).chain(labels.iter().copied());
    samples.push((all.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(), value));
}

/// Has the row a label of this name? That of the host is spelled in two ways.
fn has(row: &Metric, label: &str) -> bool {
    let mut known = row.labels.iter().chain(row.optional);
    known.any(|name| *name == label || *name == HOST_LABEL && name.eq_ignore_ascii_case(label))
}

#[cfg(test)]
mod tests;
