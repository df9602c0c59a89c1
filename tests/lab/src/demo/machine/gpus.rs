//! What the jobs do on the GPUs, as lines of the fake library's event log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::demo::script::{Job, SLOT_SECONDS, Script};

use super::layout::{self, GPUS, UUIDS};
use super::model::{self, Load};
use super::noise::around_one;
use super::tree::recorded;

/// Work is written down a block at a time, ahead of its moment: a sample that was read does not change any more.
const BLOCK_SLOTS: u64 = 30;
/// So long ahead.
const AHEAD_SECONDS: u64 = 2 * SLOT_SECONDS;
/// A held H100 without work (NVIDIA/aicr: 113.6 W under an idle server).
const HELD_MILLIWATTS: f64 = 115_000.0;
/// Share of a busy GPU's time in which its multiprocessors are: training on H100 draws 550 to 650 W.
const SM_PER_BUSY: f64 = 0.97;
/// The longest that products have: the ring then holds what is due in a step of a minute.
const SAMPLE_PERIOD_US: u64 = 1_000_000;
/// Steps in which memory is said to change.
const MEMORY_STEP: f64 = 67_108_864.0;

/// The writer of the log.
#[derive(Debug)]
pub(super) struct Gpus {
    file: File,
    start_us: u64,
    /// The first block that is not written yet.
    block: u64,
    /// Processes that are there, by pid: GPU and memory.
    processes: Vec<(u32, usize, u64)>,
    /// Held GPUs without work, whose power is set.
    resting: [bool; GPUS.len()],
}

