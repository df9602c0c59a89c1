//! `docs/reference/configuration.md`, from the rows.

use std::fmt::Write as _;

use goodput_rules::classify::thresholds::Thresholds;
use goodput_settings::Section;

use super::{Config, ReadLimits, Showback, Shown};
use crate::deliver::Settings;
use crate::ingest::{Limits, replicas};

/// Every key of the file: what it is about, and the page that says more.
const KEYS: [(&str, &str); 15] = [
    ("zone", "the time zone of weeks and of times in reports, by its IANA name; UTC unless set"),
    ("scrape", "[targets to scrape](../use/ingest.md#scraping), a list"),
    ("thresholds", "[what rules compare signals with](#thresholds)"),
    ("store", "[bounds of the store](#store)"),
    ("prices", "[what GPU time and energy cost](../use/report.md#prices), a list"),
    ("report", "[when and where reports are delivered, and what they show](#report)"),
    ("application", "[counters of jobs](../use/application.md), a list"),
    (
        "serving",
        "[what is wanted of inference servers](../use/serving.md#limits-of-requests): the list `serving.slo` and the mapping `serving.min_replicas`",
    ),
    ("teams", "[whose GPU time is whose](../use/teams.md), a list"),
    ("teams_file", "a file that has the list of teams in place of this one, read again when it changes"),
    ("showback", "[how loss that teams share is charged](#showback)"),
    ("ingest", "[what may come in at once](#ingest)"),
    ("maintenance", "[when which GPUs are out of use on purpose](rules.md), a list"),
    ("reads", "[bounds of pages and the API](#reads)"),
    (
        "web",
        "[who may do what](../use/access.md): the list `web.access`; `web.findings_write`: may [findings](../use/findings.md) be \
         written? By default on loopback addresses without `--web.external-url`",
    ),
];

const HEAD: &str = "\
# Settings of the analyzer

This page is generated from the rows of the code.

`--config.file` names a YAML file. Each setting in the tables below is also an environment variable: `GOODPUT_ANALYZER_`,
the section and the key, in capitals (`GOODPUT_ANALYZER_STORE_HEAD_BYTES=134217728`). The environment wins over the file; an
empty variable counts as unset. Lists are in the file alone, and settings of `report` count only when the file has that
section. `goodput-analyzer check-config` prints the settings that hold; a mistake is named with file, line and field, or with
its variable. Flags are listed by `goodput-analyzer --help`.

The column *limit* is the label under which `/metrics` shows a bound (`goodput_analyzer_store_limit{limit=\"head_bytes\"}`, and
`goodput_analyzer_ingest_limit` and `goodput_analyzer_read_limit` in the same way; none where a setting is unlimited). The
column *used* is the metric that shows how much of it is in use.

| key of the file | what it is about |
|---|---|
";

const COLUMNS: &str = "| key | value | default | what it does | limit | used |\n|---|---|---|---|---|---|\n";

