//! By which teams weeks were delivered, and what each had then. A week keeps the teams that it was first delivered with.

use super::checked::{self, Reading, Table, Value};
use super::row::{Row, Session, unknown};
use super::{Store, StoreError};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Class, TeamTime};
use sqlx::SqlStr;

const SELECT_CONTENT: &str = "SELECT version, valid_from_ms, content, checksum FROM team_versions
    WHERE version = (SELECT min(version) FROM report_teams WHERE week = $1)";

const OF_WEEK: &str = "version = (SELECT min(version) FROM report_teams WHERE week = $1)";

const SELECT_TIMES: &str = "SELECT week, version, team, class, currency, ms, money_micro, checksum FROM report_teams
    WHERE week >= $1 AND week <= $2 ORDER BY week, team, class, currency";

const BETWEEN: &str = "week >= $1 AND week <= $2";

const SELECT_VERSION: &str = "SELECT min(version) FROM report_teams WHERE week = $1";

const SELECT_SAME: &str = "SELECT min(version) FROM team_versions WHERE content = $1";

const SELECT_LAST: &str = "SELECT max(version) FROM team_versions";

const INSERT_VERSION: &str = "INSERT INTO team_versions (version, valid_from_ms, content, checksum)
    VALUES ($1, $2, $3, $4)";

const FORGET_WEEK: &str = "DELETE FROM report_teams WHERE week = $1";

const INSERT_TIME: &str = "INSERT INTO report_teams (week, version, team, class, currency, ms, money_micro, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

pub(super) const STATEMENTS: [&str; 8] =
    [SELECT_CONTENT, SELECT_TIMES, SELECT_VERSION, SELECT_SAME, SELECT_LAST, INSERT_VERSION, FORGET_WEEK, INSERT_TIME];

pub(super) static VERSIONS: Table = Table {
    name: "team_versions",
    columns: &["version", "valid_from_ms", "content"],
    key: "rowid",
    has_window: false,
    decode: |row| content(row).map(drop),
};

pub(super) static TIMES: Table = Table {
    name: "report_teams",
    columns: &["week", "version", "team", "class", "currency", "ms", "money_micro"],
    key: "hex(week) || ' ' || hex(team) || ' ' || hex(class) || ' ' || hex(currency)",
    has_window: false,
    decode: |row| time(row).map(drop),
};

/// The teams that a week was delivered with, as they were stored.
pub(super) async fn of_week(
    connection: &mut impl Session,
    reading: &mut Reading,
    week: &str,
) -> sqlx::Result<Option<String>> {
    let of_week = (OF_WEEK, &[week.to_owned().into()] as &[Value<'static>]);
    let found = reading.all(connection, &VERSIONS, SELECT_CONTENT, of_week, &[], content).await?;
    Ok(found.into_iter().next())
}

/// What teams had in the weeks from one to another that were delivered, in order of week and team.
pub(super) async fn times(
    connection: &mut impl Session,
    reading: &mut Reading,
    [first, last]: [&str; 2],
) -> sqlx::Result<Vec<TeamTime>> {
    let values: [Value<'static>; 2] = [first.to_owned().into(), last.to_owned().into()];
    reading.all(connection, &TIMES, SELECT_TIMES, (BETWEEN, &values), &[], time).await
}

/// Notes what teams had in a week that is delivered, in place of what was noted of it before. `content` is noted with the first
/// delivery of the week, once for all weeks that have it.
pub(super) async fn note(
    connection: &mut impl Session,
    (week, start_ms): (&str, TimeMs),
    content: &str,
    times: &[TeamTime],
) -> sqlx::Result<()> {
    let version = match number(connection, SELECT_VERSION, &[week.into()]).await? {
        Some(version) => version,
        None => version_of(connection, start_ms, content).await?,
    };
    connection.execute(SqlStr::from_static(FORGET_WEEK), &[&[week.into()]]).await?;
    for time in times {
        let TeamTime { team, class, currency, ms, micros, .. } = time;
        let currency = currency.as_deref().unwrap_or_default();
        let values: [Value<'_>; 7] = [
            week.into(),
            version.into(),
            team.into(),
            class.name().into(),
            currency.into(),
            (*ms).into(),
            (*micros).into(),
        ];
        checked::insert(connection, INSERT_TIME, &values, &[]).await?;
    }
    Ok(())
}

impl Store {
    pub(super) async fn store_teams(
        &self,
        week: (&str, TimeMs),
        content: &str,
        times: &[TeamTime],
    ) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            note(&mut *transaction, week, content, times).await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

async fn version_of(connection: &mut impl Session, start_ms: TimeMs, content: &str) -> sqlx::Result<i64> {
    if let Some(version) = number(connection, SELECT_SAME, &[content.into()]).await? {
        return Ok(version);
    }
    let version = number(connection, SELECT_LAST, &[]).await?.unwrap_or_default() + 1;
    checked::insert(connection, INSERT_VERSION, &[version.into(), start_ms.into(), content.into()], &[]).await?;
    Ok(version)
}

async fn number(connection: &mut impl Session, sql: &'static str, values: &[Value<'_>]) -> sqlx::Result<Option<i64>> {
    connection.one(sql, values).await?.row().at(0)
}

fn content(row: Row<'_>) -> sqlx::Result<String> {
    let content: String = row.get("content")?;
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&content) {
        Ok(_) => Ok(content),
        Err(error) => Err(unknown("content", &error.to_string())),
    }
}

fn time(row: Row<'_>) -> sqlx::Result<TeamTime> {
    let (class, currency): (String, String) = (row.get("class")?, row.get("currency")?);
    let known = Class::ALL.iter().copied().find(|known| known.name() == class);
    Ok(TeamTime {
        week: row.get("week")?,
        team: row.get("team")?,
        class: known.ok_or_else(|| unknown("class", &class))?,
        currency: (!currency.is_empty()).then_some(currency),
        ms: row.get("ms")?,
        micros: row.get("money_micro")?,
    })
}
