//! What becomes of messages: planned, tried, taken, refused. Pure: the clock, the store and receivers are elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::target::OnlyIf;
use super::webhook::backoff;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{DAY_MS, Message, MessageState};

/// A finding is sent to a contact once in this time.
pub const APART_MS: TimeMs = 7 * DAY_MS;
/// For a finding whose time comes within this, the message waits; else it is without it.
const PATIENCE_MS: TimeMs = DAY_MS / 2;
/// Findings that a message names.
pub const FINDINGS: usize = 3;

/// What a message is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The destination.
    pub destination: &'a str,
    /// Who gets it.
    pub contact: &'a str,
    /// The ISO week.
    pub week: &'a str,
    /// Version and digest of the report.
    pub edition: (u32, u32),
    /// What stands behind the `@` of its id.
    pub domain: &'a str,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Taken,
    /// Another attempt may help.
    Failed {
        /// What happened.
        reason: String,
        /// How long the receiver asked to be left alone.
        wait: Option<Duration>,
        /// Was it the way to the receiver? Then other messages would fail too.
        by_the_way: bool,
    },
    /// Another attempt would not help.
    Refused(String),
}

/// The identity of a message: the same for every attempt, after any restart.
#[must_use]
pub fn message_id(destination: &str, contact: &str, week: &str, domain: &str) -> String {
    let digest = Sha256::digest([destination, contact, week].join("\n"));
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}@{domain}")
}

/// When each finding was last sent to a contact, at whatever destination.
#[must_use]
pub fn sent_findings<'m>(messages: &'m [Message], contact: &str) -> BTreeMap<&'m str, TimeMs> {
    let mut sent: BTreeMap<&str, TimeMs> = BTreeMap::new();
    for message in messages.iter().filter(|m| m.contact == contact && m.state == MessageState::Sent) {
        for id in &message.findings {
            let last = sent.entry(id).or_insert(message.time_ms);
            *last = (*last).max(message.time_ms);
        }
    }
    sent
}

/// A message, before any attempt: it names the first findings that were not sent to the contact for a week.
#[must_use]
pub fn planned(
    about: &About<'_>,
    findings: &[&str],
    sent: &BTreeMap<&str, TimeMs>,
    only_if: OnlyIf,
    now: TimeMs,
) -> Message {
    let due = |id: &&str| sent.get(*id).map_or(now, |last| last.saturating_add(APART_MS));
    let named: Vec<&str> = findings.iter().copied().filter(|id| due(id) <= now + PATIENCE_MS).take(FINDINGS).collect();
    let is_empty = named.is_empty() && only_if == OnlyIf::Findings;
    Message {
        destination: about.destination.to_owned(),
        contact: about.contact.to_owned(),
        week: about.week.to_owned(),
        version: about.edition.0,
        digest: about.edition.1,
        state: if is_empty { MessageState::Withheld } else { MessageState::Pending },
        attempts: 0,
        next_ms: named.iter().map(due).max().unwrap_or(now).max(now),
        message_id: message_id(about.destination, about.contact, about.week, about.domain),
        time_ms: now,
        findings: named.into_iter().map(str::to_owned).collect(),
        reason: None,
    }
}

/// Counts against the most messages of a run?
fn counts(message: &Message) -> bool {
    matches!(message.state, MessageState::Pending | MessageState::Sent | MessageState::Refused)
}

/// Holds back those of `messages`, which are all of a destination and week, that are beyond `at_most`, and lets others go
/// that were held back. Those that were tried come first, then the order of the list decides. Gives those that changed.
#[must_use]
pub fn held_to(messages: &mut [Message], at_most: usize, now: TimeMs) -> Vec<Message> {
    let mut left = at_most.saturating_sub(messages.iter().filter(|m| counts(m) && m.attempts > 0).count());
    let mut changed = Vec::new();
    let waiting = |m: &&mut Message| m.attempts == 0 && matches!(m.state, MessageState::Pending | MessageState::Held);
    for message in messages.iter_mut().filter(waiting) {
        let state = if left > 0 { MessageState::Pending } else { MessageState::Held };
        left = left.saturating_sub(1);
        if message.state != state {
            (message.state, message.time_ms) = (state, now);
            changed.push(message.clone());
        }
    }
    changed
}

