//! Every query of every dashboard, asked of a real Prometheus that scrapes both programs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use goodput_analyzer::ingest::scrape::{Seen, Target, succeeded};
use goodput_analyzer::ingest::{Limits, Rules};
use goodput_catalog::{Metric, analyzer};
use goodput_exposition::sample::{Batch, Sample};
use goodput_exposition::{Format, parse};
use goodput_lab::demo::machine::{Machine, Roots};
use goodput_lab::demo::script::Script;
use goodput_lab::gpu::FakeNode;
use goodput_lab::process::until;
use goodput_rules::signal;
use goodput_store::{Ingest as _, Options, Store, wall_clock};
use goodput_tests::programs::{Analyzer, Exporter};
use goodput_tests::prometheus::Prometheus;
use goodput_tests::rules::files;
use goodput_tests::scrape;

use super::links::Links;
use super::{Dashboard, filled_in};

/// The machine's.
const GPUS: usize = 8;
const EXPORTER: &str = "goodput-exporter";
const PATIENCE: Duration = Duration::from_secs(300);
/// Two hours hold a full one.
const HISTORY_MS: i64 = 2 * 3_600_000;
const SCRAPE_MS: i64 = 30_000;

/// From the 121st hour on, which has what there is to show: quotas, limits, page cache and memory on both NUMA nodes.
const REST_OF_WEEK: Duration = Duration::from_secs((168 - 121) * 3600);

/// Without prices the panels of costs are empty.
const PRICES: &str = "prices:\n- {model: '*', currency: EUR, per_gpu_hour: 2.5, valid_from: 2026-01-01}\n";

/// Pages of servers that were never asked, or once.
const SERVERS: [(&str, &str); 2] = [
    ("vllm", include_str!("../../lab/fixtures/vllm.prom")),
    ("sglang", include_str!("../../lab/fixtures/sglang.prom")),
];
const NO_HOUR: &str = "no server answered requests in the hour";

/// What is right to be empty, and why.
const EMPTY: &[(&str, &str)] = &[
    ("goodput-fleet: \"What runs out\"", "no memory grows, and no file system fills"),
    ("goodput-fleet: \"Signs of GPUs and links that may fail\"", "no counter of damage grows"),
    ("goodput-fleet: \"Nodes with a sick collector\"", "every collector is well"),
    ("goodput-job: \"Memory full in\"", "no memory grows"),
    ("goodput-network: \"Pauses by priority\"", "the collector is off"),
    ("goodput-network: \"Time in collectives\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Bus bandwidth of collectives\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Of it, waiting for ranks of the node\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Ranks that come last\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Collectives behind the first rank\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Records that are missing\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"Waiting for late ranks, across nodes\"", "no file of NCCL's Inspector is read"),
    ("goodput-network: \"GPUDirect Storage\"", "the collector is off"),
    ("goodput-node: \"Soonest full\"", "no memory grows, and no file system fills"),
    ("goodput-serving: \"Requests\"", NO_HOUR),
    ("goodput-serving: \"Tokens per GPU-second\"", NO_HOUR),
    ("goodput-serving: \"Limits missed\"", NO_HOUR),
    ("goodput-serving: \"Spare replicas\"", NO_HOUR),
    ("goodput-serving: \"Models\"", NO_HOUR),
    ("goodput-serving: \"Price of a million tokens\"", NO_HOUR),
    ("goodput-serving: \"Joules per token\"", NO_HOUR),
    ("goodput-serving: \"Requests within their limits\"", NO_HOUR),
    ("goodput-serving: \"Alerts\"", "no alert of servers fires"),
    ("goodput-week: \"Nodes by time that nobody held\"", "every GPU is held"),
];

