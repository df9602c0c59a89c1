//! What the pages, the API and `/metrics` are made from, and what bounds them.

pub mod conditions;
mod deliveries;
mod intake;
pub(crate) mod metrics;
mod owned;
mod ownership;
mod page;
mod progress;
mod reads;
mod ways_in;

use std::sync::Arc;

use goodput_exposition::sample::TimeMs;
use goodput_store::Embedded;
use goodput_web::Refusals;
use jiff::tz::TimeZone;
use tokio::sync::watch;

pub use deliveries::{Awaited, Deliveries, Due, Outcomes, Refused};
pub use intake::{Account, Intake};
pub use ownership::Writes;
pub(crate) use ownership::{NotSaid, asker, day_of};
use page::Page;
pub use progress::Progress;
pub use reads::Reads;
pub(crate) use reads::{Busy, NoReport, later};

use crate::ingest::Limits;
use crate::ingest::tally::Tally;
use crate::report::Terms;

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct App<S> {
    /// Verdicts.
    pub store: S,
    /// What came in.
    pub intake: Intake<S>,
    /// How far judging has come.
    pub progress: watch::Receiver<Progress>,
    /// What became of deliveries.
    pub deliveries: watch::Receiver<Deliveries>,
    /// Zone of weeks and shown times.
    pub zone: TimeZone,
    /// What GPU time and energy cost.
    pub terms: Terms,
    /// The clock.
    pub now: fn() -> TimeMs,
    /// True once the program is stopping.
    pub stopping: watch::Receiver<bool>,
    /// The bounds of what comes in, and what the ways in count of themselves.
    pub ways_in: (Limits, Arc<Tally>),
    /// Places of reads.
    pub reads: Arc<Reads>,
    /// May people say something about findings?
    pub writes: Writes,
    /// What the front door refused.
    pub refusals: Arc<Refusals>,
}

impl<S: Embedded> App<S> {
    /// What an operator has to know by now.
    pub(crate) fn conditions(&self) -> Vec<conditions::Finding> {
        let mut page = Page::default();
        let (limits, tally) = (self.ways_in.0, self.ways_in.1.counts());
        let ways_in = metrics::WaysIn { limits: &limits, counts: &tally, refusals: &self.refusals };
        let (progress, account, stats) = (self.progress.borrow(), self.intake.account(), self.store.stats());
        metrics::of_itself(&mut page, (&progress, &self.terms), &account, &self.deliveries.borrow(), &ways_in, &stats);
        conditions::findings(&page, (self.now)() as f64 / 1000.0)
    }
}
