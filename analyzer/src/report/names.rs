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

/// The index of each GPU on its node, by UUID. A GPU is not in it where no series has its index, or where series have two:
/// the index may change when the node starts again.
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
        let mut told: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for series in series {
            let uuid = series.get("UUID").or_else(|| series.get("uuid"));
            if let Some((uuid, index)) = uuid.zip(series.get("gpu").filter(|index| is_index(index))) {
                told.entry(uuid).or_default().insert(index);
            }
        }
        let only = |(uuid, indices): (&str, BTreeSet<&str>)| {
            let index = indices.first().filter(|_| indices.len() == 1)?;
            Some((uuid.to_owned(), (*index).to_owned()))
        };
        Self(told.into_iter().filter_map(only).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_with_two_indices_has_none() {
        let series = |uuid, gpu| Labels::new([("__name__", "m"), ("UUID", uuid), ("gpu", gpu)]);
        let names = Names::of(&[
            series("GPU-a", "0"),
            series("GPU-a", "0"),
            series("GPU-b", "1"),
            series("GPU-b", "2"),
            series("GPU-c", "00000000:19:00.0"),
        ]);
        assert_eq!(["GPU-a", "GPU-b", "GPU-c"].map(|uuid| names.index(uuid)), [Some("0"), None, None]);
        assert_eq!(names.on_node("n1", "GPU-a"), "GPU 0 on n1");
    }
}
