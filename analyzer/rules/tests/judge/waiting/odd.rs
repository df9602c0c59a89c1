//! Pages written by hand, in the shape of kube-state-metrics 2, with what real clusters have and the families have not.

use super::*;
use goodput_rules::classify::DemandState;

const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Unknown", "Running"];

/// A pod's phase.
fn phase(labels: &str, phase: &str) -> String {
    let line = |one: &str| format!("kube_pod_status_phase{{{labels},phase=\"{one}\"}} {}\n", u8::from(one == phase));
    PHASES.map(line).concat()
}

fn request(labels: &str, container: &str, node: &str, resource: &str, value: &str) -> String {
    let unit = match resource {
        "cpu" => "core",
        "memory" => "byte",
        _ => "integer",
    };
    format!(
        "kube_pod_container_resource_requests{{{labels},container=\"{container}\",node=\"{node}\",resource=\"{resource}\",unit=\"{unit}\"}} {value}\n"
    )
}

fn init(request: &str) -> String {
    request.replace("kube_pod_container_", "kube_pod_init_container_")
}

fn pod(name: &str) -> String {
    format!("namespace=\"ml\",pod=\"{name}\",uid=\"0f-{name}\"")
}

/// The free time of a node of eight GPUs, three of them free, where this is exposed in addition.
fn with(more: &str) -> BTreeMap<String, f64> {
    let nodes = [node("n1", 8, 3)];
    minutes(&judged(&nodes, &[Source::of(&|time| Some(kube(&nodes, &[], time) + more))]))
}

fn told(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs.iter().map(|(name, minutes)| ((*name).to_owned(), *minutes)).collect()
}

#[test]
fn the_containers_of_a_pod_ask_together() {
    let pod = pod("two");
    let two = phase(&pod, "Pending")
        + &request(&pod, "trainer", "", "nvidia_com_gpu", "1")
        + &request(&pod, "trainer", "", "cpu", "22.5")
        + &request(&pod, "eval", "", "nvidia_com_gpu", "1")
        + &request(&pod, "eval", "", "cpu", "22.5");
    assert_eq!(with(&two), told(&[("free", 60.0), ("free_unfit cpu for ml/two", 120.0)]), "45 of 44 cores");
    let less = two.replace("22.5", "22");
    assert_eq!(with(&less), told(&[("free", 60.0), ("free_while_waiting ml/two", 120.0)]));
}

#[test]
fn an_init_container_asks_before_the_others() {
    let pod = pod("init");
    let one = phase(&pod, "Pending")
        + &request(&pod, "main", "", "nvidia_com_gpu", "1")
        + &request(&pod, "main", "", "memory", "1000000000");
    let small = init(&request(&pod, "fetch", "", "memory", "1000000000"));
    assert_eq!(with(&(one.clone() + &small)), told(&[("free", 120.0), ("free_while_waiting ml/init", 60.0)]));
    let large = init(&request(&pod, "fetch", "", "memory", "508000000000"));
    assert_eq!(with(&(one + &large)), told(&[("free", 120.0), ("free_unfit memory for ml/init", 60.0)]));
}

#[test]
fn a_pod_that_has_its_node_waits_for_no_gpu_and_has_what_it_asks_for() {
    let bound = pod("pulls");
    let text = phase(&bound, "Pending")
        + &request(&bound, "main", "n1", "nvidia_com_gpu", "2")
        + &request(&bound, "main", "n1", "cpu", "4");
    assert_eq!(with(&text), told(&[("free", 180.0)]));
    let other = pod("waits");
    let text = text + &phase(&other, "Pending") + &request(&other, "main", "", "nvidia_com_gpu", "2");
    assert_eq!(with(&text), told(&[("free", 60.0), ("free_unfit gpu for ml/waits", 120.0)]), "one of three is left");
}

#[test]
fn a_pod_that_is_over_has_nothing_of_its_node() {
    for (name, expected) in [("Succeeded", "free_while_waiting ml/waits"), ("Running", "free_unfit cpu for ml/waits")] {
        let (done, waits) = (pod("done"), pod("waits"));
        let text = phase(&done, name)
            + &request(&done, "main", "n1", "cpu", "40")
            + &phase(&waits, "Pending")
            + &request(&waits, "main", "", "nvidia_com_gpu", "3")
            + &request(&waits, "main", "", "cpu", "8");
        assert_eq!(with(&text), told(&[(expected, 180.0)]), "{name}");
    }
}

#[test]
fn a_pod_that_is_deleted_waits_no_longer() {
    let nodes = [node("n1", 8, 3)];
    let waits = pod("gone");
    let text = phase(&waits, "Pending") + &request(&waits, "main", "", "nvidia_com_gpu", "3");
    let exposed = |time: TimeMs| {
        let gone = if time < 20 * MINUTE { text.as_str() } else { "" };
        Some(kube(&nodes, &[], time) + gone)
    };
    let expected = [("free_while_waiting ml/gone", 60.0), ("free", 120.0)];
    check(&judged(&nodes, &[Source::of(&exposed)]), &expected, "it is not bridged");
}

#[test]
fn what_the_scheduler_finds_no_node_for_does_not_fit() {
    let waits = pod("picky");
    let text = phase(&waits, "Pending")
        + &request(&waits, "main", "", "nvidia_com_gpu", "1")
        + &format!("kube_pod_status_unschedulable{{{waits}}} 1\n");
    assert_eq!(with(&text), told(&[("free", 120.0), ("free_unfit placement for ml/picky", 60.0)]));
}

