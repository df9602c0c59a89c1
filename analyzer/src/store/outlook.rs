//! Risks, advisories and standings in SQLite.

use std::ops::Range;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::checked::{self, Reading, Table, Value};
use super::results::{self, IN_WINDOW, in_window};
use crate::classify::{Advice, Advisory};
use crate::forecast::{Kind, Outlook, Prospect, Risk};
use crate::sample::TimeMs;
use crate::tuning::Standing;

const INSERT_ADVISORY: &str = "INSERT INTO advisories
    (node, start_ms, end_ms, gpu, model, owner, advice, confidence, evidence, run, cluster, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const SELECT_ADVISORIES: &str =
    "SELECT node, start_ms, end_ms, gpu, model, owner, advice, confidence, evidence, run, cluster, checksum
    FROM advisories WHERE start_ms >= $1 AND end_ms <= $2
    ORDER BY node, gpu, start_ms, advice, owner NULLS FIRST";

const INSERT_RISK: &str = "INSERT INTO risks
    (node, start_ms, end_ms, kind, which, entity, owners, earliest_ms, made_ms, forecast, cluster, checksum)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const SELECT_RISKS: &str = "SELECT node, start_ms, end_ms, kind, which, entity, owners, earliest_ms, made_ms, forecast,
    cluster, checksum FROM risks WHERE start_ms >= $1 AND end_ms <= $2
    ORDER BY node, cluster NULLS FIRST, kind, which, entity, start_ms";

const DELETE_ADVISORIES: &str = "DELETE FROM advisories WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

const DELETE_RISKS: &str = "DELETE FROM risks WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

const INSERT_STANDING: &str = "INSERT INTO standings (node, start_ms, end_ms, standing, checksum)
    VALUES ($1, $2, $3, $4, $5)";

const SELECT_STANDINGS: &str =
    "SELECT node, start_ms, end_ms, standing, checksum FROM standings WHERE start_ms >= $1 AND end_ms <= $2
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

pub(super) static ADVISORIES: Table = Table {
    name: "advisories",
    columns: &[
        "node",
        "start_ms",
        "end_ms",
        "gpu",
        "model",
        "owner",
        "advice",
        "confidence",
        "evidence",
        "run",
        "cluster",
    ],
    key: "rowid",
    has_window: true,
    decode: |row| decode_advisory(row).map(drop),
};

pub(super) static RISKS: Table = Table {
    name: "risks",
    columns: &[
        "node",
        "start_ms",
        "end_ms",
        "kind",
        "which",
        "entity",
        "owners",
        "earliest_ms",
        "made_ms",
        "forecast",
        "cluster",
    ],
    key: "rowid",
    has_window: true,
    decode: |row| decode_risk(row).map(drop),
};

pub(super) static STANDINGS: Table = Table {
    name: "standings",
    columns: &["node", "start_ms", "end_ms", "standing"],
    key: "rowid",
    has_window: true,
    decode: |row| decode_standing(row).map(drop),
};

pub(super) async fn select(
    connection: &mut SqliteConnection,
    reading: &mut Reading,
    window: &Range<TimeMs>,
) -> sqlx::Result<Outlook> {
    let query = |sql: &'static str| sqlx::query(sql).bind(window.start).bind(window.end);
    let among = &in_window(window);
    let risks = reading.all(connection, &RISKS, query(SELECT_RISKS), (IN_WINDOW, among), decode_risk).await?;
    let advisories =
        reading.all(connection, &ADVISORIES, query(SELECT_ADVISORIES), (IN_WINDOW, among), decode_advisory).await?;
    let standings =
        reading.all(connection, &STANDINGS, query(SELECT_STANDINGS), (IN_WINDOW, among), decode_standing).await?;
    Ok(Outlook { risks, advisories, standings })
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
    connection: &mut SqliteConnection,
    node: &str,
    window: &Range<TimeMs>,
    outlook: &Outlook,
) -> sqlx::Result<()> {
    for sql in [DELETE_ADVISORIES, DELETE_RISKS, DELETE_STANDINGS] {
        sqlx::query(sql).bind(node).bind(window.start).bind(window.end).execute(&mut *connection).await?;
    }
    for advisory in &outlook.advisories {
        insert_advisory(connection, advisory).await?;
    }
    for risk in &outlook.risks {
        insert_risk(connection, risk).await?;
    }
    for standing in &outlook.standings {
        insert_standing(connection, standing).await?;
    }
    Ok(())
}

async fn insert_advisory(connection: &mut SqliteConnection, advisory: &Advisory) -> sqlx::Result<()> {
    let values: [Value<'_>; 11] = [
        (&advisory.node).into(),
        advisory.start_ms.into(),
        advisory.end_ms.into(),
        (&advisory.gpu).into(),
        advisory.model.as_ref().into(),
        advisory.owner.as_ref().into(),
        advisory.advice.name().into(),
        advisory.confidence.into(),
        results::encode_evidence(&advisory.evidence)?.into(),
        advisory.run.as_ref().into(),
        advisory.cluster.as_ref().into(),
    ];
    checked::insert(connection, INSERT_ADVISORY, &values, &[]).await
}

async fn insert_risk(connection: &mut SqliteConnection, risk: &Risk) -> sqlx::Result<()> {
    let Risk { last, .. } = risk;
    if !last.is_risk() {
        return Err(sqlx::Error::Encode(format!("{} is not at risk", last.entity).into()));
    }
    let owners = serde_json::to_string(&last.owners).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let values: [Value<'_>; 11] = [
        (&last.node).into(),
        risk.start_ms.into(),
        risk.end_ms.into(),
        last.kind.sort().name().into(),
        last.kind.which().into(),
        (&last.entity).into(),
        owners.into(),
        risk.earliest_ms.into(),
        last.made_ms.into(),
        encode_json(&last.forecast)?.into(),
        last.cluster.as_ref().into(),
    ];
    checked::insert(connection, INSERT_RISK, &values, &[]).await
}

async fn insert_standing(connection: &mut SqliteConnection, standing: &Standing) -> sqlx::Result<()> {
    let text = encode_json(standing)?;
    let values: [Value<'_>; 4] =
        [(&standing.node).into(), standing.start_ms.into(), standing.end_ms.into(), text.into()];
    checked::insert(connection, INSERT_STANDING, &values, &[]).await
}

/// JSON that can be read again: a number that is not finite becomes null, which is no number.
fn encode_json<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> sqlx::Result<String> {
    let text = serde_json::to_string(value).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let read = serde_json::from_str::<T>(&text);
    read.map(|_| text).map_err(|error| sqlx::Error::Encode(format!("it cannot be read again: {error}").into()))
}

fn decode_standing(row: &SqliteRow) -> sqlx::Result<Standing> {
    decode_json(row, "standing")
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
