//! Panels by class show each class in the colour that reports and pages give it.

use anyhow::{Context as _, Result, ensure};
use goodput_analyzer::classify::Class;
use goodput_analyzer::report::about;
use goodput_tests::rules::files;

use super::{Dashboard, list, targets};

/// How a list of overrides for classes begins, and how one ends.
const START: &str =
    "        \"overrides\": [\n          {\n            \"matcher\": {\"id\": \"byName\", \"options\": \"productive\"}";
const END: &str = "\n        ]";

/// `UPDATE_GOLDEN=1` rewrites the lists.
#[test]
fn classes_have_the_colours_of_the_reports() -> Result<()> {
    let wanted = overrides();
    for path in files("dashboards", ".json")? {
        let text = std::fs::read_to_string(&path)?;
        let replaced = replace(&text, &wanted)?;
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, replaced)?;
        } else {
            ensure!(text == replaced, "{}: other colours of classes; UPDATE_GOLDEN=1 writes them", path.display());
        }
    }
    let mut by_class = 0;
    for dashboard in Dashboard::all()? {
        for panel in
            dashboard.panels().filter(|panel| list(&panel["targets"]).any(|t| t["legendFormat"] == "{{class}}"))
        {
            let title = targets(panel).next().map(|(title, _)| title);
            let first = &panel["fieldConfig"]["overrides"][0]["matcher"]["options"];
            ensure!(*first == "productive", "{}, {title:?}: no colours of classes", dashboard.name);
            by_class += 1;
        }
    }
    ensure!(by_class > 0, "no panel shows classes");
    Ok(())
}

fn overrides() -> String {
    let one = |class: &Class| {
        format!(
            "          {{\n            \"matcher\": {{\"id\": \"byName\", \"options\": \"{}\"}},\n            \"properties\": \
             [{{\"id\": \"color\", \"value\": {{\"mode\": \"fixed\", \"fixedColor\": \"{}\"}}}}]\n          }}",
            class.name(),
            about(*class).light
        )
    };
    let all: Vec<String> = Class::ALL.iter().map(one).collect();
    format!("        \"overrides\": [\n{}{END}", all.join(",\n"))
}

fn replace(text: &str, wanted: &str) -> Result<String> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(START) {
        let end = rest[start..].find(END).context("a list of overrides without an end")? + start + END.len();
        done += &rest[..start];
        done += wanted;
        rest = &rest[end..];
    }
    Ok(done + rest)
}
