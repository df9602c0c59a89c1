//! The dashboards: readable, about metrics that exist, as Grafana wants them, and answered.

mod links;
mod live;

use std::collections::BTreeSet;
use std::ffi::OsStr;

use anyhow::{Context as _, Result, ensure};
use goodput_catalog::Unit;
use goodput_tests::promql::{Expr, matchers, parse, selectors};
use goodput_tests::rules::{files, root, vocabulary};
use serde_json::Value;

const COLUMNS: u64 = 24;

/// A dashboard and the name of its file.
struct Dashboard {
    name: String,
    json: Value,
}

impl Dashboard {
    fn all() -> Result<Vec<Self>> {
        let read = |path: &std::path::PathBuf| {
            let name = path.file_stem().and_then(OsStr::to_str).context("a file without a name")?.to_owned();
            let json = serde_json::from_str(&std::fs::read_to_string(path)?).with_context(|| name.clone())?;
            Ok(Self { name, json })
        };
        files("dashboards", ".json")?.iter().map(read).collect()
    }

    fn panels(&self) -> impl Iterator<Item = &Value> {
        list(&self.json["panels"]).filter(|panel| panel["type"] != "row")
    }

    fn variables(&self) -> impl Iterator<Item = &Value> {
        list(&self.json["templating"]["list"])
    }

    /// The queries of stats that show one number.
    fn single_stats(&self) -> Vec<(String, &str)> {
        let stats = self.panels().filter(|panel| panel["type"] == "stat");
        let targets = stats.flat_map(|panel| list(&panel["targets"]).map(|target| (&panel["title"], target)));
        let single = targets.filter(|(_, target)| !shows_names(target));
        single
            .map(|(title, target)| (format!("{}: {title}", self.name), target["expr"].as_str().unwrap_or_default()))
            .collect()
    }

    /// Every query that Grafana sends to Prometheus as PromQL, and where it stands.
    fn queries(&self) -> Vec<(String, &str)> {
        let all = self.panels().flat_map(targets).chain(
            list(&self.json["annotations"]["list"]).map(|annotation| (&annotation["name"], &annotation["expr"])),
        );
        all.map(|(place, query)| (format!("{}: {place}", self.name), query.as_str().unwrap_or_default())).collect()
    }
}

fn shows_names(target: &Value) -> bool {
    target["legendFormat"].as_str().is_some_and(|legend| legend.contains("{{"))
}

