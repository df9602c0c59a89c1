//! What a sample of a known series costs in allocations on its way in: none of its own.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]

use std::fmt::Write as _;

use allocation_counter::measure;
use goodput_analyzer::ingest::remote_write::{Message, decode};
use goodput_analyzer::ingest::scrape::{Seen, Target, succeeded};
use goodput_analyzer::ingest::{Limits, Rules};
use goodput_exposition::Format;
use goodput_lab::remote_write::{TimeSeries, WriteRequest};

const SERIES: u64 = 4000;

/// A delivery has memory of its own, which grows by doubling; an allocation for each series would be ten times as many.
const OF_THE_WHOLE: u64 = SERIES / 10;

fn exposition() -> String {
    let mut body = String::new();
    for n in 0..SERIES {
        writeln!(body, "m{{gpu=\"{}\",UUID=\"GPU-{n}\",kind=\"k\"}} {n}.5", n % 8).unwrap();
    }
    body
}

#[test]
fn a_scrape_of_known_series() {
    let body = exposition();
    let (target, limits, mut seen) = (Target::new("gpu", "node1:9400"), Limits::default(), Seen::default());
    let mut scrape = |time_ms| {
        let mut series = 0;
        let taken = measure(|| {
            let rules = Rules::of_all(&limits);
            series = succeeded(&body, Format::Text, &rules, &target, time_ms, &mut seen).unwrap().0.len();
        });
        // And `up`.
        assert_eq!(series as u64, SERIES + 1);
        taken.count_total
    };
    assert!(scrape(0) >= SERIES, "the counter counts");
    let again = scrape(15_000);
    assert!(again < OF_THE_WHOLE, "{again} allocations");
}

#[test]
fn a_remote_write_request() {
    let gpu = |n: u64| TimeSeries::new(&[("__name__", "m"), ("UUID", &format!("GPU-{n}"))], [(1, 0.5), (2, 0.5)]);
    let body = WriteRequest { timeseries: (0..SERIES).map(gpu).collect() }.body().unwrap();
    let limits = Limits::default();
    let taken = measure(|| {
        let decoded = decode(&body, Message::V1, &Rules::of_all(&limits)).unwrap();
        assert_eq!(decoded.batch.sample_count() as u64, 2 * SERIES);
    });
    assert!(taken.count_total < OF_THE_WHOLE, "{} allocations", taken.count_total);
}
