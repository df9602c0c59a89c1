//! The weekly report on its way to people: files in a directory, then a message to a webhook.
//!
//! What is promised: a file is whole or not there, and writing it twice gives the same file. The message is posted
//! after the files are written and recorded after the receiver has said 2xx, so that it is never lost. It comes twice
//! only where the analyzer or the connection dies between the two, because then it is unknown whether it was taken.
//!
//! Messages of `destinations` go by an outbox instead: a row is committed before anything is sent, and each attempt has the
//! same identity, so that a receiver knows a message that comes twice.

pub mod card;
pub mod compose;
pub mod directory;
pub mod form;
pub mod letter;
pub mod mail;
pub mod outbox;
pub mod recipients;
pub mod slack;
pub mod smtp;
pub mod target;
pub mod unsubscribe;
pub mod webhook;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goodput_settings::kind::{self, Period, Unset};
use goodput_settings::{Kind, settings};
use jiff::civil::{Time, Weekday};

use crate::report::{Price, Report, Site, csv, html, markdown, showback, team_csv};
use crate::schedule::Schedule;
use goodput_verdict::{Delivered, Interval};
use target::{MailServer, Target, Way};

settings! {
    /// When reports are made and where they go.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings: "report" {
        /// When; the file has to say it.
        pub schedule: Schedule = Schedule { weekday: Weekday::Monday, time: Time::midnight() },
        /// Where the message is posted.
        pub webhook: Option<Address> = None,
        /// Who gets messages, and how.
        pub targets: Vec<Target> = Vec::new(),
        /// The server that takes mail.
        pub mail: Option<MailServer> = None,
    }
    directory: Unset<kind::Path> = None,
        "Where files of the report are written.";
    link: Unset<Link> = None,
        "Where people reach this analyzer: the base of links in the message.";
    unsubscribe_key_file: Unset<kind::Path> = None,
        "A file of 32 bytes or more, with which links to unsubscribe are signed. Without it, or without `link`, mail has none.";
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

/// A destination that gets the report itself, or one message about it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'s> {
    /// Its name.
    pub name: &'s str,
    /// The folder for files; none where it gets the message of `report.webhook`.
    pub folder: Option<&'s Path>,
}

impl Settings {
    /// The destinations of files, then the one of `report.webhook`, in the order in which they are served.
    #[must_use]
    pub fn places(&self) -> Vec<Place<'_>> {
        let directory = self.directory.as_deref().map(|path| (Destination::Directory.name(), path));
        let targets = self.targets.iter().filter_map(|target| match &target.way {
            Way::Directory(path) => Some((target.name.as_str(), path.as_path())),
            _ => None,
        });
        let files = directory.into_iter().chain(targets).map(|(name, path)| Place { name, folder: Some(path) });
        let webhook = self.webhook.as_ref().map(|_| Place { name: Destination::Webhook.name(), folder: None });
        files.chain(webhook).collect()
    }

    /// The destinations of messages that go by the outbox.
    pub fn by_outbox(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| !matches!(target.way, Way::Directory(_)))
    }

    /// Are there files with secrets that cannot be used? The first is named, with its field.
    pub fn check_files(&self) -> Result<(), String> {
        for (n, target) in self.targets.iter().enumerate() {
            if let Way::Slack(address) | Way::Teams(address) | Way::Webhook(address) = &target.way {
                webhook::resolve(address).map_err(|error| format!("report.destinations[{n}].to: {error}"))?;
            }
        }
        if let Some(server) = &self.mail {
            smtp::Sender::new(server).map_err(|error| format!("report.mail: {error}"))?;
        }
        if let Some(path) = &self.unsubscribe_key_file {
            unsubscribe::Key::of_file(path).map_err(|error| format!("report.unsubscribe_key_file: {error}"))?;
        }
        Ok(())
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
    pub fn step(self, place: Place<'_>, delivered: &[Delivered]) -> Step {
        let mut rows = delivered.iter().filter(|row| row.destination == place.name);
        if rows.clone().any(|row| row.version == self.version) {
            return Step::Nothing;
        }
        match place.folder {
            None if rows.any(|row| row.time_ms.is_some()) => Step::Withhold,
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
    let by_account = showback::render(&report.period, intervals, prices);
    Ok([
        ("intervals.csv", csv::render(intervals)),
        ("csv", if report.teams.is_configured { team_csv::render(report) } else { by_account.clone() }),
        ("accounts.csv", by_account),
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
        let place =
            |name: Destination| Place { name: name.name(), folder: (name == Directory).then_some(Path::new("/r")) };
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
            assert_eq!(edition.step(place(Directory), &delivered), directory, "{delivered:?}");
            assert_eq!(edition.step(place(Webhook), &delivered), webhook, "{delivered:?}");
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
