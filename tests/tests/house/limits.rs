//! How long a file and a function may be.

use std::fs;
use std::path::{Path, PathBuf};

use goodput_tests::arrows::production;

use super::root;

/// A file beyond this says in its head why it is one file.
const FILE: usize = 400;

/// What such a head says, and then why.
const REASON: &str = "//! More than 400 lines: ";

/// Files that are longer, and why they may be.
const LONGER: [(&str, &str); 1] =
    [("analyzer/src/report/mod.rs", "the model of the report: one struct per table of it")];

/// A function of the programs has no more lines.
const FUNCTION: usize = 60;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the programs, without tests, with its text.
fn programs() -> Vec<(String, String)> {
    let mut found = Vec::new();
    ["analyzer", "exporter"].iter().for_each(|folder| sources(&root().join(folder), &mut found));
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let texts = found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap()));
    let programs: Vec<_> = texts.filter(|(name, _)| !name.contains("test")).collect();
    assert!(programs.len() > 500, "{} files", programs.len());
    programs
}

#[test]
fn a_long_file_says_why_it_is_one() {
    let texts = programs();
    let reason = |text: &str| text.lines().take_while(|line| line.starts_with("//!")).any(|l| l.starts_with(REASON));
    let is_excused = |name: &str, text: &str| reason(text) || LONGER.iter().any(|(longer, _)| *longer == name);
    let too_long: Vec<_> = texts
        .iter()
        .filter(|(name, text)| text.lines().count() > FILE && !is_excused(name, text))
        .map(|(name, _)| name)
        .collect();
    assert!(too_long.is_empty(), "more than {FILE} lines, and no {REASON:?} in the head: {too_long:#?}");
}

/// The name and the lines of each function that is longer than this.
fn long(text: &str, limit: usize) -> Vec<(String, usize)> {
    let lines: Vec<&str> = production(text).lines().collect();
    let heads = lines.iter().enumerate().filter_map(|(start, line)| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        let (before, name) = rest.split_once("fn ")?;
        let words = ["pub", "const", "async", "unsafe", "extern"];
        let is_head = before.split_whitespace().all(|word| words.iter().any(|start| word.starts_with(start)));
        let ends = |line: &&str| {
            line.strip_prefix(indent).is_some_and(|line| line == "}" || line.starts_with(')') && line.ends_with(';'))
        };
        let last = lines[start..].iter().position(ends)?;
        (is_head && !line.ends_with(['}', ';'])).then(|| (name.to_owned(), last + 1))
    });
    heads.filter(|(_, lines)| *lines > limit).collect()
}

#[test]
fn no_function_of_the_programs_is_long() {
    let programs = programs();
    let functions = programs.iter().map(|(_, text)| long(text, 2).len()).sum::<usize>();
    assert!(functions > 2_000, "{functions} functions");
    let too_long: Vec<_> = programs
        .iter()
        .flat_map(|(name, text)| long(text, FUNCTION).into_iter().map(move |found| (name, found)))
        .collect();
    assert!(too_long.is_empty(), "longer than {FUNCTION} lines: {too_long:#?}");
}

#[test]
fn a_function_ends_at_its_own_brace() {
    let text =
        "impl A {\n    pub(crate) async fn f() {\n        if x {\n        }\n    }\n\n    fn g() {}\n}\nfn h() {\n}\n";
    assert_eq!(
        long(text, 0).iter().map(|(name, lines)| (&name[..1], *lines)).collect::<Vec<_>>(),
        [("f", 4), ("h", 2)]
    );
}
