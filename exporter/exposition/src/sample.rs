//! What every way in produces: labelled series of timed values.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

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

/// The labels of a series, sorted by name, `__name__` included, no empty values. One piece of memory, shared by clones.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels(Arc<str>);

impl Labels {
    /// Sorts and takes the pairs; pairs with an empty value are dropped, as in Prometheus' data model.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let pairs: Vec<(N, V)> = pairs.into_iter().collect();
        let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (n.as_ref(), v.as_ref())).collect();
        let mut packed = String::new();
        pack(&mut pairs, &mut packed);
        Self(packed.into())
    }

    /// The labels of [`LabelsRef::key`]; none when the text is not such a key.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        let labels = Self::new(LabelsRef(key).iter());
        (labels.0.as_ref() == key).then_some(labels)
    }

    /// The same labels, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> LabelsRef<'_> {
        LabelsRef(&self.0)
    }

    /// The label's value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.as_ref().get(name)
    }

    /// The metric name.
    #[must_use]
    pub fn metric(&self) -> &str {
        self.as_ref().metric()
    }

    /// Name and value of every label, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.as_ref().iter()
    }
}

/// What a table of series is searched by, so that labels that are only borrowed can be looked up.
impl std::borrow::Borrow<str> for Labels {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// By name, then value, label after label.
impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Borrowed [`Labels`], such as those of a [`Batch`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LabelsRef<'a>(&'a str);

impl<'a> LabelsRef<'a> {
    /// The label's value.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The metric name.
    #[must_use]
    pub fn metric(self) -> &'a str {
        self.get("__name__").unwrap_or_default()
    }

    /// Name and value of every label, in order of name.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut rest = self.0;
        std::iter::from_fn(move || Some((unpack(&mut rest)?, unpack(&mut rest)?)))
    }

    /// What tells these labels from all others: equal for equal labels.
    #[must_use]
    pub fn key(self) -> &'a str {
        self.0
    }

    /// A copy.
    #[must_use]
    pub fn to_labels(self) -> Labels {
        Labels(self.0.into())
    }
}

impl fmt::Debug for LabelsRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Bits of a length in one character; the next bit says that more follow. All of them are ASCII, so that packed labels
/// are text that can be cut without being checked again.
const LENGTH_BITS: u32 = 6;
const MORE: u8 = 1 << LENGTH_BITS;

/// Appends the pairs in order, each text after its length.
fn pack<T: AsRef<str> + Ord, U: AsRef<str> + Ord>(pairs: &mut [(T, U)], packed: &mut String) {
    if !pairs.is_sorted() {
        pairs.sort_unstable();
    }
    let texts =
        pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).filter(|(_, value)| !value.is_empty());
    for text in texts.flat_map(|(name, value)| [name, value]) {
        let mut length = text.len();
        while length >= usize::from(MORE) {
            packed.push(char::from(length as u8 % MORE + MORE));
            length >>= LENGTH_BITS;
        }
        packed.push(char::from(length as u8));
        packed.push_str(text);
    }
}

/// Takes the first text off; none at the end.
fn unpack<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let mut length = 0;
    for (n, byte) in rest.bytes().enumerate() {
        length += usize::from(byte % MORE) << (n as u32 * LENGTH_BITS);
        if byte < MORE {
            let (text, after) = rest[n + 1..].split_at_checked(length)?;
            *rest = after;
            return Some(text);
        }
    }
    None
}

/// One series' samples. What is read from a store is in order of time; what arrives need not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Who.
    pub labels: Labels,
    /// What, when.
    pub samples: Vec<Sample>,
}

/// A series of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesRef<'a> {
    /// Who.
    pub labels: LabelsRef<'a>,
    /// What, when.
    pub samples: &'a [Sample],
}

/// One delivery: a scrape, a remote-write request, part of a file. A scrape has each series once; a remote-write request
/// may repeat one. All its labels are one piece of memory and all its samples another, so that neither a series nor a
/// sample costs an allocation.
#[derive(Clone, Default, PartialEq)]
pub struct Batch {
    labels: String,
    samples: Vec<Sample>,
    /// Where each series ends in both.
    ends: Vec<(usize, usize)>,
    sender: Arc<str>,
    job: Option<ScrapeJob>,
}

