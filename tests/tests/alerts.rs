//! The alert rules: promtool accepts them, its tests pass, and every alert has what on-call needs.

#![allow(clippy::disallowed_methods, reason = "runs promtool")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use goodput_exporter::catalog;
use serde_json::Value;

const RUNBOOKS: &str = "https://github.com/goodput/goodput/blob/main/docs/runbooks/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The YAML files of a folder, with their content.
fn yaml(folder: &str) -> Result<Vec<(PathBuf, Value)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("yml")) {
            let content = serde_saphyr::from_str(&fs::read_to_string(&path)?);
            files.push((path.clone(), content.with_context(|| path.display().to_string())?));
        }
    }
    Ok(files)
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Every rule of the rule files.
fn rules() -> Result<Vec<Value>> {
    let files = yaml("alerts")?;
    let groups = files.iter().flat_map(|(_, file)| items(file, "groups"));
    Ok(groups.flat_map(|group| items(group, "rules")).cloned().collect())
}

fn promtool(verb: &str, files: Vec<(PathBuf, Value)>) -> Result<()> {
    let paths = files.into_iter().filter(|(_, file)| verb == "test" || file["groups"].is_array());
    let output = Command::new("promtool")
        .args([verb, "rules"])
        .args(paths.map(|(path, _)| path))
        .output()
        .context("this test needs promtool (Debian: prometheus)")?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "promtool {verb} rules: {}", String::from_utf8_lossy(&said));
    Ok(())
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() -> Result<()> {
    promtool("check", yaml("alerts")?)?;
    promtool("test", yaml("alerts/tests")?)
}

#[test]
fn every_alert_has_what_on_call_needs() -> Result<()> {
    let rules = rules()?;
    for alert in rules.iter().filter(|rule| rule["alert"].is_string()) {
        let name = alert["alert"].as_str().context("a name")?;
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        ensure!(["critical", "warning", "info"].contains(&severity), "{name}: severity {severity:?}");
        let annotations = &alert["annotations"];
        for key in ["summary", "description"] {
            ensure!(annotations[key].as_str().is_some_and(|text| text.ends_with('.')), "{name}: {key} is a sentence");
        }
        ensure!(annotations["runbook_url"] == format!("{RUNBOOKS}{name}.md"), "{name}: runbook_url");
        let runbook = root().join("docs/runbooks").join(name).with_extension("md");
        fs::metadata(&runbook).with_context(|| format!("{name} has no {}", runbook.display()))?;
    }
    Ok(())
}

#[test]
fn every_alert_is_seen_firing_and_silent() -> Result<()> {
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let files = yaml("alerts/tests")?;
    let tests = files.iter().flat_map(|(_, file)| items(file, "tests"));
    for case in tests.flat_map(|test| items(test, "alert_rule_test")) {
        let seen = if items(case, "exp_alerts").next().is_some() { &mut firing } else { &mut silent };
        seen.insert(case["alertname"].as_str().unwrap_or_default().to_owned());
    }
    for alert in rules()?.iter().filter_map(|rule| rule["alert"].as_str()) {
        ensure!(firing.contains(alert), "{alert}: no test sees it fire");
        ensure!(silent.contains(alert), "{alert}: no test sees it silent");
    }
    Ok(())
}

#[test]
fn rules_name_metrics_of_the_catalog() -> Result<()> {
    let known: BTreeSet<&str> = catalog::all().map(|metric| metric.name).collect();
    for rule in rules()? {
        let expr = rule["expr"].as_str().unwrap_or_default();
        let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        // The analyzer's own gauges are not in the exporter's catalog; a word with a colon is a recorded rule.
        let ours = words.filter(|w| w.starts_with("goodput_") || w.starts_with("DCGM_"));
        for metric in ours.filter(|w| !w.starts_with("goodput_analyzer_") && !w.starts_with("goodput_gpu_class_")) {
            ensure!(known.contains(metric), "{metric} in {expr} is not in the catalog");
        }
    }
    Ok(())
}
