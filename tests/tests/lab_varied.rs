//! How often verdicts are right where the lab varies what it held still, by sets of exporters: the figures of
//! `docs/internals/accuracy.md`, which this records (`UPDATE_GOLDEN=1`) and holds the release to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result};
use goodput_analyzer::evaluate::{Confusion, Evaluation, Score, evaluate};
use goodput_lab::exporters::Exporters;
use goodput_lab::families::{FAMILIES, Family, plan};
use goodput_lab::record::{Plan, record};
use goodput_rules::classify::Thresholds;

/// Families that vary boards, jobs and what exporters tell.
const VARIED: &[&str] = &[
    "boards_alike",
    "boards_hang",
    "boards_mixed",
    "boards_uneven",
    "independent_steps",
    "interactive",
    "many_workers",
    "notebook",
    "overlapped_copies",
    "quiet_server",
    "shared_node",
    "stuck_signals",
    "sub_numa",
    "unlabelled_pods",
];

/// Of these the ones that showed what a rule was then made for; no rule and no threshold came of the others.
const USED: &[&str] = &["independent_steps", "sub_numa"];

/// Sets of exporters on each node, and what the page calls them.
const SETS: [(Exporters, &str); 3] = [
    (Exporters::Ours, "goodput-exporter"),
    (Exporters::DcgmAndNode, "dcgm-exporter and node_exporter"),
    (Exporters::Dcgm, "dcgm-exporter alone"),
];

/// The aim of confidence on families that are held out: the share of sure claims that is right, and the share of right
/// claims that is sure.
const SURE: [f64; 2] = [0.9, 0.4];

/// A class that another one has more than this share of is worth a word.
const NAMED: f64 = 0.02;

fn family(name: &str) -> Result<&'static Family> {
    FAMILIES.iter().find(|f| f.name == name).with_context(|| format!("no family {name}"))
}

/// The first members of the families, with these exporters.
fn made(dir: &Path, exporters: Exporters, names: &[&str], members: u64) -> Result<()> {
    for name in names {
        for member in 0..members {
            let plan = Plan { exporters, ..plan(family(name)?, member) };
            record(&plan, dir)?;
        }
    }
    Ok(())
}

fn evaluated(exporters: Exporters, names: &[&str]) -> Result<Evaluation> {
    let dir = tempfile::tempdir()?;
    made(dir.path(), exporters, names, 1)?;
    Ok(evaluate(&[dir.path().to_owned()], &Thresholds::default())?)
}

