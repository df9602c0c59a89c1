//! The real program brings history in and writes it out again.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::signal;
use goodput_store::{Ingest, Options, Samples, Selection, Store};
use polars::prelude::{DataFrame, DataType, ParquetReader, SerReader, TimeUnit, TimeZone};

/// Mon 2026-03-02 00:00 UTC: long before any clock that runs this.
const MARCH: TimeMs = 1_772_409_600_000;
const GPU: &str = r#"{gpu="0",UUID="GPU-a",Hostname="n1",instance="n1:9400"}"#;
const DAY: [&str; 4] = ["--start", "2026-03-02T00:00:00Z", "--end", "2026-03-03T00:00:00Z"];

#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn program(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput-analyzer"));
    command.args(["--log.level=error", "--data.dir", data.to_str().unwrap()]).args(args);
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// What it says when it succeeds.
fn ran(data: &Path, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = program(data, args).output().unwrap();
    assert!(status.success(), "{args:?}: {}", text(stderr));
    text(stdout)
}

fn refused(data: &Path, args: &[&str]) -> (String, String) {
    let Output { status, stdout, stderr } = program(data, args).output().unwrap();
    assert!(!status.success(), "{args:?} is refused");
    (text(stdout), text(stderr))
}

/// Two metrics over an hour, family by family as OpenMetrics wants it, and one that no signal uses.
fn openmetrics() -> String {
    let mut text = String::new();
    for (name, value) in [("DCGM_FI_DEV_GPU_UTIL", "37.5"), ("DCGM_FI_DEV_POWER_USAGE", "0.1"), ("other", "1")] {
        text += &format!("# TYPE {name} gauge\n");
        for n in 0..240 {
            text += &format!("{name}{GPU} {value} {}\n", MARCH / 1000 + 15 * n);
        }
    }
    text + "# EOF\n"
}

async fn stored(data: &Path) -> Vec<Series> {
    let store = Store::open(Options::new(data, signal::is_known)).await.unwrap();
    let all = Selection { range: 0..TimeMs::MAX, ..Selection::default() };
    let mut series = store.select(&all).await.unwrap();
    store.close().await;
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    series
}

fn bits(series: &[Series]) -> Vec<(Labels, Vec<(TimeMs, u64)>)> {
    let bits = |s: &Series| s.samples.iter().map(|s| (s.time_ms, s.value.to_bits())).collect();
    series.iter().map(|s| (s.labels.clone(), bits(s))).collect()
}