fn rows<S: Section>(page: &mut String) {
    for row in S::ROWS {
        let default = (row.get)(&S::default()).map_or("not set".to_owned(), |_| (row.shown)(&S::default()));
        let limit = row.limit.map(|(suffix, _)| format!("`{}{suffix}`", row.key)).unwrap_or_default();
        let used = row.used.map(|metric| format!("`{metric}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {} | {default} | {} | {limit} | {used} |", row.key, row.expected, row.doc);
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (key, about) in KEYS {
        let _ = writeln!(page, "| `{key}` | {about} |");
    }
    let section = |page: &mut String, name: &str, about: &str| *page += &format!("\n## {name}\n\n{about}\n\n{COLUMNS}");
    section(&mut page, "store", "[What the store promises, and how its limits work together](../use/store.md#limits).");
    rows::<goodput_store::Options>(&mut page);
    section(
        &mut page,
        "ingest",
        "[How samples come in](../use/ingest.md). `replica_labels`, a list, names the labels that tell replicas apart; by default \
         `prometheus_replica` and `__replica__`.",
    );
    rows::<Limits>(&mut page);
    rows::<replicas::Options>(&mut page);
    section(&mut page, "reads", "Requests beyond a limit of pages and the API are answered with `Retry-After`.");
    rows::<ReadLimits>(&mut page);
    section(
        &mut page,
        "report",
        "[How reports are delivered](../use/schedule.md): `schedule` and `webhook` are described there, `destinations` and `mail` on \
         [the page about messages](../use/delivery.md). A section with `first_at_least` alone delivers nothing.",
    );
    rows::<Settings>(&mut page);
    rows::<Shown>(&mut page);
    section(&mut page, "showback", "[How GPU time is shown by team](../use/teams.md).");
    rows::<Showback>(&mut page);
    page += "\n## thresholds\n\nEvery number that a [verdict](rules.md) depends on.\n\n";
    page += "| key | default | range | unit | what it decides | where the default comes from |\n|---|---|---|---|---|---|\n";
    for t in Thresholds::default().list() {
        let range = format!("{} to {}", t.min, t.max);
        let _ = writeln!(page, "| `{}` | {} | {range} | {} | {} | {} |", t.name, t.default, t.unit, t.doc, t.source);
    }
    page
}

/// `UPDATE_GOLDEN=1 cargo test --workspace --lib docs_configuration` rewrites the page.
#[test]
fn docs_configuration_md_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/configuration.md");
    let now = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let then = std::fs::read_to_string(path).unwrap_or_default();
    assert!(then == now, "{path} differs from the rows; run this test with UPDATE_GOLDEN=1");
}

#[test]
fn the_page_has_every_key_of_the_file() {
    let mistakes = Config::parse("no_such: 1\n").unwrap_err();
    let known = KEYS.map(|(key, _)| key).join(", ");
    assert_eq!(mistakes[0].text, format!("no_such: unknown key, expected one of {known}"));
}

/// Each row is set directly, by the file and by the environment: all three give the same configuration.
#[test]
fn every_row_can_be_set_by_file_and_environment() {
    fn set<S: Section>(section: &mut S) -> Vec<(String, String, String)> {
        let values = ["7", "true", "48h", "https://h.example/", "by_allocation"];
        let fits = |row: &goodput_settings::Row<S>, section: &mut S| {
            values.into_iter().find(|value| (row.set)(section, value).is_ok() && (row.get)(section).is_some())
        };
        let set = S::ROWS.iter().map(|row| (row, fits(row, section).unwrap_or_else(|| panic!("{}", row.key))));
        let texts: Vec<_> = set.map(|(row, value)| (row.key, value)).collect();
        texts.into_iter().map(|(key, value)| (S::NAME.to_owned(), key.to_owned(), value.to_owned())).collect()
    }
    const REPORT: &str = "report:\n  schedule: {weekday: monday, time: '06:00'}\n  directory: /r\n";
    let mut direct = Config::parse(REPORT).unwrap();
    let mut values = set(&mut direct.store);
    values.extend(set(&mut direct.ingest.limits));
    values.extend(set(&mut direct.ingest.replicas));
    values.extend(set(&mut direct.reads));
    values.extend(set(direct.report.as_mut().unwrap()));
    values.extend(set(&mut direct.shown));
    values.extend(set(&mut direct.showback));

    let mut file = "report:\n  schedule: {weekday: monday, time: '06:00'}\n".to_owned();
    for name in ["report", "store", "ingest", "reads", "showback"] {
        file += &if name == "report" { String::new() } else { format!("{name}:\n") };
        for (_, key, value) in values.iter().filter(|(section, ..)| section == name) {
            let _ = writeln!(file, "  {key}: {value}");
        }
    }
    assert_eq!(Config::parse(&file).unwrap().to_string(), direct.to_string());

    let variable = |name: &str| {
        let found = values.iter().find(|(section, key, _)| goodput_settings::variable(section, key) == name);
        found.map(|(.., value)| value.clone())
    };
    let overridden = Config::parse(REPORT).unwrap().overridden_by(&variable).unwrap();
    assert_eq!(overridden.to_string(), direct.to_string());
    assert_ne!(overridden.to_string(), Config::parse(REPORT).unwrap().to_string());
}

#[test]
fn every_mistake_of_the_environment_is_named() {
    let variables = [
        ("GOODPUT_ANALYZER_STORE_HEAD_BYTES", "64MiB"),
        ("GOODPUT_ANALYZER_STORE_RETENTION", "30d"),
        ("GOODPUT_ANALYZER_STORE_RETENTION_RESULTS", "2w"),
        ("GOODPUT_ANALYZER_READS_REPORTS", ""),
        ("GOODPUT_ANALYZER_THRESHOLDS_CONFIDENCE_FLOOR", "1.5"),
    ];
    let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let error = Config::default().overridden_by(&variable).unwrap_err().to_string();
    assert_eq!(
        error.lines().collect::<Vec<_>>(),
        [
            "environment variable GOODPUT_ANALYZER_STORE_HEAD_BYTES: expected a whole number above 0, found \"64MiB\"",
            "environment variable GOODPUT_ANALYZER_THRESHOLDS_CONFIDENCE_FLOOR: expected 0 to 1 ratio, found \"1.5\"",
            "store.retention_results: expected store.retention or longer, found less",
        ]
    );
    let floor = |name: &str| (name == "GOODPUT_ANALYZER_THRESHOLDS_CONFIDENCE_FLOOR").then(|| "0.75".to_owned());
    assert!((Config::default().overridden_by(&floor).unwrap().thresholds.confidence_floor - 0.75).abs() < 1e-9);
}
