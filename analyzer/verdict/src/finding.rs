//! What people said about findings, and in which weeks findings were there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Class;
use goodput_exposition::sample::TimeMs;

goodput_catalog::named! {
    /// What was said about a finding.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FindingAction {
        /// It is known, and will be looked at.
        Acknowledge = "acknowledge",
        /// The fix is in place.
        Claim = "claim",
        /// Not before a date.
        Snooze = "snooze",
        /// It stays as it is, for a reason, until a review.
        Accept = "accept",
        /// Who looks at it.
        Assign = "assign",
        /// A remark alone.
        Comment = "comment",
        /// It is open again.
        Reopen = "reopen",
        /// A claimed fix was measured to work. No person says so.
        Verified = "verified",
        /// A claimed fix was measured not to work. No person says so.
        NotVerified = "not_verified",
    }
}

/// One thing that was said about a finding. Never changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingEvent {
    /// Its number among the events of the finding, from 1.
    pub seq: i64,
    /// The finding.
    #[serde(skip)]
    pub id: String,
    /// When it was said, in Unix milliseconds.
    pub time_ms: TimeMs,
    /// Who said it.
    pub actor: String,
    /// What was said.
    pub action: FindingAction,
    /// Of `snooze` and `accept`: until when, in Unix milliseconds; null of others.
    pub until_ms: Option<TimeMs>,
    /// Of `assign`: who looks at it; null where it is no longer assigned, and of others.
    pub assignee: Option<String>,
    /// A remark; of `accept` the reason.
    pub comment: Option<String>,
    /// A ticket.
    pub url: Option<String>,
}

/// A finding in a week that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingWeek {
    /// ISO week, such as 2026-W47.
    pub week: String,
    /// The finding.
    #[serde(skip)]
    pub id: String,
    /// Start of the week, in Unix milliseconds.
    pub start_ms: TimeMs,
    /// End of the week (exclusive), in Unix milliseconds.
    pub end_ms: TimeMs,
    /// The cluster; null where series name none.
    pub cluster: Option<String>,
    /// The class.
    pub class: Class,
    /// Whose it is: the work, or the model of the GPUs.
    pub subject: String,
    /// The team that had the most of it; null where no teams are configured.
    pub team: Option<String>,
    /// GPU-milliseconds lost; 0 where the same work or GPUs were there without the finding.
    pub lost_ms: i64,
    /// GPU-milliseconds of the same work or GPUs that have data; 0 where less than 90 % of their time has data.
    pub ran_ms: i64,
    /// ISO 4217; null where not all of the loss has a price in one currency.
    pub currency: Option<String>,
    /// What the loss cost, in millionths of the currency.
    pub lost_micro: Option<i64>,
    /// Was it large enough to be acted on?
    pub is_first: bool,
}
