//! `try` against a real Prometheus that holds what dcgm-exporter and node_exporter wrote: what these tell is named, what
//! they cannot tell is listed with what would, and nothing is left behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::evaluate::Trace;
use goodput_exposition::sample::TimeMs;
use goodput_lab::bin;
use goodput_lab::exporters::Exporters;
use goodput_lab::families::{FAMILIES, plan};
use goodput_lab::record::{Plan, record};
use goodput_store::wall_clock;
use goodput_tests::prometheus::Prometheus;
use goodput_tests::victoria::VictoriaMetrics;
use serde_json::Value;

const HOUR: TimeMs = 3_600_000;
const MINUTE: TimeMs = 60_000;

/// Late reads, seen by dcgm-exporter and node_exporter every 15 s, then a quota that these cannot see.
#[test]
fn what_the_signals_tell_is_named_and_what_they_cannot_is_listed() -> Result<()> {
    let world = World::new()?;
    let storage = world.lab("dataloader_storage", 40, Exporters::DcgmAndNode, 15_000)?;
    let throttled = world.lab("cpu_throttled", 30, Exporters::DcgmAndNode, 15_000)?;
    let prometheus = world.prometheus()?;
    let address = prometheus.address();

    let report = world.report(address, &storage, &[])?;
    let truth = storage.truth()?;
    for class in ["dataloader_storage", "productive"] {
        let (told, wanted) = (hours(&report, class), truth[class]);
        ensure!((told - wanted).abs() <= 0.1 * wanted, "{class}: {told} for {wanted} GPU-hours: {report:#}");
    }
    let found = report["findings"].as_array().context("findings")?;
    ensure!(found.iter().any(|f| f["class"] == "dataloader_storage" && f["owner"] == "ml/train-0"), "{found:#?}");

    // What a class lacks is told from its rule, and the collectors from the catalog.
    let untold = untold(&report)?;
    ensure!(!untold.contains_key("dataloader_storage") && !untold.contains_key("productive"), "{untold:?}");
    let quota = untold.get("cpu_throttled").context("cpu_throttled is not listed")?;
    ensure!(quota.contains(&"job_cpu_throttled_periods".to_owned()), "{quota:?}");
    let added = report["trial"]["added"].as_array().context("added")?;
    let periods = added.iter().find(|a| a["signal"] == "job_cpu_periods").context("job_cpu_periods")?;
    ensure!(periods["origins"][0]["exporter"] == "goodput-exporter", "{periods}");
    ensure!(periods["origins"][0]["collector"] == "cgroup", "{periods}");
    let scrapes = &report["trial"]["scrapes"];
    ensure!(scrapes[0]["job"] == "dcgm" && scrapes[0]["interval_seconds"] == 15.0, "{scrapes}");
    ensure!(scrapes[2]["job"] == "node" && scrapes[2]["of"] == "nodes", "{scrapes}");

    // No metric shows a quota: its time looks like workers without CPUs, and the report lists what it may be instead.
    let report = world.report(address, &throttled, &[])?;
    let lost = throttled.truth()?["cpu_throttled"];
    ensure!(hours(&report, "cpu_throttled") == 0.0 && hours(&report, "dataloader_cpu") > 0.8 * lost, "{report:#}");
    let time = report["trial"]["untold"].as_array().context("untold")?.iter().find(|u| u["class"] == "cpu_throttled");
    let time = time.context("cpu_throttled is not listed")?["amount"]["gpu_hours"].as_f64().unwrap_or_default();
    ensure!(time > 0.9 * lost, "{time} of {lost} GPU-hours are listed as not judged");

    // On the terminal.
    let told = world.said(address, &throttled, &["--format", "markdown"])?;
    for text in ["# Goodput ", "what goodput-exporter would add", "| cpu_throttled |", "--collector.cgroup"] {
        ensure!(told.contains(text), "no {text:?} in {told}");
    }
    world.is_clean()
}

