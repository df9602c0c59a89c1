//! The two programs under test, as a user runs them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Result;
use goodput_lab::gpu::{FakeNode, FakeNvml};
use goodput_lab::process::{Running, free_address};
use goodput_lab::report::{Interval, command, intervals};
use goodput_lab::{artifact, bin};
use serde_json::Value;

/// A `goodput-exporter serve` over a fake NVML.
pub struct Exporter {
    /// Where it listens.
    pub address: SocketAddr,
    /// The process.
    pub running: Running,
}

impl Exporter {
    /// Starts it and waits until it listens.
    pub fn start(dir: &Path, node: &FakeNode) -> Result<Self> {
        Self::start_with(dir, node, &[])
    }

    /// Starts it with these arguments besides and waits until it listens.
    #[allow(clippy::disallowed_methods, reason = "starts the program under test")]
    pub fn start_with(dir: &Path, node: &FakeNode, arguments: &[String]) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(bin("goodput-exporter")?);
        command
            .arg("serve")
            .arg(format!("--web.listen-address={address}"))
            .arg(format!("--nvml.library={}", FakeNvml::build()?.path().display()))
            .args(arguments)
            .envs([node.env()]);
        let mut running = Running::start(&mut command, &dir.join("exporter.log"))?;
        running.until_listens(address)?;
        Ok(Self { address, running })
    }
}

/// A `goodput-analyzer serve` with a data directory of its own.
pub struct Analyzer {
    /// Where it listens.
    pub address: SocketAddr,
    /// The process.
    pub running: Running,
    /// Its data directory.
    pub data: PathBuf,
}

impl Analyzer {
    /// Starts it without configuration and waits until it listens.
    pub fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, "")
    }

    /// Starts it with this configuration file and waits until it listens. The data of an earlier start is still there.
    pub fn start_with(dir: &Path, config: &str) -> Result<Self> {
        Self::launch(dir, config, &[], &[])
    }

    /// The same with these arguments besides.
    pub fn start_with_arguments(dir: &Path, config: &str, arguments: &[String]) -> Result<Self> {
        Self::launch(dir, config, arguments, &[])
    }

    /// The same with the library of `tests/faults` preloaded, which looks into this folder for what to do.
    pub fn start_with_faults(dir: &Path, config: &str, faults: &Path) -> Result<Self> {
        let library = artifact("faults")?;
        Self::launch(dir, config, &[], &[("LD_PRELOAD", library.as_path()), ("GOODPUT_FAULTS", faults)])
    }

    #[allow(clippy::disallowed_methods, reason = "starts the program under test")]
    fn launch(dir: &Path, config: &str, arguments: &[String], environment: &[(&str, &Path)]) -> Result<Self> {
        let (address, data, file) = (free_address()?, dir.join("analyzer"), dir.join("analyzer.yml"));
        std::fs::write(&file, config)?;
        let mut command = Command::new(bin("goodput-analyzer")?);
        command
            .arg("serve")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--data.dir={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .args(arguments)
            .envs(environment.iter().copied());
        let mut running = Running::start(&mut command, &dir.join("analyzer.log"))?;
        running.until_listens(address)?;
        Ok(Self { address, running, data })
    }

    /// What it serves at this path. Its own metrics of 100,000 GPUs are more than the client's limit of 10 MiB.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut answer = ureq::get(format!("http://{}{path}", self.address)).call()?;
        Ok(answer.body_mut().with_config().limit(1 << 30).read_to_string()?)
    }

    /// The value of one of its own metrics; `None` while it has none.
    pub fn metric(&self, series: &str) -> Result<Option<f64>> {
        let page = self.get("/metrics")?;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(line.map(str::parse).transpose()?)
    }

    /// The intervals of its report over the full hours around the window, those inside the window alone.
    pub fn intervals(&self, from: SystemTime, to: SystemTime) -> Result<Vec<Interval>> {
        intervals(&bin("goodput-analyzer")?, &self.data, from, to)
    }

    /// Its report over the full hours around the window.
    pub fn report(&self, format: &str, from: SystemTime, to: SystemTime) -> Result<String> {
        command(&bin("goodput-analyzer")?, &["report", &format!("--format={format}")], &self.data, from, to)
    }

    /// Stops it, has its samples judged, and returns the intervals as [`Analyzer::intervals`] does, and the report's JSON
    /// form. For time that is over: the running program would come to it within a minute.
    pub fn judged(self, from: SystemTime, to: SystemTime) -> Result<(Vec<Interval>, Value)> {
        self.running.terminate()?;
        let analyzer = bin("goodput-analyzer")?;
        command(&analyzer, &["classify"], &self.data, from, to)?;
        let report = command(&analyzer, &["report", "--format=json"], &self.data, from, to)?;
        Ok((intervals(&analyzer, &self.data, from, to)?, serde_json::from_str(&report)?))
    }
}
