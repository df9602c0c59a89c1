//! Every query of every dashboard, asked of a real Prometheus that scrapes both programs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use goodput_analyzer::ingest::Limits;
use goodput_analyzer::ingest::scrape::{Seen, Target, succeeded};
use goodput_analyzer::ingest::text::Format;
use goodput_analyzer::sample::Sample;
use goodput_analyzer::signal;
use goodput_analyzer::store::{Options, Samples as _, Store, wall_clock};
use goodput_tests::cgroup::JobCgroup;
use goodput_tests::gpu::{FakeNode, NodeSpec};
use goodput_tests::job::Job;
use goodput_tests::process::until;
use goodput_tests::programs::{Analyzer, Exporter};
use goodput_tests::prometheus::Prometheus;
use goodput_tests::rules::files;

use super::{Dashboard, filled_in};

const EXPORTER: &str = "goodput-exporter";
const PATIENCE: Duration = Duration::from_secs(180);
/// Two hours hold a full one.
const HISTORY_MS: i64 = 2 * 3_600_000;
const SCRAPE_MS: i64 = 15_000;

/// What is right to be empty here, by a part of the query, and why.
const EMPTY: &[(&str, &str)] = &[
    ("goodput_exporter_collector_state{cluster=~\".*\", state=~\"failed|timed_out\"}) > 0", "all collectors are well"),
    ("goodput_cgroup_memory_max_bytes", "the job has no memory limit"),
    ("goodput_gpu_numa_info", "the fake GPUs are in no slot of this machine"),
];

/// Parsing does not find joins that match twice, nor selections that match nothing.
#[test]
fn prometheus_answers_every_query() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(2))?;
    let cgroup = JobCgroup::create()?;
    let job = Job::start(env!("CARGO_BIN_EXE_gpu-job"), dir.path(), &node, 0)?;
    cgroup.add(job.pid())?;
    cgroup.limit_cpu(Some(500))?;
    let exporter = Exporter::start(dir.path(), &node)?;
    remember(dir.path(), exporter.address)?;
    let analyzer = Analyzer::start(dir.path())?;
    let targets = [(EXPORTER, exporter.address), ("goodput-analyzer", analyzer.address)];
    let prometheus = Prometheus::run(dir.path(), &targets, &sections(analyzer.address)?)?;
    // What stays empty while all is well.
    node.xid(1, 79)?;
    until("busy times of both GPUs", PATIENCE, || {
        let ratios = prometheus.query("instance_gpu:goodput_gpu_busy_per_observed:ratio_rate5m")?;
        Ok((ratios.len() == 2).then_some(()))
    })?;
    for window in ["hour", "5m"] {
        let before = format!("goodput_fleet_ratio{{window=\"{window}\"}} offset 20s");
        until(&before, PATIENCE, || Ok(prometheus.value(&before)?))?;
    }

    let mut empty = Vec::new();
    for (place, query) in Dashboard::all()?.iter().flat_map(Dashboard::queries) {
        let query = filled_in(query);
        let series = prometheus.query(&query).with_context(|| place.clone())?;
        if series.is_empty() && !EMPTY.iter().any(|(part, _)| query.contains(part)) {
            empty.push(format!("{place}: {query}"));
        }
    }
    assert!(empty.is_empty(), "no series:\n{}", empty.join("\n"));
    Ok(())
}

/// The rules as they are shipped, without anybody to tell, and the way to the analyzer.
fn sections(analyzer: SocketAddr) -> Result<String> {
    let rules = files("alerts", ".rules.yml")?.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let rules: String = rules.iter().map(|file| format!("- {}\n", file.display())).collect();
    Ok(format!("rule_files:\n{rules}remote_write:\n- url: http://{analyzer}/api/v1/write\n"))
}

/// Puts the exporter's series into the analyzer's store as if they had been scraped for the last hours and nothing had
/// happened: verdicts of a full hour need one.
#[tokio::main]
async fn remember(dir: &Path, exporter: SocketAddr) -> Result<()> {
    let page = ureq::get(format!("http://{exporter}/metrics")).call()?.body_mut().read_to_string()?;
    let target = Target::new(EXPORTER, &exporter.to_string());
    let now = wall_clock();
    let mut batch = succeeded(&page, Format::Text, &Limits::default(), &target, now, &mut Seen::default())?;
    for series in &mut batch.series {
        let value = series.samples.first().context("a series without a sample")?.value;
        series.samples =
            (now - HISTORY_MS..now).step_by(SCRAPE_MS as usize).map(|time_ms| Sample { time_ms, value }).collect();
    }
    let store = Store::open(Options::new(dir.join("analyzer"), signal::is_known)).await?;
    store.append(batch).await?;
    store.close().await;
    Ok(())
}
