//! An inference server through the real analyzer: the report shows what a hand calculation gives.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::history::{HOUR, Line, delivered, delivering, last_week, store};

/// A hundred tokens a second for two hours, then none.
fn tokens(at: i64) -> f64 {
    1e9 + 100.0 * at.min(2 * HOUR) as f64 / 1000.0
}

#[test]
fn a_server_of_two_gpus_that_rests_for_half_of_its_time() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let dir = dir.path();
    let prices =
        "prices:\n- {model: '*', currency: EUR, per_gpu_hour: 1.8, per_kwh: 0, pue: 1, valid_from: 2026-01-01}\n";
    let config = delivering(dir, &week) + prices;
    let series = |metric, more: &[(&'static str, &'static str)]| [&[("__name__", metric)], more].concat();
    let gpu = |metric, uuid: &'static str, index| {
        let device = [("UUID", uuid), ("gpu", index), ("Hostname", "n1"), ("pod", "vllm-0"), ("namespace", "ml")];
        series(metric, &[&device[..], &[("job", "dcgm"), ("instance", "n1:9400")]].concat())
    };
    let of = |pod: &'static str, target| {
        [
            ("namespace", "ml"),
            ("pod", pod),
            ("job", "vllm"),
            ("instance", target),
            ("model_name", "llama"),
            ("engine", "0"),
        ]
    };
    let (server, stranger) = (of("vllm-0", "10.0.0.7:8000"), of("vllm-9", "10.0.0.9:8000"));
    let is_at_work = |at: i64| at < 2 * HOUR;
    let open = |at: i64| if is_at_work(at) { 8.0 } else { 0.0 };
    let util = |at: i64| if is_at_work(at) { 100.0 } else { 0.0 };
    let power = |at: i64| if is_at_work(at) { 600.0 } else { 120.0 };
    let requests = |at: i64| tokens(at) / 200.0;
    let labels = [
        series("vllm:generation_tokens_total", &server),
        series("vllm:generation_tokens_total", &stranger),
        series("vllm:request_success_total", &[&server[..], &[("finished_reason", "stop")]].concat()),
        series("vllm:num_requests_running", &server),
        gpu("DCGM_FI_DEV_GPU_UTIL", "GPU-a", "0"),
        gpu("DCGM_FI_DEV_GPU_UTIL", "GPU-b", "1"),
        gpu("DCGM_FI_DEV_POWER_USAGE", "GPU-a", "0"),
        gpu("DCGM_FI_DEV_POWER_USAGE", "GPU-b", "1"),
    ];
    let values: [&dyn Fn(i64) -> f64; 8] = [&tokens, &tokens, &requests, &open, &util, &util, &power, &power];
    let lines: Vec<Line> = labels.iter().zip(values).map(|(labels, value)| Line { labels, value }).collect();
    let start = week.start_ms + 30 * HOUR;
    store(dir, &config, start..start + 4 * HOUR + 1, &lines)?;

    let (page, report) = delivered(dir, &config, &week)?;
    assert!(page.contains("<h2>Serving</h2>"), "the section is shown");
    let serving = &report["serving"];
    let [model] = &serving["models"].as_array().context("no models")?[..] else { panic!("{serving:#}") };
    assert_eq!((&model["models"], &model["servers"][0]["owner"]), (&json!(["llama"]), &json!("ml/vllm-0")));
    assert_eq!(model["counters"], json!(["vllm:generation_tokens_total", "vllm:request_success_total"]));

    // 720,000 tokens in 8 GPU-hours, half of them without a request, at 1.80 an hour.
    near(&model["served"]["generation_tokens"], 720_000.0, 1e-9);
    near(&model["served"]["requests"], 3600.0, 1e-9);
    near(&model["held"]["gpu_hours"], 8.0, 1e-9);
    near(&model["generation_tokens_per_gpu_second"], 25.0, 1e-9);
    near(&model["generation_tokens_per_productive_gpu_second"], 50.0, 0.01);
    near(&model["cost_per_million_generation_tokens"]["amount"], 20.0, 1e-6);
    // Two GPUs, 600 W for two hours and 120 W for two.
    near(&model["joules_per_generation_token"], 14.4, 0.01);
    near(&serving["without_a_request"]["gpu_hours"], 4.0, 0.01);
    let unjoined = serving["unjoined"].as_array().context("no list")?;
    assert_eq!((unjoined.len(), &unjoined[0]["subject"]), (1, &json!("ml/vllm-9")));
    assert_eq!(report.get("throughput"), None, "no counter is configured");
    Ok(())
}

/// Within this part of it: power is known by samples.
fn near(actual: &Value, expected: f64, part: f64) {
    let got = actual.as_f64().unwrap_or(f64::NAN);
    assert!((got - expected).abs() <= part * expected, "{actual} is not {expected}");
}