#[test]
fn coarse_scrapes_a_young_server_and_a_bound_are_told() -> Result<()> {
    let world = World::new()?;
    let coarse = world.lab("dataloader_storage", 40, Exporters::Dcgm, 60_000)?;
    let prometheus = world.prometheus()?;
    let address = prometheus.address();

    // A day before it is asked for, too: that is said, and not taken for idle time.
    let from = coarse.start_ms - 24 * HOUR;
    let report = world.report(address, &Stretch { start_ms: from, ..coarse.clone() }, &[])?;
    let notes = report["trial"]["notes"].to_string();
    ensure!(notes.contains("The server has samples of GPUs from"), "{notes}");
    ensure!(notes.contains("Samples of GPUs every 60 s make cells of 120 s"), "{notes}");
    ensure!(notes.contains("no host series of node n1"), "{notes}");
    let capacity = report["fleet"]["capacity"]["gpu_hours"].as_f64().unwrap_or_default();
    let wanted: f64 = coarse.truth()?.values().sum();
    ensure!(capacity >= wanted && capacity <= wanted + 2.0 * coarse.gpus as f64, "{capacity} for {wanted} GPU-hours");
    // dcgm-exporter alone says that the input is late, and not why.
    let lost = coarse.truth()?["dataloader_storage"];
    let split = hours(&report, "dataloader_storage");
    let unsplit = hours(&report, "feeding_unsplit") + hours(&report, "unexplained");
    ensure!(split == 0.0 && unsplit > 0.8 * lost, "{split} and {unsplit} of {lost} GPU-hours: {report:#}");
    ensure!(untold(&report)?.contains_key("dataloader_storage"), "{report:#}");

    let refused = world.refused(address, &coarse, &["--max-samples", "10"])?;
    for text in ["more than --max-samples 10", "DCGM_FI_", "--since", "--match"] {
        ensure!(refused.contains(text), "no {text:?} in {refused}");
    }
    let other = world.refused(address, &coarse, &["--match", "cluster=\"b\""])?;
    ensure!(other.contains("no samples within the period match"), "{other}");

    let reports = world.dir.path().join("reports");
    let listed = world.said(address, &coarse, &["--output", text_of(&reports)])?;
    let mut endings: Vec<_> = listed.lines().filter_map(|line| line.rsplit('.').next()).collect();
    endings.sort_unstable();
    ensure!(endings == ["csv", "csv", "csv", "html", "json", "md"], "{listed}");
    for path in listed.lines() {
        ensure!(fs::metadata(path)?.len() > 0, "{path} is empty");
    }
    world.is_clean()
}

/// A production job at 60 s in which three of four GPUs do nothing (see `shared/traces/MANIFEST.md`), moved to
/// yesterday, and one scrape of a node in a Kubernetes cluster, repeated: both as dcgm-exporter spells it.
#[test]
fn recorded_nodes_are_judged_as_they_were() -> Result<()> {
    let world = World::new()?;
    let start_ms = start(40);
    let minutes = world.import("juwels", &juwels(start_ms)?).map(|()| 118)?;
    let kubernetes = start(20);
    world.import("kubernetes", &repeated("dcgm-8xh100-aicr", kubernetes)?)?;
    let prometheus = world.prometheus()?;
    let address = prometheus.address();
    let stretch = |start_ms, hours| Stretch { start_ms, end_ms: start_ms + hours * HOUR, ..Stretch::default() };

    let report = world.report(address, &stretch(start_ms, 2), &[])?;
    let idle = hours(&report, "partial_allocation");
    ensure!(
        (idle - 3.0 * f64::from(minutes) / 60.0).abs() < 0.2,
        "{idle} GPU-hours are partial_allocation: {report:#}"
    );
    ensure!(hours(&report, "productive") > 0.95 * f64::from(minutes) / 60.0, "{report:#}");

    let report = world.report(address, &stretch(kubernetes, 1), &[])?;
    let (held, free) = (hours(&report, "idle_held"), hours(&report, "unallocated"));
    ensure!((held - 1.0).abs() < 0.05 && (free - 7.0).abs() < 0.35, "{held} and {free} GPU-hours: {report:#}");
    world.is_clean()
}

#[test]
fn a_victoriametrics_is_as_good() -> Result<()> {
    let world = World::new()?;
    let storage = world.trace("dataloader_storage", 40, Exporters::DcgmAndNode, 15_000)?;
    let victoria = VictoriaMetrics::start(world.dir.path())?;
    let mut text = String::new();
    // It takes milliseconds, and no markers of ends.
    for line in storage.text()?.lines().filter(|line| !line.starts_with('#') && !line.contains(" NaN ")) {
        let (sample, seconds) = line.rsplit_once(' ').context("no time")?;
        writeln!(text, "{sample} {}", (seconds.parse::<f64>()? * 1000.0).round())?;
    }
    victoria.import(&text)?;
    let report = world.report(victoria.address, &storage, &[])?;
    let (told, wanted) = (hours(&report, "dataloader_storage"), storage.truth()?["dataloader_storage"]);
    ensure!((told - wanted).abs() <= 0.1 * wanted, "{told} for {wanted} GPU-hours: {report:#}");
    world.is_clean()
}

