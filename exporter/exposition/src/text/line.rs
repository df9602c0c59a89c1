//! One sample line.

use std::borrow::Cow;

use super::{Limits, Point, PointLabels};
use crate::{Fault, Format, excerpt};

/// The label that a metric's name is.
const METRIC: &str = "__name__";

/// What is left of a line.
pub(super) struct Line<'a> {
    rest: &'a str,
    format: Format,
}

impl<'a> Line<'a> {
    /// A line without its end. Blanks before it mean nothing.
    pub(super) fn new(text: &'a str, format: Format) -> Self {
        let mut line = Self { rest: text, format };
        line.blanks();
        line
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn is_comment(&self) -> bool {
        self.rest.starts_with('#')
    }

    /// The labels are put where there is memory for them.
    pub(super) fn sample(&mut self, limits: &Limits, mut labels: PointLabels<'a>) -> Result<Point<'a>, String> {
        labels.clear();
        let (whole, mut fault) = (self.rest.len(), None);
        // A name that is not of the classic alphabet stands in braces, in quotes.
        let mut name = match self.rest.starts_with('{') {
            true => "",
            false => self.name("a metric name", true)?,
        }
        .into();
        self.blanks();
        if self.rest.starts_with('{') {
            self.labels(limits, &mut name, &mut labels, &mut fault)?;
        }
        if name.is_empty() {
            set(&mut fault, Fault::no_metric);
        } else if METRIC.len() + name.len() > limits.label_bytes {
            set(&mut fault, || Fault::long_label(METRIC, &name, limits.label_bytes));
        }
        if let Some(fault) = &mut fault {
            fault.bytes = whole - self.rest.len();
        }
        self.blanks();
        let value = self.value()?;
        let time_ms = self.timestamp()?;
        self.blanks();
        // An exemplar, or a comment.
        if self.rest.is_empty() || self.is_comment() {
            return Ok(Point { name, labels, value, time_ms, fault });
        }
        Err(format!("expected the end of the line, found {:?}", excerpt(self.rest)))
    }

    fn name(&mut self, what: &str, colons: bool) -> Result<&'a str, String> {
        let (name, rest) = self.rest.split_at(name_end(self.rest, colons));
        if name.is_empty() {
            return Err(format!("expected {what}, found {}", self.found()));
        }
        self.rest = rest;
        Ok(name)
    }

    /// `{name="value",…}`; a comma may also follow the last one. Names may be quoted; one without a value is the metric's.
    fn labels(
        &mut self,
        limits: &Limits,
        metric: &mut Cow<'a, str>,
        labels: &mut PointLabels<'a>,
        fault: &mut Option<Box<Fault>>,
    ) -> Result<(), String> {
        self.take("{")?;
        self.blanks();
        while !self.rest.starts_with('}') {
            let is_quoted = self.rest.starts_with('"');
            let name = if is_quoted { self.quoted()? } else { self.name("a label name", false)?.into() };
            self.blanks();
            if is_quoted && !self.rest.starts_with('=') {
                if !metric.is_empty() {
                    return Err(format!("expected one metric name, found {:?} too", excerpt(&name)));
                }
                *metric = name;
            } else {
                self.take("=")?;
                self.blanks();
                let value = self.quoted()?;
                match wrong(&name, &value, labels, limits) {
                    None => labels.push((name, value)),
                    Some(wrong) => set(fault, || wrong),
                }
            }
            self.blanks();
            if !self.rest.starts_with('}') {
                self.take(",")?;
                self.blanks();
            }
        }
        self.take("}")
    }

    fn quoted(&mut self) -> Result<Cow<'a, str>, String> {
        self.take("\"")?;
        let special = |text: &str| text.find(['"', '\\']).ok_or("expected a closing quote");
        let (plain, rest) = self.rest.split_at(special(self.rest)?);
        self.rest = rest;
        if self.rest.starts_with('"') {
            self.take("\"")?;
            return Ok(Cow::Borrowed(plain));
        }
        let mut value = plain.to_owned();
        while !self.rest.starts_with('"') {
            self.take("\\")?;
            let mut escape = self.rest.chars();
            match escape.next() {
                Some('n') => value.push('\n'),
                Some(c @ ('"' | '\\')) => value.push(c),
                // As Prometheus has it, a backslash before anything else is a backslash.
                Some(other) => value.extend(['\\', other]),
                None => return Err("expected a closing quote".to_owned()),
            }
            self.rest = escape.as_str();
            let (plain, rest) = self.rest.split_at(special(self.rest)?);
            value.push_str(plain);
            self.rest = rest;
        }
        self.take("\"")?;
        Ok(Cow::Owned(value))
    }

    fn value(&mut self) -> Result<f64, String> {
        let word = self.word();
        word.parse().map_err(|_| format!("expected a number, found {:?}", excerpt(word)))
    }

    /// Milliseconds in 0.0.4, seconds with a fraction in OpenMetrics.
    fn timestamp(&mut self) -> Result<Option<i64>, String> {
        self.blanks();
        if self.rest.is_empty() || self.is_comment() {
            return Ok(None);
        }
        let word = self.word();
        let time_ms = match self.format {
            Format::Text => word.parse().ok(),
            // 2^53: beyond, a float does not hold every millisecond.
            Format::OpenMetrics => word
                .parse::<f64>()
                .ok()
                .map(|seconds| (seconds * 1000.0).round())
                .filter(|ms| ms.abs() < 9_007_199_254_740_992.0)
                .map(|ms| ms as i64),
        };
        let unit = if self.format == Format::Text { "milliseconds" } else { "seconds" };
        time_ms.map(Some).ok_or_else(|| format!("expected a timestamp in {unit}, found {:?}", excerpt(word)))
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find([' ', '\t']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn take(&mut self, token: &str) -> Result<(), String> {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.ok_or_else(|| format!("expected {token:?}, found {}", self.found()))?;
        Ok(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn found(&self) -> String {
        self.rest.chars().next().map_or_else(|| "the end of the line".to_owned(), |c| format!("{c:?}"))
    }
}

/// What is wrong with a label that is to join the others.
fn wrong(name: &str, value: &str, labels: &PointLabels<'_>, limits: &Limits) -> Option<Fault> {
    if name.is_empty() {
        return Some(Fault::nameless(labels.len() + 1));
    }
    if name.len() + value.len() > limits.label_bytes {
        return Some(Fault::long_label(name, value, limits.label_bytes));
    }
    if labels.iter().any(|(other, _)| *other == name) || name == METRIC {
        return Some(Fault::twice(name));
    }
    // The metric name is one label more.
    (labels.len() + 2 > limits.labels).then(|| Fault::many_labels(limits.labels))
}

/// Keeps the first fault.
fn set(fault: &mut Option<Box<Fault>>, new: impl FnOnce() -> Fault) {
    fault.get_or_insert_with(|| Box::new(new()));
}

/// Where the name at the start of the text ends: `[a-zA-Z_][a-zA-Z0-9_]*`, for metrics also with colons.
fn name_end(text: &str, colons: bool) -> usize {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || colons && c == ':';
    if text.starts_with(|c: char| c.is_ascii_digit()) { 0 } else { text.find(|c| !inner(c)).unwrap_or(text.len()) }
}
