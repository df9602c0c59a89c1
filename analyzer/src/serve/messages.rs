//! Messages by the outbox: planned and committed first, then sent one by one.
//!
//! Each attempt is between two commits: the row says that it begins, then what came of it. Whatever dies in between leaves a
//! row that is pending, which is sent again with the same identity.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;

use crate::app::{Deliveries, Outcomes, Refused};
use crate::deliver::compose::{Composer, Known, Planned, send, weeks};
use crate::deliver::form::Style;
use crate::deliver::outbox::{self, Outcome, after, begun, held_to};
use crate::deliver::target::{Target, Way};
use crate::deliver::unsubscribe::Key;
use crate::deliver::webhook::backoff;
use crate::deliver::{Settings, smtp};
use crate::report::{Period, Report, Terms};
use crate::teams::Teams;
use goodput_exposition::sample::TimeMs;
use goodput_store::{ReadVerdicts as _, Results as _, Store};
use goodput_verdict::{Message, MessageState, Unsubscribed};

/// Refused messages of a destination that the State page names.
const MAX_REFUSED: usize = 20;

/// What sends messages.
pub(super) struct Messages {
    pub(super) store: Store,
    pub(super) settings: Settings,
    pub(super) terms: Terms,
    pub(super) now: fn() -> TimeMs,
    pub(super) tally: watch::Sender<Deliveries>,
    pub(super) stop: watch::Receiver<bool>,
    /// Destinations whose way is closed: how often that was so in a row, and until when they are left alone.
    pub(super) closed: BTreeMap<String, (u32, TimeMs)>,
}

/// What a run sends.
struct Run<'a> {
    week: &'a Period,
    edition: (u32, u32),
    tools: Result<Tools, String>,
    known: (Vec<Message>, Vec<Unsubscribed>),
}

/// What mail takes.
struct Tools {
    sender: Option<smtp::Sender>,
    key: Option<Key>,
}

impl Tools {
    /// Reads the files with secrets; an error names the one that cannot be used.
    fn of(settings: &Settings) -> Result<Self, String> {
        let sender = settings.mail.as_ref().map(smtp::Sender::new).transpose()?;
        let key = settings.unsubscribe_key_file.as_deref().map(Key::of_file).transpose()?;
        Ok(Self { sender, key })
    }
}

impl Messages {
    /// Are there destinations, none of whose messages about this week are planned?
    pub(super) async fn is_new(&self, week: &Period) -> anyhow::Result<bool> {
        if self.settings.by_outbox().next().is_none() {
            return Ok(false);
        }
        let known = self.store.messages([&week.label, &week.label]).await.context("cannot read the outbox")?;
        Ok(known.is_empty())
    }

    /// Plans the messages about a week and sends those whose time has come. Gives how long it is until another is to be sent;
    /// none where nothing is left.
    pub(super) async fn round(
        &mut self,
        report: &Report,
        teams: &Teams,
        edition: (u32, u32),
    ) -> anyhow::Result<Option<Duration>> {
        if self.settings.by_outbox().next().is_none() {
            return Ok(None);
        }
        let week = &report.period;
        let [first, last] = weeks(week);
        let messages = self.store.messages([&first, &last]).await.context("cannot read the outbox")?;
        let unsubscribed = self.store.unsubscribed().await.context("cannot read who unsubscribed")?;
        let run = Run { week, edition, tools: Tools::of(&self.settings), known: (messages, unsubscribed) };
        let (settings, store, terms) = (self.settings.clone(), self.store.clone(), self.terms.clone());
        let mut composer = Composer::new(&store, (&terms, teams), report, settings.link.as_deref());
        let mut waits = Vec::new();
        for target in settings.by_outbox() {
            waits.extend(self.serve_target(target, &run, &mut composer).await?);
        }
        Ok(waits.into_iter().min())
    }

