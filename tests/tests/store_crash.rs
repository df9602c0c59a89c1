//! `kill -9` and SIGTERM of the analyzer at random instants under remote-write load, while it flushes, merges and removes:
//! every acknowledged sample is there exactly once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test, in helpers too")]

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;

use goodput_lab::process::until;
use goodput_store::wall_clock;
use goodput_tests::numbered::Load;
use goodput_tests::programs::Analyzer;

/// A head so small that the kills also hit flushes, and the merges and removals that follow them.
const CONFIGS: [&str; 2] = ["store: {head_bytes: 8192}\n", "store: {head_bytes: 8192, retention: 1d}\n"];

/// How long a round of judging, or a merge after it, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// 20, unless `GOODPUT_KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("GOODPUT_KILLS").map_or(20, |kills| kills.parse().unwrap())
}

#[test]
fn what_is_acknowledged_survives_kill_9_exactly_once() {
    for config in CONFIGS {
        interrupted(config, kills() / 2, |analyzer| analyzer.running.kill().unwrap());
    }
}

#[test]
fn what_is_acknowledged_survives_sigterm_exactly_once() {
    interrupted(CONFIGS[0], 4, |analyzer| assert!(analyzer.running.terminate().unwrap().success()));
}

fn interrupted(config: &str, times: usize, interrupt: impl Fn(Analyzer)) {
    let dir = tempfile::tempdir().unwrap();
    let load = Load::default();
    let (mut last, mut merges) = (None, 0.0);
    thread::scope(|scope| {
        let _stop = load.start(scope);
        for time in 0..=times {
            // A busy machine may not have come to a merge between two interruptions: then one more life waits for one.
            let is_last = time == times;
            if is_last && merges > 0.0 {
                break;
            }
            let analyzer = Analyzer::start_with(dir.path(), config).unwrap();
            // Segments of earlier lives are merged once they are judged. That takes a round, which not every life has.
            if is_last || time % 3 == 1 {
                until("all hours to be judged", PATIENCE, || Ok(is_judged(&analyzer)?.then_some(()))).unwrap();
            }
            load.connect(analyzer.address);
            load.wait_for_acks(60 + random(60)).unwrap();
            if is_last {
                load.disconnect();
                until("a merge", PATIENCE, || Ok((merged(&analyzer)? > 0.0).then_some(()))).unwrap();
            }
            merges += merged(&analyzer).unwrap();
            // A random instant is the point of the test.
            thread::sleep(Duration::from_micros(random(20_000)));
            let data = analyzer.data.clone();
            interrupt(analyzer);
            load.disconnect();
            let stats = load.check(&data).unwrap_or_else(|error| panic!("interruption {time}, {config}: {error:#}"));
            assert_eq!(stats.quarantined, 0);
            last = Some(stats);
        }
    });
    let last = last.unwrap();
    assert!(last.segments > 0 && merges > 0.0, "no flush or no merge in {times} rounds: the test does not test it");
    assert!(!config.contains("retention") || last.raw_from.is_some(), "nothing was removed");
}

/// Merges of this life.
fn merged(analyzer: &Analyzer) -> anyhow::Result<f64> {
    Ok(analyzer.metric("goodput_analyzer_store_merges_total")?.unwrap_or_default())
}

/// Has the first round come to the present?
fn is_judged(analyzer: &Analyzer) -> anyhow::Result<bool> {
    let until = analyzer.metric("goodput_analyzer_judged_timestamp_seconds")?.unwrap_or(0.0);
    Ok(until > wall_clock() as f64 / 1000.0 - 300.0)
}

/// Anything below the bound.
fn random(bound: u64) -> u64 {
    RandomState::new().hash_one(0) % bound
}
