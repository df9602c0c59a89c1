//! Two GPUs of one owner, on NUMA nodes 0 and 1: which placements of their processes and memory are charged, which are
//! only advised against, and which are ignored.

use goodput_exposition::sample::{Labels, Sample, Series};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Class;

const MINUTE: i64 = 60_000;
const MIDDLE: i64 = 90_000;
const GPUS: [&str; 2] = ["GPU-0", "GPU-1"];

/// How busy the GPUs are, and what is known of NUMA: allowed CPUs per GPU and node, bytes of memory per node.
#[derive(Default)]
struct Case {
    busy: [f64; 2],
    numa_nodes: [&'static str; 2],
    cpus: [Option<[f64; 2]>; 2],
    job_cpus: Option<[f64; 2]>,
    memory: Option<[f64; 2]>,
    /// From the middle of the judged minute on, what `GPU-1`'s processes may run on instead.
    moved: Option<[f64; 2]>,
}

impl Case {
    fn series(&self) -> Vec<Series> {
        let mut all = Vec::new();
        let mut add = |name: &str, labels: &[(&str, &str)], value: &dyn Fn(i64) -> f64| {
            let labels = [("__name__", name), ("instance", "n1")].into_iter().chain(labels.iter().copied());
            let samples = (0..20).map(|i| i * 30_000).map(|time_ms| Sample { time_ms, value: value(time_ms) });
            all.push(Series { labels: Labels::new(labels), samples: samples.collect() });
        };
        let seconds = |t: i64| t as f64 / 1000.0;
        for (i, gpu) in GPUS.into_iter().enumerate() {
            add("goodput_gpu_busy_seconds_total", &[("UUID", gpu)], &|t| self.busy[i] * seconds(t));
            add("goodput_gpu_observed_seconds_total", &[("UUID", gpu)], &seconds);
            add("goodput_gpu_owner_info", &[("UUID", gpu), ("owner", "train")], &|_| 1.0);
            add("goodput_gpu_numa_info", &[("UUID", gpu), ("node", self.numa_nodes[i])], &|_| 1.0);
            let later = self.moved.filter(|_| i == 1).or(self.cpus[i]);
            for (node, (cpus, later)) in ["0", "1"].into_iter().zip(pairs(self.cpus[i], later)) {
                let value = |t| if t < MIDDLE { cpus } else { later };
                add("goodput_gpu_numa_allowed_cpus", &[("UUID", gpu), ("node", node)], &value);
            }
        }
        for (name, both) in
            [("goodput_cgroup_numa_allowed_cpus", self.job_cpus), ("goodput_cgroup_numa_anon_shmem_bytes", self.memory)]
        {
            for (node, value) in both.iter().flat_map(|b| ["0", "1"].into_iter().zip(*b)) {
                add(name, &[("owner", "train"), ("node", node)], &|_| value);
            }
        }
        all
    }