/// The panel's title with each of its queries.
fn targets(panel: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    list(&panel["targets"]).map(|target| (&panel["title"], &target["expr"]))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The query as Grafana sends it when everything is selected, with the time shown and a week so short that a test has them.
fn filled_in(query: &str) -> String {
    let times =
        [("$__rate_interval", "1m"), ("$__range:1h", "10s:1s"), ("$__range", "1m"), ("offset 1w", "offset 10s")];
    let query = times.iter().fold(query.to_owned(), |query, (variable, time)| query.replace(variable, time));
    ["$cluster", "$instance", "$gpu", "$node", "$owner", "$model"]
        .iter()
        .fold(query, |query, variable| query.replace(variable, ".*"))
}

#[test]
fn every_panel_can_be_read() -> Result<()> {
    for dashboard in Dashboard::all()? {
        let mut titles = BTreeSet::new();
        for panel in dashboard.panels() {
            let place = format!("{}: {}", dashboard.name, panel["title"]);
            let title = panel["title"].as_str().context(place.clone())?;
            assert!(titles.insert(title), "{place} stands there twice");
            let description = panel["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.'), "{place}: the description says what to make of it");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{place} has no unit");
            assert!(list(&panel["targets"]).count() > 0, "{place} asks for nothing");
            let sources = list(&panel["targets"]).map(|target| &target["datasource"]).chain([&panel["datasource"]]);
            for source in sources {
                assert_eq!(source["uid"], "${datasource}", "{place}");
            }
        }
    }
    Ok(())
}

/// Over the time shown, it would have a tile for every name that there was once.
#[test]
fn a_stat_with_names_is_of_now() -> Result<()> {
    for dashboard in Dashboard::all()? {
        for panel in dashboard.panels().filter(|panel| panel["type"] == "stat") {
            for target in list(&panel["targets"]).filter(|target| shows_names(target)) {
                assert_eq!(target["instant"], true, "{}: {}", dashboard.name, panel["title"]);
            }
        }
    }
    Ok(())
}

#[test]
fn dashboards_are_found_linked_and_left_alone() -> Result<()> {
    for Dashboard { name, json } in Dashboard::all()? {
        assert_eq!(json["uid"], *name, "links name the uid, which is the file's name");
        assert!(json["title"].as_str().is_some_and(|title| title.starts_with("Goodput / ")), "{name}");
        assert_eq!(json["tags"], serde_json::json!(["goodput"]), "{name}: the tag makes the links between dashboards");
        assert_eq!(json["editable"], false, "{name}: edits belong into the file");
        let linked = list(&json["links"]).any(|link| link["type"] == "dashboards" && link["includeVars"] == true);
        assert!(linked, "{name} does not link to the others");
    }
    Ok(())
}

#[test]
fn panels_fit_the_grid_without_overlap() -> Result<()> {
    for dashboard in Dashboard::all()? {
        let (mut taken, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for panel in list(&dashboard.json["panels"]) {
            assert!(ids.insert(panel["id"].as_u64()), "{}: two panels are {}", dashboard.name, panel["id"]);
            let side = |key: &str| panel["gridPos"][key].as_u64().context("a panel without a place");
            let (x, y, width, height) = (side("x")?, side("y")?, side("w")?, side("h")?);
            assert!(x + width <= COLUMNS, "{}: {} is too wide", dashboard.name, panel["title"]);
            for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{}: {} lies on another", dashboard.name, panel["title"]);
            }
        }
    }
    Ok(())
}

#[test]
fn every_query_uses_what_exists() -> Result<()> {
    let vocabulary = vocabulary()?;
    for dashboard in Dashboard::all()? {
        for (place, query) in dashboard.queries() {
            let problems = vocabulary.problems(&parse(&filled_in(query)).context(place.clone())?);
            assert!(problems.is_empty(), "{place}: {problems:?}");
        }
        for target in dashboard.panels().flat_map(|panel| list(&panel["targets"])) {
            let query = target["expr"].as_str().context("a target without a query")?;
            let known = vocabulary.labels(&parse(&filled_in(query))?);
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                assert!(known.contains(label), "{}: no metric of {query} has a label {label}", dashboard.name);
            }
        }
        for variable in dashboard.variables().filter(|v| v["type"] == "query") {
            let query = variable["query"]["query"].as_str().context("a variable without a query")?;
            let asked = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let (series, label) = asked.and_then(|inner| inner.rsplit_once(", ")).context(query.to_owned())?;
            let series = parse(&filled_in(series))?;
            assert_eq!(vocabulary.problems(&series), Vec::<String>::new(), "{query}");
            assert!(vocabulary.labels(&series).contains(label), "{query}: no such label");
        }
    }
    Ok(())
}

/// What is selected above applies to every query, and what a query refers to is there to be selected.
#[test]
fn every_query_follows_the_variables() -> Result<()> {
    for dashboard in Dashboard::all()? {
        let names: Vec<_> = dashboard.variables().filter_map(|v| v["name"].as_str()).collect();
        for (place, query) in dashboard.queries() {
            let mut used = used_variables(query);
            let unknown = used.find(|n| !["__rate_interval", "__range"].contains(n) && !names.contains(n));
            assert_eq!(unknown, None, "{place}");
            for selector in selectors(&parse(&filled_in(query))?) {
                let build_info = selector.name.as_deref() == Some("goodput_exporter_build_info");
                let follows = matchers(&selector).any(|matcher| matcher.name == "cluster");
                assert!(follows || build_info, "{place}: {selector} is not limited to the cluster");
            }
            // Matched collectives alone say nothing in less than a quarter of an hour.
            let of_matched = query.contains("goodput_nccl_sampled_seconds").then_some("[15m:30s]");
            let ranges = ["[$__rate_interval]", "[$__range]", "[$__range:1h]"].into_iter().chain(of_matched);
            let known: usize = ranges.map(|range| query.matches(range).count()).sum();
            assert_eq!(
                query.matches('[').count(),
                known,
                "{place}: ranges follow the scrape interval or the time shown"
            );
        }
    }
    Ok(())
}

