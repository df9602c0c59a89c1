//! The real programs of the demonstration, from the folder that this program is in.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};

use super::history::exporter_args;
use super::machine::Roots;
use crate::process::Running;
use crate::report::{Interval, full_hour, intervals};

/// The `job` label of the node's series.
pub const JOB: &str = "goodput";

/// An invented price, so that the report shows money too.
const PRICES: &str = "prices:\n- {model: 'NVIDIA H100*', currency: EUR, per_gpu_hour: 2.50, valid_from: 2020-01-01}\n";

/// Where the programs are and where they listen.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
    /// Of the machine; configuration and logs are written there too.
    pub dir: PathBuf,
    /// The analyzer's data directory.
    pub data: PathBuf,
    /// Where the exporter listens once it runs.
    pub exporter: SocketAddr,
    /// Where the analyzer listens.
    pub analyzer: SocketAddr,
}

impl Programs {
    /// Those next to the running program.
    ///
    /// # Errors
    /// When one of them is not there, or another process listens on their addresses.
    pub fn beside(dir: &Path, data: &Path, exporter: SocketAddr, analyzer: SocketAddr) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the folder of this program")?;
        let folder = program.parent().context("this program has no folder")?.to_owned();
        let programs = Self { folder, dir: dir.to_owned(), data: data.to_owned(), exporter, analyzer };
        for name in ["goodput-exporter", "goodput-analyzer", "libfake_nvml.so"] {
            let file = programs.file(name);
            ensure!(file.is_file(), "{} is missing: build the whole workspace", file.display());
        }
        for address in [exporter, analyzer] {
            TcpListener::bind(address)
                .with_context(|| format!("cannot listen on {address}; choose another address"))?;
        }
        Ok(programs)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The analyzer's configuration.
    fn config(&self) -> PathBuf {
        self.dir.join("analyzer.yml")
    }

    /// The fake `libnvidia-ml.so.1`.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.file("libfake_nvml.so")
    }

    /// Starts the exporter over the machine. It finds the GPUs through this process' own environment.
    ///
    /// # Errors
    /// When it does not come to listen.
    #[allow(clippy::disallowed_methods, reason = "starts the real program")]
    pub fn start_exporter(&self, roots: &Roots) -> Result<Running> {
        let mut command = Command::new(self.file("goodput-exporter"));
        command.arg("serve").args(exporter_args(roots, &self.library()));
        command.arg(format!("--web.listen-address={}", self.exporter));
        let mut running = Running::start(&mut command, &self.dir.join("exporter.log"))?;
        running.until_listens(self.exporter)?;
        Ok(running)
    }

    /// Starts the analyzer, which scrapes the exporter every few seconds if it is to.
    ///
    /// # Errors
    /// When it does not come to listen.
    #[allow(clippy::disallowed_methods, reason = "starts the real program")]
    pub fn start_analyzer(&self, scrapes: bool) -> Result<Running> {
        let jobs = format!("scrape:\n- {{name: {JOB}, targets: ['{}'], interval: 5s, timeout: 5s}}\n", self.exporter);
        let config = self.config();
        std::fs::write(&config, format!("{PRICES}{}", if scrapes { &jobs } else { "" }))?;
        let mut command = Command::new(self.file("goodput-analyzer"));
        command.arg("serve").arg(format!("--config.file={}", config.display()));
        command.arg(format!("--data.dir={}", self.data.display()));
        command.arg(format!("--web.listen-address={}", self.analyzer));
        let mut running = Running::start(&mut command, &self.dir.join("analyzer.log"))?;
        running.until_listens(self.analyzer)?;
        Ok(running)
    }

    /// The value of one of the analyzer's own metrics without labels, or with exactly these.
    ///
    /// # Errors
    /// When the page cannot be had.
    pub fn metric(&self, series: &str) -> Result<Option<f64>> {
        let page = ureq::get(format!("http://{}/metrics", self.analyzer)).call()?.body_mut().read_to_string()?;
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().with_context(|| format!("{series} {value}"))).transpose()
    }

    /// Writes the report of full hours into the file, in a form that `goodput-analyzer report` knows.
    ///
    /// # Errors
    /// When it cannot be made.
    #[allow(clippy::disallowed_methods, reason = "starts the real program")]
    pub fn report(&self, from: SystemTime, to: SystemTime, format: &str, out: &Path) -> Result<()> {
        let mut command = Command::new(self.file("goodput-analyzer"));
        command.arg("report").arg(format!("--config.file={}", self.config().display()));
        command.arg(format!("--data.dir={}", self.data.display()));
        command.arg(format!("--start={}", full_hour(from, 0)?)).arg(format!("--end={}", full_hour(to, 0)?));
        command.arg(format!("--format={format}")).arg("--out").arg(out);
        let output = command.output()?;
        ensure!(output.status.success(), "no report: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// Acknowledges the greatest finding of full hours, as a person would. Gives what the report says of it then.
    ///
    /// # Errors
    /// When there is none, or the analyzer does not take it.
    #[allow(clippy::disallowed_methods, reason = "starts the real program")]
    pub fn acknowledge(&self, from: SystemTime, to: SystemTime) -> Result<&'static str> {
        let mut command = Command::new(self.file("goodput-analyzer"));
        command.args(["findings", "list", "--format=json", &format!("--data.dir={}", self.data.display())]);
        command.arg(format!("--config.file={}", self.config().display()));
        command.arg(format!("--start={}", full_hour(from, 0)?)).arg(format!("--end={}", full_hour(to, 0)?));
        let output = command.output()?;
        ensure!(output.status.success(), "no findings: {}", String::from_utf8_lossy(&output.stderr).trim());
        let findings: serde_json::Value = serde_json::from_slice(&output.stdout).context("the list of findings")?;
        let id = findings[0]["id"].as_str().context("there is no finding")?;
        let url = format!("http://{}/api/v1/findings/{id}/events", self.analyzer);
        let body = r#"{"action": "acknowledge", "comment": "known from the script", "actor": "the demo"}"#;
        ureq::post(url).header("if-match", "*").content_type("application/json").send(body)?;
        Ok("acknowledged by the demo")
    }

    /// The intervals of the report over the full hours around the span.
    ///
    /// # Errors
    /// When there is no report.
    pub fn intervals(&self, from: SystemTime, to: SystemTime) -> Result<Vec<Interval>> {
        intervals(&self.file("goodput-analyzer"), &self.data, from, to)
    }
}