fn us(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

impl Gpus {
    /// Starts the log with the node.
    pub(super) fn new(log: &Path, script: &Script, booted: SystemTime) -> Result<Gpus> {
        let file = OpenOptions::new().create_new(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot create event log {}", log.display()))?;
        let start_us = us(script.start());
        let gpus = Gpus { file, start_us, block: 0, processes: Vec::new(), resting: [false; GPUS.len()] };
        let cpus = ["0", "1"].map(|n| recorded(&format!("sys/devices/system/node/node{n}/cpulist")).trim());
        let places = GPUS.iter().zip(UUIDS).enumerate();
        let addresses: Vec<_> = places
            .map(|(i, (pci, uuid))| json!({ "pci": pci, "numa": layout::node_of_gpu(i), "uuid": uuid }))
            .collect();
        let node = json!({ "model": "NVIDIA H100 80GB HBM3", "count": GPUS.len(), "loaded_us": us(booted), "sample_period_us": SAMPLE_PERIOD_US, "power_sample_period_us": SAMPLE_PERIOD_US, "cpus": cpus, "gpus": addresses });
        gpus.append(&[json!({ "node": node })])?;
        Ok(gpus)
    }

    /// Writes what happens until a second of the script, and work somewhat beyond it.
    pub(super) fn move_to(&mut self, script: &Script, at: u64) -> Result<()> {
        let mut lines = self.changes(script, at);
        while self.block * BLOCK_SLOTS * SLOT_SECONDS <= at + AHEAD_SECONDS {
            self.work(script, &mut lines);
            self.block += 1;
        }
        self.append(&lines)
    }

    /// One write for all lines: readers may come in between.
    fn append(&self, lines: &[Value]) -> Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        (&self.file).write_all(text.as_bytes()).context("cannot append to the event log")
    }

    fn at_us(&self, second: u64) -> u64 {
        self.start_us + second * 1_000_000
    }

    /// Processes that came, went, or hold another amount of memory.
    fn changes(&mut self, script: &Script, at: u64) -> Vec<Value> {
        let mut lines = Vec::new();
        let before = std::mem::take(&mut self.processes);
        for (job, (gpu, pid)) in script.jobs.iter().flat_map(|job| job.ranks().map(move |rank| (job, rank))) {
            let known = before.iter().find(|(p, ..)| *p == pid);
            if job.span.contains(&at) {
                let steps = (layout::memory(job, at).device / MEMORY_STEP) as u64;
                let bytes = steps * MEMORY_STEP as u64;
                if known.is_none_or(|(.., b)| *b != bytes) {
                    lines.push(json!({ "process": { "gpu": gpu, "pid": pid, "used_bytes": bytes } }));
                }
                self.processes.push((pid, gpu, bytes));
            } else if known.is_some() {
                lines.extend(job.xid.map(|code| json!({ "xid": { "gpu": gpu, "code": code } })));
                lines.push(json!({ "exit": { "gpu": gpu, "pid": pid, "at_us": self.at_us(job.span.end) } }));
            }
        }
        lines
    }

    /// The work of the next block on every GPU.
    fn work(&mut self, script: &Script, lines: &mut Vec<Value>) {
        let first = self.block * BLOCK_SLOTS;
        let slots: Vec<_> = (first..first + BLOCK_SLOTS).map(|number| model::slot(script, number)).collect();
        for gpu in 0..GPUS.len() {
            let loads = slots.iter().map(|slot| load_of(script, slot, gpu));
            let mut run: Option<(u64, Held<'_>)> = None;
            for (number, held) in (first..).zip(loads.map(Some).chain([None])) {
                let same = matches!((&run, &held), (Some((_, before)), Some(now)) if before.goes_on_as(now));
                if same {
                    continue;
                }
                if let Some((from, before)) = run.take() {
                    self.stretch(gpu, from..number, &before, lines);
                }
                run = held.map(|held| (number, held));
            }
        }
    }

    /// A GPU that does the same from one slot to another.
    fn stretch(&mut self, gpu: usize, slots: std::ops::Range<u64>, held: &Held<'_>, lines: &mut Vec<Value>) {
        let from = self.at_us(slots.start * SLOT_SECONDS);
        let whole = (slots.end - slots.start) * SLOT_SECONDS * 1_000_000;
        let rests = held.0.is_some_and(|(_, load)| load == Load::Rest);
        if rests != self.resting[gpu] {
            let watts = rests.then(|| (HELD_MILLIWATTS * around_one("held", gpu as u64, 0.02)).round());
            lines.push(json!({ "set": { "gpu": gpu, "at_us": from, "reading": "power_mw", "value": watts } }));
            self.resting[gpu] = rests;
        }
        let Some((job, load)) = held.0 else { return };
        let (level, time) = match load {
            Load::Rest => return,
            Load::Steady(level) => (level, whole),
            Load::Burst(share) => (1.0, (whole as f64 * share) as u64),
        };
        let pid = job.ranks().find(|(g, _)| *g == gpu).map(|(_, pid)| pid);
        lines.push(json!({ "busy": { "gpu": gpu, "from_us": from, "to_us": from + time, "pid": pid, "load": levels(job, level) } }));
    }
}

/// Who holds a GPU, and how it is used.
struct Held<'a>(Option<(&'a Job, Load)>);

impl Held<'_> {
    /// Is the next slot one stretch with this one? Bursts restart in every slot.
    fn goes_on_as(&self, next: &Held<'_>) -> bool {
        match (self.0, next.0) {
            (None, None) => true,
            (Some((job, load)), Some((next_job, next_load))) => {
                job.pid == next_job.pid && load == next_load && !matches!(load, Load::Burst(_))
            }
            _ => false,
        }
    }
}

fn load_of<'a>(script: &'a Script, slot: &model::Slot, gpu: usize) -> Held<'a> {
    let mut jobs = script.jobs.iter().zip(&slot.jobs).filter_map(|(job, flow)| Some((job, flow.as_ref()?)));
    Held(jobs.find_map(|(job, flow)| {
        let rank = job.gpus.iter().position(|g| *g == gpu)?;
        Some((job, *flow.loads.get(rank)?))
    }))
}

fn levels(job: &Job, level: f64) -> Value {
    let percent = |share: f64| (1000.0 * share * level).round() / 10.0;
    let together = if job.gpus.len() > 1 { 4e10 * level } else { 0.0 };
    json!({
        "gpu": percent(1.0),
        "sm": percent(SM_PER_BUSY),
        "tensor": percent(0.45),
        "dram": percent(0.5),
        "memory": percent(0.4),
        "pcie_rx": (2.5e9 * level).round(),
        "pcie_tx": (0.4e9 * level).round(),
        "nvlink_tx": together.round(),
        "nvlink_rx": together.round(),
    })
}
