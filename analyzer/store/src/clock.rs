//! Can the wall clock be believed? It is compared with the time since boot, which no one can set, and with what senders
//! say. It decides nothing about samples themselves: that is `admit.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{info, warn};

use super::database::Database;
use super::{Options, StoreError};
use goodput_exposition::sample::{Batch, TimeMs};

/// A difference above this is a step; a smaller one is the clock's own adjustment.
const STEP_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
/// A clock that has run evenly for so long after a step is believed, whatever senders say.
const SOUND_MS: i64 = 24 * HOUR_MS;
/// For admission so much is enough, if no request has contradicted the clock since.
const CALM_MS: i64 = HOUR_MS;
/// How long what a sender said counts.
const HEARD_MS: i64 = 5 * 60_000;
/// A sender's count begins again after so long.
const COUNTED_MS: i64 = 60_000;
/// A newest sample that is older says nothing about the clock: it may be a backlog.
const RECENT_MS: i64 = 10 * 60_000;
/// Senders that are remembered.
const MAX_SENDERS: usize = 1000;
/// The analyzer may have been stopped for so long before a start is taken for a step.
const STOPPED_MS: i64 = SOUND_MS;

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    wall_ms: TimeMs,
    since_boot_ms: i64,
}

/// Follows the wall clock for as long as it goes as fast as the time since boot.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: Reading,
    /// The clock may be ahead by so much more: how long the analyzer was stopped is not known.
    stopped_ms: i64,
    step: Option<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    by_ms: i64,
    since_boot_ms: i64,
}

impl Anchor {
    /// What the wall clock would be without a step.
    fn expected(&self, now: Reading) -> TimeMs {
        self.at.wall_ms.saturating_add(now.since_boot_ms.saturating_sub(self.at.since_boot_ms))
    }

    /// True when the clock has just stepped.
    fn follow(&mut self, now: Reading) -> bool {
        let by_ms = now.wall_ms.saturating_sub(self.expected(now));
        if (-STEP_MS..=self.stopped_ms.saturating_add(STEP_MS)).contains(&by_ms) {
            self.accept(now);
            return false;
        }
        let known = self.step.is_some_and(|step| step.by_ms.saturating_sub(by_ms).saturating_abs() <= STEP_MS);
        if !known {
            self.step = Some(Step { by_ms, since_boot_ms: now.since_boot_ms });
        }
        !known
    }

    fn accept(&mut self, now: Reading) {
        *self = Self::at(now);
    }

    fn at(now: Reading) -> Self {
        Self { at: now, stopped_ms: 0, step: None }
    }

    /// How long ago the clock stepped; none when it did not.
    fn stepped_for(&self, now: Reading) -> Option<i64> {
        self.step.map(|step| now.since_boot_ms.saturating_sub(step.since_boot_ms))
    }

    /// The earlier of the wall clock and what it would be without the step.
    fn believed(&self, now: Reading) -> TimeMs {
        if self.step.is_some() { now.wall_ms.min(self.expected(now)) } else { now.wall_ms }
    }
}

/// How many samples of a sender agree with the clock, and how many lie ahead of it.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    since_boot_ms: i64,
    agree: u64,
    ahead: u64,
}

/// Why the clock is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    Stepped { by_ms: i64 },
    Contradicted { senders: usize },
}

#[derive(Debug)]
struct State {
    /// What is asked when samples come in.
    admission: Anchor,
    /// What retention measures ages by. It takes longer to believe a step, and survives restarts.
    retention: Anchor,
    senders: HashMap<Arc<str>, Heard>,
    /// When most samples of a request last lay ahead of the clock.
    contradicted_ms: Option<i64>,
    doubt: Option<Doubt>,
}

/// The wall clock, and how far it can be believed.
#[derive(Debug)]
pub(super) struct Clock {
    wall: fn() -> TimeMs,
    since_boot: fn() -> Duration,
    future_ms: i64,
    state: Mutex<State>,
}

impl Clock {
    /// The clock, with what is known of it from when the store was last open.
    pub(super) async fn open(options: &Options, database: &Database) -> Result<Self, StoreError> {
        let last = database.clock().await.map_err(|error| database.failed(error))?;
        Ok(Self::new(options.now, options.since_boot, options.future, last))
    }

    /// `last` is what the clock was when the store was last open.
    pub(super) fn new(
        wall: fn() -> TimeMs,
        since_boot: fn() -> Duration,
        future: Duration,
        last: Option<TimeMs>,
    ) -> Self {
        let now = Reading { wall_ms: wall(), since_boot_ms: millis(since_boot()) };
        let mut retention = Anchor::at(now);
        if let Some(last) = last {
            retention = Anchor { stopped_ms: STOPPED_MS, ..Anchor::at(Reading { wall_ms: last, ..now }) };
        }
        if retention.follow(now) {
            warn!(
                clock_ms = now.wall_ms,
                last_ms = retention.at.wall_ms,
                "the clock differs by more than a day from when the store was last open; retention waits for a day, or \
                 until two senders agree with the clock"
            );
        }
        let admission = Anchor::at(now);
        let state = State { admission, retention, senders: HashMap::new(), contradicted_ms: None, doubt: None };
        Self { wall, since_boot, future_ms: millis(future), state: Mutex::new(state) }
    }

    fn reading(&self) -> Reading {
        Reading { wall_ms: (self.wall)(), since_boot_ms: millis((self.since_boot)()) }
    }

    /// Is the clock in doubt now?
    pub(super) fn in_doubt(&self) -> bool {
        let (now, mut state) = (self.reading(), self.state.lock());
        state.look(now);
        state.doubt.is_some()
    }

