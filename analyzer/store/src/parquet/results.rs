//! What is stored of the ledger and in addition to it, one row each.

use std::mem;

use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};

use super::known_times;
use crate::columns::{self, Kind, Stored, Value, exported};

/// Whose it is, what and when: these stand before all others, which follow in the order of their table.
const FIRST: [&str; 18] = [
    "node", "gpu", "model", "metric", "unit", "owner", "subject", "kind", "which", "entity", "cluster", "run",
    "account", "owners", "class", "advice", "start_ms", "end_ms",
];

/// The rows in the form of the file.
pub fn results<T: Stored>(rows: &[T]) -> PolarsResult<DataFrame> {
    let own = exported(T::COLUMNS, &FIRST);
    let mut columns: Vec<Cells> = shape::<T>().map(|(_, column)| Cells::of(column.kind, rows.len())).collect();
    for row in rows {
        let mut values = row.values();
        let own = own.iter().map(|(place, ..)| mem::replace(&mut values[*place], Value::Null));
        let derived = T::DERIVED.iter().map(|(_, of)| of(row));
        columns.iter_mut().zip(own.chain(derived)).for_each(|(cells, value)| cells.push(value));
    }
    let columns = shape::<T>().zip(columns).map(|((name, _), cells)| cells.column(name));
    DataFrame::new(rows.len(), columns.collect::<PolarsResult<_>>()?)
}

/// The columns of the file: their names in it, and what they are.
pub(crate) fn shape<T: Stored>() -> impl Iterator<Item = (&'static str, columns::Column)> {
    let own = exported(T::COLUMNS, &FIRST).into_iter().map(|(_, name, column)| (name, column));
    own.chain(T::DERIVED.iter().map(|(column, _)| (column.name, *column)))
}

/// A column that is being filled; one without any value has its type all the same.
enum Cells {
    Texts(Vec<Option<String>>),
    Integers(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
    Times(Vec<Option<i64>>),
}

impl Cells {
    fn of(kind: Kind, rows: usize) -> Self {
        match kind {
            Kind::Text => Self::Texts(Vec::with_capacity(rows)),
            Kind::Integer => Self::Integers(Vec::with_capacity(rows)),
            Kind::Real => Self::Reals(Vec::with_capacity(rows)),
            Kind::Time => Self::Times(Vec::with_capacity(rows)),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Texts(cells), Value::Text(text)) => cells.push(Some(text.into_owned())),
            (Self::Integers(cells) | Self::Times(cells), Value::Integer(number)) => cells.push(Some(number)),
            (Self::Reals(cells), Value::Real(number)) => cells.push(Some(number)),
            (Self::Texts(cells), _) => cells.push(None),
            (Self::Integers(cells) | Self::Times(cells), _) => cells.push(None),
            (Self::Reals(cells), _) => cells.push(None),
        }
    }

    fn column(self, name: &str) -> PolarsResult<Column> {
        Ok(match self {
            Self::Texts(cells) => Series::new(name.into(), cells).into(),
            Self::Integers(cells) => Series::new(name.into(), cells).into(),
            Self::Reals(cells) => Series::new(name.into(), cells).into(),
            Self::Times(cells) => known_times(name, cells)?,
        })
    }
}
