//! The own scraper: targets that are configured or discovered, labelled and marked stale as Prometheus does it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use goodput_exposition::{Format, excerpt};
use goodput_web::without_query;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::sync::{Notify, oneshot};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep, timeout};
use tracing::{error, info, warn};

mod body;
mod error;
mod limits;

pub use body::{BodyError, Seen, UP, failed, succeeded};
pub use error::ScrapeError;
pub use limits::JobLimits;

use super::Limits;
use super::access::{Access, Clients};
use super::discover::Listed;
use super::job::{Discovery, InstanceFrom, Job};
use super::skipped::Rules;
use super::tally::Tally;
use goodput_exposition::sample::{Batch, STALE_BITS, ScrapeJob, TimeMs};
use goodput_store::{Ingest, wall_clock};

/// OpenMetrics is asked for first: it has an end marker, so that a cut body is noticed.
const ACCEPTED: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Bytes of an answer that is not read on a thread of the runtime.
const LARGE: usize = 1 << 20;

/// Does the store keep metrics of this name?
type Keeps = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Something to scrape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Where the metrics are, e.g. `http://node1:9400/metrics`.
    pub url: String,
    /// The labels that its series get, `job` and `instance` among them.
    pub labels: Vec<(String, String)>,
    /// From one scrape to the next.
    pub interval: Duration,
    /// How long a scrape may take.
    pub timeout: Duration,
    /// What its label `instance` says.
    pub instance_from: InstanceFrom,
    /// Active series that all targets of its job together may have; `None`: as many as one sender.
    pub max_series: Option<usize>,
    /// Its job's limits of a scrape.
    pub limits: JobLimits,
    /// TLS and credentials.
    pub access: Arc<Access>,
}

impl Target {
    /// The target `http://{address}/metrics` with `job` and `instance`, every 15 s with a time-out of 10 s.
    #[must_use]
    pub fn new(job: &str, address: &str) -> Self {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Self {
            url: format!("http://{address}/metrics"),
            labels: vec![label("job", job), label("instance", address)],
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            instance_from: InstanceFrom::default(),
            max_series: None,
            limits: JobLimits::default(),
            access: Arc::default(),
        }
    }

    /// Its address without parameters, which may hold a secret: for logs and errors.
    fn shown(&self) -> &str {
        without_query(&self.url)
    }

    /// Takes the name of the node, if the answer tells it and the job wants it, as label `instance`.
    fn settle_instance(&mut self, body: &[u8], limits: &Limits) {
        if self.instance_from == InstanceFrom::Nodename
            && let Some(name) = body::nodename(body, limits)
            && let Some((_, instance)) = self.labels.iter_mut().find(|(label, _)| label == "instance")
        {
            *instance = name;
        }
    }

    fn job(&self) -> &str {
        self.labels.iter().find(|(name, _)| name == "job").map_or("", |(_, job)| job)
    }
}

/// Scrapes over HTTP.
#[derive(Clone, Debug)]
pub struct Scraper {
    clients: Clients,
    limits: Limits,
    tally: Arc<Tally>,
}

impl Scraper {
    /// Bounds what a target may answer.
    #[must_use]
    pub fn new(limits: Limits, tally: Arc<Tally>) -> Self {
        Self { clients: Clients::default(), limits, tally }
    }

    /// One scrape, with `up`; an error when it fails.
    pub async fn scrape_once(&self, target: &Target) -> Result<Batch, ScrapeError> {
        let keeps: Keeps = Arc::new(|_: &str| true);
        self.scrape(&mut target.clone(), wall_clock(), &mut Seen::default(), &keeps).await
    }

    /// Also sets the target's `instance`, where its answer says it.
    async fn scrape(
        &self,
        target: &mut Target,
        time_ms: TimeMs,
        seen: &mut Seen,
        keeps: &Keeps,
    ) -> Result<Batch, ScrapeError> {
        let late = |_| ScrapeError::Timeout { url: target.shown().to_owned(), limit: target.timeout };
        let (body, format) = timeout(target.timeout, self.fetch(target)).await.map_err(late)??;
        target.settle_instance(&body, &self.limits);
        let target = &*target;
        let read = if body.len() > LARGE {
            // Megabytes of text would hold up everything else on this thread.
            let (target, keeps, limits) = (target.clone(), Arc::clone(keeps), self.limits);
            let mut own = mem::take(seen);
            let reading = tokio::task::spawn_blocking(move || {
                let rules = Rules { limits: &limits, keeps: keeps.as_ref() };
                (succeeded(&body, format, &rules, &target, time_ms, &mut own), own)
            });
            let (read, own) = reading.await.unwrap_or_else(|error| resume_unwind(error.into_panic()));
            *seen = own;
            read
        } else {
            let rules = Rules { limits: &self.limits, keeps: keeps.as_ref() };
            succeeded(&body, format, &rules, target, time_ms, seen)
        };
        let url = || target.shown().to_owned();
        let (batch, skipped) = read.map_err(|error| match error {
            BodyError::Text(error) => ScrapeError::Text { url: url(), error },
            BodyError::Limit(reason) => ScrapeError::Limit { url: url(), reason },
        })?;
        self.tally.skipped(&skipped, target.shown());
        Ok(batch)
    }

