//! The cluster of verdicts that name none, as those of earlier releases do not. A period may have both.

use std::collections::BTreeMap;

use crate::classify::Interval;

/// Gives the verdicts of a GPU that name no cluster the one that its others name.
pub(crate) fn recall_clusters(parts: &mut [&mut Vec<Interval>]) {
    let all = || parts.iter().flat_map(|part| part.iter());
    if all().all(|i| i.cluster.is_some()) || all().all(|i| i.cluster.is_none()) {
        return;
    }
    let known = all().filter_map(|i| Some((i.gpu.clone(), i.cluster.clone()?)));
    let known: BTreeMap<String, String> = known.collect();
    for interval in parts.iter_mut().flat_map(|part| part.iter_mut()).filter(|i| i.cluster.is_none()) {
        interval.cluster = known.get(&interval.gpu).cloned();
    }
}
