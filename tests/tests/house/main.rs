//! The modules of a crate use each other in one direction, as in the table of ARCHITECTURE.md; how long files and
//! functions may be; what an addition costs; what reads each metric.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, in helpers too")]

mod additions;
mod habits;
mod limits;
mod readers;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use goodput_tests::arrows::{Arrows, arrows, circles};

/// Source folders whose modules form no circle.
const HOUSES: [&str; 4] = ["exporter/src", "analyzer/rules/src", "analyzer/engine/src", "analyzer/src"];

/// What a crate may depend on, besides crates of this workspace.
const MAY_USE: [(&str, &[&str]); 6] = [
    ("exporter/catalog", &[]),
    ("exporter/exposition", &["serde", "thiserror"]),
    ("analyzer/verdict", &["schemars", "serde"]),
    ("analyzer/settings", &["jiff"]),
    ("analyzer/rules", &["glob", "parking_lot", "rayon", "schemars", "serde", "thiserror", "tracing"]),
    ("tests/lab", LAB),
];

/// What the simulated machines and the packages' manual need. It is built with the programs, so nothing that the tests
/// alone need is among it.
const LAB: &[&str] = &[
    "anyhow",
    "clap",
    "clap_complete",
    "clap_mangen",
    "indicatif",
    "jiff",
    "libc",
    "prost",
    "serde",
    "serde_json",
    "snap",
    "tempfile",
    "tokio",
    "ureq",
];

/// Crates that the store alone may depend on.
const STORES: [&str; 3] = ["polars", "sqlx", "pco"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The folders of the workspace's crates.
fn folders() -> Vec<String> {
    let file = read("Cargo.toml");
    let members = file.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names under `[dependencies]`.
fn dependencies(folder: &str) -> Vec<String> {
    let file = read(&format!("{folder}/Cargo.toml"));
    let section = file.split("[dependencies]\n").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
    section.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

#[test]
fn crates_depend_on_what_they_may() {
    for (folder, allowed) in MAY_USE {
        let used = dependencies(folder);
        let foreign = used.iter().filter(|name| !name.starts_with("goodput-"));
        let wrong: Vec<_> = foreign.filter(|name| !allowed.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "{folder} depends on {wrong:?}; see ARCHITECTURE.md");
    }
    for folder in ["exporter", "exporter/web", "analyzer", "analyzer/engine"] {
        let used = dependencies(folder);
        assert!(used.len() > 5, "{folder}: {used:?}");
        assert!(!used.iter().any(|name| STORES.contains(&name.as_str())), "{folder} depends on what the store uses");
    }
    assert!(STORES.iter().all(|name| dependencies("analyzer/store").iter().any(|used| used == name)));
}

/// Packages with their features, as `cargo build` of these has them.
#[allow(clippy::disallowed_methods, reason = "only cargo knows which features it builds with")]
fn features(asked: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--locked", "--offline", "--edges=normal,build", "--format={p} {f}", "--prefix=none"]);
    let output = cargo.args(asked).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn the_programs_and_all_default_members_are_one_build() {
    let (default, programs) = (features(&[]), features(&["-p=goodput-exporter", "-p=goodput-analyzer"]));
    assert!(programs.len() > 200, "{programs:?}");
    let built_twice: Vec<_> = programs.difference(&default).collect();
    assert!(built_twice.is_empty(), "default members bring other features than the programs have: {built_twice:?}");
}

#[test]
fn architecture_shows_who_uses_whom() {
    let mut shown = String::new();
    for house in HOUSES {
        shown += &format!("* `{house}`:");
        for (module, used) in arrows(&root().join(house)).unwrap() {
            let used: Vec<String> = used.iter().map(|name| format!("`{name}`")).collect();
            if !used.is_empty() {
                shown += &format!(" {module} → {};", used.join(", "));
            }
        }
        shown = shown.trim_end_matches(';').to_owned() + "\n";
    }
    let page = read("ARCHITECTURE.md");
    let (before, rest) = page.split_once("<!-- arrows -->\n").unwrap();
    let (then, after) = rest.split_once("<!-- /arrows -->").unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = format!("{before}<!-- arrows -->\n{shown}<!-- /arrows -->{after}");
        return fs::write(root().join("ARCHITECTURE.md"), text).unwrap();
    }
    assert!(then == shown, "ARCHITECTURE.md differs from the code; run this test with UPDATE_GOLDEN=1:\n{shown}");
}

#[test]
fn modules_form_no_circle() {
    for house in HOUSES.into_iter().chain(["tests/lab/src"]) {
        let arrows = arrows(&root().join(house)).unwrap();
        assert!(arrows.values().flatten().count() > 5, "{house}: {arrows:?}");
        let circles = circles(arrows);
        assert!(circles.is_empty(), "{house}: these modules use each other: {circles:#?}");
    }
}

#[test]
fn circles_are_found_in_code_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "pub mod a;\nuse crate::b;\n");
    write(
        "a/mod.rs",
        "use crate::{b::{self, c::D}, d};\n// crate::e\n#[cfg(test)]\nmod tests {\n    use crate::e;\n}\n",
    );
    write("a/tests.rs", "use crate::e;\n");
    write("b.rs", "fn f() -> crate::d::X { crate::X }\n");
    write("d.rs", "");
    write("e.rs", "use crate::a;\n");
    let one_way = arrows(folder.path()).unwrap();
    let expected = [("a", vec!["b", "d"]), ("b", vec!["d"]), ("d", vec![]), ("e", vec!["a"])];
    let set = |(module, used): (&str, Vec<&str>)| (module.to_owned(), used.into_iter().map(str::to_owned).collect());
    assert_eq!(one_way, expected.into_iter().map(set).collect::<Arrows>());
    assert!(circles(one_way).is_empty());
    write("d.rs", "use crate::b;\n");
    let circles: Vec<String> = circles(arrows(folder.path()).unwrap()).into_keys().collect();
    assert_eq!(circles, ["b", "d"]);
}
