//! A real VictoriaMetrics.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use goodput_lab::process::{Running, free_address};

/// A VictoriaMetrics with nothing in it.
pub struct VictoriaMetrics {
    _running: Running,
    /// Where it listens.
    pub address: SocketAddr,
}

impl VictoriaMetrics {
    /// Starts one that keeps its data below `dir`.
    pub fn start(dir: &Path) -> Result<Self> {
        Self::of(Path::new("victoria-metrics"), dir)
            .context("this test needs Debian's victoria-metrics package (deploy/local/packages test)")
    }

    /// Starts this program.
    #[allow(clippy::disallowed_methods, reason = "starts the real VictoriaMetrics")]
    pub fn of(program: &Path, dir: &Path) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .arg(format!("-storageDataPath={}", dir.join("victoria").display()))
            .arg(format!("-httpListenAddr={address}"))
            .arg("-retentionPeriod=1");
        let mut running = Running::start(&mut command, &dir.join("victoria.log"))?;
        running.until_listens(address)?;
        Ok(Self { _running: running, address })
    }

    /// Takes text with timestamps in milliseconds in and makes it visible.
    pub fn import(&self, text: &str) -> Result<()> {
        ureq::post(format!("http://{}/api/v1/import/prometheus", self.address)).send(text)?;
        ureq::get(format!("http://{}/internal/force_flush", self.address)).call()?;
        Ok(())
    }
}
