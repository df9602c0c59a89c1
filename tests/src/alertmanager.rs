//! A real Alertmanager.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use goodput_lab::process::{Running, free_address, until};
use serde_json::Value;

/// An Alertmanager on its own, without a cluster.
pub struct Alertmanager {
    /// Where it listens.
    pub address: SocketAddr,
    _running: Running,
}

impl Alertmanager {
    /// Starts one with this configuration.
    #[allow(clippy::disallowed_methods, reason = "starts the real Alertmanager")]
    pub fn start(dir: &Path, config: &str) -> Result<Self> {
        let (address, file) = (free_address()?, dir.join("alertmanager.yml"));
        std::fs::write(&file, config)?;
        let mut command = Command::new("prometheus-alertmanager");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", dir.join("alertmanager").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--cluster.listen-address=");
        let mut running = Running::start(&mut command, &dir.join("alertmanager.log"))
            .context("this test needs Debian's prometheus-alertmanager package (deploy/local/packages test)")?;
        running.until_listens(address)?;
        until("Alertmanager to be ready", Duration::from_secs(90), || {
            Ok(ureq::get(format!("http://{address}/-/ready")).call().is_ok().then_some(()))
        })?;
        Ok(Self { address, _running: running })
    }

    /// Hands it alerts, each a set of labels, as Prometheus does.
    pub fn post(&self, alerts: &[Value]) -> Result<()> {
        let alerts: Vec<_> = alerts.iter().map(|labels| serde_json::json!({ "labels": labels })).collect();
        let body = serde_json::to_string(&alerts)?;
        ureq::post(self.url()).header("content-type", "application/json").send(body)?;
        Ok(())
    }

    /// The alerts that it holds, with their state.
    pub fn alerts(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&ureq::get(self.url()).call()?.body_mut().read_to_string()?)?)
    }

    fn url(&self) -> String {
        format!("http://{}/api/v2/alerts", self.address)
    }
}
