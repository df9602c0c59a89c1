//! What six kinds of work cost in instructions, against `instructions.txt`. Times differ from machine to machine and from
//! hour to hour; counts do not, so that work that was added shows in a test.
//!
//! Each kind is a process of its own under callgrind: once it prepares, and once it works too. What counts is the difference.
//! A change that adds work raises its own row (`UPDATE_GOLDEN=1`), and its commit says why.

#![allow(clippy::unwrap_used, reason = "a test, in helpers too")]
#![allow(clippy::print_stderr, reason = "a skipped test says why, and counts are to be read")]

mod work;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use work::{KINDS, Step};

/// A row may grow by this share: hash maps are seeded by chance, and machines' string functions differ.
const MARGIN: f64 = 0.05;

/// The least of as many runs counts: what threads do while they wait for each other differs.
const RUNS: usize = 3;

/// Which kind of work the process is for, and how far it goes.
const KIND: &str = "GOODPUT_COST_KIND";
const STEP: &str = "GOODPUT_COST_STEP";
const FOLDER: &str = "GOODPUT_COST_FOLDER";

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cost/instructions.txt")
}

#[allow(clippy::disallowed_methods, reason = "the compiler says which it is, and valgrind counts")]
fn command(program: &str) -> Command {
    Command::new(program)
}

/// Another compiler makes other instructions of the same source.
fn compiler() -> String {
    let said = command("rustc").arg("--version").output().unwrap().stdout;
    String::from_utf8(said).unwrap().trim().to_owned()
}

/// Instructions of this process in which it does that; `None` where there is no valgrind.
fn counted(kind: &str, step: &str, folder: &Path) -> Option<u64> {
    let counts = folder.join(format!("{kind}.{step}"));
    let ran = command("valgrind")
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", counts.display())])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "no_work_costs_more_than_it_did", "--test-threads=1"])
        .envs([(KIND, kind), (STEP, step), ("RAYON_NUM_THREADS", "1"), ("TOKIO_WORKER_THREADS", "1")])
        .env(FOLDER, folder)
        .output();
    let output = match ran {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        ran => ran.unwrap(),
    };
    assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(counts).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    Some(total.unwrap().trim().parse().unwrap())
}

/// What a process does that is counted.
fn work_alone(kind: &str) {
    let var = |name| std::env::var(name).unwrap();
    let step = if var(STEP) == "work" { Step::Work } else { Step::Prepare };
    let (_, work) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
    work(Path::new(&var(FOLDER)), step);
}

/// The test is the process that is counted, too, where it is told which kind of work to do.
#[test]
fn no_work_costs_more_than_it_did() {
    if let Ok(kind) = std::env::var(KIND) {
        return work_alone(&kind);
    }
    if option_env!("CARGO_INCREMENTAL") != Some("0") {
        eprintln!("skipped: the table is of builds with CARGO_INCREMENTAL=0, which inline more than others");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    work::prepare(folder.path());
    let mut counts = BTreeMap::new();
    for (kind, _) in KINDS {
        let count = |step| (0..RUNS).map(|_| counted(kind, step, folder.path())).min().flatten();
        let (Some(prepared), Some(whole)) = (count("prepare"), count("work")) else {
            eprintln!("skipped: valgrind is missing, so no instruction is counted");
            return;
        };
        counts.insert(*kind, whole.saturating_sub(prepared));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut text = format!("# {}\n", compiler());
        counts.iter().for_each(|(kind, count)| writeln!(text, "{kind} {count}").unwrap());
        fs::write(table(), text).unwrap();
        return;
    }
    let text = fs::read_to_string(table()).unwrap();
    let (known, rows) = text.split_once('\n').unwrap();
    if known != format!("# {}", compiler()) {
        eprintln!("skipped: the table is of {known}, and this is {}", compiler());
        return;
    }
    let mut dearer = Vec::new();
    for row in rows.lines() {
        let (kind, known) = row.split_once(' ').unwrap();
        let (known, count): (f64, f64) = (known.parse().unwrap(), counts[kind] as f64);
        eprintln!("{kind}: {count} instructions, {:.3} of what the table says", count / known);
        if count > known * (1.0 + MARGIN) {
            dearer.push(format!("{kind}: {count} instructions after {known}"));
        }
    }
    assert_eq!(rows.lines().count(), counts.len(), "the table has every kind");
    assert!(dearer.is_empty(), "more than {MARGIN} dearer than instructions.txt says: {dearer:#?}");
}
