//! Messages about weekly reports, as the outbox has them.

use goodput_exposition::sample::TimeMs;

goodput_catalog::named! {
    /// What became of a message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum MessageState {
        /// It is to be sent, also where attempts have failed.
        Pending = "pending",
        /// The receiver took it.
        Sent = "sent",
        /// The receiver refused it for good.
        Refused = "refused",
        /// It is beyond the most messages of a run.
        Held = "held",
        /// There was nothing to say.
        Withheld = "withheld",
        /// The contact wants no messages of the destination.
        Unsubscribed = "unsubscribed",
    }
}

/// A row of the outbox. Destination, contact and week name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name in the configuration.
    pub destination: String,
    /// Who gets it: an address, or a team.
    pub contact: String,
    /// ISO week, such as 2026-W47.
    pub week: String,
    /// Of the report, from 1.
    pub version: u32,
    /// CRC-32 of the verdicts of that version.
    pub digest: u32,
    /// What became of it.
    pub state: MessageState,
    /// Attempts that were begun.
    pub attempts: u32,
    /// Unix milliseconds; not before then is the next attempt.
    pub next_ms: TimeMs,
    /// As the header `Message-ID` has it, without angle brackets.
    pub message_id: String,
    /// Unix milliseconds of the last change.
    pub time_ms: TimeMs,
    /// Ids of the findings that it names.
    pub findings: Vec<String>,
    /// Why the last attempt came to nothing.
    pub reason: Option<String>,
}

/// A contact that wants no messages of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribed {
    /// Its name in the configuration.
    pub destination: String,
    /// Who.
    pub contact: String,
    /// Since when, in Unix milliseconds.
    pub time_ms: TimeMs,
}
