//! Free GPUs while jobs wait: whole clusters of nodes with free GPUs, and what kube-state-metrics, Kueue and slurmctld expose
//! of them, scrape by scrape.

mod odd;

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_series};
use goodput_verdict::{Class, Interval};

const MINUTE: TimeMs = 60_000;
const HOUR: TimeMs = 60 * MINUTE;
/// Free time may be this far from the truth.
const RIGHT: f64 = 0.05;

/// A node: its name, its GPUs, and how many of them are free.
#[derive(Clone)]
struct Node {
    cluster: &'static str,
    name: String,
    gpus: usize,
    free: usize,
}

fn node(name: &str, gpus: usize, free: usize) -> Node {
    Node { cluster: "", name: name.to_owned(), gpus, free }
}

/// What is exposed at a moment; `None` where the source is not scraped.
type Exposed<'e> = &'e dyn Fn(TimeMs) -> Option<String>;

/// A source of demand: its cluster, how often and with which delay it is scraped, and what it exposes.
struct Source<'e> {
    cluster: &'static str,
    job: &'static str,
    every_ms: TimeMs,
    offset_ms: TimeMs,
    exposed: Exposed<'e>,
}

impl<'e> Source<'e> {
    fn of(exposed: Exposed<'e>) -> Self {
        Source { cluster: "", job: "kube-state-metrics", every_ms: 30_000, offset_ms: 7_000, exposed }
    }

    /// Its series, out of its pages.
    fn series(&self) -> Vec<Series> {
        let mut series: BTreeMap<Vec<(String, String)>, Vec<Sample>> = BTreeMap::new();
        for time_ms in (-HOUR..HOUR).step_by(self.every_ms as usize).map(|time| time + self.offset_ms) {
            for line in (self.exposed)(time_ms).unwrap_or_default().lines().filter(|line| !line.starts_with('#')) {
                let (mut labels, value) = labels_of(line);
                labels.extend([("job", self.job), ("instance", "m:8080"), ("cluster", self.cluster)].map(own));
                labels.retain(|(_, value)| !value.is_empty());
                series.entry(labels).or_default().push(Sample { time_ms, value });
            }
        }
        let of = |(labels, samples): (Vec<(String, String)>, Vec<Sample>)| {
            let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            Series { labels: Labels::new(labels), samples }
        };
        series.into_iter().map(of).collect()
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A line of an exposition whose labels have no escapes.
fn labels_of(line: &str) -> (Vec<(String, String)>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let pairs = labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        own((name.trim_matches(','), value.trim_end_matches('"')))
    };
    ([own(("__name__", name))].into_iter().chain(pairs.map(pair)).collect(), value.parse().unwrap())
}

/// The GPUs of a node: those behind the free ones are held by a job.
fn gpus(node: &Node) -> Vec<Series> {
    let always = |labels: &[(&str, &str)], value: f64| {
        let target = [("instance", node.name.as_str()), ("cluster", node.cluster)];
        let labels = target.into_iter().chain(labels.iter().copied()).filter(|(_, value)| !value.is_empty());
        let samples = (-240..240).map(|n| Sample { time_ms: n * 15_000, value }).collect();
        Series { labels: Labels::new(labels), samples }
    };
    let mut all = vec![always(&[("__name__", "node_uname_info"), ("nodename", &node.name)], 1.0)];
    for n in 0..node.gpus {
        let uuid = format!("GPU-{}-{}-{n}", node.cluster, node.name);
        let gpu = |name: &str, value, more: &[(&str, &str)]| {
            let labels = [("__name__", name), ("UUID", uuid.as_str()), ("Hostname", node.name.as_str())];
            always(&labels.iter().chain(more).copied().collect::<Vec<_>>(), value)
        };
        let held = if n < node.free { 0.0 } else { 1.0 };
        all.push(gpu("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9 * held, &[("modelName", "NVIDIA H100 80GB HBM3")]));
        all.push(gpu("goodput_gpu_processes", held, &[]));
        if held > 0.0 {
            all.push(gpu("goodput_gpu_owner_info", 1.0, &[("owner", "ml/other")]));
        }
    }
    all
}

fn judged(nodes: &[Node], sources: &[Source<'_>]) -> Judged {
    let series: Vec<Series> = nodes.iter().flat_map(gpus).chain(sources.iter().flat_map(Source::series)).collect();
    judge_series(&series, 0..HOUR, &Thresholds::default()).unwrap()
}

/// The cause of an interval with what it names.
fn cause(i: &Interval) -> String {
    i.cause.as_ref().map_or_else(String::new, |cause| {
        let which = cause.which.as_deref().unwrap_or_default();
        format!("{} {which}", cause.kind.name()).trim_end().to_owned()
    })
}

/// GPU-minutes of free time by cause.
fn minutes(judged: &Judged) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for i in judged.intervals.iter().filter(|i| i.class == Class::Unallocated) {
        *sums.entry(cause(i)).or_default() += i.ms as f64 / MINUTE as f64;
    }
    sums
}

/// Are these the causes of free time, in GPU-minutes, within the bound?
fn check(judged: &Judged, expected: &[(&str, f64)], about: &str) {
    let found = minutes(judged);
    let whole: f64 = found.values().sum();
    let names = found.keys().map(String::as_str).chain(expected.iter().map(|(name, _)| *name));
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let told = found.get(name).copied().unwrap_or_default();
        let truth = expected.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, minutes)| *minutes);
        assert!((told - truth).abs() <= RIGHT * whole, "{about}: {name:?}: {told} of {truth}: {found:?}");
    }
}

