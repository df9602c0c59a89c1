//! Tuning audit and drift: checks that did not pass, what differs from the pool, and nodes that are slow compared with
//! the others of their runs, with what is different there.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Report, text};
use goodput_exposition::sample::TimeMs;
use goodput_rules::median::median;
use goodput_rules::tuning::MIN_POOL;
use goodput_store::Place;
use goodput_verdict::{Measure, Paired, Standing};

/// Fewer pairs cannot tell: of 5 that all point one way, the two-sided sign test gives 2 x 0.5^5 = 6.3 %, of 6 it gives
/// 3.1 % (Conover, Practical Nonparametric Statistics, 3rd edition, section 3.4).
pub const MIN_PAIRS: usize = 6;

/// A node is slow from a tenth on (TraceML: a straggler from 10 % of the step of the rank that waits). GPUs of one model
/// differ by 8 % on average for no fault of their node (Sinha et al., Not All GPUs Are Created Equal, SC 2022).
pub const MIN_SLOWDOWN: f64 = 1.1;

/// Probability that the interval of a median leaves out on either side.
const TAIL: f64 = 0.025;

const FAIL: &str = "fail";

/// How the nodes are set up, and which are slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tuning {
    /// Slow nodes, the slowest first.
    pub slow: Vec<SlowNode>,
    /// Nodes that are slow, and another node of the same runs as much: that points to what they do in a run, such as a
    /// pipeline stage, and not to the node.
    pub alike: Vec<Alike>,
    /// Nodes that were compared in enough windows and are not slow.
    pub steady: usize,
    /// Nodes that were compared in too few windows to tell, and in how many.
    pub too_few: Vec<TooFew>,
    /// Checks that did not pass, and settings that drifted: failed checks first, then drift, then other checks.
    pub rows: Vec<TuningRow>,
    /// Pools with too few nodes for anything to be usual, and how many they had at most.
    pub small_pools: Vec<SmallPool>,
    /// Nodes with capacity whose settings are unknown.
    pub untold: Vec<String>,
}

/// A node that took longer, or clocked lower, than the others of its runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SlowNode {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// By what it was compared.
    pub measure: Measure,
    /// How many times as slow as the median of the others: the median over pairs.
    pub slowdown: f64,
    /// Lower end of its 95 % interval, from order statistics: nothing is assumed of the distribution.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs of a run and a window.
    pub pairs: usize,
    /// Runs that they are of. Of one run alone it may be the node's role in it, such as a pipeline stage.
    pub runs: usize,
    /// Settings and checks in which it differs from what is usual in its pool.
    pub differs: Vec<String>,
}

/// A node that is slow as others are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alike {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// By what it was compared.
    pub measure: Measure,
    /// How many times as slow as the median of the others.
    pub slowdown: f64,
    /// The same of the slowest of the others, in the same cells.
    pub next: f64,
}

/// A node with too few comparisons to call it slow or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct TooFew {
    /// The cluster of the node; null where series name none.
    pub cluster: Option<String>,
    /// The node.
    pub node: String,
    /// By what it was compared.
    pub measure: Measure,
    /// Pairs there are.
    pub pairs: usize,
}

/// A pool that is too small.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct SmallPool {
    /// The cluster of the pool; null where series name none.
    pub cluster: Option<String>,
    /// The model of its GPUs; null where settings tell none.
    pub pool: Option<String>,
    /// Nodes, at most at a time.
    pub nodes: usize,
}

/// Something that is not as it should be, or not as in the rest of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TuningRow {
    /// The check's id, as in `docs/reference/audit.md`, or what is set.
    pub what: String,
    /// Is it a check of the audit?
    pub is_check: bool,
    /// How the check ended, or what is set.
    pub value: String,
    /// What is usual in the pool; null where nothing is.
    pub usual: Option<String>,
    /// The cluster of the pool; null where series name none.
    pub cluster: Option<String>,
    /// The model of the pool's GPUs; null where settings tell none.
    pub pool: Option<String>,
    /// Where, in order of name.
    pub nodes: Vec<String>,
    /// GPUs that it is about; empty where it is about nodes.
    pub gpus: Vec<String>,
    /// Start of the first window in which it was so, Unix milliseconds.
    pub since_ms: TimeMs,
    /// End of the last one, Unix milliseconds.
    pub until_ms: TimeMs,
}

fn place(standing: &Standing) -> Place<'_> {
    Place::new(&standing.cluster, &standing.node)
}

