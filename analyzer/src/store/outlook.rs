//! Risks, advisories and standings in SQLite.

use std::ops::Range;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use sqlx::{SqliteConnection, SqliteExecutor};

use super::database::Database;
use super::results;
use crate::classify::{Advice, Advisory};
use crate::forecast::{Kind, Outlook, Prospect, Risk};
use crate::sample::TimeMs;
use crate::tuning::Standing;

const INSERT_ADVISORY: &str = "INSERT INTO advisories
    (node, start_ms, end_ms, gpu, model, owner, advice, confidence, evidence, run, cluster)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

const SELECT_ADVISORIES: &str =
    "SELECT node, start_ms, end_ms, gpu, model, owner, advice, confidence, evidence, run, cluster
    FROM advisories WHERE start_ms >= $1 AND end_ms <= $2
    ORDER BY node, gpu, start_ms, advice, owner NULLS FIRST";

const INSERT_RISK: &str = "INSERT INTO risks
    (node, start_ms, end_ms, kind, which, entity, owners, earliest_ms, made_ms, forecast, cluster)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

const SELECT_RISKS: &str = "SELECT * FROM risks WHERE start_ms >= $1 AND end_ms <= $2
    ORDER BY node, cluster NULLS FIRST, kind, which, entity, start_ms";

const DELETE_ADVISORIES: &str = "DELETE FROM advisories WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

const DELETE_RISKS: &str = "DELETE FROM risks WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

const INSERT_STANDING: &str = "INSERT INTO standings (node, start_ms, end_ms, standing) VALUES ($1, $2, $3, $4)";

const SELECT_STANDINGS: &str = "SELECT standing FROM standings WHERE start_ms >= $1 AND end_ms <= $2
    ORDER BY node, start_ms";

const DELETE_STANDINGS: &str = "DELETE FROM standings WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

pub(super) const STATEMENTS: [&str; 9] = [
    INSERT_ADVISORY,
    SELECT_ADVISORIES,
    DELETE_ADVISORIES,
    INSERT_RISK,
    SELECT_RISKS,
    DELETE_RISKS,
    INSERT_STANDING,
    SELECT_STANDINGS,
    DELETE_STANDINGS,
];

pub(super) async fn select(connection: &mut SqliteConnection, window: &Range<TimeMs>) -> sqlx::Result<Outlook> {
    let risks = rows(SELECT_RISKS, &mut *connection, window).await?;
    let advisories = rows(SELECT_ADVISORIES, &mut *connection, window).await?;
    let standings = rows(SELECT_STANDINGS, connection, window).await?;
    Ok(Outlook {
        risks: risks.iter().map(decode_risk).collect::<sqlx::Result<_>>()?,
        advisories: advisories.iter().map(decode_advisory).collect::<sqlx::Result<_>>()?,
        standings: standings.iter().map(|row| decode_json(row, "standing")).collect::<sqlx::Result<_>>()?,
    })
}

async fn rows(
    sql: &'static str,
    executor: impl SqliteExecutor<'_>,
    window: &Range<TimeMs>,
) -> sqlx::Result<Vec<SqliteRow>> {
    sqlx::query(sql).bind(window.start).bind(window.end).fetch_all(executor).await
}

/// The first that does not belong to the node and window, in words.
pub(super) fn misplaced(node: &str, window: &Range<TimeMs>, outlook: &Outlook) -> Option<String> {
    let risks = outlook.risks.iter().map(|r| ("risk", &r.last.entity, &r.last.node, r.start_ms, r.end_ms));
    let advisories = outlook.advisories.iter().map(|a| ("advisory", &a.gpu, &a.node, a.start_ms, a.end_ms));
    let standings = outlook.standings.iter().map(|s| ("standing", &s.node, &s.node, s.start_ms, s.end_ms));
    let is_outside = |(_, _, on, start, end): &(_, _, &String, TimeMs, TimeMs)| {
        on.as_str() != node || *start < window.start || *end > window.end
    };
    let (what, entity, on, start, end) = risks.chain(advisories).chain(standings).find(is_outside)?;
    Some(format!("{what} of {entity} on {on} from {start} to {end}"))
}

