//! Teams of the configuration, and whose GPU time is theirs. Pure, but for [`Live`], which follows the file that names them.

mod live;
mod mapping;
mod spread;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

pub use live::{Live, Loaded};
pub use mapping::{Line, Mapper, Mapping, Who};
pub use spread::apportion;

use goodput_exposition::sample::TimeMs;
use goodput_verdict::Class;

/// The line of time that someone held and no team's pattern matches.
pub const UNASSIGNED: &str = "unassigned";
/// The line of time that belongs to no team: see [`is_shared`].
pub const PLATFORM: &str = "platform";

/// The teams of an organisation, and how loss that they share is charged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Teams {
    /// In the order in which they are tried.
    pub all: Vec<Team>,
    /// How shared loss is charged.
    pub spread: Spread,
}

/// An entry of the list. A team may have several, each valid from another day on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Time is the team's where one of these matches.
    pub patterns: Vec<Pattern>,
    /// The team that it is part of.
    pub parent: Option<String>,
    /// Who pays, in the organisation's own words.
    pub cost_centre: Option<String>,
    /// Whom to write to.
    pub contacts: Vec<Contact>,
    /// From when on the entry is valid; always, where it says nothing.
    pub valid_from: Option<ValidFrom>,
}

/// A day and its first instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidFrom {
    /// As in `2026-12-01`, in the zone of reports.
    day: String,
    /// Unix milliseconds.
    pub ms: TimeMs,
}

impl ValidFrom {
    /// A day that begins at this instant.
    #[must_use]
    pub fn new(day: Date, ms: TimeMs) -> Self {
        Self { day: day.to_string(), ms }
    }

    /// As in `2026-12-01`.
    #[must_use]
    pub fn day(&self) -> &str {
        &self.day
    }
}

/// What time has to be like: the field's text has the form of the pattern, in which `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pattern {
    /// The field.
    pub field: Field,
    /// The pattern.
    pub text: String,
}

goodput_catalog::named! {
    /// What a pattern looks at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Field {
        /// The account: of a Slurm job, else the namespace of a pod.
        Account = "account",
        /// The namespace of a pod.
        Namespace = "namespace",
        /// The owner of the GPU, or the run that it is part of.
        Owner = "owner",
        /// The node.
        Node = "node",
    }

    /// Where a contact is reached.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Channel {
        /// An address of mail.
        Mail = "mail",
        /// A channel of Slack.
        Slack = "slack",
        /// A channel of Microsoft Teams.
        Teams = "teams",
    }

    /// How loss that teams share is charged.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Spread {
        /// It stays on the line `platform`.
        #[default]
        None = "none",
        /// It is divided by the GPU time that each line held.
        ByAllocation = "by_allocation",
    }
}

/// Whom to write to about a team's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Contact {
    /// Where.
    pub channel: Channel,
    /// Address or name there.
    pub to: String,
}

impl Teams {
    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The same text for the same teams, as it is stored.
    pub fn content(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Out of [`Teams::content`].
    pub fn of_content(content: &str) -> serde_json::Result<Self> {
        serde_json::from_str(content)
    }
}

/// Is time of the class a loss that all teams share? It is on the line [`PLATFORM`], no matter which team held the GPU.
#[must_use]
pub fn is_shared(class: Class) -> bool {
    matches!(class, Class::Unallocated | Class::NoData | Class::Down | Class::Maintenance)
}
