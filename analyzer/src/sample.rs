//! What every way in produces: labelled series of timed values.

use std::fmt;

/// Milliseconds since the Unix epoch, UTC.
pub type TimeMs = i64;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub time_ms: TimeMs,
    /// What. A staleness marker is [`STALE`], bit for bit.
    pub value: f64,
}

/// Prometheus' staleness marker: the NaN with these bits says that the series ended here.
/// Source: `value.StaleNaN` of Prometheus' model.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Does the value mark the end of a series?
#[must_use]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// The labels of a series, sorted by name, `__name__` included, no empty values.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Vec<(Box<str>, Box<str>)>);

impl Labels {
    /// Sorts and takes the pairs; pairs with an empty value are dropped, as in Prometheus' data model.
    pub fn new<N: Into<Box<str>>, V: Into<Box<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(n, v)| (n.into(), v.into())).filter(|(_, v)| !v.is_empty()).collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    /// The label's value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok().map(|i| self.0[i].1.as_ref())
    }

    /// The metric name.
    #[must_use]
    pub fn metric(&self) -> &str {
        self.get("__name__").unwrap_or_default()
    }

    /// Name and value of every label, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_ref(), v.as_ref()))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// One series' samples. What is read from a store is in order of time; what arrives need not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Who.
    pub labels: Labels,
    /// What, when.
    pub samples: Vec<Sample>,
}

/// One delivery: a scrape, a remote-write request, part of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// A scrape has each series once; a remote-write request may repeat one.
    pub series: Vec<Series>,
}
