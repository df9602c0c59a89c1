//! Who owns a GPU: the exporter over fake GPUs and a kubelet, as a gRPC server on a unix socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy spares tests, but not the helpers beside them")]
#![allow(clippy::print_stdout, reason = "measured figures, for whoever runs the tests with --nocapture")]

mod node;

use std::collections::BTreeSet;

use goodput_tests::kubelet::{self, Kubelet, container, dra_container, pod};
use goodput_tests::scrape::Scrape;
use node::Node;

const GPU: &str = "nvidia.com/gpu";

/// Labels of a device series that is `owner`'s.
fn labels(pod: &str, container: &str) -> [(String, String); 3] {
    [("container", container), ("namespace", "ml"), ("pod", pod)].map(|(n, v)| (n.to_owned(), v.to_owned()))
}

const TEMPERATURE: &str = "DCGM_FI_DEV_GPU_TEMP";
const OWNER: &str = "goodput_gpu_owner_info";
const PROCESSES: &str = "goodput_gpu_owner_processes";
const ALLOCATED: &str = "goodput_gpu_owner_allocated_devices";

/// How many own the GPU.
fn owners(scrape: &Scrape, gpu: usize) -> usize {
    scrape.count(OWNER, &[("gpu", &gpu.to_string())])
}

/// The labels of the GPU's only temperature, in order; none when it has none.
fn labels_of(scrape: &Scrape, gpu: usize) -> Vec<(String, String)> {
    let Some(line) = scrape.series(TEMPERATURE, &[("gpu", &gpu.to_string())]).first().copied() else {
        return Vec::new();
    };
    let inner = line.split_once('{').unwrap().1.rsplit_once('}').unwrap().0;
    let pair = |pair: &str| pair.split_once("=\"").map(|(n, v)| (n.to_owned(), v.trim_end_matches('"').to_owned()));
    inner.split("\",").filter_map(pair).collect()
}

#[test]
fn a_pod_with_two_containers_owns_a_gpu_each_before_and_while_it_works() {
    let node = Node::new(2);
    let [first, second] = [node.uuid(0), node.uuid(1)];
    let containers = vec![container("main", GPU, &[&first]), container("eval", GPU, &[&second])];
    let kubelet = Kubelet::start(&node.socket(), vec![pod("train-0", containers)]).unwrap();
    let mut exporter = node.start(&[]);
    let scrape = exporter.until("both containers own a GPU", |s| {
        labels_of(s, 0).ends_with(&labels("train-0", "main")) && labels_of(s, 1).ends_with(&labels("train-0", "eval"))
    });
    let idle = [("gpu", "0"), ("owner", "ml/train-0/main"), ("pod", "train-0"), ("container", "main")];
    assert_eq!(scrape.get(OWNER, &idle), Some(1.0));
    assert_eq!((scrape.get(PROCESSES, &idle), scrape.get(ALLOCATED, &idle)), (Some(0.0), Some(1.0)));
    assert_eq!(scrape.get("goodput_pod_resources_state", &[("state", "ok")]), Some(1.0));
    assert!(scrape.get("goodput_pod_resources_age_seconds", &[]).is_some());

    let owner = |container: &str| -> BTreeSet<String> {
        let series = scrape.0.lines().filter(|line| line.starts_with(OWNER) && line.contains(container));
        series.filter_map(|line| Some(line.split_once("owner=\"")?.1.split_once('"')?.0.to_owned())).collect()
    };
    assert_eq!(owner("eval"), BTreeSet::from(["ml/train-0/eval".to_owned()]));

    let id = node.container(4711, "0f4e9a57-5f1b-4c5e-8d0a-0c3c1f0f9a11", 1);
    node.gpus.process(0, 4711, 1 << 30).unwrap();
    let scrape = exporter.until("the container at work is the pod's", |s| {
        assert!(!s.0.contains("owner=\"container-"), "never by another id:\n{}", s.0);
        s.get(PROCESSES, &idle) == Some(1.0)
    });
    assert_eq!(scrape.get(ALLOCATED, &idle), Some(1.0));
    assert_eq!(owners(&scrape, 0), 1, "one owner, not two:\n{}", scrape.0);
    let known = [("owner", "ml/train-0/main"), ("pod", "train-0"), ("container_id", id.as_str())];
    assert_eq!(scrape.get("goodput_owner_info", &known), Some(1.0));

    node.gpus.exit(0, 4711).unwrap();
    kubelet.set(Vec::new());
    let scrape = exporter.until("the pod's end ends its series", |s| !s.0.contains("train-0"));
    assert!(labels_of(&scrape, 0).iter().all(|(name, _)| name != "pod"), "{}", scrape.0);
}

