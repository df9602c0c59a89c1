//! One scrape: owners, then every collector behind its own deadline and panic boundary.
//!
//! One thread takes the scrapes in turn; two more share the collectors: so host files are read on scrape, by two readers
//! at most. A result is used again for requests that come while it is made or shortly after, and one that is to be expected
//! finds a result that was made shortly before.

mod report;
mod rhythm;
mod worker;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use goodput_web::Refusals;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::attribute::{Owners, Resolver};
use crate::collect::gpu::labels;
use crate::collect::relay::{self, Relay};
use crate::collect::{Collector, Entry};
use crate::config::{Config, CountersFile};
use crate::context::{Context, Dcgm, Nccl};
use crate::parse::relay_url::RelayUrl;
use crate::source::files::Roots;
use crate::source::left_out::{self, LeftOut};
use crate::source::nvml::{Driver, Snapshot, State};
use goodput_exposition::{Families, Format, Style, encode};
use report::Changes;
pub use report::{Outcome, Report, VERSION};
use rhythm::{Patience, Rhythm};
pub use worker::install_panic_hook;
use worker::{Answered, Missed, Source, Workers, guarded};

/// How long a result answers further requests, from its completion: several Prometheus servers cost one reading.
pub const REUSE: Duration = Duration::from_secs(1);

/// The least that a collection is given, however soon its request gives up: a collection that ends sooner is empty, and its
/// sources are still at work when the next request comes.
const FLOOR: Duration = Duration::from_secs(1);

/// How much of that time before it is expected a request's result is made: dozens of times what it takes, and a request may
/// come three times as late as that.
const LEAD: u32 = 4;

/// How long owner resolution may take: one walk over the processes that hold a GPU.
const OWNERS_DEADLINE: Duration = Duration::from_secs(2);

/// How many threads ask collectors: half the time of one, and of a node's CPUs no more than two for some milliseconds.
const COLLECTING: usize = 2;

/// Gives the newest reading of the GPUs without waiting.
pub type Gpus = Arc<dyn Fn() -> Arc<Snapshot> + Send + Sync>;

/// Finds the owners of the GPUs.
pub type Resolve = Arc<dyn Fn(&Roots, &Snapshot) -> Owners + Send + Sync>;

/// What a scraper reads, and how.
#[derive(Clone)]
pub struct Setup {
    /// The collectors that run.
    pub collectors: Vec<&'static Entry>,
    /// Where the kernel's files are.
    pub roots: Arc<Roots>,
    /// The GPUs.
    pub gpus: Gpus,
    /// Finds the owners of the GPUs.
    pub resolve: Resolve,
    /// Value of the host label.
    pub hostname: Arc<str>,
    /// How dcgm-exporter's families are written, but for what changes.
    pub style: Style,
    /// Which of dcgm-exporter's families are written, where no counters file says so.
    pub dcgm: Arc<Dcgm>,
    /// What is read of NCCL's Inspector.
    pub nccl: Arc<Nccl>,
    /// The DCGM fields to serve.
    pub counters: Option<Arc<CountersFile>>,
    /// A dcgm-exporter whose further families are served too.
    pub relay: Option<RelayUrl>,
    /// How long a result answers further requests.
    pub reuse: Duration,
    /// What the front door refuses, which every scrape shows.
    pub refusals: Arc<Refusals>,
}

