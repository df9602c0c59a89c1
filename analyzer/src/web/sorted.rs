//! Rows in the order of a column: `sort=goodput`, or `sort=-goodput` the other way round.

use std::cmp::Reverse;

use super::page::Problem;

/// What rows are put in order by: of numbers the greatest comes first, of texts that of the first letters.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// What is not known comes after all that is; in the reverse order before it.
    Number(Reverse<Option<i64>>),
    Text(String),
}

impl Key {
    pub(super) fn number(value: impl Into<Option<i64>>) -> Self {
        Self::Number(Reverse(value.into()))
    }

    pub(super) fn count(value: usize) -> Self {
        Self::number(i64::try_from(value).unwrap_or(i64::MAX))
    }

    pub(super) fn ratio(value: Option<f64>) -> Self {
        Self::number(value.map(|value| (value * 1e9) as i64))
    }
}

/// The head of a column.
#[derive(Debug)]
pub(super) struct Head {
    name: &'static str,
    /// The page in this order; of the column that it is in, the other way round.
    pub(super) href: String,
    /// As ARIA names orders; none where rows are in another one.
    pub(super) order: Option<&'static str>,
}

/// Heads of the columns that a table can be sorted by.
#[derive(Debug, Default)]
pub(super) struct Heads(Vec<Head>);

impl Heads {
    pub(super) fn get(&self, name: &str) -> Option<&Head> {
        self.0.iter().find(|head| head.name == name)
    }
}

/// Where heads lead to: the page without the field that orders the table, that field, and the place on the page.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    pub(super) href: &'a str,
    pub(super) field: &'a str,
    /// Empty for the beginning of the page.
    pub(super) anchor: &'a str,
}

/// Puts rows in order. Unless a column is asked for they are in the order of the first one.
pub(super) fn sort<T>(
    rows: &mut [T],
    columns: &[&'static str],
    asked: Option<&str>,
    To { href, field, anchor }: To<'_>,
    key: impl Fn(&T, &str) -> Key,
) -> Result<Heads, Problem> {
    let first = columns.first().copied().unwrap_or_default();
    let given = asked.unwrap_or(first);
    let (name, is_reverse) = given.strip_prefix('-').map_or((given, false), |name| (name, true));
    if !columns.contains(&name) {
        let names = columns.join(", ");
        return Err(Problem::bad(format!(
            "{field}: {given:?}: expected one of {names}; with - before it, the reverse"
        )));
    }
    let is_falling = rows.first().is_none_or(|row| matches!(key(row, name), Key::Number(_))) != is_reverse;
    // In the order of the first column they are already, and by more than its figure.
    if name != first {
        rows.sort_by_cached_key(|row| key(row, name));
    }
    if is_reverse {
        rows.reverse();
    }
    let head = |column: &&'static str| {
        let is_current = *column == name;
        let sign = if is_current && !is_reverse { "-" } else { "" };
        let order = if is_falling { "descending" } else { "ascending" };
        let and = if href.ends_with('?') { "" } else { "&" };
        let to = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        Head {
            name: column,
            href: format!("{href}{and}{field}={sign}{column}{to}"),
            order: is_current.then_some(order),
        }
    };
    Ok(Heads(columns.iter().map(head).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: To<'static> = To { href: "/x?p=1", field: "sort", anchor: "" };

    #[test]
    fn a_head_leads_to_its_order_and_from_there_to_the_reverse() {
        let (falling, rising) = (Some("descending"), Some("ascending"));
        for (asked, order, lost, name) in [
            (None, "bca", ("-lost", falling), ("name", None)),
            (Some("lost"), "bca", ("-lost", falling), ("name", None)),
            (Some("-lost"), "acb", ("lost", rising), ("name", None)),
            (Some("name"), "abc", ("lost", None), ("-name", rising)),
            (Some("-name"), "cba", ("lost", None), ("name", falling)),
        ] {
            let mut rows = [("b", 3), ("c", 2), ("a", 1)];
            let heads = sort(&mut rows, &["lost", "name"], asked, TO, key).map_err(|problem| problem.what).unwrap();
            assert_eq!(rows.iter().map(|(name, _)| *name).collect::<String>(), order, "{asked:?}");
            for (column, (sort, order)) in [("lost", lost), ("name", name)] {
                let head = heads.get(column).unwrap();
                assert_eq!(
                    (head.href.as_str(), head.order),
                    (format!("/x?p=1&sort={sort}").as_str(), order),
                    "{asked:?}"
                );
            }
        }
        let wrong = sort(&mut [("b", 3)], &["lost", "name"], Some("gpus"), TO, key).map_err(|problem| problem.what);
        let expected = "sort: \"gpus\": expected one of lost, name; with - before it, the reverse";
        assert_eq!(wrong.unwrap_err(), expected);
    }

    fn key(row: &(&str, i64), column: &str) -> Key {
        if column == "name" { Key::Text(row.0.to_owned()) } else { Key::number(row.1) }
    }
}
