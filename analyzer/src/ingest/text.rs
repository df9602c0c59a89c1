//! Exposition text: Prometheus 0.0.4 and OpenMetrics 1.0. Pure.
//!
//! As strict about syntax as the formats' definitions, and as lenient about structure as Prometheus: a family may come
//! in several pieces, and repeated HELP or TYPE lines are no error. Types, help and exemplars are checked and dropped:
//! what a series means is said by the signal table, not by the sender.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::{iter, mem};

use super::Limits;
use crate::sample::{Batch, Labels, Sample, Series, TimeMs};

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Text,
    /// OpenMetrics text, version 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that a `Content-Type` announces; everything unknown is read as 0.0.4, as Prometheus 2 does.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    fn types(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["counter", "gauge", "histogram", "summary", "untyped"],
            Self::OpenMetrics => {
                &["counter", "gauge", "histogram", "gaugehistogram", "stateset", "info", "summary", "unknown"]
            }
        }
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// What was expected and what is there.
    pub reason: String,
}

/// Labels as they are written, empty values included. A value is copied only to replace its escapes.
pub type PointLabels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// One sample line.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// The metric name.
    pub name: &'a str,
    /// The labels.
    pub labels: PointLabels<'a>,
    /// The value.
    pub value: f64,
    /// The sender's own timestamp, where it gives one.
    pub time_ms: Option<TimeMs>,
}

/// Reads a whole exposition; samples without a timestamp get `time_ms`. Of several values of a series at one time the
/// first stays.
pub fn parse(body: &str, format: Format, limits: &Limits, time_ms: TimeMs) -> Result<Batch, TextError> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut samples: Vec<Vec<Sample>> = Vec::new();
    let mut points = Points::new(body, format, limits);
    while let Some(point) = points.next() {
        let mut point = point?;
        let sample = Sample { time_ms: point.time_ms.unwrap_or(time_ms), value: point.value };
        let name = iter::once(("__name__", Cow::Borrowed(point.name)));
        let place = *places.entry(Labels::new(name.chain(point.labels.drain(..)))).or_insert(samples.len());
        points.give_back(point.labels);
        match samples.get_mut(place) {
            Some(known) => known.push(sample),
            None => samples.push(vec![sample]),
        }
    }
    for samples in &mut samples {
        samples.sort_by_key(|sample| sample.time_ms);
        samples.dedup_by_key(|sample| sample.time_ms);
    }
    let mut labels: Vec<_> = places.into_iter().collect();
    labels.sort_unstable_by_key(|(_, place)| *place);
    Ok(labels.into_iter().zip(samples).map(|((labels, _), samples)| Series { labels, samples }).collect())
}

/// The sample lines one by one; after an error there is nothing more.
pub struct Points<'a>(Lines<'a>);

impl<'a> Points<'a> {
    /// Before the first line.
    #[must_use]
    pub fn new(body: &'a str, format: Format, limits: &'a Limits) -> Self {
        Self(Lines::new(body, format, limits, 0))
    }

    /// The labels of a point that is done with: their memory is used for the next one.
    pub fn give_back(&mut self, labels: PointLabels<'a>) {
        self.0.spare = labels;
    }
}

impl<'a> Iterator for Points<'a> {
    type Item = Result<Point<'a>, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_point()
    }
}

/// Reads sample lines that come one at a time, as from a file too large to hold.
#[derive(Debug)]
pub struct LineByLine<'a> {
    format: Format,
    limits: &'a Limits,
    line: usize,
    ended: bool,
}

impl<'a> LineByLine<'a> {
    /// Before the first line.
    #[must_use]
    pub fn new(format: Format, limits: &'a Limits) -> Self {
        Self { format, limits, line: 0, ended: false }
    }

    /// The next line, without its line feed; `None` when it holds no sample.
    pub fn point<'l>(&mut self, text: &'l str) -> Result<Option<Point<'l>>, TextError>
    where
        'a: 'l,
    {
        self.line += 1;
        if self.ended {
            return Err(self.error("expected nothing after # EOF"));
        }
        let Self { format, limits, line, .. } = *self;
        let mut lines = Lines::new("", format, limits, line);
        let point = lines.line(text).map_err(|reason| self.error(reason));
        self.ended = lines.ended;
        point
    }

    /// After the last line.
    pub fn finish(&self) -> Result<(), TextError> {
        let whole = self.ended || self.format != Format::OpenMetrics;
        if whole {
            Ok(())
        } else {
            Err(TextError { line: self.line + 1, reason: "expected # EOF at the end".to_owned() })
        }
    }

    /// Something else is wrong with the line that was read last.
    pub fn error(&self, reason: impl Into<String>) -> TextError {
        TextError { line: self.line, reason: reason.into() }
    }
}