    async fn fetch(&self, target: &Target) -> Result<(Vec<u8>, Format), ScrapeError> {
        let url = || target.shown().to_owned();
        let http = |error: reqwest::Error| ScrapeError::Http { url: url(), error: error.without_url() };
        let request = self.clients.get(&target.access, &target.url);
        let request = request
            .map_err(|reason| ScrapeError::Access { url: url(), reason })?
            .header(ACCEPT, ACCEPTED)
            .header("X-Prometheus-Scrape-Timeout-Seconds", target.timeout.as_secs_f64().to_string());
        let mut response = request.send().await.map_err(http)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(ScrapeError::Status { url: url(), status: response.status().as_u16() });
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let format = Format::of(content_type);
        let mut body = Vec::new();
        let limit = target.limits.body_size_limit.unwrap_or(usize::MAX).min(self.limits.decompressed_bytes);
        while let Some(chunk) = response.chunk().await.map_err(http)? {
            if body.len() + chunk.len() > limit {
                return Err(ScrapeError::TooLarge { url: url(), limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok((body, format))
    }

    /// Scrapes the targets of the jobs until the set is dropped or shut down.
    pub fn run<S: Ingest + 'static>(&self, jobs: Vec<Job>, store: &Arc<S>) -> JoinSet<()> {
        jobs.into_iter().map(|job| self.clone().keep_up(Arc::new(job), Arc::clone(store))).collect()
    }

    /// Scrapes the targets that the job has at a time. A task that panics is started again after an interval.
    async fn keep_up<S: Ingest + 'static>(self, job: Arc<Job>, store: Arc<S>) {
        let (lists, mut tasks) = (Arc::new(Lists::new(&job)), JoinSet::new());
        let mut discoveries = HashMap::new();
        for n in 0..job.discoveries.len() {
            discoveries.insert(tasks.spawn(self.clone().discover(Arc::clone(&job), n, Arc::clone(&lists))).id(), n);
        }
        let mut running: HashMap<Target, (Id, oneshot::Sender<()>)> = HashMap::new();
        let mut died: HashSet<Target> = HashSet::new();
        loop {
            let wanted = lists.targets();
            lists.note_count(&job, wanted.len());
            // A target whose sender is dropped ends itself.
            running.retain(|target, _| wanted.contains(target));
            for target in wanted {
                let Entry::Vacant(place) = running.entry(target.clone()) else { continue };
                let (end, ended) = oneshot::channel();
                let pause = if died.remove(&target) { target.interval } else { Duration::ZERO };
                let (scraper, store, lists) = (self.clone(), Arc::clone(&store), Arc::clone(&lists));
                let task = tasks.spawn(async move { scraper.follow(&target, pause, ended, &lists, &store).await });
                place.insert((task.id(), end));
            }
            self.tally.targets(&job.name, running.len());
            tokio::select! {
                () = lists.changed.notified() => {}
                // Tasks end when their target is gone, or by a panic that the others outlive.
                Some(ended) = tasks.join_next_with_id() => {
                    let Err(error) = ended else { continue };
                    if let Some(n) = discoveries.remove(&error.id()) {
                        let way = job.discoveries.get(n).map_or("", Discovery::way);
                        error!(job = job.name, way, "a discovery panicked; it is started again");
                        self.tally.discovery(&job.name, way, 1);
                        let task = tasks.spawn(self.clone().discover_later(Arc::clone(&job), n, Arc::clone(&lists)));
                        discoveries.insert(task.id(), n);
                    }
                    if let Some((target, _)) = running.extract_if(|_, (id, _)| *id == error.id()).next() {
                        error!(job = job.name, url = target.shown(), "a scrape panicked; the target is started again");
                        self.tally.scrape(&job.name, "panicked");
                        died.insert(target);
                    }
                }
            }
        }
    }

    async fn discover_later(self, job: Arc<Job>, n: usize, lists: Arc<Lists>) {
        if let Some(discovery) = job.discoveries.get(n) {
            sleep(discovery.refresh()).await;
        }
        self.discover(job, n, lists).await;
    }

    /// Keeps one list of the job's up to date.
    async fn discover(self, job: Arc<Job>, n: usize, lists: Arc<Lists>) {
        let Some(discovery) = job.discoveries.get(n) else { return };
        let mut ticks = interval(discovery.refresh());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut listed, mut told) = (Listed::new(), Vec::new());
        loop {
            ticks.tick().await;
            let failures = listed.refresh(&job, discovery, &self.clients, &self.limits).await;
            self.tally.discovery(&job.name, discovery.way(), failures.len() as u64);
            for failure in failures.iter().filter(|failure| !told.contains(*failure)) {
                warn!(job = job.name, %failure, "targets of a discovery");
            }
            told = failures;
            lists.replace(n + 1, listed.targets().cloned().collect());
        }
    }

    /// Scrapes one target until it is gone.
    async fn follow<S: Ingest + 'static>(
        &self,
        target: &Target,
        pause: Duration,
        mut gone: oneshot::Receiver<()>,
        lists: &Lists,
        store: &Arc<S>,
    ) {
        let keeps: Keeps = {
            let store = Arc::clone(store);
            Arc::new(move |metric: &str| store.keeps(metric))
        };
        let mut ticks = interval_at(Instant::now() + pause + offset(target), target.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut seen, mut target) = (Seen::default(), target.clone());
        let mut was_up = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = &mut gone => break,
            }
            let time_ms = wall_clock();
            let before = target.clone();
            let scraped = match lists.too_many(&target) {
                Some(error) => Err(error),
                None => self.scrape(&mut target, time_ms, &mut seen, &keeps).await,
            };
            let is_up = scraped.is_ok();
            self.tally.scrape(target.job(), scraped.as_ref().err().map_or("taken", ScrapeError::outcome));
            let mut batch = scraped.unwrap_or_else(|error| {
                if was_up != Some(false) {
                    warn!(%error, "scrape failed");
                }
                failed(&target, time_ms, &mut seen)
            });
            if was_up.is_some() && before != target {
                body::up(&before, time_ms, f64::from_bits(STALE_BITS), &mut batch);
            }
            if is_up && was_up == Some(false) {
                info!(url = target.shown(), "scrape succeeds again");
            }
            was_up = Some(is_up);
            self.store(&target, batch, store.as_ref()).await;
        }
        if was_up.is_some() {
            let time_ms = wall_clock();
            let mut batch = body::ended(time_ms, &mut seen);
            body::up(&target, time_ms, f64::from_bits(STALE_BITS), &mut batch);
            self.store(&target, batch, store.as_ref()).await;
        }
    }

    async fn store<S: Ingest>(&self, target: &Target, batch: Batch, store: &S) {
        let job = ScrapeJob { name: target.job().into(), max_series: target.max_series };
        if let Err(error) = store.append(batch.sent_by(&target.url).scraped_for(job)).await {
            self.tally.scrape(target.job(), error.outcome());
            error!(url = target.shown(), %error, "scraped samples lost");
        }
    }
}

