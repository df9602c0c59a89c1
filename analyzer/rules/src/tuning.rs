//! How nodes are set up, compared with their pool: checks that did not pass, and settings that drifted.
//!
//! A pool is the nodes of a cluster whose GPUs are of the same model. What more than half of it is set to is usual there;
//! what differs is drift. Whether the usual is good is what the checks say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::frame::{self, NodeSources, named};
use crate::signal::{Entity, Setting, Signal, model_of, setting_metrics, settings};
use goodput_exposition::sample::{Series, TimeMs};
use goodput_verdict::{CheckEnd, CollectiveUse, Drift, MountUse, Paired, PortUse, Standing};

/// Settings of a window are those at its end, as its last minutes tell: three of the audit's rounds of 5 minutes, so that
/// a scrape that failed does not hide them.
pub const LOOK_MS: i64 = 15 * 60_000;

/// Fewer nodes than this have no usual setting: of two that differ neither is.
pub const MIN_POOL: usize = 3;

/// Metrics that standings look at.
#[must_use]
pub fn metrics() -> Vec<String> {
    let identity = crate::signal::metrics_of(&[Signal::GpuInfo, Signal::NodeInfo]);
    setting_metrics().into_iter().chain(identity).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The standings of all nodes at the end of a window, in order of name. `series` should have its last [`LOOK_MS`].
#[must_use]
pub fn standings(
    series: &[Series],
    window: &Range<TimeMs>,
    paired: &[Paired],
    ports: &[PortUse],
    mounts: &[MountUse],
    collectives: &[CollectiveUse],
) -> Vec<Standing> {
    let range = window.end - LOOK_MS..window.end;
    let sources = frame::sources(series);
    let nodes: Vec<Node> = frame::by_name(&sources).iter().filter_map(|told| Node::of(told, &range)).collect();
    let mut pools: BTreeMap<(&str, Option<&str>), Vec<&Node>> = BTreeMap::new();
    for node in &nodes {
        pools.entry((&node.cluster, node.pool.as_deref())).or_default().push(node);
    }
    let mut standings: BTreeMap<(&str, Option<String>), Standing> = BTreeMap::new();
    for pool in pools.values() {
        let usual = Usual::of(pool);
        for node in pool {
            let place = (node.name.as_str(), named(&node.cluster));
            standings.insert(place, node.standing(&usual, pool.len()));
        }
    }
    for pair in paired {
        standings.entry((&pair.node, pair.cluster.clone())).or_default().paired.push(pair.clone());
    }
    for port in ports {
        standings.entry((&port.node, port.cluster.clone())).or_default().ports.push(port.clone());
    }
    for mount in mounts {
        standings.entry((&mount.node, mount.cluster.clone())).or_default().mounts.push(mount.clone());
    }
    for used in collectives {
        standings.entry((&used.node, used.cluster.clone())).or_default().collectives.push(used.clone());
    }
    let placed = |((node, cluster), standing): ((&str, Option<String>), Standing)| Standing {
        cluster,
        node: node.to_owned(),
        start_ms: window.start,
        end_ms: window.end,
        ..standing
    };
    standings.into_iter().map(placed).collect()
}

/// What is set: a check's end, or a setting of the node or of one of its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Check(String),
    Value(String, Option<String>),
}

impl What {
    /// What it is compared as: all GPUs of a pool are compared with each other.
    fn kind(&self) -> (bool, bool, &str) {
        match self {
            What::Check(id) => (true, false, id),
            What::Value(name, gpu) => (false, gpu.is_some(), name),
        }
    }
}

/// A node whose settings are known.
struct Node {
    cluster: String,
    name: String,
    pool: Option<String>,
    set: BTreeMap<What, String>,
}

impl Node {
    fn of(told: &NodeSources<'_, '_>, range: &Range<TimeMs>) -> Option<Node> {
        let models: BTreeSet<&str> = told.sources.iter().filter_map(|s| model_of(s.labels)).collect();
        let pool = (!models.is_empty()).then(|| joined(&models));
        let mut set: BTreeMap<What, BTreeSet<String>> = BTreeMap::new();
        for (source, value) in latest(told, range) {
            let gpu = match source.meaning.entity {
                Entity::Gpu(uuid) => Some(uuid.to_owned()),
                Entity::Node => None,
                Entity::MigInstance(..) | Entity::Job(_) | Entity::Server => continue,
            };
            for setting in settings(source.labels, value) {
                let (what, value) = match setting {
                    Setting::Check { id, status } => (What::Check(id), status),
                    Setting::Value { name, value } => (What::Value(name, gpu.clone()), value),
                };
                set.entry(what).or_default().insert(value);
            }
        }
        let set: BTreeMap<What, String> = set.into_iter().map(|(what, values)| (what, joined(&values))).collect();
        (!set.is_empty()).then(|| Node { cluster: told.cluster.clone(), name: told.node.clone(), pool, set })
    }

