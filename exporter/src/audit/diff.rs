//! `audit diff`: what changed between two saved audits, of one node at two times or of two nodes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::render::{cell, label, paint, wrapped};
use super::{Status, render};

/// An audit as `audit --format json` wrote it. Keys that this version does not know are passed over.
#[derive(Deserialize)]
pub struct Saved {
    host: String,
    kernel: Option<String>,
    profile: String,
    checks: Vec<SavedCheck>,
}

#[derive(Deserialize)]
struct SavedCheck {
    id: String,
    title: String,
    status: Status,
    read: String,
    #[serde(default)]
    commands: Vec<String>,
}

/// Reads a saved audit.
///
/// # Errors
/// Names the file, and the line and column of what is no audit.
pub fn load(path: &Path) -> anyhow::Result<Saved> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| {
        format!("{} is not an audit as `goodput-exporter audit --format json` writes it", path.display())
    })
}

goodput_catalog::named! {
    /// In which direction a check went, worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Direction {
        /// It fails or warns, and did less before.
        Worse = "WORSE",
        /// One of the two could not be judged, or only one audit has the check.
        Unknown = "CANNOT BE COMPARED",
        /// It fails or warns less than before.
        Better = "BETTER",
        /// It ended the same way, and found something else.
        Drifted = "SAME VERDICT, OTHER READING",
    }
}

impl Direction {
    /// The status whose colour stands for it.
    fn like(self) -> Status {
        match self {
            Self::Worse => Status::Fail,
            Self::Unknown => Status::Warn,
            Self::Better => Status::Pass,
            Self::Drifted => Status::NotApplicable,
        }
    }
}

/// How one check ended in one of the audits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub read: String,
}

/// A check that the audits do not agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The check.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it went.
    pub direction: Direction,
    /// In the first audit; absent when it has no such check.
    pub before: Option<Ending>,
    /// In the second audit; absent when it has no such check.
    pub after: Option<Ending>,
    /// Commands that fix it now, as the second audit says.
    pub commands: Vec<String>,
}

/// What changed from one audit to another.
#[derive(Debug, Serialize)]
pub struct Diff {
    before: String,
    after: String,
    /// What makes the two hard to compare.
    notes: Vec<String>,
    /// By direction, then in the order of the checks.
    pub changes: Vec<Change>,
    same: usize,
}

impl Diff {
    /// Compares two audits.
    #[must_use]
    pub fn between(before: &Saved, after: &Saved) -> Self {
        let added = after.checks.iter().filter(|check| find(before, &check.id).is_none());
        let pairs = before.checks.iter().map(|check| (Some(check), find(after, &check.id)));
        let mut changes: Vec<Change> =
            pairs.chain(added.map(|check| (None, Some(check)))).filter_map(|(b, a)| change(b, a)).collect();
        changes.sort_by_key(|change| change.direction);
        let shared = before.checks.iter().filter(|check| find(after, &check.id).is_some()).count();
        let differ = changes.iter().filter(|change| change.before.is_some() && change.after.is_some()).count();
        Self { before: spell(before), after: spell(after), notes: notes(before, after), changes, same: shared - differ }
    }

    /// Did anything get worse?
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.direction == Direction::Worse)
    }
}

fn find<'a>(audit: &'a Saved, id: &str) -> Option<&'a SavedCheck> {
    audit.checks.iter().find(|check| check.id == id)
}

fn spell(audit: &Saved) -> String {
    let kernel = audit.kernel.as_ref().map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
    format!("{}{kernel}, profile {}", render::host(&audit.host), audit.profile)
}

fn notes(before: &Saved, after: &Saved) -> Vec<String> {
    let profiles = (before.profile != after.profile).then(|| {
        format!(
            "The audits are for different profiles, {} and {}: what is right for one can be wrong for the other.",
            before.profile, after.profile
        )
    });
    profiles.into_iter().collect()
}

fn change(before: Option<&SavedCheck>, after: Option<&SavedCheck>) -> Option<Change> {
    let ending = |check: &SavedCheck| Ending { status: check.status, read: check.read.clone() };
    let direction = match (before, after) {
        (Some(b), Some(a)) => direction(b, a)?,
        _ => Direction::Unknown,
    };
    let named = after.or(before)?;
    Some(Change {
        id: named.id.clone(),
        title: named.title.clone(),
        direction,
        before: before.map(ending),
        after: after.map(ending),
        commands: after.map(|check| check.commands.clone()).unwrap_or_default(),
    })
}