#[test]
fn a_prometheus_without_gpus_is_told_what_was_looked_for() -> Result<()> {
    let world = World::new()?;
    let prometheus = Prometheus::start(world.dir.path(), &[], None)?;
    let address = prometheus.address();
    let asked = Stretch { start_ms: start(2), end_ms: start(1), ..Stretch::default() };
    let told = world.refused(address, &asked, &[])?;
    for text in ["no metric of GPUs", "DCGM_FI_DEV_GPU_UTIL", "it has no jobs then"] {
        ensure!(told.contains(text), "no {text:?} in {told}");
    }
    drop(prometheus);

    // Another exporter's metrics, and a job that is none of GPUs.
    let mut text = String::new();
    for minute in 0..60 {
        let seconds = (asked.start_ms + minute * MINUTE) / 1000;
        writeln!(text, "nvidia_smi_utilization_gpu_ratio{{job=\"smi\",uuid=\"1\"}} 0.5 {seconds}")?;
    }
    world.import("other", &(text + "# EOF\n"))?;
    let prometheus = world.prometheus()?;
    let address = prometheus.address();
    let told = world.refused(address, &asked, &[])?;
    for text in ["it has others: nvidia_smi_utilization_gpu_ratio", "its jobs then: smi"] {
        ensure!(told.contains(text), "no {text:?} in {told}");
    }
    world.is_clean()
}

/// A folder with the blocks of a Prometheus, and another that is the temporary one of the program under test.
struct World {
    dir: tempfile::TempDir,
    temporary: PathBuf,
}

/// What is asked for, and where its truth is.
#[derive(Clone, Default)]
struct Stretch {
    start_ms: TimeMs,
    end_ms: TimeMs,
    gpus: usize,
    trace: PathBuf,
}

impl Stretch {
    /// What was scraped, as OpenMetrics text.
    fn text(&self) -> Result<String> {
        Ok(fs::read_to_string(self.trace.join("metrics.om"))?)
    }

    /// GPU-hours by class.
    fn truth(&self) -> Result<BTreeMap<&'static str, f64>> {
        let mut sums = BTreeMap::new();
        for row in Trace::read(&self.trace)?.truth {
            *sums.entry(row.class).or_default() += (row.span.end - row.span.start) as f64 / HOUR as f64;
        }
        Ok(sums)
    }
}

impl World {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let temporary = dir.path().join("tmp");
        fs::create_dir(&temporary)?;
        Ok(Self { dir, temporary })
    }

    /// A trace of the lab that began this many hours ago, as these exporters serve it, in the blocks.
    fn lab(&self, family: &str, hours_ago: i64, exporters: Exporters, interval_ms: i64) -> Result<Stretch> {
        let stretch = self.trace(family, hours_ago, exporters, interval_ms)?;
        self.import(family, &stretch.text()?)?;
        Ok(stretch)
    }

    /// The same, in its own folder alone.
    fn trace(&self, family: &str, hours_ago: i64, exporters: Exporters, interval_ms: i64) -> Result<Stretch> {
        let found = FAMILIES.iter().find(|f| f.name == family).with_context(|| format!("no family {family}"))?;
        let start_ms = start(hours_ago);
        let offset_ms = 4_000;
        let plan = Plan { start_ms, exporters, interval_ms, offset_ms, ..plan(found, 0) };
        record(&plan, self.dir.path())?;
        let trace = self.dir.path().join(plan.family).join(&plan.name);
        let minutes: usize = plan.steps.iter().map(|step| step.here.minutes).sum();
        let end_ms = start_ms + (minutes as i64 * MINUTE + HOUR - 1) / HOUR * HOUR;
        let gpus = plan.nodes * (plan.layout.gpus + plan.layout.spare);
        Ok(Stretch { start_ms, end_ms, gpus, trace })
    }

    /// OpenMetrics text as blocks.
    #[allow(clippy::disallowed_methods, reason = "what Prometheus brings to make blocks")]
    fn import(&self, name: &str, text: &str) -> Result<()> {
        let (file, blocks) = (self.dir.path().join(format!("{name}.om")), self.dir.path().join("prometheus"));
        fs::write(&file, text)?;
        let args = ["tsdb", "create-blocks-from", "openmetrics", text_of(&file), text_of(&blocks)];
        let output = run(Command::new("promtool").args(args))?;
        ensure!(output.status.success(), "promtool: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn prometheus(&self) -> Result<Prometheus> {
        Prometheus::start(self.dir.path(), &[], None)
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test")]
    fn try_out(&self, server: SocketAddr, asked: &Stretch, args: &[&str]) -> Result<Output> {
        let time = |ms| Ok::<_, anyhow::Error>(jiff::Timestamp::from_millisecond(ms)?.to_string());
        let mut command = Command::new(bin("goodput-analyzer")?);
        command
            .arg("try")
            .arg(format!("--prometheus=http://{server}"))
            .args(["--since", &time(asked.start_ms)?, "--until", &time(asked.end_ms)?])
            .args(args)
            .current_dir(self.dir.path())
            .env("TMPDIR", &self.temporary);
        run(&mut command)
    }

    fn said(&self, server: SocketAddr, asked: &Stretch, args: &[&str]) -> Result<String> {
        let output = self.try_out(server, asked, args)?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn refused(&self, server: SocketAddr, asked: &Stretch, args: &[&str]) -> Result<String> {
        let output = self.try_out(server, asked, args)?;
        ensure!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
        Ok(String::from_utf8(output.stderr)?)
    }

    fn report(&self, server: SocketAddr, asked: &Stretch, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.said(server, asked, &[&["--format", "json"], args].concat())?)?)
    }

    /// Nothing is left behind: neither in the temporary folder nor where the program was run.
    fn is_clean(&self) -> Result<()> {
        let left: Vec<_> = fs::read_dir(&self.temporary)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        ensure!(left.is_empty(), "{left:?} are left");
        ensure!(!self.dir.path().join("data").try_exists()?, "a data directory was made");
        Ok(())
    }
}

