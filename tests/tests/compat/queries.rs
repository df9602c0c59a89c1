//! A real Prometheus over the exporter: the dashboard 12239, and the relabelling that the documentation offers.

use std::time::Duration;

use goodput_lab::process::until;
use goodput_tests::prometheus::Prometheus;
use goodput_tests::promql::parse;
use serde_json::{Value, json};

use crate::pages::{self, indented};
use crate::recording::{Node, Recording};

const PATIENCE: Duration = Duration::from_secs(120);
const GPUS: usize = 8;
const JOB: &str = "dcgm";

/// What the panels of the dashboard 12239 ask, and how many series answer.
const PANELS: &[(&str, &str, usize)] = &[
    ("GPU Temperature", "DCGM_FI_DEV_GPU_TEMP{S}", GPUS),
    ("GPU Avg. Temp", "avg(DCGM_FI_DEV_GPU_TEMP{S})", 1),
    ("GPU Power Usage", "DCGM_FI_DEV_POWER_USAGE{S}", GPUS),
    ("GPU Power Total", "sum(DCGM_FI_DEV_POWER_USAGE{S})", 1),
    ("GPU SM Clocks", "DCGM_FI_DEV_SM_CLOCK{S} * 1000000", GPUS),
    ("GPU Utilization", "DCGM_FI_DEV_GPU_UTIL{S}", GPUS),
    ("GPU Framebuffer Mem Used", "DCGM_FI_DEV_FB_USED{S}", GPUS),
    ("Tensor Core Utilization", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{S}", GPUS),
];

/// A job of its own for each snippet of the page on labels: its heading, a query, and how many series answer.
const RELABELLED: &[(&str, &str, usize)] = &[
    ("Workload labels", "DCGM_FI_DEV_GPU_TEMP{pod=~\"vllm-.*\", namespace=\"dynamo-workload\", container=\"main\"}", 1),
    ("Workload labels", "DCGM_FI_DEV_GPU_TEMP{exported_pod!=\"\"}", 0),
    ("Both spellings of the host", "DCGM_FI_DEV_GPU_TEMP{Hostname=\"gpu-node-1\", hostname=\"gpu-node-1\"}", GPUS),
    ("The driver of 4.9", "DCGM_FI_DEV_GPU_TEMP{DCGM_FI_SYSTEM_DRIVER_VERSION=\"580.105.08\"}", GPUS),
    ("The driver of 4.9", "DCGM_FI_DEV_GPU_TEMP{DCGM_FI_DRIVER_VERSION!=\"\"}", 0),
    ("Names of 1.x", "DCGM_FI_DEV_GPU_TEMP{uuid=~\"GPU-.*\", UUID=\"\", pod=\"\"}", GPUS),
    ("Names of 1.x", "DCGM_FI_DEV_GPU_TEMP{pod_name=~\"vllm-.*\", pod_namespace=\"dynamo-workload\"}", 1),
    ("dcgm-exporter's families alone", "DCGM_FI_DEV_GPU_TEMP", GPUS),
    ("dcgm-exporter's families alone", "{__name__=~\"goodput_.*\"}", 0),
];

/// The job of a snippet: the heading above it, and the snippet's number below that.
fn job(heading: &str, number: usize) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("{}-{number}", heading.chars().map(word).collect::<String>())
}

/// One more job for every snippet; as a pod's, the target has labels of its own.
fn jobs(page: &str, address: &str) -> String {
    let mut jobs = String::new();
    for (heading, number, snippet) in pages::relabellings(page) {
        let own = if heading == "Workload labels" { "{pod: exporter, namespace: monitoring}" } else { "{}" };
        let target = format!("static_configs: [{{targets: ['{address}'], labels: {own}}}]");
        jobs += &format!("- job_name: {}\n  {target}\n{}", job(heading, number), indented(snippet));
    }
    jobs
}

#[test]
fn a_dashboard_and_every_relabelling_get_their_answers() {
    let node = Node::of(Recording::named("8xh100"));
    let _work: Vec<_> = (0..GPUS).map(|gpu| node.gpus.work_at(gpu, None, json!({"gpu": 50})).unwrap()).collect();
    let mut exporter = node.start(&[]);
    let address = exporter.0.address;
    let page = pages::read("docs/use/dcgm-exporter.md");
    let jobs = jobs(&page, &address.to_string());
    let prometheus = Prometheus::run(&node.folder(), &[(JOB, address)], &jobs).unwrap();

    let selector = format!("{{job=\"{JOB}\", instance=~\".*\", gpu=~\".*\"}}");
    for (panel, query, series) in PANELS {
        let query = query.replace("{S}", &selector);
        parse(&query).unwrap();
        answered(&prometheus, panel, &query, *series, &mut exporter);
    }
    // The workload is known: what was scraped before has no owner yet.
    answered(&prometheus, "owner", &format!("DCGM_FI_DEV_GPU_TEMP{{job=\"{JOB}\",pod!=\"\"}}"), 1, &mut exporter);
    let known: Vec<_> = pages::relabellings(&page).map(|(heading, ..)| heading).collect();
    assert!(known.iter().all(|heading| RELABELLED.iter().any(|row| row.0 == *heading)), "not asked for: {known:?}");
    for (heading, query, series) in RELABELLED {
        for number in 0..known.iter().filter(|known| *known == heading).count() {
            let selector = format!("{{job=\"{}\", ", job(heading, number));
            let query = match query.split_once('{') {
                Some((name, rest)) => format!("{name}{selector}{rest}"),
                None => format!("{query}{selector}}}"),
            };
            answered(&prometheus, heading, &query, *series, &mut exporter);
        }
    }
}

/// Waits until this many series answer.
fn answered(prometheus: &Prometheus, what: &str, query: &str, series: usize, exporter: &mut crate::recording::Running) {
    let mut last: Vec<Value> = Vec::new();
    let found = until(what, PATIENCE, || {
        last = prometheus.query(query)?;
        Ok((last.len() == series).then_some(()))
    });
    let log = || format!("{}\n{}", prometheus.log_text(), exporter.0.running.log_text());
    assert!(found.is_ok(), "{what}: {query} has {} answers, not {series}: {last:#?}\n{}", last.len(), log());
}
