//! Messages about weekly reports, and who wants none. Sends nothing.

use super::checked::{self, Reading, Table, Value};
use super::row::{Row, Session, unknown};
use super::{Store, StoreError};
use goodput_verdict::{Message, MessageState, Unsubscribed};

const SELECT: &str =
    "SELECT destination, contact, week, version, digest, state, attempts, next_ms, message_id, time_ms, findings,
    reason, checksum FROM outbox WHERE week >= $1 AND week <= $2 ORDER BY destination, contact, week";

const BETWEEN: &str = "week >= $1 AND week <= $2";

const INSERT: &str =
    "INSERT INTO outbox (destination, contact, week, version, digest, state, attempts, next_ms, message_id,
    time_ms, findings, reason, checksum) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (destination, contact, week) DO UPDATE SET version = excluded.version, digest = excluded.digest,
    state = excluded.state, attempts = excluded.attempts, next_ms = excluded.next_ms, message_id = excluded.message_id,
    time_ms = excluded.time_ms, findings = excluded.findings, reason = excluded.reason, checksum = excluded.checksum";

const SELECT_UNSUBSCRIBED: &str =
    "SELECT destination, contact, time_ms, checksum FROM unsubscribed ORDER BY destination, contact";

const INSERT_UNSUBSCRIBED: &str = "INSERT INTO unsubscribed (destination, contact, time_ms, checksum)
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

pub(super) const STATEMENTS: [&str; 4] = [SELECT, INSERT, SELECT_UNSUBSCRIBED, INSERT_UNSUBSCRIBED];

pub(super) static MESSAGES: Table = Table {
    name: "outbox",
    columns: &[
        "destination",
        "contact",
        "week",
        "version",
        "digest",
        "state",
        "attempts",
        "next_ms",
        "message_id",
        "time_ms",
        "findings",
        "reason",
    ],
    key: "hex(destination) || ' ' || hex(contact) || ' ' || hex(week)",
    has_window: false,
    decode: |row| message(row).map(drop),
};

pub(super) static UNSUBSCRIBED: Table = Table {
    name: "unsubscribed",
    columns: &["destination", "contact", "time_ms"],
    key: "hex(destination) || ' ' || hex(contact)",
    has_window: false,
    decode: |row| unsubscribed(row).map(drop),
};

/// The messages of the weeks from one to another, in order of destination, contact and week.
pub(super) async fn messages(
    connection: &mut impl Session,
    reading: &mut Reading,
    [first, last]: [&str; 2],
) -> sqlx::Result<Vec<Message>> {
    let values: [Value<'static>; 2] = [first.to_owned().into(), last.to_owned().into()];
    reading.all(connection, &MESSAGES, SELECT, (BETWEEN, &values), &[], message).await
}

/// Who wants no messages, in order of destination and contact.
pub(super) async fn all_unsubscribed(
    connection: &mut impl Session,
    reading: &mut Reading,
) -> sqlx::Result<Vec<Unsubscribed>> {
    reading.all(connection, &UNSUBSCRIBED, SELECT_UNSUBSCRIBED, ("1 = 1", &[]), &[], unsubscribed).await
}

/// Writes messages, in place of what was written of them before.
pub(super) async fn note(connection: &mut impl Session, messages: &[Message]) -> sqlx::Result<()> {
    for message in messages {
        let findings = serde_json::to_string(&message.findings).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let values: [Value<'_>; 12] = [
            (&message.destination).into(),
            (&message.contact).into(),
            (&message.week).into(),
            message.version.into(),
            message.digest.into(),
            message.state.name().into(),
            message.attempts.into(),
            message.next_ms.into(),
            (&message.message_id).into(),
            message.time_ms.into(),
            findings.into(),
            message.reason.as_deref().into(),
        ];
        checked::insert(connection, INSERT, &values, &[]).await?;
    }
    Ok(())
}

/// Notes that a contact wants no more messages; the first time stays.
pub(super) async fn unsubscribe(connection: &mut impl Session, who: &Unsubscribed) -> sqlx::Result<()> {
    let values: [Value<'_>; 3] = [(&who.destination).into(), (&who.contact).into(), who.time_ms.into()];
    checked::insert(connection, INSERT_UNSUBSCRIBED, &values, &[]).await
}

impl Store {
    pub(super) async fn store_messages(&self, messages: &[Message]) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            note(&mut *transaction, messages).await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }

    pub(super) async fn store_unsubscribed(&self, who: &Unsubscribed) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            unsubscribe(&mut *transaction, who).await?;
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }
}

fn message(row: Row<'_>) -> sqlx::Result<Message> {
    let (state, findings): (String, String) = (row.get("state")?, row.get("findings")?);
    let known = MessageState::ALL.iter().copied().find(|known| known.name() == state);
    Ok(Message {
        destination: row.get("destination")?,
        contact: row.get("contact")?,
        week: row.get("week")?,
        version: row.small("version")?,
        digest: row.small("digest")?,
        state: known.ok_or_else(|| unknown("state", &state))?,
        attempts: row.small("attempts")?,
        next_ms: row.get("next_ms")?,
        message_id: row.get("message_id")?,
        time_ms: row.get("time_ms")?,
        findings: serde_json::from_str(&findings).map_err(|error| unknown("findings", &error.to_string()))?,
        reason: row.get("reason")?,
    })
}

fn unsubscribed(row: Row<'_>) -> sqlx::Result<Unsubscribed> {
    Ok(Unsubscribed {
        destination: row.get("destination")?,
        contact: row.get("contact")?,
        time_ms: row.get("time_ms")?,
    })
}