/// The variables of a text with `$name` and `${name}`; `$1` is a match of a regular expression.
fn used_variables(text: &str) -> impl Iterator<Item = &str> {
    let word = |rest: &'_ str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let names = text.split('$').skip(1).map(|rest| rest.trim_start_matches('{'));
    names.map(move |rest| &rest[..word(rest)]).filter(|name| name.parse::<u8>().is_err())
}

/// A link that leads nowhere is found only by who follows it.
#[test]
fn links_lead_to_dashboards_and_variables_that_exist() -> Result<()> {
    let all = Dashboard::all()?;
    let names =
        |of: &Dashboard| of.variables().filter_map(|v| v["name"].as_str().map(str::to_owned)).collect::<Vec<_>>();
    for dashboard in &all {
        let own = names(dashboard);
        for url in urls(&dashboard.json) {
            for used in used_variables(url).filter(|name| !name.starts_with("__")) {
                assert!(own.iter().any(|name| name == used), "{}: no variable {used} for {url}", dashboard.name);
            }
            let Some((uid, query)) = url.strip_prefix("/d/").and_then(|rest| rest.split_once('?')) else { continue };
            let to = all.iter().find(|other| other.name == uid).with_context(|| format!("no dashboard for {url}"))?;
            for part in query.split('&').filter(|part| *part != "${__url_time_range}") {
                let set = part.strip_prefix("var-").and_then(|rest| rest.split('=').next());
                let carried = part.strip_prefix("${").and_then(|rest| rest.strip_suffix(":queryparam}"));
                let variable = set.or(carried).with_context(|| format!("{part} of {url} sets no variable"))?;
                assert!(names(to).iter().any(|name| name == variable), "{uid} has no variable {variable}: {url}");
            }
        }
    }
    Ok(())
}

/// Every link of the dashboard, wherever it stands.
fn urls(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(urls).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                value.as_str().filter(|_| key == "url").map_or_else(|| urls(value), |url| vec![url])
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A panel that shows a metric as it is shows it in the metric's unit.
/// Each begins with the class that is listed first; the list is held to the rows of the classes in `goodput-verdict`.
#[test]
fn panels_by_class_have_the_colours_of_classes() -> Result<()> {
    let mut by_class = 0;
    for dashboard in Dashboard::all()? {
        let shows = |panel: &&Value| list(&panel["targets"]).any(|target| target["legendFormat"] == "{{class}}");
        // A stat names one class and has the colour of text.
        for panel in dashboard.panels().filter(shows).filter(|panel| panel["type"] != "stat") {
            let first = &panel["fieldConfig"]["overrides"][0]["matcher"]["options"];
            ensure!(*first == "productive", "{}, {}: no colours of classes", dashboard.name, panel["title"]);
            by_class += 1;
        }
    }
    ensure!(by_class > 0, "no panel shows classes");
    Ok(())
}

#[test]
fn units_are_those_of_the_catalog() -> Result<()> {
    for dashboard in Dashboard::all()? {
        for panel in dashboard.panels() {
            for target in list(&panel["targets"]).filter_map(|target| target["expr"].as_str()) {
                let Expr::VectorSelector(selector) = parse(&filled_in(target))? else { continue };
                let name = selector.name.unwrap_or_default();
                let Some(metric) = goodput_catalog::all().find(|metric| metric.name == name) else { continue };
                let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
                let expected = grafana_unit(metric.unit);
                assert!(expected.is_none_or(|expected| Some(expected) == unit), "{name}: {expected:?}, not {unit:?}");
            }
        }
    }
    Ok(())
}

/// Grafana's identifier; `None` where the number's meaning depends on the metric.
fn grafana_unit(unit: Unit) -> Option<&'static str> {
    Some(match unit {
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Ratio => "percentunit",
        Unit::Watts => "watt",
        Unit::Celsius => "celsius",
        Unit::Hertz => "hertz",
        Unit::Percent => "percent",
        Unit::Mebibytes => "mbytes",
        Unit::BytesPerSecond => "Bps",
        Unit::Joules => "joule",
        Unit::MegabytesPerSecond => "MBs",
        Unit::None
        | Unit::Megahertz
        | Unit::Millijoules
        | Unit::Nanoseconds
        | Unit::Milliwatts
        | Unit::MebibytesPerSecond => return None,
    })
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the check is a script, for use by hand too")]
fn grafanas_types_accept_the_dashboards() -> Result<()> {
    let output = std::process::Command::new(root().join("dashboards/tools/check")).output()?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    Ok(())
}
