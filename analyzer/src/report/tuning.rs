//! Tuning audit and drift: checks that did not pass, what differs from the pool, and nodes that are slow compared with
//! the others of their runs, with what is different there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Report, text};
use crate::classify::{Measure, Paired};
use crate::median::median;
use crate::sample::TimeMs;
use crate::tuning::{MIN_POOL, Standing};

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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SmallPool {
    /// The cluster of the pool; null where series name none.
    pub cluster: Option<String>,
    /// The model of its GPUs; null where settings tell none.
    pub pool: Option<String>,
    /// Nodes, at most at a time.
    pub nodes: usize,
}

/// Something that is not as it should be, or not as in the rest of the pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuningRow {
    /// The check's id, as in `docs/audit.md`, or what is set.
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
    /// End of the last one.
    pub until_ms: TimeMs,
}

/// A node's cluster and name.
type Place<'a> = (Option<&'a str>, &'a str);

fn place(standing: &Standing) -> Place<'_> {
    (standing.cluster.as_deref(), &standing.node)
}

/// Of the standings of a period. `nodes` are those that have capacity in it.
pub(super) fn tuning<'a>(standings: &[Standing], nodes: impl Iterator<Item = Place<'a>>) -> Tuning {
    let told: BTreeSet<Place<'_>> = standings.iter().filter(|s| s.pool_nodes > 0).map(place).collect();
    let mut tuning = Tuning {
        rows: rows(standings),
        small_pools: small_pools(standings),
        untold: nodes.filter(|node| !told.contains(node)).map(|(_, node)| node.to_owned()).collect(),
        ..Tuning::default()
    };
    let mut pairs: BTreeMap<(Place<'_>, Measure), Vec<&Paired>> = BTreeMap::new();
    for pair in standings.iter().flat_map(|s| &s.paired) {
        pairs.entry(((pair.cluster.as_deref(), &pair.node), pair.measure)).or_default().push(pair);
    }
    let (mut steady, mut odd) = (BTreeSet::new(), BTreeSet::new());
    for ((place, measure), pairs) in pairs {
        let (cluster, node) = (place.0.map(str::to_owned), place.1.to_owned());
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

    fn slow(self, (cluster, node): Place<'_>, measure: Measure, rows: &[TuningRow]) -> SlowNode {
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
mod tests {
    use super::super::{Period, build};
    use super::*;
    use crate::tuning::{CheckEnd, Drift};

    const HOUR: i64 = 3_600_000;

    fn standing(node: &str, hour: i64, slowdowns: &[(&str, f64)]) -> Standing {
        let pair = |(owner, slowdown): &(&str, f64)| Paired {
            cluster: None,
            node: node.to_owned(),
            owner: (*owner).to_owned(),
            measure: Measure::OwnTime,
            start_ms: hour * HOUR,
            cells: 60,
            others: 3,
            slowdown: *slowdown,
            next: 1.0,
        };
        Standing {
            node: node.to_owned(),
            start_ms: hour * HOUR,
            end_ms: (hour + 1) * HOUR,
            pool: Some("H100".to_owned()),
            pool_nodes: 4,
            paired: slowdowns.iter().map(pair).collect(),
            ..Standing::default()
        }
    }

    fn of(standings: &[Standing]) -> Tuning {
        tuning(standings, [(None, "n1")].into_iter())
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        // Ranks of the 95 % interval: Conover's table A3 for n to 20, and the usual ones for 30, 100 and 2,000.
        for (n, low) in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (30, 10), (100, 40), (2000, 956)] {
            let sorted: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = (f64::from(low), f64::from(n + 1 - low));
            assert_eq!(median_interval(&sorted), Some(expected), "{n}");
        }
        assert_eq!(median_interval(&[2.0; 5]), None);
    }

    #[test]
    fn slow_is_slower_by_a_tenth_and_not_by_chance() {
        let hours = |ratios: &[f64]| -> Vec<Standing> {
            (0..).zip(ratios).map(|(hour, ratio)| standing("n1", hour, &[("slurm/1", *ratio)])).collect()
        };
        let slow = |ratios: &[f64]| of(&hours(ratios)).slow.into_iter().map(|s| s.slowdown).next();
        assert_eq!(slow(&[1.3, 1.2, 1.4, 1.3, 1.2, 1.3]), Some(1.3));
        assert_eq!(slow(&[1.05; 50]), None, "too little to act on");
        assert_eq!(slow(&[1.3, 1.2, 1.4, 1.3, 1.2, 0.9]), None, "once it was the faster one, of six");
        assert_eq!(slow(&[2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 0.5, 2.0, 2.0]), None, "by chance");
        let few = of(&hours(&[3.0; 5]));
        let too_few = TooFew { cluster: None, node: "n1".to_owned(), measure: Measure::OwnTime, pairs: 5 };
        assert_eq!((few.slow, few.too_few, few.steady), (vec![], vec![too_few], 0));
    }

    /// By the facts of two production jobs (ByteDance, StragglerAnalysis): of one, a single worker is 2.50 times as slow,
    /// the next 1.07 times; of the other, the last pipeline stage is 2.06 and 2.08 times as slow on both of its ranks.
    #[test]
    fn a_node_that_is_slow_alone_is_named_and_two_that_are_slow_alike_are_not() {
        let of_two = |slowdown: f64, next: f64| {
            let hours = (0..8).map(|hour| {
                let mut one = standing("n1", hour, &[("slurm/1", slowdown)]);
                one.paired.iter_mut().for_each(|pair| pair.next = next);
                one
            });
            let tuning = of(&hours.collect::<Vec<_>>());
            (tuning.slow.len(), tuning.alike.len(), tuning.steady)
        };
        assert_eq!(of_two(2.5, 1.07), (1, 0, 0));
        assert_eq!(of_two(2.08, 2.06), (0, 1, 0));
        assert_eq!(of_two(2.06, 2.08), (0, 1, 0));
        assert_eq!(of_two(1.07, 2.5), (0, 0, 1));
    }

    #[test]
    fn the_slowest_comes_first_with_what_differs_there() {
        let mut all = Vec::new();
        for hour in 0..8 {
            all.push(standing("n1", hour, &[("slurm/1", 1.0)]));
            all.push(standing("n2", hour, &[("slurm/1", 1.2), ("slurm/2", 1.25)]));
            let mut drifted = standing("n3", hour, &[("slurm/1", 1.5)]);
            let text = str::to_owned;
            let (setting, value, usual) = (text("swappiness"), text("60"), text("1"));
            drifted.drift.push(Drift { setting, gpu: None, value, usual, alike: 3, of: 4 });
            let (check, status, usual) = (text("swap_off"), text("fail"), Some(text("fail")));
            drifted.checks.push(CheckEnd { check, status, usual });
            all.push(drifted);
        }
        let tuning = of(&all);
        let short: Vec<_> =
            tuning.slow.iter().map(|s| (s.node.as_str(), s.slowdown, s.pairs, s.runs, s.differs.join(", "))).collect();
        let differs = "swappiness: 60 (usual: 1)".to_owned();
        assert_eq!(short, [("n3", 1.5, 8, 1, differs), ("n2", 1.225, 16, 2, String::new())]);
        assert_eq!(tuning.steady, 1);
        let rows: Vec<_> =
            tuning.rows.iter().map(|r| (r.what.as_str(), r.value.as_str(), r.nodes.join(", "))).collect();
        assert_eq!(rows, [("swap_off", "fail", "n3".to_owned()), ("swappiness", "60", "n3".to_owned())]);
        assert_eq!((tuning.rows[0].since_ms, tuning.rows[0].until_ms), (0, 8 * HOUR));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let small = Standing { pool_nodes: 2, ..standing("n2", 0, &[]) };
        let blind = Standing { pool: None, pool_nodes: 0, ..standing("n1", 0, &[]) };
        let tuning = of(&[small, blind]);
        let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
        assert_eq!(tuning.small(&build(&[], &[], week, &[])), "H100 (nodes: 2)");
        assert_eq!(tuning.untold, ["n1"]);
    }

    #[test]
    fn warnings_of_the_whole_pool_are_counted() {
        let mut one = standing("n1", 0, &[]);
        for (check, status, usual) in
            [("a", "warn", "warn"), ("b", "warn", "pass"), ("c", "fail", "fail"), ("d", "error", "error")]
        {
            let [check, status, usual] = [check, status, usual].map(str::to_owned);
            one.checks.push(CheckEnd { check, status, usual: Some(usual) });
        }
        let tuning = of(&[one]);
        let shown: Vec<&str> = tuning.shown_rows().into_iter().map(|row| row.what.as_str()).collect();
        assert_eq!((shown, tuning.more_rows()), (vec!["c", "b"], 2));
    }
}