/// Parsing does not find joins that match twice, nor selections that match nothing.
#[test]
fn prometheus_answers_every_query() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut machine = Machine::new(dir.path(), Script::week(SystemTime::now() + REST_OF_WEEK))?;
    machine.move_to(SystemTime::now())?;
    let mut links = Links::add_to(dir.path())?;
    let node = FakeNode::open(machine.log())?;
    let exporter = Exporter::start_with(dir.path(), &node, &flags(machine.roots()))?;
    remember(dir.path(), exporter.address)?;
    let analyzer = Analyzer::start_with(dir.path(), PRICES)?;
    let mut targets = vec![(EXPORTER, exporter.address), ("goodput-analyzer", analyzer.address)];
    for (server, page) in SERVERS {
        targets.push((server, scrape::serve(page)?));
    }
    let prometheus = Prometheus::run(dir.path(), &targets, &sections(analyzer.address)?)?;
    // Without it nothing would be wrong with the GPUs.
    node.xid(1, 79)?;
    for query in [
        "instance_gpu:goodput_gpu_busy_per_observed:ratio_rate1h",
        "goodput_fleet_ratio{window=\"hour\"} offset 20s",
        "goodput_fleet_ratio{window=\"5m\"} offset 20s",
    ] {
        until(query, PATIENCE, || {
            machine.move_to(SystemTime::now())?;
            links.grow()?;
            prometheus.value(query)
        })
        .with_context(|| analyzer.running.log_text())?;
    }

    let mut empty = Vec::new();
    // A stat shows a tile for each series: where its legend names none, there must be one.
    for (place, query) in Dashboard::all()?.iter().flat_map(Dashboard::single_stats) {
        let series = prometheus.query(&filled_in(query)).with_context(|| place.clone())?;
        assert!(series.len() <= 1, "{place}: {series:?}");
    }
    for (place, query) in Dashboard::all()?.iter().flat_map(Dashboard::queries) {
        let query = filled_in(query);
        let series = prometheus.query(&query).with_context(|| place.clone())?;
        if series.is_empty() {
            empty.push(place);
        }
    }
    let dashboards = Dashboard::all()?;
    let asked: Vec<String> = dashboards.iter().flat_map(Dashboard::queries).map(|(place, _)| place).collect();
    // All queries of a panel that is to be empty.
    let queries = |place: &&str| asked.iter().filter(|one| one == place).count();
    let expected: Vec<_> = EMPTY.iter().flat_map(|(place, _)| vec![*place; queries(place)]).collect();
    assert_eq!(empty, expected);
    all_have_rows(&analyzer.get("/metrics")?)
}

/// What the analyzer serves is what its rows say.
fn all_have_rows(page: &str) -> Result<()> {
    let served = parse(page, Format::OpenMetrics, goodput_exposition::Limits::NONE, 0)?;
    let rows: BTreeMap<&str, &Metric> = analyzer::all().map(|row| (row.name, row)).collect();
    assert!(served.len() > rows.len(), "an analyzer with verdicts serves more than {} series", served.len());
    for series in served.series() {
        let row = rows.get(series.labels.metric()).with_context(|| format!("no row: {:?}", series.labels))?;
        let names = series.labels.iter().map(|(name, _)| name);
        let labels: BTreeSet<&str> = names.filter(|n| *n != "__name__" && !row.optional.contains(n)).collect();
        assert_eq!(labels, row.labels.iter().copied().collect(), "{}", row.name);
    }
    Ok(())
}

/// The flags that show the exporter the machine.
fn flags(roots: &Roots) -> Vec<String> {
    [("procfs", &roots.proc), ("sysfs", &roots.sys), ("cgroup", &roots.cgroup), ("rootfs", &roots.root)]
        .iter()
        .map(|(name, path)| format!("--path.{name}={}", path.display()))
        .collect()
}

/// The rules as they are shipped, without anybody to tell, and the way to the analyzer.
fn sections(analyzer: SocketAddr) -> Result<String> {
    let rules = files("alerts", ".rules.yml")?.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let rules: String = rules.iter().map(|file| format!("- {}\n", file.display())).collect();
    Ok(format!("rule_files:\n{rules}remote_write:\n- url: http://{analyzer}/api/v1/write\n"))
}

/// Puts the exporter's series into the analyzer's store as if they had been scraped for the last hours, and nothing but
/// energy had changed: verdicts of a full hour need one.
#[tokio::main]
async fn remember(dir: &Path, exporter: SocketAddr) -> Result<()> {
    let page = until("every GPU to be read", PATIENCE, || {
        let page = ureq::get(format!("http://{exporter}/metrics")).call()?.body_mut().read_to_string()?;
        let read =
            page.lines().filter(|line| line.starts_with("goodput_gpu_state{") && line.ends_with("state=\"ok\"} 1"));
        Ok((read.count() == GPUS).then_some(page))
    })?;
    let target = Target::new(EXPORTER, &exporter.to_string());
    let now = wall_clock();
    let limits = Limits::default();
    let rules = Rules::of_all(&limits);
    let (scraped, _) = succeeded(&page, Format::Text, &rules, &target, now, &mut Seen::default())?;
    let mut batch = Batch::default();
    for series in scraped.series() {
        let value = series.samples.first().context("a series without a sample")?.value;
        // A counter of energy that stands still says that all values are old.
        let watts = if series.labels.metric() == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" { 100.0 } else { 0.0 };
        let times = (now - HISTORY_MS..now).step_by(SCRAPE_MS as usize);
        let at = |time_ms| Sample { time_ms, value: value + watts * (time_ms - now + HISTORY_MS) as f64 };
        batch.push(series.labels, &times.map(at).collect::<Vec<_>>());
    }
    let store = Store::open(Options::new(dir.join("analyzer"), signal::is_known)).await?;
    store.append(batch).await?;
    store.close().await;
    Ok(())
}