/// The full hour this many hours ago, within what Prometheus keeps by default.
fn start(hours_ago: i64) -> TimeMs {
    (wall_clock() / HOUR - hours_ago) * HOUR
}

/// GPU-hours of a class.
fn hours(report: &Value, class: &str) -> f64 {
    let rows = report["classes"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["class"] == class);
    row.and_then(|row| row["amount"]["gpu_hours"].as_f64()).unwrap_or_default()
}

/// The signals that each class lacked.
fn untold(report: &Value) -> Result<BTreeMap<String, Vec<String>>> {
    let rows = report["trial"]["untold"].as_array().context("untold")?;
    rows.iter().map(|row| Ok((text(&row["class"])?, serde_json::from_value(row["missing"].clone())?))).collect()
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("expected text")?.to_owned())
}

fn shared(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(path);
    fs::read_to_string(&path).with_context(|| format!("{}: this test needs it", path.display()))
}

/// Minutes of the job's GPUs, as dcgm-exporter would have written them. GPL data, read in place.
fn juwels(start_ms: TimeMs) -> Result<String> {
    let recorded = shared("traces/juwels-job/GPU_9482789_node.dat")?;
    let rows: Vec<Vec<&str>> = recorded.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let first: i64 = rows.first().context("no rows")?[1].parse()?;
    let mut families: BTreeMap<&str, String> = BTreeMap::new();
    for row in &rows {
        let number = |column: usize| row[column].parse::<f64>();
        let seconds = start_ms / 1000 + row[1].parse::<i64>()? - first;
        let levels =
            [("GPU_UTIL", number(3)?), ("FB_USED", number(4)? * 1e9 / 1_048_576.0), ("POWER_USAGE", number(5)?)];
        for (name, value) in levels {
            let labels = format!("UUID=\"{}\",Hostname=\"jwb0021\",hpc_job=\"9482789\"", row[2]);
            let labels = format!("{labels},modelName=\"NVIDIA A100-SXM4-40GB\",job=\"dcgm\",instance=\"jwb0021:9400\"");
            writeln!(families.entry(name).or_default(), "DCGM_FI_DEV_{name}{{{labels}}} {value} {seconds}")?;
        }
    }
    Ok(families.into_values().collect::<String>() + "# EOF\n")
}

/// A recorded scrape, every 30 s of an hour.
fn repeated(fixture: &str, start_ms: TimeMs) -> Result<String> {
    let recorded = shared(&format!("fixtures/{fixture}/metrics.prom"))?;
    let mut lines: Vec<&str> = recorded.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    lines.sort_by_key(|line| line.split('{').next());
    let mut text = String::new();
    for line in lines {
        for n in 0..120 {
            writeln!(text, "{line} {}", start_ms / 1000 + 30 * n)?;
        }
    }
    Ok(text + "# EOF\n")
}

fn run(command: &mut Command) -> Result<Output> {
    Ok(command.output()?)
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
