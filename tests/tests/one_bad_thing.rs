//! One bad series, line or label costs itself: the programs as users run them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use goodput_lab::bin;
use goodput_lab::remote_write::{TimeSeries, WriteRequest, post};
use goodput_store::{Selection, Snapshot, wall_clock};
use goodput_tests::programs::Analyzer;

const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\",Hostname=\"n1\"}";

#[allow(clippy::disallowed_methods, reason = "the program as users run it")]
fn analyzer(data: &Path, arguments: &[&str]) -> Result<Output> {
    let run = Command::new(bin("goodput-analyzer")?).arg("--data.dir").arg(data).args(arguments).output();
    run.context("goodput-analyzer")
}

/// Samples that are stored.
async fn stored(data: &Path) -> Result<usize> {
    let all = Selection { range: i64::MIN..i64::MAX, ..Selection::default() };
    Ok(Snapshot::take(data, &all.range).await?.select(&all)?.iter().map(|series| series.samples.len()).sum())
}

#[tokio::test]
async fn import_goes_on_after_a_bad_line() -> Result<()> {
    let long = "x".repeat(6000);
    let foreign_long = format!("kube_pod_annotations{{pod=\"p\",annotation_x=\"{long}\"}} 1 1794823200\n");
    let own_long = format!("DCGM_FI_DEV_POWER_USAGE{{UUID=\"GPU-1\",pod=\"{long}\"}} 1 1794823200\n");
    let cases = [
        ("nothing between", "", true, "\n# EOF\n"),
        ("a foreign series with a long label", foreign_long.as_str(), true, "\n# EOF\n"),
        ("an unknown escape", "windows_path{p=\"C:\\dir\"} 1 1794823200\n", true, "\n# EOF\n"),
        ("no last line feed", "", true, "\n# EOF"),
        ("a line that is none", "{{{\n", false, "\n# EOF\n"),
        ("a series of ours with a long label", own_long.as_str(), false, "\n# EOF\n"),
        ("no end mark", "", false, "\n"),
    ];
    for (what, between, is_whole, end) in cases {
        let dir = tempfile::tempdir()?;
        let (data, file, second) = (dir.path().join("data"), dir.path().join("a.om"), dir.path().join("b.om"));
        fs::write(&file, format!("{UTIL} 80 1794823200\n{between}{UTIL} 81 1794823215{end}"))?;
        fs::write(&second, format!("{UTIL} 82 1794823230\n# EOF\n"))?;
        let (first, second) = (file.to_string_lossy(), second.to_string_lossy());
        let run = analyzer(&data, &["import", &first, "/nonexistent.om", &second])?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        ensure!(stored(&data).await? == 3, "{what}: {said}");
        // The file that does not exist is named in any case; the next files are read all the same.
        ensure!(run.status.code() == Some(1) && said.contains("/nonexistent.om"), "{what}: {said}");
        ensure!(said.contains(&format!("{first}: 1 line or row skipped:\n  line ")) != is_whole, "{what}: {said}");
        let again = analyzer(&data, &["import", &first])?;
        ensure!(again.status.success() == is_whole, "{what}: {}", String::from_utf8_lossy(&again.stderr));
    }
    Ok(())
}

#[test]
fn a_long_label_of_a_foreign_series_costs_none_of_the_others() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let analyzer = Analyzer::start(dir.path())?;
    let (now, long) = (wall_clock(), "x".repeat(6000));
    let gpu =
        |n: u64, metric: &str| TimeSeries::new(&[("__name__", metric), ("UUID", &format!("GPU-{n}"))], [(now, 1.0)]);
    let foreign = TimeSeries::new(&[("__name__", "kube_pod_annotations"), ("x", &long)], [(now, 1.0)]);
    let request = || {
        let metrics = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total"];
        let mut timeseries: Vec<_> = (0..8).flat_map(|n| metrics.map(|metric| gpu(n, metric))).collect();
        timeseries.insert(5, foreign.clone());
        WriteRequest { timeseries }.body()
    };
    for _ in 0..2 {
        ensure!(post(analyzer.address, &request()?)? == 204, "the foreign series is no failure");
    }
    let count =
        |outcome: &str| analyzer.metric(&format!("goodput_analyzer_received_samples_total{{outcome=\"{outcome}\"}}"));
    assert_eq!((count("stored")?, count("unknown")?), (Some(16.0), Some(2.0)));
    let log = analyzer.running.log_text();
    let named: Vec<_> =
        log.lines().filter(|line| line.contains("WARN") && line.contains("kube_pod_annotations")).collect();
    ensure!(named.len() == 1 && named[0].contains("bytes=60"), "once, with its size: {log}");

    let own = TimeSeries::new(&[("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("x", &long)], [(now, 1.0)]);
    ensure!(post(analyzer.address, &WriteRequest { timeseries: vec![gpu(9, "up"), own] }.body()?)? == 400);
    assert_eq!(analyzer.metric("goodput_analyzer_skipped_series_total{reason=\"label_bytes\"}")?, Some(1.0));
    assert_eq!(count("stored")?, Some(17.0));
    Ok(())
}

#[test]
fn texts_of_labels_reach_spreadsheets_and_terminals_harmless() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let hour = 3_600_000;
    let start = (wall_clock() / hour - 2) * hour;
    let iso = |ms: i64| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    let mut text = String::new();
    for second in (0..3600).step_by(30) {
        let time = start / 1000 + second;
        let labels = "UUID=\"GPU-1\",Hostname=\"@n1\",cluster=\"=HYPERLINK(\\\"x\\\")\",exported_pod=\"p\u{1b}[2J\u{9b}\",exported_namespace=\"ml\"";
        text +=
            &format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}} 90 {time}\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} 500 {time}\n");
    }
    let file = dir.path().join("a.om");
    fs::write(&file, text + "# EOF\n")?;
    let data = dir.path().join("data");
    let imported = analyzer(&data, &["import", &file.to_string_lossy()])?;
    ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let (from, to) = (iso(start)?, iso(start + hour)?);
    for format in ["csv-intervals", "csv-accounts", "csv", "markdown", "json", "html"] {
        let run = analyzer(&data, &["report", "--start", &from, "--end", &to, "--format", format])?;
        let shown = String::from_utf8(run.stdout)?;
        let bad = |c: char| c.is_control() && !['\n', '\r', '\t'].contains(&c);
        ensure!(shown.contains("ml/p") && !shown.contains(bad), "{format}: {shown}");
        if format == "csv-intervals" {
            let cells: Vec<_> = shown.lines().skip(1).flat_map(|line| line.split(',')).collect();
            ensure!(cells.contains(&"\"'=HYPERLINK(\"\"x\"\")\"") && cells.contains(&"'@n1"), "{shown}");
        }
    }
    Ok(())
}
