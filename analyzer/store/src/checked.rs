//! Rows of results and events with a checksum over their values: how they are written, read and compared. Writes nothing
//! by itself but the rows it is given.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value as Json};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteError};
use sqlx::{SqlSafeStr, SqlStr};
use tokio_stream::StreamExt;

use super::row::{Raw, Row, Session};

/// A query, ready to bind values.
type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// A table whose rows have a checksum.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The columns that the checksum covers, in this order; those of its INSERT.
    pub(super) columns: &'static [&'static str],
    /// An SQL expression that names one row: `rowid`, or a text of the primary key.
    pub(super) key: &'static str,
    /// Does a row belong to the window from its `start_ms` to its `end_ms`?
    pub(super) has_window: bool,
    /// Fails for a row that the readers cannot decode.
    pub(super) decode: fn(Row<'_>) -> sqlx::Result<()>,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A whole number.
    Integer(i64),
    /// A float, which is a number.
    Real(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// One that could not be read again, and why: its row is not written.
    Refused(String),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Value<'_> {
    /// SQLite keeps NaN as NULL, and a negative zero as zero.
    fn from(value: f64) -> Self {
        if value.is_nan() { Self::Null } else { Self::Real(value + 0.0) }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value.into())
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null | Self::Refused(_) => Ok(()),
            Self::Integer(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Value<'_> {
    pub(super) fn bind<'q>(&self, query: Query<'q>) -> Query<'q> {
        match self {
            Self::Null | Self::Refused(_) => query.bind(None::<i64>),
            Self::Integer(value) => query.bind(*value),
            Self::Real(value) => query.bind(*value),
            Self::Text(text) => query.bind(text.clone().into_owned()),
        }
    }

    /// One byte for the type, then the value; a text with its length before it.
    fn add_to(&self, hasher: &mut crc32fast::Hasher) {
        match self {
            Self::Null | Self::Refused(_) => hasher.update(&[0]),
            Self::Integer(value) => add(hasher, 1, &value.to_le_bytes()),
            Self::Real(value) => add(hasher, 2, &value.to_bits().to_le_bytes()),
            Self::Text(text) => add_bytes(hasher, 3, text.as_bytes()),
        }
    }
}

fn add(hasher: &mut crc32fast::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(bytes);
}

