//! The report as one HTML file: inline style, inline charts, no script, nothing fetched from anywhere.

use askama::Template;

use super::chart::{Tick, ticks};
use super::serving::{self, MAX_SERVERS, SHOWN};
use super::shown::MAX_OPEN;
use super::text::{self, MAX_PLACES};
use super::tuning::MIN_PAIRS;
use super::waterfall::{Step, waterfall};
use super::{Report, Site, units};
use goodput_rules::tuning::MIN_POOL;
use goodput_verdict::{Class, Served};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    r: &'a Report,
    classes: &'a [Class],
    site: &'a Site,
    contents: Vec<(&'static str, &'static str)>,
    steps: Vec<Step>,
    ticks: Vec<Tick>,
}

/// The sections that a reader looks for, by the names of their anchors.
fn contents(report: &Report) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("first", "What to do first", true),
        ("waterfall", "From capacity to productive", true),
        ("classes", "Where the time went", true),
        ("timeline", "Each GPU over time", true),
        ("findings", "Findings", true),
        ("risks", "Risks", true),
        ("advisories", "Advisories", true),
        ("tuning", "Tuning", true),
        ("unjudged", "Not judged", true),
        ("trial", "Missing signals", report.trial.is_some()),
        ("basis", "Sources", true),
        ("serving", "Serving", report.serving.is_some()),
        ("throughput", "Throughput", report.throughput.is_some()),
        ("runs", "Runs", !report.runs.is_empty()),
        ("clusters", "By cluster", report.has_clusters()),
        ("teams", "By team", report.teams.is_configured),
        ("accounts", "By account", !report.accounts.is_empty()),
        ("owners", "By run", true),
        ("nodes", "By node", true),
        ("models", "By model", true),
        ("gpus", "By GPU", true),
    ];
    all.into_iter().filter(|(.., is_there)| *is_there).map(|(id, title, _)| (id, title)).collect()
}

/// The whole page.
pub fn render(report: &Report, site: &Site) -> Result<String, askama::Error> {
    let (contents, ticks) = (contents(report), ticks(&report.timeline.axis));
    Page { r: report, classes: Class::ALL, site, contents, steps: waterfall(report), ticks }.render()
}
