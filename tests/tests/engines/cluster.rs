//! A cluster of VictoriaMetrics: two storages. One dies before a read and during one.

mod relay;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use goodput_exposition::sample::{Labels, Series, TimeMs};
use goodput_lab::process::{Running, free_address, until};
use goodput_tests::backfill::{Bits, HOUR, backfill, bits, start};

use super::known::{decimal, series, stored, write};
use super::{engines, fails, is, same, with_nans};
use relay::Relay;

/// Enough series for both storages to get some.
const GPUS: i64 = 16;
const PROGRAMS: [&str; 3] = ["vmstorage", "vminsert", "vmselect"];

/// Its programs are no Go modules that could be built by version. They are taken from this folder, or where
/// `tests/engines` is built; a release of the cluster has them with `-prod` in their names.
fn programs() -> Option<[PathBuf; 3]> {
    let folder = std::env::var_os("GOODPUT_VICTORIA_CLUSTER").map_or_else(engines, PathBuf::from);
    let found = PROGRAMS.map(|name| {
        let files = [folder.join(name), folder.join(format!("{name}-prod"))];
        files.into_iter().find(|file| file.is_file())
    });
    if found.iter().any(Option::is_none) {
        eprintln!(
            "skipped: vmstorage, vminsert and vmselect of VictoriaMetrics' cluster are not in {}",
            folder.display()
        );
    }
    let [Some(storage), Some(insert), Some(select)] = found else { return None };
    Some([storage, insert, select])
}

/// A program of the cluster, listening here by HTTP.
struct Server {
    running: Running,
    http: SocketAddr,
}

impl Server {
    /// Starts it and waits until it answers.
    #[allow(clippy::disallowed_methods, reason = "starts the real VictoriaMetrics")]
    fn start(program: &Path, dir: &Path, name: &str, arguments: &[String]) -> Result<Self> {
        let http = free_address()?;
        let mut command = Command::new(program);
        command.current_dir(dir).arg(format!("-httpListenAddr={http}")).args(arguments);
        let mut running = Running::start(&mut command, &dir.join(format!("{name}.log")))?;
        until(&format!("{name} to answer"), Duration::from_secs(90), || {
            running.goes_on()?;
            Ok(ureq::get(format!("http://{http}/health")).call().is_ok().then_some(()))
        })?;
        Ok(Self { running, http })
    }

    fn get(&self, path: &str) -> Result<String> {
        let answer = ureq::get(format!("http://{}{path}", self.http)).call();
        Ok(answer.with_context(|| path.to_owned())?.body_mut().read_to_string()?)
    }
}

/// A storage, whose addresses and data outlive its process.
struct Storage {
    program: PathBuf,
    dir: PathBuf,
    name: &'static str,
    insert: SocketAddr,
    select: SocketAddr,
}

impl Storage {
    fn new(program: &Path, dir: &Path, name: &'static str) -> Result<Self> {
        let (program, dir) = (program.to_owned(), dir.to_owned());
        Ok(Self { program, dir, name, insert: free_address()?, select: free_address()? })
    }

    fn start(&self) -> Result<Server> {
        let arguments = [
            format!("-storageDataPath={}", self.dir.join(self.name).display()),
            format!("-vminsertAddr={}", self.insert),
            format!("-vmselectAddr={}", self.select),
            "-retentionPeriod=1".to_owned(),
            // What is connected is not waited for at the end.
            "-storage.vminsertConnsShutdownDuration=0".to_owned(),
            // An answer that is given again has as many bytes again.
            "-rpc.disableCompression".to_owned(),
        ];
        Server::start(&self.program, &self.dir, self.name, &arguments)
    }
}

/// The cluster with samples on disk in both storages, one of them behind a relay.
struct Cluster {
    storages: [Storage; 2],
    relay: Relay,
    select: Server,
    written: Vec<Series>,
    start: TimeMs,
}

impl Cluster {
    fn start([storage, insert, select]: [PathBuf; 3], dir: &Path) -> Result<(Self, [Server; 2])> {
        let storages = [Storage::new(&storage, dir, "storage-a")?, Storage::new(&storage, dir, "storage-b")?];
        let servers = [storages[0].start()?, storages[1].start()?];
        let written = series(start(), GPUS, decimal);
        fill(&insert, dir, &storages, &servers, &written)?;
        // What is in memory alone would be lost with a process that is killed.
        for Server { running, .. } in servers {
            running.terminate()?;
        }
        let servers = [storages[0].start()?, storages[1].start()?];
        let relay = Relay::start(storages[1].select)?;
        let arguments = [
            format!("-storageNode={},{}", storages[0].select, relay.address),
            format!("-cacheDataPath={}", dir.join("select").display()),
        ];
        let select = Server::start(&select, dir, "select", &arguments)?;
        Ok((Self { storages, relay, select, written, start: start() }, servers))
    }

