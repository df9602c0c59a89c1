//! The weekly report on its way to people: files in a directory, then a message to a webhook.
//!
//! What is promised: a file is whole or not there, and writing it twice gives the same file. The message is posted
//! after the files are written and recorded after the receiver has said 2xx, so that it is never lost. It comes twice
//! only where the analyzer or the connection dies between the two, because then it is unknown whether it was taken.

pub mod directory;
pub mod slack;
pub mod webhook;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use goodput_settings::kind::{self, Period, Unset};
use goodput_settings::{Kind, settings};
use jiff::civil::{Time, Weekday};

use crate::report::{Price, Report, Site, csv, html, markdown, showback, team_csv};
use crate::schedule::Schedule;
use goodput_verdict::{Delivered, Interval};

settings! {
    /// When reports are made and where they go.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings: "report" {
        /// When; the file has to say it.
        pub schedule: Schedule = Schedule { weekday: Weekday::Monday, time: Time::midnight() },
        /// Where the message is posted.
        pub webhook: Option<Address> = None,
    }
    directory: Unset<kind::Path> = None,
        "Where files of the report are written.";
    link: Unset<Link> = None,
        "Where people reach this analyzer: the base of links in the message.";
    // Prometheus tries again after 5 s at most (`queue_config.max_backoff`) once it reaches a receiver again; minutes are
    // for what it then has to bring.
    settle: Period = Duration::from_mins(5),
        "How long the verdicts of a week must have stood before its report is delivered, so that senders that buffered samples can bring them.";
}

/// An address that people can follow.
pub struct Link;

impl Kind for Link {
    type Value = String;
    const EXPECTED: &'static str = "an http or https URL such as https://goodput.example/";

    fn read(text: &str) -> Option<String> {
        webhook::parse(text).map(|_| text.to_owned())
    }

    fn write(value: &String) -> Option<String> {
        Some(format!("{value:?}"))
    }
}

/// A webhook's address. It is a secret, for who knows it may post: neither `Debug` nor anything else shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// As configured.
    Plain(String),
    /// Read from this file whenever it is needed.
    File(PathBuf),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("Plain(hidden)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

goodput_catalog::named! {
    /// Where a report goes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Destination {
        /// Files.
        Directory = "directory",
        /// A message.
        Webhook = "webhook",
    }
}

impl Settings {
    /// The configured destinations, in the order in which they are served.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> {
        let directory = self.directory.as_ref().map(|_| Destination::Directory);
        directory.into_iter().chain(self.webhook.as_ref().map(|_| Destination::Webhook))
    }
}

/// Why a destination has not taken the report.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// Repeating it will not help.
    #[error("the webhook refused the message with status {status}: {answer:?}")]
    Refused {
        /// Its status.
        status: u16,
        /// The beginning of its answer.
        answer: String,
    },
    /// It may help.
    #[error("{reason}")]
    Failed {
        /// What happened.
        reason: String,
        /// How long the receiver asked to be left alone.
        wait: Option<Duration>,
    },
}

/// A state of a week's verdicts: what is to be delivered of it, given what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// 1, or above once a delivered week came out differently.
    pub version: u32,
    /// Verdicts changed after an earlier version was delivered, and that is not recorded yet.
    pub restates: bool,
}

/// What a destination needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has this version.
    Nothing,
    /// It gets this version.
    Send,
    /// It had its one message; that there is none of this version is noted.
    Withhold,
}

impl Edition {
    /// The version of verdicts with this digest.
    #[must_use]
    pub fn of(digest: u32, delivered: &[Delivered]) -> Self {
        match delivered.iter().max_by_key(|row| row.version) {
            None => Self { version: 1, restates: false },
            Some(last) if last.digest == digest => Self { version: last.version, restates: false },
            Some(last) => Self { version: last.version + 1, restates: true },
        }
    }

