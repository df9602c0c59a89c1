use std::collections::BTreeMap;

use goodput_catalog::Kind;
use goodput_exposition::{Format, Limits, parse};
use goodput_rules::signal::resolve;

use super::dcgm::is_usual;
use super::*;
use crate::families::{FAMILIES, plan};
use crate::model::Layout;
use crate::network::Network;
use crate::serving::{Engine, Server};

/// The series of one scrape a moment after such a phase began.
fn scraped(layout: Layout, phase: &Phase, exporters: Exporters, names: Names) -> Vec<Series> {
    let mut machine = Machine::of(layout);
    machine.enter(phase);
    (0..10).for_each(|_| machine.tick(phase));
    let mut recorder = Recorder::new("n1", exporters).speaking(names, &[]);
    recorder.scrape(60_000, &View::of(&machine, phase));
    recorder.into_series()
}

/// The families that exporters have in any phase of any plan, each with the labels of one series.
fn families() -> BTreeMap<String, Labels> {
    // What scenarios alone do.
    let (linked, quota) = (Some(1e9), Some(2.0));
    let network = Some(Network { paused: 0.1, ticks: Some(1e9), ..Network::default() });
    let phase = Phase { linked, quota, network, inactive: true, tells_processes: true, tenants: 3, ..Phase::default() };
    let mut phases = vec![(Layout::default(), phase)];
    for engine in [Engine::Vllm, Engine::Sglang] {
        let server = Some(Server { engine, clients: 4, ..Server::default() });
        phases.push((Layout::default(), Phase { server, ..Phase::default() }));
    }
    for plan in FAMILIES.iter().map(|family| plan(family, 0)) {
        let of_steps = plan.steps.into_iter().flat_map(|step| [Some(step.here), step.elsewhere]).flatten();
        phases.extend(of_steps.map(|phase| (plan.layout, phase)));
    }
    let mut families = BTreeMap::new();
    for (layout, phase) in &phases {
        for exporters in [Exporters::Ours, Exporters::Dcgm, Exporters::DcgmAndNode] {
            for series in [Names::Legacy, Names::Current].map(|names| scraped(*layout, phase, exporters, names)) {
                families.extend(series.into_iter().map(|series| (series.labels.metric().to_owned(), series.labels)));
            }
        }
    }
    families
}

/// The name of a sample of the row: a histogram's are named otherwise.
fn sample_name(row: &Metric) -> String {
    format!("{}{}", row.name, if row.kind == Kind::Histogram { "_sum" } else { "" })
}

/// `push` holds each label to its row.
#[test]
fn every_family_has_a_use() {
    let families = families();
    assert!(families.len() > 80, "{families:?}");
    for row in others::ROWS.iter().chain(servers::ROWS) {
        assert!(families.contains_key(&sample_name(row)), "no exporter has {}", row.name);
    }
    // Servers tell more than is read of them, as real ones do.
    let must_be_read = |name: &str| !["goodput_", "vllm:", "sglang:"].iter().any(|start| name.starts_with(start));
    let unused = families.iter().find(|(name, labels)| must_be_read(name) && resolve(labels).is_none());
    assert!(unused.is_none(), "the analyzer makes nothing of {unused:?}");
    for plan in FAMILIES.iter().flat_map(|family| (0..family.traces).map(|member| plan(family, member))) {
        for begins in plan.without.iter().chain(plan.spoilt.iter().flat_map(|spoilt| spoilt.metrics)) {
            assert!(families.keys().any(|name| name.starts_with(begins)), "no family begins with {begins}");
        }
    }
}

#[test]
#[should_panic(expected = "goodput_gpu_busy_seconds_total: [(\"card\", \"0\")]")]
fn a_label_that_the_row_lacks_is_found() {
    push(&mut Vec::new(), &goodput_catalog::gpu::BUSY, [("job", ""), ("instance", "")], &[("card", "0")], 1.0);
}

#[test]
fn rows_of_others_are_as_their_pages_have_them() {
    let pages = [
        ("node_exporter", include_str!("../../fixtures/node_exporter.prom")),
        ("kube-state-metrics", include_str!("../../fixtures/kube-state-metrics.prom")),
        ("vllm", include_str!("../../fixtures/vllm.prom")),
        ("sglang", include_str!("../../fixtures/sglang.prom")),
    ];
    let unrecorded = || servers::UNRECORDED.iter().chain(&others::UNRECORDED);
    let is_recorded = |row: &&&Metric| !unrecorded().any(|other| other.name == row.name);
    for row in others::ROWS.iter().chain(servers::ROWS).filter(is_recorded) {
        let (_, page) = pages.iter().find(|(program, _)| *program == row.collector).unwrap();
        for line in [format!("# HELP {} {}", row.name, row.help), format!("# TYPE {} {}", row.name, row.kind.name())] {
            assert!(page.lines().any(|recorded| recorded == line), "{} has no line {line}", row.collector);
        }
        let batch = parse(page, Format::Text, Limits::NONE, 0).unwrap();
        let recorded: Vec<_> = batch.series().filter(|series| series.labels.metric() == sample_name(row)).collect();
        assert!(!recorded.is_empty(), "{}", row.name);
        for series in recorded {
            let labels: Vec<&str> = series.labels.iter().map(|(name, _)| name).filter(|n| *n != "__name__").collect();
            assert_eq!(labels, row.labels, "{}", row.name);
        }
    }
}

#[test]
fn usual_fields_are_those_of_the_default_counters() {
    let list = include_str!("../../../../exporter/tests/fixtures/counters/default.csv");
    let listed: Vec<&str> = list.lines().filter_map(|line| Some(line.split_once(',')?.0.trim())).collect();
    let (machine, phase) = (Machine::new(1), Phase::default());
    for (row, _) in Recorder::new("n1", Exporters::Dcgm).readings(&View::of(&machine, &phase), 0) {
        assert_eq!(is_usual(row), listed.contains(&row.legacy.name), "{}", row.legacy.name);
    }
}
