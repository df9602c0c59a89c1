//! The schedule: a report that was due while the analyzer was down is delivered once.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::report::Period;
use goodput_lab::process::until;
use goodput_tests::programs::Analyzer;
use goodput_tests::webhook::Webhook;
use serde_json::Value;

use crate::history::{HOUR, Line, PATIENCE, last_week, store};

const DONE: &str = "nothing is left to deliver";

/// Two hours of one GPU in the past week: one of work, one of none.
fn two_hours(dir: &Path, week: &Period) -> Result<()> {
    let gpu = |metric| {
        [
            ("__name__", metric),
            ("UUID", "GPU-a"),
            ("gpu", "0"),
            ("Hostname", "n1"),
            ("job", "dcgm"),
            ("instance", "n1:9400"),
            ("pod", "train-0"),
            ("namespace", "ml"),
        ]
    };
    let busy = |at: i64, then: f64, afterwards: f64| if at < HOUR { then } else { afterwards };
    let start = week.start_ms + 30 * HOUR;
    let lines = [
        Line { labels: &gpu("DCGM_FI_DEV_GPU_UTIL"), value: &|at| busy(at, 100.0, 0.0) },
        Line { labels: &gpu("DCGM_FI_DEV_POWER_USAGE"), value: &|at| busy(at, 600.0, 120.0) },
        Line { labels: &gpu("DCGM_FI_DEV_FB_USED"), value: &|_| 20_000.0 },
    ];
    store(dir, &zone(week), start..start + 2 * HOUR, &lines)
}

fn zone(week: &Period) -> String {
    format!("zone: {}\n", week.zone)
}

/// The configuration that delivers the past week at once, to a directory and this webhook.
fn config(dir: &Path, week: &Period, webhook: &Webhook) -> Result<String> {
    let url = dir.join("url");
    fs::write(&url, format!("http://{}/services/T0/B0/secret\n", webhook.address))?;
    Ok(format!(
        "{}report:\n  schedule: {{weekday: monday, time: '00:00'}}\n  directory: {}\n  webhook: {{url_file: {}}}\n  \
         link: https://goodput.example/\n  settle: 1s\n",
        zone(week),
        dir.join("reports").display(),
        url.display()
    ))
}

fn until_logged(analyzer: &Analyzer, text: &str) -> Result<()> {
    until(text, PATIENCE, || Ok(analyzer.running.log_text().contains(text).then_some(())))
}

fn deliveries(analyzer: &Analyzer, destination: &str, outcome: &str) -> Result<Option<f64>> {
    let labels = format!("destination=\"{destination}\",outcome=\"{outcome}\"");
    analyzer.metric(&format!("goodput_analyzer_report_deliveries_total{{{labels}}}"))
}

fn overdue(analyzer: &Analyzer) -> Result<Option<f64>> {
    analyzer.metric("goodput_analyzer_report_overdue{destination=\"webhook\"}")
}