/// Of the standings of a period. `nodes` are those that have capacity in it.
pub(super) fn tuning<'a>(standings: &[Standing], nodes: impl Iterator<Item = Place<'a>>) -> Tuning {
    let told: BTreeSet<Place<'_>> = standings.iter().filter(|s| s.pool_nodes > 0).map(place).collect();
    let mut tuning = Tuning {
        rows: rows(standings),
        small_pools: small_pools(standings),
        untold: nodes.filter(|node| !told.contains(node)).map(|place| place.node.to_owned()).collect(),
        ..Tuning::default()
    };
    let mut pairs: BTreeMap<(Place<'_>, Measure), Vec<&Paired>> = BTreeMap::new();
    for pair in standings.iter().flat_map(|s| &s.paired) {
        pairs.entry((Place::new(&pair.cluster, &pair.node), pair.measure)).or_default().push(pair);
    }
    let (mut steady, mut odd) = (BTreeSet::new(), BTreeSet::new());
    for ((place, measure), pairs) in pairs {
        let (cluster, node) = (place.cluster.map(str::to_owned), place.node.to_owned());
        let Some(found) = Compared::of(&pairs) else {
            tuning.too_few.push(TooFew { cluster, node, measure, pairs: pairs.len() });
            continue;
        };
        if !found.is_slow() {
            steady.insert(place);
            continue;
        }
        odd.insert(place);
        if found.stands_out() {
            tuning.slow.push(found.slow(place, measure, &tuning.rows));
        } else {
            let Compared { slowdown, next, .. } = found;
            tuning.alike.push(Alike { cluster, node, measure, slowdown, next });
        }
    }
    tuning.slow.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
    tuning.steady = steady.difference(&odd).count();
    tuning
}

/// Many pairs of one node.
struct Compared {
    slowdown: f64,
    next: f64,
    low: f64,
    high: f64,
    pairs: usize,
    runs: usize,
}

impl Compared {
    fn of(pairs: &[&Paired]) -> Option<Self> {
        let mut ratios: Vec<f64> = pairs.iter().map(|pair| pair.slowdown).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&ratios)?;
        let runs = pairs.iter().map(|pair| &pair.owner).collect::<BTreeSet<_>>().len();
        let next = median(pairs.iter().map(|pair| pair.next).collect())?;
        Some(Compared { pairs: ratios.len(), slowdown: median(ratios)?, next, low, high, runs })
    }

    /// By enough, and not by chance.
    fn is_slow(&self) -> bool {
        self.slowdown >= MIN_SLOWDOWN && self.low > 1.0
    }

    /// Is no other node of its runs as slow?
    fn stands_out(&self) -> bool {
        self.slowdown >= MIN_SLOWDOWN * self.next
    }

    fn slow(self, Place { cluster, node }: Place<'_>, measure: Measure, rows: &[TuningRow]) -> SlowNode {
        let Compared { slowdown, low, high, pairs, runs, .. } = self;
        let here =
            rows.iter().filter(|row| row.cluster.as_deref() == cluster && row.nodes.iter().any(|other| other == node));
        SlowNode {
            cluster: cluster.map(str::to_owned),
            node: node.to_owned(),
            measure,
            slowdown,
            low,
            high,
            pairs,
            runs,
            differs: here.filter_map(TuningRow::difference).collect(),
        }
    }
}