#[test]
fn a_shared_gpu_names_every_pod_and_belongs_to_none() {
    let node = Node::new(2);
    let [shared, own] = [node.uuid(0), node.uuid(1)];
    let replica = |n: usize| format!("{shared}::{n}");
    let pods = vec![
        pod("a", vec![container("main", "nvidia.com/gpu.shared", &[&replica(0)])]),
        pod("b", vec![container("main", "nvidia.com/gpu.shared", &[&replica(1), &replica(2)])]),
        pod("c", vec![container("main", GPU, &[&own])]),
        pod("web", vec![container("main", "example.com/fpga", &[&own])]),
    ];
    let _kubelet = Kubelet::start(&node.socket(), pods).unwrap();
    // Two containers at work on it; the links to their logs tell them apart.
    let names = [("a", 5001), ("b", 5002)].map(|(name, pid)| {
        let id = node.container(pid, "7a96c459-d529-44ae-9f99-90d3798d6426", pid);
        node.write(&format!("var/log/containers/{name}_ml_main-{id}.log"), "");
        node.gpus.process(0, pid, 1 << 20).unwrap();
        (name, format!("ml/{name}"))
    });
    let mut exporter = node.start(&[]);
    let works = |s: &Scrape, pod: &str| s.get(PROCESSES, &[("gpu", "0"), ("pod", pod)]) == Some(1.0);
    let scrape = exporter.until("all owners", |s| {
        works(s, "a") && works(s, "b") && owners(s, 0) == 2 && labels_of(s, 1).ends_with(&labels("c", "main"))
    });
    for (name, owner) in &names {
        let labels = [("gpu", "0"), ("pod", *name), ("owner", owner.as_str())];
        assert_eq!(scrape.get(PROCESSES, &labels), Some(1.0), "{}", scrape.0);
        assert_eq!(scrape.get(ALLOCATED, &labels), Some(if *name == "a" { 1.0 } else { 2.0 }));
    }
    assert_eq!(scrape.get("goodput_gpu_owners", &[("gpu", "0")]), Some(2.0));
    assert!(labels_of(&scrape, 0).iter().all(|(name, _)| name != "pod"), "{}", scrape.0);
}

#[test]
fn instances_and_claims_are_found_by_every_name() {
    let node = Node::new(3);
    let old = format!("MIG-{}/7/0", node.uuid(0));
    let pods = vec![
        pod("old", vec![container("main", "nvidia.com/mig-1g.10gb", &[&old])]),
        pod("gke", vec![container("main", GPU, &["nvidia0/gi9"])]),
        pod("lost", vec![container("main", "nvidia.com/mig-1g.10gb", &["MIG-00000000-0000-0000-0000-000000000000"])]),
        pod("dra", vec![dra_container("main", "gpu-1")]),
        pod("dra-mig", vec![dra_container("main", "gpu-2-mig-19-0-1")]),
    ];
    let _kubelet = Kubelet::start(&node.socket(), pods).unwrap();
    let mut exporter = node.start(&[]);
    // Who owns a GPU may be known before the GPU has been read.
    let read = |s: &Scrape| labels_of(s, 1).ends_with(&labels("dra", "main")) && !labels_of(s, 2).is_empty();
    let scrape = exporter.until("the claims", |s| owners(s, 1) == 1 && owners(s, 2) == 1 && read(s));
    for (gpu, pod, instance) in [("0", "old", "7"), ("0", "gke", "9")] {
        let labels = [("gpu", gpu), ("pod", pod), ("GPU_I_ID", instance)];
        assert_eq!(scrape.get(OWNER, &labels), Some(1.0), "{}", scrape.0);
    }
    for gpu in [0, 2] {
        assert!(labels_of(&scrape, gpu).iter().all(|(name, _)| name != "pod"), "a part is not the whole");
    }
    assert_eq!(scrape.get("goodput_gpu_allocated_devices_unmapped", &[]), Some(1.0));
}