/// The message, with an attempt begun.
#[must_use]
pub fn begun(message: &Message, now: TimeMs) -> Message {
    Message { attempts: message.attempts.saturating_add(1), time_ms: now, ..message.clone() }
}

/// The message after an attempt.
#[must_use]
pub fn after(message: &Message, outcome: &Outcome, now: TimeMs) -> Message {
    let (state, reason, wait) = match outcome {
        Outcome::Taken => (MessageState::Sent, None, None),
        Outcome::Refused(reason) => (MessageState::Refused, Some(reason.clone()), None),
        Outcome::Failed { reason, wait, .. } => {
            (MessageState::Pending, Some(reason.clone()), Some(backoff(message.attempts, *wait)))
        }
    };
    let wait = wait.map_or(0, |wait| TimeMs::try_from(wait.as_millis()).unwrap_or(TimeMs::MAX));
    Message { state, reason, next_ms: now.saturating_add(wait), time_ms: now, ..message.clone() }
}

/// How long it is until the next attempt at any of these; none where nothing is to be sent.
#[must_use]
pub fn wait(messages: &[Message], now: TimeMs) -> Option<Duration> {
    let pending = messages.iter().filter(|message| message.state == MessageState::Pending);
    let next = pending.map(|message| message.next_ms).min()?;
    Some(Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimeMs = 1_795_413_600_000;

    fn plan(findings: &[&str], sent: &[(&'static str, TimeMs)], only_if: OnlyIf) -> Message {
        let about = About { destination: "d", contact: "a@b.c", week: "2026-W47", edition: (1, 7), domain: "b.c" };
        planned(&about, findings, &sent.iter().copied().collect(), only_if, NOW)
    }

    fn states(messages: &[Message]) -> Vec<&'static str> {
        messages.iter().map(|message| message.state.name()).collect()
    }

    #[test]
    fn the_id_is_a_function_of_the_key_alone() {
        let id = message_id("d", "a@b.c", "2026-W47", "b.c");
        assert_eq!(id, plan(&["x"], &[], OnlyIf::Always).message_id);
        assert_eq!((id.len(), id.ends_with("@b.c")), (36, true), "{id}");
        for other in [("e", "a@b.c", "2026-W47"), ("d", "b@b.c", "2026-W47"), ("d", "a@b.c", "2026-W48")] {
            assert_ne!(message_id(other.0, other.1, other.2, "b.c"), id);
        }
    }

    #[test]
    fn a_finding_is_sent_once_in_seven_days() {
        let ago = |ms| NOW - APART_MS + ms;
        for (findings, sent, named, next) in [
            (&["x", "y"][..], &[][..], &["x", "y"][..], NOW),
            (&["x", "y", "z", "w"], &[], &["x", "y", "z"], NOW),
            // A week ago to the millisecond, or longer.
            (&["x"], &[("x", ago(0))], &["x"], NOW),
            // A little less: the message waits. Much less: it is without it.
            (&["x", "y"], &[("x", ago(5000))], &["x", "y"], NOW + 5000),
            (&["x", "y"], &[("x", ago(PATIENCE_MS + 1))], &["y"], NOW),
            (&["x", "y", "z", "w"], &[("y", NOW)], &["x", "z", "w"], NOW),
        ] {
            let message = plan(findings, sent, OnlyIf::Findings);
            assert_eq!(
                (message.findings.as_slice(), message.next_ms),
                (named.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>().as_slice(), next),
                "{findings:?} {sent:?}"
            );
            assert_eq!(message.state, MessageState::Pending);
        }
    }

    #[test]
    fn without_a_finding_there_is_a_message_only_where_it_is_always_wanted() {
        let state = |only_if| plan(&["x"], &[("x", NOW)], only_if).state;
        assert_eq!(state(OnlyIf::Findings), MessageState::Withheld);
        assert_eq!(state(OnlyIf::Always), MessageState::Pending);
    }

    #[test]
    fn what_was_sent_counts_for_its_contact_alone_and_failures_do_not() {
        let message = |contact: &str, state, time_ms| Message {
            contact: contact.to_owned(),
            state,
            time_ms,
            ..plan(&["x"], &[], OnlyIf::Always)
        };
        let all = [
            message("a", MessageState::Sent, 5),
            message("a", MessageState::Sent, 3),
            message("a", MessageState::Pending, 9),
            message("b", MessageState::Sent, 8),
        ];
        assert_eq!(sent_findings(&all, "a"), BTreeMap::from([("x", 5)]));
        assert_eq!(sent_findings(&all, "c"), BTreeMap::new());
    }

    #[test]
    fn no_more_than_the_most_go_and_a_higher_limit_lets_the_rest_go() {
        let mut messages = vec![plan(&["x"], &[], OnlyIf::Always); 5];
        messages[1] = after(&begun(&messages[1], NOW), &Outcome::Taken, NOW);
        messages[4].state = MessageState::Withheld;
        let changed = held_to(&mut messages, 2, NOW + 1);
        assert_eq!(states(&messages), ["pending", "sent", "held", "held", "withheld"]);
        assert_eq!(changed.len(), 2);
        assert!(held_to(&mut messages, 2, NOW + 2).is_empty(), "nothing changes twice");
        assert_eq!(held_to(&mut messages, 3, NOW + 2).len(), 1);
        assert_eq!(states(&messages), ["pending", "sent", "pending", "held", "withheld"]);
        let _ = held_to(&mut messages, 1, NOW + 3);
        assert_eq!(
            states(&messages),
            ["held", "sent", "held", "held", "withheld"],
            "a lower one holds back what was not tried"
        );
    }

    #[test]
    fn attempts_end_taken_refused_or_later() {
        let message = begun(&plan(&["x"], &[], OnlyIf::Always), NOW + 1);
        assert_eq!((message.attempts, message.state, message.time_ms), (1, MessageState::Pending, NOW + 1));
        let taken = after(&message, &Outcome::Taken, NOW + 2);
        assert_eq!((taken.state, taken.reason.as_deref(), taken.time_ms), (MessageState::Sent, None, NOW + 2));
        let refused = after(&message, &Outcome::Refused("550 no such user".into()), NOW + 2);
        assert_eq!((refused.state, refused.reason.as_deref()), (MessageState::Refused, Some("550 no such user")));
        let failed = |wait| Outcome::Failed { reason: "450 later".into(), wait, by_the_way: false };
        let once = after(&message, &failed(None), NOW);
        assert_eq!((once.state, once.next_ms), (MessageState::Pending, NOW + 1000));
        let twice = after(&begun(&once, NOW), &failed(None), NOW);
        assert_eq!(twice.next_ms, NOW + 2000, "waits double");
        let asked = after(&message, &failed(Some(Duration::from_secs(30))), NOW);
        assert_eq!(asked.next_ms, NOW + 30_000);
        assert_eq!(once.message_id, taken.message_id);
    }

    #[test]
    fn the_next_attempt_is_that_of_the_first_that_is_pending() {
        let mut messages = vec![plan(&["x"], &[], OnlyIf::Always); 3];
        (messages[0].next_ms, messages[1].next_ms, messages[2].next_ms) = (NOW + 9, NOW + 5, NOW + 1);
        messages[2].state = MessageState::Sent;
        assert_eq!(wait(&messages, NOW), Some(Duration::from_millis(5)));
        assert_eq!(wait(&messages, NOW + 7), Some(Duration::ZERO));
        messages.iter_mut().for_each(|message| message.state = MessageState::Held);
        assert_eq!(wait(&messages, NOW), None);
    }
}
