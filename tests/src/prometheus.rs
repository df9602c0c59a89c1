//! A real Prometheus between the programs.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use goodput_lab::process::{Running, free_address, until};
use serde_json::Value;

/// A Prometheus that scrapes every second.
pub struct Prometheus {
    running: Running,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts one that scrapes `targets` (job name, address) and forwards to `remote_write`.
    pub fn start(dir: &Path, targets: &[(&str, SocketAddr)], remote_write: Option<SocketAddr>) -> Result<Self> {
        Self::run(
            dir,
            targets,
            &remote_write
                .map_or(String::new(), |address| format!("remote_write:\n- url: http://{address}/api/v1/write\n")),
        )
    }

    /// Starts one that scrapes `targets`, evaluates these rule files every second and sends alerts to `alertmanager`.
    pub fn alerting(
        dir: &Path,
        targets: &[(&str, SocketAddr)],
        rules: &[PathBuf],
        alertmanager: SocketAddr,
    ) -> Result<Self> {
        let mut more = String::from("rule_files:\n");
        for file in rules {
            writeln!(more, "- {}", file.display())?;
        }
        writeln!(more, "alerting:\n  alertmanagers:\n  - static_configs: [{{targets: ['{alertmanager}']}}]")?;
        Self::run(dir, targets, &more)
    }

    /// Starts one with these sections in its configuration besides the targets.
    pub fn run(dir: &Path, targets: &[(&str, SocketAddr)], sections: &str) -> Result<Self> {
        let mut config = String::from(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nscrape_configs:\n",
        );
        for (job, target) in targets {
            writeln!(config, "- {{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}")?;
        }
        Self::of(Path::new("prometheus"), dir, &(config + sections), &[])
            .context("this test needs Debian's prometheus package (deploy/local/packages test)")
    }

    /// Starts this program with this configuration and these arguments besides.
    #[allow(clippy::disallowed_methods, reason = "starts the real Prometheus")]
    pub fn of(program: &Path, dir: &Path, config: &str, arguments: &[&str]) -> Result<Self> {
        let file = dir.join("prometheus.yml");
        fs::write(&file, config)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"));
        let mut running = Running::start(&mut command, &dir.join("prometheus.log"))?;
        running.until_listens(address)?;
        let prometheus = Self { running, address };
        until("Prometheus to be ready", Duration::from_secs(90), || {
            Ok(ureq::get(format!("http://{address}/-/ready")).call().is_ok().then_some(()))
        })?;
        Ok(prometheus)
    }

    /// An instant query's result vector.
    pub fn query(&self, promql: &str) -> Result<Vec<Value>> {
        let answer = self.api("query", &[("query", promql)])?;
        if answer["status"] == "error" {
            bail!("{}: {promql}", answer["error"]);
        }
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// What a job's target said of a family: type, unit, help; `None` before the first scrape.
    pub fn metadata(&self, job: &str, family: &str) -> Result<Option<Value>> {
        let target = format!("{{job=\"{job}\"}}");
        let answer = self.api("targets/metadata", &[("match_target", &target), ("metric", family)])?;
        Ok(answer["data"].as_array().and_then(|found| found.first()).cloned())
    }

    fn api(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let url = format!("http://{}/api/v1/{path}", self.address);
        let request = query.iter().fold(ureq::get(url), |request, (name, value)| request.query(*name, *value));
        // An unknown family is a 404 with a body that says so.
        let mut answer = request.config().http_status_as_error(false).build().call()?;
        Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
    }

    /// The value of a query that gives one sample; `None` when it gives none.
    pub fn value(&self, promql: &str) -> Result<Option<f64>> {
        let result = self.query(promql)?;
        let Some(sample) = result.first() else { return Ok(None) };
        Ok(Some(sample["value"][1].as_str().context("a sample without a value")?.parse()?))
    }

    /// The value of a label in a query that gives one sample.
    pub fn label(&self, promql: &str, label: &str) -> Result<String> {
        let result = self.query(promql)?;
        let sample = result.first().with_context(|| format!("{promql} gives nothing"))?;
        Ok(sample["metric"][label].as_str().with_context(|| format!("{promql} has no {label}"))?.to_owned())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it logged.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.running.log_text()
    }
}