    /// Files are kept by version; a message is posted once per week.
    #[must_use]
    pub fn step(self, destination: Destination, delivered: &[Delivered]) -> Step {
        let mut rows = delivered.iter().filter(|row| row.destination == destination.name());
        if rows.clone().any(|row| row.version == self.version) {
            return Step::Nothing;
        }
        match destination {
            Destination::Webhook if rows.any(|row| row.time_ms.is_some()) => Step::Withhold,
            _ => Step::Send,
        }
    }

    /// The file name without its ending.
    #[must_use]
    pub fn stem(self, week: &str) -> String {
        if self.version == 1 { week.to_owned() } else { format!("{week}.v{}", self.version) }
    }
}

/// CRC-32 of what each GPU-millisecond was booked on; evidence may be reworded without a restatement.
#[must_use]
pub fn digest(intervals: &[Interval]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for i in intervals {
        let owner = i.owner.as_deref().unwrap_or_default();
        let class = i.class.name();
        hasher.update(format!("{}\n{}\n{owner}\n{class}\n", i.node, i.gpu).as_bytes());
        for number in [i.start_ms, i.end_ms, i.ms] {
            hasher.update(&number.to_le_bytes());
        }
    }
    hasher.finalize()
}

/// Every form of the report with the ending of its file; the page that people open comes last.
pub fn forms(
    report: &Report,
    intervals: &[Interval],
    prices: &[Price],
    site: &Site,
) -> anyhow::Result<[(&'static str, String); 6]> {
    Ok([
        ("intervals.csv", csv::render(intervals)),
        ("accounts.csv", showback::render(&report.period, intervals, prices)),
        ("csv", team_csv::render(report)),
        ("json", report.json()?),
        ("md", markdown::render(report)?),
        ("html", html::render(report, site)?),
    ])
}

#[cfg(test)]
mod tests {
    use goodput_exposition::sample::TimeMs;

    use super::*;

    fn row(version: u32, destination: Destination, digest: u32, time_ms: Option<TimeMs>) -> Delivered {
        Delivered { version, destination: destination.name().to_owned(), digest, time_ms }
    }

    #[test]
    fn each_destination_once_per_version_and_one_message_per_week() {
        use Destination::{Directory, Webhook};
        let file = |version, digest| row(version, Directory, digest, Some(1));
        let message = |version, digest| row(version, Webhook, digest, Some(1));
        let noted = |version, digest| row(version, Webhook, digest, None);
        for (delivered, version, restates, directory, webhook) in [
            (vec![], 1, false, Step::Send, Step::Send),
            (vec![file(1, 7)], 1, false, Step::Nothing, Step::Send),
            (vec![file(1, 7), message(1, 7)], 1, false, Step::Nothing, Step::Nothing),
            (vec![file(1, 6), message(1, 6)], 2, true, Step::Send, Step::Withhold),
            (vec![file(1, 6)], 2, true, Step::Send, Step::Send),
            (vec![message(1, 6)], 2, true, Step::Send, Step::Withhold),
            (vec![message(1, 6), noted(2, 7)], 2, false, Step::Send, Step::Nothing),
            (vec![file(1, 6), file(2, 7), message(1, 6)], 2, false, Step::Nothing, Step::Withhold),
            (vec![file(1, 7), file(2, 6), message(1, 7), noted(2, 6)], 3, true, Step::Send, Step::Withhold),
        ] {
            let edition = Edition::of(7, &delivered);
            assert_eq!(edition, Edition { version, restates }, "{delivered:?}");
            assert_eq!(edition.step(Directory, &delivered), directory, "{delivered:?}");
            assert_eq!(edition.step(Webhook, &delivered), webhook, "{delivered:?}");
        }
        assert_eq!(Edition { version: 1, restates: false }.stem("2026-W47"), "2026-W47");
        assert_eq!(Edition { version: 2, restates: true }.stem("2026-W47"), "2026-W47.v2");
    }

    #[test]
    fn an_address_is_never_shown() {
        let shown = format!("{:?}", Address::Plain("https://hooks.example/secret".into()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