#[tokio::test]
async fn history_comes_in_once_from_every_form_of_text() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, gz, zst) = (dir.path().join("a.om"), dir.path().join("a.gz"), dir.path().join("a.zst"));
    fs::write(&plain, openmetrics()).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(File::create(&gz).unwrap(), flate2::Compression::default());
    encoder.write_all(openmetrics().as_bytes()).unwrap();
    encoder.finish().unwrap();
    fs::write(&zst, zstd::encode_all(openmetrics().as_bytes(), 3).unwrap()).unwrap();

    let data = dir.path().join("data");
    let (first, again) = (" 480  stored\n", " 480  there already, with the same value\n");
    for (file, said) in [(&plain, first), (&plain, again), (&gz, again), (&zst, again)] {
        let account = ran(&data, &["import", "--no-judge", file.to_str().unwrap()]);
        assert!(account.contains(said), "{}: {account}", file.display());
        assert!(account.contains(" 240  dropped: of metrics that no signal uses\n"), "{account}");
        assert!(account.contains(" classify --start 2026-03-02T00:00:00Z --end 2026-03-02T01:00:00Z\n"), "{account}");
        assert_eq!(account.contains("         0  stored"), said == again, "{account}");
    }
    let series = stored(&data).await;
    assert_eq!(series.iter().map(|s| s.samples.len()).collect::<Vec<_>>(), [240, 240]);
    assert_eq!(series[0].samples[1], Sample { time_ms: MARCH + 15_000, value: 37.5 });

    let mut child = program(&data, &["import", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(openmetrics().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(output.stdout);
    assert!(output.status.success() && said.contains(again), "{said}");
    let judged = said.lines().skip_while(|line| !line.starts_with("class ")).skip(1);
    let hours: Vec<f64> = judged.filter_map(|line| line.split_whitespace().last()?.parse().ok()).collect();
    assert!((hours.iter().sum::<f64>() - 1.0).abs() < 0.02, "one GPU, one hour: {said}");
}

#[tokio::test]
async fn history_goes_before_and_between_what_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let labels = || Labels::new([("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", "GPU-a"), ("gpu", "0")]);
    let sample = |n: i64| Sample { time_ms: MARCH + n * 60_000, value: n as f64 };
    let append = async |history: bool, samples: Vec<Sample>| {
        let store = Store::open(Options { history, ..Options::new(&data, signal::is_known) }).await.unwrap();
        let series = vec![Series { labels: labels(), samples }];
        let appended = store.append(series.into_iter().collect()).await.unwrap();
        store.flush().await.unwrap();
        store.close().await;
        appended
    };
    // Two segments with a hole of six hours between them.
    assert_eq!(append(false, vec![sample(600)]).await.stored, 1);
    assert_eq!(append(false, vec![sample(1000)]).await.stored, 1);
    let late = append(false, vec![sample(0), sample(700)]).await;
    assert_eq!((late.stored, late.out_of_bounds), (0, 2), "what is live has a window");
    let history = append(true, vec![sample(0), sample(600), sample(700), sample(1000), sample(1001)]).await;
    assert_eq!((history.stored, history.duplicate), (3, 2));
    let other = Sample { value: 0.5, ..sample(700) };
    let again = append(true, vec![sample(0), other, sample(1001)]).await;
    assert_eq!((again.stored, again.duplicate, again.conflicting), (0, 2, 1), "the first stays");
    let live = append(false, vec![sample(1001), sample(1002), sample(1)]).await;
    assert_eq!((live.stored, live.duplicate, live.out_of_bounds), (1, 1, 1), "the window counts from the newest");
    let minutes: Vec<TimeMs> = stored(&data).await[0].samples.iter().map(|s| (s.time_ms - MARCH) / 60_000).collect();
    assert_eq!(minutes, [0, 600, 700, 1000, 1001, 1002]);
}

#[tokio::test]
async fn one_open_store_does_not_take_a_piece_of_history_for_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let labels = || Labels::new([("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", "GPU-a"), ("gpu", "0")]);
    let batch = |minutes: &[i64]| {
        let sample = |n: &i64| Sample { time_ms: MARCH + n * 60_000, value: 1.0 };
        [Series { labels: labels(), samples: minutes.iter().map(sample).collect() }].into_iter().collect()
    };
    let open = |history| Store::open(Options { history, ..Options::new(dir.path(), signal::is_known) });
    let store = open(false).await.unwrap();
    store.append(batch(&[100, 200])).await.unwrap();
    store.flush().await.unwrap();
    store.close().await;
    let store = open(true).await.unwrap();
    for (minutes, counts) in [([10, 20], (2, 0)), ([100, 150], (1, 1)), ([200, 201], (1, 1)), ([20, 201], (0, 2))] {
        let appended = store.append(batch(&minutes)).await.unwrap();
        assert_eq!((appended.stored, appended.duplicate), counts, "{minutes:?}");
    }
    store.close().await;
}

#[test]
fn what_is_wrong_with_a_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("bad.om"));
    let line = format!("DCGM_FI_DEV_GPU_UTIL{GPU} 1 {}\n", MARCH / 1000);
    for (content, error) in [
        (format!("{line}{line}DCGM_FI_DEV_GPU_UTIL{GPU} 1\n# EOF\n"), "line 3: expected a timestamp in seconds"),
        (format!("{line}{line}"), "line 3: expected # EOF at the end"),
        (format!("{line}# EOF\n{line}"), "line 3: expected nothing after # EOF"),
        (format!("{line}up{{a=b}} 1\n# EOF\n"), "line 2: expected \"\\\"\""),
        ("PAR1 and nothing else".to_owned(), "bad.om: "),
        (format!("{line}{}", "x".repeat(2 << 20)), "line 2: expected a line of at most 1048576 bytes"),
    ] {
        fs::write(&file, content).unwrap();
        let (account, found) = refused(&data, &["import", file.to_str().unwrap()]);
        assert!(found.contains(error) && found.contains("nothing is stored twice"), "{found}\n{error}");
        assert!(account.contains(" stored\n"), "{account}");
    }
    let (_, found) = refused(&data, &["import", dir.path().join("none").to_str().unwrap()]);
    assert!(found.contains("none: No such file"), "{found}");
}

