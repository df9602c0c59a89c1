//! What people said about findings, and in which weeks findings were there.

use std::future::Future;

use super::checked::{self, Reading, Table, Value};
use super::results::read;
use super::row::{Row, Session, unknown};
use super::{Store, StoreError};
use goodput_verdict::{Class, FindingAction, FindingEvent, FindingWeek};
use sqlx::SqlStr;

/// What people said about findings, to be read.
pub trait ReadOwnership: Send + Sync {
    /// Everything that was said, finding by finding, in its order.
    fn finding_events(&self) -> impl Future<Output = Result<Vec<FindingEvent>, StoreError>> + Send;

    /// The findings of the weeks from one to another, which is one of them, in order of week and finding.
    fn finding_weeks(&self, weeks: [&str; 2]) -> impl Future<Output = Result<Vec<FindingWeek>, StoreError>> + Send;
}

/// The same, to be written.
pub trait Ownership: ReadOwnership {
    /// Adds an event, whose `seq` is given here. With `after`, which is the number of the last event of the finding that its
    /// author knew, or 0, nothing is added where there is a later one.
    fn say(&self, after: Option<i64>, event: &FindingEvent) -> impl Future<Output = Result<Said, StoreError>> + Send;

    /// Notes the findings of a week that is over, in place of what was noted of it before.
    fn note_finding_week(
        &self,
        week: &str,
        findings: &[FindingWeek],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is on disk, under this number.
    Stored {
        /// Its number.
        seq: i64,
    },
    /// Someone else was first; nothing was added.
    TooLate {
        /// The number of the last event of the finding; 0 without one.
        last: i64,
    },
}

const SELECT_EVENTS: &str = "SELECT id, seq, time_ms, actor, action, until_ms, assignee, comment, url, checksum FROM finding_events ORDER BY id, seq";

const SELECT_LAST: &str = "SELECT max(seq) FROM finding_events WHERE id = $1";

const INSERT_EVENT: &str =
    "INSERT INTO finding_events (id, seq, time_ms, actor, action, until_ms, assignee, comment, url, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const SELECT_WEEKS: &str =
    "SELECT week, id, start_ms, end_ms, cluster, class, subject, team, lost_ms, ran_ms, currency,
    lost_micro, is_first, checksum FROM finding_weeks WHERE week >= $1 AND week <= $2 ORDER BY week, id";

const BETWEEN: &str = "week >= $1 AND week <= $2";

const FORGET_WEEK: &str = "DELETE FROM finding_weeks WHERE week = $1";

const INSERT_WEEK: &str =
    "INSERT INTO finding_weeks (week, id, start_ms, end_ms, cluster, class, subject, team, lost_ms,
    ran_ms, currency, lost_micro, is_first, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

pub(super) const STATEMENTS: [&str; 6] =
    [SELECT_EVENTS, SELECT_LAST, INSERT_EVENT, SELECT_WEEKS, FORGET_WEEK, INSERT_WEEK];

pub(super) static EVENTS: Table = Table {
    name: "finding_events",
    columns: &["id", "seq", "time_ms", "actor", "action", "until_ms", "assignee", "comment", "url"],
    key: "hex(id) || ' ' || seq",
    has_window: false,
    decode: |row| event(row).map(drop),
};

pub(super) static WEEKS: Table = Table {
    name: "finding_weeks",
    columns: &[
        "week",
        "id",
        "start_ms",
        "end_ms",
        "cluster",
        "class",
        "subject",
        "team",
        "lost_ms",
        "ran_ms",
        "currency",
        "lost_micro",
        "is_first",
    ],
    key: "hex(week) || ' ' || hex(id)",
    has_window: false,
    decode: |row| week(row).map(drop),
};

/// Everything that was said, finding by finding, in its order.
pub(super) async fn all_events(
    connection: &mut impl Session,
    reading: &mut Reading,
) -> sqlx::Result<Vec<FindingEvent>> {
    reading.all(connection, &EVENTS, SELECT_EVENTS, ("1 = 1", &[]), &[], event).await
}

/// The findings of the weeks from one to another, in order of week and finding.
pub(super) async fn weeks(
    connection: &mut impl Session,
    reading: &mut Reading,
    [first, last]: [&str; 2],
) -> sqlx::Result<Vec<FindingWeek>> {
    let values: [Value<'static>; 2] = [first.to_owned().into(), last.to_owned().into()];
    reading.all(connection, &WEEKS, SELECT_WEEKS, (BETWEEN, &values), &[], week).await
}

/// Adds an event, whose number is given here. Where `after` is not the number of the last event of the finding, which is 0
/// without one, nothing is added. Those who add take turns.
pub(super) async fn say(connection: &mut impl Session, after: Option<i64>, event: &FindingEvent) -> sqlx::Result<Said> {
    let last: Option<i64> = connection.one(SELECT_LAST, &[(&event.id).into()]).await?.row().at(0)?;
    let last = last.unwrap_or_default();
    if after.is_some_and(|after| after != last) {
        return Ok(Said::TooLate { last });
    }
    let seq = last + 1;
    let values: [Value<'_>; 9] = [
        (&event.id).into(),
        seq.into(),
        event.time_ms.into(),
        (&event.actor).into(),
        event.action.name().into(),
        event.until_ms.into(),
        event.assignee.as_deref().into(),
        event.comment.as_deref().into(),
        event.url.as_deref().into(),
    ];
    checked::insert(connection, INSERT_EVENT, &values, &[]).await?;
    Ok(Said::Stored { seq })
}

/// Notes the findings of a week, in place of what was noted of it before.
pub(super) async fn note_week(connection: &mut impl Session, week: &str, findings: &[FindingWeek]) -> sqlx::Result<()> {
    connection.execute(SqlStr::from_static(FORGET_WEEK), &[&[week.into()]]).await?;
    for finding in findings {
        let values: [Value<'_>; 13] = [
            week.into(),
            (&finding.id).into(),
            finding.start_ms.into(),
            finding.end_ms.into(),
            finding.cluster.as_deref().into(),
            finding.class.name().into(),
            (&finding.subject).into(),
            finding.team.as_deref().into(),
            finding.lost_ms.into(),
            finding.ran_ms.into(),
            finding.currency.as_deref().into(),
            finding.lost_micro.into(),
            i64::from(finding.is_first).into(),
        ];
        checked::insert(connection, INSERT_WEEK, &values, &[]).await?;
    }
    Ok(())
}

impl ReadOwnership for Store {
    async fn finding_events(&self) -> Result<Vec<FindingEvent>, StoreError> {
        read!(self, |connection, reading| all_events(connection, &mut reading))
    }

    async fn finding_weeks(&self, between: [&str; 2]) -> Result<Vec<FindingWeek>, StoreError> {
        read!(self, |connection, reading| weeks(connection, &mut reading, between))
    }
}

impl Ownership for Store {
    async fn say(&self, after: Option<i64>, event: &FindingEvent) -> Result<Said, StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            let said = say(&mut *transaction, after, event).await?;
            transaction.commit().await?;
            Ok(said)
        };
        stored.await.map_err(|error| database.failed(error))
    }

