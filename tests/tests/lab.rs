//! The lab's traces under the analyzer: a part of them is made, evaluated, and held to a floor.

use std::path::Path;

use anyhow::{Context as _, Result};
use goodput_analyzer::evaluate::{Evaluation, OURS, Score, ablate, ablation_table, evaluate, find_all};
use goodput_catalog::host::CGROUP_CPU_THROTTLED_PERIODS;
use goodput_lab::exporters::others::UNSCHEDULABLE;
use goodput_lab::families::{FAMILIES, plan};
use goodput_lab::record::record;
use goodput_rules::classify::Thresholds;
use goodput_rules::signal::{Signal, origins};
use goodput_verdict::Class;

/// Families whose causes there are rules for, and the least F1 that their class must have here: what was measured less
/// a few hundredths. Each of them breaks with its rule.
const FLOORS: &[(&str, f64)] = &[
    ("checkpoint", 0.9),
    ("clock_locked", 0.9),
    ("cold_start", 0.85),
    ("collective_wait", 0.75),
    ("cpu_throttled", 0.9),
    ("cross_numa", 0.9),
    ("dataloader_cpu", 0.9),
    ("dataloader_storage", 0.9),
    ("down", 0.9),
    ("gang_wait", 0.8),
    ("host_noise", 0.9),
    ("host_to_device", 0.9),
    ("idle_held", 0.9),
    ("irq_placement", 0.9),
    ("keep_alive", 0.9),
    ("launch_bound", 0.85),
    ("maintenance", 0.85),
    ("memory_pressure", 0.9),
    ("no_demand", 0.9),
    ("partial_allocation", 0.9),
    ("pcie_degraded", 0.85),
    ("power_throttle", 0.9),
    ("straggler", 0.85),
    ("stranded_mig", 0.9),
    ("thermal_throttle", 0.9),
    ("thp_compaction", 0.9),
];

/// Families in which less is told, ranks are on several nodes, or the job is an inference server: a class of each, and the least F1 that it must have there.
const FLOORS_BY_FAMILY: &[(&str, &str, f64)] = &[
    ("coarse_loaders", "dataloader_cpu", 0.9),
    ("neighbours", "dataloader_storage", 0.95),
    ("plain_loaders", "dataloader_cpu", 0.9),
    ("ranks_apart", "collective_wait", 0.75),
    ("serving_front_end", "serving_host", 0.85),
    ("serving_kv_full", "recompute", 0.95),
    ("serving_load", "no_demand", 0.95),
];

fn made(dir: &Path, family: &str, members: u64) -> Result<()> {
    let family = FAMILIES.iter().find(|f| f.name == family).with_context(|| format!("no family {family}"))?;
    (0..members).try_for_each(|member| record(&plan(family, member), dir))
}

fn evaluated(families: &[&str]) -> Result<Evaluation> {
    let dir = tempfile::tempdir()?;
    for family in families {
        made(dir.path(), family, 1)?;
    }
    Ok(evaluate(&[dir.path().to_owned()], &Thresholds::default())?)
}

#[test]
fn every_rule_tells_its_class_from_the_others() -> Result<()> {
    let families: Vec<&str> = FLOORS.iter().map(|(family, _)| *family).collect();
    let evaluation = evaluated(&families)?;
    for (class, floor) in FLOORS {
        let f1 = evaluation.all.classes[class].f1;
        assert!(f1 >= *floor, "{class}: F1 is {f1:.3}, below {floor}: {:?}", evaluation.all.confusion[class]);
    }
    let Evaluation { all, baseline, culprits, .. } = evaluation;
    let right_culprits = culprits.right_ms as f64 / culprits.told_ms as f64;
    assert!(right_culprits >= 0.95, "{culprits:?}: the wrong GPU is named");
    assert!(all.wrong_class_share <= 0.05, "{:.3} of all time has a wrong class", all.wrong_class_share);
    assert!(baseline.macro_f1 < all.macro_f1, "utilisation alone tells as much: {:.3}", baseline.macro_f1);
    let sum: i64 = all.confusion.values().flat_map(|row| row.values()).sum();
    assert_eq!(sum, all.total_ms, "every GPU-millisecond of the truth is in the matrix once");
    Ok(())
}

