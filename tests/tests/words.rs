//! Plain words: `.ci/markers` lists words that a reader has to stop at, and each kind of text may have few of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, in helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The most that each group may have of 10,000 words.
const MOST: f64 = 20.0;

/// What is built, recorded elsewhere, or downloaded.
const LEFT_OUT: [&str; 7] = ["target", ".git", "node_modules", "traces", "fixtures", "golden", "corpus"];

/// A group of texts: how many words it has, and where the words to avoid are.
#[derive(Default)]
struct Group {
    words: usize,
    found: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn markers() -> Vec<String> {
    let text = fs::read_to_string(root().join(".ci/markers")).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The words of a line in small letters, with one space around each.
fn words(line: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "_'`".contains(c);
    let words = line.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    format!(" {} ", words.map(str::to_lowercase).collect::<Vec<_>>().join(" "))
}

/// The texts between quotes of a line of Rust that are more than one word.
fn quoted(line: &str) -> String {
    let texts = line.split('"').skip(1).step_by(2).filter(|text| text.contains(' '));
    texts.collect::<Vec<_>>().join(" ")
}

/// The group that a line belongs to, and the part of it that is read.
fn group(path: &Path, line: &str) -> Option<(&'static str, String)> {
    let name = path.file_name()?.to_str()?;
    let trimmed = line.trim_start();
    let group = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") if trimmed.starts_with("//") => "comments",
        Some("rs") => return Some(("help, errors and other strings", quoted(line))),
        Some("md") if name == "README.md" => "README",
        Some("md") if name == "ARCHITECTURE.md" => "ARCHITECTURE",
        Some("md") if name == "CHANGELOG.md" => "CHANGELOG",
        Some("md") => "docs",
        Some("html" | "yml" | "yaml") => "templates, rules and configuration",
        Some("py" | "sh") => "scripts",
        None if trimmed.starts_with('#') => "scripts",
        _ => return None,
    };
    Some((group, line.to_owned()))
}

fn groups() -> BTreeMap<&'static str, Group> {
    let (markers, root) = (markers(), root());
    let mut all = Vec::new();
    files(&root, &mut all);
    let mut groups = BTreeMap::<_, Group>::new();
    for path in all {
        // What is not text has no words.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (n, line) in text.lines().enumerate() {
            let Some((name, part)) = group(&path, line) else { continue };
            let words = words(&part);
            let group = groups.entry(name).or_default();
            group.words += words.split_whitespace().count();
            for marker in markers.iter().filter(|marker| words.contains(&format!(" {marker} "))) {
                let place = path.strip_prefix(&root).unwrap_or(&path).display();
                group.found.push(format!("{place}:{}: {marker}: {}", n + 1, line.trim()));
            }
        }
    }
    groups
}

#[test]
fn texts_are_in_plain_words() {
    let groups = groups();
    for name in ["README", "ARCHITECTURE", "docs", "comments", "help, errors and other strings", "scripts"] {
        assert!(groups.get(name).is_some_and(|group| group.words > 1_000), "{name} was not read");
    }
    let density = |group: &Group| group.found.len() as f64 * 10_000.0 / group.words as f64;
    let over: Vec<_> = groups.iter().filter(|(_, group)| density(group) > MOST).collect();
    let told: Vec<_> = over
        .iter()
        .map(|(name, group)| {
            format!("{name}: {:.1} words of .ci/markers in 10,000:\n  {}", density(group), group.found.join("\n  "))
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_marker_is_found_as_a_whole_word_or_phrase() {
    assert!(words("This is told of, twice.").contains(" told of "));
    assert!(!words("besides amended").contains(" beside "));
    assert_eq!(quoted(r#"let a = "two words"; f("one")"#), "two words");
}
