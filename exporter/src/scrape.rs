//! One scrape: owners, then every collector behind its own deadline and panic boundary.
//!
//! One thread takes the scrapes in turn and asks one worker thread per source, one after another: so host files are
//! read on scrape, by one reader at a time. A result is used again for requests that come while it is made or shortly
//! after.

mod report;
mod worker;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::attribute::{self, Owners};
use crate::collect::{CollectError, Collector, Context, Dcgm, Done, Entry};
use crate::config::Config;
use crate::family::Families;
use crate::source::files::Roots;
use crate::source::nvml::{Driver, Snapshot};
use report::Changes;
pub use report::{Outcome, REVISION, Report, VERSION};
pub use worker::install_panic_hook;
use worker::{Missed, Worker, guarded};

/// How long a result answers further requests, from its completion: several Prometheus servers cost one reading.
pub const REUSE: Duration = Duration::from_secs(1);

/// How long owner resolution may take: one walk over the processes that hold a GPU.
const OWNERS_DEADLINE: Duration = Duration::from_secs(2);

/// Gives the newest reading of the GPUs without waiting.
pub type Gpus = Arc<dyn Fn() -> Arc<Snapshot> + Send + Sync>;

/// What a scraper reads, and how.
#[derive(Clone)]
pub struct Setup {
    /// The collectors that run.
    pub collectors: Vec<&'static Entry>,
    /// Where the kernel's files are.
    pub roots: Arc<Roots>,
    /// The GPUs.
    pub gpus: Gpus,
    /// Finds the owners of the GPUs' processes.
    pub resolve: fn(&Roots, &Snapshot) -> Owners,
    /// Value of the host label.
    pub hostname: Arc<str>,
    /// Name of the host label; `None` leaves it out.
    pub host_label: Option<&'static str>,
    /// Which of dcgm-exporter's series are written, and how.
    pub dcgm: Arc<Dcgm>,
    /// How long a result answers further requests.
    pub reuse: Duration,
}

impl Setup {
    /// As configured.
    #[must_use]
    pub fn new(config: &Config, gpus: Gpus) -> Self {
        Self {
            collectors: config.collectors.clone(),
            roots: Arc::new(config.roots()),
            gpus,
            resolve: attribute::resolve,
            hostname: config.host().into(),
            host_label: config.host_label(),
            dcgm: Arc::new(config.dcgm()),
            reuse: REUSE,
        }
    }
}

/// The outcome of one scrape.
pub struct Scrape {
    /// Everything that was collected, with the samples about the scrape itself.
    pub families: Families,
    /// How every source fared.
    pub reports: Vec<Report>,
    /// The reading of the GPUs that was used.
    pub gpus: Arc<Snapshot>,
}

/// Takes requests for scrapes; cheap to clone.
#[derive(Clone)]
pub struct Scraper {
    requests: mpsc::Sender<Request>,
    collecting_since: Arc<Mutex<Option<Instant>>>,
}

struct Request {
    deadline: Instant,
    reply: oneshot::Sender<Arc<Scrape>>,
}

impl Scraper {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the kernel gives no more threads.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel();
        let collecting_since = Arc::new(Mutex::new(None));
        let mut sources = Sources::start(setup)?;
        let since = collecting_since.clone();
        thread::Builder::new().name("scrape".to_owned()).spawn(move || sources.serve(&inbox, &since))?;
        Ok(Self { requests, collecting_since })
    }

    /// Asks for a scrape that ends at `deadline`. The receiver fails only when the scraper's thread is gone.
    #[must_use]
    pub fn request(&self, deadline: Instant) -> oneshot::Receiver<Arc<Scrape>> {
        let (reply, receiver) = oneshot::channel();
        // An undeliverable request drops its sender, which the receiver reports.
        let _ = self.requests.send(Request { deadline, reply });
        receiver
    }

    /// How long the scrape that is being made has taken so far.
    #[must_use]
    pub fn collecting_for(&self) -> Option<Duration> {
        self.collecting_since.lock().map(|since| since.elapsed())
    }
}

/// The state of the scrape thread.
struct Sources {
    setup: Setup,
    owners: Worker<Arc<Snapshot>, Result<Owners, String>>,
    collectors: Vec<(&'static Entry, CollectorWorker)>,
    changes: Changes,
}

type CollectorWorker = Worker<Context, (Families, Outcome)>;

impl Sources {
    fn start(setup: Setup) -> io::Result<Self> {
        let (roots, resolve) = (setup.roots.clone(), setup.resolve);
        let owners = Worker::spawn("attribution", move |gpus: Arc<Snapshot>| guarded(|| resolve(&roots, &gpus)))?;
        let spawn = |entry: &&'static Entry| Ok((*entry, collector_worker(entry, setup.host_label)?));
        let collectors = setup.collectors.iter().map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { owners, collectors, changes: Changes::default(), setup })
    }

