//! The state of a finding: the fold of what was said about it and of the weeks that it was in.

use schemars::JsonSchema;
use serde::Serialize;

use super::{GONE_AFTER, is_without};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{FindingAction, FindingEvent, FindingWeek};

goodput_catalog::named! {
    /// Where a finding stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum State {
        /// It waits for someone to look at it.
        Open = "open",
        /// Someone knows of it.
        Acknowledged = "acknowledged",
        /// Someone says that the fix is in place.
        FixClaimed = "fix_claimed",
        /// The fix was measured to work.
        Verified = "verified",
        /// The fix was measured not to work.
        NotVerified = "not_verified",
        /// It is left alone until a date, or until it grows.
        Snoozed = "snoozed",
        /// It stays as it is until a review, for a reason.
        Accepted = "accepted",
        /// Two weeks had data and the same work, and not the finding.
        Gone = "gone",
    }
}

goodput_catalog::named! {
    /// Why a finding is not where people left it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Reopened {
        /// The date came.
        SnoozeOver = "snooze_over",
        /// It grew by half or more, and is large enough to be acted on.
        Grew = "grew",
        /// The time of the review came.
        ReviewDue = "review_due",
        /// It was gone, and is there again.
        Back = "back",
    }
}

/// Where a finding stands, and who brought it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// Who brought it there; null where nothing that people said did.
    pub by: Option<String>,
    /// When, in Unix milliseconds; null where `by` is.
    pub since_ms: Option<TimeMs>,
    /// Of `snoozed` and `accepted`: until when, in Unix milliseconds.
    pub until_ms: Option<TimeMs>,
    /// What was said with it; of `accepted` the reason.
    pub reason: Option<String>,
    /// Why it is not where people left it; null where it is.
    pub reopened: Option<Reopened>,
    /// Who looks at it.
    pub assignee: Option<String>,
    /// The ticket that was named last.
    pub url: Option<String>,
    /// The number of its last event; 0 without one.
    pub seq: i64,
}

/// A state, and who brought it there.
#[derive(Clone, Debug)]
struct Place {
    state: State,
    by: Option<String>,
    since_ms: Option<TimeMs>,
    until_ms: Option<TimeMs>,
    reason: Option<String>,
}

impl Place {
    const OPEN: Self = Self { state: State::Open, by: None, since_ms: None, until_ms: None, reason: None };

    fn ends(&self) -> bool {
        matches!(self.state, State::Snoozed | State::Accepted)
    }
}

struct Fold {
    at: Place,
    /// Where it was before it was snoozed or accepted.
    before: Place,
    reopened: Option<Reopened>,
    assignee: Option<String>,
    url: Option<String>,
    seq: i64,
    /// GPU-milliseconds of the last week that it was in.
    last_ms: Option<i64>,
    /// The same when it was snoozed, against which it grows.
    base_ms: Option<i64>,
    /// Weeks without it since.
    without: usize,
}

/// Where a finding stands at `now`, by all that was said about it, and by weeks in order.
pub(super) fn standing(events: &[FindingEvent], weeks: &[FindingWeek], now: TimeMs) -> Standing {
    let mut fold = Fold {
        at: Place::OPEN,
        before: Place::OPEN,
        reopened: None,
        assignee: None,
        url: None,
        seq: 0,
        last_ms: None,
        base_ms: None,
        without: 0,
    };
    let mut weeks = weeks.iter().peekable();
    for event in events {
        while let Some(week) = weeks.next_if(|week| week.end_ms <= event.time_ms) {
            fold.week(week);
        }
        fold.expire(event.time_ms);
        fold.event(event);
    }
    weeks.filter(|week| week.end_ms <= now).for_each(|week| fold.week(week));
    fold.expire(now);
    fold.end()
}

impl Fold {
    fn event(&mut self, event: &FindingEvent) {
        self.seq = event.seq;
        self.url = event.url.clone().or(self.url.take());
        let state = match event.action {
            FindingAction::Comment => return,
            FindingAction::Assign => return self.assignee.clone_from(&event.assignee),
            FindingAction::Acknowledge => State::Acknowledged,
            FindingAction::Claim => State::FixClaimed,
            FindingAction::Snooze => State::Snoozed,
            FindingAction::Accept => State::Accepted,
            FindingAction::Reopen => State::Open,
            FindingAction::Verified => State::Verified,
            FindingAction::NotVerified => State::NotVerified,
        };
        if !self.at.ends() {
            self.before = self.at.clone();
        }
        self.at = Place {
            state,
            by: Some(event.actor.clone()),
            since_ms: Some(event.time_ms),
            until_ms: event.until_ms,
            reason: event.comment.clone(),
        };
        (self.reopened, self.without, self.base_ms) = (None, 0, self.last_ms);
    }

    fn week(&mut self, week: &FindingWeek) {
        self.expire(week.end_ms);
        if is_without(week) {
            self.without += 1;
        }
        if week.lost_ms == 0 {
            return;
        }
        if self.is_gone() {
            (self.at, self.reopened) = (Place::OPEN, Some(Reopened::Back));
        }
        let base = *self.base_ms.get_or_insert(week.lost_ms);
        let grew = week.is_first && week.lost_ms.saturating_mul(2) >= base.saturating_mul(3);
        if self.at.state == State::Snoozed && grew {
            self.back(Reopened::Grew);
        }
        (self.last_ms, self.without) = (Some(week.lost_ms), 0);
    }

    fn expire(&mut self, now: TimeMs) {
        if self.at.until_ms.is_none_or(|until| until > now) {
            return;
        }
        match self.at.state {
            State::Snoozed => self.back(Reopened::SnoozeOver),
            State::Accepted => (self.at, self.reopened) = (Place::OPEN, Some(Reopened::ReviewDue)),
            _ => {}
        }
    }

    /// To where it was before it was snoozed.
    fn back(&mut self, why: Reopened) {
        (self.at, self.reopened) = (self.before.clone(), Some(why));
    }

    fn is_gone(&self) -> bool {
        self.without >= GONE_AFTER
    }

    fn end(self) -> Standing {
        // What was claimed or measured of a fix is said also where the finding is gone.
        let is_of_a_fix = matches!(self.at.state, State::FixClaimed | State::Verified | State::NotVerified);
        let state = if self.is_gone() && !is_of_a_fix { State::Gone } else { self.at.state };
        let Place { by, since_ms, until_ms, reason, .. } = if state == State::Gone { Place::OPEN } else { self.at };
        let (reopened, assignee, url, seq) = (self.reopened, self.assignee, self.url, self.seq);
        Standing { state, by, since_ms, until_ms, reason, reopened, assignee, url, seq }
    }
}
