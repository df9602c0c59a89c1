//! A long table, a part at a time: `page=2`.

use std::ops::Range;

use serde::Deserialize;

use super::page::{Link, Problem};

/// Rows of a part.
const ROWS: usize = 100;

/// The field of the query.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PartQuery {
    page: Option<String>,
    /// The order of the rows.
    pub(super) sort: Option<String>,
}

#[cfg(test)]
impl PartQuery {
    pub(super) fn of(page: &str, sort: &str) -> Self {
        Self { page: Some(page.to_owned()), sort: Some(sort.to_owned()) }
    }
}

/// Which rows, and where the others are.
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    /// `Rows 101 to 200 of 1,250.`; empty where all rows are in one part.
    pub(super) note: String,
    pub(super) links: Vec<Link>,
}

impl Part {
    /// The part of `all` rows that is asked for; `href` is the page without the field.
    pub(super) fn of(query: &PartQuery, all: usize, href: &str) -> Result<Self, Problem> {
        let last = all.div_ceil(ROWS).max(1);
        let number = match query.page.as_deref().map(str::parse::<usize>) {
            None => 1,
            Some(Ok(number)) if (1..=last).contains(&number) => number,
            Some(_) => {
                let given = query.page.as_deref().unwrap_or_default();
                return Err(Problem::bad(format!("page: {given:?}: expected a whole number from 1 to {last}")));
            }
        };
        let rows = (number - 1) * ROWS..(number * ROWS).min(all);
        let to = |number: usize, text: &str| {
            (1..=last).contains(&number).then(|| Link::new(format!("{href}&page={number}"), text))
        };
        let links = [to(number - 1, "previous rows"), to(number + 1, "next rows")].into_iter().flatten().collect();
        let note = if last > 1 { format!("Rows {} to {} of {all}.", rows.start + 1, rows.end) } else { String::new() };
        Ok(Self { rows, note, links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_part_and_a_part_that_is_not_there_is_named() {
        let part = |page: Option<&str>, all| {
            let part = Part::of(&PartQuery { page: page.map(str::to_owned), sort: None }, all, "/x?p=1")
                .map_err(|p| p.what)?;
            Ok::<_, String>((part.rows, part.links.iter().map(|link| link.href.clone()).collect::<Vec<_>>()))
        };
        assert_eq!(part(None, 0), Ok((0..0, vec![])));
        assert_eq!(part(None, 100), Ok((0..100, vec![])));
        assert_eq!(part(Some("1"), 250).unwrap(), (0..100, vec!["/x?p=1&page=2".to_owned()]));
        let middle = vec!["/x?p=1&page=1".to_owned(), "/x?p=1&page=3".to_owned()];
        assert_eq!(part(Some("2"), 250).unwrap(), (100..200, middle));
        assert_eq!(part(Some("3"), 250).unwrap().0, 200..250);
        for wrong in ["0", "4", "-1", "two", ""] {
            assert_eq!(part(Some(wrong), 250), Err(format!("page: {wrong:?}: expected a whole number from 1 to 3")));
        }
    }
}