fn direction(before: &SavedCheck, after: &SavedCheck) -> Option<Direction> {
    if before.status == after.status {
        return (before.read != after.read).then_some(Direction::Drifted);
    }
    Some(match (harm(before.status), harm(after.status)) {
        (Some(b), Some(a)) if a > b => Direction::Worse,
        (Some(b), Some(a)) if a < b => Direction::Better,
        (Some(_), Some(_)) => Direction::Drifted,
        _ => Direction::Unknown,
    })
}

/// How bad it is; nothing where nothing could be judged.
fn harm(status: Status) -> Option<u8> {
    match status {
        Status::Fail => Some(2),
        Status::Warn => Some(1),
        Status::Pass | Status::NotApplicable => Some(0),
        Status::NoPermission | Status::Error => None,
    }
}

/// Groups by direction, worst first. Coloured for terminals when `colour` is set.
#[must_use]
pub fn table(diff: &Diff, colour: bool) -> String {
    let mut out = format!("Before  {}\nAfter   {}\n", diff.before, diff.after);
    for note in &diff.notes {
        let _ = writeln!(out, "{note}");
    }
    for direction in Direction::ALL.iter().copied() {
        let group: Vec<&Change> = diff.changes.iter().filter(|change| change.direction == direction).collect();
        if group.is_empty() {
            continue;
        }
        let title = format!("{} ({})", direction.name(), group.len());
        let _ = writeln!(out, "\n{}", paint(&title, direction.like(), colour));
        for change in group {
            let _ = writeln!(out, "  {}: {}", change.id, change.title);
            wrapped(&label("before"), render::INDENT_TEXT, &ending(change.before.as_ref()), &mut out);
            wrapped(&label("after"), render::INDENT_TEXT, &ending(change.after.as_ref()), &mut out);
            for command in change.commands.iter().filter(|_| direction == Direction::Worse) {
                let _ = writeln!(out, "{}{command}", label("fix"));
            }
        }
    }
    let _ = writeln!(out, "\n{}", summary(diff));
    out
}

fn ending(ending: Option<&Ending>) -> String {
    ending.map_or_else(|| "no such check in this audit".to_owned(), |e| format!("{}: {}", e.status.words(), e.read))
}

fn summary(diff: &Diff) -> String {
    let count = |direction| diff.changes.iter().filter(|change| change.direction == direction).count();
    format!(
        "{} worse, {} better, {} not comparable, {} drifted, {} the same",
        count(Direction::Worse),
        count(Direction::Better),
        count(Direction::Unknown),
        count(Direction::Drifted),
        diff.same
    )
}

/// One object: both audits, the changes, how many checks are the same.
///
/// # Errors
/// None that can happen: every value is text or a number.
pub fn json(diff: &Diff) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(diff)? + "\n")
}