impl Setup {
    /// As configured.
    #[must_use]
    pub fn new(config: &Config, gpus: Gpus) -> Self {
        let resolver = Resolver::start(config.owner_settings());
        Self {
            collectors: config.collectors.clone(),
            roots: Arc::new(config.roots()),
            gpus,
            resolve: Arc::new(move |roots, gpus| resolver.resolve(roots, gpus)),
            hostname: config.host().into(),
            style: config.style(),
            dcgm: Arc::new(config.dcgm()),
            nccl: Arc::new(config.nccl()),
            counters: config.counters.clone(),
            relay: config.relay_url.clone(),
            reuse: REUSE,
            refusals: Arc::default(),
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
    /// Is something missing because the request had no more time? Then it answers that request alone.
    cut: bool,
    texts: [OnceLock<Bytes>; Format::ALL.len()],
}

impl Scrape {
    /// As exposition text, which is written once.
    #[must_use]
    pub fn text(&self, format: Format) -> Bytes {
        self.texts[format as usize].get_or_init(|| encode(&self.families, format).into()).clone()
    }

    /// The formats that it was asked for in.
    fn formats(&self) -> Vec<Format> {
        Format::ALL.into_iter().filter(|format| self.texts[*format as usize].get().is_some()).collect()
    }
}

/// A result, and when it was there.
struct Made {
    at: Instant,
    scrape: Arc<Scrape>,
}

/// Takes requests for scrapes; cheap to clone.
#[derive(Clone)]
pub struct Scraper {
    requests: mpsc::Sender<Request>,
    collecting_since: Arc<Mutex<Option<Instant>>>,
    refusals: Arc<Refusals>,
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
        let refusals = setup.refusals.clone();
        let mut sources = Sources::start(setup)?;
        let since = collecting_since.clone();
        thread::Builder::new().name("scrape".to_owned()).spawn(move || sources.serve(&inbox, &since))?;
        Ok(Self { requests, collecting_since, refusals })
    }

    /// Where the front door counts what it refuses.
    #[must_use]
    pub fn refusals(&self) -> Arc<Refusals> {
        self.refusals.clone()
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
    owners: Workers<Arc<Snapshot>, (Result<Owners, String>, LeftOut)>,
    /// Their names, in the order in which they are asked. The relay is the last, as it gives only what no other
    /// collector gave.
    names: Vec<&'static str>,
    collectors: Workers<Question, Collected>,
    changes: Changes,
}

type Question = (Context, Arc<Style>);

/// What a collector gave, how it ended, and what it left out.
type Collected = (Families, Outcome, LeftOut);

impl Sources {
    fn start(setup: Setup) -> io::Result<Self> {
        let (roots, resolve) = (setup.roots.clone(), setup.resolve.clone());
        let answer = move |gpus: &Arc<Snapshot>| {
            let owners = guarded(|| resolve(&roots, gpus));
            (owners, left_out::take())
        };
        let owners = vec![Source { patience: OWNERS_DEADLINE, answer: Mutex::new(Box::new(answer)) }];
        let (mut names, mut sources) = (Vec::new(), Vec::new());
        for entry in &setup.collectors {
            names.push(entry.name);
            sources.push(source(entry.deadline, entry.new));
        }
        if let Some(url) = setup.relay.clone() {
            names.push(relay::NAME);
            sources.push(source(relay::DEADLINE, move || Box::new(Relay::new(url.clone()))));
        }
        let (owners, collectors) =
            (Workers::start("attribution", 1, owners)?, Workers::start("collect", COLLECTING, sources)?);
        Ok(Self { owners, names, collectors, changes: Changes::default(), setup })
    }

    fn serve(&mut self, inbox: &mpsc::Receiver<Request>, collecting_since: &Mutex<Option<Instant>>) {
        let reuse = self.setup.reuse;
        let mut rhythm = Rhythm::new(reuse);
        let mut last: Option<Made> = None;
        let mut patience = Patience::default();
        let mut make = |deadline| {
            *collecting_since.lock() = Some(Instant::now());
            let scrape = Arc::new(self.collect(deadline));
            *collecting_since.lock() = None;
            Made { at: Instant::now(), scrape }
        };
        loop {
            let reusable = last.as_ref().filter(|_| !reuse.is_zero());
            let expected = reusable.and_then(|made| rhythm.next((made.at + reuse).max(Instant::now())));
            match receive(inbox, expected.map(|expected| expected - reuse / LEAD)) {
                Ok(request) if request.reply.is_closed() => {}
                Ok(Request { deadline, reply }) => {
                    let now = Instant::now();
                    rhythm.note(now);
                    let deadline = deadline.max(now + FLOOR);
                    patience.note(now, deadline - now);
                    let reusable = last.take().filter(|made| made.at.elapsed() < reuse && !made.scrape.cut);
                    let made = last.insert(reusable.unwrap_or_else(|| make(deadline)));
                    // The client may be gone by now.
                    let _ = reply.send(made.scrape.clone());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let formats = last.take().map(|made| made.scrape.formats());
                    let made = last.insert(make(Instant::now() + patience.longest()));
                    formats.into_iter().flatten().for_each(|format| drop(made.scrape.text(format)));
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn collect(&mut self, deadline: Instant) -> Scrape {
        let begun = Instant::now();
        let gpus = (self.setup.gpus)();
        let (owners, report, mut cut) = self.resolve(&gpus, deadline);
        let mut reports = vec![report];
        let style = Arc::new(self.style(&gpus));
        let mut families = Families::styled(style.clone());
        let context = Context {
            roots: self.setup.roots.clone(),
            common: Arc::default(),
            gpus: gpus.clone(),
            owners: Arc::new(owners),
            hostname: self.setup.hostname.clone(),
            dcgm: self.dcgm(),
            nccl: self.setup.nccl.clone(),
        };
        for (name, answer) in self.names.iter().zip(self.collectors.ask((context, style), deadline)) {
            cut |= is_cut(&answer);
            let (collected, report) = told(name, answer);
            match *name {
                relay::NAME => families.complete(collected),
                _ => families.absorb(collected),
            }
            reports.push(report);
        }
        self.changes.log(&reports);
        report::write(&reports, self.changes.left_out(), begun.elapsed(), &mut families);
        report::write_refusals(&self.setup.refusals, &mut families);
        Scrape { families, reports, gpus, cut, texts: Default::default() }
    }

    /// How dcgm-exporter's families are written in this scrape.
    fn style(&self, gpus: &Snapshot) -> Style {
        let counters = self.setup.counters.as_ref().map(|file| file.current());
        let constants = counters.as_ref().map(|counters| labels::constants(gpus, |field| counters.label(field)));
        Style { constants: constants.unwrap_or_default(), counters, ..self.setup.style.clone() }
    }

    /// Which of dcgm-exporter's families are written in this scrape.
    fn dcgm(&self) -> Arc<Dcgm> {
        let selection = self.setup.counters.as_ref().map(|file| file.current().selection());
        selection.map_or_else(
            || self.setup.dcgm.clone(),
            |fields| Arc::new(Dcgm { fields, ..Dcgm::clone(&self.setup.dcgm) }),
        )
    }

    /// The owners, or none known: a device series without pod labels is true, one with yesterday's pod is not.
    /// Says too whether the deadline cut it.
    fn resolve(&mut self, gpus: &Arc<Snapshot>, deadline: Instant) -> (Owners, Report, bool) {
        let answer = self.owners.ask(gpus.clone(), deadline).pop();
        let cut = answer.as_ref().is_none_or(is_cut);
        let (owners, outcome, duration, left_out) = match answer {
            Some(Ok(((Ok(owners), left_out), duration))) => (owners, Outcome::Ok, duration, left_out),
            Some(Ok(((Err(panic), left_out), duration))) => {
                (Owners::default(), Outcome::Failed(panic), duration, left_out)
            }
            Some(Err(Missed { busy, .. })) => (Owners::default(), Outcome::TimedOut, busy, LeftOut::default()),
            None => (Owners::default(), Outcome::TimedOut, Duration::ZERO, LeftOut::default()),
        };
        (owners, Report { name: "attribution", outcome, duration, left_out }, cut)
    }
}

/// The next request, if it comes before `until`.
fn receive(inbox: &mpsc::Receiver<Request>, until: Option<Instant>) -> Result<Request, RecvTimeoutError> {
    match until {
        Some(until) => inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
        None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Is there no answer because the round's deadline came?
fn is_cut<A>(answer: &Answered<A>) -> bool {
    answer.as_ref().is_err_and(|missed| missed.cut)
}

/// What a collector gave, and what is to be said of it.
fn told(name: &'static str, answer: Answered<Collected>) -> (Families, Report) {
    match answer {
        Ok(((collected, outcome, left_out), duration)) => (collected, Report { name, outcome, duration, left_out }),
        Err(Missed { busy, .. }) => {
            let left_out = LeftOut::default();
            (Families::default(), Report { name, outcome: Outcome::TimedOut, duration: busy, left_out })
        }
    }
}

/// A collector. The thread that asks it makes it, and makes it again after a panic, as its state may be half-changed.
fn source(patience: Duration, make: impl Fn() -> Box<dyn Collector> + Send + 'static) -> Source<Question, Collected> {
    let mut collector: Option<Box<dyn Collector>> = None;
    let answer = move |(context, style): &Question| {
        let mut families = Families::styled(style.clone());
        // What an earlier round of this thread left behind, as a panic does.
        drop(left_out::take());
        let result = guarded(|| collector.get_or_insert_with(&make).collect(context, &mut families));
        let left_out = left_out::take();
        match result {
            Ok(result) => (families, Outcome::of(result, &left_out), left_out),
            Err(panic) => {
                let broken = collector.take();
                let _ = guarded(|| drop(broken));
                // A sample may be half written.
                (Families::styled(style.clone()), Outcome::Failed(panic), left_out)
            }
        }
    };
    Source { patience, answer: Mutex::new(Box::new(answer)) }
}

/// Waits until the driver's state is known and every GPU has been read once, or until `deadline`. The reader of the
/// GPUs does not report when it is done, so this polls; it is for the start of the program only.
pub fn wait_for_gpus(gpus: &Gpus, deadline: Instant) {
    let settled = |snapshot: &Snapshot| {
        !matches!(snapshot.driver, Driver::Starting)
            && snapshot.unidentified.iter().all(|(_, state)| *state != State::Starting)
            && snapshot.gpus.iter().all(|gpu| gpu.taken.is_some() && snapshot.listening)
    };
    while !settled(&gpus()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests;
