//! The cluster of verdicts that name none, as those of earlier releases do not. A period may have both.

use std::collections::BTreeMap;

use goodput_verdict::Interval;

/// The cluster of each GPU that some verdicts name and others do not; nothing where all do, or none.
pub(crate) fn known_clusters<'a>(all: impl Iterator<Item = &'a Interval> + Clone) -> BTreeMap<String, String> {
    if all.clone().all(|i| i.cluster.is_some()) || all.clone().all(|i| i.cluster.is_none()) {
        return BTreeMap::new();
    }
    all.filter_map(|i| Some((i.gpu.clone(), i.cluster.clone()?))).collect()
}

/// Gives the verdicts of a GPU that name no cluster the one that its others name.
pub(crate) fn recall<'a>(known: &BTreeMap<String, String>, all: impl Iterator<Item = &'a mut Interval>) {
    for interval in all.filter(|i| !known.is_empty() && i.cluster.is_none()) {
        interval.cluster = known.get(&interval.gpu).cloned();
    }
}

/// The same by what these verdicts name themselves.
pub(crate) fn recall_clusters(intervals: &mut [Interval]) {
    let known = known_clusters(intervals.iter());
    recall(&known, intervals.iter_mut());
}
