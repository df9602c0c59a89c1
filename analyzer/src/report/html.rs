//! The report as one HTML file: inline style, inline charts, no script, nothing fetched from anywhere.

use askama::Template;

use super::Report;
use super::text::{self, MAX_PLACES};
use super::tuning::MIN_PAIRS;
use super::waterfall::{Step, waterfall};
use goodput_rules::tuning::MIN_POOL;
use goodput_verdict::Class;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    r: &'a Report,
    classes: &'a [Class],
    steps: Vec<Step>,
    ticks: Vec<Tick>,
}

/// A mark on the time axis.
struct Tick {
    x: f64,
    label: String,
}

/// The whole page.
pub fn render(report: &Report) -> Result<String, askama::Error> {
    let timeline = &report.timeline;
    let ticks = timeline.axis.ticks().into_iter().map(|(ms, label)| Tick { x: timeline.x(ms), label }).collect();
    Page { r: report, classes: Class::ALL, steps: waterfall(report), ticks }.render()
}
