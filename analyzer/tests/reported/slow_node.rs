//! A run over three nodes of a pool of four; one is slow and set up differently: stored, judged hour by hour and
//! reported.

use std::ops::Range;
use std::path::Path;

use goodput_analyzer::judge::{Judge, windows};
use goodput_analyzer::report::tuning::Tuning;
use goodput_analyzer::report::{Period, markdown, stored};
use goodput_exposition::sample::{Batch, Labels, Sample, TimeMs};
use goodput_rules::classify::Thresholds;
use goodput_rules::signal;
use goodput_store::{Ingest, Options, Store};
use goodput_verdict::{HOUR_MS, Measure};
use jiff::tz::TimeZone;

/// A full hour in 2026.
const START: TimeMs = 1_795_230_000_000;
const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A node; the second one is slow: its GPUs are capped and take longer for the same step.
fn node(batch: &mut Batch, name: &str, times: &Range<TimeMs>) {
    let is_slow = name == "n2";
    let mut push = |metric: &str, labels: &[(&str, &str)], value: f64| {
        let all = [("__name__", metric), ("Hostname", name), ("instance", name)];
        let labels = Labels::new(all.into_iter().chain(labels.iter().copied()));
        let samples: Vec<Sample> = times.clone().step_by(30_000).map(|time_ms| Sample { time_ms, value }).collect();
        batch.push(labels.as_ref(), &samples);
    };
    push("goodput_node_info", &[("nodename", name)], 1.0);
    push("goodput_audit_status", &[("check", "swap_off"), ("status", if is_slow { "fail" } else { "pass" })], 1.0);
    push("goodput_thp_info", &[("enabled", "madvise")], 1.0);
    for gpu in ["0", "1"] {
        let uuid = format!("GPU-{name}-{gpu}");
        let device = [("gpu", gpu), ("UUID", uuid.as_str()), ("modelName", "NVIDIA H100 80GB HBM3")];
        // The fourth node has a run of its own.
        let owner = if name == "n4" { "slurm/8" } else { "slurm/7" };
        push("goodput_gpu_owner_info", &[("gpu", gpu), ("UUID", &uuid), ("owner", owner)], 1.0);
        push("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, 0.98);
        push("DCGM_FI_PROF_SM_ACTIVE", &device, if is_slow { 0.9 } else { 0.6 });
        push("DCGM_FI_DEV_SM_CLOCK", &device, if is_slow { 1320.0 } else { 1980.0 });
        push("DCGM_FI_DEV_POWER_MGMT_LIMIT", &device, if is_slow { 400.0 } else { 700.0 });
    }
}

/// The report of the first hours.
async fn reported(dir: &Path, hours: i64) -> (Tuning, String) {
    let now = || START + 12 * HOUR_MS;
    let store = Store::open(Options { now, ..Options::new(dir, signal::is_known) }).await.unwrap();
    let times = START..START + hours * HOUR_MS;
    for name in NODES {
        let mut batch = Batch::default();
        node(&mut batch, name, &times);
        store.append(batch).await.unwrap();
    }
    let judge = Judge::new(store.clone(), Thresholds::default());
    for window in windows(times, &TimeZone::UTC) {
        judge.judge(&mut judge.reader(window.end), &window, window.end).await.unwrap();
        judge.judge(&mut judge.reader(window.end), &window, window.end).await.unwrap();
    }
    let time = |hour: i64| jiff::Timestamp::from_millisecond(START + hour * HOUR_MS).unwrap().to_string();
    let period = Period::between(&time(0), &time(hours), &TimeZone::UTC).unwrap();
    let report = stored(&store, period, &[]).await.unwrap();
    let page = markdown::render(&report).unwrap();
    store.close().await;
    (report.tuning, page)
}

#[tokio::test]
async fn the_slow_node_is_named_with_what_is_different_there() {
    let dir = tempfile::tempdir().unwrap();
    let (tuning, page) = reported(dir.path(), 7).await;
    let slow: Vec<_> = tuning.slow.iter().map(|s| (s.node.as_str(), s.measure, s.pairs, s.runs)).collect();
    let expected = [("n2", Measure::SmActivity, 7, 1), ("n2", Measure::SmClock, 7, 1)];
    assert_eq!(slow, expected, "once per hour, though every hour was judged twice");
    for found in &tuning.slow {
        assert!((found.slowdown - 1.5).abs() < 0.01 && found.low > 1.4, "{found:?}");
        assert_eq!(found.differs, ["swap_off: fail (usual: pass)", "power limit: 400 W (usual: 700 W)"]);
    }
    assert_eq!((tuning.steady, tuning.too_few.len(), tuning.untold.len()), (2, 0, 0), "the fourth has no peer");
    let rows: Vec<_> = tuning.rows.iter().map(|r| (r.what.as_str(), r.nodes.join(" "), r.gpus.len())).collect();
    assert_eq!(rows, [("swap_off", "n2".to_owned(), 0), ("power limit", "n2".to_owned(), 2)]);
    assert_eq!((tuning.rows[0].since_ms, tuning.rows[0].until_ms), (START, START + 7 * HOUR_MS));
    for line in ["| n2 | sm_activity | 1.5 | 1.5 to 1.5 | 7 | 1 |", "| check swap_off | fail | pass |"] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
}

#[tokio::test]
async fn five_hours_are_too_few_to_call_a_node_slow() {
    let dir = tempfile::tempdir().unwrap();
    let (tuning, page) = reported(dir.path(), 5).await;
    assert_eq!(tuning.slow, []);
    assert!(tuning.too_few.iter().any(|few| few.node == "n2" && few.pairs == 5), "{:?}", tuning.too_few);
    assert!(page.contains("No node could be compared often enough."), "{page}");
    assert_eq!(tuning.rows.len(), 2, "drift needs no pairs");
}
