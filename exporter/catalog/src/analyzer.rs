//! Rows of what the analyzer's `/metrics` shows, listed in `docs/reference/METRICS-analyzer.md`.
//!
//! `by` names the part of the analyzer that a row is about. A row has no source: it is the analyzer's own state. `series`
//! begins with a number alone, or a number and a comma, where that many are there from the start; of other rows there is
//! none then. Unit tests of the analyzer hold its page to that.

pub mod ingest;
pub mod own;
pub mod serving;
pub mod store;
pub mod verdicts;

use crate::Metric;

/// Every metric of the analyzer.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [verdicts::ROWS, serving::ROWS, own::ROWS, ingest::ROWS, store::ROWS].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const PARTS: [(&str, &str); 7] = [
        ("verdicts", "Where GPU time went."),
        ("forecasts", "What is to be expected, as at the last minute that is judged."),
        ("judging", "How far judging has come."),
        ("ingest", "What comes in."),
        ("store", "What is on disk and in memory."),
        ("delivery", "What became of weekly reports."),
        ("analyzer", "The program, its pages and its API."),
    ];

    fn markdown() -> String {
        let mut out = String::from(
            "# Metrics of the analyzer\n\n\
             Served at `/metrics` as OpenMetrics; those of the exporter are in [METRICS.md](METRICS.md). Labels in parentheses\n\
             are there only when they are known. A number under *Series* is there from the start; other series come with what\n\
             they are about.\n",
        );
        for (part, about) in PARTS {
            let _ = write!(out, "\n## {part}\n\n{about}\n\n");
            out.push_str(
                "| Name | Type | Unit | Labels | Series | What it says | Since |\n|---|---|---|---|---|---|---|\n",
            );
            for row in all().filter(|row| row.collector == part) {
                let Metric { name, kind, unit, series, help, since, .. } = row;
                let (kind, unit) = (kind.name(), unit.name().unwrap_or_default());
                let optional = row.optional.iter().map(|label| format!("({label})"));
                let labels: Vec<_> = row.labels.iter().map(|label| (*label).to_owned()).chain(optional).collect();
                let _ = writeln!(
                    out,
                    "| `{name}` | {kind} | {unit} | {} | {series} | {help} | {since} |",
                    labels.join(", ")
                );
            }
        }
        out
    }

    /// `UPDATE_GOLDEN=1 cargo test -p goodput-catalog analyzer` rewrites the page.
    #[test]
    fn docs_metrics_analyzer_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/METRICS-analyzer.md");
        let now = markdown();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let then = std::fs::read_to_string(path).unwrap_or_default();
        assert!(then == now, "{path} differs from the rows; run this test with UPDATE_GOLDEN=1");
    }

    #[test]
    fn every_row_is_of_a_part_that_the_page_has() {
        for row in all() {
            assert!(PARTS.iter().any(|(part, _)| *part == row.collector), "{}: {}", row.name, row.collector);
            assert!(!row.help.contains('|'), "{}: a cell of the table ends there", row.name);
        }
    }
}
