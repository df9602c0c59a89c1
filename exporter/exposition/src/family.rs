//! The plain value between collectors and encoders: samples grouped by family.

mod counters;
mod devices;
mod style;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use goodput_catalog::{HOST_LABEL, Kind, Metric, Unit, dcgm};

pub use counters::{Counter, CounterType, Counters};
pub use devices::Devices;
pub use style::{Constants, Style};

/// Longest label value in characters; a longer one is cut. Longer than any name that Kubernetes, Slurm or systemd
/// allow, and a bound on what a hostile path can cost.
const MAX_VALUE_CHARS: usize = 1024;

/// Samples of one scrape, grouped by metric and kept as finished sample lines.
///
/// Both text formats share their sample lines byte for byte and differ only in the lines about a family, so a line is
/// written once, here, whatever the format turns out to be.
pub struct Families {
    by_name: BTreeMap<Cow<'static, str>, Family>,
    style: Arc<Style>,
}

impl Default for Families {
    fn default() -> Self {
        Self::new(Some(HOST_LABEL))
    }
}

/// One metric's head and its sample lines.
pub struct Family {
    pub(crate) head: Head,
    pub(crate) lines: String,
    pub(crate) samples: usize,
    /// Hashes of the labels that have been written: a server refuses all of a scrape that has one series twice, and kernels
    /// repeat lines.
    series: HashSet<u64>,
}

impl Family {
    fn new(head: Head) -> Self {
        Self { head, lines: String::new(), samples: 0, series: HashSet::new() }
    }

    /// Writes one sample with these labels, unless it has been written.
    fn add<N: AsRef<str>, V: AsRef<str>>(&mut self, labels: impl Iterator<Item = (N, V)>, value: f64) {
        let begin = self.lines.len();
        self.lines.push_str(&self.head.name);
        write_labels(&mut self.lines, labels);
        let mut hasher = DefaultHasher::new();
        self.lines[begin..].hash(&mut hasher);
        if !self.series.insert(hasher.finish()) {
            return self.lines.truncate(begin);
        }
        write_value(&mut self.lines, value);
        self.samples += 1;
    }
}

/// What the lines about a family are made of: a catalog row, or what another exporter declared.
pub struct Head {
    /// Name of the family.
    pub name: Cow<'static, str>,
    /// `None` where another exporter did not say, or said something that its samples are not.
    pub kind: Option<Kind>,
    /// Unit of the values.
    pub unit: Unit,
    /// Help text; may be empty.
    pub help: Cow<'static, str>,
}

impl From<&'static Metric> for Head {
    fn from(metric: &'static Metric) -> Self {
        Self { name: metric.name.into(), kind: Some(metric.kind), unit: metric.unit, help: metric.help.into() }
    }
}

impl Families {
    /// No samples yet; `host_label` is how [`HOST_LABEL`] is written, `None` leaves it out.
    #[must_use]
    pub fn new(host_label: Option<&'static str>) -> Self {
        Self::styled(Arc::new(Style { host_label, ..Style::default() }))
    }

    /// No samples yet; those of dcgm-exporter's families are selected and written in this style.
    #[must_use]
    pub fn styled(style: Arc<Style>) -> Self {
        Self { by_name: BTreeMap::new(), style }
    }

    /// Adds one sample. `values` are the label values in the order of the row's labels; an absent value adds nothing.
    pub fn push(&mut self, metric: &'static Metric, values: &[&str], value: impl Into<Option<f64>>) {
        self.push_with(metric, values, &[], value);
    }

    /// Adds one sample with optional labels; one whose value is empty is left out.
    pub fn push_with(
        &mut self,
        metric: &'static Metric,
        values: &[&str],
        optional: &[&str],
        value: impl Into<Option<f64>>,
    ) {
        debug_assert_eq!(values.len(), metric.labels.len(), "{}", metric.name);
        debug_assert!(optional.len() <= metric.optional.len(), "{}", metric.name);
        let Some(value) = value.into() else { return };
        let style = self.style.clone();
        if !style.wants(metric, values) {
            return;
        }
        let labels = metric.labels.iter().zip(values).filter_map(|(n, v)| style.label(metric, n, v));
        let constants = style.constants(metric, values).map(|(n, v)| (n, v.into()));
        let extra = metric.optional.iter().zip(optional).filter(|(_, v)| !v.is_empty());
        let extra = extra.map(|(n, v)| (*n, Cow::Borrowed(*v)));
        self.family(metric).add(labels.chain(constants).chain(extra), value);
    }