/// The lists of a job's targets: first those of the configuration, then one per discovery.
struct Lists {
    lists: Mutex<Vec<Vec<Target>>>,
    /// There are more targets than the job's `target_limit`.
    is_over: AtomicBool,
    changed: Notify,
}

impl Lists {
    fn new(job: &Job) -> Self {
        let fixed = job.targets.iter().filter_map(|address| {
            job.target(address, &[]).inspect_err(|reason| error!(job = job.name, reason, "target not scraped")).ok()
        });
        let mut lists = vec![fixed.collect()];
        lists.resize(1 + job.discoveries.len(), Vec::new());
        Self { lists: Mutex::new(lists), is_over: AtomicBool::new(false), changed: Notify::new() }
    }

    fn targets(&self) -> HashSet<Target> {
        self.lists.lock().iter().flatten().cloned().collect()
    }

    /// Compares the number of targets with the job's limit, and says when it begins or ends to be too many.
    fn note_count(&self, job: &Job, targets: usize) {
        let limit = job.limits.target_limit;
        let is_over = limit.is_some_and(|limit| targets > limit);
        if self.is_over.swap(is_over, Ordering::Relaxed) != is_over {
            if is_over {
                error!(job = job.name, targets, limit, "more targets than target_limit: none is scraped");
            } else {
                info!(job = job.name, targets, limit, "no more targets than target_limit: they are scraped again");
            }
        }
    }

    /// Why the target is not scraped.
    fn too_many(&self, target: &Target) -> Option<ScrapeError> {
        let limit = target.limits.target_limit.filter(|_| self.is_over.load(Ordering::Relaxed))?;
        let reason = format!("not scraped: its job has more than {limit} targets (target_limit)");
        Some(ScrapeError::Limit { url: target.shown().to_owned(), reason })
    }

    fn replace(&self, n: usize, targets: Vec<Target>) {
        if let Some(list) = self.lists.lock().get_mut(n).filter(|list| **list != targets) {
            *list = targets;
            self.changed.notify_one();
        }
    }
}

/// When within the interval a target is scraped: always the same for one target, and spread over many.
fn offset(target: &Target) -> Duration {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((&target.url, &target.labels));
    target.interval.mul_f64(hash as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_spread_over_the_interval() {
        let offsets: HashSet<_> = (0..100)
            .map(|n| offset(&Target::new("gpu", &format!("node{n}:9400"))))
            .inspect(|offset| assert!(*offset <= Target::new("gpu", "node1:9400").interval))
            .map(|offset| offset.as_secs())
            .collect();
        assert!(offsets.len() > 10);
        let same = || Target::new("gpu", "node1:9400");
        assert_eq!(offset(&same()), offset(&same()));
    }
}
