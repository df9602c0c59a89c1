//! Memory that runs out is known beforehand. A scrape of the real exporter, with a real process in a real cgroup, is sent
//! as two hours of three nodes: on one all memory leaks, on one it comes and goes, on one it was taken at the start. What
//! is known of the future is when the leak reaches its limit.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use goodput_exposition::sample::{Batch, SeriesRef};
use goodput_exposition::{Format, Limits, parse};
use goodput_lab::cgroup::JobCgroup;
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_lab::remote_write::{Label, Sample, TimeSeries, WriteRequest, post};
use goodput_store::wall_clock;
use goodput_tests::job::Job;
use goodput_tests::programs::{Analyzer, Exporter};

const PATIENCE: Duration = Duration::from_secs(300);
const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
const SCRAPE: i64 = 30 * SECOND;
/// One request holds so much.
const REQUEST: i64 = HOUR / 4;

/// The share of a limit that is in use, by seconds.
type Course = fn(f64) -> f64;

/// A node, and the share of each limit that is in use this many seconds after the first scrape.
const NODES: &[(&str, Course)] = &[
    // At its limit three hours after the first scrape: an hour after the last.
    ("leak", |s| 0.4 + 0.6 * s / 10_800.0),
    ("sawtooth", |s| 0.45 + 0.5 * (s % 600.0) / 600.0),
    ("plateau", |s| if s < 600.0 { 0.02 } else { 0.95 }),
];
const LEAK_MS: i64 = 3 * HOUR;
const MEMORIES: [&str; 3] = ["cgroup", "gpu", "host"];

#[test]
fn a_leak_is_known_hours_before_its_end_and_full_memory_is_no_leak() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let scrape = scrape(dir.path())?;
    let analyzer = Analyzer::start(dir.path())?;
    let first_ms = wall_clock() - 2 * HOUR;
    for (node, course) in NODES {
        for from in (first_ms..first_ms + 2 * HOUR).step_by(usize::try_from(REQUEST)?) {
            let times = (from..from + REQUEST).step_by(usize::try_from(SCRAPE)?);
            let series = |s: SeriesRef<'_>| stamped(s, node, *course, first_ms, times.clone(), &scrape);
            let timeseries = scrape.series().map(series).collect::<Result<_>>()?;
            let status = post(analyzer.address, &WriteRequest { timeseries }.body()?)?;
            ensure!(status == 204, "remote write answered {status}");
        }
    }
    // The first thing after a start is a round of judging.
    analyzer.running.terminate()?;
    let analyzer = Analyzer::start(dir.path())?;

    let page = until("the forecasts", PATIENCE, || {
        let page = ureq::get(format!("http://{}/metrics", analyzer.address)).call()?.body_mut().read_to_string()?;
        Ok((gauges(&page, "goodput_memory_used_ratio")?.len() == NODES.len() * MEMORIES.len()).then_some(page))
    })?;
    let judged_ms = 1000.0 * value(&page, "goodput_analyzer_judged_timestamp_seconds ")?;
    let left = ((first_ms + LEAK_MS) as f64 - judged_ms) / 1000.0;
    let at_risk = gauges(&page, "goodput_oom_risk_seconds")?;
    assert_eq!(
        at_risk.iter().map(|g| (g.node.as_str(), g.memory.as_str())).collect::<BTreeSet<_>>(),
        leaks(),
        "{page}"
    );
    for gauge in &at_risk {
        assert!((gauge.value / left - 1.0).abs() < 0.1, "{gauge:?}: {left} s are left");
    }
    let soonest = gauges(&page, "goodput_oom_risk_soonest_seconds")?;
    assert!(soonest.len() == 3 && soonest.iter().all(|g| g.value <= 1.01 * left), "{soonest:?}: {left} s are left");

    let [from, to] = [first_ms, first_ms + 2 * HOUR].map(|ms| UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs()));
    let report: serde_json::Value = serde_json::from_str(&analyzer.report("json", from, to)?)?;
    let risks = report["risks"].as_array().context("no risks in the report")?;
    let named = risks.iter().map(|r| (r["node"].as_str().unwrap_or(""), r["which"].as_str().unwrap_or("")));
    assert_eq!(named.collect::<BTreeSet<_>>(), leaks(), "{risks:?}");
    for risk in risks {
        let known_ms = risk["stretches"][0]["start_ms"].as_i64().context("no stretch")?;
        let lead_seconds = (first_ms + LEAK_MS - known_ms) / SECOND;
        assert!(lead_seconds >= 2 * 3600, "known {lead_seconds} s before: {risk}");
        assert_eq!(risk["stretches"].as_array().map(Vec::len), Some(1), "at risk without a pause since then: {risk}");
    }
    shows_everywhere(&analyzer, from, to)
}

