//! The rows as documentation.

use std::fmt::Write as _;

use super::checks::CHECKS;
use super::render::cell;
use super::{Check, Expected, Source};

const HEAD: &str = "\
# Audit: what is checked, and who says so

Made from the rows of `goodput-exporter audit`; how to run it is in [exporter.md](../use/exporter.md#audit).

A *fail* costs GPU time by itself or will break a job; a *warn* can cost under some load, and somebody should decide.
Nothing is ever changed: the commands are for you. Each claim says where it comes from, best first:
`kernel` (its documentation or source), `vendor`, `practice` (widely used settings), `book` (a handbook without a
measurement), `own judgement` (ours, with the reason). Words in capitals in a command differ from node to node; the audit
itself prints the node's own where it knows them.

";

/// `docs/reference/audit.md`.
#[must_use]
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    out += "| Check | What it looks at | Expected |\n|---|---|---|\n";
    for check in CHECKS {
        let expected = cell(&expected(check));
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} | {expected} |", check.id, cell(check.title));
    }
    for check in CHECKS {
        section(check, &mut out);
    }
    out
}

fn expected(check: &Check) -> String {
    let Expected { training, inference, mixed } = check.expected;
    match training == inference && inference == mixed {
        true => training.to_owned(),
        false => format!("training: {training}; inference: {inference}; mixed: {mixed}"),
    }
}

fn section(check: &Check, out: &mut String) {
    // Stars in paths are no emphasis.
    let reads = check.reads.replace('*', "\\*");
    let _ = writeln!(out, "\n## {}\n\n{}. Reads {reads}.\n\n{}", check.id, check.title, check.why);
    if !check.families.is_empty() {
        let names: Vec<String> = check.families.iter().map(|metric| format!("`{}`", metric.name)).collect();
        let _ = writeln!(out, "\nMetrics with these facts: {}.", names.join(", "));
    }
    for fix in check.fixes {
        let _ = writeln!(out, "\n```text\n{}\n```\n", fix.command);
        if let Some(lasting) = fix.lasting {
            let _ = writeln!(out, "- To last: {lasting}");
        }
        let _ = writeln!(out, "- Who: {}\n- Restarts: {}\n- Risk: {}", fix.who.name(), fix.restarts, fix.risk);
        let _ = writeln!(out, "- Expected gain: {}", fix.gain.unwrap_or("no figure worth repeating"));
    }
    let _ = writeln!(out, "\nSources:\n");
    for source in check.sources {
        let _ = writeln!(out, "- {}", spell(source));
    }
}

fn spell(Source { grade, what, url }: &Source) -> String {
    match *url {
        "" => format!("{}: {what}", grade.name()),
        url => format!("{}: [{what}]({url})", grade.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    /// `UPDATE_GOLDEN=1 cargo test -p goodput-exporter audit` rewrites the file.
    #[test]
    fn docs_audit_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/audit.md");
        let now = markdown();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let then = std::fs::read_to_string(path).unwrap_or_default();
        assert!(then == now, "{path} differs from the rows; run this test with UPDATE_GOLDEN=1");
    }

    #[test]
    fn rows_are_complete() {
        let mut ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id is there twice");
        for check in CHECKS {
            assert!(check.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", check.id);
            assert!(!check.fixes.is_empty() && !check.sources.is_empty(), "{}", check.id);
            let mut families: Vec<&str> = check.families.iter().map(|metric| metric.name).collect();
            families.sort_unstable();
            families.dedup();
            assert_eq!(families.len(), check.families.len(), "{}: a metric is listed twice", check.id);
            let is_own = families.iter().all(|name| name.starts_with("goodput_"));
            assert!(is_own, "{}: {families:?} has a metric of DCGM", check.id);
            assert!(check.why.ends_with('.') && !check.title.ends_with('.'), "{}", check.id);
            for source in check.sources {
                let no_page = matches!(source.grade, Grade::Own | Grade::Book);
                assert_eq!(source.url.is_empty(), no_page, "{}: {}", check.id, source.what);
                assert!(is_plausible(source), "{}: {} {}", check.id, source.what, source.url);
            }
        }
    }

    /// Is the page on the site of the source that is named?
    fn is_plausible(Source { grade, what, url }: &Source) -> bool {
        let Some((host, path)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
            return url.is_empty();
        };
        let theirs = match grade {
            Grade::Kernel => host == "docs.kernel.org",
            _ if what.starts_with("Kubernetes,") => host == "kubernetes.io",
            _ if ["NVIDIA", "NVML", "CUDA", "nvidia-smi"].iter().any(|maker| what.starts_with(maker)) => {
                ["docs.nvidia.com", "nvidia.github.io", "manpages.ubuntu.com"].contains(&host)
            }
            _ => host.contains('.'),
        };
        theirs && !path.is_empty() && !url.contains(char::is_whitespace)
    }

    /// Advice that circulates and is wrong.
    #[test]
    fn no_folklore() {
        let text = markdown();
        for wrong in
            ["mem_limit", "noop", "nvidia-smi -ac", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_PORT_RANGE", "139 ms"]
        {
            assert!(!text.contains(wrong), "{wrong}");
        }
    }
}
