//! Tables and paragraphs as wide as a terminal. Knows nothing of what they say.

use std::fmt::Write as _;

use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// What stands between two columns.
const GAP: usize = 2;
/// A column that may be cut keeps this much.
const LEAST: usize = 8;

/// A column of a table.
pub(super) struct Column {
    head: &'static str,
    alignment: Alignment,
    /// May it be cut where the table is too wide?
    is_flexible: bool,
}

impl Column {
    pub(super) const fn left(head: &'static str) -> Self {
        Self { head, alignment: Alignment::Left, is_flexible: false }
    }

    pub(super) const fn right(head: &'static str) -> Self {
        Self { head, alignment: Alignment::Right, is_flexible: false }
    }

    pub(super) const fn flexible(head: &'static str) -> Self {
        Self { head, alignment: Alignment::Left, is_flexible: true }
    }
}

/// The rows below the heads, a line each. Where they are wider than `width`, the widest flexible column is cut.
pub(super) fn lines<const N: usize>(columns: &[Column; N], rows: &[[String; N]], width: usize) -> String {
    let heads = std::array::from_fn(|n| columns[n].head.to_owned());
    let widest = |n: usize| rows.iter().chain([&heads]).map(|row| measure_text_width(&row[n])).max().unwrap_or(0);
    let mut widths: [usize; N] = std::array::from_fn(widest);
    let room = width.saturating_sub(GAP * N.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let flexible = (0..N).filter(|n| columns[*n].is_flexible && widths[*n] > LEAST);
        let Some(widest) = flexible.max_by_key(|n| widths[*n]) else { break };
        widths[widest] -= 1;
    }
    let mut text = String::new();
    for row in [&heads].into_iter().chain(rows) {
        let cell = |n: usize| {
            let cut = truncate_str(&row[n], widths[n], "…");
            pad_str(&cut, widths[n], columns[n].alignment, None).into_owned()
        };
        let cells: [String; N] = std::array::from_fn(cell);
        let _ = writeln!(text, "{}", cells.join(&" ".repeat(GAP)).trim_end());
    }
    text
}

/// Writes words behind `first`, and behind `next` on every further line. No word is broken.
pub(super) fn wrapped(text: &mut String, first: &str, next: &str, words: &str, width: usize) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && measure_text_width(&line) + 1 + measure_text_width(word) > width {
            let _ = writeln!(text, "{line}");
            next.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_no_wider_than_the_terminal_and_numbers_stay_whole() {
        let columns = [Column::left("GPU"), Column::flexible("job"), Column::right("lost")];
        let rows = [
            ["0".into(), "a-very-long-name-of-a-job".into(), "80.0 %".into()],
            ["10".into(), "b".into(), "5.0 %".into()],
        ];
        assert_eq!(
            lines(&columns, &rows, 80),
            "GPU  job                          lost\n0    a-very-long-name-of-a-job  80.0 %\n10   b                           5.0 %\n"
        );
        assert_eq!(
            lines(&columns, &rows, 24),
            "GPU  job            lost\n0    a-very-lon…  80.0 %\n10   b             5.0 %\n"
        );
        // Below that nothing is gained: numbers are not cut.
        assert!(lines(&columns, &rows, 5).contains("80.0 %"));
    }

    #[test]
    fn words_are_wrapped_and_never_broken() {
        let mut text = String::new();
        wrapped(&mut text, "a ", "  ", "b xxxxxxxxxx c", 8);
        assert_eq!(text, "a b\n  xxxxxxxxxx\n  c\n");
    }
}
