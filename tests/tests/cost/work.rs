//! The kinds of work, over one file that the lab makes: an hour and more of a node with eight GPUs.

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use goodput_analyzer::ingest::remote_write::{Message, decode};
use goodput_analyzer::ingest::{Limits as IngestLimits, Rules};
use goodput_exposition::sample::{Batch, Series};
use goodput_exposition::{Families, Format, Limits, encode, parse};
use goodput_lab::families::{FAMILIES, plan};
use goodput_lab::record::record;
use goodput_lab::remote_write::{TimeSeries, WriteRequest};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_store::{Ingest as _, Options, Samples as _, Selection, Store};

/// How far a process goes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Step {
    Prepare,
    Work,
}

/// A kind of work, done over what [`prepare`] left in the folder.
pub(crate) type Kind = fn(&Path, Step);

pub(crate) const KINDS: &[(&str, Kind)] = &[
    ("decode-remote-write", decode_remote_write),
    ("encode-scrape", encode_scrape),
    ("judge-hour", judge_hour),
    ("parse-exposition", parse_exposition),
    ("read-store", read_store),
    ("write-store", write_store),
];

/// A family with starts, work and faults of its loaders.
const FAMILY: &str = "dataloader_cpu";

const HOUR_MS: i64 = 3_600_000;

fn text_of(folder: &Path) -> String {
    fs::read_to_string(folder.join("metrics.om")).unwrap()
}

/// The same samples, in the form that takes least to read.
fn batch(folder: &Path) -> Batch {
    let (body, limits) = (fs::read(folder.join("remote_write")).unwrap(), IngestLimits::default());
    decode(&body, Message::V1, &Rules::of_all(&limits)).unwrap().batch
}

fn series(folder: &Path) -> Vec<Series> {
    batch(folder).into_iter().collect()
}

fn filled(folder: &Path) -> PathBuf {
    folder.join("filled")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// What the processes read, made once: nothing of it is counted.
pub(crate) fn prepare(folder: &Path) {
    let family = FAMILIES.iter().find(|family| family.name == FAMILY).unwrap();
    let plan = plan(family, 0);
    record(&plan, folder).unwrap();
    fs::rename(folder.join(plan.family).join(&plan.name).join("metrics.om"), folder.join("metrics.om")).unwrap();
    let series: Vec<Series> =
        parse(&text_of(folder), Format::OpenMetrics, Limits::NONE, 0).unwrap().into_iter().collect();
    let timeseries = series.iter().map(|one| {
        let labels: Vec<(&str, &str)> = one.labels.iter().collect();
        TimeSeries::new(&labels, one.samples.iter().map(|s| (s.time_ms, s.value)))
    });
    let body = WriteRequest { timeseries: timeseries.collect() }.body().unwrap();
    fs::write(folder.join("remote_write"), body).unwrap();
    runtime().block_on(async {
        let store = Store::open(Options::new(filled(folder), |_| true)).await.unwrap();
        store.append(batch(folder)).await.unwrap();
        store.close().await;
    });
}

fn parse_exposition(folder: &Path, step: Step) {
    let text = text_of(folder);
    if step == Step::Work {
        black_box(parse(&text, Format::OpenMetrics, Limits::NONE, 0).unwrap());
    }
}

fn decode_remote_write(folder: &Path, step: Step) {
    let (body, limits) = (fs::read(folder.join("remote_write")).unwrap(), IngestLimits::default());
    if step == Step::Work {
        black_box(decode(&body, Message::V1, &Rules::of_all(&limits)).unwrap());
    }
}

/// As many samples of each metric as eight GPUs have.
fn encode_scrape(_: &Path, step: Step) {
    let mut families = Families::new(None);
    for metric in goodput_catalog::all() {
        for gpu in ["0", "1", "2", "3", "4", "5", "6", "7"] {
            families.push(metric, &vec![gpu; metric.labels.len()], 1234.5);
        }
    }
    if step == Step::Work {
        black_box(encode(&families, Format::OpenMetrics));
    }
}

fn judge_hour(folder: &Path, step: Step) {
    let series = series(folder);
    let first = series.iter().filter_map(|one| one.samples.first()).map(|s| s.time_ms).min().unwrap();
    let hour = first.div_euclid(HOUR_MS) * HOUR_MS;
    if step == Step::Work {
        black_box(judge_series(&series, hour..hour + HOUR_MS, &Thresholds::default()).unwrap());
    }
}

fn write_store(folder: &Path, step: Step) {
    let (new, batch) = (tempfile::tempdir_in(folder).unwrap(), batch(folder));
    runtime().block_on(async {
        let store = Store::open(Options::new(new.path(), |_| true)).await.unwrap();
        if step == Step::Work {
            store.append(batch).await.unwrap();
        }
        store.close().await;
    });
}

fn read_store(folder: &Path, step: Step) {
    let metrics: BTreeSet<String> = series(folder).iter().map(|one| one.labels.metric().to_owned()).collect();
    let all = Selection { metrics: metrics.into_iter().collect(), labels: Vec::new(), range: i64::MIN..i64::MAX };
    runtime().block_on(async {
        let store = Store::open(Options::new(filled(folder), |_| true)).await.unwrap();
        // Several, for opening the store does not take the same each time.
        for _ in 0..if step == Step::Work { 30 } else { 0 } {
            assert!(!black_box(store.select(&all).await.unwrap()).is_empty());
        }
        store.close().await;
    });
}
