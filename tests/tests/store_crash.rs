//! `kill -9` of the analyzer at random instants under remote-write load: every acknowledged sample is there exactly
//! once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test, in helpers too")]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use goodput_analyzer::store::{Options, Samples, Selection, Stats, Store, wall_clock};
use goodput_tests::programs::Analyzer;
use goodput_tests::remote_write::{TimeSeries, send};

const SENDERS: usize = 4;
const SERIES: usize = 10;
/// A metric that the analyzer keeps.
const METRIC: &str = "DCGM_FI_DEV_GPU_UTIL";
/// A head so small that the kills also hit flushes.
const CONFIG: &str = "store: {head_bytes: 24576}\n";

/// 20, unless `GOODPUT_CRASH_TEST_KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("GOODPUT_CRASH_TEST_KILLS").map_or(20, |kills| kills.parse().unwrap())
}

#[test]
fn what_is_acknowledged_survives_kill_9_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let load = Load { base_ms: wall_clock(), ..Load::default() };
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let load = &load;
            scope.spawn(move || load.send(sender));
        }
        // However the checks end, the senders must.
        let _stop = StopOnDrop(&load);
        for kill in 0..kills() {
            let analyzer = Analyzer::start_with(dir.path(), CONFIG).unwrap();
            load.connect(analyzer.address);
            load.wait_for_acks(random(40));
            // A random instant is the point of the test.
            thread::sleep(Duration::from_micros(random(20_000)));
            let data = analyzer.data.clone();
            analyzer.running.kill().unwrap();
            load.disconnect();
            check(&data, load.base_ms, &load.acked(), kill);
        }
    });
    let acked = load.acked();
    assert!(acked.iter().all(|requests| !requests.is_empty()), "a sender got nothing through: {acked:?}");
}

/// Opens the store that was killed, and compares it with what has been acknowledged.
fn check(dir: &Path, base_ms: i64, acked: &[Vec<u32>], kill: usize) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = Store::open(Options::new(dir, |_| true)).await.unwrap();
        let everything = Selection { range: i64::MIN..i64::MAX, ..Selection::default() };
        let mut found: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        for series in store.select(&everything).await.unwrap() {
            let label = |name| series.labels.get(name).unwrap().parse::<usize>().unwrap();
            let (sender, number) = (label("sender"), label("series"));
            let requests = series.samples.iter().map(|sample| {
                let request = u32::try_from(sample.time_ms - base_ms).unwrap();
                assert_eq!(sample.value, value(sender, number, request), "kill {kill}: a changed value");
                request
            });
            found.insert((sender, number), requests.collect());
        }
        for (sender, acked) in acked.iter().enumerate() {
            for number in 0..SERIES {
                let found = found.get(&(sender, number)).map_or(&[][..], Vec::as_slice);
                assert!(found.is_sorted_by(|a, b| a < b), "kill {kill}: a sample twice or out of order");
                // A sender has one request under way, so at most one more than it knows of is there.
                assert!(
                    found == acked || found.split_last().is_some_and(|(_, before)| before == acked),
                    "kill {kill}, sender {sender}, series {number}: acknowledged {acked:?}, found {found:?}"
                );
            }
        }
        let Stats { segments, quarantined, .. } = store.stats();
        assert_eq!(quarantined, 0);
        assert!(kill < 10 || segments > 0, "no flush in {kill} rounds: the test does not test it");
        store.close().await;
    });
}

fn value(sender: usize, series: usize, request: u32) -> f64 {
    f64::from(request) + sender as f64 / 10.0 + series as f64 / 1000.0
}

/// Anything below the bound.
fn random(bound: u64) -> u64 {
    RandomState::new().hash_one(0) % bound
}

struct StopOnDrop<'a>(&'a Load);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

/// Senders that number their requests, repeat each until it is acknowledged, and remember what was.
#[derive(Default)]
struct Load {
    /// Time of request 0.
    base_ms: i64,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    address: Option<SocketAddr>,
    /// Per sender: the acknowledged requests.
    acked: [Vec<u32>; SENDERS],
    acks_since_connect: u64,
}

impl Load {
    fn connect(&self, address: SocketAddr) {
        let mut state = self.state.lock().unwrap();
        state.address = Some(address);
        state.acks_since_connect = 0;
        self.changed.notify_all();
    }

    fn disconnect(&self) {
        self.state.lock().unwrap().address = None;
    }

    fn wait_for_acks(&self, acks: u64) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.acks_since_connect < acks).unwrap());
    }

    fn acked(&self) -> Vec<Vec<u32>> {
        self.state.lock().unwrap().acked.to_vec()
    }

    /// Waits until there is a receiver; none when the test is over.
    fn address(&self) -> Option<SocketAddr> {
        let state = self.state.lock().unwrap();
        let waiting = |state: &mut State| state.address.is_none() && !self.stop.load(Ordering::SeqCst);
        let state = self.changed.wait_while(state, waiting).unwrap();
        state.address.filter(|_| !self.stop.load(Ordering::SeqCst))
    }

    fn send(&self, sender: usize) {
        let mut request = 0;
        while let Some(address) = self.address() {
            // Every third one brings the one before again, as a sender does that has missed an answer.
            let requests = if request % 3 == 2 { request - 1..=request } else { request..=request };
            if matches!(send(address, load(self.base_ms, sender, requests)), Ok(204)) {
                let mut state = self.state.lock().unwrap();
                state.acked[sender].push(request);
                state.acks_since_connect += 1;
                self.changed.notify_all();
                request += 1;
            }
        }
    }
}

fn load(base_ms: i64, sender: usize, requests: std::ops::RangeInclusive<u32>) -> Vec<TimeSeries> {
    let series = |series: usize| {
        let (uuid, names) = (format!("GPU-{sender}-{series}"), [sender.to_string(), series.to_string()]);
        let labels = [("UUID", uuid.as_str()), ("__name__", METRIC), ("sender", &names[0]), ("series", &names[1])];
        TimeSeries::new(&labels, requests.clone().map(|n| (base_ms + i64::from(n), value(sender, series, n))))
    };
    (0..SERIES).map(series).collect()
}
