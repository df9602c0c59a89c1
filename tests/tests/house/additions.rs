//! What an addition costs: each one of `tests/additions` is made in a copy of the tree, and must compile there.
//!
//! Such a file holds what an engineer writes by hand. `>>>> new PATH` begins a new file; `>>>> rows PATH` begins an
//! existing line and the lines to put after it; `>>>> name PATH` is the same with one line, which only names what is
//! elsewhere (`mod`, an entry of a list).

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;

/// Each addition, how many files it takes beyond lines that name, and how many of those lines.
const COSTS: [(&str, usize, usize); 8] = [
    // Its rows, its code and its fixture.
    ("collector", 3, 4),
    // Its code, the row of its class, three scenarios and its section in the docs.
    ("rule", 6, 3),
    ("check", 1, 1),
    // The field, what sets it, its row, and its migration in two dialects.
    ("column", 5, 0),
    ("setting", 1, 0),
    ("flag", 1, 0),
    // Its code and its template.
    ("page", 2, 2),
    ("route", 1, 0),
];

/// What the crates are built from, besides the files at the root.
const COPIED: [&str; 9] =
    ["analyzer", "docs", "exporter", "migrations", "tests", "dashboards", "deploy", "alerts", "fuzz"];

/// A part of an addition.
struct Part {
    kind: String,
    path: String,
    text: String,
}

fn parts(addition: &str) -> Vec<Part> {
    let text = super::read(&format!("tests/additions/{addition}.txt"));
    let parts = text.split(">>>> ").skip(1).map(|part| {
        let (head, text) = part.split_once('\n').unwrap();
        let (kind, path) = head.split_once(' ').unwrap();
        Part { kind: kind.to_owned(), path: path.to_owned(), text: text.to_owned() }
    });
    parts.collect()
}

/// Puts a part into the tree.
fn apply(tree: &Path, Part { kind, path, text }: &Part) {
    let file = tree.join(path);
    if kind == "new" {
        assert!(!file.try_exists().unwrap(), "{path} is there already");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        return fs::write(file, text).unwrap();
    }
    let (anchor, lines) = text.split_once('\n').unwrap();
    assert!(kind == "rows" || kind == "name" && lines.lines().count() == 1, "{path}: {kind} with {lines:?}");
    let before = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let place = before.find(&format!("\n{anchor}\n")).unwrap_or_else(|| panic!("{path} has no line {anchor:?}"));
    let (head, tail) = before.split_at(place + anchor.len() + 2);
    // The file may be a link to the one in the real tree.
    fs::remove_file(&file).unwrap();
    fs::write(file, format!("{head}{lines}{tail}")).unwrap();
}

/// Links all files of a folder into another that is not there yet or empty; those of some names are copied.
fn copy(from: &Path, to: &Path, is_copied: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && name != "node_modules" {
                copy(&path, &to.join(name), is_copied);
            }
        } else {
            let own = to.join(&name);
            let made =
                if is_copied(&name.to_string_lossy()) { duplicate(&path, &own) } else { fs::hard_link(&path, own) };
            match made {
                // What cargo has removed meanwhile is not needed.
                Err(error) if error.kind() != ErrorKind::NotFound => panic!("{}: {error}", path.display()),
                _ => {}
            }
        }
    }
}

/// A folder that is there, and empty.
fn empty(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("additions").join(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{}: {error}", folder.display()),
        _ => fs::create_dir_all(&folder).unwrap(),
    }
    folder
}

/// A folder for cargo in which the dependencies have been compiled. Cargo locks its folder, and other tests would wait.
fn compiled() -> PathBuf {
    let (own, debug) = (empty("target"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("../debug"));
    // Cargo writes into the files of these folders, but makes new files of libraries and programs.
    for folder in ["build", ".fingerprint"] {
        copy(&debug.join(folder), &own.join("debug").join(folder), &|_| true);
    }
    copy(&debug.join("deps"), &own.join("debug/deps"), &|name| name.ends_with(".d"));
    own
}

/// A file of its own with the same content and time: cargo compares times.
fn duplicate(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

/// A copy of the tree with these additions.
fn tree(additions: &[&str]) -> PathBuf {
    let tree = empty("tree");
    let files = fs::read_dir(root()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file());
    for entry in files.filter(|entry| entry.file_name() != ".git") {
        fs::hard_link(entry.path(), tree.join(entry.file_name())).unwrap();
    }
    COPIED.iter().for_each(|folder| copy(&root().join(folder), &tree.join(folder), &|_| false));
    additions.iter().flat_map(|addition| parts(addition)).for_each(|part| apply(&tree, &part));
    tree
}

#[test]
fn an_addition_costs_what_is_promised() {
    for (addition, files, names) in COSTS {
        let parts = parts(addition);
        let naming = parts.iter().filter(|part| part.kind == "name").count();
        let written: BTreeSet<_> = parts.iter().filter(|p| p.kind != "name").map(|part| &part.path).collect();
        assert!((written.len(), naming) == (files, names), "{addition}: {written:?}, and {naming} lines that name");
    }
    let listed = fs::read_dir(root().join("tests/additions")).unwrap().count();
    assert_eq!(listed, COSTS.len(), "files in tests/additions");
}

/// All of them at once: that they compile means that nothing else has to be touched. With `GOODPUT_ADDITIONS=all` the
/// tests of all crates have to compile, too. It copies cargo's folder, into which no other cargo may write meanwhile.
#[test]
#[ignore = "alone: make test-long PART=additions"]
#[allow(clippy::disallowed_methods, reason = "only cargo compiles")]
fn additions_compile() {
    let tree = tree(&COSTS.map(|(addition, ..)| addition));
    let what = std::env::var_os("GOODPUT_ADDITIONS").map_or("--lib", |_| "--all-targets");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["check", "--workspace", "--locked", "--offline", what]).current_dir(tree);
    // As in `goodput_lab::artifact`: with these, what has been compiled is compiled again.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    let compiled = compiled();
    let output = cargo.env("CARGO_TARGET_DIR", &compiled).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What was compiled here is of use once.
    fs::remove_dir_all(compiled).unwrap();
}