/// A pod that waits for some time, and what it asks for.
#[derive(Clone)]
struct Pod {
    name: &'static str,
    waits: Range<TimeMs>,
    gpus: usize,
    cores: usize,
}

/// kube-state-metrics on nodes with 64 cores and 512 GB: on each a pod `other-NODE` has the GPUs that are not free, with four cores
/// for each.
fn kube(nodes: &[Node], pods: &[Pod], time: TimeMs) -> String {
    let mut text = String::from("# HELP kube_pod_status_phase The pods current phase.\n");
    let mut pod = |name: &str, phase: &str, node: &str, gpus: usize, cores: usize| {
        let labels = format!("namespace=\"ml\",pod=\"{name}\",uid=\"u-{name}\"");
        for other in ["Pending", "Succeeded", "Failed", "Unknown", "Running"] {
            let is = u8::from(other == phase);
            text += &format!("kube_pod_status_phase{{{labels},phase=\"{other}\"}} {is}\n");
        }
        text += &format!("kube_pod_created{{{labels}}} -7200\n");
        for (resource, unit, value) in
            [("nvidia_com_gpu", "integer", gpus), ("cpu", "core", cores), ("memory", "byte", 8_000_000_000)]
        {
            text += &format!(
                "kube_pod_container_resource_requests{{{labels},container=\"main\",node=\"{node}\",resource=\"{resource}\",unit=\"{unit}\"}} {value}\n"
            );
        }
    };
    for Node { name, gpus, free, .. } in nodes {
        pod(&format!("other-{name}"), "Running", name, gpus - free, 4 * (gpus - free));
    }
    for waiting in pods.iter().filter(|pod| pod.waits.contains(&time)) {
        pod(waiting.name, "Pending", "", waiting.gpus, waiting.cores);
    }
    for Node { name, gpus, .. } in nodes {
        for (resource, unit, value) in
            [("nvidia_com_gpu", "integer", *gpus), ("cpu", "core", 64), ("memory", "byte", 512_000_000_000)]
        {
            text += &format!(
                "kube_node_status_allocatable{{node=\"{name}\",resource=\"{resource}\",unit=\"{unit}\"}} {value}\n"
            );
        }
    }
    text
}

/// Numbers from 0 to 1 (Knuth's MMIX generator).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn minute(&mut self, from: f64, to: f64) -> TimeMs {
        ((from + (to - from) * self.next()) * MINUTE as f64) as TimeMs
    }
}

/// Fleets of chance: nodes, and a pod that waits in the middle of the hour.
fn fleets(mut each: impl FnMut(&mut Chance, TimeMs, TimeMs, Range<TimeMs>)) {
    for seed in 0..6 {
        let mut chance = Chance(seed);
        chance.next();
        let every = [15_000, 30_000, 60_000][(chance.next() * 3.0) as usize];
        let offset = (chance.next() * every as f64) as TimeMs;
        let waits = chance.minute(2.0, 20.0)..chance.minute(35.0, 58.0);
        each(&mut chance, every, offset, waits);
    }
}