fn file(dir: &Path, week: &Period, ending: &str) -> Result<String> {
    let path = dir.join("reports").join(format!("{}.{ending}", week.label));
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[test]
fn a_missed_report_is_delivered_once_whatever_is_restarted() -> Result<()> {
    let (dir, week, webhook) = (tempfile::tempdir()?, last_week()?, Webhook::start()?);
    let dir = dir.path();
    two_hours(dir, &week)?;
    let config = config(dir, &week, &webhook)?;

    let analyzer = Analyzer::start_with(dir, &config)?;
    let (path, message) = webhook.next(PATIENCE)?;
    assert_eq!(path, "/services/T0/B0/secret");
    // The files were there before the message, and each form is whole.
    let report: Value = serde_json::from_str(&file(dir, &week, "json")?)?;
    assert!(file(dir, &week, "html")?.starts_with("<!DOCTYPE html>"));
    assert!(file(dir, &week, "md")?.contains("## Findings") && file(dir, &week, "csv")?.contains(",idle_held,"));
    assert_eq!(report["period"]["label"], week.label.as_str());
    assert_eq!(report["fleet"]["productive"]["gpu_hours"], 1.0, "the hour of work");
    let link = format!("<https://goodput.example/report?week={}|The whole report>", week.label);
    let blocks = message["blocks"].as_array().context("no blocks")?;
    assert_eq!(blocks.last().context("no block")?["text"]["text"], link.as_str());
    assert!(message["text"].as_str().context("no text")?.starts_with(&format!("Goodput {}: ", week.label)));
    assert!(blocks[2]["text"]["text"].as_str().context("no findings")?.contains("(idle_held)"), "{message}");

    until_logged(&analyzer, DONE)?;
    for destination in ["directory", "webhook"] {
        assert_eq!(deliveries(&analyzer, destination, "delivered")?, Some(1.0), "{destination}");
        assert_eq!(deliveries(&analyzer, destination, "failed")?, Some(0.0), "{destination}");
    }
    let log = analyzer.running.log_text();
    assert!(!log.contains("secret"), "{log}");
    analyzer.running.kill()?;

    let again = Analyzer::start_with(dir, &config)?;
    until_logged(&again, DONE)?;
    assert!(webhook.is_silent(), "a second message");
    assert_eq!(deliveries(&again, "webhook", "delivered")?, Some(0.0));
    let last = again.metric("goodput_analyzer_report_last_success_timestamp_seconds{destination=\"webhook\"}")?;
    assert!(last.is_some(), "the last success is remembered");
    assert_eq!(fs::read_dir(dir.join("reports"))?.count(), 6, "each form once");
    Ok(())
}

#[test]
fn a_webhook_that_fails_is_asked_again_until_it_takes_the_message() -> Result<()> {
    let (dir, week) = (tempfile::tempdir()?, last_week()?);
    let webhook = Webhook::answering(&["500 No", "503 Later\r\nretry-after: 1"])?;
    two_hours(dir.path(), &week)?;
    let analyzer = Analyzer::start_with(dir.path(), &config(dir.path(), &week, &webhook)?)?;
    let messages = [webhook.next(PATIENCE)?, webhook.next(PATIENCE)?, webhook.next(PATIENCE)?];
    ensure!(messages.iter().all(|message| *message == messages[0]), "not the same message: {messages:?}");
    until_logged(&analyzer, DONE)?;
    assert!(webhook.is_silent());
    assert_eq!(deliveries(&analyzer, "webhook", "failed")?, Some(2.0));
    assert_eq!(deliveries(&analyzer, "webhook", "delivered")?, Some(1.0));
    assert_eq!(deliveries(&analyzer, "directory", "delivered")?, Some(1.0), "written once");
    assert_eq!(overdue(&analyzer)?, Some(0.0));
    Ok(())
}

#[test]
fn a_webhook_that_refuses_is_asked_once() -> Result<()> {
    let (dir, week, webhook) = (tempfile::tempdir()?, last_week()?, Webhook::answering(&["400 Bad Request"])?);
    two_hours(dir.path(), &week)?;
    let config = config(dir.path(), &week, &webhook)?;
    let analyzer = Analyzer::start_with(dir.path(), &config)?;
    webhook.next(PATIENCE)?;
    until_logged(&analyzer, DONE)?;
    assert_eq!(deliveries(&analyzer, "webhook", "refused")?, Some(1.0));
    assert_eq!(overdue(&analyzer)?, Some(1.0));
    let log = analyzer.running.log_text();
    assert!(log.contains("the webhook refused the message with status 400") && !log.contains("secret"), "{log}");
    assert!(webhook.is_silent());
    ensure!(analyzer.running.terminate()?.success());

    // After a restart, say with the right address, it is caught up.
    let again = Analyzer::start_with(dir.path(), &config)?;
    webhook.next(PATIENCE)?;
    until_logged(&again, DONE)?;
    assert_eq!((deliveries(&again, "webhook", "delivered")?, overdue(&again)?), (Some(1.0), Some(0.0)));
    assert_eq!(deliveries(&again, "directory", "delivered")?, Some(0.0), "the files were there");
    Ok(())
}
