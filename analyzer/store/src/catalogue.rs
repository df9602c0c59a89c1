//! Which series exist, and their ids.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::Selection;
use goodput_exposition::sample::{Labels, LabelsRef};

/// The id of a series: small and dense, for it indexes the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct SeriesId(pub(super) u32);

#[derive(Default)]
pub(super) struct Catalogue {
    /// Searched once for every series that comes in, so by a hash that is fast over a hundred bytes and seeded by chance.
    ids: HashMap<Labels, SeriesId, RandomState>,
    labels: HashMap<SeriesId, Labels>,
    by_metric: HashMap<Box<str>, Vec<SeriesId>>,
    /// How often series were removed.
    removals: u64,
    label_bytes: u64,
}

impl Catalogue {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, labels: LabelsRef<'_>) -> Option<SeriesId> {
        self.ids.get(labels.key()).copied()
    }

    pub(super) fn labels(&self, id: SeriesId) -> Option<&Labels> {
        self.labels.get(&id)
    }

    /// Bytes of the labels of all series.
    pub(super) fn label_bytes(&self) -> u64 {
        self.label_bytes
    }

    pub(super) fn removals(&self) -> u64 {
        self.removals
    }

    /// Every series, in order of id.
    pub(super) fn all(&self) -> Vec<SeriesId> {
        let mut ids: Vec<SeriesId> = self.labels.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn remove(&mut self, gone: &HashSet<SeriesId>) {
        let mut metrics = HashSet::new();
        for labels in gone.iter().filter_map(|id| self.labels.remove(id)) {
            self.ids.remove(&labels);
            self.label_bytes -= labels.as_ref().key().len() as u64;
            metrics.insert(Box::<str>::from(labels.metric()));
        }
        for metric in metrics {
            let left = self.by_metric.get_mut(&metric).map(|ids| {
                ids.retain(|id| !gone.contains(id));
                ids.len()
            });
            if left == Some(0) {
                self.by_metric.remove(&metric);
            }
        }
        self.removals += 1;
    }

    pub(super) fn insert(&mut self, id: SeriesId, labels: Labels) {
        self.by_metric.entry(labels.metric().into()).or_default().push(id);
        self.label_bytes += labels.as_ref().key().len() as u64;
        self.labels.insert(id, labels.clone());
        self.ids.insert(labels, id);
    }

    /// The series that match, in order of id. As in PromQL, an empty value matches a label that is not there.
    pub(super) fn matching(&self, selection: &Selection) -> Vec<SeriesId> {
        let matches = |id: &SeriesId| {
            self.labels(*id).is_some_and(|labels| {
                selection.labels.iter().all(|(name, value)| labels.get(name).unwrap_or_default() == value)
            })
        };
        let mut ids: Vec<SeriesId> = if selection.metrics.is_empty() {
            self.labels.keys().copied().filter(matches).collect()
        } else {
            let named = selection.metrics.iter().filter_map(|metric| self.by_metric.get(metric.as_str()));
            named.flatten().copied().filter(matches).collect()
        };
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
