//! Messages of a week, out of a store: who gets one, and what each says. Writes and sends nothing.

use std::collections::BTreeMap;

use anyhow::Context as _;
use goodput_exposition::sample::TimeMs;
use goodput_store::ReadVerdicts;
use goodput_verdict::{Message, MessageState, Unsubscribed};

use super::form::{Form, Style};
use super::letter::Letter;
use super::outbox::{About, Outcome, planned, sent_findings};
use super::recipients::{Recipient, owners, recipients};
use super::target::{Target, Way};
use super::{NotTaken, smtp, webhook};
use crate::report::{Period, Report, Terms, Wanted, stored_by_team};
use crate::teams::{Mapping, Teams};

/// Letters about a week. Those of teams are made when they are asked for, each once.
pub struct Composer<'a, V> {
    verdicts: &'a V,
    terms: &'a Terms,
    teams: &'a Teams,
    fleet: &'a Report,
    link: Option<&'a str>,
    by_team: BTreeMap<String, Letter>,
}

/// What the outbox knows.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Messages of [`weeks`].
    pub messages: &'a [Message],
    /// Who wants none.
    pub unsubscribed: &'a [Unsubscribed],
}

/// A message and who gets it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Who.
    pub recipient: Recipient,
    /// Its row of the outbox.
    pub message: Message,
    /// Is the row there already?
    pub is_known: bool,
}

/// The first and the last week whose messages say which findings a contact has had within seven days.
#[must_use]
pub fn weeks(week: &Period) -> [String; 2] {
    [week.previous().previous().label, week.label.clone()]
}

impl Known<'_> {
    fn wants_none(&self, destination: &str, contact: &str) -> bool {
        self.unsubscribed.iter().any(|who| who.destination == destination && who.contact == contact)
    }
}

impl<'a, V: ReadVerdicts> Composer<'a, V> {
    /// Of the week that this report of the fleet is about.
    pub fn new(
        verdicts: &'a V,
        (terms, teams): (&'a Terms, &'a Teams),
        fleet: &'a Report,
        link: Option<&'a str>,
    ) -> Self {
        Self { verdicts, terms, teams, fleet, link, by_team: BTreeMap::new() }
    }

    /// The message to a recipient, with every finding that it may name.
    pub async fn letter(&mut self, recipient: &Recipient) -> anyhow::Result<Letter> {
        let mut letters = Vec::new();
        for team in &recipient.teams {
            if !self.by_team.contains_key(team) {
                let letter = self.of_team(team).await?;
                self.by_team.insert(team.clone(), letter);
            }
            letters.extend(self.by_team.get(team).cloned());
        }
        Ok(Letter::joined(letters, self.link).unwrap_or_else(|| Letter::of(self.fleet, None, self.link)))
    }

    async fn of_team(&self, team: &str) -> anyhow::Result<Letter> {
        let wanted = Wanted { prices: &self.terms.prices, teams: self.teams, team: Some(team) };
        let read = stored_by_team(self.verdicts, self.fleet.period.clone(), wanted).await;
        let report = read.with_context(|| format!("cannot read the verdicts of team {team}"))?;
        Ok(Letter::of(&report.with_terms(self.terms), Some(team), self.link))
    }

    /// The message of each recipient: as the outbox has it, else as it is to be.
    pub async fn planned(
        &mut self,
        target: &Target,
        known: Known<'_>,
        edition: (u32, u32),
        domain: &str,
        now: TimeMs,
    ) -> anyhow::Result<Vec<Planned>> {
        let week = self.fleet.period.label.clone();
        let mapping = Mapping::at(self.teams, self.fleet.period.start_ms);
        let all = recipients(target, &mapping, &owners(self.fleet));
        let mut found = Vec::with_capacity(all.len());
        for recipient in all {
            let contact = recipient.contact.as_str();
            let is_it = |m: &&Message| m.destination == target.name && m.contact == contact && m.week == week;
            let row = known.messages.iter().find(is_it);
            let message = match row {
                Some(row) => row.clone(),
                None => {
                    let letter = self.letter(&recipient).await?;
                    let about = About { destination: &target.name, contact, week: &week, edition, domain };
                    let sent = sent_findings(known.messages, contact);
                    planned(&about, &letter.ids(), &sent, target.only_if, now)
                }
            };
            let is_open = matches!(message.state, MessageState::Pending | MessageState::Held);
            let state = match is_open && known.wants_none(&target.name, contact) {
                true => MessageState::Unsubscribed,
                false => message.state,
            };
            let is_known = row.is_some() && state == message.state;
            found.push(Planned { message: Message { state, ..message }, is_known, recipient });
        }
        Ok(found)
    }

    /// The message in the form in which it is sent.
    pub async fn form(&mut self, target: &Target, planned: &Planned, style: Style<'_>) -> anyhow::Result<Form> {
        let Planned { recipient, message, .. } = planned;
        let letter = self.letter(recipient).await?.naming(&message.findings);
        Form::of(target, (recipient, &recipient.contact), message, &letter, style)
    }
}

/// Hands a message to its receiver.
pub async fn send(
    target: &Target,
    form: &Form,
    message_id: &str,
    sender: Option<&smtp::Sender>,
    now: TimeMs,
) -> Outcome {
    let failed = |reason: String| Outcome::Failed { reason, wait: None, by_the_way: true };
    match (&target.way, form) {
        (Way::Mail(_), Form::Mail(mail)) => match sender {
            Some(sender) => sender.send(mail).await,
            None => failed("report.mail: missing".to_owned()),
        },
        (Way::Slack(address) | Way::Teams(address) | Way::Webhook(address), Form::Json(value)) => {
            let url = match webhook::resolve(address) {
                Ok(url) => url,
                Err(reason) => return failed(reason),
            };
            match webhook::post(url, value, Some(message_id), now).await {
                Ok(()) => Outcome::Taken,
                Err(error @ NotTaken::Refused { .. }) => Outcome::Refused(error.to_string()),
                Err(NotTaken::Failed { reason, wait }) => Outcome::Failed { reason, wait, by_the_way: true },
            }
        }
        _ => failed(format!("a message in another form than {} takes", target.way.kind())),
    }
}
