//! A scrape as text, taken apart.

use std::collections::BTreeMap;

use goodput_exposition::{Format, Limits, Points};

/// Labels that tell a MIG instance.
pub(crate) const INSTANCE: [&str; 2] = ["GPU_I_ID", "GPU_I_PROFILE"];

/// One sample.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Without empty ones, which to Prometheus are none.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Series {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// Place of the GPU in the node.
    pub(crate) fn gpu(&self) -> usize {
        self.label("gpu").unwrap().parse().unwrap()
    }

    /// Id of the MIG instance.
    pub(crate) fn instance(&self) -> Option<u32> {
        self.label("GPU_I_ID").map(|id| id.parse().unwrap())
    }
}

/// The samples of GPUs, and what stands above them.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub(crate) series: Vec<Series>,
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) helps: BTreeMap<String, String>,
}

impl Scrape {
    /// Families under dcgm-exporter's names alone.
    pub(crate) fn parse(text: &str) -> Self {
        let about = |word: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("# {word} DCGM_"))?.split_once(' '));
            lines.map(|(name, rest)| (format!("DCGM_{name}"), rest.to_owned())).collect()
        };
        let samples = Points::new(text, Format::Text, Limits::NONE).map(|point| point.unwrap());
        let series = samples.filter(|point| point.name.starts_with("DCGM_")).map(|point| Series {
            name: point.name.into_owned(),
            labels: point
                .labels
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
            value: point.value,
        });
        Self { series: series.collect(), types: about("TYPE"), helps: about("HELP") }
    }
}
