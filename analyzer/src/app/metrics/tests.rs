//! The whole page, of an analyzer that has everything to say and of one that has just started.

use std::collections::BTreeMap;
use std::time::Duration;

use goodput_catalog::analyzer::all;
use goodput_rules::classify::{Demand, DemandState};
use goodput_store::{Appended, Options, Upkeep};
use goodput_testing::{interval, risk};
use goodput_verdict::{
    Achieved, Class, Counted, Energy, HOUR_MS, Histogram, Interval, Kind, Latency, Prospect, Served,
};
use goodput_web::Refusals;

use super::*;
use crate::app::deliveries::Outcomes;
use crate::ingest::Limits;
use crate::ingest::remote_write::PassedOver;
use crate::ingest::tally::Counts;
use crate::report::Price;
use crate::report::serving::{ServingTerms, Slo};

/// What the page is made from.
#[derive(Default)]
struct State {
    progress: Progress,
    terms: Terms,
    account: Account,
    tally: Deliveries,
    counts: Counts,
    stats: Stats,
    reads: ReadCounts,
}

impl State {
    fn page(&self) -> Page {
        let (limits, refusals, reads) = (Limits::default(), Refusals::default(), ReadLimits::default());
        let ways_in = WaysIn { limits: &limits, counts: &self.counts, refusals: &refusals };
        whole((&self.progress, &self.terms), &self.account, &self.tally, &ways_in, (&reads, self.reads), &self.stats)
    }

    /// Everything that can be shown.
    fn full() -> Self {
        let reads = ReadCounts { in_work: 3, refused: 4 };
        Self {
            progress: progress(),
            terms: terms(),
            account: account(),
            tally: tally(),
            counts: counts(),
            stats: stats(),
            reads,
        }
    }
}

fn progress() -> Progress {
    let prospects = Kind::all().map(|kind| with_all_limits(risk("a", 1, kind).last));
    Progress {
        judged_until_ms: Some(1_795_237_185_500),
        last_hour: vec![held("a", Class::IdleHeld), interval("b", 1, Class::Productive), serving_interval()],
        last_served: vec![served("slurm-7"), served("slurm-8")],
        last_minutes: vec![interval("a", 1, Class::Productive), interval("a", 2, Class::Unallocated)],
        demand: vec![Demand { cluster: None, model: "any".to_owned(), state: DemandState::Short, gpus: 8.5 }],
        prospects: prospects.collect(),
        dropped_gpus: 1,
        took: Duration::from_millis(1250),
        failures: 2,
        failed_nodes: BTreeMap::from([(("east".to_owned(), "c".to_owned()), "x".to_owned())]),
        ..Progress::default()
    }
}

fn held(node: &str, class: Class) -> Interval {
    let (owner, account) = (Some("slurm-7".to_owned()), Some("vision".to_owned()));
    Interval { owner, account, energy: Some(DRAWN), ..interval(node, 1, class) }
}

/// 300 W for an hour.
const DRAWN: Energy = Energy { mj: 300 * HOUR_MS, ms: HOUR_MS, counted_ms: HOUR_MS };

/// The time of another server.
fn serving_interval() -> Interval {
    let (owner, gpu) = (Some("slurm-8".to_owned()), "GPU-2".to_owned());
    Interval { owner, gpu, energy: Some(DRAWN), ..interval("a", 1, Class::Productive) }
}

/// A replica that answered 9 of 10 requests within a second, and needed a fifth of itself.
fn served(owner: &str) -> Achieved {
    let kinds = [Served::Requests, Served::PromptTokens, Served::GenerationTokens];
    let histogram = Histogram::of_cumulative(vec![(1.0, 9.0), (f64::INFINITY, 10.0)]);
    let served = Counted {
        amounts: kinds
            .into_iter()
            .zip([10.0, 7200.0, 3600.0])
            .map(|(kind, n)| (kind, (n, "x_total".to_owned())))
            .collect(),
        latencies: histogram.map(|told| (Latency::EndToEnd, told)).into_iter().collect(),
        demand: vec![Some(0.2)],
    };
    Achieved {
        cluster: None,
        metric: "x_total".to_owned(),
        unit: "tokens".to_owned(),
        start_ms: HOUR_MS,
        end_ms: 2 * HOUR_MS,
        owner: Some(owner.to_owned()),
        subject: owner.to_owned(),
        amount: 3600.0,
        covered_ms: HOUR_MS,
        ideal: None,
        served: Some(served),
        model: Some("llama".to_owned()),
    }
}