fn shows_everywhere(analyzer: &Analyzer, from: SystemTime, to: SystemTime) -> Result<()> {
    let markdown = analyzer.report("markdown", from, to)?;
    for part in [
        "## Risks\n",
        "### host memory: leak\n",
        "### gpu memory: GPU ",
        "- GPU: GPU-",
        "### cgroup memory: container-",
    ] {
        assert!(markdown.contains(part), "{part:?} is not in\n{markdown}");
    }
    assert!(!markdown.contains("memory: sawtooth") && !markdown.contains("memory: plateau"), "{markdown}");
    let page = ureq::get(format!("http://{}/report", analyzer.address)).call()?.body_mut().read_to_string()?;
    assert!(page.contains("<h2>Risks</h2>") && page.contains("host memory · leak"), "{page}");
    Ok(())
}

fn leaks() -> BTreeSet<(&'static str, &'static str)> {
    MEMORIES.iter().map(|memory| ("leak", *memory)).collect()
}

/// One scrape of an exporter whose GPU is held by a process in a cgroup with a memory limit.
fn scrape(dir: &std::path::Path) -> Result<Batch> {
    let node = FakeNode::new(dir, &NodeSpec::h100(1))?;
    let exporter = Exporter::start(dir, &node)?;
    let cgroup = JobCgroup::create()?;
    cgroup.limit_memory(1 << 30)?;
    let job = Job::start(env!("CARGO_BIN_EXE_gpu-job"), dir, &node, 0)?;
    cgroup.add(job.pid())?;
    let text = until("the job's memory", PATIENCE, || {
        let text = ureq::get(format!("http://{}/metrics", exporter.address)).call()?.body_mut().read_to_string()?;
        let wanted = ["goodput_cgroup_memory_max_bytes{", "goodput_gpu_owner_info{", "DCGM_FI_DEV_FB_FREE{"];
        Ok(wanted.iter().all(|metric| text.contains(metric)).then_some(text))
    })?;
    Ok(parse(&text, Format::Text, Limits::NONE, 0)?)
}

/// The series as a node of that name has it, with the node's memory in use at each time.
fn stamped(
    series: SeriesRef<'_>,
    node: &str,
    course: Course,
    first_ms: i64,
    times: impl Iterator<Item = i64>,
    scrape: &Batch,
) -> Result<TimeSeries> {
    let metric = series.labels.metric();
    let now = |metric: &str| {
        let found = scrape.series().find(|s| s.labels.metric() == metric).and_then(|s| s.samples.first());
        found.map(|s| s.value).with_context(|| format!("the scrape has no {metric}"))
    };
    let framebuffer = now("DCGM_FI_DEV_FB_USED")? + now("DCGM_FI_DEV_FB_FREE")?;
    let (limit, total) = (now("goodput_cgroup_memory_max_bytes")?, now("goodput_node_memory_total_bytes")?);
    let recorded = series.samples.first().context("a series without a sample")?.value;
    let value = |used: f64| match metric {
        "DCGM_FI_DEV_FB_USED" => used * framebuffer,
        "DCGM_FI_DEV_FB_FREE" => (1.0 - used) * framebuffer,
        "goodput_cgroup_memory_working_set_bytes" => used * limit,
        "goodput_node_memory_available_bytes" => (1.0 - used) * total,
        _ => recorded,
    };
    let sample =
        |timestamp: i64| Sample { value: value(course((timestamp - first_ms) as f64 / SECOND as f64)), timestamp };
    let mut labels: Vec<Label> = series.labels.iter().map(|(name, value)| label(name, value, node)).collect();
    labels.push(Label { name: "instance".to_owned(), value: format!("{node}:9400") });
    labels.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(TimeSeries { labels, samples: times.map(sample).collect() })
}

/// Nodes differ in their names and in their GPUs'.
fn label(name: &str, value: &str, node: &str) -> Label {
    let value = match name {
        "Hostname" | "hostname" | "nodename" => node.to_owned(),
        "UUID" => format!("{value}-{node}"),
        _ => value.to_owned(),
    };
    Label { name: name.to_owned(), value }
}

#[derive(Debug)]
struct Gauge {
    node: String,
    memory: String,
    value: f64,
}

/// The series of a metric of the analyzer's page.
fn gauges(page: &str, metric: &str) -> Result<Vec<Gauge>> {
    let batch = parse(page, Format::OpenMetrics, Limits::NONE, 0)?;
    let gauge = |s: SeriesRef<'_>| {
        let label = |name| s.labels.get(name).unwrap_or_default().to_owned();
        Some(Gauge { node: label("node"), memory: label("memory"), value: s.samples.first()?.value })
    };
    Ok(batch.series().filter(|s| s.labels.metric() == metric).filter_map(gauge).collect())
}

fn value(page: &str, metric: &str) -> Result<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(metric)).with_context(|| format!("no {metric}"))?;
    Ok(line.trim().parse()?)
}