fn length(waits: &Range<TimeMs>) -> f64 {
    (waits.end - waits.start) as f64 / MINUTE as f64
}

#[test]
fn a_pod_that_would_fit_waits() {
    fleets(|chance, every_ms, offset_ms, waits| {
        let wanted = 1 + (chance.next() * 3.0) as usize;
        let nodes = [node("n1", 8, 3), node("n2", 4, 1)];
        let pods = [Pod { name: "train", waits: waits.clone(), gpus: wanted, cores: 16 }];
        let exposed = |time| Some(kube(&nodes, &pods, time));
        let source = Source { every_ms, offset_ms, ..Source::of(&exposed) };
        let waited = wanted as f64 * length(&waits);
        let expected = [("free_while_waiting ml/train", waited), ("free", 240.0 - waited)];
        check(&judged(&nodes, &[source]), &expected, &format!("{wanted} GPUs, {waits:?}"));
    });
}

#[test]
fn a_pod_waits_for_cpus_and_memory_next_to_free_gpus() {
    fleets(|_, every_ms, offset_ms, waits| {
        // n1 has 64 - 20 cores left, n2 52.
        let nodes = [node("n1", 8, 3), node("n2", 4, 1)];
        for (cores, expected) in [(60, "free_unfit cpu for ml/train"), (44, "free_while_waiting ml/train")] {
            let pods = [Pod { name: "train", waits: waits.clone(), gpus: 2, cores }];
            let exposed = |time| Some(kube(&nodes, &pods, time));
            let source = Source { every_ms, offset_ms, ..Source::of(&exposed) };
            let waited = 2.0 * length(&waits);
            check(&judged(&nodes, &[source]), &[(expected, waited), ("free", 240.0 - waited)], &format!("{cores}"));
        }
    });
}

#[test]
fn a_job_for_a_whole_node_waits_while_gpus_are_free_on_several() {
    fleets(|_, every_ms, offset_ms, waits| {
        let nodes = ["n1", "n2", "n3", "n4"].map(|name| node(name, 8, 3));
        let pods = [Pod { name: "llm", waits: waits.clone(), gpus: 8, cores: 8 }];
        let exposed = |time| Some(kube(&nodes, &pods, time));
        let source = Source { every_ms, offset_ms, ..Source::of(&exposed) };
        let waited = 8.0 * length(&waits);
        let expected = [("free_unfit whole_node for ml/llm", waited), ("free", 720.0 - waited)];
        check(&judged(&nodes, &[source]), &expected, &format!("{waits:?}"));
    });
}

/// Kueue's pages: a queue, how many of its workloads are tried and how many are not, and what they ask for.
fn kueue(active: usize, held: usize, gpus: Option<usize>) -> String {
    let mut text = format!(
        "kueue_pending_workloads{{cluster_queue=\"team-a\",status=\"active\"}} {active}\nkueue_pending_workloads{{cluster_queue=\"team-a\",status=\"inadmissible\"}} {held}\n"
    );
    if let Some(gpus) = gpus {
        text += &format!(
            "kueue_cluster_queue_resource_pending{{cluster_queue=\"team-a\",resource=\"nvidia.com/gpu\"}} {gpus}\n"
        );
    }
    text
}

#[test]
fn what_a_quota_keeps_out_is_no_demand() {
    let nodes = [node("n1", 8, 3)];
    let pods = |time| Some(kube(&nodes, &[], time));
    for (active, held, gpus, expected) in [
        (0, 4, Some(32), &[("free", 180.0)][..]),
        (2, 0, Some(2), &[("free_while_waiting team-a", 120.0), ("free", 60.0)]),
        (2, 0, None, &[("free_fit_unknown team-a", 180.0)]),
        (2, 1, Some(12), &[("free_fit_unknown team-a", 180.0)]),
        (0, 0, Some(0), &[("free", 180.0)]),
    ] {
        let queue = |_| Some(kueue(active, held, gpus));
        let sources = [Source::of(&pods), Source { job: "kueue", ..Source::of(&queue) }];
        check(&judged(&nodes, &sources), expected, &format!("{active} active, {held} held, {gpus:?}"));
    }
}