/// One price, of node a, and a limit.
fn terms() -> Terms {
    let price = Price {
        model: "*H100*".to_owned(),
        node: Some("a".to_owned()),
        cluster: None,
        currency: "EUR".to_owned(),
        micros_per_gpu_hour: 2_480_000,
        electricity: None,
        valid_from: jiff::civil::Date::ZERO,
        valid_from_ms: 0,
    };
    let slo = Slo { model: "*".to_owned(), limits: [(Latency::EndToEnd, 1.0)].into(), at: 0.99 };
    let serving = ServingTerms { slo: vec![slo], min_replicas: vec![("*".to_owned(), 1)] };
    Terms { prices: [price].into(), serving: serving.into(), ..Terms::default() }
}

/// Every time is known.
fn with_all_limits(mut prospect: Prospect) -> Prospect {
    if let goodput_verdict::Forecast::Exhaustion(exhaustion) = &mut prospect.forecast
        && let Some(limit) = &mut exhaustion.at_risk
    {
        limit.latest_seconds = Some(1800.0);
    }
    prospect
}

fn account() -> Account {
    let samples = Appended { stored: 1, duplicate: 2, conflicting: 3, out_of_bounds: 4, unknown: 5, over_limit: 6 };
    let last_sample = BTreeMap::from([("a:9400".to_owned(), 1_795_237_185_000), ("a \"b\"\\\n".to_owned(), 0)]);
    Account { last_sample, samples, earliest: None }
}

fn tally() -> Deliveries {
    let directory = Outcomes { delivered: 1, last_success_ms: Some(1_795_237_000_000), ..Outcomes::default() };
    let webhook = Outcomes { failed: 2, refused: 3, overdue: true, ..Outcomes::default() };
    let people = Outcomes { delivered: 5, held: Some(7), ..Outcomes::default() };
    let destinations = BTreeMap::from([
        ("directory".to_owned(), directory),
        ("people".to_owned(), people),
        ("webhook".to_owned(), webhook),
    ]);
    Deliveries { destinations, restated: 1, ..Deliveries::default() }
}

fn counts() -> Counts {
    Counts {
        requests: BTreeMap::from([(("1.0", "taken"), 7), (("2.0", "busy"), 1)]),
        in_work: 2,
        event_requests: BTreeMap::from([("taken", 3)]),
        events: [5, 6],
        passed_over: PassedOver { histograms: 1, exemplars: 2, metadata: 3 },
        replicated: 8,
        skipped: BTreeMap::from([("label_bytes", 9)]),
        scrapes: BTreeMap::from([(("gpu".to_owned(), "taken"), 10)]),
        targets: BTreeMap::from([("gpu".to_owned(), 11)]),
        failed_discoveries: BTreeMap::from([(("gpu".to_owned(), "file"), 12)]),
    }
}

fn stats() -> Stats {
    Stats {
        appended: Appended::default(),
        series: 1,
        catalogue_series: 2,
        label_bytes: 3,
        evicted_series: 4,
        queue_bytes: 5,
        free_bytes: Some(6),
        short_of_space: true,
        head_bytes: 7,
        write_ahead_bytes: 8,
        segments: 9,
        segment_bytes: 10,
        quarantined: 11,
        unknown_files: 12,
        read_errors: 13,
        missing_samples: 14,
        bad_rows: 15,
        last_commit: Some(Duration::from_micros(1500)),
        failed_flushes: 16,
        clock_in_doubt: true,
        raw_from: Some(1_795_000_000_500),
        upkeep: Upkeep {
            merges: 17,
            merged_segments: 18,
            removed_segments: 19,
            removed_samples: 20,
            removed_bytes: 21,
            removed_verdicts: 22,
            removed_series: 23,
            failures: 24,
        },
        limits: Options {
            head_bytes: 25,
            queue_bytes: 26,
            max_series: 27,
            max_series_per_sender: Some(28),
            max_label_bytes: 29,
            max_gpus: 30,
            segment_bytes: 31,
            min_free_disk_space_bytes: 32,
            retention: Some(Duration::from_secs(33)),
            retention_bytes: Some(34),
            retention_results: Some(Duration::from_secs(35)),
            ..Options::default()
        },
    }
}

