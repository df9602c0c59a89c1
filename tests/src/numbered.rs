//! Numbered samples: senders that repeat each request until it is acknowledged and remember what was, and a look into the
//! store for whether all of it is there exactly once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use goodput_store::{Options, Samples as _, Selection, Stats, Store, wall_clock};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use goodput_lab::remote_write::{TimeSeries, send};

/// How many send.
pub const SENDERS: usize = 4;
const SERIES: usize = 10;
/// A metric that the analyzer keeps.
const METRIC: &str = goodput_catalog::dcgm::GPU_UTIL.legacy.name;
/// From one request's samples to the next one's: some hundred requests are days, and the six hours that segments are merged
/// by are several small ones.
const STEP_MS: i64 = 15 * 60_000;
/// Where the samples begin: so long ago that none lies in the future.
const AGO_MS: i64 = 3 * 365 * 24 * 3_600_000;

/// The senders' account.
pub struct Load {
    /// Time of request 0.
    base_ms: i64,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    address: Option<SocketAddr>,
    /// Per sender: how many requests have been acknowledged. They are sent in order.
    acked: [u32; SENDERS],
    acks: u64,
    refusals: u64,
}

/// Ends the senders, however the test ends.
pub struct StopOnDrop<'a>(&'a Load);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

impl Default for Load {
    fn default() -> Self {
        let base_ms = (wall_clock() - AGO_MS).div_euclid(STEP_MS) * STEP_MS;
        Self { base_ms, state: Mutex::default(), changed: Condvar::new(), stop: AtomicBool::new(false) }
    }
}

impl Load {
    /// Starts the senders; they send while they are connected.
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> StopOnDrop<'scope> {
        for sender in 0..SENDERS {
            scope.spawn(move || self.send(sender));
        }
        StopOnDrop(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a receiver at this address.
    pub fn connect(&self, address: SocketAddr) {
        self.state().address = Some(address);
        self.changed.notify_all();
    }

    /// There is none.
    pub fn disconnect(&self) {
        self.state().address = None;
    }

    /// Waits until this many more requests have been acknowledged.
    pub fn wait_for_acks(&self, more: u64) -> Result<()> {
        self.wait_for("acknowledgements", more, |state| state.acks)
    }

    /// Waits until this many more requests have been refused.
    pub fn wait_for_refusals(&self, more: u64) -> Result<()> {
        self.wait_for("refusals", more, |state| state.refusals)
    }

    fn wait_for(&self, what: &str, more: u64, count: impl Fn(&State) -> u64) -> Result<()> {
        let state = self.state();
        let enough = count(&state) + more;
        let waiting = |state: &mut State| count(state) < enough;
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(120), waiting)
            .unwrap_or_else(PoisonError::into_inner);
        ensure!(!timeout.timed_out(), "waited two minutes for {more} more {what}; there are {}", count(&state));
        Ok(())
    }

    /// Waits until there is a receiver; none when the test is over.
    fn address(&self) -> Option<SocketAddr> {
        let waiting = |state: &mut State| state.address.is_none() && !self.stop.load(Ordering::SeqCst);
        let state = self.changed.wait_while(self.state(), waiting).unwrap_or_else(PoisonError::into_inner);
        state.address.filter(|_| !self.stop.load(Ordering::SeqCst))
    }

    fn send(&self, sender: usize) {
        let mut request = 0;
        while let Some(address) = self.address() {
            // Every third one brings the one before again, as a sender does that has missed an answer.
            let requests = if request % 3 == 2 { request - 1..=request } else { request..=request };
            let answer = send(address, self.series(sender, requests));
            let mut state = self.state();
            match answer {
                Ok(204) => {
                    request += 1;
                    state.acked[sender] = request;
                    state.acks += 1;
                }
                Ok(_) => state.refusals += 1,
                Err(_) => {}
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn series(&self, sender: usize, requests: std::ops::RangeInclusive<u32>) -> Vec<TimeSeries> {
        let series = |series: usize| {
            let (uuid, names) = (format!("GPU-{sender}-{series}"), [sender.to_string(), series.to_string()]);
            let labels = [("UUID", uuid.as_str()), ("__name__", METRIC), ("sender", &names[0]), ("series", &names[1])];
            let at = |request: u32| (self.base_ms + i64::from(request) * STEP_MS, value(sender, series, request));
            TimeSeries::new(&labels, requests.clone().map(at))
        };
        (0..SERIES).map(series).collect()
    }

    /// Opens the store, which no process has open now, and compares it with what has been acknowledged: every sample is
    /// there once, except those that retention has removed and those of segments that were set aside.
    ///
    /// # Errors
    /// What is missing, double or changed.
    pub fn check(&self, data: &Path) -> Result<Stats> {
        let acked = self.state().acked;
        let (found, stats) = tokio::runtime::Runtime::new()?.block_on(self.read(data))?;
        let raw_from = stats.raw_from.unwrap_or(i64::MIN);
        for (sender, acked) in acked.into_iter().enumerate() {
            for number in 0..SERIES {
                let found = found.get(&(sender, number)).map_or(&[][..], Vec::as_slice);
                let whose = format!("sender {sender}, series {number}: {acked} acknowledged, found {found:?}");
                ensure!(found.is_sorted_by(|a, b| a < b), "a sample twice or out of order; {whose}");
                // A sender has one request under way, so at most one more than it knows of is there.
                ensure!(found.last().is_none_or(|last| *last <= acked), "a sample that was never sent; {whose}");
                let kept = |request: &u32| self.base_ms + i64::from(*request) * STEP_MS >= raw_from;
                let missing = (0..acked).filter(kept).find(|request| found.binary_search(request).is_err());
                ensure!(missing.is_none() || stats.quarantined > 0, "{missing:?} is missing; {whose}");
            }
        }
        Ok(stats)
    }

    async fn read(&self, data: &Path) -> Result<(BTreeMap<(usize, usize), Vec<u32>>, Stats)> {
        let store = Store::open(Options::new(data, |_| true)).await?;
        let everything = Selection { range: i64::MIN..i64::MAX, ..Selection::default() };
        let mut found = BTreeMap::new();
        for series in store.select(&everything).await? {
            let label =
                |name| series.labels.get(name).context("a label is missing")?.parse::<usize>().context("a label");
            let (sender, number) = (label("sender")?, label("series")?);
            let mut requests = Vec::with_capacity(series.samples.len());
            for sample in &series.samples {
                let request = u32::try_from((sample.time_ms - self.base_ms) / STEP_MS)?;
                ensure!(sample.value == value(sender, number, request), "request {request}: a changed value");
                requests.push(request);
            }
            found.insert((sender, number), requests);
        }
        let stats = store.stats();
        store.close().await;
        Ok((found, stats))
    }
}

fn value(sender: usize, series: usize, request: u32) -> f64 {
    f64::from(request) + sender as f64 / 10.0 + series as f64 / 1000.0
}
