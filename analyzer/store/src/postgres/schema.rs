//! The schema in PostgreSQL: which version it has, how it is made, and what the roles may do.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tracing::info;

use super::Address;
use crate::StoreError;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// The lock of those who change the schema, by a number of our own.
const LOCK: i64 = 7_449_633_602_171;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tables that workers write and readers read.
const TABLES: [&str; 22] = [
    "intervals",
    "advisories",
    "risks",
    "standings",
    "achieved",
    "hours",
    "days",
    "rolled_days",
    "deliveries",
    "team_versions",
    "report_teams",
    "outbox",
    "unsubscribed",
    "finding_events",
    "finding_weeks",
    "events",
    "attempts",
    "series",
    "windows",
    "leases",
    "live",
    "fleet",
];

/// Functions with the owner's rights, which workers call.
const FUNCTIONS: [&str; 2] = ["goodput_make_partitions(BIGINT, BIGINT)", "goodput_drop_partitions(BIGINT)"];

/// Who may do what. The role that migrates owns the tables.
#[derive(Clone, Debug)]
pub struct Roles {
    /// Reads and writes results.
    pub worker: String,
    /// Reads results.
    pub reader: String,
}

/// Makes the schema, or brings it up to this release, and grants the roles what they need. Running it again changes nothing.
/// One at a time: a second one waits.
pub async fn migrate(address: &Address, roles: &Roles) -> Result<(), StoreError> {
    let mut connection = address.connect(PATIENCE).await?;
    let failed = |error| address.failed(error);
    lock(&mut connection).await.map_err(failed)?;
    if let Some(found) = version(&mut connection).await.map_err(failed)?
        && found > known()
    {
        return Err(newer(address, found));
    }
    for role in [&roles.worker, &roles.reader] {
        let sql = "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
        let is_there: bool = sqlx::query_scalar(sql).bind(role).fetch_one(&mut connection).await.map_err(failed)?;
        if !is_there {
            return Err(StoreError::NoRole { server: address.server().to_owned(), role: role.clone() });
        }
    }
    MIGRATIONS.run(&mut connection).await.map_err(|error| failed(error.into()))?;
    let sql = "SELECT quote_ident(current_schema())";
    let schema: String = sqlx::query_scalar(sql).fetch_one(&mut connection).await.map_err(failed)?;
    for sql in grants(roles, &schema) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.map_err(failed)?;
    }
    // The lock ends with the connection.
    connection.close().await.map_err(failed)
}

async fn lock(connection: &mut PgConnection) -> sqlx::Result<()> {
    let taken: bool =
        sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK).fetch_one(&mut *connection).await?;
    if !taken {
        info!("another migration is running; this one waits for it");
        sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(connection).await?;
    }
    Ok(())
}

/// What the roles are granted.
fn grants(roles: &Roles, schema: &str) -> Vec<String> {
    let quoted = |role: &str| format!("\"{}\"", role.replace('"', "\"\""));
    let (worker, reader) = (quoted(&roles.worker), quoted(&roles.reader));
    let (tables, functions) = (TABLES.join(", "), FUNCTIONS.join(", "));
    vec![
        format!("GRANT USAGE ON SCHEMA {schema} TO {worker}, {reader}"),
        format!("GRANT SELECT ON {tables}, _sqlx_migrations TO {worker}, {reader}"),
        format!("GRANT INSERT, UPDATE, DELETE ON {tables} TO {worker}"),
        format!("GRANT EXECUTE ON FUNCTION {functions} TO {worker}"),
    ]
}

fn known() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

fn newer(address: &Address, found: i64) -> StoreError {
    StoreError::NewerSchema { server: address.server().to_owned(), found, known: known() }
}

/// The version of the schema; none where there is none.
async fn version(connection: &mut PgConnection) -> sqlx::Result<Option<i64>> {
    let sql = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    let is_there: bool = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
    if !is_there {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(connection).await
}

/// An error where the schema is not that of this release.
pub(super) async fn check(connection: &mut PgConnection, address: &Address) -> Result<(), StoreError> {
    let (known, server) = (known(), address.server().to_owned());
    match version(connection).await.map_err(|error| address.failed(error))? {
        None => Err(StoreError::NoSchema { server }),
        Some(found) if found < known => Err(StoreError::OlderSchema { server, found, known }),
        Some(found) if found > known => Err(newer(address, found)),
        Some(_) => Ok(()),
    }
}

/// The columns that may not be null: table and column.
pub(super) async fn required(connection: &mut PgConnection) -> sqlx::Result<HashSet<(String, String)>> {
    let sql = "SELECT c.relname::TEXT, a.attname::TEXT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attnotnull AND a.attnum > 0 AND c.relname = ANY($1) AND pg_table_is_visible(c.oid)";
    Ok(sqlx::query_as(sql).bind(TABLES).fetch_all(connection).await?.into_iter().collect())
}
