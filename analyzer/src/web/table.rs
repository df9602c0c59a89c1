//! A long table: filtered by a form, in the order of a column, a part at a time. All of it stands in the address.

use super::chosen::Chosen;
use super::kept::{Kept, given};
use super::page::Problem;
use super::part::{Part, PartQuery};
use super::sorted::{Heads, Key, To, sort};

/// A table of fewer rows has no form to filter it.
pub(super) const MANY: usize = 10;

/// What stands around the rows of a table.
pub(super) struct Table {
    pub(super) part: Part,
    pub(super) heads: Heads,
    pub(super) filter: Filter,
    /// The filter and the order, which stay while another period is chosen.
    pub(super) kept: Kept,
}

/// The form that leaves rows out.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) path: String,
    /// The period and the order.
    pub(super) hidden: Vec<(String, String)>,
    /// Name, label and value of each field.
    pub(super) fields: Vec<(String, &'static str, String)>,
    pub(super) is_shown: bool,
    /// All rows, where some are left out.
    pub(super) all: Option<String>,
}

/// The page that a table is on: its path, its period, and name, label and value of each field of the filter.
pub(super) struct On<'a, const N: usize> {
    pub(super) path: &'static str,
    pub(super) chosen: &'a Chosen,
    pub(super) fields: [(&'static str, &'static str, &'a Option<String>); N],
    /// Orders and filters of the other tables of the page.
    pub(super) others: Kept,
}

impl Table {
    /// Of rows that pass the filter, which are put in order.
    pub(super) fn of<T, const N: usize>(
        On { path, chosen, fields, others }: On<'_, N>,
        asked: &PartQuery,
        rows: &mut [T],
        columns: &[&'static str],
        key: impl Fn(&T, &str) -> Key,
    ) -> Result<Self, Problem> {
        let filtered = Kept::of(fields.map(|(name, _, value)| (name, value)));
        let order = Kept::of([("sort", &asked.sort)]);
        let href = format!("{path}?{}{}{}", chosen.query, others.query(), filtered.query());
        let is_set = !filtered.fields().is_empty();
        let kept = others.fields().iter().chain(order.fields()).cloned();
        let filter = Filter {
            path: path.to_owned(),
            hidden: chosen.fields().into_iter().chain(kept).collect(),
            fields: fields
                .map(|(name, label, value)| (name.to_owned(), label, given(value).unwrap_or_default().to_owned()))
                .into(),
            is_shown: is_set || rows.len() > MANY,
            all: is_set.then(|| format!("{path}?{}{}{}", chosen.query, others.query(), order.query())),
        };
        Ok(Self {
            heads: sort(rows, columns, given(&asked.sort), To { href: &href, field: "sort", anchor: "" }, key)?,
            part: Part::of(asked, rows.len(), &(href + &order.query()))?,
            filter,
            kept: others.and(filtered).and(order),
        })
    }
}

/// Is this part of a name asked for? Any is, where nothing is asked for.
pub(super) fn holds(name: &str, asked: &Option<String>) -> bool {
    given(asked).is_none_or(|asked| name.to_lowercase().contains(&asked.to_lowercase()))
}