    /// Adds one histogram. `buckets` are (upper bound, cumulative count) without the `+Inf` bucket.
    pub fn push_histogram(
        &mut self,
        metric: &'static Metric,
        values: &[&str],
        buckets: &[(f64, u64)],
        count: u64,
        sum: f64,
    ) {
        debug_assert_eq!(metric.kind, Kind::Histogram, "{}", metric.name);
        debug_assert_eq!(values.len(), metric.labels.len(), "{}", metric.name);
        let family = self.family(metric);
        let bounds = buckets.iter().map(|(le, n)| (bound(*le), *n)).chain([("+Inf".to_owned(), count)]);
        for (le, n) in bounds {
            let _ = write!(family.lines, "{}_bucket", metric.name);
            let labels = metric.labels.iter().zip(values).map(|(n, v)| (*n, *v));
            write_labels(&mut family.lines, labels.chain([("le", le.as_str())]));
            write_value(&mut family.lines, n as f64);
        }
        for (suffix, v) in [("_sum", sum), ("_count", count as f64)] {
            let _ = write!(family.lines, "{}{suffix}", metric.name);
            write_labels(&mut family.lines, metric.labels.iter().zip(values).map(|(n, v)| (*n, *v)));
            write_value(&mut family.lines, v);
        }
        family.samples += buckets.len() + 3;
    }

    /// Adds one sample of another exporter's family, unless the settings leave the family out.
    pub fn push_foreign(&mut self, head: Head, labels: &[(&str, &str)], value: f64) {
        let gpu = labels.iter().find(|(name, _)| *name == "gpu").map(|(_, value)| *value);
        if !self.style.lists(&head.name) || !self.style.devices.include(gpu) {
            return;
        }
        let family = self.by_name.entry(head.name.clone()).or_insert_with(|| Family::new(head));
        family.add(labels.iter().copied(), value);
    }

    /// How the host label is written; `None` leaves it out.
    #[must_use]
    pub fn host_label(&self) -> Option<&'static str> {
        self.style.host_label
    }

    /// Takes those of `other`'s families that this one has not, nor in another spelling of the same field of DCGM.
    pub fn complete(&mut self, other: Families) {
        let spellings = |name: &str| dcgm::by_name(name).map(|row| [row.legacy.name, row.current.name]);
        let missing = |name: &str| spellings(name).iter().flatten().all(|name| !self.by_name.contains_key(*name));
        let missing: Vec<_> = other.by_name.into_iter().filter(|(name, _)| missing(name)).collect();
        for (name, family) in missing {
            self.by_name.entry(name).or_insert(family);
        }
    }

    /// Moves all of `other`'s samples behind this one's.
    pub fn absorb(&mut self, other: Families) {
        for (name, family) in other.by_name {
            match self.by_name.get_mut(&name) {
                Some(mine) => {
                    mine.lines.push_str(&family.lines);
                    mine.samples += family.samples;
                }
                None => drop(self.by_name.insert(name, family)),
            }
        }
    }

    /// Number of series.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.by_name.values().map(|f| f.samples).sum()
    }

    /// The families in order of name.
    pub fn iter(&self) -> impl Iterator<Item = &Family> {
        self.by_name.values()
    }

    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        let head = || self.style.head(metric);
        self.by_name.entry(metric.name.into()).or_insert_with(|| Family::new(head()))
    }
}

fn write_labels<N: AsRef<str>, V: AsRef<str>>(out: &mut String, labels: impl Iterator<Item = (N, V)>) {
    let mut open = false;
    for (name, value) in labels {
        out.push(if open { ',' } else { '{' });
        open = true;
        out.push_str(name.as_ref());
        out.push_str("=\"");
        escape_label(out, value.as_ref());
        out.push('"');
    }
    if open {
        out.push('}');
    }
}