struct Lines<'a> {
    body: &'a str,
    format: Format,
    limits: &'a Limits,
    line: usize,
    samples: usize,
    /// `# EOF` has been seen.
    ended: bool,
    failed: bool,
    /// Memory for labels.
    spare: PointLabels<'a>,
}

impl<'a> Lines<'a> {
    fn new(body: &'a str, format: Format, limits: &'a Limits, line: usize) -> Self {
        Self { body, format, limits, line, samples: 0, ended: false, failed: false, spare: Vec::new() }
    }

    fn next_point(&mut self) -> Option<Result<Point<'a>, TextError>> {
        if self.failed {
            return None;
        }
        let point = self.advance().transpose()?;
        Some(point.map_err(|reason| {
            self.failed = true;
            TextError { line: self.line, reason }
        }))
    }

    fn advance(&mut self) -> Result<Option<Point<'a>>, String> {
        while !self.body.is_empty() {
            self.line += 1;
            let (line, rest) = self.body.split_once('\n').ok_or("expected a line feed at the end of the last line")?;
            self.body = rest;
            if self.ended {
                return Err("expected nothing after # EOF".to_owned());
            }
            if let Some(point) = self.line(line)? {
                self.samples += 1;
                if self.samples > self.limits.samples {
                    return Err(format!("more than {} samples", self.limits.samples));
                }
                return Ok(Some(point));
            }
        }
        if self.format == Format::OpenMetrics && !self.ended {
            self.line += 1;
            return Err("expected # EOF at the end".to_owned());
        }
        Ok(None)
    }

    fn line(&mut self, line: &'a str) -> Result<Option<Point<'a>>, String> {
        let mut line = Line { rest: line, format: self.format };
        match self.format {
            Format::Text => line.blanks(),
            Format::OpenMetrics if line.rest.is_empty() => return Err("expected no empty line".to_owned()),
            Format::OpenMetrics => {}
        }
        if line.rest.is_empty() {
            return Ok(None);
        }
        let Some(comment) = line.rest.strip_prefix('#') else {
            return line.sample(self.limits, mem::take(&mut self.spare)).map(Some);
        };
        match self.format {
            Format::Text => text_comment(comment)?,
            Format::OpenMetrics if comment == " EOF" => self.ended = true,
            Format::OpenMetrics => openmetrics_comment(comment)?,
        }
        Ok(None)
    }
}

fn text_comment(comment: &str) -> Result<(), String> {
    let mut words = comment.split([' ', '\t']).filter(|word| !word.is_empty());
    match words.next() {
        Some("HELP") => metric_name(words.next().unwrap_or_default()),
        Some("TYPE") => {
            metric_name(words.next().unwrap_or_default())?;
            metric_type(words.next().unwrap_or_default(), Format::Text)?;
            words.next().map_or(Ok(()), |word| Err(format!("expected the end of the line, found {word:?}")))
        }
        _ => Ok(()),
    }
}

fn openmetrics_comment(comment: &str) -> Result<(), String> {
    let mut words = comment.splitn(4, ' ');
    let (before, keyword) = (words.next(), words.next().unwrap_or_default());
    if before != Some("") || !["HELP", "TYPE", "UNIT"].contains(&keyword) {
        return Err(format!("expected # HELP, # TYPE, # UNIT or # EOF, found {:?}", format!("#{comment}")));
    }
    let name = words.next().unwrap_or_default();
    metric_name(name)?;
    let text = words.next().ok_or_else(|| format!("expected a text after # {keyword} {name}"))?;
    match keyword {
        "TYPE" => metric_type(text, Format::OpenMetrics),
        "UNIT" if !text.is_empty() && !name.ends_with(&format!("_{text}")) => {
            Err(format!("expected a metric name that ends in its unit _{text}, found {name}"))
        }
        _ => Ok(()),
    }
}

fn metric_type(word: &str, format: Format) -> Result<(), String> {
    let types = format.types();
    if types.contains(&word) { Ok(()) } else { Err(format!("expected a type of {}, found {word:?}", types.join(", "))) }
}

fn metric_name(word: &str) -> Result<(), String> {
    let end = name_end(word, true);
    if end > 0 && end == word.len() { Ok(()) } else { Err(format!("expected a metric name, found {word:?}")) }
}

/// Where the name at the start of the text ends: `[a-zA-Z_][a-zA-Z0-9_]*`, for metrics also with colons.
fn name_end(text: &str, colons: bool) -> usize {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || colons && c == ':';
    if text.starts_with(|c: char| c.is_ascii_digit()) { 0 } else { text.find(|c| !inner(c)).unwrap_or(text.len()) }
}

/// What is left of a line.
struct Line<'a> {
    rest: &'a str,
    format: Format,
}

