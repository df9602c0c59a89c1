//! Reads for pages and the API: a bounded number at once, on threads of their own, never on those that serve requests.
//! A report is built once and kept until its verdicts change.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedSemaphorePermit, Semaphore};

use super::owned::Owned;
use crate::config::ReadLimits;
use crate::ownership::Book;
use crate::report::{Period, Report, Terms, Wanted, stored_by_team, teams_in};
use crate::teams::Teams;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results, StoreError};

/// A request waits this long for a place.
const WAIT: Duration = Duration::from_secs(5);
/// In seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");
/// Reports that are kept: this week's and the last one's are what people look at.
const KEPT: usize = 2;

/// Places of reads, and the reports that are kept.
#[derive(Debug)]
pub struct Reads {
    limits: ReadLimits,
    requests: Arc<Semaphore>,
    reports: Semaphore,
    building: Turn<()>,
    kept: Mutex<VecDeque<Kept>>,
    owned: Owned,
    refused: AtomicU64,
    /// How long a request waits for a place.
    wait: Duration,
}

#[derive(Debug)]
struct Kept {
    of: Of,
    report: Arc<Report>,
}

/// What a report is of.
#[derive(Debug)]
struct Of {
    period: Period,
    version: u64,
    teams: Arc<Teams>,
    team: Option<String>,
}

impl Of {
    fn is(&self, other: &Self) -> bool {
        let is_same = is_same(&self.period, &other.period) && self.version == other.version;
        is_same && self.team == other.team && self.teams == other.teams
    }
}

/// Why there is no report.
#[derive(Debug)]
pub(crate) enum NoReport {
    /// Too many requests wait for reports.
    Busy(Busy),
    /// The store.
    Store(StoreError),
}

impl From<StoreError> for NoReport {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A limit of reads is reached; a later request may find a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} requests are in work, which is the limit reads.{name}; try again in some seconds")]
pub(crate) struct Busy {
    name: &'static str,
    limit: usize,
}

/// What `/metrics` shows of reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadCounts {
    pub(crate) in_work: u64,
    pub(crate) refused: u64,
}

impl Default for Reads {
    fn default() -> Self {
        Self::new(ReadLimits::default())
    }
}

impl Reads {
    /// With nothing in work.
    #[must_use]
    pub fn new(limits: ReadLimits) -> Self {
        Self {
            limits,
            requests: Arc::new(Semaphore::new(limits.requests)),
            reports: Semaphore::new(limits.reports),
            building: Turn::default(),
            kept: Mutex::default(),
            owned: Owned::default(),
            refused: AtomicU64::default(),
            wait: WAIT,
        }
    }

    pub(crate) fn limits(&self) -> &ReadLimits {
        &self.limits
    }

    pub(crate) fn counts(&self) -> ReadCounts {
        let free = self.requests.available_permits();
        let in_work = self.limits.requests.saturating_sub(free) as u64;
        ReadCounts { in_work, refused: self.refused.load(Ordering::Relaxed) }
    }

    fn busy(&self, name: &'static str, limit: usize) -> Busy {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Busy { name, limit }
    }

    /// A place among the requests in work, once there is one. It is kept as long as what is returned.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Busy> {
        match tokio::time::timeout(self.wait, Arc::clone(&self.requests).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(self.busy("requests", self.limits.requests)),
        }
    }

    /// The report of a period: the one that is kept, where nothing changed since.
    pub(crate) async fn report<S: Results>(
        &self,
        store: &S,
        period: Period,
        terms: &Terms,
    ) -> Result<Arc<Report>, NoReport> {
        self.report_of(store, period, terms, None).await
    }

    /// The same of one team, where one is named.
    pub(crate) async fn report_of<S: Results>(
        &self,
        store: &S,
        period: Period,
        terms: &Terms,
        team: Option<&str>,
    ) -> Result<Arc<Report>, NoReport> {
        let busy = |_| NoReport::Busy(self.busy("reports", self.limits.reports));
        let _place = self.reports.try_acquire().map_err(busy)?;
        let _turn = self.building.lock().await;
        // Before the verdicts are read: what changes meanwhile is read again by the next request.
        let version = store.version(&(period.previous().start_ms..period.end_ms));
        let teams = teams_in(store, &period, terms).await?;
        let of = Of { period: period.clone(), version, teams, team: team.map(str::to_owned) };
        if let Some(report) = self.kept(&of) {
            return Ok(report);
        }
        let wanted = Wanted { prices: &terms.prices, teams: &of.teams, team };
        let report = stored_by_team(store, period, wanted).await?;
        let report = Arc::new(report.with_terms(terms));
        let mut kept = self.kept.lock();
        kept.retain(|kept| !(is_same(&kept.of.period, &of.period) && kept.of.team == of.team));
        kept.push_back(Kept { of, report: Arc::clone(&report) });
        while kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(report)
    }

    /// The report of the last full week; where that has no verdicts, of the week that goes on.
    pub(crate) async fn newest_report<S: Results>(
        &self,
        store: &S,
        (now, zone): (TimeMs, &TimeZone),
        terms: &Terms,
    ) -> Result<Arc<Report>, NoReport> {
        let instant = Timestamp::from_millisecond(now).unwrap_or_default();
        let last = self.report(store, Period::last_week(instant, zone).as_of(now), terms).await?;
        match last.accounted {
            Some(_) => Ok(last),
            None => self.report(store, Period::this_week(instant, zone).as_of(now), terms).await,
        }
    }

    /// The same report with what is known by now of its findings beyond their figures.
    pub(crate) async fn owned<S: Results>(
        &self,
        store: &S,
        report: Arc<Report>,
        now: TimeMs,
    ) -> Result<Arc<Report>, NoReport> {
        Ok(self.owned.of(report, Book::read(store, now).await?, now))
    }

    fn kept(&self, of: &Of) -> Option<Arc<Report>> {
        let kept = self.kept.lock();
        let found = kept.iter().find(|kept| kept.of.is(of));
        found.map(|kept| Arc::clone(&kept.report))
    }
}