/// The scrape job that a batch is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeJob {
    /// Its name.
    pub name: Arc<str>,
    /// Series that all its targets together may have; `None`: as many as one sender.
    pub max_series: Option<usize>,
}

impl Batch {
    /// The same, brought by this sender: an address or a target.
    #[must_use]
    pub fn sent_by(mut self, sender: &str) -> Self {
        self.sender = sender.into();
        self
    }

    /// The same, scraped for this job.
    #[must_use]
    pub fn scraped_for(mut self, job: ScrapeJob) -> Self {
        self.job = Some(job);
        self
    }

    /// The scrape job; `None` when a sender brought it.
    #[must_use]
    pub fn job(&self) -> Option<&ScrapeJob> {
        self.job.as_ref()
    }

    /// Who brought it; empty when that is not known.
    #[must_use]
    pub fn sender(&self) -> &Arc<str> {
        &self.sender
    }

    /// Number of series.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Is there no series?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of samples of all series.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.ends.last().map_or(0, |(_, samples)| *samples)
    }

    /// The samples of all series.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        self.samples.get(..self.sample_count()).unwrap_or_default()
    }

    /// Memory of all labels.
    #[must_use]
    pub fn label_bytes(&self) -> usize {
        self.labels.len()
    }

    /// Adds a sample to the series that [`Batch::end`] will name.
    pub fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Ends a series: the samples added since the last one are of these labels, whose names are all different. Without
    /// samples there is no series. The pairs are sorted.
    pub fn end<T: AsRef<str> + Ord, U: AsRef<str> + Ord>(&mut self, pairs: &mut [(T, U)]) {
        if self.samples.len() > self.sample_count() {
            pack(pairs, &mut self.labels);
            self.ends.push((self.labels.len(), self.samples.len()));
        }
    }

    /// Drops the samples that no series has been named for. Returns how many.
    pub fn drop_open(&mut self) -> usize {
        let open = self.samples.len() - self.sample_count();
        self.samples.truncate(self.sample_count());
        open
    }

    /// Adds a whole series.
    pub fn push(&mut self, labels: LabelsRef<'_>, samples: &[Sample]) {
        if !samples.is_empty() {
            self.labels.push_str(labels.0);
            self.samples.extend_from_slice(samples);
            self.ends.push((self.labels.len(), self.samples.len()));
        }
    }

    /// The labels of the series that was added last; empty ones when there is none.
    #[must_use]
    pub fn last_labels(&self) -> LabelsRef<'_> {
        let start = self.ends.iter().rev().nth(1).map_or(0, |(labels, _)| *labels);
        LabelsRef(self.labels.get(start..).unwrap_or_default())
    }

    /// Takes the series that was added last out again.
    pub fn take_back(&mut self) {
        self.ends.pop();
        let (labels, samples) = self.ends.last().copied().unwrap_or_default();
        self.labels.truncate(labels);
        self.samples.truncate(samples);
    }

    /// The series in the order in which they came.
    pub fn series(&self) -> impl Iterator<Item = SeriesRef<'_>> {
        let starts = std::iter::once(&(0, 0)).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| SeriesRef {
            labels: LabelsRef(&self.labels[start.0..end.0]),
            samples: &self.samples[start.1..end.1],
        })
    }

    /// May a label of this name be there? False is certain.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        self.labels.contains(name)
    }
}

impl FromIterator<Series> for Batch {
    fn from_iter<I: IntoIterator<Item = Series>>(series: I) -> Self {
        let mut batch = Self::default();
        series.into_iter().for_each(|series| batch.push(series.labels.as_ref(), &series.samples));
        batch
    }
}

/// The series one by one, each with memory of its own.
impl IntoIterator for Batch {
    type Item = Series;
    type IntoIter = std::vec::IntoIter<Series>;

    fn into_iter(self) -> Self::IntoIter {
        let own =
            |series: SeriesRef<'_>| Series { labels: series.labels.to_labels(), samples: series.samples.to_vec() };
        self.series().map(own).collect::<Vec<_>>().into_iter()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.series()).finish()
    }
}

#[cfg(test)]
mod tests;
