//! One sender brings many more series than may be: others are served, what fits is stored and judged, memory stays within
//! its bound.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::time::Duration;

use goodput_lab::process::until;
use goodput_lab::remote_write::{TimeSeries, send};
use goodput_store::wall_clock;
use goodput_tests::programs::Analyzer;
use goodput_tests::scrape::serve;

/// Series of one request.
const REQUEST: usize = 2000;

/// 20,000, unless `GOODPUT_FLOOD_SERIES` says otherwise.
fn flood() -> usize {
    std::env::var("GOODPUT_FLOOD_SERIES").map_or(20_000, |series| series.parse().unwrap())
}

/// The most memory that the process ever had, in KiB.
fn peak_kib(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_flood_of_series_is_refused_and_others_are_served() {
    let (flood, dir) = (flood(), tempfile::tempdir().unwrap());
    // No more GPUs than by default: what is judged of a window is written at once, and others wait until it is.
    let (max_series, max_gpus) = (flood / 2, (flood / 10).min(20_000));
    let target = serve("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-honest\",gpu=\"0\",Hostname=\"n1\"} 50\n").unwrap();
    let config = format!(
        "store: {{max_series: {max_series}, max_gpus: {max_gpus}}}\n\
         scrape: [{{name: gpu, targets: ['{target}'], interval: 1s, timeout: 1s}}]\n"
    );
    let analyzer = Analyzer::start_with(dir.path(), &config).unwrap();
    let metric = |name: &str| analyzer.metric(name).unwrap().unwrap_or(0.0);
    let samples = |outcome: &str| metric(&format!("goodput_analyzer_received_samples_total{{outcome=\"{outcome}\"}}"));
    let patience = Duration::from_secs(300);
    let scraped = || Ok((metric("goodput_analyzer_scrapes_total{job=\"gpu\",outcome=\"taken\"}") > 1.0).then_some(()));
    until("scrapes", patience, scraped).unwrap();
    let judged = || Ok((metric("goodput_analyzer_judged_timestamp_seconds") > 0.0).then_some(()));
    until("the first round of judging", patience, judged).unwrap();

    // So old that judging begins at once when no more comes.
    let time = wall_clock() - 2 * 3_600_000;
    let mut answers = Vec::new();
    for first in (0..flood).step_by(REQUEST) {
        let series = (first..first + REQUEST).map(|n| {
            let uuid = format!("GPU-{n:07}");
            let labels = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", uuid.as_str()), ("Hostname", "flood")];
            TimeSeries::new(&labels, [(time, 90.0)])
        });
        answers.push(send(analyzer.address, series.collect()).unwrap());
    }
    let fits = max_series - max_series / 5;
    let refused = answers.iter().filter(|status| **status == 400).count();
    assert_eq!((answers[0], refused), (204, (flood - fits).div_ceil(REQUEST)), "{answers:?}");
    assert_eq!(samples("over_limit") as usize, flood - fits);
    let series = metric("goodput_analyzer_store_series") as usize;
    assert!((fits + 1..=max_series).contains(&series), "{series} series");

    let before = samples("stored");
    until("scrapes after the flood", patience, || Ok((samples("stored") > before + 6.0).then_some(()))).unwrap();
    let dropped = || Ok(Some(metric("goodput_analyzer_judge_dropped_gpus")).filter(|dropped| *dropped > 0.0));
    let dropped = until("judging of the flood", patience, dropped).unwrap();
    assert_eq!(dropped as usize, fits + 1 - max_gpus, "GPUs that were stored first are judged");
    assert_eq!(metric("goodput_analyzer_judge_failures_total"), 0.0);
    let log = analyzer.running.log_text();
    assert!(!log.contains("samples lost"), "{log}");
    assert_eq!(log.matches("new series are dropped").count(), 1, "once:\n{log}");
    let peak = peak_kib(analyzer.running.pid());
    // What the program takes by itself, then each series and each GPU that is judged.
    let bound = (400 << 10) + 2 * max_series + 100 * max_gpus;
    assert!(peak < bound, "{peak} KiB, expected below {bound}");
}
