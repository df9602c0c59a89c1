//! The alert rules and the Alertmanager configuration: complete, tested, and about metrics that exist.

mod delivery;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use goodput_analyzer::app::conditions::CONDITIONS;
use goodput_catalog::xid_codes::{Class, find};
use goodput_tests::promql::{matchers, parse, selectors};
use goodput_tests::rules::{Rule, expectations, files, root, rules, vocabulary};

const RUNBOOKS: &str = "https://github.com/goodput/goodput/blob/main/docs/runbooks";
const RUNBOOK_SECTIONS: &[&str] = &["## Meaning", "## Impact", "## Check", "## Fix", "## Ignore when"];

/// Runs a program that must succeed; gives what it printed.
#[allow(clippy::disallowed_methods, reason = "Prometheus' own tools are the judges")]
fn run<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("this test needs {program} (deploy/local/packages test)"))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{program}: {text}");
    Ok(String::from_utf8(output.stdout)?)
}

fn alerts() -> Result<Vec<(String, Rule)>> {
    Ok(rules()?.into_iter().filter_map(|mut rule| Some((rule.alert.take()?, rule))).collect())
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() -> Result<()> {
    let strings = |args: &[&str]| args.iter().map(Into::into).collect::<Vec<_>>();
    run("promtool", [strings(&["check", "rules", "--lint-fatal"]), paths("alerts", ".rules.yml")?].concat())?;
    run("promtool", [strings(&["test", "rules"]), paths("alerts/tests", ".test.yml")?].concat())?;
    Ok(())
}

fn paths(folder: &str, ending: &str) -> Result<Vec<std::ffi::OsString>> {
    Ok(files(folder, ending)?.into_iter().map(Into::into).collect())
}

#[test]
fn every_alert_is_seen_firing_and_silent() -> Result<()> {
    let alerts: BTreeSet<String> = alerts()?.into_iter().map(|(name, _)| name).collect();
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for expectation in expectations()? {
        let seen = if expectation.exp_alerts.is_empty() { &mut silent } else { &mut firing };
        seen.insert(expectation.alertname);
    }
    assert_eq!(alerts, firing, "alerts on the left, those seen firing on the right");
    assert_eq!(alerts, silent, "alerts on the left, those seen silent on the right");
    Ok(())
}

#[test]
fn every_alert_says_what_to_do() -> Result<()> {
    let vocabulary = vocabulary()?;
    for (name, rule) in alerts()? {
        let annotation = |key: &str| rule.annotations.get(key).with_context(|| format!("{name} has no {key}"));
        let (summary, description) = (annotation("summary")?, annotation("description")?);
        assert!(name.starts_with("Goodput"), "{name}");
        let severity = rule.labels.get("severity").map(String::as_str);
        assert!(matches!(severity, Some("critical" | "warning" | "info")), "{name}: severity {severity:?}");
        let sentence = summary.starts_with(char::is_uppercase) && summary.ends_with('.') && !summary.contains("{{");
        assert!(sentence, "{name}: the summary is one sentence without templates: {summary}");
        assert_eq!(*annotation("runbook_url")?, format!("{RUNBOOKS}/{name}.md"));

        let mut labels = vocabulary.labels(&parse(&rule.expr)?);
        labels.extend(label_replaced(&rule.expr));
        for label in templated_labels(description) {
            assert!(labels.contains(label), "{name}: no metric of the query has the label {label} of the description");
        }
        assert!(name.ends_with("Absent") || description.contains("$labels"), "{name}: which one is it about?");
    }
    Ok(())
}

/// The labels that a query makes.
fn label_replaced(query: &str) -> impl Iterator<Item = String> {
    let destinations = query.split("label_replace(").skip(1).filter_map(|call| call.split('"').nth(1));
    destinations.map(str::to_owned)
}

/// What a link to the section calls its heading.
fn anchor(heading: &str) -> String {
    heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-")
}

fn templated_labels(text: &str) -> impl Iterator<Item = &str> {
    let end = |name: &str| name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    text.split("$labels.").skip(1).map(move |name| &name[..end(name)])
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() -> Result<()> {
    let alerts: BTreeSet<_> = alerts()?.into_iter().map(|(name, _)| name).collect();
    let mut runbooks = BTreeSet::new();
    for path in files("docs/runbooks", ".md")? {
        let name = path.file_stem().and_then(OsStr::to_str).context("a file without a name")?.to_owned();
        let text = std::fs::read_to_string(&path)?;
        assert!(text.starts_with(&format!("# {name}\n")), "{name}: the title is the alert");
        let sections: Vec<_> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(sections, RUNBOOK_SECTIONS, "{name}");
        for target in text.split("](").skip(1).filter_map(|link| link.split(')').next()) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let linked = std::fs::read_to_string(path.with_file_name(file))
                .with_context(|| format!("{name} links to {target}"))?;
            let mut headings = linked.lines().filter(|line| line.starts_with('#')).map(anchor);
            assert!(section.is_empty() || headings.any(|heading| heading == section), "{name} links to {target}");
        }
        runbooks.insert(name);
    }
    assert_eq!(alerts, runbooks, "alerts on the left, runbooks on the right");
    Ok(())
}

/// Alerts on the analyzer that are about what reaches it or leaves it, not about its own state.
const AROUND: [&str; 6] = [
    "GoodputAnalyzerAbsent",
    "GoodputAnalyzerDown",
    "GoodputAnalyzerIngestStopped",
    "GoodputAnalyzerReportNotDelivered",
    "GoodputAnalyzerSamplesOutOfBounds",
    "GoodputAnalyzerSourceStale",
];

#[test]
fn every_condition_has_an_alert_on_the_same_metric_and_every_such_alert_a_condition() -> Result<()> {
    let all = alerts()?;
    let doc = std::fs::read_to_string(root().join("docs/use/analyzer-ui.md"))?;
    for condition in CONDITIONS {
        let name = condition.name;
        let rule =
            all.iter().find(|(alert, _)| alert == condition.alert).with_context(|| format!("{name}: no alert"))?;
        let expr = parse(&rule.1.expr)?;
        let of_metric = selectors(&expr).into_iter().find(|s| s.name.as_deref() == Some(condition.metric.name));
        let selector =
            of_metric.with_context(|| format!("{name}: {} is not about {}", condition.alert, condition.metric.name))?;
        if let Some((label, value)) = condition.label {
            assert!(matchers(&selector).any(|m| m.name == label && m.is_match(value)), "{name}");
        }
        assert_eq!(rule.1.labels.get("severity").map(String::as_str), Some(condition.severity.name()), "{name}");
        let line = format!("| `{name}` | {} | [{}](../runbooks/{1}.md) |", condition.severity.name(), condition.alert);
        assert!(doc.contains(&line), "docs/use/analyzer-ui.md has no {line}");
    }
    let told: BTreeSet<&str> = CONDITIONS.iter().map(|condition| condition.alert).chain(AROUND).collect();
    let own = all.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("GoodputAnalyzer"));
    assert_eq!(told, own.collect(), "conditions on the left, alerts on the right");
    Ok(())
}

