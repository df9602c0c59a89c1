//! A table of a page that has several: in the order of a column, and filtered by a part of a row's text. Both stand in the
//! address, in fields that begin with the table's name: `owners.sort=-held&owners.has=train`.

use serde::Deserialize;

use super::kept::Kept;
use super::page::Problem;
use super::sorted::{Heads, Key, To, sort};
use super::table::{Filter, MANY};
use crate::report::site::escaped;

/// How the fields of a table end.
const SORT: &str = ".sort";
const HAS: &str = ".has";

/// All fields of an address, in order.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Fields(Vec<(String, String)>);

/// A table of a page: the path of the page, the fields of its address, and the table's name.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) path: &'a str,
    pub(super) fields: &'a Fields,
    pub(super) id: &'static str,
}

/// What stands around the rows of a table.
#[derive(Debug)]
pub(super) struct View {
    pub(super) id: &'static str,
    pub(super) heads: Heads,
    pub(super) filter: Filter,
    /// Are all rows filtered out?
    pub(super) is_empty: bool,
}

impl Fields {
    /// Orders and filters of the tables, which stay while another period is chosen.
    pub(super) fn kept(&self) -> Kept {
        let of_tables = self.given().filter(|(name, _)| name.ends_with(SORT) || name.ends_with(HAS));
        Kept::named(of_tables.cloned().collect())
    }

    /// An empty field of a form asks for nothing.
    fn given(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter().filter(|(_, value)| !value.is_empty())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.given().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// All but these.
    fn without(&self, names: &[&str]) -> Vec<(String, String)> {
        self.given().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect()
    }
}

impl Of<'_> {
    /// Leaves out the rows that have not the text asked for, and puts the others in order. Unless a column is asked for they
    /// stay in the order of the first one, in which they come.
    pub(super) fn view<T>(
        self,
        rows: &mut Vec<T>,
        columns: &[&'static str],
        key: impl Fn(&T, &str) -> Key,
        text: impl Fn(&T) -> String,
    ) -> Result<View, Problem> {
        let Of { path, fields, id } = self;
        let (by, has) = (format!("{id}{SORT}"), format!("{id}{HAS}"));
        let asked = fields.get(&has);
        let all = rows.len();
        if let Some(asked) = asked.map(str::to_lowercase) {
            rows.retain(|row| text(row).to_lowercase().contains(&asked));
        }
        let to = To { href: &address(path, &fields.without(&[&by])), field: &by, anchor: id };
        let filter = Filter {
            path: format!("{path}#{id}"),
            hidden: fields.without(&[&has]),
            fields: vec![(has.clone(), "rows with", asked.unwrap_or_default().to_owned())],
            is_shown: asked.is_some() || all > MANY,
            all: asked.map(|_| format!("{}#{id}", address(path, &fields.without(&[&has])))),
        };
        Ok(View {
            id,
            heads: sort(rows, columns, fields.get(&by), to, key)?,
            filter,
            is_empty: all > 0 && rows.is_empty(),
        })
    }
}

fn address(path: &str, fields: &[(String, String)]) -> String {
    let query: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    format!("{path}?{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 2] = ["lost", "name"];

    fn view(fields: &[(&str, &str)]) -> Result<(Vec<i64>, View), String> {
        let fields = Fields(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        let mut rows: Vec<i64> = (0..20).rev().collect();
        let key = |row: &i64, column: &str| match column {
            "name" => Key::Text(row.to_string()),
            _ => Key::number(*row),
        };
        let of = Of { path: "/x", fields: &fields, id: "a" };
        let view = of.view(&mut rows, &COLUMNS, key, i64::to_string).map_err(|problem| problem.what)?;
        Ok((rows, view))
    }

    #[test]
    fn two_tables_of_a_page_are_sorted_and_filtered_apart() {
        let others = [("period", "24h"), ("b.sort", "-x"), ("b.has", "")];
        let (rows, all) = view(&others).unwrap();
        assert_eq!((rows.len(), rows[0], all.filter.is_shown, all.filter.all), (20, 19, true, None));
        assert_eq!(all.heads.get("name").unwrap().href, "/x?period=24h&b.sort=-x&a.sort=name#a");
        let (rows, some) = view(&[others[0], others[1], ("a.sort", "name"), ("a.has", "1")]).unwrap();
        assert_eq!(rows, [1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
        assert_eq!(some.filter.all.as_deref(), Some("/x?period=24h&b.sort=-x&a.sort=name#a"));
        assert_eq!(some.heads.get("name").unwrap().href, "/x?period=24h&b.sort=-x&a.has=1&a.sort=-name#a");
        let hidden: Vec<&str> = some.filter.hidden.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((hidden, some.is_empty), (vec!["period", "b.sort", "a.sort"], false));
        assert!(view(&[("a.has", "x")]).unwrap().1.is_empty);
        let wrong = view(&[("a.sort", "colour")]).unwrap_err();
        assert!(wrong.starts_with("a.sort: \"colour\": expected one of lost, name"), "{wrong}");
    }
}
