//! Limits of one scrape job, with the names and the meaning that they have in Prometheus' `scrape_config`: a scrape that
//! breaks one fails as a whole. Pure.

use std::borrow::Cow;

/// `None`: no limit but those of all scrapes, [`Limits`](super::super::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct JobLimits {
    /// Samples of a scrape.
    pub sample_limit: Option<usize>,
    /// Labels of a series, the target's and the name included.
    pub label_limit: Option<usize>,
    /// Bytes of a label's name.
    pub label_name_length_limit: Option<usize>,
    /// Bytes of a label's value, the metric name too.
    pub label_value_length_limit: Option<usize>,
    /// Bytes of an answer once decompressed.
    pub body_size_limit: Option<usize>,
    /// Targets of the job. With more of them no target is scraped, and each is down.
    pub target_limit: Option<usize>,
}

impl JobLimits {
    /// Name and value of each, as they are configured.
    #[must_use]
    pub fn list(&self) -> [(&'static str, Option<usize>); 6] {
        [
            ("sample_limit", self.sample_limit),
            ("label_limit", self.label_limit),
            ("label_name_length_limit", self.label_name_length_limit),
            ("label_value_length_limit", self.label_value_length_limit),
            ("body_size_limit", self.body_size_limit),
            ("target_limit", self.target_limit),
        ]
    }

    /// Which limit this number of samples breaks.
    pub(super) fn broken_by_samples(&self, samples: usize) -> Option<String> {
        let limit = self.sample_limit.filter(|limit| samples > *limit)?;
        Some(format!("more than {limit} samples (sample_limit of its job)"))
    }

    /// Which limit the labels of a series break, the name among them. A label without a value is none.
    pub(super) fn broken_by_labels(&self, labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Option<String> {
        let Self { label_limit, label_name_length_limit, label_value_length_limit, .. } = *self;
        // Most jobs have none of them.
        label_limit.or(label_name_length_limit).or(label_value_length_limit)?;
        let there = || labels.iter().filter(|(_, value)| !value.is_empty());
        let metric = || there().find(|(name, _)| name == "__name__").map_or("", |(_, value)| value);
        let broken = |what: &str, limit: usize, name: &str| {
            format!("a series of {:?} has {what} more than {limit} ({name} of its job)", super::excerpt(metric()))
        };
        if let Some(limit) = label_limit.filter(|limit| there().count() > *limit) {
            return Some(broken("labels:", limit, "label_limit"));
        }
        let longest = |text: fn(&(Cow<'_, str>, Cow<'_, str>)) -> usize| there().map(text).max().unwrap_or_default();
        if let Some(limit) = label_name_length_limit.filter(|limit| longest(|(name, _)| name.len()) > *limit) {
            return Some(broken("a label name of bytes:", limit, "label_name_length_limit"));
        }
        let limit = label_value_length_limit.filter(|limit| longest(|(_, value)| value.len()) > *limit)?;
        Some(broken("a label value of bytes:", limit, "label_value_length_limit"))
    }
}