pub(super) async fn replace(
    database: &Database,
    node: &str,
    window: &Range<TimeMs>,
    outlook: &Outlook,
) -> sqlx::Result<()> {
    let mut transaction = database.begin().await?;
    for sql in [DELETE_ADVISORIES, DELETE_RISKS, DELETE_STANDINGS] {
        sqlx::query(sql).bind(node).bind(window.start).bind(window.end).execute(&mut *transaction).await?;
    }
    for advisory in &outlook.advisories {
        insert_advisory(&mut transaction, advisory).await?;
    }
    for risk in &outlook.risks {
        insert_risk(&mut transaction, risk).await?;
    }
    for standing in &outlook.standings {
        insert_standing(&mut transaction, standing).await?;
    }
    transaction.commit().await
}

async fn insert_advisory(transaction: &mut SqliteConnection, advisory: &Advisory) -> sqlx::Result<()> {
    sqlx::query(INSERT_ADVISORY)
        .bind(&advisory.node)
        .bind(advisory.start_ms)
        .bind(advisory.end_ms)
        .bind(&advisory.gpu)
        .bind(&advisory.model)
        .bind(&advisory.owner)
        .bind(advisory.advice.name())
        .bind(advisory.confidence)
        .bind(results::encode_evidence(&advisory.evidence)?)
        .bind(&advisory.run)
        .bind(&advisory.cluster)
        .execute(transaction)
        .await?;
    Ok(())
}

async fn insert_risk(transaction: &mut SqliteConnection, risk: &Risk) -> sqlx::Result<()> {
    let Risk { last, .. } = risk;
    if !last.is_risk() {
        return Err(sqlx::Error::Encode(format!("{} is not at risk", last.entity).into()));
    }
    let forecast = serde_json::to_string(&last.forecast).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let owners = serde_json::to_string(&last.owners).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(INSERT_RISK)
        .bind(&last.node)
        .bind(risk.start_ms)
        .bind(risk.end_ms)
        .bind(last.kind.sort().name())
        .bind(last.kind.which())
        .bind(&last.entity)
        .bind(owners)
        .bind(risk.earliest_ms)
        .bind(last.made_ms)
        .bind(forecast)
        .bind(&last.cluster)
        .execute(transaction)
        .await?;
    Ok(())
}

async fn insert_standing(transaction: &mut SqliteConnection, standing: &Standing) -> sqlx::Result<()> {
    let text = serde_json::to_string(standing).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let placed = sqlx::query(INSERT_STANDING).bind(&standing.node).bind(standing.start_ms).bind(standing.end_ms);
    placed.bind(text).execute(transaction).await?;
    Ok(())
}

fn decode_advisory(row: &SqliteRow) -> sqlx::Result<Advisory> {
    Ok(Advisory {
        gpu: row.try_get("gpu")?,
        cluster: row.try_get("cluster")?,
        node: row.try_get("node")?,
        model: row.try_get("model")?,
        owner: row.try_get("owner")?,
        run: row.try_get("run")?,
        advice: named(row, "advice", Advice::ALL, Advice::name)?,
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        confidence: row.try_get("confidence")?,
        evidence: decode_json(row, "evidence")?,
    })
}

fn decode_risk(row: &SqliteRow) -> sqlx::Result<Risk> {
    Ok(Risk {
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        earliest_ms: row.try_get("earliest_ms")?,
        last: Prospect {
            cluster: row.try_get("cluster")?,
            node: row.try_get("node")?,
            entity: row.try_get("entity")?,
            owners: decode_json(row, "owners")?,
            made_ms: row.try_get("made_ms")?,
            kind: decode_kind(row)?,
            forecast: decode_json(row, "forecast")?,
        },
    })
}

fn decode_kind(row: &SqliteRow) -> sqlx::Result<Kind> {
    let (sort, which): (&str, &str) = (row.try_get("kind")?, row.try_get("which")?);
    let found = Kind::all().find(|kind| (kind.sort().name(), kind.which()) == (sort, which));
    found.ok_or_else(|| sqlx::Error::Decode(format!("unknown kind of risk {sort} {which}").into()))
}

/// The one of all that the column names.
fn named<T: Copy>(row: &SqliteRow, column: &str, all: &[T], name: fn(T) -> &'static str) -> sqlx::Result<T> {
    let wanted: &str = row.try_get(column)?;
    let found = all.iter().copied().find(|one| name(*one) == wanted);
    found.ok_or_else(|| sqlx::Error::Decode(format!("unknown {column} {wanted}").into()))
}

fn decode_json<T: serde::de::DeserializeOwned>(row: &SqliteRow, column: &str) -> sqlx::Result<T> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}
