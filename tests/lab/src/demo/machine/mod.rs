//! A simulated node: the kernel's files and the GPUs' event log, as of any moment of a [`Script`].
//!
//! The real programs read both: the files through their `--path` flags, the GPUs through the fake NVML. Nothing here knows
//! what anyone makes of it: [`model`] turns what the script says into rates, which add up to what a kernel counts, and the
//! files are written in the kernel's own formats.

mod cgroup;
mod gpus;
mod layout;
mod model;
pub(crate) mod noise;
mod proc;
mod tree;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use super::script::{Job, SLOT_SECONDS, Script, Second};
use layout::{DISKS, NODES};
use model::{DiskTotals, JobTotals, NodeTotals, Slot};

const SLOT_US: u64 = SLOT_SECONDS * 1_000_000;
const PAGE_BYTES: f64 = 4096.0;
/// The node was up for so long when the script begins.
const UP: Duration = Duration::from_secs(600);
/// What the system and its services hold on each NUMA node: anonymous and kernel memory, and file pages.
const SYSTEM_BYTES: f64 = 11e9;
const SYSTEM_FILE_BYTES: f64 = 6e9;

/// Where a program finds the machine.
#[derive(Clone, Debug)]
pub struct Roots {
    /// For `--path.procfs`.
    pub proc: PathBuf,
    /// For `--path.sysfs`.
    pub sys: PathBuf,
    /// For `--path.cgroup`.
    pub cgroup: PathBuf,
    /// For `--path.rootfs`.
    pub root: PathBuf,
}

/// Everything counted so far.
#[derive(Clone, Debug)]
struct Counted {
    node: NodeTotals,
    disks: [DiskTotals; DISKS],
    /// By row: on its own CPU, and on that CPU's neighbour on the other NUMA node.
    interrupts: Vec<[f64; 2]>,
    /// In the order of the script's jobs.
    jobs: Vec<JobTotals>,
}

/// The node, as of the moment it was last moved to.
#[derive(Debug)]
pub struct Machine {
    roots: Roots,
    log: PathBuf,
    script: Script,
    files: tree::Files,
    gpus: gpus::Gpus,
    counted: Counted,
    /// Microseconds since the script's start.
    at_us: u64,
    /// Jobs whose files are there, as positions in the script.
    running: Vec<usize>,
}

impl Machine {
    /// Writes `proc`, `sys`, `cgroup`, `root` and `gpus.jsonl` into the folder, as of the script's start.
    ///
    /// # Errors
    /// When they cannot be written, or a log is there already.
    pub fn new(dir: &Path, script: Script) -> Result<Machine> {
        let log = dir.join("gpus.jsonl");
        let [proc, sys, cgroup, root] = ["proc", "sys", "cgroup", "root"].map(|name| dir.join(name));
        let files = tree::Files::unpack(dir)?;
        let gpus = gpus::Gpus::new(&log, &script, script.start() - UP)?;
        let counted = Counted::none(&script);
        let start = script.start();
        let roots = Roots { proc, sys, cgroup, root };
        let mut machine = Machine { roots, log, script, files, gpus, counted, at_us: 0, running: Vec::new() };
        machine.move_to(start)?;
        Ok(machine)
    }

    /// Where its files are.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The event log of its GPUs, for `FAKE_NVML`.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Brings files and GPUs to a moment not before the last one.
    ///
    /// # Errors
    /// When the moment lies before the last one, or something cannot be written.
    pub fn move_to(&mut self, at: SystemTime) -> Result<()> {
        let since = at.duration_since(self.script.start()).context("a moment before the script's start")?;
        let at_us = since.as_micros() as u64;
        anyhow::ensure!(at_us >= self.at_us, "the machine cannot go back by {} us", self.at_us - at_us);
        self.count_until(at_us);
        let now = model::slot(&self.script, at_us / SLOT_US);
        self.write_jobs(at_us / 1_000_000, &now)?;
        self.write_node(at_us, &now)?;
        self.gpus.move_to(&self.script, at_us / 1_000_000)
    }

    /// Rates are constant within a slot, so that only the sum of the steps counts.
    fn count_until(&mut self, at_us: u64) {
        while self.at_us < at_us {
            let number = self.at_us / SLOT_US;
            let until = at_us.min((number + 1) * SLOT_US);
            let seconds = (until - self.at_us) as f64 / 1e6;
            self.counted.add(&model::slot(&self.script, number), seconds);
            self.at_us = until;
        }
    }

    fn write_jobs(&mut self, at: Second, now: &Slot) -> Result<()> {
        let running: Vec<usize> =
            (0..self.script.jobs.len()).filter(|i| self.script.jobs[*i].span.contains(&at)).collect();
        let ended: Vec<usize> = self.running.iter().copied().filter(|i| !running.contains(i)).collect();
        for index in ended {
            let job = &self.script.jobs[index];
            self.files.remove(&cgroup::folder(job))?;
            for (_, pid) in job.ranks() {
                self.files.remove(&format!("proc/{pid}"))?;
            }
        }
        for index in &running {
            let none = JobTotals::default();
            let rates = now.jobs[*index].as_ref().map_or(&none, |flow| &flow.rates);
            for (path, text) in cgroup::files(&self.script.jobs[*index], at, &self.counted.jobs[*index], rates) {
                self.files.write(&path, text)?;
            }
        }
        self.running = running;
        Ok(())
    }

    fn write_node(&mut self, at_us: u64, now: &Slot) -> Result<()> {
        let at = at_us / 1_000_000;
        let (used, file) = memory_of_nodes(self.running.iter().map(|i| &self.script.jobs[*i]), at);
        let booted = (self.script.start() - UP).duration_since(UNIX_EPOCH).unwrap_or_default();
        let uptime = (UP + Duration::from_micros(at_us)).as_secs_f64();
        let node = proc::Node { counted: &self.counted, rates: now, uptime, booted: booted.as_secs(), used, file };
        for (path, text) in node.files() {
            self.files.write(&path, text)?;
        }
        Ok(())
    }
}

/// Bytes in use on each NUMA node, and file pages among them.
fn memory_of_nodes<'a>(jobs: impl Iterator<Item = &'a Job>, at: Second) -> ([f64; NODES], [f64; NODES]) {
    let mut used = [SYSTEM_BYTES + SYSTEM_FILE_BYTES; NODES];
    let mut file = [SYSTEM_FILE_BYTES; NODES];
    for memory in jobs.map(|job| layout::memory(job, at)) {
        for node in 0..NODES {
            used[node] += memory.on_node[node] * memory.current();
            file[node] += memory.on_node[node] * (memory.active_file + memory.inactive_file);
        }
    }
    (used, file)
}

impl Counted {
    fn none(script: &Script) -> Counted {
        Counted {
            node: NodeTotals::default(),
            disks: Default::default(),
            interrupts: vec![[0.0; 2]; layout::rows().len()],
            jobs: vec![JobTotals::default(); script.jobs.len()],
        }
    }

    fn add(&mut self, slot: &Slot, seconds: f64) {
        self.node.add(&slot.node, seconds);
        for (total, rates) in self.disks.iter_mut().zip(&slot.disks) {
            total.add(rates, seconds);
        }
        for (counts, (rate, away)) in self.interrupts.iter_mut().zip(&slot.interrupts) {
            counts[usize::from(*away)] += rate * seconds;
        }
        for (total, flow) in self.jobs.iter_mut().zip(&slot.jobs) {
            if let Some(flow) = flow {
                total.add(&flow.rates, seconds);
            }
        }
    }
}