    /// The time by which ages are measured: by a clock that stepped nothing is removed.
    pub(super) fn for_retention(&self) -> TimeMs {
        let (now, mut state) = (self.reading(), self.state.lock());
        state.look(now);
        state.retention.believed(now)
    }

    /// The same clock's time, without a step ahead that is in doubt.
    pub(super) fn believed(&self, time: TimeMs) -> TimeMs {
        let (now, mut state) = (self.reading(), self.state.lock());
        state.look(now);
        if state.admission.step.is_some() { time.min(state.admission.expected(now)) } else { time }
    }

    /// What is to be kept over a restart; none while the clock is not believed.
    pub(super) fn to_keep(&self) -> Option<TimeMs> {
        let (now, mut state) = (self.reading(), self.state.lock());
        state.look(now);
        state.retention.step.is_none().then_some(now.wall_ms)
    }

    /// Compares what a sender brings with the clock. An error while the clock is in doubt and most of the samples lie ahead
    /// of it: a right clock would take them.
    pub(super) fn compare(&self, batch: &Batch) -> Result<(), StoreError> {
        let (now, mut state) = (self.reading(), self.state.lock());
        if batch.job().is_some() {
            // The analyzer's own clock made these times.
            state.look(now);
            return Ok(());
        }
        let (recent, latest) = (now.wall_ms.saturating_sub(RECENT_MS), now.wall_ms.saturating_add(self.future_ms));
        let (mut agree, mut ahead) = (0, 0);
        for sample in batch.samples() {
            agree += u64::from((recent..=latest).contains(&sample.time_ms));
            ahead += u64::from(sample.time_ms > latest);
        }
        state.look(now);
        state.hear(batch.sender(), now, agree, ahead);
        let is_ahead = ahead > batch.sample_count() as u64 / 2;
        if is_ahead {
            state.contradicted_ms = Some(now.since_boot_ms);
        }
        state.look(now);
        if is_ahead && state.doubt.is_some() { Err(StoreError::ClockInDoubt) } else { Ok(()) }
    }
}

impl State {
    fn hear(&mut self, sender: &Arc<str>, now: Reading, agree: u64, ahead: u64) {
        if agree + ahead == 0 {
            return;
        }
        if !self.senders.contains_key(sender) && self.senders.len() >= MAX_SENDERS {
            return;
        }
        let heard = self.senders.entry(Arc::clone(sender)).or_default();
        if now.since_boot_ms.saturating_sub(heard.since_boot_ms) > COUNTED_MS {
            *heard = Heard { since_boot_ms: now.since_boot_ms, ..Heard::default() };
        }
        heard.agree += agree;
        heard.ahead += ahead;
    }

    /// Follows the clock, and says in the log when it comes into doubt and when that is over.
    fn look(&mut self, now: Reading) {
        if self.admission.follow(now) {
            // What was said before the step says nothing about the clock that there is now.
            self.senders.clear();
        }
        self.retention.follow(now);
        self.senders.retain(|_, heard| now.since_boot_ms.saturating_sub(heard.since_boot_ms) <= HEARD_MS);
        let sum = |count: fn(&Heard) -> u64| self.senders.values().map(count).sum::<u64>();
        let senders = |says: fn(&Heard) -> bool| self.senders.values().filter(|heard| says(heard)).count();
        let most_agree = sum(|heard| heard.agree) > sum(|heard| heard.ahead);
        let (agreeing, contradicting) =
            (senders(|heard| heard.agree > heard.ahead), senders(|heard| heard.ahead > heard.agree));
        if let Some(for_ms) = self.admission.stepped_for(now) {
            let quiet = |time: i64| now.since_boot_ms.saturating_sub(time) >= CALM_MS;
            let calm = for_ms >= CALM_MS && self.contradicted_ms.is_none_or(quiet);
            if most_agree || calm || for_ms >= SOUND_MS {
                self.admission.accept(now);
            }
        }
        if let Some(for_ms) = self.retention.stepped_for(now)
            && (most_agree && agreeing >= 2 || for_ms >= SOUND_MS)
        {
            self.retention.accept(now);
        }
        let doubt = match self.admission.step {
            Some(step) => Some(Doubt::Stepped { by_ms: step.by_ms }),
            None if contradicting >= 2 && !most_agree => Some(Doubt::Contradicted { senders: contradicting }),
            None => None,
        };
        self.tell(doubt);
    }

    fn tell(&mut self, doubt: Option<Doubt>) {
        if self.doubt.is_some() != doubt.is_some() {
            match doubt {
                Some(Doubt::Stepped { by_ms }) => warn!(
                    step_seconds = by_ms / 1000,
                    "the clock of this machine stepped and is in doubt; samples ahead of it are put off with status 503"
                ),
                Some(Doubt::Contradicted { senders }) => warn!(
                    senders,
                    "the clock of this machine is in doubt: most samples of several senders lie ahead of it; they are put \
                     off with status 503"
                ),
                None => info!("the clock of this machine is no longer in doubt"),
            }
        }
        self.doubt = doubt;
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The index of segments says what the clock must have been for a store of an earlier release.
const SELECT: &str = "SELECT coalesce((SELECT last_ms FROM clock), (SELECT max(last_ms) FROM segments))";

const KEEP: &str =
    "INSERT INTO clock (one, last_ms) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET last_ms = excluded.last_ms";

impl Database {
    /// What the clock was when the store was last open.
    pub(super) async fn clock(&self) -> sqlx::Result<Option<TimeMs>> {
        sqlx::query_scalar(SELECT).fetch_one(&self.read).await
    }

    pub(super) async fn keep_clock(&self, now: TimeMs) -> sqlx::Result<()> {
        sqlx::query(KEEP).bind(now).execute(&self.write).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