#[test]
fn every_rule_uses_what_exists() -> Result<()> {
    let vocabulary = vocabulary()?;
    for rule in rules()? {
        let problems = vocabulary.problems(&parse(&rule.expr)?);
        let name = rule.alert.or(rule.record).context("a rule without a name")?;
        assert!(problems.is_empty(), "{name}: {problems:?}");
    }
    Ok(())
}

#[test]
fn recorded_names_say_level_metric_and_operations() -> Result<()> {
    for name in rules()?.into_iter().filter_map(|rule| rule.record) {
        assert_eq!(name.split(':').filter(|part| !part.is_empty()).count(), 3, "{name}");
    }
    Ok(())
}

/// One code, one class: no event raises both a page and a ticket. The gauge of the last XID misses repeats.
#[test]
fn xid_classes_do_not_overlap() -> Result<()> {
    let mut classes = Vec::new();
    for (name, rule) in alerts()? {
        for selector in selectors(&parse(&rule.expr)?) {
            assert_ne!(selector.name.as_deref(), Some("DCGM_FI_DEV_XID_ERRORS"), "{name}");
            classes.extend(matchers(&selector).filter(|m| m.name == "xid").map(|m| (name.clone(), m.clone())));
        }
    }
    assert_eq!(classes.len(), 6);
    for code in 0..1000 {
        let code = code.to_string();
        let named: Vec<_> = classes.iter().filter(|(_, codes)| codes.is_match(&code)).map(|(name, _)| name).collect();
        assert!(named.len() <= 1, "XID {code} is in {named:?}");
    }
    Ok(())
}

/// What the rules say of a code is what `docs/reference/xid.md` says of it.
#[test]
fn xid_classes_are_those_of_the_catalogue() -> Result<()> {
    use Class::{App, AppHw, Bus, Drv, Link, Mem};
    let classes: [(&str, &[Class]); 6] = [
        ("GoodputGpuXidBoard", &[Bus]),
        ("GoodputGpuXidMemory", &[Mem]),
        ("GoodputGpuXidLink", &[Link]),
        ("GoodputGpuXidDriver", &[Drv]),
        ("GoodputGpuXidMaintenance", &[Mem, Link]),
        ("GoodputGpuXidApplication", &[App, AppHw]),
    ];
    for (name, classes) in classes {
        let (_, rule) = alerts()?.into_iter().find(|(alert, _)| alert == name).with_context(|| name.to_owned())?;
        let selectors = selectors(&parse(&rule.expr)?);
        let codes: Vec<_> = selectors.iter().flat_map(matchers).filter(|m| m.name == "xid").collect();
        let listed: Vec<u64> = (0..1000).filter(|code| codes.iter().any(|c| c.is_match(&code.to_string()))).collect();
        assert!(!listed.is_empty(), "{name}");
        for code in listed {
            let known = find(code).with_context(|| format!("{name}: XID {code} is not in the catalogue"))?;
            assert!(classes.contains(&known.class), "{name}: XID {code} is of class {}", known.class.name());
        }
    }
    Ok(())
}

#[test]
fn amtool_accepts_the_configuration_and_routes_by_severity() -> Result<()> {
    let config = root().join("alerts/alertmanager.yml");
    run("amtool", [OsStr::new("check-config"), config.as_os_str()])?;
    for (name, rule) in alerts()? {
        let severity = rule.labels.get("severity").with_context(|| name.clone())?;
        let receiver = match severity.as_str() {
            "critical" => "pager",
            "warning" => "tickets",
            _ => "chat",
        };
        assert_eq!(route(&config, &name, severity)?, receiver, "{name}");
    }
    Ok(())
}

fn route(config: &Path, alert: &str, severity: &str) -> Result<String> {
    let file = format!("--config.file={}", config.display());
    let labels = [format!("alertname={alert}"), format!("severity={severity}")];
    let args = ["config", "routes", "test", &file, &labels[0], &labels[1]];
    Ok(run("amtool", args)?.trim().to_owned())
}