    fn style<'a>(&'a self, run: &'a Run<'_>) -> Style<'a> {
        let (server, link) = (self.settings.mail.as_ref(), self.settings.link.as_deref());
        let key = run.tools.as_ref().ok().and_then(|tools| tools.key.as_ref());
        Style { server, link, key, mark: "", now: (self.now)() }
    }

    async fn serve_target(
        &mut self,
        target: &Target,
        run: &Run<'_>,
        composer: &mut Composer<'_, Store>,
    ) -> anyhow::Result<Option<Duration>> {
        let known = Known { messages: &run.known.0, unsubscribed: &run.known.1 };
        let (style, now) = (self.style(run), (self.now)());
        let domain = style.domain().to_owned();
        let mut planned = composer.planned(target, known, run.edition, &domain, now).await?;
        self.commit_plan(target, &mut planned, now).await?;
        self.show(target, &planned);
        for n in 0..planned.len() {
            let message = &planned[n].message;
            if message.state != MessageState::Pending || message.next_ms > (self.now)() {
                continue;
            }
            if *self.stop.borrow() || self.closed_for(target).is_some() {
                break;
            }
            let outcome = self.attempt(target, run, &mut planned[n], composer).await?;
            self.note_way(target, &outcome);
            self.show(target, &planned);
        }
        let rows: Vec<Message> = planned.into_iter().map(|planned| planned.message).collect();
        let wait = outbox::wait(&rows, (self.now)());
        Ok(wait.map(|wait| self.closed_for(target).map_or(wait, |closed| wait.max(closed))))
    }

    /// How long the destination is left alone, because its way is closed.
    fn closed_for(&self, target: &Target) -> Option<Duration> {
        let (_, until) = self.closed.get(&target.name)?;
        let left = u64::try_from(until.saturating_sub((self.now)())).ok()?;
        Some(Duration::from_millis(left)).filter(|left| !left.is_zero())
    }

    /// Where it was the way that failed, the other messages would fail too.
    fn note_way(&mut self, target: &Target, outcome: &Outcome) {
        let Outcome::Failed { by_the_way: true, wait, .. } = outcome else {
            self.closed.remove(&target.name);
            return;
        };
        let (failures, until) = self.closed.entry(target.name.clone()).or_default();
        *failures = failures.saturating_add(1);
        let wait = TimeMs::try_from(backoff(*failures, *wait).as_millis()).unwrap_or(TimeMs::MAX);
        *until = (self.now)().saturating_add(wait);
    }

    /// Commits the rows of all messages before any is sent.
    async fn commit_plan(&self, target: &Target, planned: &mut [Planned], now: TimeMs) -> anyhow::Result<()> {
        let mut rows: Vec<Message> = planned.iter().map(|planned| planned.message.clone()).collect();
        let held = held_to(&mut rows, target.at_most, now);
        let mut changed = Vec::new();
        for (planned, row) in planned.iter_mut().zip(rows) {
            if !planned.is_known || row != planned.message {
                changed.push(row.clone());
            }
            (planned.message, planned.is_known) = (row, true);
        }
        if changed.is_empty() {
            return Ok(());
        }
        self.store.note_messages(&changed).await.context("cannot write the outbox")?;
        tracing::info!(destination = target.name, messages = changed.len(), "messages planned");
        let held = held.iter().filter(|message| message.state == MessageState::Held).count();
        if held > 0 {
            let at_most = target.at_most;
            tracing::error!(
                destination = target.name,
                held,
                at_most,
                "messages are held back: there are more than at_most; a higher limit and a restart send them"
            );
        }
        Ok(())
    }

    async fn attempt(
        &self,
        target: &Target,
        run: &Run<'_>,
        planned: &mut Planned,
        composer: &mut Composer<'_, Store>,
    ) -> anyhow::Result<Outcome> {
        let form = composer.form(target, planned, self.style(run)).await?;
        let (week, contact) = (&run.week.label, planned.recipient.contact.clone());
        planned.message = begun(&planned.message, (self.now)());
        self.commit(&planned.message).await?;
        tracing::debug!(week, destination = target.name, contact, "message begun");
        let outcome = match (&run.tools, &target.way) {
            // Mail alone needs these files; it waits for them.
            (Err(reason), Way::Mail(_)) => Outcome::Failed { reason: reason.clone(), wait: None, by_the_way: true },
            (tools, _) => {
                let sender = tools.as_ref().ok().and_then(|tools| tools.sender.as_ref());
                send(target, &form, &planned.message.message_id, sender, (self.now)()).await
            }
        };
        tracing::debug!(week, destination = target.name, contact, ?outcome, "message tried");
        planned.message = after(&planned.message, &outcome, (self.now)());
        self.commit(&planned.message).await?;
        match &outcome {
            Outcome::Taken => tracing::info!(week, destination = target.name, contact, "message sent"),
            Outcome::Refused(reason) => {
                tracing::error!(week, destination = target.name, contact, reason, "the message was refused");
            }
            Outcome::Failed { reason, .. } => {
                tracing::warn!(week, destination = target.name, contact, reason, "the message is not sent yet");
            }
        }
        self.count(target, &outcome);
        Ok(outcome)
    }

    async fn commit(&self, message: &Message) -> anyhow::Result<()> {
        self.store.note_messages(std::slice::from_ref(message)).await.context("cannot write the outbox")
    }

    fn count(&self, target: &Target, outcome: &Outcome) {
        let now = (self.now)();
        self.account(target, |outcomes| match outcome {
            Outcome::Taken => {
                outcomes.delivered += 1;
                outcomes.last_success_ms = Some(now);
            }
            Outcome::Refused(_) => outcomes.refused += 1,
            Outcome::Failed { .. } => outcomes.failed += 1,
        });
    }

    /// How the messages of the week stand, for pages and metrics.
    fn show(&self, target: &Target, planned: &[Planned]) {
        let rows = || planned.iter().map(|planned| &planned.message);
        let of = |state| rows().filter(move |message| message.state == state);
        let refused = of(MessageState::Refused).map(|message| Refused {
            contact: message.contact.clone(),
            reason: message.reason.clone().unwrap_or_default(),
        });
        let refused: Vec<Refused> = refused.take(MAX_REFUSED).collect();
        let is_failing = of(MessageState::Pending).any(|message| message.reason.is_some());
        let last = of(MessageState::Sent).map(|message| message.time_ms).max();
        self.account(target, |outcomes| {
            outcomes.pending = of(MessageState::Pending).count() as u64;
            outcomes.held = Some(of(MessageState::Held).count() as u64);
            outcomes.overdue = is_failing || !refused.is_empty();
            outcomes.last_success_ms = outcomes.last_success_ms.max(last);
            outcomes.refused_now = refused;
        });
    }

    fn account(&self, target: &Target, note: impl FnOnce(&mut Outcomes)) {
        debug_assert!(!matches!(target.way, Way::Directory(_)));
        self.tally.send_modify(|tally| note(tally.destinations.entry(target.name.clone()).or_default()));
    }
}