    /// Milliseconds of a minute of `GPU-1` that are charged, and whether there is an advisory.
    fn judged(&self) -> (i64, bool) {
        let judged = judge_series(&self.series(), MINUTE..2 * MINUTE, &Thresholds::default()).unwrap();
        let charged = judged.intervals.iter().filter(|i| i.gpu == GPUS[1] && i.class == Class::CrossNuma);
        (charged.map(|i| i.ms).sum(), judged.advisories.iter().any(|a| a.gpu == GPUS[1]))
    }
}

/// By node, what is known of both.
fn pairs(one: Option<[f64; 2]>, other: Option<[f64; 2]>) -> Vec<(f64, f64)> {
    one.zip(other).map(|(one, other)| one.into_iter().zip(other).collect()).unwrap_or_default()
}

const ON_0: Option<[f64; 2]> = Some([32.0, 0.0]);
const ON_1: Option<[f64; 2]> = Some([0.0, 32.0]);
const BOTH: Option<[f64; 2]> = Some([32.0, 32.0]);

fn case(busy: [f64; 2], cpus: [Option<[f64; 2]>; 2]) -> Case {
    Case { busy, cpus, numa_nodes: ["0", "1"], ..Case::default() }
}

#[test]
fn time_is_charged_against_an_on_node_gpu_of_the_owner() {
    assert_eq!(case([0.8, 0.5], [ON_0, ON_0]).judged(), (18_000, false), "no more than the other is ahead");
    assert_eq!(case([0.55, 0.5], [ON_0, ON_0]).judged(), (0, true), "hardly ahead");
    assert_eq!(case([0.8, 0.5], [ON_1, ON_0]).judged(), (0, true), "the other is off its node too");
    assert_eq!(case([0.8, 0.5], [BOTH, ON_0]).judged(), (0, true), "the other is not confined to its node");
    assert_eq!(case([0.8, 0.5], [None, ON_0]).judged(), (0, true), "of the other nothing is known");
}

#[test]
fn a_minute_in_which_it_moves_is_charged_too() {
    let moves = |from, to: Option<[f64; 2]>| Case { moved: to, ..case([0.8, 0.5], [ON_0, from]) };
    assert_eq!(moves(ON_1, ON_0).judged().0, 18_000, "off its node");
    assert_eq!(moves(ON_0, ON_1).judged().0, 18_000, "back to it");
    assert_eq!(moves(BOTH, ON_0).judged().0, 0, "it might have been where it should for the whole minute");
    assert_eq!(moves(ON_1, BOTH).judged().0, 0, "it was never kept from its node");
}

#[test]
fn on_its_node_or_anywhere_is_not_off_node() {
    assert_eq!(case([0.8, 0.5], [ON_0, ON_1]).judged(), (0, false));
    assert_eq!(case([0.8, 0.5], [ON_0, BOTH]).judged(), (0, false));
    assert_eq!(case([0.8, 0.5], [ON_0, None]).judged(), (0, false), "nothing is known");
}

#[test]
fn an_owner_speaks_for_its_gpus_only_if_they_share_a_node() {
    let spread = Case { job_cpus: ON_0, memory: ON_0, ..case([0.8, 0.5], [None, None]) };
    assert_eq!(spread.judged(), (0, false));
    for (job_cpus, memory) in [(ON_0, None), (None, ON_0), (BOTH, ON_0)] {
        let together = Case { job_cpus, memory, numa_nodes: ["1", "1"], ..case([0.5, 0.5], [None, None]) };
        assert_eq!(together.judged(), (0, true), "CPUs {job_cpus:?}, memory {memory:?}");
    }
    let even = Case { memory: BOTH, numa_nodes: ["1", "1"], ..case([0.5, 0.5], [None, ON_1]) };
    assert_eq!(even.judged(), (0, false), "memory on both nodes alike");
}

/// Most memory of the job is on node 1, which has CPUs if `told` says so; the GPUs hang on node 0, and only one works.
fn memory_apart(told: &[(&str, &[(&str, &str)])]) -> (i64, bool) {
    let memory = Some([1e9, 9e9]);
    let case = Case { busy: [0.9, 0.2], numa_nodes: ["0", "0"], memory, ..Case::default() };
    let mut series = case.series();
    for (name, labels) in told {
        let all = [("__name__", *name), ("instance", "n1")].into_iter().chain(labels.iter().copied());
        let samples = (0..20).map(|i| Sample { time_ms: i * 30_000, value: i as f64 });
        series.push(Series { labels: Labels::new(all), samples: samples.collect() });
    }
    let judged = judge_series(&series, MINUTE..2 * MINUTE, &Thresholds::default()).unwrap();
    let charged = judged.intervals.iter().filter(|i| i.class == Class::CrossNuma).map(|i| i.ms).sum();
    (charged, judged.advisories.iter().any(|a| a.advice.name() == "cross_numa"))
}

#[test]
fn a_numa_node_without_cpus_is_not_remote() {
    const ALLOWED: &str = "goodput_cgroup_numa_allowed_cpus";
    const TIME: &str = "goodput_cpu_seconds_total";
    let allowed = |node| (ALLOWED, [("owner", "train"), ("node", node)]);
    let time = |node| (TIME, [("mode", "irq"), ("node", node)]);
    let told = |all: &[(&'static str, [(&'static str, &'static str); 2])]| {
        let all: Vec<(&str, &[(&str, &str)])> = all.iter().map(|(name, labels)| (*name, &labels[..])).collect();
        memory_apart(&all).1
    };
    assert!(told(&[allowed("0"), allowed("1")]), "memory of another socket");
    assert!(told(&[time("0"), time("1")]), "memory of another socket");
    assert!(!told(&[allowed("0")]), "the GPU's own memory, or a CXL expander");
    assert!(!told(&[time("0"), allowed("0")]), "every node with CPUs has CPU time");
    assert!(told(&[time("0"), allowed("0"), allowed("1")]), "a job that may run there proves CPUs");
}