fn add_bytes(hasher: &mut crc32fast::Hasher, kind: u8, bytes: &[u8]) {
    add(hasher, kind, &(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

pub(super) fn checksum(values: &[Value<'_>]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    values.iter().for_each(|value| value.add_to(&mut hasher));
    hasher.finalize()
}

/// Writes a row by its INSERT: its values, the checksum over them, and then values that may change later. An error where a
/// value is refused.
pub(super) async fn insert(
    connection: &mut impl Session,
    sql: &'static str,
    values: &[Value<'_>],
    changing: &[Value<'_>],
) -> sqlx::Result<()> {
    check(values)?;
    let checksum = [checksum(values).into()];
    connection.execute(SqlStr::from_static(sql), &[values, &checksum, changing]).await.map(drop)
}

/// An error where a value is refused.
pub(super) fn check(values: &[Value<'_>]) -> sqlx::Result<()> {
    let refused = values.iter().find_map(|value| match value {
        Value::Refused(reason) => Some(reason.as_str()),
        _ => None,
    });
    refused.map_or(Ok(()), |reason| Err(sqlx::Error::Encode(reason.into())))
}

impl Table {
    /// Can the row be read, and is it as it was written? The reason, where it is not.
    pub(super) fn check(&self, row: Row<'_>) -> Result<(), String> {
        self.compare(row)?;
        (self.decode)(row).map_err(|error| error.to_string())
    }

    /// Does the row match its checksum? Rows of earlier releases have none, or one over the columns that there were: those
    /// after them are null.
    fn compare(&self, row: Row<'_>) -> Result<(), String> {
        let stored: Option<i64> = row.get("checksum").map_err(|error| error.to_string())?;
        let Some(stored) = stored else { return Ok(()) };
        let mut hasher = crc32fast::Hasher::new();
        let mut is_it = false;
        for column in self.columns {
            let value = row.raw(column).map_err(|error| format!("{column}: {error}"))?;
            is_it &= matches!(value, Raw::Value(Value::Null));
            value.add_to(&mut hasher);
            is_it |= stored == i64::from(hasher.clone().finalize());
        }
        let found = hasher.finalize();
        is_it.then_some(()).ok_or_else(|| format!("its checksum is {stored:08x}, that of its values is {found:08x}"))
    }

    /// The values of a row, as far as they can be read, as a JSON object.
    pub(super) fn content(&self, row: Row<'_>) -> String {
        let value = |column: &&str| {
            let shown = row.raw(column).map_or(Json::Null, |value| value.shown());
            ((*column).to_owned(), shown)
        };
        let columns = self.columns.iter().chain(&["checksum"]);
        Json::Object(columns.map(value).collect::<Map<_, _>>()).to_string()
    }
}

impl Raw<'_> {
    /// As [`Value::add_to`].
    fn add_to(&self, hasher: &mut crc32fast::Hasher) {
        match self {
            Self::Value(value) => value.add_to(hasher),
            Self::Text(bytes) => add_bytes(hasher, 3, bytes),
            Self::Blob(bytes) => add_bytes(hasher, 4, bytes),
        }
    }
}

/// What a read left out.
#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) table: &'static Table,
    /// The condition of the read, in SQL, and its values.
    pub(super) condition: &'static str,
    pub(super) values: Vec<Value<'static>>,
    pub(super) rows: u64,
    /// Of the first one.
    pub(super) reason: String,
    pub(super) content: String,
}

/// A read of results: its bound on rows, and what it left out.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) skipped: Vec<Skipped>,
    max_rows: Option<usize>,
    rows: usize,
}

impl Reading {
    /// No more rows than this are read.
    pub(super) fn up_to(max_rows: Option<usize>) -> Self {
        Self { max_rows, ..Self::default() }
    }

    /// Were there more rows than may be read?
    pub(super) fn is_too_much(&self) -> bool {
        self.max_rows.is_some_and(|max| self.rows > max)
    }

    /// The sound rows of a table where a condition holds; `sql` has that condition, whose values are bound first, then `more`.
    pub(super) async fn all<T>(
        &mut self,
        connection: &mut impl Session,
        table: &'static Table,
        sql: impl SqlSafeStr + Send,
        (condition, values): (&'static str, &[Value<'static>]),
        more: &[Value<'_>],
        decode: impl Fn(Row<'_>) -> sqlx::Result<T> + Send,
    ) -> sqlx::Result<Vec<T>> {
        // Row by row: SQLite's copy of a row takes several times the memory of what it becomes.
        let mut rows = connection.rows(sql.into_sql_str(), &[values, more]);
        let (mut read, mut skipped) = (Vec::new(), None::<Skipped>);
        while let Some(fetched) = rows.try_next().await? {
            let row = fetched.row();
            self.rows += 1;
            if self.is_too_much() {
                break;
            }
            match table.compare(row).and_then(|()| decode(row).map_err(|error| error.to_string())) {
                Ok(sound) => read.push(sound),
                Err(reason) => {
                    let first = || Skipped {
                        table,
                        condition,
                        values: values.to_vec(),
                        rows: 0,
                        reason,
                        content: table.content(row),
                    };
                    skipped.get_or_insert_with(first).rows += 1;
                }
            }
        }
        self.skipped.extend(skipped);
        Ok(read)
    }

    /// Names what was left out, where nothing can be set aside.
    pub(super) fn warn(&self) {
        for Skipped { table, rows, reason, content, .. } in &self.skipped {
            let content = content.chars().take(200).collect::<String>();
            tracing::warn!(table = table.name, rows, reason, content, "bad rows left out; this is the first");
        }
    }
}

/// Is the database file itself damaged, by SQLite's word: SQLITE_CORRUPT or SQLITE_NOTADB, with or without more detail?
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    let error = error.as_database_error().filter(|error| error.try_downcast_ref::<SqliteError>().is_some());
    let code = error.and_then(|error| error.code()).and_then(|code| code.parse::<i64>().ok());
    code.is_some_and(|code| matches!(code & 0xff, 11 | 26))
}