/// The 95 % interval of the median of sorted values: from the k-th smallest to the k-th greatest, with the greatest k for
/// which fewer than k of n fair coins show heads with a probability of at most [`TAIL`] (Conover, as above). `None` for
/// fewer than [`MIN_PAIRS`] values.
fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    if sorted.len() < MIN_PAIRS {
        return None;
    }
    let n = sorted.len();
    // Logarithms, because 0.5^n is nothing from 1,075 pairs on.
    let (mut ln_p, mut below, mut k) = (n as f64 * 0.5_f64.ln(), 0.0, 0);
    loop {
        below += ln_p.exp();
        if below > TAIL {
            break;
        }
        ln_p += ((n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
    let k = k.checked_sub(1)?;
    Some((sorted[k], sorted[n - 1 - k]))
}

/// What belongs to one row: cluster and pool, what it is, its value, and what is usual.
type Key<'a> = (Option<&'a str>, Option<&'a str>, bool, &'a str, &'a str, Option<&'a str>);

fn rows(standings: &[Standing]) -> Vec<TuningRow> {
    let mut groups: BTreeMap<Key<'_>, Vec<(&Standing, Option<&str>)>> = BTreeMap::new();
    for standing in standings {
        let (cluster, pool) = (standing.cluster.as_deref(), standing.pool.as_deref());
        for check in &standing.checks {
            let key = (cluster, pool, true, check.check.as_str(), check.status.as_str(), check.usual.as_deref());
            groups.entry(key).or_default().push((standing, None));
        }
        for drift in &standing.drift {
            let key = (cluster, pool, false, drift.setting.as_str(), drift.value.as_str(), Some(drift.usual.as_str()));
            groups.entry(key).or_default().push((standing, drift.gpu.as_deref()));
        }
    }
    let mut rows: Vec<TuningRow> = groups.into_iter().map(|(key, group)| row(key, &group)).collect();
    rows.sort_by_key(|row| (row.order(), std::cmp::Reverse(row.nodes.len())));
    rows
}

fn row((cluster, pool, is_check, what, value, usual): Key<'_>, group: &[(&Standing, Option<&str>)]) -> TuningRow {
    let names = |all: BTreeSet<&str>| all.into_iter().map(str::to_owned).collect();
    TuningRow {
        what: what.to_owned(),
        is_check,
        value: value.to_owned(),
        usual: usual.map(str::to_owned),
        cluster: cluster.map(str::to_owned),
        pool: pool.map(str::to_owned),
        nodes: names(group.iter().map(|(standing, _)| standing.node.as_str()).collect()),
        gpus: names(group.iter().filter_map(|(_, gpu)| *gpu).collect()),
        since_ms: group.iter().map(|(standing, _)| standing.start_ms).min().unwrap_or_default(),
        until_ms: group.iter().map(|(standing, _)| standing.end_ms).max().unwrap_or_default(),
    }
}

impl TuningRow {
    /// Failed checks, drift, other checks.
    fn order(&self) -> u8 {
        match (self.is_check, self.value.as_str()) {
            (true, FAIL) => 0,
            (false, _) => 1,
            (true, _) => 2,
        }
    }

    /// What is usual, to be read.
    #[must_use]
    pub fn usual(&self) -> &str {
        self.usual.as_deref().unwrap_or("nothing")
    }

    /// Is it told one by one? Warnings that all of the pool has, and what could not be read, are counted.
    fn is_shown(&self) -> bool {
        self.order() < 2 || self.difference().is_some()
    }

    /// What differs from the pool, to be read.
    fn difference(&self) -> Option<String> {
        let usual = self.usual.as_ref().filter(|usual| **usual != self.value)?;
        Some(format!("{}: {} (usual: {usual})", self.what, self.value))
    }
}

impl Tuning {
    /// Rows that a reader sees one by one; JSON has all of them.
    #[must_use]
    pub fn shown_rows(&self) -> Vec<&TuningRow> {
        self.rows.iter().filter(|row| row.is_shown()).take(super::MAX_FINDINGS).collect()
    }

    /// How many more there are.
    #[must_use]
    pub fn more_rows(&self) -> usize {
        self.rows.len() - self.shown_rows().len()
    }

    /// The pools in which nothing is usual, to be read.
    #[must_use]
    pub fn small(&self, report: &Report) -> String {
        let name = |pool: &SmallPool| {
            format!("{}{} (nodes: {})", text::name(&pool.pool), report.within(&pool.cluster), pool.nodes)
        };
        text::some(&self.small_pools.iter().map(name).collect::<Vec<_>>())
    }

    /// The nodes that are slow as others of their runs are, to be read.
    #[must_use]
    pub fn roles(&self, report: &Report) -> String {
        let name = |one: &Alike| {
            let (within, by) = (report.within(&one.cluster), one.measure.name());
            format!("{}{within} by {by} ({})", one.node, text::number(one.slowdown))
        };
        text::some(&self.alike.iter().map(name).collect::<Vec<_>>())
    }

    /// The nodes that were compared too seldom, to be read.
    #[must_use]
    pub fn seldom(&self, report: &Report) -> String {
        let name = |few: &TooFew| {
            format!("{}{} by {} ({})", few.node, report.within(&few.cluster), few.measure.name(), few.pairs)
        };
        text::some(&self.too_few.iter().map(name).collect::<Vec<_>>())
    }
}

fn small_pools(standings: &[Standing]) -> Vec<SmallPool> {
    let mut most: BTreeMap<(Option<&str>, Option<&str>), usize> = BTreeMap::new();
    for standing in standings.iter().filter(|s| s.pool_nodes > 0) {
        let nodes = most.entry((standing.cluster.as_deref(), standing.pool.as_deref())).or_default();
        *nodes = standing.pool_nodes.max(*nodes);
    }
    let small = most.into_iter().filter(|(_, nodes)| *nodes < MIN_POOL);
    let owned = |name: Option<&str>| name.map(str::to_owned);
    small.map(|((cluster, pool), nodes)| SmallPool { cluster: owned(cluster), pool: owned(pool), nodes }).collect()
}

#[cfg(test)]
mod tests;