    fn url(&self, tenant: &str) -> String {
        format!("http://{}/select/{tenant}/prometheus", self.select.http)
    }

    /// Starts the second storage and waits until it is asked again.
    fn again(&self) -> Result<Server> {
        let server = self.storages[1].start()?;
        until("both storages to be asked", Duration::from_secs(90), || {
            let whole = self.select.get("/select/0/prometheus/api/v1/label/__name__/values?deny_partial_response=1");
            Ok(whole.ok().filter(|answer| answer.contains("\"isPartial\":false")).map(|_| ()))
        })?;
        Ok(server)
    }
}

/// Writes the series through one that spreads them, and waits until all of them can be read.
fn fill(program: &Path, dir: &Path, storages: &[Storage; 2], servers: &[Server; 2], written: &[Series]) -> Result<()> {
    let nodes = format!("-storageNode={},{}", storages[0].insert, storages[1].insert);
    let insert = Server::start(program, dir, "insert", &[nodes])?;
    write(&format!("http://{}/insert/0/prometheus/api/v1/write", insert.http), written)?;
    let all: usize = written.iter().map(|series| series.samples.len()).sum();
    until("both storages to have their samples", Duration::from_secs(90), || {
        let added = [added(&servers[0])?, added(&servers[1])?];
        ensure!(added[0] + added[1] <= all, "{added:?} of {all}");
        if added[0] + added[1] < all {
            return Ok(None);
        }
        ensure!(added.iter().all(|part| *part > all / 10), "not spread: {added:?}");
        Ok(Some(()))
    })?;
    insert.running.kill()
}

/// Samples that a storage has taken in.
fn added(storage: &Server) -> Result<usize> {
    let page = storage.get("/metrics")?;
    let value =
        page.lines().find_map(|line| line.strip_prefix("vm_rows_added_to_storage_total ")).context("its rows")?;
    Ok(value.parse()?)
}

/// Has the series, of each hour, all samples or none?
fn whole_hours((labels, found): &(Labels, Vec<(TimeMs, u64)>), wanted: &Bits, start: TimeMs) -> bool {
    let Some((_, wanted)) = wanted.iter().find(|(of, _)| of == labels) else { return false };
    let of = |samples: &[(TimeMs, u64)], hour| -> Vec<(TimeMs, u64)> {
        samples.iter().filter(|(time, _)| (time - start) / HOUR == hour).copied().collect()
    };
    (0..3).all(|hour| of(found, hour).is_empty() || of(found, hour) == of(wanted, hour))
}

#[test]
fn a_cluster_is_read_as_a_whole_or_not_at_all() -> Result<()> {
    let Some(programs) = programs() else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (cluster, [_first, second]) = Cluster::start(programs, dir.path())?;
    let (start, url) = (cluster.start, cluster.url("0"));
    let wanted = stored(&cluster.written, &[]);
    let data = |name: &str| dir.path().join(name);
    same(&data("auto"), &url, ("auto", "victoria"), start, &wanted)?;
    let bytes = cluster.relay.passed();
    same(&data("promql"), &url, ("promql", "promql"), start, &with_nans(&wanted))?;
    let said = fails(&data("unknown"), &cluster.url("7"), "auto", start)?;
    ensure!(said.contains("none of its 0 metrics of that time is one that signals use"), "{said}");

    // Half of what a whole backfill reads of the second storage, then that storage is gone.
    cluster.relay.cut_after(bytes / 2, second.running);
    let during = backfill(&data("during"), &url, "auto", start..start + 3 * HOUR);
    ensure!(cluster.relay.has_cut(), "the storage lived to the end");
    let Err(error) = during else { bail!("succeeded: {:?}", is(&data("during"), &wanted)) };
    ensure!(error.to_string().contains("the server cannot read all of its storage"), "{error}");
    ensure!(error.to_string().contains("the same command goes on from there"), "{error}");
    let before = bits(&data("during"))?;
    ensure!(before.iter().all(|part| whole_hours(part, &wanted, start)), "a part of an hour of a metric is stored");

    for reader in ["auto", "promql"] {
        let said = fails(&data(&format!("before-{reader}")), &url, reader, start)?;
        ensure!(said.contains("the server cannot read all of its storage"), "{reader}: {said}");
    }
    let _second = cluster.again()?;
    for name in ["during", "before-auto"] {
        same(&data(name), &url, ("auto", "victoria"), start, &wanted)?;
    }
    same(&data("before-promql"), &url, ("promql", "promql"), start, &with_nans(&wanted))
}
