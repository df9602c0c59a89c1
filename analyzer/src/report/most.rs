//! The part of a run that shows most: rows for a reader, more for the JSON form, and how many there are beyond those.

use schemars::JsonSchema;
use serde::Serialize;

/// Rows that a reader sees.
const MAX_ROWS: usize = 8;
/// Rows of the JSON form.
const MOST_ROWS: usize = 64;

/// Rows of a finding, those first that show most.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "{R}s")]
pub struct Most<R> {
    /// Those that show most, in order.
    pub rows: Vec<R>,
    /// Others of the run, which show less.
    pub others: usize,
}

impl<R> Most<R> {
    /// Of these rows, in order, of at least `known` that there are.
    pub(super) fn of(mut rows: Vec<R>, known: usize) -> Self {
        let known = known.max(rows.len());
        rows.truncate(MOST_ROWS);
        Self { others: known - rows.len(), rows }
    }

    /// The rows that a reader sees.
    #[must_use]
    pub fn shown(&self) -> &[R] {
        &self.rows[..self.rows.len().min(MAX_ROWS)]
    }

    /// How many no reader sees.
    #[must_use]
    pub fn more(&self) -> usize {
        self.others + self.rows.len() - self.shown().len()
    }
}