/// The page with the series of each family in order, whatever the version.
fn in_order(page: &str) -> String {
    let [version, revision, date, target] = BUILT;
    let built = format!("version=\"{version}\",revision=\"{revision}\",date=\"{date}\",target=\"{target}\"");
    let page = page.replace(&built, "version=\"1\"");
    let mut lines: Vec<&str> = page.lines().collect();
    for series in lines.split_mut(|line| line.starts_with('#')) {
        series.sort_unstable();
    }
    lines.join("\n") + "\n"
}

/// `UPDATE_GOLDEN=1` rewrites the page.
#[test]
fn the_page_is_the_golden_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/metrics.om");
    let page = in_order(&State::full().page().text().unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == page, "{path} differs; run this test with UPDATE_GOLDEN=1 where that is meant:\n{page}");
}

#[test]
fn an_analyzer_with_everything_to_say_shows_every_row_and_nothing_else() {
    let shown: BTreeSet<_> = State::full().page().sizes().into_keys().collect();
    let rows: BTreeSet<_> = all().map(|row| row.name).collect();
    assert_eq!(shown, rows, "shown on the left, rows of the catalog on the right");
}

#[test]
fn an_analyzer_that_just_started_shows_the_rows_that_are_always_there() {
    // The store fills this one in when it is opened.
    let limits = Options { max_series_per_sender: Some(1), ..Options::default() };
    let new = State { stats: Stats { limits, ..Stats::default() }, ..State::default() };
    let sizes = new.page().sizes();
    for row in all() {
        let from_the_start = row.series.split(',').next().and_then(|number| number.parse::<usize>().ok());
        assert_eq!(sizes.get(row.name).copied(), from_the_start, "{}: {}", row.name, row.series);
    }
}

/// Parts of an hour: an owner's is a share of the GPU's whole time, and time without an owner has no series.
#[test]
fn an_owner_has_its_part_of_the_hour() {
    let quarter = Interval { ms: 900_000, ..held("a", Class::Productive) };
    let rest = Interval { ms: 2_700_000, ..interval("a", 1, Class::Unallocated) };
    let progress = Progress { last_hour: vec![quarter, rest], ..Progress::default() };
    let page = State { progress, ..State::default() }.page();
    let series = r#"goodput_gpu_owner_class_ratio{account="vision",node="a",gpu="GPU-1",owner="slurm-7",class="productive"} 0.25"#;
    let text = page.text().unwrap();
    let found: Vec<_> = text.lines().filter(|line| line.starts_with("goodput_gpu_owner_class_ratio{")).collect();
    assert_eq!(found, [series]);
}

/// Two prices match a GPU whose model was unknown for a while: the one that knows it counts, and one alone.
#[test]
fn a_gpu_has_one_price() {
    let half = |model: Option<&str>, half: i64| Interval {
        model: model.map(str::to_owned),
        start_ms: HOUR_MS + half * HOUR_MS / 2,
        end_ms: HOUR_MS + (half + 1) * HOUR_MS / 2,
        ..interval("a", 1, Class::Productive)
    };
    let [named] = &*terms().prices else { unreachable!("one price") };
    let any = Price { model: "*".to_owned(), node: None, currency: "USD".to_owned(), ..named.clone() };
    let terms = Terms { prices: [any, named.clone()].into(), ..Terms::default() };
    for halves in [[Some("NVIDIA H100 80GB HBM3"), None], [None, Some("NVIDIA H100 80GB HBM3")]] {
        let last_hour = vec![half(halves[0], 0), half(halves[1], 1)];
        let progress = Progress { last_hour, ..Progress::default() };
        let text = State { progress, terms: terms.clone(), ..State::default() }.page().text().unwrap();
        let found: Vec<_> = text.lines().filter(|line| line.starts_with("goodput_gpu_hourly_cost{")).collect();
        assert_eq!(found, [r#"goodput_gpu_hourly_cost{node="a",gpu="GPU-1",currency="EUR"} 2.48"#]);
    }
}
