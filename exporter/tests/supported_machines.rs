//! `docs/reference/supported-machines.md`: every line names tests that exist, and says how far they go.

#![allow(clippy::unwrap_used, reason = "clippy spares tests, but not the helpers beside them")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How far a line goes, in the words of the page.
const HOW: [&str; 4] = ["hardware", "recorded", "simulated", "headers"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names of functions of tests, those that a macro makes of a name and a driver version included.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for (at, line) in lines.iter().enumerate() {
                let is_test = lines[at.saturating_sub(2)..at].contains(&"#[test]");
                let function = line.strip_prefix("fn ").filter(|_| is_test).and_then(|rest| rest.split('(').next());
                let made = line.strip_suffix("\";").and_then(|rest| rest.split_once(" \"")).map(|(name, _)| name);
                found.extend(function.or(made).map(str::to_owned));
            }
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Rows of tables that have a column `How`: all cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    let mut counts = false;
    for line in page.lines() {
        let Some(cells) = line.starts_with('|').then(|| cells(line)) else {
            counts = false;
            continue;
        };
        match cells.last() {
            Some(&"How") => counts = true,
            Some(rule) if rule.starts_with("---") => {}
            _ if counts => rows.push(cells),
            _ => {}
        }
    }
    rows
}

#[test]
fn every_line_names_tests_that_exist_and_says_how_far_they_go() {
    let mut known = BTreeSet::new();
    for folder in ["exporter/src", "exporter/tests", "tests/tests", "tests/fake-nvml/src", "tests/lab/src", "tests/src"]
    {
        tests(&top().join(folder), &mut known);
    }
    let page = std::fs::read_to_string(top().join("docs/reference/supported-machines.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 30, "{} lines", rows.len());
    for cells in rows {
        let (how, named) = (cells[cells.len() - 1], cells[cells.len() - 2]);
        assert!(HOW.iter().any(|word| how.contains(word)), "{cells:?} does not say how far it goes");
        let names: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty() || how.starts_with("headers"), "{cells:?} names no test");
        for name in names {
            assert!(known.contains(name), "{name} is no test");
        }
    }
}

#[test]
fn every_driver_of_the_page_is_one_that_the_fake_driver_is_tested_as() {
    let page = std::fs::read_to_string(top().join("docs/reference/supported-machines.md")).unwrap();
    for branch in ["470", "510", "525", "535.43", "535.98", "550", "570", "580", "590"] {
        assert!(page.lines().any(|line| line.starts_with(&format!("| {branch}"))), "no line of driver {branch}");
    }
}
