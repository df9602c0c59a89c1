//! README, `docs/` and the dashboards say of the classes what their rows say; `UPDATE_GOLDEN=1` writes it there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, in helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

use goodput_verdict::{CauseKind, Class, Gain};

/// Classes that no rule books time on, which have no section of their own.
const WITHOUT_RULE: [Class; 3] = [Class::Productive, Class::NoData, Class::Unexplained];

/// How a dashboard's list of overrides for classes begins, and how one ends.
const START: &str =
    "        \"overrides\": [\n          {\n            \"matcher\": {\"id\": \"byName\", \"options\": \"productive\"}";
const END: &str = "\n        ]";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds a page of the repository to what `wanted` makes of it.
fn hold(page: impl AsRef<Path>, wanted: impl Fn(&str) -> String) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let wanted = wanted(&text);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(&path, wanted).unwrap();
    }
    let differs = text.lines().zip(wanted.lines()).find(|(old, new)| old != new);
    assert!(text == wanted, "{}: {differs:?}; UPDATE_GOLDEN=1 cargo test -p goodput-verdict writes it", path.display());
}

/// The text with other rows under the only table of this head.
fn with_rows(text: &str, head: &str, rows: &[String]) -> String {
    let (before, rest) = text.split_once(&format!("\n{head}\n")).unwrap();
    let (line, rest) = rest.split_once('\n').unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    format!("{before}\n{head}\n{line}\n{}\n\n{after}", rows.join("\n"))
}

#[test]
fn the_readme_lists_every_class_with_its_meaning() {
    let row = |class: &Class| format!("| `{}` | {} |", class.name(), class.info().meaning);
    let rows: Vec<String> = Class::ALL.iter().map(row).collect();
    hold("README.md", |text| with_rows(text, "| class | meaning |", &rows));
}

#[test]
fn the_page_on_reports_lists_every_gain() {
    let mut gains: Vec<(&Gain, Vec<String>)> = Vec::new();
    let of_classes = Class::ALL.iter().map(|class| (class.name(), class.info().gain));
    let of_causes = CauseKind::ALL.iter().map(|cause| (cause.name(), cause.gain()));
    for (name, gain) in of_classes.chain(of_causes) {
        let Some(gain) = gain else { continue };
        let name = format!("`{name}`");
        match gains.iter_mut().find(|(known, _)| *known == gain) {
            Some((_, names)) => names.push(name),
            None => gains.push((gain, vec![name])),
        }
    }
    let row = |(gain, names): &(&Gain, Vec<String>)| {
        format!("| {} | {} | {} | {} |", names.join(", "), gain.range(), gain.grade.name(), gain.source)
    };
    let rows: Vec<String> = gains.iter().map(row).collect();
    hold("docs/use/report.md", |text| with_rows(text, "| class | gain | grade | source |", &rows));
}

/// What is done about each cause, as rows of a table.
fn remedies() -> Vec<String> {
    let cell = |text: &str| text.replace('|', "\\|");
    let rows = |cause: &'static CauseKind| {
        let (name, class) = (cause.name(), cause.class().name());
        cause.remedies().iter().map(move |remedy| {
            let command = remedy.command.map(|command| format!("`{}`", cell(command))).unwrap_or_default();
            format!("| `{name}` of `{class}` | {} | {command} | {} |", cell(remedy.action), cell(remedy.who))
        })
    };
    CauseKind::ALL.iter().flat_map(rows).collect()
}

/// A section begins with the class's name and its meaning; what the rule looks at follows. One table has the remedies of causes.
#[test]
fn the_page_on_rules_has_a_section_of_every_class_and_of_no_other() {
    hold("docs/reference/rules.md", |text| {
        let heads = text.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        let unknown: Vec<_> = heads.filter(|name| Class::named(name).is_none() && !name.ends_with("_risk")).collect();
        assert!(unknown.is_empty(), "docs/reference/rules.md has sections of {unknown:?}, which are no classes");
        let mut text = text.to_owned();
        for class in Class::ALL.iter().filter(|class| !WITHOUT_RULE.contains(class)) {
            let name = class.name();
            let head = format!("\n## `{name}`\n\n");
            let (before, rest) =
                text.split_once(&head).unwrap_or_else(|| panic!("docs/reference/rules.md: no section {name}"));
            let (told, section) = rest.split_once("**Means**").unwrap();
            assert!(!told.contains("\n## "), "docs/reference/rules.md does not say what {name} means");
            text = format!("{before}{head}{}\n\n**Means**{section}", class.info().meaning);
        }
        with_rows(&text, "| cause | what to do | command | who |", &remedies())
    });
}

#[test]
fn dashboards_show_classes_in_the_colours_of_pages() {
    let one = |class: &Class| {
        format!(
            "          {{\n            \"matcher\": {{\"id\": \"byName\", \"options\": \"{}\"}},\n            \"properties\": \
             [{{\"id\": \"color\", \"value\": {{\"mode\": \"fixed\", \"fixedColor\": \"{}\"}}}}]\n          }}",
            class.name(),
            class.info().light
        )
    };
    let all: Vec<String> = Class::ALL.iter().map(one).collect();
    let list = format!("        \"overrides\": [\n{}{END}", all.join(",\n"));
    let mut lists = 0;
    for file in fs::read_dir(root().join("dashboards")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "json") {
            lists += fs::read_to_string(&file).unwrap().matches(START).count();
            hold(file, |text| with_overrides(text, &list));
        }
    }
    assert!(lists > 0, "no dashboard has colours of classes");
}

/// The text with another list of overrides wherever it has one for classes.
fn with_overrides(text: &str, list: &str) -> String {
    let mut parts = text.split(START);
    let mut whole = parts.next().unwrap().to_owned();
    for part in parts {
        whole += list;
        whole += part.split_once(END).unwrap().1;
    }
    whole
}
