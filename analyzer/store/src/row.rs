//! A connection to SQLite or to PostgreSQL, and the rows that it gives. Knows the types of values, and no table.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value as Json;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgTypeInfo, Postgres};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Column as _, Decode, Encode, Row as _, SqlStr, Type, TypeInfo as _, ValueRef as _};
use tokio_stream::{Stream, StreamExt as _};

use crate::checked::Value;

/// A row that a database gave.
#[derive(Clone, Copy, Debug)]
pub enum Row<'r> {
    /// SQLite's.
    Sqlite(&'r SqliteRow),
    /// PostgreSQL's.
    Postgres(&'r PgRow),
}

/// What both databases decode.
pub(crate) trait Cell<'r>: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres> {}

impl<'r, T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>> Cell<'r> for T {}

impl<'r> Row<'r> {
    /// What the column of this place holds.
    pub(crate) fn at<T: Cell<'r>>(self, place: usize) -> sqlx::Result<T> {
        match self {
            Self::Sqlite(row) => row.try_get(place),
            Self::Postgres(row) => row.try_get(place),
        }
    }

    /// What the column of this name holds.
    pub(crate) fn get<T: Cell<'r>>(self, column: &str) -> sqlx::Result<T> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }

    /// A number of the column of this name that is not negative and not large.
    pub(crate) fn small(self, column: &str) -> sqlx::Result<u32> {
        small(column, self.get(column)?)
    }

    /// The name of the column of this place.
    pub(crate) fn name(self, place: usize) -> &'r str {
        match self {
            Self::Sqlite(row) => row.column(place).name(),
            Self::Postgres(row) => row.column(place).name(),
        }
    }

    /// The value of a column, by the type that it has in the database; a text that is no UTF-8 as its bytes.
    pub(crate) fn raw(self, column: &str) -> Result<Raw<'r>, BoxDynError> {
        match self {
            Self::Sqlite(row) => {
                let value = row.try_get_raw(column)?;
                if value.is_null() {
                    return Ok(Raw::Value(Value::Null));
                }
                Ok(match value.type_info().name() {
                    "INTEGER" => Raw::Value(<i64 as Decode<Sqlite>>::decode(value)?.into()),
                    "REAL" => Raw::Value(<f64 as Decode<Sqlite>>::decode(value)?.into()),
                    "TEXT" => Raw::Text(<&[u8] as Decode<Sqlite>>::decode(value)?),
                    _ => Raw::Blob(<&[u8] as Decode<Sqlite>>::decode(value)?),
                })
            }
            Self::Postgres(row) => {
                let value = row.try_get_raw(column)?;
                if value.is_null() {
                    return Ok(Raw::Value(Value::Null));
                }
                Ok(match value.type_info().name() {
                    "INT8" => Raw::Value(<i64 as Decode<Postgres>>::decode(value)?.into()),
                    "FLOAT8" => Raw::Value(<f64 as Decode<Postgres>>::decode(value)?.into()),
                    _ => Raw::Text(<&str as Decode<Postgres>>::decode(value)?.as_bytes()),
                })
            }
        }
    }
}

/// A number that is not negative and not large.
pub(crate) fn small(column: &str, number: i64) -> sqlx::Result<u32> {
    u32::try_from(number).map_err(|_| unknown(column, &number.to_string()))
}

/// What a column may not hold.
pub(crate) fn unknown(column: &str, value: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {column} {value}").into())
}

/// A value as the database keeps it.
pub(crate) enum Raw<'r> {
    /// None, or a number.
    Value(Value<'static>),
    /// A text, whose bytes may be damaged.
    Text(&'r [u8]),
    /// What no column of ours holds.
    Blob(&'r [u8]),
}

impl<'r> Raw<'r> {
    /// As JSON, for people.
    pub(crate) fn shown(&self) -> Json {
        match self {
            Self::Value(Value::Integer(number)) => (*number).into(),
            Self::Value(Value::Real(number)) => (*number).into(),
            Self::Value(_) => Json::Null,
            Self::Text(bytes) | Self::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
        }
    }

    /// To be written again as it is. `None`: it cannot.
    pub(crate) fn value(self) -> Option<Value<'r>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Text(bytes) => std::str::from_utf8(bytes).ok().map(Value::from),
            Self::Blob(_) => None,
        }
    }
}

/// A row that outlives its read.
#[derive(Debug)]
pub(crate) enum Fetched {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Fetched {
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Self::Sqlite(row) => Row::Sqlite(row),
            Self::Postgres(row) => Row::Postgres(row),
        }
    }
}

/// Rows as they arrive.
pub(crate) type Rows<'c> = Pin<Box<dyn Stream<Item = sqlx::Result<Fetched>> + Send + 'c>>;

/// A connection to a database with tables of results. Values are those of several slices, one after another.
pub(crate) trait Session: Send {
    /// What a statement selects.
    fn rows<'c>(&'c mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> Rows<'c>;

    /// Runs a statement. Returns how many rows it concerned.
    fn execute(&mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// All that a statement selects.
    fn all(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = sqlx::Result<Vec<Fetched>>> + Send {
        let mut rows = self.rows(SqlStr::from_static(sql), &[values]);
        async move {
            let mut all = Vec::new();
            while let Some(row) = rows.try_next().await? {
                all.push(row);
            }
            Ok(all)
        }
    }

    /// The first row that a statement selects.
    fn one(&mut self, sql: &'static str, values: &[Value<'_>]) -> impl Future<Output = sqlx::Result<Fetched>> + Send {
        let all = self.all(sql, values);
        async move { all.await?.into_iter().next().ok_or(sqlx::Error::RowNotFound) }
    }
}

impl Session for SqliteConnection {
    fn rows<'c>(&'c mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> Rows<'c> {
        Box::pin(bound(sql, values).fetch(self).map(|row| row.map(Fetched::Sqlite)))
    }

    fn execute(&mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> impl Future<Output = sqlx::Result<u64>> + Send {
        let query = bound(sql, values);
        async move { Ok(query.execute(self).await?.rows_affected()) }
    }
}

impl Session for PgConnection {
    fn rows<'c>(&'c mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> Rows<'c> {
        Box::pin(bound_by_postgres(sql, values).fetch(self).map(|row| row.map(Fetched::Postgres)))
    }

    fn execute(&mut self, sql: SqlStr, values: &[&[Value<'_>]]) -> impl Future<Output = sqlx::Result<u64>> + Send {
        let query = bound_by_postgres(sql, values);
        async move { Ok(query.execute(self).await?.rows_affected()) }
    }
}

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

fn bound(sql: SqlStr, values: &[&[Value<'_>]]) -> Query {
    values.iter().copied().flatten().fold(sqlx::query(sql), |query, value| value.bind(query))
}

fn bound_by_postgres(sql: SqlStr, values: &[&[Value<'_>]]) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    values.iter().copied().flatten().fold(sqlx::query(sql), |query, value| match value {
        Value::Null | Value::Refused(_) => query.bind(Absent),
        Value::Integer(number) => query.bind(*number),
        Value::Real(number) => query.bind(*number),
        Value::Text(text) => query.bind(text.clone().into_owned()),
    })
}

/// NULL of the type that the statement has in its place.
struct Absent;

impl Type<Postgres> for Absent {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Absent {
    fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }
}