    fn standing(&self, usual: &Usual<'_>, pool_nodes: usize) -> Standing {
        let (mut checks, mut drift) = (Vec::new(), Vec::new());
        for (what, value) in &self.set {
            let found = usual.0.get(&what.kind());
            match what {
                What::Check(_) if value == PASS => {}
                What::Check(check) => {
                    let usual = found.map(|(usual, ..)| (*usual).to_owned());
                    checks.push(CheckEnd { check: check.clone(), status: value.clone(), usual });
                }
                What::Value(setting, gpu) => {
                    drift.extend(found.filter(|(usual, ..)| usual != value).map(|(usual, alike, of)| Drift {
                        setting: setting.clone(),
                        gpu: gpu.clone(),
                        value: value.clone(),
                        usual: (*usual).to_owned(),
                        alike: *alike,
                        of: *of,
                    }));
                }
            }
        }
        Standing { pool: self.pool.clone(), pool_nodes, checks, drift, ..Standing::default() }
    }
}

const PASS: &str = "pass";

/// What more than half of a pool is set to, how many of its nodes or GPUs, and of how many.
struct Usual<'a>(BTreeMap<(bool, bool, &'a str), (&'a str, usize, usize)>);

impl<'a> Usual<'a> {
    fn of(pool: &[&'a Node]) -> Self {
        let mut counts: BTreeMap<_, BTreeMap<&str, usize>> = BTreeMap::new();
        let mut nodes: BTreeMap<_, usize> = BTreeMap::new();
        for node in pool {
            for (what, value) in &node.set {
                *counts.entry(what.kind()).or_default().entry(value.as_str()).or_default() += 1;
            }
            for kind in node.set.keys().map(What::kind).collect::<BTreeSet<_>>() {
                *nodes.entry(kind).or_default() += 1;
            }
        }
        let known = counts.into_iter().filter(|(kind, _)| nodes.get(kind).is_some_and(|nodes| *nodes >= MIN_POOL));
        let usual = known.filter_map(|(kind, values)| {
            let of = values.values().sum();
            let (value, alike) = values.into_iter().max_by_key(|(_, alike)| *alike)?;
            (2 * alike > of).then_some((kind, (value, alike, of)))
        });
        Usual(usual.collect())
    }
}

/// The sources of settings that were there when their metric was last scraped from their target, with the sample: a label
/// that changed leaves a series that has ended.
fn latest<'s, 'a>(told: &NodeSources<'s, 'a>, range: &Range<TimeMs>) -> Vec<(&'s frame::Source<'a>, f64)> {
    let last = |source: &frame::Source<'_>| {
        source.samples.iter().rev().find(|s| range.contains(&s.time_ms) && !s.value.is_nan()).copied()
    };
    let sampled: Vec<_> = told.sources.iter().filter_map(|source| Some((*source, last(source)?))).collect();
    let key = |source: &'s frame::Source<'a>| (&source.target, source.labels.metric(), source.meaning.entity);
    let mut newest: BTreeMap<_, TimeMs> = BTreeMap::new();
    for (source, sample) in &sampled {
        let time = newest.entry(key(source)).or_insert(sample.time_ms);
        *time = sample.time_ms.max(*time);
    }
    let is_newest = |(source, sample): &(&'s frame::Source<'a>, goodput_exposition::sample::Sample)| {
        newest.get(&key(source)) == Some(&sample.time_ms)
    };
    sampled.into_iter().filter(is_newest).map(|(source, sample)| (source, sample.value)).collect()
}

fn joined<S: AsRef<str>>(values: &BTreeSet<S>) -> String {
    values.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::{Labels, Sample};
    use goodput_verdict::Measure;

    const END: TimeMs = 3_600_000;

    fn series(labels: &[(&str, &str)], value: f64, until: TimeMs) -> Series {
        let samples = (0..until).step_by(60_000).map(|time_ms| Sample { time_ms, value }).collect();
        Series { labels: Labels::new(labels.iter().copied()), samples }
    }

    /// A node with a GPU of this model: how a check ended, its huge pages and the GPU's power limit.
    fn node(name: &str, model: &str, check: &str, pages: &str, limit: f64) -> Vec<Series> {
        let uuid = format!("GPU-{name}");
        let at = [("instance", name), ("node", name)];
        let one = |name: &str, labels: &[(&str, &str)], value| {
            let all: Vec<(&str, &str)> =
                [("__name__", name)].into_iter().chain(at).chain(labels.iter().copied()).collect();
            series(&all, value, END)
        };
        vec![
            one("goodput_node_info", &[("nodename", name), ("kernel", "6.8.0")], 1.0),
            one("goodput_audit_status", &[("check", "swap_off"), ("status", check)], 1.0),
            one("goodput_thp_info", &[("enabled", pages)], 1.0),
            one("DCGM_FI_DEV_POWER_MGMT_LIMIT", &[("UUID", &uuid), ("modelName", model)], limit),
        ]
    }

    fn of(nodes: &[(&str, &str, &str, &str, f64)]) -> Vec<Standing> {
        let series: Vec<Series> = nodes.iter().flat_map(|(n, m, c, p, l)| node(n, m, c, p, *l)).collect();
        standings(&series, &(0..END), &[], &[], &[], &[])
    }

    /// Node, checks and drift in short.
    fn told(standings: &[Standing]) -> Vec<(String, Vec<String>)> {
        let short = |s: &Standing| {
            let checks =
                s.checks.iter().map(|c| format!("{} {} ({})", c.check, c.status, c.usual.as_deref().unwrap_or("-")));
            let drift =
                s.drift.iter().map(|d| format!("{}: {}, {} of {}/{}", d.setting, d.value, d.usual, d.alike, d.of));
            (s.node.clone(), checks.chain(drift).collect())
        };
        standings.iter().map(short).collect()
    }

    fn clean(node: &str) -> (String, Vec<String>) {
        (node.to_owned(), Vec::new())
    }

    #[test]
    fn what_differs_from_more_than_half_of_the_pool_is_drift() {
        let standings = of(&[
            ("n1", "H100", "pass", "madvise", 700.0),
            ("n2", "H100", "fail", "always", 500.0),
            ("n3", "H100", "pass", "madvise", 700.0),
            ("n4", "A100", "pass", "never", 400.0),
        ]);
        let drifted = [
            "swap_off fail (pass)",
            "power limit: 500 W, 700 W of 2/3",
            "transparent huge pages: always, madvise of 2/3",
        ];
        let expected = [clean("n1"), ("n2".to_owned(), drifted.map(str::to_owned).into()), clean("n3"), clean("n4")];
        assert_eq!(told(&standings), expected);
        assert_eq!(standings[1].drift[0].gpu.as_deref(), Some("GPU-n2"));
        let pools: Vec<_> = standings.iter().map(|s| (s.pool.as_deref().unwrap(), s.pool_nodes)).collect();
        assert_eq!(pools, [("H100", 3), ("H100", 3), ("H100", 3), ("A100", 1)]);
    }

    #[test]
    fn without_a_majority_of_a_pool_of_three_nothing_is_usual_but_checks_tell() {
        let two = of(&[("n1", "H100", "pass", "madvise", 700.0), ("n2", "H100", "fail", "always", 500.0)]);
        assert_eq!(told(&two), [clean("n1"), ("n2".to_owned(), vec!["swap_off fail (-)".to_owned()])]);
        let halves = of(&[
            ("n1", "H100", "pass", "madvise", 700.0),
            ("n2", "H100", "pass", "madvise", 700.0),
            ("n3", "H100", "pass", "always", 700.0),
            ("n4", "H100", "pass", "always", 700.0),
        ]);
        assert!(halves.iter().all(|s| s.drift.is_empty()), "{halves:?}");
    }

    #[test]
    fn nodes_that_two_clusters_call_alike_have_a_standing_each() {
        let within = |cluster: &str, pages: &str| -> Vec<Series> {
            let all = [("n1", "madvise"), ("n2", pages), ("n3", "madvise")];
            let all = all.into_iter().flat_map(|(name, pages)| node(name, "H100", "pass", pages, 700.0));
            let placed = |s: Series| {
                let labels: Vec<(String, String)> =
                    s.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let all = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                Series { labels: Labels::new(all.chain([("cluster", cluster)])), ..s }
            };
            all.map(placed).collect()
        };
        let series = [within("east", "always"), within("west", "madvise")].concat();
        let pair = Paired {
            cluster: Some("west".to_owned()),
            node: "n2".to_owned(),
            owner: "slurm-7".to_owned(),
            measure: Measure::OwnTime,
            start_ms: 0,
            cells: 60,
            others: 3,
            slowdown: 1.2,
            next: 1.0,
        };
        let all = standings(&series, &(0..END), &[pair], &[], &[], &[]);
        let told = |s: &Standing| (s.node.clone(), s.cluster.clone().unwrap(), s.drift.len(), s.paired.len());
        let told: Vec<_> = all.iter().map(told).collect();
        let row = |name: &str, cluster: &str, drift, paired| (name.to_owned(), cluster.to_owned(), drift, paired);
        let expected = [
            row("n1", "east", 0, 0),
            row("n1", "west", 0, 0),
            row("n2", "east", 1, 0),
            row("n2", "west", 0, 1),
            row("n3", "east", 0, 0),
            row("n3", "west", 0, 0),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_setting_is_what_the_last_scrape_tells() {
        let mut all: Vec<Series> =
            ["n1", "n2", "n3"].iter().flat_map(|n| node(n, "H100", "pass", "madvise", 700.0)).collect();
        let labels = [("__name__", "goodput_thp_info"), ("instance", "n2"), ("node", "n2"), ("enabled", "always")];
        all.push(series(&labels, 1.0, END - 300_000));
        assert!(
            standings(&all, &(0..END), &[], &[], &[], &[]).iter().all(|s| s.drift.is_empty()),
            "it was changed 5 minutes ago"
        );
        let before = standings(&all, &(0..END - 300_000), &[], &[], &[], &[]);
        assert_eq!(told(&before)[1].1, ["transparent huge pages: always, madvise, madvise of 2/3"], "both are scraped");
        assert_eq!(standings(&all, &(END * 2..END * 3), &[], &[], &[], &[]), [], "old settings are none");
    }
}