/// A table of the changes.
#[must_use]
pub fn markdown(diff: &Diff) -> String {
    let mut out =
        format!("# Audits compared\n\n- Before: {}\n- After: {}\n\n{}\n\n", diff.before, diff.after, summary(diff));
    for note in &diff.notes {
        let _ = writeln!(out, "{note}\n");
    }
    out += "| Change | Check | Before | After | Fix |\n|---|---|---|---|---|\n";
    for change in &diff.changes {
        let direction = change.direction.name().to_lowercase();
        let id = format!("`{}`", change.id);
        let (before, after) = (ending(change.before.as_ref()), ending(change.after.as_ref()));
        let fixes: Vec<String> = change.commands.iter().map(|command| format!("`{command}`")).collect();
        let cells = [&direction, &id, &before, &after, &fixes.join("; ")].map(|text| cell(text));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(profile: &str, checks: &[(&str, Status, &str)]) -> Saved {
        let check = |(id, status, read): &(&str, Status, &str)| SavedCheck {
            id: (*id).to_owned(),
            title: format!("Title of {id}"),
            status: *status,
            read: (*read).to_owned(),
            commands: vec![format!("fix {id}")],
        };
        let checks = checks.iter().map(check).collect();
        Saved { host: "node-1".to_owned(), kernel: Some("6.8".to_owned()), profile: profile.to_owned(), checks }
    }

    #[test]
    fn a_node_without_a_name() {
        let nameless = Saved { host: String::new(), ..audit("mixed", &[]) };
        assert_eq!(Diff::between(&nameless, &nameless).before, "unknown host, kernel 6.8, profile mixed");
    }

    #[test]
    fn every_pair_of_endings_has_a_direction() {
        use Direction::{Better, Drifted, Unknown, Worse};
        use Status::{Error, Fail, NoPermission, NotApplicable, Pass, Warn};
        for (before, after, expected) in [
            (Pass, Fail, Some(Worse)),
            (Pass, Warn, Some(Worse)),
            (NotApplicable, Warn, Some(Worse)),
            (Warn, Fail, Some(Worse)),
            (Fail, Warn, Some(Better)),
            (Warn, NotApplicable, Some(Better)),
            (Pass, NotApplicable, Some(Drifted)),
            (NoPermission, Fail, Some(Unknown)),
            (Pass, Error, Some(Unknown)),
            (NoPermission, Error, Some(Unknown)),
            (Pass, Pass, None),
        ] {
            let diff = Diff::between(&audit("mixed", &[("a", before, "x")]), &audit("mixed", &[("a", after, "x")]));
            assert_eq!(diff.changes.first().map(|c| c.direction), expected, "{before:?} {after:?}");
            assert_eq!(diff.is_worse(), expected == Some(Worse), "{before:?} {after:?}");
        }
        let read = Diff::between(&audit("mixed", &[("a", Warn, "x")]), &audit("mixed", &[("a", Warn, "y")]));
        assert_eq!(read.changes[0].direction, Drifted);
    }

    #[test]
    fn what_people_read() {
        let before = audit(
            "training",
            &[
                ("swappiness", Status::Pass, "10"),
                ("gone", Status::Pass, "yes"),
                ("governor", Status::Fail, "powersave"),
                ("same", Status::Warn, "1"),
            ],
        );
        let after = audit(
            "mixed",
            &[
                ("swappiness", Status::Warn, "60"),
                ("governor", Status::Pass, "performance"),
                ("same", Status::Warn, "1"),
                ("new", Status::Fail, "no|pe"),
            ],
        );
        let diff = Diff::between(&before, &after);
        assert_eq!(
            table(&diff, false),
            "\
Before  node-1, kernel 6.8, profile training
After   node-1, kernel 6.8, profile mixed
The audits are for different profiles, training and mixed: what is right for one can be wrong for the other.

WORSE (1)
  swappiness: Title of swappiness
      before  pass: 10
      after   warn: 60
      fix     fix swappiness

CANNOT BE COMPARED (2)
  gone: Title of gone
      before  pass: yes
      after   no such check in this audit
  new: Title of new
      before  no such check in this audit
      after   fail: no|pe

BETTER (1)
  governor: Title of governor
      before  fail: powersave
      after   pass: performance

1 worse, 1 better, 2 not comparable, 0 drifted, 1 the same
"
        );
        assert!(markdown(&diff).contains("| worse | `swappiness` | pass: 10 | warn: 60 | `fix swappiness` |"));
        assert!(markdown(&diff).contains("fail: no\\|pe"));
        let parsed: serde_json::Value = serde_json::from_str(&json(&diff).unwrap()).unwrap();
        assert_eq!(parsed["changes"][0]["direction"], "worse");
        assert_eq!(parsed["changes"][1]["after"], serde_json::Value::Null);
        assert_eq!(parsed["same"], 1);
    }

    #[test]
    fn what_is_no_audit_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        for (text, part) in [("{\"host\": \"n\"}\n", "missing field `profile`"), ("{\"host\":\n2}", "line 2")] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", load(&path).err().unwrap());
            assert!(
                error.contains("a.json is not an audit") && error.contains("line") && error.contains(part),
                "{error}"
            );
        }
        let error = format!("{:#}", load(&dir.path().join("none.json")).err().unwrap());
        assert!(error.contains("cannot read") && error.contains("none.json"), "{error}");
    }
}
