//! Which run and account verdicts name in addition to the owner, and which cluster in addition to the node.

use std::collections::BTreeSet;

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_rules::classify::{Thresholds, judge_series};

const MINUTE: i64 = 60_000;

fn always(labels: &[(&str, &str)], value: f64) -> Series {
    let samples = (0..40).map(|n| Sample { time_ms: n * MINUTE / 2, value }).collect();
    Series { labels: Labels::new(labels.iter().copied()), samples }
}

/// A GPU that this owner keeps busy.
fn busy<'a>(node: &'a str, owner: &[(&'a str, &'a str)]) -> Series {
    let own = [("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("UUID", node), ("Hostname", node), ("instance", node)];
    always(&own.into_iter().chain(owner.iter().copied()).collect::<Vec<_>>(), 100.0)
}

/// Owner, run and account of each GPU.
fn told(series: &[Series]) -> BTreeSet<[String; 4]> {
    let judged = judge_series(series, 0..10 * MINUTE, &Thresholds::default()).unwrap();
    let name = |name: Option<String>| name.unwrap_or_else(|| "-".to_owned());
    judged.intervals.into_iter().map(|i| [i.gpu, name(i.owner), name(i.run), name(i.account)]).collect()
}

#[test]
fn nodes_of_one_name_are_of_their_own_clusters() {
    let of = |cluster: &str, owner: &str| {
        let labels = busy("n1", &[("hpc_job", owner), ("cluster", cluster)]).labels;
        let labels: Vec<(String, String)> = labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let renamed = labels.iter().map(|(n, v)| (n.as_str(), if n == "UUID" { owner } else { v.as_str() }));
        always(&renamed.filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>(), 100.0)
    };
    let series = [of("east", "7"), of("west", "8"), of("", "9")];
    let judged = judge_series(&series, 0..10 * MINUTE, &Thresholds::default()).unwrap();
    let told: BTreeSet<_> = judged.intervals.into_iter().map(|i| (i.node, i.owner, i.cluster)).collect();
    let expected = [("job/7", Some("east")), ("job/8", Some("west")), ("job/9", None)];
    let row = |(owner, cluster): (&str, Option<&str>)| ("n1".into(), Some(owner.into()), cluster.map(str::to_owned));
    assert_eq!(told, expected.map(row).into());
}

#[test]
fn verdicts_name_run_and_account_of_their_owner() {
    let rank = |pod| {
        let made_by = [("owner_kind", "PyTorchJob"), ("owner_name", "llm"), ("owner_is_controller", "true")];
        let own = [("__name__", "kube_pod_owner"), ("namespace", "nlp"), ("pod", pod), ("uid", pod)];
        always(&own.into_iter().chain(made_by).collect::<Vec<_>>(), 1.0)
    };
    let job = [("__name__", "slurm_job_memory_usage"), ("slurmjobid", "7"), ("account", "physics"), ("instance", "c")];
    let series = [
        busy("a", &[("exported_pod", "llm-0"), ("exported_namespace", "nlp")]),
        busy("b", &[("exported_pod", "llm-1"), ("exported_namespace", "nlp")]),
        busy("c", &[("hpc_job", "7")]),
        busy("d", &[("owner", "jupyter.service")]),
        busy("e", &[]),
        rank("llm-0"),
        rank("llm-1"),
        always(&job, 5e10),
    ];
    let expected = [
        ["a", "nlp/llm-0", "nlp/PyTorchJob/llm", "nlp"],
        ["b", "nlp/llm-1", "nlp/PyTorchJob/llm", "nlp"],
        ["c", "job/7", "job/7", "physics"],
        ["d", "jupyter.service", "jupyter.service", "-"],
        ["e", "-", "-", "-"],
    ];
    assert_eq!(told(&series), expected.map(|row| row.map(str::to_owned)).into());
}
