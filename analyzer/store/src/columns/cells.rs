//! A row on its way out of SQLite, column by column.

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Decode, Row, Sqlite, Type};

use crate::checked::Value;

/// What one or more columns hold.
pub(crate) trait Field: Sized {
    /// Adds a value for each of its columns.
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>);

    /// Takes as many.
    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self>;
}

/// The columns of a row that are still to be taken.
pub(crate) struct Cells<'r> {
    row: &'r SqliteRow,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r SqliteRow) -> Self {
        Self { row, next: 0 }
    }

    /// Without the next few.
    pub(crate) fn after(self, columns: usize) -> Self {
        Self { next: self.next + columns, ..self }
    }

    pub(crate) fn take<T: Field>(&mut self) -> sqlx::Result<T> {
        T::take(self)
    }

    /// What one column holds.
    pub(crate) fn one<T: Decode<'r, Sqlite> + Type<Sqlite>>(&mut self) -> sqlx::Result<T> {
        let place = self.next;
        self.next += 1;
        self.row.try_get(place)
    }

    /// The one of all that the column names.
    pub(crate) fn named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> sqlx::Result<T> {
        let column = self.next;
        let wanted: &str = self.one()?;
        let found = all.iter().copied().find(|one| name(*one) == wanted);
        found.ok_or_else(|| sqlx::Error::Decode(format!("unknown {} {wanted}", self.row.column(column).name()).into()))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> sqlx::Result<T> {
        let text: &str = self.one()?;
        serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
    }
}