impl<'a> Line<'a> {
    /// The labels are put where there is memory for them.
    fn sample(&mut self, limits: &Limits, mut labels: PointLabels<'a>) -> Result<Point<'a>, String> {
        let name = self.name("a metric name", true)?;
        self.text_blanks();
        labels.clear();
        if self.rest.starts_with('{') {
            self.labels(limits, &mut labels)?;
        }
        self.separator()?;
        let value = self.value()?;
        let time_ms = self.timestamp()?;
        self.exemplar(limits)?;
        self.text_blanks();
        match self.rest {
            "" => Ok(Point { name, labels, value, time_ms }),
            rest => Err(format!("expected the end of the line, found {rest:?}")),
        }
    }

    fn name(&mut self, what: &str, colons: bool) -> Result<&'a str, String> {
        let (name, rest) = self.rest.split_at(name_end(self.rest, colons));
        if name.is_empty() {
            return Err(format!("expected {what}, found {}", self.found()));
        }
        self.rest = rest;
        Ok(name)
    }

    /// `{name="value",…}`; a comma may also follow the last one.
    fn labels(&mut self, limits: &Limits, labels: &mut PointLabels<'a>) -> Result<(), String> {
        self.take("{")?;
        self.text_blanks();
        while !self.rest.starts_with('}') {
            let name = self.name("a label name", false)?;
            self.text_blanks();
            self.take("=")?;
            self.text_blanks();
            let value = self.quoted()?;
            if name.len() + value.len() > limits.label_bytes {
                return Err(format!("label {name} of more than {} bytes", limits.label_bytes));
            }
            if labels.iter().any(|(other, _)| *other == name) || name == "__name__" {
                return Err(format!("label {name} is there twice"));
            }
            // The name is one label more.
            if labels.len() + 2 > limits.labels {
                return Err(format!("more than {} labels", limits.labels));
            }
            labels.push((name, value));
            self.text_blanks();
            if !self.rest.starts_with('}') {
                self.take(",")?;
                self.text_blanks();
            }
        }
        self.take("}")
    }

    fn quoted(&mut self) -> Result<Cow<'a, str>, String> {
        self.take("\"")?;
        let special = |text: &str| text.find(['"', '\\']).ok_or("expected a closing quote");
        let end = special(self.rest)?;
        let (plain, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.rest.starts_with('"') {
            self.take("\"")?;
            return Ok(Cow::Borrowed(plain));
        }
        let mut value = plain.to_owned();
        while !self.rest.starts_with('"') {
            self.take("\\")?;
            let mut escape = self.rest.chars();
            value.push(match escape.next() {
                Some('n') => '\n',
                Some(c @ ('"' | '\\')) => c,
                other => {
                    return Err(format!(r#"expected \\, \" or \n in a label value, found \{}"#, found_char(other)));
                }
            });
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
        word.parse().map_err(|_| format!("expected a number, found {word:?}"))
    }

    /// Milliseconds in 0.0.4, seconds with a fraction in OpenMetrics.
    fn timestamp(&mut self) -> Result<Option<TimeMs>, String> {
        if !self.next_word() {
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
                .map(|ms| ms as TimeMs),
        };
        let unit = if self.format == Format::Text { "milliseconds" } else { "seconds" };
        time_ms.map(Some).ok_or_else(|| format!("expected a timestamp in {unit}, found {word:?}"))
    }

    /// ` # {…} value timestamp`, read to be sure that the line is well-formed.
    fn exemplar(&mut self, limits: &Limits) -> Result<(), String> {
        if self.format == Format::Text || !self.rest.starts_with(" # ") {
            return Ok(());
        }
        self.take(" # ")?;
        self.labels(limits, &mut Vec::new())?;
        self.separator()?;
        self.value()?;
        self.timestamp()?;
        Ok(())
    }

    /// Is there a word that is not the start of an exemplar? Then it is next.
    fn next_word(&mut self) -> bool {
        if self.format == Format::Text {
            self.blanks();
            return !self.rest.is_empty();
        }
        let word = self.rest.strip_prefix(' ').filter(|rest| !rest.starts_with("# "));
        self.rest = word.unwrap_or(self.rest);
        word.is_some()
    }

    fn separator(&mut self) -> Result<(), String> {
        match self.format {
            Format::Text => self.blanks(),
            Format::OpenMetrics => self.take(" ")?,
        }
        Ok(())
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

    /// Blanks that only 0.0.4 allows.
    fn text_blanks(&mut self) {
        if self.format == Format::Text {
            self.blanks();
        }
    }

    fn found(&self) -> String {
        found_char(self.rest.chars().next())
    }
}

fn found_char(found: Option<char>) -> String {
    found.map_or_else(|| "the end of the line".to_owned(), |c| format!("{c:?}"))
}