#[tokio::test]
async fn an_export_reads_as_a_plain_table_and_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let odd = [0.1, -0.0, f64::NAN, f64::from_bits(STALE_BITS), f64::INFINITY, f64::MIN_POSITIVE / 2.0];
    let store = Store::open(Options::new(&data, signal::is_known)).await.unwrap();
    let labels = |metric: &str| Labels::new([("__name__", metric), ("UUID", "GPU-ä\"\\"), ("gpu", "0")]);
    let sample = |(n, value): (i64, &f64)| Sample { time_ms: MARCH + n * 1000, value: *value };
    let series = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"]
        .map(|metric| Series { labels: labels(metric), samples: (0..).zip(&odd).map(sample).collect() });
    store.append(series[..1].iter().cloned().collect()).await.unwrap();
    store.flush().await.unwrap();
    store.append(series[1..].iter().cloned().collect()).await.unwrap();

    // The store is open: one series is in a segment, the other in the write-ahead.
    let file = dir.path().join("samples.parquet");
    let export = [&["export", "--out", file.to_str().unwrap()], &DAY[..]].concat();
    assert_eq!(ran(&data, &export), format!("12 rows in {}\n", file.display()));
    let before = bits(&series);
    store.close().await;

    let table = parquet(&file);
    let utc = DataType::Datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
    assert_eq!(table.dtypes(), [DataType::String, DataType::String, utc, DataType::Float64]);
    assert_eq!(table.get_column_names(), ["metric", "labels", "timestamp", "value"]);
    assert_eq!(table.column("metric").unwrap().str().unwrap().get(0), Some("DCGM_FI_DEV_GPU_UTIL"));
    let labels = table.column("labels").unwrap().str().unwrap().get(0).unwrap();
    assert_eq!(labels, r#"{"UUID":"GPU-ä\"\\","gpu":"0"}"#);

    let copy = dir.path().join("copy");
    let account = ran(&copy, &["import", file.to_str().unwrap()]);
    assert!(account.contains(" 12  stored\n"), "{account}");
    assert!(ran(&copy, &["import", file.to_str().unwrap()]).contains(" 12  there already, with the same value\n"));
    let mut before = before;
    before.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(bits(&stored(&copy).await), before);

    let one = [&export, &["--metric", "DCGM_FI_DEV_GPU_UTIL"][..]].concat();
    assert!(ran(&data, &one).starts_with("6 rows"));
    let (_, error) = refused(&data, &[&one, &["--what", "risks"][..]].concat());
    assert!(error.contains("--metric: only samples have metrics"), "{error}");
}

#[test]
fn verdicts_go_out_too_and_are_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (data, text) = (dir.path().join("data"), dir.path().join("a.om"));
    fs::write(&text, openmetrics()).unwrap();
    ran(&data, &["import", text.to_str().unwrap()]);
    let file = dir.path().join("out.parquet");
    let export =
        |what: &str| ran(&data, &[&["export", "--what", what, "--out", file.to_str().unwrap()], &DAY[..]].concat());
    export("intervals");
    let table = parquet(&file);
    assert_eq!(table.column("gpu").unwrap().str().unwrap().get(0), Some("GPU-a"));
    assert_eq!(table.column("gpu_ms").unwrap().i64().unwrap().iter().flatten().sum::<i64>(), 3_600_000);
    for (what, columns) in [("advisories", 14), ("risks", 21)] {
        assert!(export(what).starts_with("0 rows"), "{what}");
        assert_eq!(parquet(&file).width(), columns, "{what}");
    }
    export("intervals");
    let (_, error) = refused(&data, &["import", file.to_str().unwrap()]);
    assert!(error.contains("out.parquet: expected a column metric; the file has node, gpu, model"), "{error}");
}

fn parquet(path: &Path) -> DataFrame {
    ParquetReader::new(File::open(path).unwrap()).finish().unwrap()
}
