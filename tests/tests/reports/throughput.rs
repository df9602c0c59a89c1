//! A job's own counters through the real analyzer: the report shows what a hand calculation gives.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::history::{HOUR, Line, delivered, delivering, last_week, store};

/// Ten samples a second, but four in the third hour.
fn progress(at: i64) -> f64 {
    let slow = (at - 2 * HOUR).clamp(0, HOUR);
    (10 * (at - slow) + 4 * slow) as f64 / 1000.0
}

/// The job's process is restarted after an hour and a half, on a scrape: its counter begins again at zero.
fn counter(at: i64) -> f64 {
    const RESTART: i64 = HOUR + HOUR / 2;
    if at < RESTART { 1e6 + progress(at) } else { progress(at) - progress(RESTART) }
}

#[test]
fn a_counter_with_a_reset_and_a_slow_hour() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let dir = dir.path();
    let counters = "application:\n\
        - {metric: train_samples_total, unit: samples, owner_label: pod, ideal_per_second_per_gpu: 6.25}\n\
        - {metric: train_tokens_total, unit: tokens, owner_label: pod}\n";
    let config = delivering(dir, &week) + counters;
    let job = [("pod", "train-0"), ("namespace", "ml"), ("job", "train"), ("instance", "train-0:8000")];
    let series = |metric, more: &[(&'static str, &'static str)]| [&[("__name__", metric)], more].concat();
    let gpu = |metric, uuid: &'static str, index| {
        let device = [("UUID", uuid), ("gpu", index), ("Hostname", "n1"), ("pod", "train-0"), ("namespace", "ml")];
        series(metric, &[&device[..], &[("job", "dcgm"), ("instance", "n1:9400")]].concat())
    };
    let stranger = [("pod", "other-0"), ("namespace", "ml"), ("job", "train"), ("instance", "other-0:8000")];
    // Two GPUs, at work but for the third hour.
    let at_work = |at: i64| !(2 * HOUR..3 * HOUR).contains(&at);
    let util = |at: i64| if at_work(at) { 100.0 } else { 0.0 };
    let power = |at: i64| if at_work(at) { 600.0 } else { 120.0 };
    let labels = [
        series("train_samples_total", &job),
        series("train_tokens_total", &job),
        series("train_tokens_total", &stranger),
        gpu("DCGM_FI_DEV_GPU_UTIL", "GPU-a", "0"),
        gpu("DCGM_FI_DEV_GPU_UTIL", "GPU-b", "1"),
        gpu("DCGM_FI_DEV_POWER_USAGE", "GPU-a", "0"),
        gpu("DCGM_FI_DEV_POWER_USAGE", "GPU-b", "1"),
    ];
    let values: [&dyn Fn(i64) -> f64; 7] = [&counter, &counter, &counter, &util, &util, &power, &power];
    let lines: Vec<Line> = labels.iter().zip(values).map(|(labels, value)| Line { labels, value }).collect();
    let start = week.start_ms + 30 * HOUR;
    store(dir, &config, start..start + 4 * HOUR + 1, &lines)?;

    let (page, report) = delivered(dir, &config, &week)?;
    assert!(page.contains("<h2>Throughput</h2>"), "the section is shown");
    let throughput = &report["throughput"];
    let [samples, tokens] = [&throughput["jobs"][0], &throughput["jobs"][1]];

    // Ten a second for three hours and four for one, less the 15 s before the restart, which are unknown.
    let total = 3.0 * 36_000.0 + 14_400.0 - 150.0;
    for (job, metric) in [(samples, "train_samples_total"), (tokens, "train_tokens_total")] {
        assert_eq!((&job["owner"], &job["metric"]), (&json!("ml/train-0"), &json!(metric)));
        close(&job["total"], total);
        close(&job["per_second"], total / (4.0 * 3600.0));
        close(&job["held"]["gpu_hours"], 8.0);
        close(&job["per_gpu_hour"], total / 8.0);
        close(&job["time_goodput"], 6.0 / 8.0);
    }
    assert_eq!(samples["ideal"]["source"], "configured");
    close(&samples["throughput_goodput"], total / (6.25 * 8.0 * 3600.0));
    // The first and the last hour are the best: five a second and GPU.
    close(&tokens["ideal"]["per_second_per_gpu"], 5.0);
    close(&tokens["throughput_goodput"], total / (5.0 * 8.0 * 3600.0));

    let unjoined = throughput["unjoined"].as_array().context("no list")?;
    assert_eq!((unjoined.len(), &unjoined[0]["subject"]), (1, &json!("other-0")));
    close(&unjoined[0]["total"], total);
    Ok(())
}

fn close(actual: &Value, expected: f64) {
    let got = actual.as_f64().unwrap_or(f64::NAN);
    assert!((got - expected).abs() <= 1e-9 * expected, "{actual} is not {expected}");
}