/// One evaluation per set of [`SETS`], at once.
fn all_sets() -> Result<Vec<Evaluation>> {
    thread::scope(|scope| {
        let started: Vec<_> = SETS.iter().map(|(set, _)| scope.spawn(|| evaluated(*set, VARIED))).collect();
        started.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Families, the ones that are wrong most often first.
fn by_family(sets: &[Evaluation]) -> Result<String> {
    let mut rows = Vec::new();
    for name in VARIED {
        let scores: Vec<&Score> = sets.iter().map(|set| &set.families[*name]).collect();
        let worst = scores.iter().map(|s| s.wrong_class_share).fold(0.0, f64::max);
        let which = match (family(name)?.is_held_out, USED.contains(name)) {
            (true, _) => "nothing, held out",
            (false, true) => "a rule",
            (false, false) => "nothing",
        };
        let cell = |s: &&Score| format!("{} / {}", percent(s.wrong_class_share), percent(s.unexplained_share));
        let cells = scores.iter().map(cell).collect::<Vec<_>>().join(" | ");
        rows.push((worst, format!("| `{name}` | {which} | {cells} |\n")));
    }
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let head = SETS.map(|(_, name)| name).join(" | ");
    let all: Vec<String> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(format!("| family | what came of it | {head} |\n|---|---|---:|---:|---:|\n{}", all.concat()))
}

/// What a class is mostly taken for, in order of size.
fn taken_for(confusion: &Confusion, class: &str) -> String {
    let Some(row) = confusion.get(class) else { return "-".to_owned() };
    let total: i64 = row.values().sum();
    let mut others: Vec<(&str, f64)> =
        row.iter().filter(|(told, _)| **told != class).map(|(told, ms)| (*told, *ms as f64 / total as f64)).collect();
    others.retain(|(_, share)| *share >= NAMED);
    others.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let right = row.get(class).map_or(0.0, |ms| *ms as f64 / total as f64);
    let named: Vec<String> =
        others.iter().take(3).map(|(told, share)| format!("`{told}` {}", percent(*share))).collect();
    format!("{}{}", percent(right), if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) })
}

/// Classes, and what each is told as.
fn by_class(sets: &[Evaluation]) -> String {
    let classes: BTreeSet<&str> = sets.iter().flat_map(|set| set.all.confusion.keys().copied()).collect();
    let mut text = format!("| class | {} |\n|---|---|---|---|\n", SETS.map(|(_, name)| name).join(" | "));
    for class in classes {
        let cells: Vec<String> = sets.iter().map(|set| taken_for(&set.all.confusion, class)).collect();
        let _ = writeln!(text, "| `{class}` | {} |", cells.join(" | "));
    }
    text
}

/// Sure claims: all families, and those held out.
fn by_confidence(sets: &[Evaluation]) -> Result<String> {
    let mut text = String::from(
        "| exporters | families | claimed at 0.9 and above | right | of all right claims |\n|---|---|---:|---:|---:|\n",
    );
    for (set, (_, name)) in sets.iter().zip(SETS) {
        for held_out in [false, true] {
            let Sure { claimed_ms, right_ms, all_right_ms } = Sure::of(set, held_out)?;
            let share = |whole: i64| if whole > 0 { percent(right_ms as f64 / whole as f64) } else { "-".to_owned() };
            let which = if held_out { "held out" } else { "the others" };
            let hours = claimed_ms as f64 / 3_600_000.0;
            let (right, of_all) = (share(claimed_ms), share(all_right_ms));
            let _ = writeln!(text, "| {name} | {which} | {hours:.2} GPU-hours | {right} | {of_all} |");
        }
    }
    Ok(text)
}

/// Claims with a confidence of at least 0.9.
#[derive(Default)]
struct Sure {
    claimed_ms: i64,
    right_ms: i64,
    all_right_ms: i64,
}

impl Sure {
    fn of(set: &Evaluation, held_out: bool) -> Result<Sure> {
        let mut sure = Sure::default();
        for (name, score) in &set.families {
            if family(name)?.is_held_out == held_out {
                let band = score.calibration.sure().context("no bands")?;
                sure.claimed_ms += band.claimed_ms;
                sure.right_ms += band.right_ms;
                sure.all_right_ms += score.calibration.right_ms;
            }
        }
        Ok(sure)
    }
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/accuracy.md")
}

/// The page with these tables between its markers.
fn with_tables(text: &str, tables: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = text.to_owned();
    for (name, table) in tables {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let from =
            text.find(&begin).with_context(|| format!("docs/internals/accuracy.md has no {begin}"))? + begin.len();
        let to = text.find(&end).with_context(|| format!("docs/internals/accuracy.md has no {end}"))?;
        text.replace_range(from..to, &format!("\n{table}\n"));
    }
    Ok(text)
}

#[test]
fn the_page_on_accuracy_has_what_is_measured_and_sure_claims_are_right() -> Result<()> {
    let sets = all_sets()?;
    for (set, (_, name)) in sets.iter().zip(SETS).filter(|(_, (exporters, _))| *exporters != Exporters::Dcgm) {
        let Sure { claimed_ms, right_ms, all_right_ms } = Sure::of(set, true)?;
        let shares = [claimed_ms, all_right_ms].map(|whole| right_ms as f64 / whole as f64);
        assert!(shares[0] >= SURE[0] && shares[1] >= SURE[1], "{name}: {shares:?} of sure claims");
    }
    let tables = BTreeMap::from([
        ("by family", by_family(&sets)?),
        ("by class", by_class(&sets)),
        ("by confidence", by_confidence(&sets)?),
    ]);
    let text = std::fs::read_to_string(page())?;
    let measured = with_tables(&text, &tables)?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page(), &measured)?;
    } else {
        for (name, table) in &tables {
            assert!(
                text.contains(table.as_str()),
                "{name} is now\n{table}\nUPDATE_GOLDEN=1 writes it to docs/internals/accuracy.md"
            );
        }
    }
    Ok(())
}
