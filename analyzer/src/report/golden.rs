//! The renderings against recorded ones; `UPDATE_GOLDEN=1` records them anew, to be reviewed as a diff.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use super::*;
use crate::classify::Interval;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report").join(name)
}

fn intervals(name: &str) -> Vec<Interval> {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

fn week() -> Period {
    Period::iso_week("2026-W47", &TimeZone::get("Europe/Berlin").unwrap()).unwrap()
}

fn report(intervals: &[Interval], previous: &[Interval]) -> Report {
    build(intervals, previous, week())
}

fn fixture_report() -> Report {
    report(&intervals("week.json"), &intervals("week_before.json"))
}

fn check(name: &str, actual: &str) {
    let path = fixture(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let differs = expected.lines().zip(actual.lines()).enumerate().find(|(_, (e, a))| e != a);
    if let Some((line, (expected, actual))) = differs {
        panic!("{name}:{}: expected\n{expected}\ngot\n{actual}\n(UPDATE_GOLDEN=1 records it anew)", line + 1);
    }
    assert_eq!(expected.len(), actual.len(), "{name}: one is longer (UPDATE_GOLDEN=1 records it anew)");
}

#[test]
fn markdown_golden() {
    check("week.md", &markdown::render(&fixture_report()).unwrap());
}

#[test]
fn json_golden() {
    check("week.report.json", &fixture_report().json().unwrap());
}

#[test]
fn html_golden() {
    check("week.html", &html::render(&fixture_report()).unwrap());
}

#[test]
fn csv_golden() {
    check("week.csv", &csv::render(&intervals("week.json")));
}

#[test]
fn a_period_without_verdicts_is_unknown_and_not_zero() {
    let empty = report(&[], &[]);
    assert_eq!(empty.fleet.goodput, None);
    let markdown = markdown::render(&empty).unwrap();
    assert!(markdown.contains("**Fleet goodput: unknown**"), "{markdown}");
    assert!(html::render(&empty).unwrap().contains("<b>unknown</b><span>fleet goodput</span>"));
}

#[test]
fn time_without_any_data_has_no_goodput() {
    let mut blind = intervals("week.json");
    blind.iter_mut().for_each(|i| i.class = Class::NoData);
    let report = report(&blind, &[]);
    assert_eq!(report.fleet.goodput, None);
    assert_eq!(report.fleet.goodput_of_known, None);
    assert_eq!(report.fleet.goodput_at_most, Some(1.0));
}

#[test]
fn every_sum_is_the_sum_of_the_intervals() {
    let intervals = intervals("week.json");
    let total: i64 = intervals.iter().map(|i| i.ms).sum();
    let report = fixture_report();
    let sum = |rows: &[Row]| rows.iter().map(|row| row.total.gpu_ms).sum::<i64>();
    let lost: i64 = report.findings.iter().chain(&report.unjudged).map(|f| f.lost.gpu_ms).sum();
    assert_eq!(report.classes.iter().map(|row| row.amount.gpu_ms).sum::<i64>(), total);
    assert_eq!(report.fleet.capacity.gpu_ms, total);
    assert_eq!(lost + report.fleet.productive.gpu_ms, total);
    assert_eq!([sum(&report.nodes), sum(&report.models), sum(&report.gpus)], [total; 3]);
    assert_eq!(sum(&report.owners), report.fleet.allocated.gpu_ms);
    for row in report.gpus.iter().chain(&report.owners) {
        let parts = row.productive.gpu_ms + row.losses.iter().map(|l| l.amount.gpu_ms).sum::<i64>();
        assert_eq!(parts, row.total.gpu_ms);
    }
    for finding in report.findings.iter().chain(&report.unjudged) {
        assert_eq!(finding.places.iter().map(|p| p.amount.gpu_ms).sum::<i64>(), finding.lost.gpu_ms);
        assert_eq!(finding.spans.iter().map(|s| s.gpu_ms).sum::<i64>(), finding.lost.gpu_ms);
    }
}

#[test]
fn html_fetches_nothing_and_escapes_hostile_names() {
    let page = html::render(&fixture_report()).unwrap();
    for needle in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe", " style="] {
        let hit = page.replace("http://evil.example", "").find(needle);
        assert_eq!(hit, None, "the page contains {needle}");
    }
    assert!(page.contains("&#60;script&#62;alert(1)"), "the hostile owner is shown, escaped");
}

#[test]
fn markdown_escapes_hostile_names() {
    let text = markdown::render(&fixture_report()).unwrap();
    assert!(text.contains(r"&lt;script>alert(1)&lt;/script> \| \[x\](http://evil.example) \`rm\`"), "{text}");
}

#[test]
fn every_class_has_a_colour_in_both_themes() {
    let css = include_str!("../../templates/colours.css");
    for class in Class::ALL {
        assert_eq!(css.matches(&format!("--{}: #", class.name())).count(), 2, "{}", class.name());
    }
}