fn is_same(one: &Period, other: &Period) -> bool {
    let key = |period: &Period| (period.start_ms, period.end_ms, period.is_over);
    one.label == other.label && key(one) == key(other)
}

/// Says when to ask again.
pub(crate) fn later(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

#[cfg(test)]
impl Reads {
    /// For tests, in which requests wait for nothing.
    pub(crate) fn without_patience(limits: ReadLimits) -> Self {
        Self { wait: Duration::ZERO, ..Self::new(limits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::START;
    use crate::serve::tests::serve_within;
    use goodput_testing::interval;
    use goodput_verdict::{Class, HOUR_MS};

    fn week() -> Period {
        Period::iso_week("2026-W47", &TimeZone::UTC).unwrap()
    }

    #[tokio::test]
    async fn beyond_a_limit_a_read_is_put_off_and_what_reads_nothing_is_not() {
        let served = serve_within(ReadLimits { requests: 1, reports: 1, ..ReadLimits::default() }).await;
        let status = async |path: &str| {
            let response = served.request(path, None).await;
            let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), after)
        };
        let all = ["/", "/nodes/n1", "/report", "/api/v1/report", "/api/v1/intervals"];
        for path in all {
            assert!([200, 404].contains(&status(path).await.0), "{path}");
        }
        let place = Arc::clone(&served.reads.requests).acquire_owned().await.unwrap();
        for path in all {
            assert_eq!(status(path).await, (503, Some("5".to_owned())), "{path}");
        }
        for path in ["/state", "/api/v1/health", "/metrics", "/-/healthy"] {
            assert_eq!(status(path).await, (200, None), "{path}");
        }
        let metrics = served.get("/metrics").await.2;
        for line in [
            "goodput_analyzer_refused_reads_total 5",
            "goodput_analyzer_reads_in_work 1",
            "goodput_analyzer_read_limit{limit=\"requests\"} 1",
        ] {
            assert!(metrics.lines().any(|l| l == line), "{line} is not in {metrics}");
        }
        drop(place);
        let _report = served.reads.reports.acquire().await.unwrap();
        let busy: Vec<u16> =
            [status("/report").await, status("/api/v1/findings").await].map(|(status, _)| status).into();
        assert_eq!((busy, status("/").await.0), (vec![503, 503], 200));
    }

    #[tokio::test]
    async fn a_read_of_too_many_rows_says_so() {
        let served = serve_within(ReadLimits { max_rows: 1, ..ReadLimits::default() }).await;
        for path in ["/report?week=2026-W47", "/api/v1/report?week=2026-W47"] {
            let (status, _, text) = served.get(path).await;
            assert!(status == 422 && text.contains("reads.max_rows"), "{path}: {status}: {text}");
        }
    }

    #[tokio::test]
    async fn a_report_is_built_again_only_when_its_verdicts_change() {
        let served = serve_within(ReadLimits::default()).await;
        let (reads, store) = (Reads::default(), &served.store);
        let build = async || reads.report(store, week(), &Terms::default()).await.unwrap();
        let first = build().await;
        assert!(Arc::ptr_eq(&first, &build().await));
        let elsewhere = START - 21 * 24 * HOUR_MS;
        let far = interval("n9", elsewhere / HOUR_MS, Class::Productive);
        let window = far.start_ms..far.end_ms;
        store.replace("n9".into(), window, &[far]).await.unwrap();
        assert!(Arc::ptr_eq(&first, &build().await), "of another week");
        let near = interval("n9", START.div_euclid(HOUR_MS), Class::Productive);
        let window = near.start_ms..near.end_ms;
        store.replace("n9".into(), window, &[near]).await.unwrap();
        let second = build().await;
        assert!(!Arc::ptr_eq(&first, &second) && first != second);
    }
}