#[test]
fn classes_are_told_where_less_is_known() -> Result<()> {
    let families: Vec<&str> = FLOORS_BY_FAMILY.iter().map(|(family, ..)| *family).collect();
    let evaluation = evaluated(&families)?;
    for (family, class, floor) in FLOORS_BY_FAMILY {
        let score = &evaluation.families[*family];
        let f1 = score.classes[*class].f1;
        assert!(f1 >= *floor, "{family}: F1 of {class} is {f1:.3}, below {floor}: {:?}", score.confusion[*class]);
    }
    Ok(())
}

#[test]
fn crashes_are_told_from_ends_that_were_meant() -> Result<()> {
    let crashes = evaluated(&["lost_work_node", "lost_work_xid", "oom_leak"])?.all;
    let f1 = crashes.classes["lost_work"].f1;
    assert!(f1 >= 0.95, "F1 is {f1:.3}: {:?}", crashes.confusion["lost_work"]);
    let ends = evaluated(&["ends_well"])?.all;
    let told = ends.confusion.values().filter_map(|verdicts| verdicts.get("lost_work")).sum::<i64>();
    assert_eq!(told, 0, "{:?}", ends.confusion);
    Ok(())
}

#[test]
fn memory_that_runs_out_is_warned_of_and_full_memory_is_not() -> Result<()> {
    let forecasts = evaluated(&["oom_leak", "oom_never"])?.forecasts;
    assert_eq!((forecasts.ooms, forecasts.lead_seconds.len(), forecasts.false_alarms), (1, 1, 0), "{forecasts:?}");
    assert!(forecasts.median_lead_seconds.is_some_and(|lead| lead >= 900.0), "{forecasts:?}");
    Ok(())
}

#[test]
fn a_disk_that_fills_is_warned_of_and_checkpoints_that_are_removed_are_not() -> Result<()> {
    let forecasts = evaluated(&["disk_fills", "disk_saves"])?.forecasts;
    assert_eq!((forecasts.ooms, forecasts.lead_seconds.len(), forecasts.false_alarms), (1, 1, 0), "{forecasts:?}");
    assert!(forecasts.median_lead_seconds.is_some_and(|lead| lead >= 1800.0), "{forecasts:?}");
    Ok(())
}

#[test]
fn damaged_gpus_are_told_and_programs_faults_are_none() -> Result<()> {
    let forecasts = evaluated(&["lost_work_xid", "down", "ends_well", "near_miss"])?.forecasts;
    let told = forecasts.damage_seconds.len();
    assert_eq!((forecasts.damages, told, forecasts.false_damages), (3, 3, 0), "{forecasts:?}");
    assert!(forecasts.damage_seconds.last().is_some_and(|last| *last <= 330.0), "{forecasts:?}");
    Ok(())
}

#[test]
fn the_same_plan_makes_the_same_trace() -> Result<()> {
    let read = |dir: &Path, file| std::fs::read(dir.join("partial_allocation/00").join(file));
    let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
    made(one.path(), "partial_allocation", 1)?;
    made(other.path(), "partial_allocation", 1)?;
    for file in ["metrics.om", "truth.csv", "about.md"] {
        assert!(read(one.path(), file)? == read(other.path(), file)?, "{file} differs");
    }
    Ok(())
}

/// Each node's part of the job as a pod of its own, as Kubernetes has it, that kube-state-metrics may tell the maker of.
fn as_pods(metrics: &str, is_told: bool) -> String {
    let mut pods = String::new();
    for line in metrics.lines().filter(|line| *line != "# EOF") {
        let node = ["n1", "n2"].into_iter().find(|node| line.contains(&format!("instance=\"{node}:")));
        let pod = |node: &str| format!("train-{node}");
        let own = node.map_or_else(String::new, pod);
        let line = line.replace("owner=\"train\"", &format!("owner=\"ml/{own}\""));
        pods += &(line.replace("pod=\"train-0\"", &format!("pod=\"{own}\"")) + "\n");
        let time = line.rsplit(' ').next().filter(|_| is_told && line.starts_with(UNSCHEDULABLE.name));
        for (time, node) in time.into_iter().flat_map(|time| ["n1", "n2"].map(|node| (time, node))) {
            let maker = "owner_is_controller=\"true\",owner_kind=\"PyTorchJob\",owner_name=\"llm\"";
            pods += &format!(
                "kube_pod_owner{{instance=\"ksm:8080\",namespace=\"ml\",pod=\"{}\",{maker}}} 1 {time}\n",
                pod(node)
            );
        }
    }
    pods + "# EOF\n"
}

