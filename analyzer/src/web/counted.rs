//! Time of a period, counted by node or by run.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::{Item, Ledger};

/// The time of one node or run.
pub(super) struct Counted<'a, K> {
    pub(super) key: K,
    pub(super) gpus: BTreeSet<&'a str>,
    pub(super) ledger: Ledger<'a>,
    /// One of its items.
    pub(super) item: &'a Item<'a>,
}

/// What has a key, the greatest loss first.
pub(super) fn by_loss<'a, K: Ord + Copy>(
    items: &'a [Item<'a>],
    key: impl Fn(&'a Item<'a>) -> Option<K>,
) -> Vec<Counted<'a, K>> {
    let mut by_key: BTreeMap<K, Vec<&Item<'_>>> = BTreeMap::new();
    for item in items {
        if let Some(key) = key(item) {
            by_key.entry(key).or_default().push(item);
        }
    }
    let counted = |(key, items): (K, Vec<&'a Item<'a>>)| Counted {
        key,
        gpus: items.iter().map(|item| item.gpu.as_str()).collect(),
        item: items[0],
        ledger: Ledger::of(items),
    };
    let mut all: Vec<Counted<'_, K>> = by_key.into_iter().map(counted).collect();
    all.sort_by_key(|counted| std::cmp::Reverse(counted.ledger.lost().gpu_ms));
    all
}
