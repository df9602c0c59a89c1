//! Which top-level modules of a crate use which others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// Each module with the modules that it uses.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The uses (`crate::NAME`, and `super::NAME` in a top-level file) between the top-level modules in a source folder. Comments and tests do not count, and
/// neither do `lib.rs` and `main.rs`, which may know every module.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn arrows(source: &Path) -> io::Result<Arrows> {
    let mut arrows = Arrows::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !matches!(module.as_str(), "lib" | "main") {
            let roots: &[&str] = if path.is_dir() { &["crate::"] } else { &["crate::", "super::"] };
            read(&path, roots, arrows.entry(module).or_default())?;
        }
    }
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    arrows.iter_mut().for_each(|(module, used)| used.retain(|name| name != module && modules.contains(name)));
    Ok(arrows)
}

/// Adds what a file or folder uses.
fn read(path: &Path, roots: &[&str], used: &mut BTreeSet<String>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.contains("test") {
        return Ok(());
    }
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| read(&entry?.path(), roots, used));
    }
    if name.ends_with(".rs") {
        let code = |line: &str| format!("{}\n", line.split("//").next().unwrap_or_default());
        let text: String = fs::read_to_string(path)?.lines().map(code).collect();
        for root in roots {
            production(&text).split(root).skip(1).for_each(|rest| used.extend(names(rest)));
        }
    }
    Ok(())
}

/// The text before the tests that stand in it.
#[must_use]
pub fn production(text: &str) -> &str {
    let mut tests = text.match_indices("#[cfg(test)]\nmod ");
    let here = tests.find(|(place, mark)| text[place + mark.len()..].lines().next().is_some_and(|l| l.ends_with('{')));
    here.map_or(text, |(place, _)| &text[..place])
}

/// The modules behind `crate::`: one, or those of a group in braces.
fn names(rest: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut starts) = (0, vec![0]);
    for (place, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(place + 1),
            _ => {}
        }
    }
    starts.into_iter().map(|start| name(group[start..].trim_start())).collect()
}

/// What is left when modules that no circle leads through are taken away.
#[must_use]
pub fn circles(mut arrows: Arrows) -> Arrows {
    loop {
        let used: BTreeSet<String> = arrows.values().flatten().cloned().collect();
        let before = arrows.len();
        arrows.retain(|module, uses| used.contains(module) && !uses.is_empty());
        if arrows.len() == before {
            return arrows;
        }
        let rest: BTreeSet<String> = arrows.keys().cloned().collect();
        arrows.values_mut().for_each(|used| used.retain(|module| rest.contains(module)));
    }
}
