//! A row on its way out of a database, column by column.

use serde::de::DeserializeOwned;

use crate::checked::Value;
use crate::row::{Cell, Row, small, unknown};

/// What one or more columns hold.
pub(crate) trait Field: Sized {
    /// Adds a value for each of its columns.
    fn put<'a>(&'a self, row: &mut Vec<Value<'a>>);

    /// Takes as many.
    fn take(cells: &mut Cells<'_>) -> sqlx::Result<Self>;
}

/// The columns of a row that are still to be taken.
pub(crate) struct Cells<'r> {
    row: Row<'r>,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: Row<'r>) -> Self {
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
    pub(crate) fn one<T: Cell<'r>>(&mut self) -> sqlx::Result<T> {
        let place = self.next;
        self.next += 1;
        self.row.at(place)
    }

    /// A number that is not negative and not large, or none.
    pub(crate) fn small(&mut self) -> sqlx::Result<Option<u32>> {
        let name = self.row.name(self.next);
        self.one::<Option<i64>>()?.map(|number| small(name, number)).transpose()
    }

    /// The one of all that the column names.
    pub(crate) fn named<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> sqlx::Result<T> {
        let column = self.next;
        let wanted: &str = self.one()?;
        let found = all.iter().copied().find(|one| name(*one) == wanted);
        found.ok_or_else(|| unknown(self.row.name(column), wanted))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> sqlx::Result<T> {
        let text: &str = self.one()?;
        serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
    }
}
