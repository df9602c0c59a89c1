//! The loop that delivers the weekly report when it is due.
//!
//! After every round of judging it looks whether the newest week whose run has come is final, has stood for a while and
//! is missing somewhere. A week that late samples open again is looked at again when it has settled: if its verdicts
//! have changed, the directory gets a further version, and no second message is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::messages::Messages;
use crate::app::{Awaited, Deliveries, Due, Outcomes, Progress};
use crate::deliver::letter::Letter;
use crate::deliver::webhook::{self, backoff};
use crate::deliver::{Edition, NotTaken, Place, Settings, Step, digest, directory, forms, slack};
use crate::ownership::Book;
use crate::report::{Period, Report, Site, Terms, Wanted, intervals, stored_by_team, teams_in};
use crate::schedule::{due, instant};
use crate::teams::Teams;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results as _, Store};
use goodput_verdict::{Delivered, Interval};

/// Between two rounds of messages, at least.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// What a report may wait for.
const FINAL: &str = "every verdict of the week to be final";
const SETTLE: &str = "its verdicts to stand for a while";
const RETRY: &str = "the next attempt, after one that failed";
const MESSAGES: &str = "the time of its next message";

/// The loop's parts.
pub(super) struct Delivery {
    store: Store,
    settings: Settings,
    zone: TimeZone,
    terms: Terms,
    now: fn() -> TimeMs,
    progress: watch::Receiver<Progress>,
    tally: watch::Sender<Deliveries>,
    messages: Messages,
    /// Weeks with nothing left to do, unless they are opened again.
    finished: BTreeSet<String>,
    /// The message about this week was refused.
    refused: Option<String>,
    /// [`Progress::reopened`] as last seen.
    reopened: u64,
    /// The week whose verdicts are said to be awaited.
    awaited: Option<String>,
    /// Since when the week that is due has been final.
    settled: Option<(String, Instant)>,
    failures: u32,
    /// Not before then is the next attempt.
    pause_until: Option<Instant>,
}

/// An attempt came to nothing.
struct Undelivered {
    destination: Option<String>,
    error: anyhow::Error,
    wait: Option<Duration>,
}

impl From<anyhow::Error> for Undelivered {
    fn from(error: anyhow::Error) -> Self {
        Self { destination: None, error, wait: None }
    }
}

impl Delivery {
    /// The loop, and what it tells about itself. An error when a file with an address, a password or a key cannot be used.
    pub(super) fn new(
        store: Store,
        settings: Settings,
        zone: TimeZone,
        terms: Terms,
        now: fn() -> TimeMs,
        (progress, stop): (watch::Receiver<Progress>, watch::Receiver<bool>),
    ) -> anyhow::Result<(Self, watch::Receiver<Deliveries>)> {
        if let Some(address) = &settings.webhook {
            webhook::resolve(address).map_err(anyhow::Error::msg).context("report.webhook")?;
        }
        settings.check_files().map_err(anyhow::Error::msg)?;
        let places = settings.places().into_iter().map(|place| (place.name.to_owned(), Outcomes::default()));
        let held = || Outcomes { held: Some(0), ..Outcomes::default() };
        let targets = settings.by_outbox().map(|target| (target.name.clone(), held()));
        let destinations = places.chain(targets).collect();
        let (tally, told) = watch::channel(Deliveries { destinations, ..Deliveries::default() });
        let messages = Messages {
            store: store.clone(),
            settings: settings.clone(),
            terms: terms.clone(),
            now,
            tally: tally.clone(),
            stop,
            closed: BTreeMap::new(),
        };
        let delivery = Self {
            store,
            settings,
            zone,
            terms,
            now,
            progress,
            tally,
            messages,
            finished: BTreeSet::new(),
            refused: None,
            reopened: 0,
            awaited: None,
            settled: None,
            failures: 0,
            pause_until: None,
        };
        Ok((delivery, told))
    }

