//! What is wrong with a series that can be read, and yet breaks the data model or a limit.

/// Bytes of a text that an error repeats.
const EXCERPT_BYTES: usize = 64;

goodput_catalog::named! {
    /// Why a series is skipped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// A label's name and value are too long together.
        LabelBytes = "label_bytes",
        /// There are too many labels.
        LabelCount = "label_count",
        /// A label has no name.
        EmptyLabel = "empty_label",
        /// Two labels have one name.
        DuplicateLabel = "duplicate_label",
        /// A name or a value is not UTF-8.
        InvalidUtf8 = "invalid_utf8",
        /// The metric name is missing or empty.
        MetricName = "metric_name",
        /// Remote write 2.0: a label refers to a symbol that does not exist, or has no value.
        Symbol = "symbol",
        /// The line cannot be read.
        Syntax = "syntax",
    }
}

/// What is wrong with a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// By which rule.
    pub reason: Reason,
    /// For people: which label, and what was expected.
    pub detail: String,
    /// Bytes of the series' labels.
    pub bytes: usize,
}

impl Fault {
    /// Of a label that is too long.
    #[must_use]
    pub fn long_label(name: &str, value: &str, limit: usize) -> Self {
        let bytes = name.len() + value.len();
        let detail = format!("label {:?} of {bytes} bytes, more than {limit}", excerpt(name));
        Self { reason: Reason::LabelBytes, detail, bytes }
    }

    /// Of one label more than there may be.
    #[must_use]
    pub fn many_labels(limit: usize) -> Self {
        Self { reason: Reason::LabelCount, detail: format!("more than {limit} labels"), bytes: 0 }
    }

    /// Of a name that two labels have.
    #[must_use]
    pub fn twice(name: &str) -> Self {
        let detail = format!("label {:?} is there twice", excerpt(name));
        Self { reason: Reason::DuplicateLabel, detail, bytes: 0 }
    }

    /// Of a label without a name.
    #[must_use]
    pub fn nameless(place: usize) -> Self {
        Self { reason: Reason::EmptyLabel, detail: format!("label {place} has no name"), bytes: 0 }
    }

    /// Of a series that no metric name belongs to.
    #[must_use]
    pub fn no_metric() -> Self {
        Self { reason: Reason::MetricName, detail: "the metric name is missing".to_owned(), bytes: 0 }
    }
}

/// The beginning of a text that may be long.
#[must_use]
pub fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXCERPT_BYTES)]
}
