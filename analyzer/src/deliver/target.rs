//! Where messages about reports go, as the configuration says it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use lettre::Address as MailAddress;
use lettre::message::Mailbox;

use super::Address;

/// Messages of a run where nothing else is configured: more than that is a mapping gone wrong.
pub const AT_MOST: usize = 500;

/// A destination by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name: in metrics, on the State page, in the outbox.
    pub name: String,
    /// How it is reached.
    pub way: Way,
    /// Which teams get a message of their own.
    pub teams: Audience,
    /// When there is a message at all.
    pub only_if: OnlyIf,
    /// Messages of one run; what is beyond them is held back.
    pub at_most: usize,
}

/// How a destination is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Mail to these addresses, and to the contacts of teams.
    Mail(Vec<MailAddress>),
    /// A webhook that takes blocks as Slack's.
    Slack(Address),
    /// A webhook of Microsoft Teams, which takes Adaptive Cards.
    Teams(Address),
    /// A webhook that takes JSON.
    Webhook(Address),
    /// Files of the report.
    Directory(PathBuf),
}

impl Way {
    /// The value of `kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mail(_) => "smtp",
            Self::Slack(_) => "slack",
            Self::Teams(_) => "teams",
            Self::Webhook(_) => "webhook",
            Self::Directory(_) => "directory",
        }
    }
}

/// Which teams get a message of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// None: there is one message, about the fleet.
    #[default]
    Fleet,
    /// Every team.
    All,
    /// The teams that hold one of the first findings of the fleet.
    Owners,
    /// These.
    Named(Vec<String>),
}

goodput_catalog::named! {
    /// When there is a message.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OnlyIf {
        /// Where a finding is large enough to be acted on, and was not sent within a week.
        #[default]
        Findings = "findings",
        /// Every week.
        Always = "always",
    }

    /// How a connection to a mail server is encrypted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Security {
        /// It begins in plain text, and is encrypted before anything is said.
        #[default]
        StartTls = "starttls",
        /// From its first byte.
        Tls = "tls",
    }
}

/// The server that takes mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailServer {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted; it is not at all where `insecure` is true.
    pub security: Security,
    /// Who mail is from.
    pub from: Mailbox,
    /// Who logs in; none where the server asks for no login.
    pub username: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The file with further certificates of authorities, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Not encrypted, which only a server on this machine may be.
    pub insecure: bool,
}

impl MailServer {
    /// The port that servers listen on for this.
    #[must_use]
    pub fn default_port(security: Security, insecure: bool) -> u16 {
        match (insecure, security) {
            (true, _) => 25,
            (false, Security::StartTls) => 587,
            (false, Security::Tls) => 465,
        }
    }
}

/// Does the name mean this machine?
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// As the file has it.
impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("[]"),
            Self::All => f.write_str("all"),
            Self::Owners => f.write_str("owners"),
            Self::Named(names) => write!(f, "{names:?}"),
        }
    }
}