    /// Runs until `stop` is true; an attempt that is under way then is finished.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let again = self.round().await;
            let alarm = async {
                match again {
                    Some(wait) => sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.progress.changed() => if changed.is_err() { return },
                () = alarm => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Delivers what is due. Gives how long to wait for what is not due yet but will be without further judging.
    async fn round(&mut self) -> Option<Duration> {
        let (final_until, reopened) = {
            let progress = self.progress.borrow_and_update();
            (progress.final_until_ms, progress.reopened)
        };
        if self.reopened != reopened {
            self.reopened = reopened;
            self.finished.clear();
            self.settled = None;
        }
        let Some(week) = due((self.now)(), &self.zone, &self.settings.schedule, &self.finished, final_until) else {
            self.settled = None;
            self.tell_wait(final_until);
            return None;
        };
        if let Some(wait) = self.wait(&week) {
            let what = if self.failures > 0 { RETRY } else { SETTLE };
            self.show(Some((week.label, what)), Some(wait));
            return Some(wait);
        }
        match self.deliver(&week).await {
            Ok(None) => {
                self.failures = 0;
                self.finish(week);
                self.show(None, None);
                None
            }
            Ok(Some(wait)) => {
                self.failures = 0;
                let wait = wait.max(SHORTEST_WAIT);
                self.pause_until = Some(Instant::now() + wait);
                self.show(Some((week.label, MESSAGES)), Some(wait));
                Some(wait)
            }
            Err(undelivered) => {
                let wait = self.failed(&week, undelivered);
                self.show(Some((week.label, RETRY)), Some(wait));
                Some(wait)
            }
        }
    }

    /// Notes for the pages which week waits for what and how long, and which comes next.
    fn show(&self, awaited: Option<(String, &'static str)>, wait: Option<Duration>) {
        let now = (self.now)();
        let until_ms = wait.map(|wait| now.saturating_add(TimeMs::try_from(wait.as_millis()).unwrap_or(TimeMs::MAX)));
        let next = self.next();
        let at_ms = self.settings.schedule.run_ms(&next, &self.zone);
        self.tally.send_modify(|tally| {
            tally.awaited = awaited.map(|(week, what)| Awaited { week, what, until_ms });
            tally.next = Some(Due { week: next.label, at_ms });
        });
    }

    /// The first week whose run has not come.
    fn next(&self) -> Period {
        let newest = self.settings.schedule.newest((self.now)(), &self.zone);
        Period::this_week(instant(newest.end_ms), &self.zone)
    }

    /// Says once which week is to be delivered as soon as its verdicts are final; before any is, nothing is known.
    fn tell_wait(&mut self, final_until: Option<TimeMs>) {
        let week = self.settings.schedule.newest((self.now)(), &self.zone).label;
        self.show((!self.finished.contains(&week)).then(|| (week.clone(), FINAL)), None);
        if final_until.is_none() || self.finished.contains(&week) || self.awaited.as_ref() == Some(&week) {
            return;
        }
        tracing::info!(week, "the report waits until every verdict of the week is final");
        self.awaited = Some(week);
    }

    /// How long to wait before the week may be delivered.
    fn wait(&mut self, week: &Period) -> Option<Duration> {
        let now = Instant::now();
        if self.settled.as_ref().is_none_or(|(label, _)| *label != week.label) {
            self.settled = Some((week.label.clone(), now));
        }
        let settled = self.settled.as_ref().map(|(_, since)| *since + self.settings.settle);
        let until = settled.max(self.pause_until)?;
        Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    fn finish(&mut self, week: Period) {
        let next = self.next();
        let at = next.show(self.settings.schedule.run_ms(&next, &self.zone));
        tracing::info!(week = week.label, next = next.label, at, "nothing is left to deliver");
        self.finished.insert(week.label);
    }

    fn failed(&mut self, week: &Period, undelivered: Undelivered) -> Duration {
        self.failures += 1;
        let wait = backoff(self.failures, undelivered.wait);
        self.pause_until = Some(Instant::now() + wait);
        if let Some(destination) = &undelivered.destination {
            self.account(destination, |outcomes| {
                outcomes.failed += 1;
                outcomes.overdue = true;
            });
        }
        let (error, destination) = (&undelivered.error, &undelivered.destination);
        tracing::warn!(
            week = week.label,
            destination,
            error = format!("{error:#}"),
            ?wait,
            "the report is not delivered"
        );
        wait
    }

    /// Gives how long it is until the next message; none where nothing is left.
    async fn deliver(&mut self, week: &Period) -> Result<Option<Duration>, Undelivered> {
        let store = &self.store;
        let intervals = intervals(store, week).await.context("cannot read the verdicts")?;
        if intervals.is_empty() {
            tracing::info!(week = week.label, "no verdicts are stored for the week: there is nothing to report");
            return Ok(None);
        }
        let rows = self.store.deliveries(&week.label).await.context("cannot read what was delivered")?;
        let teams = teams_in(store, week, &self.terms).await.context("cannot read the teams of the week")?;
        let wanted = Wanted { prices: &self.terms.prices, teams: &teams, team: None };
        let report = stored_by_team(store, week.clone(), wanted).await.context("cannot read the verdicts")?;
        let now = (self.now)();
        let book = Book::read(store, now).await.context("cannot read what was said about findings")?;
        let report = report.with_terms(&self.terms).with_ownership(&book, now);
        let digest = digest(&intervals);
        let edition = Edition::of(digest, &rows);
        let settings = self.settings.clone();
        let places = settings.places();
        let sends = places.iter().any(|place| edition.step(*place, &rows) == Step::Send);
        if sends || self.messages.is_new(week).await? {
            self.note_teams(&teams, &report).await?;
        }
        for place in places {
            let time_ms = match edition.step(place, &rows) {
                Step::Nothing => {
                    self.remember(place.name, &rows);
                    continue;
                }
                Step::Withhold => None,
                Step::Send if !self.send(place, edition, &report, &intervals).await? => continue,
                Step::Send => Some((self.now)()),
            };
            let row = Delivered { version: edition.version, destination: place.name.to_owned(), digest, time_ms };
            self.store.note_delivery(&week.label, &row).await.context("cannot note the delivery")?;
        }
        if edition.restates {
            let version = edition.version;
            tracing::warn!(week = week.label, version, "verdicts of a delivered week have changed; no message is sent");
            self.tally.send_modify(|tally| tally.restated += 1);
        }
        drop(intervals);
        Ok(self.messages.round(&report, &teams, (edition.version, digest)).await?)
    }

    /// Notes which teams the week is reported with, before anyone has the report: from then on it keeps them.
    async fn note_teams(&self, teams: &Teams, report: &Report) -> anyhow::Result<()> {
        if teams.is_empty() {
            return Ok(());
        }
        let content = teams.content().context("cannot write the teams down")?;
        let (week, times) = (&report.period, report.teams.times(&report.period.label));
        let noted = self.store.note_teams((&week.label, week.start_ms), &content, &times);
        noted.await.context("cannot note the teams of the week")
    }

    /// False when the destination refuses it for good.
    async fn send(
        &mut self,
        place: Place<'_>,
        edition: Edition,
        report: &Report,
        intervals: &[Interval],
    ) -> Result<bool, Undelivered> {
        let week = &report.period.label;
        if self.refused.as_ref() == Some(week) && place.folder.is_none() {
            return Ok(false);
        }
        let sent = match place.folder {
            Some(folder) => self.write(folder, edition, report, intervals).await,
            None => self.post(report).await,
        };
        let destination = place.name;
        match sent {
            Ok(()) => {
                let now = (self.now)();
                self.account(destination, |outcomes| {
                    outcomes.delivered += 1;
                    outcomes.last_success_ms = Some(now);
                    outcomes.overdue = false;
                });
                tracing::info!(week, version = edition.version, destination, "report delivered");
                Ok(true)
            }
            Err(error @ NotTaken::Refused { .. }) => {
                self.account(destination, |outcomes| {
                    outcomes.refused += 1;
                    outcomes.overdue = true;
                });
                tracing::error!(week, %error, "the message is given up; a restart tries it again");
                self.refused = Some(week.clone());
                Ok(false)
            }
            Err(NotTaken::Failed { reason, wait }) => {
                Err(Undelivered { destination: Some(destination.to_owned()), error: anyhow::Error::msg(reason), wait })
            }
        }
    }

    async fn write(
        &self,
        folder: &Path,
        edition: Edition,
        report: &Report,
        intervals: &[Interval],
    ) -> Result<(), NotTaken> {
        let path = folder.to_owned();
        let failed = |reason: String| NotTaken::Failed { reason, wait: None };
        let site = Site::file(self.settings.link.as_deref());
        let forms =
            forms(report, intervals, &self.terms.prices, &site).map_err(|error| failed(format!("{error:#}")))?;
        let stem = edition.stem(&report.period.label);
        let written = tokio::task::spawn_blocking(move || directory::write(&path, &stem, &forms)).await;
        written.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    async fn post(&self, report: &Report) -> Result<(), NotTaken> {
        let Some(address) = &self.settings.webhook else { return Ok(()) };
        let url = webhook::resolve(address).map_err(|reason| NotTaken::Failed { reason, wait: None })?;
        let letter = Letter::of(report, None, self.settings.link.as_deref());
        let ids: Vec<String> = letter.ids().into_iter().map(str::to_owned).collect();
        webhook::post(url, &slack::message(&letter.naming(&ids), None, ""), None, (self.now)()).await
    }

    /// What was delivered before the start counts as the last success.
    fn remember(&self, destination: &str, rows: &[Delivered]) {
        let last = rows.iter().filter(|row| row.destination == destination).filter_map(|row| row.time_ms).max();
        self.account(destination, |outcomes| outcomes.last_success_ms = outcomes.last_success_ms.max(last));
    }

    fn account(&self, destination: &str, note: impl FnOnce(&mut Outcomes)) {
        self.tally.send_modify(|tally| note(tally.destinations.entry(destination.to_owned()).or_default()));
    }
}
