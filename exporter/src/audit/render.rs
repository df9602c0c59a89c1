//! An audit as a table for people, as JSON and as Markdown.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Audit, Finding, Fix, Source, Status};

/// Columns of text; commands are never broken.
const WIDTH: usize = 110;

/// What stands before the lines of a finding below its first.
const INDENT: &str = "      ";

/// Groups of findings by status, worst first; findings that need no action are short. Coloured for terminals when
/// `colour` is set. Checks that do not apply are one line unless `has_all` is set.
#[must_use]
pub fn table(audit: &Audit, has_all: bool, colour: bool) -> String {
    let mut out = heading(audit) + "\n";
    let width = audit.findings.iter().map(|finding| finding.check.id.len()).max().unwrap_or_default();
    for status in Status::ALL.iter().copied() {
        let group: Vec<&Finding> = audit.findings.iter().filter(|finding| finding.status == status).collect();
        if group.is_empty() {
            continue;
        }
        let is_folded = status == Status::NotApplicable && !has_all;
        let more = if is_folded { ": --all shows them" } else { "" };
        let _ = writeln!(out, "\n{}", paint(&format!("{} ({}){more}", title(status), group.len()), status, colour));
        for finding in group.into_iter().filter(|_| !is_folded) {
            lines(finding, width, &mut out);
        }
    }
    let _ = writeln!(out, "\n{}", summary(audit));
    if audit.count(Status::NoPermission) > 0 {
        out += "Some checks were not permitted; their `permit` lines say what would allow them.\n";
    }
    out
}

fn heading(audit: &Audit) -> String {
    let kernel = audit.kernel.as_ref().map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
    format!("Audit of {}{kernel}, profile {}", host(&audit.host), audit.profile.name())
}

/// The node's name; a kernel may have none.
pub(super) fn host(name: &str) -> &str {
    if name.is_empty() { "unknown host" } else { name }
}

fn title(status: Status) -> String {
    status.words().to_uppercase()
}

pub(super) fn paint(text: &str, status: Status, colour: bool) -> String {
    let code = match status {
        Status::Fail | Status::Error => 31,
        Status::Warn | Status::NoPermission => 33,
        Status::Pass => 32,
        Status::NotApplicable => 2,
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn summary(audit: &Audit) -> String {
    let counts = Status::ALL.iter().map(|status| (audit.count(*status), status.words()));
    counts.filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}

fn lines(finding: &Finding, width: usize, out: &mut String) {
    let Finding { check, status, read, expected, commands } = finding;
    let id = format!("  {:width$}  ", check.id);
    wrapped(&id, &" ".repeat(id.len()), read, out);
    match status {
        Status::Warn | Status::Fail => {
            wrapped(&label("want"), INDENT_TEXT, expected, out);
            wrapped(&label("why"), INDENT_TEXT, check.why, out);
            for command in commands {
                let _ = writeln!(out, "{}{command}", label("fix"));
            }
            if let Some(fix) = check.fixes.first() {
                wrapped(&label(""), INDENT_TEXT, &terms(fix), out);
            }
            for fix in check.fixes.iter().skip(1) {
                let _ = writeln!(out, "{}{}", label("or"), fix.command);
                wrapped(&label(""), INDENT_TEXT, &terms(fix), out);
            }
        }
        Status::NoPermission => {
            for command in commands {
                wrapped(&label("permit"), INDENT_TEXT, command, out);
            }
        }
        Status::Error | Status::Pass | Status::NotApplicable => {}
    }
}

/// Below the labels, as wide as [`label`] makes them.
pub(super) const INDENT_TEXT: &str = "              ";

pub(super) fn label(name: &str) -> String {
    format!("{INDENT}{name:<8}")
}

/// Who may do it, what it restarts, how it lasts, what can go wrong.
fn terms(fix: &Fix) -> String {
    let lasting = fix.lasting.map(|lasting| format!("; to last: {lasting}")).unwrap_or_default();
    let gain = fix.gain.map(|gain| format!("; gain: {gain}")).unwrap_or_default();
    format!("by {}; restarts {}{lasting}; risk: {}{gain}", fix.who.name(), fix.restarts, fix.risk)
}

/// Writes words behind `first`, and behind `next` on every further line.
pub(super) fn wrapped(first: &str, next: &str, text: &str, out: &mut String) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = next.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// One object: what was audited, how many checks ended how, and every finding with its row.
///
/// # Errors
/// None that can happen: every value is text or a number.
pub fn json(audit: &Audit) -> serde_json::Result<String> {
    let document = Document {
        host: &audit.host,
        kernel: audit.kernel.as_deref(),
        profile: audit.profile.name(),
        version: env!("CARGO_PKG_VERSION"),
        summary: Status::ALL.iter().map(|status| (status.name(), audit.count(*status))).collect(),
        checks: audit.findings.iter().map(Row::from).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[derive(Serialize)]
struct Document<'a> {
    host: &'a str,
    kernel: Option<&'a str>,
    profile: &'static str,
    version: &'static str,
    summary: std::collections::BTreeMap<&'static str, usize>,
    checks: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'static str,
    title: &'static str,
    status: Status,
    read: &'a str,
    expected: &'static str,
    commands: &'a [String],
    why: &'static str,
    reads: &'static str,
    fixes: &'static [Fix],
    sources: &'static [Source],
}

impl<'a> From<&'a Finding> for Row<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { check, status, read, expected, commands } = finding;
        Self {
            id: check.id,
            title: check.title,
            status: *status,
            read,
            expected,
            commands,
            why: check.why,
            reads: check.reads,
            fixes: check.fixes,
            sources: check.sources,
        }
    }
}

/// A table of all findings, then what to do about those that need it.
#[must_use]
pub fn markdown(audit: &Audit) -> String {
    let mut out = format!("# {}\n\n{}\n\n", heading(audit), summary(audit));
    out += "| Status | Check | Found | Expected |\n|---|---|---|---|\n";
    for status in Status::ALL.iter().copied() {
        for finding in audit.findings.iter().filter(|finding| finding.status == status) {
            let id = format!("`{}`", finding.check.id);
            let name = status.words();
            let cells = [name.as_str(), &id, &finding.read, finding.expected].map(cell);
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    for finding in audit.findings.iter().filter(|finding| !finding.commands.is_empty()) {
        let _ = writeln!(out, "\n## {}: {}\n", finding.check.id, finding.read);
        if finding.status == Status::NoPermission {
            let _ = writeln!(out, "{}", finding.commands.join("\n"));
            continue;
        }
        let _ = writeln!(out, "{}\n\n```text\n{}\n```", finding.check.why, finding.commands.join("\n"));
        if let Some(fix) = finding.check.fixes.first() {
            let _ = writeln!(out, "\n{}", terms(fix));
        }
    }
    out
}

pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_never_broken() {
        let mut out = String::new();
        let long = "x".repeat(WIDTH);
        wrapped("a ", "  ", &format!("b {long} c"), &mut out);
        assert_eq!(out, format!("a b\n  {long}\n  c\n"));
    }

    #[test]
    fn colours_surround_the_title() {
        assert_eq!(paint("FAIL (1)", Status::Fail, true), "\x1b[31mFAIL (1)\x1b[0m");
        assert_eq!(paint("FAIL (1)", Status::Fail, false), "FAIL (1)");
    }
}
