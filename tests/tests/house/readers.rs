//! What reads each of our own metrics: `docs/reference/readers.md`, and how many are read at all.
//!
//! A metric that no verdict, risk, setting, check or alert reads says in its row of the catalog what people look at it
//! for. A panel alone shows a metric to people too, but counts as a reader of few.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;
use goodput_catalog::{Kind, Metric};
use goodput_exporter::audit::checks::CHECKS;
use goodput_rules::signal;
use goodput_tests::rules::{files, root, rules};
use serde_json::Value;

const PAGE: &str = "docs/reference/readers.md";

const HEAD: &str = "\
# Readers of our own metrics

Made from the rules of verdicts, the checks of the audit, the alerts and the dashboards. *Verdicts* are the analyzer's
[rules and advisories](rules.md), *risks* its forecasts, *settings* the comparison of nodes with their pool; checks are
those of [audit.md](audit.md). A metric that nothing reads is for people: the last column says what for.

";

/// Of our own metrics at least this share has a reader. Own: a metric that nothing reads costs every user a series.
const LEAST_READ: f64 = 2.0 / 3.0;
/// At most this share is on panels and has no other reader. Own.
const MOST_ON_PANELS_ALONE: f64 = 0.1;

/// The exporter's metrics without those whose names are not ours to choose: of DCGM, and of every process.
fn own() -> impl Iterator<Item = &'static Metric> {
    goodput_catalog::all().filter(|metric| metric.name.starts_with("goodput_"))
}

/// Who reads a metric.
#[derive(Default)]
struct Readers {
    acting: Vec<String>,
    panels: Vec<String>,
}

/// The names in a query that may be metrics.
fn words(query: &str) -> BTreeSet<&str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').collect()
}

/// Do these words name the metric, or a part of it where it is a histogram?
fn names(words: &BTreeSet<&str>, metric: &Metric) -> bool {
    let is_part = |part: &&str| words.contains(format!("{}{part}", metric.name).as_str());
    words.contains(metric.name) || metric.kind == Kind::Histogram && ["_bucket", "_sum", "_count"].iter().any(is_part)
}

/// Queries by the series that they record, so that who reads a series is known to read its metrics.
type Recorded = BTreeMap<String, String>;

/// A query with those of all series that it uses.
fn written_out(query: &str, recorded: &Recorded) -> String {
    let inner = words(query).into_iter().filter_map(|word| recorded.get(word));
    inner.fold(query.to_owned(), |all, inner| format!("{all} {}", written_out(inner, recorded)))
}

/// The queries of a dashboard's panels, variables and annotations.
fn queries(json: &Value, out: &mut String) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| queries(item, out)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().filter(|_| ["expr", "query", "definition"].contains(&key.as_str())) {
                    Some(query) => *out = format!("{out} {query}"),
                    None => queries(value, out),
                }
            }
        }
        _ => {}
    }
}

/// Alerts and dashboards by name, each with all of its queries written out.
fn queried() -> Result<(Recorded, Recorded)> {
    let rules = rules()?;
    let recorded: Recorded = rules.iter().filter_map(|rule| Some((rule.record.clone()?, rule.expr.clone()))).collect();
    let mut alerts = Recorded::new();
    for (name, rule) in rules.iter().filter_map(|rule| Some((rule.alert.clone()?, rule))) {
        let all = alerts.entry(name).or_default();
        *all = format!("{all} {}", written_out(&rule.expr, &recorded));
    }
    let mut dashboards = Recorded::new();
    for path in files("dashboards", ".json")? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut all = String::new();
        queries(&serde_json::from_str(&std::fs::read_to_string(&path)?)?, &mut all);
        dashboards.insert(name, written_out(&all, &recorded));
    }
    Ok((alerts, dashboards))
}

