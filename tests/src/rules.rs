//! The rule files and their tests, as data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::promql::{Vocabulary, parse};

/// A file of Prometheus rules.
#[derive(Debug, Deserialize)]
pub struct RuleFile {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

/// A recording rule or an alert.
#[derive(Debug, Deserialize)]
pub struct Rule {
    /// The series it makes, of a recording rule.
    pub record: Option<String>,
    /// Its name, of an alert.
    pub alert: Option<String>,
    /// The query.
    pub expr: String,
    /// Labels it adds.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What it says to people.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A file of promtool tests: the part about alerts.
#[derive(Debug, Deserialize)]
pub struct TestFile {
    tests: Vec<TestCase>,
}

#[derive(Debug, Deserialize)]
struct TestCase {
    #[serde(default)]
    alert_rule_test: Vec<Expectation>,
}

/// What a test expects of an alert at a time.
#[derive(Debug, Deserialize)]
pub struct Expectation {
    /// The alert.
    pub alertname: String,
    /// What it is expected to have firing.
    #[serde(default)]
    pub exp_alerts: Vec<serde::de::IgnoredAny>,
}

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of a folder of the repository whose names end so, in order.
///
/// # Errors
/// When the folder cannot be read or has none.
pub fn files(folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let folder = root().join(folder);
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut found = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    anyhow::ensure!(!found.is_empty(), "no {ending} in {}", folder.display());
    Ok(found)
}

/// All rules of the repository, in the order of evaluation.
///
/// # Errors
/// When a file is not as Prometheus wants it.
pub fn rules() -> Result<Vec<Rule>> {
    let all = files("alerts", ".rules.yml")?.iter().map(|path| yaml::<RuleFile>(path)).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().flat_map(|file| file.groups).flat_map(|group| group.rules).collect())
}

/// All expectations of the rules' tests.
///
/// # Errors
/// When a file is not as promtool wants it.
pub fn expectations() -> Result<Vec<Expectation>> {
    let all =
        files("alerts/tests", ".test.yml")?.iter().map(|path| yaml::<TestFile>(path)).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().flat_map(|file| file.tests).flat_map(|test| test.alert_rule_test).collect())
}

/// Every metric that exists, the rules' own included.
///
/// # Errors
/// When a recording rule does not parse.
pub fn vocabulary() -> Result<Vocabulary> {
    let mut vocabulary = Vocabulary::new();
    for rule in rules()? {
        if let Some(name) = &rule.record {
            vocabulary.record(name, &parse(&rule.expr)?);
        }
    }
    Ok(vocabulary)
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}