    async fn note_finding_week(&self, week: &str, findings: &[FindingWeek]) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            note_week(&mut *transaction, week, findings).await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

fn event(row: Row<'_>) -> sqlx::Result<FindingEvent> {
    let action: String = row.get("action")?;
    let known = FindingAction::ALL.iter().copied().find(|known| known.name() == action);
    Ok(FindingEvent {
        seq: row.get("seq")?,
        id: row.get("id")?,
        time_ms: row.get("time_ms")?,
        actor: row.get("actor")?,
        action: known.ok_or_else(|| unknown("action", &action))?,
        until_ms: row.get("until_ms")?,
        assignee: row.get("assignee")?,
        comment: row.get("comment")?,
        url: row.get("url")?,
    })
}

fn week(row: Row<'_>) -> sqlx::Result<FindingWeek> {
    let class: String = row.get("class")?;
    let known = Class::ALL.iter().copied().find(|known| known.name() == class);
    Ok(FindingWeek {
        week: row.get("week")?,
        id: row.get("id")?,
        start_ms: row.get("start_ms")?,
        end_ms: row.get("end_ms")?,
        cluster: row.get("cluster")?,
        class: known.ok_or_else(|| unknown("class", &class))?,
        subject: row.get("subject")?,
        team: row.get("team")?,
        lost_ms: row.get("lost_ms")?,
        ran_ms: row.get("ran_ms")?,
        currency: row.get("currency")?,
        lost_micro: row.get("lost_micro")?,
        is_first: row.get::<i64>("is_first")? != 0,
    })
}