#[test]
fn a_gang_of_which_one_pod_has_no_place_has_none() {
    let rank = |n: usize| {
        let pod = pod(&format!("llm-{n}"));
        format!("kube_pod_owner{{{pod},owner_kind=\"PyTorchJob\",owner_name=\"llm\",owner_is_controller=\"true\"}} 1\n")
            + &phase(&pod, "Pending")
            + &request(&pod, "main", "", "nvidia_com_gpu", "2")
    };
    let alone = told(&[("free", 60.0), ("free_while_waiting ml/PyTorchJob/llm", 120.0)]);
    assert_eq!(with(&rank(0)), alone);
    let both = told(&[
        ("free_unfit gang for ml/PyTorchJob/llm", 120.0),
        ("free_unfit whole_node for ml/PyTorchJob/llm", 60.0),
    ]);
    assert_eq!(with(&(rank(0) + &rank(1))), both);
}

#[test]
fn an_instance_that_is_waited_for_is_no_gpu() {
    let waits = pod("slice");
    let text = phase(&waits, "Pending") + &request(&waits, "main", "", "nvidia_com_mig_1g_10gb", "1");
    let nodes = [node("n1", 8, 3)];
    let judged = judged(&nodes, &[Source::of(&|time| Some(kube(&nodes, &[], time) + &text))]);
    assert_eq!(minutes(&judged), told(&[("free", 180.0)]));
    let demand: Vec<_> = judged.demand.iter().map(|d| (d.model.as_str(), d.state, d.gpus)).collect();
    assert_eq!(demand, [("1g.10gb", DemandState::Short, 1.0)]);
}

#[test]
fn a_pod_waits_in_its_own_cluster() {
    let of = |cluster| Node { cluster, ..node("n1", 8, 3) };
    let nodes = [of("east"), of("west")];
    let (one, other) = (&nodes[..1], &nodes[1..]);
    let pods = [Pod { name: "train", waits: 0..HOUR, gpus: 3, cores: 8 }];
    let east = |time| Some(kube(one, &pods, time));
    let west = |time| Some(kube(other, &[], time));
    let sources = [Source { cluster: "east", ..Source::of(&east) }, Source { cluster: "west", ..Source::of(&west) }];
    let judged = judged(&nodes, &sources);
    assert_eq!(minutes(&judged), told(&[("free", 180.0), ("free_while_waiting ml/train", 180.0)]));
    let waits = judged.intervals.iter().find(|i| cause(i).starts_with("free_while"));
    assert_eq!(waits.and_then(|i| i.cluster.as_deref()), Some("east"));
    assert!(judged.demand.iter().all(|demand| demand.cluster.as_deref() == Some("east")), "{:?}", judged.demand);
}

#[test]
fn nodes_that_kubernetes_does_not_know_are_not_its() {
    let nodes = [node("n1", 8, 3), node("slurm-7", 8, 2)];
    let listed = [nodes[0].clone()];
    let pods = [Pod { name: "train", waits: 0..HOUR, gpus: 3, cores: 8 }];
    let exposed = |time| Some(kube(&listed, &pods, time));
    let expected = told(&[("", 120.0), ("free_while_waiting ml/train", 180.0)]);
    assert_eq!(minutes(&judged(&nodes, &[Source::of(&exposed)])), expected);
    let jobs = |_| Some(slurm(1, 0, "slurm_partition_jobs_hold"));
    let sources = [Source::of(&exposed), Source { job: "slurmctld", ..Source::of(&jobs) }];
    let expected = told(&[("free_fit_unknown gpu", 120.0), ("free_while_waiting ml/train", 180.0)]);
    assert_eq!(minutes(&judged(&nodes, &sources)), expected);
}

/// Prometheus without `honor_labels` gives the labels of kube-state-metrics' own pod and node to its series, and renames theirs.
#[test]
fn labels_that_prometheus_renames_are_the_series_own() {
    let nodes = [node("n1", 8, 3), node("n2", 8, 8)];
    let pods = [Pod { name: "train", waits: 0..HOUR, gpus: 8, cores: 60 }];
    let exposed = |time| {
        let text = kube(&nodes, &pods, time);
        let rename = |line: &str| {
            let mut line = line.to_owned();
            for name in ["namespace", "pod", "container", "node"] {
                line = line.replace(&format!("{name}=\""), &format!("exported_{name}=\""));
            }
            let line = line.replace("exported_node=\"\",", "");
            line.replace('{', "{namespace=\"monitoring\",pod=\"ksm-0\",container=\"ksm\",node=\"n2\",") + "\n"
        };
        Some(text.lines().filter(|line| !line.starts_with('#')).map(rename).collect())
    };
    let expected = told(&[("free", 180.0), ("free_while_waiting ml/train", 480.0)]);
    assert_eq!(minutes(&judged(&nodes, &[Source::of(&exposed)])), expected);
}

#[test]
fn numbers_that_are_none_are_left_out() {
    let waits = pod("odd");
    for value in ["NaN", "-1", "+Inf", "1e300", "0"] {
        let value = if value == "+Inf" { "inf" } else { value };
        let text = phase(&waits, "Pending") + &request(&waits, "main", "", "nvidia_com_gpu", value);
        assert_eq!(with(&text), told(&[("free", 180.0)]), "{value}");
    }
    let nameless = "kube_pod_status_phase{phase=\"Pending\"} 1\nkube_node_status_allocatable{resource=\"cpu\"} 4\nkueue_pending_workloads{status=\"active\"} 3\n";
    assert_eq!(with(nameless), told(&[("free", 180.0)]));
}