fn escape_label(out: &mut String, value: &str) {
    // As nearly all are.
    if value.len() <= MAX_VALUE_CHARS && !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        return out.push_str(value);
    }
    for c in value.chars().take(MAX_VALUE_CHARS) {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// Writes ` value\n` with the shortest digits that read back as the same f64; an exponent where plain digits run long.
fn write_value(out: &mut String, value: f64) {
    out.push(' ');
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else if value == 0.0 || (1e-5..1e16).contains(&value.abs()) {
        let _ = write!(out, "{value}");
    } else {
        let _ = write!(out, "{value:e}");
    }
    out.push('\n');
}

/// A bucket bound as OpenMetrics wants it: always with a decimal point.
fn bound(le: f64) -> String {
    format!("{le:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use goodput_catalog::host::PRESSURE_WAITING;

    fn lines(families: &Families) -> String {
        families.iter().map(|f| f.lines.as_str()).collect()
    }

    #[test]
    fn absent_values_add_no_line() {
        let mut families = Families::default();
        families.push(&PRESSURE_WAITING, &["io"], None);
        assert_eq!(families.samples(), 0);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut families = Families::default();
        families.push(&PRESSURE_WAITING, &["a\\b\"c\nd"], 1.5);
        let expected = "goodput_pressure_waiting_seconds_total{resource=\"a\\\\b\\\"c\\nd\"} 1.5\n";
        assert_eq!(lines(&families), expected);
    }

    #[test]
    fn the_host_label_is_written_as_configured() {
        for (name, expected) in [(Some("hostname"), Some(",hostname=\"x\"")), (None, None)] {
            let mut families = Families::new(name);
            let metric = &dcgm::GPU_UTIL.legacy;
            families.push(metric, &vec!["x"; metric.labels.len()], 1.0);
            let written = lines(&families);
            assert!(!written.contains(HOST_LABEL), "{written}");
            assert_eq!(expected.is_some_and(|e| written.contains(e)), expected.is_some(), "{written}");
            assert!(!written.contains("hostname") || expected.is_some(), "{written}");
        }
    }

    #[test]
    fn no_series_is_written_twice() {
        let mut families = Families::default();
        for value in [1.0, 2.0] {
            families.push(&PRESSURE_WAITING, &["io"], value);
            families.push(&PRESSURE_WAITING, &["cpu"], value);
        }
        assert_eq!(families.samples(), 2);
        assert_eq!(lines(&families).matches("{resource=\"io\"} 1\n").count(), 1);
    }

    #[test]
    fn absorbed_samples_stand_behind() {
        let (mut first, mut second) = (Families::default(), Families::default());
        first.push(&PRESSURE_WAITING, &["cpu"], 1.0);
        second.push(&PRESSURE_WAITING, &["io"], 2.0);
        first.absorb(second);
        assert_eq!(first.samples(), 2);
        assert_eq!(first.iter().count(), 1);
        assert!(lines(&first).ends_with("{resource=\"io\"} 2\n"));
    }

    /// Reads one sample line of a metric with one label back, by the rules of the text format.
    fn read(line: &str) -> Option<(String, f64)> {
        let (mut value, mut rest) = (String::new(), line.split_once("=\"")?.1.chars());
        loop {
            match rest.next()? {
                '"' => break,
                '\\' => match rest.next()? {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                c => value.push(c),
            }
        }
        Some((value, rest.as_str().strip_prefix("} ")?.strip_suffix('\n')?.parse().ok()?))
    }

    proptest! {
        #[test]
        fn every_sample_reads_back(label in any::<String>(), bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            let mut families = Families::default();
            families.push(&PRESSURE_WAITING, &[&label], number);
            let written = lines(&families);
            prop_assert_eq!(written.matches('\n').count(), 1);
            let (value, back) = read(&written).ok_or_else(|| TestCaseError::fail(written.clone()))?;
            prop_assert_eq!(value, label);
            prop_assert!(back == number || (back.is_nan() && number.is_nan()), "{} {}", back, number);
        }

        #[test]
        fn long_values_are_cut_between_characters(label in "[a-zé\u{10000}]{1024,1100}") {
            let mut families = Families::default();
            families.push(&PRESSURE_WAITING, &[&label], 1.0);
            let (value, _) = read(&lines(&families)).ok_or_else(|| TestCaseError::fail("does not parse"))?;
            prop_assert_eq!(value.chars().count(), MAX_VALUE_CHARS);
            prop_assert!(label.starts_with(&value));
        }
    }
}