#[test]
fn without_a_source_time_has_no_cause() {
    let nodes = [node("n1", 8, 3)];
    check(&judged(&nodes, &[]), &[("", 180.0)], "none");
    // The phases of pods without what they ask for prove nothing, nor do nodes without pods.
    for wanted in ["kube_pod_status_phase", "kube_node_status_allocatable", "kube_pod_container_resource_requests"] {
        let part = |time| {
            let text = kube(&nodes, &[], time);
            Some(text.lines().filter(|line| line.starts_with(wanted)).map(|line| format!("{line}\n")).collect())
        };
        check(&judged(&nodes, &[Source::of(&part)]), &[("", 180.0)], wanted);
    }
}

#[test]
fn a_source_that_is_silent_for_ten_minutes_is_believed_and_for_longer_not() {
    let nodes = [node("n1", 8, 3)];
    let pods = [Pod { name: "train", waits: 0..HOUR, gpus: 3, cores: 8 }];
    for (silent, known) in [(20..30, 60.0), (20..50, 41.0)] {
        let exposed = |time: TimeMs| {
            let is_silent = (silent.start * MINUTE..silent.end * MINUTE).contains(&time);
            (!is_silent).then(|| kube(&nodes, &pods, time))
        };
        let expected = [("free_while_waiting ml/train", 3.0 * known), ("", 180.0 - 3.0 * known)];
        check(&judged(&nodes, &[Source::of(&exposed)]), &expected, &format!("{silent:?}"));
    }
}

/// slurmctld's page of partitions.
fn slurm(pending: usize, held: usize, name: &str) -> String {
    format!(
        "# TYPE slurm_partition_jobs_pending gauge\nslurm_partition_jobs_pending{{partition=\"gpu\"}} {pending}\n{name}{{partition=\"gpu\"}} {held}\n"
    )
}

#[test]
fn jobs_of_slurm_prove_demand_and_not_that_they_fit() {
    let nodes = [node("n1", 8, 3)];
    for name in ["slurm_partition_jobs_hold", "slurm_partition_jobs_hold_total"] {
        for (pending, held, expected) in [(5, 2, "free_fit_unknown gpu"), (5, 5, "free"), (0, 0, "free")] {
            let exposed = |_| Some(slurm(pending, held, name));
            let source = Source { job: "slurmctld", ..Source::of(&exposed) };
            check(&judged(&nodes, &[source]), &[(expected, 180.0)], &format!("{pending} of {held}"));
        }
    }
    let counted = |_| Some(slurm(9, 0, "slurm_partition_jobs_hold") + "goodput_pending_gpus{partition=\"gpu\"} 2\n");
    let expected = [("free_while_waiting gpu", 120.0), ("free", 60.0)];
    check(&judged(&nodes, &[Source::of(&counted)]), &expected, "GPUs are counted");
}

/// Whatever is split, the time is that of the class without a source.
#[test]
fn no_time_moves_and_hours_judged_in_two_halves_say_the_same() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, 8, 5));
    let pods = [
        Pod { name: "a", waits: 3 * MINUTE..41 * MINUTE, gpus: 2, cores: 16 },
        Pod { name: "b", waits: 17 * MINUTE..55 * MINUTE, gpus: 8, cores: 16 },
        Pod { name: "c", waits: 20 * MINUTE..21 * MINUTE, gpus: 1, cores: 63 },
    ];
    let exposed = |time| Some(kube(&nodes, &pods, time));
    let series: Vec<Series> = nodes.iter().flat_map(gpus).chain(Source::of(&exposed).series()).collect();
    let whole = judge_series(&series, 0..HOUR, &Thresholds::default()).unwrap();
    let without = judged(&nodes, &[]);
    let sum = |judged: &Judged| minutes(judged).values().sum::<f64>();
    assert_eq!((sum(&whole), minutes(&whole).len()), (sum(&without), 4), "{:?}", minutes(&whole));
    let mut halves: BTreeMap<String, f64> = BTreeMap::new();
    for half in [0..HOUR / 2, HOUR / 2..HOUR] {
        for (cause, told) in minutes(&judge_series(&series, half, &Thresholds::default()).unwrap()) {
            *halves.entry(cause).or_default() += told;
        }
    }
    assert_eq!(halves, minutes(&whole));
}