#[test]
fn two_hundred_pods_fit_and_more_than_the_limit_is_an_error() {
    let node = Node::new(8);
    let device = |n: usize| format!("{}::{}", node.uuid(n % 8), n / 8);
    let pods = |count| (0..count).map(|n| pod(&format!("p{n}"), vec![container("main", GPU, &[&device(n)])])).collect();
    let kubelet = Kubelet::start(&node.socket(), pods(200)).unwrap();
    let mut exporter = node.start(&[]);
    let scrape = exporter.until("25 owners each", |s| (0..8).all(|gpu| owners(s, gpu) == 25));
    println!("{} bytes resident", scrape.get("process_resident_memory_bytes", &[]).unwrap());
    // Two kilobytes each: few, so that the last good answer is not too old when it has come.
    let long = |n: usize| pod(&format!("{n:02000}"), vec![container("main", GPU, &[&device(n)])]);
    kubelet.set((0..3000).map(long).collect());
    let state = |state: &'static str| [("state", state)];
    let large = exporter
        .until("the answer is too large", |s| s.get("goodput_pod_resources_state", &state("too_large")) == Some(1.0));
    assert_eq!(owners(&large, 0), 25, "the last good answer is used on");
    kubelet.set(pods(8));
    exporter.until("it heals", |s| owners(s, 0) == 1);
    let log = exporter.log();
    assert!(log.contains("longer than 4 MiB"), "{log}");
}

#[test]
fn a_kubelet_that_hangs_or_restarts_costs_no_more_than_names() {
    let node = Node::new(1);
    let state = |state: &'static str| [("state", state)];
    let is = |s: &Scrape, name: &'static str| s.get("goodput_pod_resources_state", &state(name)) == Some(1.0);
    let mut exporter = node.start(&[]);
    exporter.until("no socket", |s| is(s, "absent") && !labels_of(s, 0).is_empty());

    let hanging = kubelet::listen(&node.socket()).unwrap();
    let scrape = exporter.until("the hang is seen", |s| is(s, "timed_out"));
    assert!(!labels_of(&scrape, 0).is_empty(), "the GPU is read on");
    drop(hanging);
    exporter.until("nobody listens", |s| is(s, "failed"));

    let own = || vec![pod("train-0", vec![container("main", GPU, &[&node.uuid(0)])])];
    let kubelet = Kubelet::start(&node.socket(), own()).unwrap();
    let owned = |s: &Scrape| labels_of(s, 0).ends_with(&labels("train-0", "main"));
    exporter.until("it answers", |s| is(s, "ok") && owned(s));
    drop(kubelet);
    let scrape = exporter.until("it is gone", |s| is(s, "failed"));
    assert!(owned(&scrape), "the last good answer is used on:\n{}", scrape.0);
    let _kubelet = Kubelet::start(&node.socket(), own()).unwrap();
    exporter.until("it is back", |s| is(s, "ok") && owned(s));
}

#[test]
fn jobs_of_the_mapping_folder_own_gpus() {
    let node = Node::new(2);
    for (file, jobs) in [("jobs/0", "4711\n"), ("jobs/1", "4712\n4713\n"), ("jobs/9", "1\n"), ("jobs/readme", "x\n")] {
        node.write(file, jobs);
    }
    node.write("proc/77/cgroup", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
    node.gpus.process(0, 77, 1 << 20).unwrap();
    let folder = node.path("jobs");
    let mut exporter = node.start(&[&format!("--slurm.job-mapping-dir={}", folder.display())]);
    let job = |id: &'static str| [("slurm_job", id)];
    let works = |s: &Scrape| s.get(PROCESSES, &job("4711")) == Some(1.0);
    let whose = |s: &Scrape| labels_of(s, 0).ends_with(&[("hpc_job".into(), "4711".into())]);
    let scrape = exporter.until("the job works", |s| works(s) && whose(s) && owners(s, 1) == 2);
    assert_eq!(scrape.get(ALLOCATED, &job("4711")), Some(1.0));
    assert_eq!((owners(&scrape, 0), owners(&scrape, 1)), (1, 2));
    assert!(labels_of(&scrape, 1).iter().all(|(name, _)| name != "hpc_job"), "{}", scrape.0);
    assert_eq!(scrape.get("goodput_gpu_allocated_devices_unmapped", &[]), Some(1.0));

    std::fs::remove_dir_all(folder).unwrap();
    let failed = [("collector", "owner"), ("state", "failed")];
    exporter.until("the folder is gone", |s| s.get("goodput_exporter_collector_state", &failed) == Some(1.0));
}
