//! Signals that contradict each other, or are no readings, and how much time that concerns.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::gap::in_order;
use super::sum::{Amount, Sum};
use super::summed::Item;
use goodput_verdict::Class;

/// One contradiction, as evidence names it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Contradiction {
    /// The evidence, such as `gpu_power contradicts`.
    pub evidence: String,
    /// Time with it; share of capacity. A cell may have several, so that their times are not to be added.
    pub amount: Amount,
    /// The classes of this time.
    pub classes: Vec<Class>,
    /// Where.
    pub nodes: Vec<String>,
}

/// Every contradiction, the one that concerns the most time first.
pub(super) fn contradictions(items: &[Item<'_>], capacity_ms: i64) -> Vec<Contradiction> {
    let mut by_name: BTreeMap<&str, (Sum<'_>, BTreeSet<Class>, HashSet<&str>)> = BTreeMap::new();
    for item in items {
        for evidence in &item.grounds.contradictions {
            let (sum, classes, nodes) = by_name.entry(evidence).or_default();
            sum.add(item);
            classes.insert(item.class);
            nodes.insert(&item.interval().node);
        }
    }
    let all = by_name.into_iter().map(|(evidence, (sum, classes, nodes))| Contradiction {
        evidence: evidence.to_owned(),
        amount: sum.amount(capacity_ms),
        classes: classes.into_iter().collect(),
        nodes: in_order(nodes),
    });
    let mut all: Vec<Contradiction> = all.collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.amount.gpu_ms));
    all
}
