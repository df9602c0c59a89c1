//! Which fields of DCGM are served, and as what: dcgm-exporter's counters file as a value.

use std::collections::BTreeMap;

use goodput_catalog::dcgm::{Selection, by_name};
use serde::Deserialize;

/// What a field is served as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterType {
    /// A gauge.
    Gauge,
    /// A counter.
    Counter,
    /// Allowed in the file; one value per GPU can be none.
    Histogram,
    /// As for a histogram.
    Summary,
    /// A constant label on all series of the GPU, no family of its own.
    Label,
}

/// One row: a field that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Where it stands in the file, from 1.
    pub line: usize,
    /// The field's name, such as `DCGM_FI_DEV_GPU_TEMP`.
    pub field: String,
    /// What it is served as.
    pub kind: CounterType,
    /// Help text; may be empty.
    pub help: String,
}

/// The fields of a counters file.
#[derive(Debug, Default)]
pub struct Counters {
    rows: Vec<Counter>,
    /// Rows by the names of their families, in all spellings.
    families: BTreeMap<String, usize>,
}

impl From<Vec<Counter>> for Counters {
    fn from(rows: Vec<Counter>) -> Self {
        let mut families = BTreeMap::new();
        for (i, counter) in rows.iter().enumerate().filter(|(_, counter)| counter.kind != CounterType::Label) {
            let known = by_name(&counter.field).map(|row| [row.legacy.name, row.current.name]);
            for name in known.into_iter().flatten().chain([counter.field.as_str()]) {
                families.entry(name.to_owned()).or_insert(i);
            }
        }
        Self { rows, families }
    }
}

impl Counters {
    /// The row that asks for this family.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&Counter> {
        self.families.get(name).and_then(|i| self.rows.get(*i))
    }

    /// The fields that are asked for, as metrics and as labels.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let asked = |row: &&Counter| Some((by_name(&row.field)?, row.kind == CounterType::Label));
        let wanted = self.rows.iter().filter_map(|row| asked(&row)).filter(|(row, label)| row.is_label() == *label);
        Selection::new(wanted.map(|(row, _)| row.id))
    }

    /// Is this field asked for as a label?
    #[must_use]
    pub fn label(&self, field: &str) -> bool {
        self.rows.iter().any(|counter| counter.kind == CounterType::Label && counter.field == field)
    }

    /// The rows in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Counter] {
        &self.rows
    }
}
