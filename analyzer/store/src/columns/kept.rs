//! Rows of results: written and read window by window, by the statements that their columns make.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::OnceLock;

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{Stored, Value};
use crate::Place;
use crate::checked::{self, Reading, Table};
use crate::row::Session;
use goodput_exposition::sample::TimeMs;

/// The rows of a window, in any table that has windows. No row ends before it starts, so the second condition leaves none
/// out: it bounds what an index on `start_ms` is read for.
pub(crate) const IN_WINDOW: &str = "start_ms >= $1 AND start_ms <= $2 AND end_ms <= $2";

pub(crate) fn in_window(window: &Range<TimeMs>) -> [Value<'static>; 2] {
    [window.start.into(), window.end.into()]
}

/// A table of results.
#[derive(Debug)]
pub(crate) struct Kept<T: 'static> {
    pub(crate) table: Table,
    order: &'static str,
    /// Made once: a window has thousands of rows.
    insert: OnceLock<String>,
    rows: PhantomData<fn() -> T>,
}

impl<T: Stored> Kept<T> {
    pub(crate) const fn new(name: &'static str, columns: &'static [&'static str], order: &'static str) -> Self {
        let table = Table { name, columns, key: "rowid", has_window: true, decode: |row| T::read(row).map(drop) };
        Self { table, order, insert: OnceLock::new(), rows: PhantomData }
    }

    /// Its rows are not judged again where they are lost: others say the same.
    pub(crate) const fn without_window(mut self) -> Self {
        self.table.has_window = false;
        self
    }

    /// The rows of a window where these columns have the values from `$3` on.
    pub(crate) fn selection(&self, conditions: &[&str]) -> String {
        let equal: Vec<String> = (3..).zip(conditions).map(|(place, column)| format!("{column} = ${place}")).collect();
        self.selection_where(&equal.join(" AND "))
    }

    /// The rows of a window where a condition holds.
    pub(crate) fn selection_where(&self, condition: &str) -> String {
        let Table { name, columns, .. } = &self.table;
        let and = if condition.is_empty() { "" } else { " AND " };
        let columns = columns.join(", ");
        format!("SELECT {columns}, checksum FROM {name} WHERE {IN_WINDOW}{and}{condition} ORDER BY {}", self.order)
    }

    fn insertion(&self) -> String {
        let Table { name, columns, .. } = &self.table;
        let places: Vec<String> = (1..=columns.len() + 1).map(|place| format!("${place}")).collect();
        format!("INSERT INTO {name} ({}, checksum) VALUES ({})", columns.join(", "), places.join(", "))
    }

    fn deletion(&self, of_node: bool) -> String {
        let of_node = if of_node { " AND node = $3 AND cluster IS NOT DISTINCT FROM $4" } else { "" };
        format!("DELETE FROM {} WHERE {IN_WINDOW}{of_node}", self.table.name)
    }

    pub(crate) fn statements(&self) -> [String; 3] {
        [self.insertion(), self.selection(&[]), self.deletion(self.table.columns.contains(&"node"))]
    }

    pub(crate) async fn select(
        &'static self,
        connection: &mut impl Session,
        reading: &mut Reading,
        window: &Range<TimeMs>,
    ) -> sqlx::Result<Vec<T>> {
        let sql = AssertSqlSafe(self.selection(&[]));
        reading.all(connection, &self.table, sql, (IN_WINDOW, &in_window(window)), &[], T::read).await
    }

    /// Replaces what there is of a window, or of one node in it.
    pub(crate) async fn replace(
        &'static self,
        connection: &mut SqliteConnection,
        window: &Range<TimeMs>,
        place: Option<Place<'_>>,
        rows: &[T],
    ) -> sqlx::Result<()> {
        let deletion = sqlx::query(AssertSqlSafe(self.deletion(place.is_some()))).bind(window.start).bind(window.end);
        let deletion = place.into_iter().fold(deletion, |query, of| query.bind(of.node).bind(of.cluster));
        deletion.execute(&mut *connection).await?;
        let insert = self.insert.get_or_init(|| self.insertion());
        for row in rows {
            checked::insert(connection, insert, &row.values(), &[]).await?;
        }
        Ok(())
    }
}
