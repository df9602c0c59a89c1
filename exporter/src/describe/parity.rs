//! `catalog --format dcgm`: DCGM's fields, compared with what is served.

use std::fmt::Write as _;

use super::write_absent;
use goodput_catalog::dcgm::{FIRST_MADE, ROWS, Row};

/// DCGM's fields as Markdown: id, both spellings, whether it is on, how it is read; and what is not available, and why.
#[must_use]
pub fn parity() -> String {
    let mut out = String::from(
        "# DCGM's fields\n\n\
         Made by `goodput-exporter catalog --format dcgm`. *Legacy* is the spelling of dcgm-exporter up to 4.8, *current*\n\
         that of 4.9 with DCGM 4.7; `--dcgm.names` chooses. Where the current column is empty, the name is the same, or a\n\
         new one is not known for certain. Values are read once and rendered in the unit of each spelling.\n",
    );
    let labels: Vec<_> = ROWS.iter().copied().filter(|row| row.is_label()).collect();
    let made: Vec<_> = ROWS.iter().copied().filter(|row| row.id >= FIRST_MADE).collect();
    let fields: Vec<_> = ROWS.iter().copied().filter(|row| !row.is_label() && row.id < FIRST_MADE).collect();
    table(&mut out, "Fields", &fields);
    table(&mut out, "Labels", &labels);
    table(&mut out, "Metrics of dcgm-exporter itself", &made);
    out.push_str("\n## Not available\n\n");
    write_absent(&mut out);
    out
}

fn table(out: &mut String, title: &str, rows: &[&Row]) {
    let _ = write!(out, "\n## {title}\n\n| DCGM id | Legacy | Current | Served | Read from |\n|---|---|---|---|---|\n");
    for row in rows {
        let id = if row.id < FIRST_MADE { row.id.to_string() } else { String::new() };
        let spelled = |name: &str, unit: Option<&str>| match unit {
            Some(unit) => format!("`{name}`, {unit}"),
            None => format!("`{name}`"),
        };
        let legacy = spelled(row.legacy.name, row.legacy.unit.name());
        let current = if row.is_renamed() { spelled(row.current.name, row.current.unit.name()) } else { String::new() };
        let served = if row.default { "default" } else { "opt-in" };
        let _ = writeln!(out, "| {id} | {legacy} | {current} | {served} | {} |", row.legacy.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_GOLDEN=1 cargo test -p goodput-exporter describe` rewrites the file.
    #[test]
    fn docs_dcgm_parity_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/dcgm-parity.md");
        let now = parity();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let then = std::fs::read_to_string(path).unwrap_or_default();
        assert!(then == now, "{path} differs from the catalog; run this test with UPDATE_GOLDEN=1");
    }
}