/// What the analyzer reads it for.
fn analyzed(metric: &Metric, judged: &BTreeSet<&str>, set: &[String]) -> Vec<String> {
    let is_set = set.iter().any(|name| name == metric.name);
    let is_judged = judged.contains(metric.name);
    let is_risk = signal::is_known(metric.name) && !is_judged && !is_set;
    let told = [("verdicts", is_judged), ("risks", is_risk), ("settings", is_set)];
    told.into_iter().filter(|(_, is)| *is).map(|(name, _)| name.to_owned()).collect()
}

fn readers() -> Result<Vec<(&'static Metric, Readers)>> {
    let (judged, set) = (signal::metric_names().collect(), signal::setting_metrics());
    let (alerts, dashboards) = queried()?;
    let of = |metric: &'static Metric| {
        let asking = |all: &Recorded| -> Vec<String> {
            all.iter().filter(|(_, query)| names(&words(query), metric)).map(|(name, _)| name.clone()).collect()
        };
        let checks = CHECKS.iter().filter(|check| check.families.iter().any(|family| family.name == metric.name));
        let mut acting = analyzed(metric, &judged, &set);
        acting.extend(checks.map(|check| format!("[{0}](audit.md#{0})", check.id)));
        acting.extend(asking(&alerts).iter().map(|name| format!("[{name}](../runbooks/{name}.md)")));
        (metric, Readers { acting, panels: asking(&dashboards) })
    };
    Ok(own().map(of).collect())
}

fn page(all: &[(&Metric, Readers)]) -> String {
    let mut out = HEAD.to_owned();
    out += "| Metric | Read by | Dashboards | For people |\n|---|---|---|---|\n";
    for (metric, Readers { acting, panels }) in all {
        let (acting, panels) = (acting.join(", "), panels.join(", "));
        let _ = writeln!(out, "| `{}` | {acting} | {panels} | {} |", metric.name, metric.purpose);
    }
    out
}

/// `UPDATE_GOLDEN=1 cargo test -p goodput-tests --test house readers` rewrites the page.
#[test]
fn docs_readers_md_is_current() -> Result<()> {
    let (path, now) = (root().join(PAGE), page(&readers()?));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &now)?;
    }
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(then == now, "{PAGE} differs from what reads the metrics; run this test with UPDATE_GOLDEN=1");
    Ok(())
}

#[test]
fn a_metric_that_nothing_reads_says_what_it_is_for() -> Result<()> {
    let all = readers()?;
    let is_read = |readers: &Readers| !readers.acting.is_empty() || !readers.panels.is_empty();
    let names = |wrong: &dyn Fn(&Metric, &Readers) -> bool| -> Vec<&str> {
        all.iter().filter(|(metric, readers)| wrong(metric, readers)).map(|(metric, _)| metric.name).collect()
    };
    let silent = names(&|metric, readers| !is_read(readers) && metric.purpose.is_empty());
    assert!(silent.is_empty(), "nothing reads these, and their rows have no `for`: {silent:#?}");
    let both = names(&|metric, readers| is_read(readers) && !metric.purpose.is_empty());
    assert!(both.is_empty(), "these are read, so that their rows need no `for`: {both:#?}");
    Ok(())
}

#[test]
fn two_thirds_of_our_own_metrics_are_read() -> Result<()> {
    let all = readers()?;
    let share = |is: &dyn Fn(&Readers) -> bool| {
        let count = all.iter().filter(|(_, readers)| is(readers)).count();
        (count, count as f64 / all.len() as f64)
    };
    let (panels, on_panels) = share(&|readers| readers.acting.is_empty() && !readers.panels.is_empty());
    let (acting, acted_on) = share(&|readers| !readers.acting.is_empty());
    let counts = format!("of {} metrics {acting} are acted on, {panels} more are on panels", all.len());
    assert!(on_panels <= MOST_ON_PANELS_ALONE, "too many are on panels alone: {counts}");
    assert!(acted_on + on_panels >= LEAST_READ, "too few are read: {counts}");
    Ok(())
}
