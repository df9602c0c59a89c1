//! GPUs by the names that people give them: the index on their node, where some series of theirs has it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use goodput_exposition::sample::Labels;
use goodput_rules::signal::{Signal, metrics_of};
use goodput_store::{Samples, Selection};

use super::text;

/// Series that every exporter of GPUs has.
const COMMON: [Signal; 3] = [Signal::GpuBusy, Signal::GpuUtilization, Signal::FbUsed];

/// Index on its node of each GPU, by UUID; without those of which no series tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// The metrics whose series tell.
    #[must_use]
    pub fn metrics() -> Vec<String> {
        metrics_of(&COMMON)
    }

    /// What these series tell.
    #[must_use]
    pub fn of(series: &[Labels]) -> Self {
        let named = series.iter().filter_map(|series| {
            let uuid = series.get("UUID").or_else(|| series.get("uuid"))?;
            let index = series.get("gpu").filter(|index| is_index(index))?;
            Some((uuid.to_owned(), index.to_owned()))
        });
        Self(named.collect())
    }

    /// Of every GPU that has series.
    pub(crate) fn of_all(store: &impl Samples) -> Self {
        Self::matching(store, Vec::new())
    }

    /// Of one GPU.
    pub(crate) fn of_gpu(store: &impl Samples, uuid: &str) -> Self {
        let by = |label: &str| Self::matching(store, vec![(label.to_owned(), uuid.to_owned())]);
        let (upper, lower) = (by("UUID"), by("uuid"));
        if upper.is_empty() { lower } else { upper }
    }

    fn matching(store: &impl Samples, labels: Vec<(String, String)>) -> Self {
        Self::of(&store.known(&Selection { metrics: Self::metrics(), labels, range: 0..0 }))
    }

    /// Is no GPU named?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all GPUs but these.
    pub(super) fn keep(&mut self, uuids: &BTreeSet<&str>) {
        self.0.retain(|uuid, _| uuids.contains(uuid.as_str()));
    }

    /// `3`; none where no series tells.
    #[must_use]
    pub fn index(&self, uuid: &str) -> Option<&str> {
        self.0.get(uuid).map(String::as_str)
    }

    /// In the order of indices, those without one last, by UUID.
    pub(crate) fn order<'a>(&self, uuid: &'a str) -> (usize, &'a str) {
        (self.index(uuid).and_then(|index| index.parse().ok()).unwrap_or(usize::MAX), uuid)
    }

    /// `GPU 3`, else enough of its UUID.
    pub(crate) fn short(&self, uuid: &str) -> String {
        self.index(uuid).map_or_else(|| text::short(uuid).to_owned(), |index| format!("GPU {index}"))
    }

    /// `GPU 3 on n1`, else enough of its UUID and the node.
    #[must_use]
    pub fn on_node(&self, node: &str, uuid: &str) -> String {
        format!("{} on {node}", self.short(uuid))
    }
}

/// Some exporters write a UUID or a bus id there.
fn is_index(text: &str) -> bool {
    !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit())
}
