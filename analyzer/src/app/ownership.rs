//! What people say about findings: who may, and what becomes of it.

use std::net::IpAddr;

use axum::http::Extensions;
use goodput_web::{Asker, Local};

use super::App;
use crate::ownership::{Book, Offender, WEEKS, Wish, Wrong, check, offenders};
use crate::report::{FindingGroup, Ledger, Losses, Period, items};
use crate::schedule::instant;
use crate::teams::Mapping;
use goodput_exposition::sample::TimeMs;
use goodput_store::{Results, Said, StoreError};
use goodput_verdict::DAY_MS;

/// A finding of this time before now can be said something about, though no week has it yet.
const RECENT_MS: i64 = 9 * DAY_MS;

/// Where people may say something about findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// `web.findings_write` of the configuration.
    pub setting: Option<bool>,
    /// Is there an external URL, so that others reach the server through a proxy on this machine?
    pub is_external: bool,
}

impl Writes {
    /// May a request that came in at this address of ours change anything? None is that of a Unix socket.
    fn are_allowed_at(self, local: Option<IpAddr>) -> bool {
        let is_here = local.is_some_and(|local| local.to_canonical().is_loopback());
        self.setting.unwrap_or(is_here && !self.is_external)
    }

    /// The same of a request with these extensions.
    pub(crate) fn are_allowed(self, extensions: &Extensions) -> bool {
        let local = extensions.get::<Local>().and_then(|local| local.0);
        self.are_allowed_at(local.map(|local| local.ip()))
    }
}

/// Who asks, where the front door knows.
pub(crate) fn asker(extensions: &Extensions) -> Option<&str> {
    extensions.get::<Asker>().map(|asker| asker.0.as_str())
}

/// Why something was not said.
#[derive(Debug)]
pub(crate) enum NotSaid {
    /// It may not be said here.
    Off,
    /// There is no such finding.
    Unknown,
    /// What is wrong with it.
    Wrong(Wrong),
    /// Someone else was first.
    TooLate,
    /// The store.
    Store(StoreError),
}

impl NotSaid {
    /// What allows it.
    pub(crate) const OFF: &'static str = "web.findings_write: true in the configuration; without it findings can be \
        acknowledged on a loopback address alone, and not through --web.external-url";
}

impl From<StoreError> for NotSaid {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Wrong> for NotSaid {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

impl<S: Results> App<S> {
    /// What is known of findings beyond their figures.
    pub(crate) async fn book(&self) -> Result<Book, StoreError> {
        Book::read(&self.store, (self.now)()).await
    }

    /// Says something about a finding. `named` is who the request says it is, `after` the number of the last event that it
    /// knows. Gives the number of the event.
    pub(crate) async fn say(
        &self,
        id: &str,
        (wish, named): (Wish, Option<&str>),
        extensions: &Extensions,
        after: Option<i64>,
    ) -> Result<i64, NotSaid> {
        if !self.writes.are_allowed(extensions) {
            return Err(NotSaid::Off);
        }
        let actor = match (asker(extensions), named) {
            (Some(asker), Some(named)) if asker != named => {
                return Err(Wrong::new("actor", format!("none, or {asker}, who is logged in"), Some(named)).into());
            }
            (asker, named) => asker.or(named).unwrap_or_default(),
        };
        let event = check(id, wish, actor, (self.now)())?;
        if !self.knows(id).await? {
            return Err(NotSaid::Unknown);
        }
        match self.store.say(after, &event).await? {
            Said::Stored { seq } => {
                tracing::info!(finding = id, actor = event.actor, action = event.action.name(), seq, "said");
                Ok(seq)
            }
            Said::TooLate { .. } => Err(NotSaid::TooLate),
        }
    }

    async fn knows(&self, id: &str) -> Result<bool, StoreError> {
        let book = self.book().await?;
        let is_noted = !book.weeks(id).is_empty() || !book.events(id).is_empty();
        Ok(is_noted || self.recent_losses().await?.groups.iter().any(|group| group.id == id))
    }

    /// What was lost of late: in the week that goes on, and in the one before.
    async fn recent_losses(&self) -> Result<Losses, StoreError> {
        let now = (self.now)();
        let items = items(&self.store, &(now - RECENT_MS..now + DAY_MS), &self.terms.prices).await?;
        Ok(Losses::of(&items, None, Ledger::of(&items).capacity().ms))
    }

    /// A finding of late, and its losses; none where there is no such.
    pub(crate) async fn recent(&self, id: &str) -> Result<Option<(Losses, FindingGroup)>, StoreError> {
        let losses = self.recent_losses().await?;
        let found = losses.groups.iter().find(|group| group.id == id).cloned();
        Ok(found.map(|group| (losses, group)))
    }

    /// Findings that come again and again, with the contacts of their teams.
    pub(crate) async fn offenders(&self, team: Option<&str>) -> Result<Vec<Offender>, StoreError> {
        let now = (self.now)();
        let last = Period::this_week(instant(now), &self.zone);
        let first = (0..WEEKS).fold(last.clone(), |week, _| week.previous());
        let messages = self.store.messages([&first.label, &last.label]).await?;
        let mut all = offenders(&self.book().await?, &messages, now);
        all.retain(|one| team.is_none_or(|team| one.team.as_deref() == Some(team)));
        let teams = self.terms.teams.teams();
        let mapping = Mapping::at(&teams, now);
        for one in &mut all {
            let place = one.team.as_deref().and_then(|team| mapping.place(team));
            let contacts = place.map_or(&[][..], |place| &mapping.teams()[place].contacts);
            one.contacts =
                contacts.iter().map(|contact| format!("{} {}", contact.channel.name(), contact.to)).collect();
        }
        Ok(all)
    }
}

/// The end of the day that a form names.
pub(crate) fn day_of(text: &str, zone: &jiff::tz::TimeZone) -> Option<TimeMs> {
    let time = crate::report::period::parse_time(text, zone).ok()?;
    Some(time.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_setting_findings_are_written_on_this_machine_alone() {
        let at = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        for (setting, is_external, local, expected) in [
            (None, false, at("127.0.0.1"), true),
            (None, false, at("::ffff:127.0.0.1"), true),
            (None, false, at("::1"), true),
            (None, false, at("10.0.0.1"), false),
            (None, false, None, false),
            (None, true, at("127.0.0.1"), false),
            (Some(true), true, at("10.0.0.1"), true),
            (Some(true), false, None, true),
            (Some(false), false, at("127.0.0.1"), false),
        ] {
            assert_eq!(Writes { setting, is_external }.are_allowed_at(local), expected, "{setting:?} {local:?}");
        }
        assert!(!Writes::default().are_allowed(&Extensions::new()), "where the address is not known");
    }
}
