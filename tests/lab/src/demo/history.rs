//! A week in minutes: the exporter's own readers, collectors and encoder over the simulated machine, under its clock.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, anyhow, ensure};
use goodput_exporter::config::Config;
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::scrape::{Gpus, Scraper, Setup};
use goodput_exporter::source::nvml::Nvml;
use goodput_exposition::{Format, encode};

use super::machine::{Machine, Roots};
use crate::gpu::FakeNode;

/// From one scrape to the next: the ledger's cell.
pub const STEP: Duration = Duration::from_secs(60);

/// How long one scrape may take in real time; the collectors' own deadlines are shorter.
const PATIENCE: Duration = Duration::from_secs(60);

/// What shows the machine to an exporter: its command line, but for the address.
#[must_use]
pub fn exporter_args(roots: &Roots, library: &Path) -> Vec<OsString> {
    let flag = |name: &str, path: &Path| {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(path);
        flag
    };
    vec![
        flag("path.procfs", &roots.proc),
        flag("path.sysfs", &roots.sys),
        flag("path.cgroup", &roots.cgroup),
        flag("path.rootfs", &roots.root),
        flag("nvml.library", library),
    ]
}

/// Makes what a scraper would have got, moment by moment.
pub struct History {
    machine: Machine,
    log: FakeNode,
    nvml: Arc<Nvml>,
    scraper: Scraper,
    at: SystemTime,
}

impl History {
    /// Stands at `from`, a moment not before the machine's own. This process must have been started with the machine's
    /// GPUs: the environment variable `FAKE_NVML` names their log.
    ///
    /// # Errors
    /// When it was not, or the machine or the exporter's parts do not start.
    pub fn begin(mut machine: Machine, library: &Path, from: SystemTime) -> Result<Self> {
        let shown = std::env::var_os("FAKE_NVML");
        ensure!(shown.as_deref() == Some(machine.log().as_os_str()), "FAKE_NVML is {shown:?}, not the machine's log");
        machine.move_to(from)?;
        let log = FakeNode::open(machine.log())?;
        log.fix_clock(from)?;
        let args = exporter_args(machine.roots(), library);
        let args = ["goodput-exporter".into()].into_iter().chain(args);
        let config =
            Config::read(REGISTRY, args, &|_| None).map_err(|error| anyhow!("the exporter's flags: {error:?}"))?;
        let nvml = Arc::new(Nvml::stepped(config.nvml(), from));
        let snapshots = Arc::clone(&nvml);
        let gpus: Gpus = Arc::new(move || snapshots.snapshot());
        // Two scrapes lie a minute apart, however fast they follow each other.
        let setup = Setup { reuse: Duration::ZERO, ..Setup::new(&config, gpus) };
        let scraper = Scraper::start(setup).context("cannot start the collectors' threads")?;
        Ok(Self { machine, log, nvml, scraper, at: from })
    }

    /// One scrape at that moment, as OpenMetrics text, which is what the analyzer's scraper asks for.
    ///
    /// # Errors
    /// When the moment lies before the last one, or the machine cannot be moved there.
    pub fn scrape(&mut self, at: SystemTime) -> Result<String> {
        self.machine.move_to(at)?;
        self.log.fix_clock(at)?;
        self.nvml.step(at.duration_since(self.at)?);
        self.at = at;
        let scrape = self.scraper.request(Instant::now() + PATIENCE);
        let scrape = scrape.blocking_recv().context("the scraper has stopped")?;
        Ok(encode(&scrape.families, Format::OpenMetrics))
    }

    /// Releases the GPUs and gives them the wall clock back.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn end(self) -> Result<Machine> {
        self.nvml.shutdown();
        self.log.free_clock()?;
        Ok(self.machine)
    }
}
