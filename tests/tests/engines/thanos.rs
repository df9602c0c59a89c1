//! Thanos' query over the sidecar of a Prometheus.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use goodput_lab::process::{Running, free_address, until};
use goodput_tests::backfill::{HOUR, backfill, start};

use super::known::{exact, series, stored, write};
use super::prometheus::{CONFIG, EXTERNAL, receiver};
use super::{built, fails, is, same, without_markers};

/// One component of Thanos.
struct Thanos {
    running: Running,
    http: SocketAddr,
}

impl Thanos {
    /// Starts it and waits until it says that it is ready.
    #[allow(clippy::disallowed_methods, reason = "starts the real Thanos")]
    fn start(program: &Path, dir: &Path, component: &str, grpc: SocketAddr, arguments: &[String]) -> Result<Self> {
        let http = free_address()?;
        let mut command = Command::new(program);
        command.arg(component).arg(format!("--http-address={http}")).arg(format!("--grpc-address={grpc}"));
        let mut running = Running::start(command.args(arguments), &dir.join(format!("{component}.log")))?;
        until(&format!("Thanos' {component} to be ready"), Duration::from_secs(90), || {
            running.goes_on()?;
            Ok(ureq::get(format!("http://{http}/-/ready")).call().is_ok().then_some(()))
        })?;
        Ok(Self { running, http })
    }
}

/// A sidecar and what is asked through it.
struct Fleet {
    program: PathBuf,
    dir: PathBuf,
    prometheus: SocketAddr,
    grpc: SocketAddr,
}

impl Fleet {
    fn sidecar(&self) -> Result<Thanos> {
        let arguments =
            [format!("--prometheus.url=http://{}", self.prometheus), format!("--tsdb.path={}", self.dir.display())];
        Thanos::start(&self.program, &self.dir, "sidecar", self.grpc, &arguments)
    }

    /// One that never leaves a store out because it does not answer.
    fn query(&self) -> Result<Thanos> {
        let arguments =
            [format!("--endpoint-strict={}", self.grpc), "--query.replica-label=prometheus_replica".to_owned()];
        let query = Thanos::start(&self.program, &self.dir, "query", free_address()?, &arguments)?;
        until("Thanos' query to see the sidecar", Duration::from_secs(90), || {
            let stores =
                ureq::get(format!("http://{}/api/v1/stores", query.http)).call()?.body_mut().read_to_string()?;
            Ok((stores.contains("\"sidecar\"") && stores.contains("\"cluster\"")).then_some(()))
        })?;
        Ok(query)
    }
}

#[test]
fn thanos_is_read_as_a_whole_or_not_at_all() -> Result<()> {
    let (Some(program), Some(thanos)) = (built("prometheus")?, built("thanos")?) else { return Ok(()) };
    let (start, dir) = (start(), tempfile::tempdir()?);
    let prometheus = receiver(&program, dir.path(), CONFIG)?;
    let written = series(start, 2, exact);
    write(&format!("http://{}/api/v1/write", prometheus.address()), &written)?;
    let wanted = without_markers(&stored(&written, &EXTERNAL));
    let fleet =
        Fleet { program: thanos, dir: dir.path().to_owned(), prometheus: prometheus.address(), grpc: free_address()? };
    let sidecar = fleet.sidecar()?;
    let query = fleet.query()?;
    let url = format!("http://{}", query.http);
    same(&dir.path().join("auto"), &url, ("auto", "promql"), start, &wanted)?;
    sidecar.running.kill()?;
    let data = dir.path().join("ended");
    let said = fails(&data, &url, "auto", start)?;
    ensure!(said.contains("the server cannot read all of its storage"), "{said}");
    // The same command completes when the store is there again.
    let _sidecar = fleet.sidecar()?;
    until("a backfill through the store that is there again", Duration::from_secs(90), || {
        Ok(backfill(&data, &url, "auto", start..start + 3 * HOUR).is_ok().then_some(()))
    })?;
    is(&data, &wanted)
}