    fn serve(&mut self, inbox: &mpsc::Receiver<Request>, collecting_since: &Mutex<Option<Instant>>) {
        let mut last: Option<(Instant, Arc<Scrape>)> = None;
        while let Ok(Request { deadline, reply }) = inbox.recv() {
            if reply.is_closed() {
                continue;
            }
            let reusable = last.take().filter(|(done, _)| done.elapsed() < self.setup.reuse);
            let (done, scrape) = reusable.unwrap_or_else(|| {
                *collecting_since.lock() = Some(Instant::now());
                let scrape = Arc::new(self.collect(deadline));
                *collecting_since.lock() = None;
                (Instant::now(), scrape)
            });
            // The client may be gone by now.
            let _ = reply.send(scrape.clone());
            last = Some((done, scrape));
        }
    }

    fn collect(&mut self, deadline: Instant) -> Scrape {
        let begun = Instant::now();
        let gpus = (self.setup.gpus)();
        let (owners, report) = self.resolve(&gpus, deadline);
        let mut reports = vec![report];
        let mut families = Families::new(self.setup.host_label);
        let context = Context {
            roots: self.setup.roots.clone(),
            gpus: gpus.clone(),
            owners: Arc::new(owners),
            hostname: self.setup.hostname.clone(),
            dcgm: self.setup.dcgm.clone(),
        };
        for (entry, worker) in &mut self.collectors {
            let asked = Instant::now();
            let (outcome, duration) = match worker.ask(context.clone(), deadline.min(asked + entry.deadline)) {
                Ok((collected, outcome)) => {
                    families.absorb(collected);
                    (outcome, asked.elapsed())
                }
                Err(Missed { busy }) => (Outcome::TimedOut, busy),
            };
            reports.push(Report { name: entry.name, outcome, duration });
        }
        self.changes.log(&reports);
        report::write(&reports, begun.elapsed(), &mut families);
        Scrape { families, reports, gpus }
    }

    /// The owners, or none known: a device series without pod labels is true, one with yesterday's pod is not.
    fn resolve(&mut self, gpus: &Arc<Snapshot>, deadline: Instant) -> (Owners, Report) {
        let asked = Instant::now();
        let answer = self.owners.ask(gpus.clone(), deadline.min(asked + OWNERS_DEADLINE));
        let (owners, outcome, duration) = match answer {
            Ok(Ok(owners)) => (owners, Outcome::Ok, asked.elapsed()),
            Ok(Err(panic)) => (Owners::default(), Outcome::Failed(panic), asked.elapsed()),
            Err(Missed { busy }) => (Owners::default(), Outcome::TimedOut, busy),
        };
        (owners, Report { name: "attribution", outcome, duration })
    }
}

/// A collector on its own thread. It is made there, and made anew after a panic, as its state may be half-changed.
fn collector_worker(entry: &'static Entry, host_label: Option<&'static str>) -> io::Result<CollectorWorker> {
    let mut collector: Option<Box<dyn Collector>> = None;
    Worker::spawn(entry.name, move |context: Context| {
        let mut families = Families::new(host_label);
        let result = guarded(|| collector.get_or_insert_with(entry.new).collect(&context, &mut families));
        match result {
            Ok(result) => (families, outcome(result)),
            Err(panic) => {
                let broken = collector.take();
                let _ = guarded(|| drop(broken));
                // A sample may be half written.
                (Families::new(host_label), Outcome::Failed(panic))
            }
        }
    })
}

fn outcome(result: Result<Done, CollectError>) -> Outcome {
    match result {
        Ok(Done::Ok) => Outcome::Ok,
        Ok(Done::NotApplicable(reason)) => Outcome::NotApplicable(reason),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Waits until the driver's state is known and every GPU has been read once, or until `deadline`. The reader of the
/// GPUs tells nobody when it is done, so this looks again and again; it is for the start of the program only.
pub fn wait_for_gpus(gpus: &Gpus, deadline: Instant) {
    let settled = |snapshot: &Snapshot| {
        !matches!(snapshot.driver, Driver::Starting) && snapshot.gpus.iter().all(|gpu| gpu.taken.is_some())
    };
    while !settled(&gpus()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests;
