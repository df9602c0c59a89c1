//! What a column is.

use crate::checked::Value;
use crate::row::Row;

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text, which may be JSON.
    Text,
    /// A whole number.
    Integer,
    /// A float.
    Real,
    /// Milliseconds since the Unix epoch.
    Time,
}

/// A column of a table of results.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in SQL.
    pub name: &'static str,
    /// What its cells hold.
    pub kind: Kind,
    /// Its name in exported files; `None` is in none.
    pub exported: Option<&'static str>,
    /// What it says, in the Markdown of `docs/`.
    pub about: &'static str,
}

/// A column of exported files alone, and its value in a row.
pub type Derived<T> = (Column, fn(&T) -> Value<'_>);

/// What is kept as rows of a table.
pub trait Stored: Sized + 'static {
    /// The columns in the order of the checksum, which new ones come after.
    const COLUMNS: &'static [Column];
    /// Columns of exported files alone, after the others.
    const DERIVED: &'static [Derived<Self>] = &[];

    /// A value for each of [`Stored::COLUMNS`].
    fn values(&self) -> Vec<Value<'_>>;

    /// What [`Stored::values`] gave, by a row that begins with these columns.
    fn read(row: Row<'_>) -> sqlx::Result<Self>;
}

/// The columns of a file, where they are among those of the table, and their names in the file: those of the names `first`
/// stand first.
#[must_use]
pub fn exported(columns: &[Column], first: &[&str]) -> Vec<(usize, &'static str, Column)> {
    let exported = columns.iter().enumerate().filter_map(|(place, column)| Some((place, column.exported?, *column)));
    let mut all: Vec<_> = exported.collect();
    all.sort_by_key(|(.., column)| first.iter().position(|name| *name == column.name).unwrap_or(first.len()));
    all
}

const fn column(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, exported: Some(name), about }
}

pub(super) const fn text(name: &'static str, about: &'static str) -> Column {
    column(name, Kind::Text, about)
}

pub(super) const fn integer(name: &'static str, about: &'static str) -> Column {
    column(name, Kind::Integer, about)
}

pub(super) const fn real(name: &'static str, about: &'static str) -> Column {
    column(name, Kind::Real, about)
}

/// Files name times without their unit, which their type says.
pub(super) const fn time(name: &'static str, exported: &'static str, about: &'static str) -> Column {
    column(name, Kind::Time, about).named(exported)
}

impl Column {
    /// With another name in exported files.
    pub(super) const fn named(self, exported: &'static str) -> Self {
        Self { exported: Some(exported), ..self }
    }

    pub(super) const fn unexported(self) -> Self {
        Self { exported: None, ..self }
    }
}