#[test]
fn pods_of_one_job_are_one_run() -> Result<()> {
    for family in ["straggler", "ranks_apart", "gang_wait", "plain_starts", "lost_work_node"] {
        let dir = tempfile::tempdir()?;
        made(dir.path(), family, 1)?;
        let trace = find_all(&[dir.path().to_owned()])?.remove(0);
        let judged = || Ok::<_, anyhow::Error>(evaluate(&[dir.path().to_owned()], &Thresholds::default())?.all);
        let one_name = judged()?;
        let metrics = std::fs::read_to_string(trace.join("metrics.om"))?;
        std::fs::write(trace.join("metrics.om"), as_pods(&metrics, true))?;
        assert_eq!(judged()?.confusion, one_name.confusion, "{family}");
        std::fs::write(trace.join("metrics.om"), as_pods(&metrics, false))?;
        let apart = judged()?;
        let wrong = (apart.wrong_class_share, one_name.wrong_class_share);
        assert!(wrong.0 > wrong.1, "{family}: whose pods they are tells nothing: {wrong:?} of the time is wrong");
    }
    Ok(())
}

#[test]
fn families_are_what_the_readme_says() -> Result<()> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/README.md"))?;
    for family in FAMILIES {
        let set = if family.is_held_out { "held out" } else { "tuned" };
        let row = format!("| `{}` | {set} | {} |", family.name, family.traces);
        assert!(text.lines().any(|line| line.starts_with(&row)), "tests/lab/README.md has no line {row}");
    }
    let leaves = FAMILIES.iter().filter(|f| Class::named(f.name).is_some()).count();
    assert!(leaves >= FLOORS.len(), "families are named after their classes");
    Ok(())
}

#[test]
fn a_class_is_told_worse_without_its_signal() -> Result<()> {
    let dir = tempfile::tempdir()?;
    made(dir.path(), "cpu_throttled", 1)?;
    let ablation = ablate(&find_all(&[dir.path().to_owned()])?, &Thresholds::default(), || ())?;
    let f1 = |score: &Score| score.classes["cpu_throttled"].f1;
    let without = |signal: &str| ablation.without.iter().find(|row| row.signal == signal);
    let throttled = without("job_cpu_throttled_periods").with_context(|| ablation_table(&ablation))?;
    assert!(throttled.metrics.contains(CGROUP_CPU_THROTTLED_PERIODS.name), "{:?}", throttled.metrics);
    assert!(f1(&throttled.score) < f1(&ablation.all) - 0.5, "{}", ablation_table(&ablation));
    let ours = without(OURS).with_context(|| ablation_table(&ablation))?;
    assert!(ours.score.macro_f1 < ablation.all.macro_f1, "{}", ablation_table(&ablation));
    let sums = ablation.without.iter().all(|row| row.score.total_ms == ablation.all.total_ms);
    assert!(sums, "whatever is left out, every GPU-millisecond of the truth is judged");
    Ok(())
}

#[test]
fn the_page_on_evidence_speaks_of_signals_metrics_and_classes_that_exist() -> Result<()> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/evidence.md"))?;
    let (of_signals, of_classes) =
        page.split_once("\n## With dcgm-exporter").context("no section on the two exporters")?;
    let mut signals = 0;
    for [signal, metrics] in rows(of_signals) {
        let signal = signal.trim_matches('`');
        assert!(Signal::ALL.iter().any(|known| known.name() == signal), "no signal {signal}");
        for metric in metrics.split(", ").map(|metric| metric.trim_matches('`')) {
            assert!(origins(signal).iter().any(|origin| origin.metric == metric), "{metric} does not give {signal}");
        }
        signals += 1;
    }
    assert!(signals > 20, "{signals} signals");
    let mut classes = 0;
    for name in rows(of_classes).flatten().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        assert!(Class::named(name).is_some(), "no class {name}");
        classes += 1;
    }
    assert!(classes > 10, "{classes} classes");
    Ok(())
}

/// The first two cells of the table rows that begin with a name.
fn rows(text: &str) -> impl Iterator<Item = [&str; 2]> {
    text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        Some([cells.next()?, cells.next()?])
    })
}
