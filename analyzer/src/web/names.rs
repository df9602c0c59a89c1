//! GPUs by the names that people give them: the index on their node, where some series of theirs has it.

use std::collections::HashMap;

use crate::report::text;
use goodput_rules::signal::{Signal, metrics_of};
use goodput_store::{Samples, Selection};

/// Series that every exporter of GPUs has.
const COMMON: [Signal; 3] = [Signal::GpuBusy, Signal::GpuUtilization, Signal::FbUsed];

/// Indices of GPUs by UUID.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// Of every GPU that has series.
    pub(super) fn of_all(store: &impl Samples) -> Self {
        Self::matching(store, &[Vec::new()])
    }

    /// Of one GPU.
    pub(super) fn of_gpu(store: &impl Samples, uuid: &str) -> Self {
        Self::matching(store, &["UUID", "uuid"].map(|label| vec![(label.to_owned(), uuid.to_owned())]))
    }

    fn matching(store: &impl Samples, choices: &[Vec<(String, String)>]) -> Self {
        let mut names = HashMap::new();
        for labels in choices {
            let selection = Selection { metrics: metrics_of(&COMMON), labels: labels.clone(), range: 0..0 };
            for series in store.known(&selection) {
                let uuid = series.get("UUID").or_else(|| series.get("uuid"));
                if let Some((uuid, index)) = uuid.zip(series.get("gpu").filter(|index| is_index(index))) {
                    names.insert(uuid.to_owned(), index.to_owned());
                }
            }
        }
        Self(names)
    }

    /// `3`; none where no series tells.
    pub(super) fn index(&self, uuid: &str) -> Option<&str> {
        self.0.get(uuid).map(String::as_str)
    }

    /// In the order of indices, those without one last, by UUID.
    pub(super) fn order<'a>(&self, uuid: &'a str) -> (usize, &'a str) {
        (self.index(uuid).and_then(|index| index.parse().ok()).unwrap_or(usize::MAX), uuid)
    }

    /// `GPU 3`, else enough of its UUID.
    pub(super) fn short(&self, uuid: &str) -> String {
        self.index(uuid).map_or_else(|| text::short(uuid).to_owned(), |index| format!("GPU {index}"))
    }

    /// `GPU 3 on n1`, else enough of its UUID and the node.
    pub(super) fn on_node(&self, node: &str, uuid: &str) -> String {
        format!("{} on {node}", self.short(uuid))
    }
}

/// Some exporters write a UUID or a bus id there.
fn is_index(text: &str) -> bool {
    !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit())
}
