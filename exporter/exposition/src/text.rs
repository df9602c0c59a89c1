//! The parser: sample lines of Prometheus 0.0.4 and OpenMetrics 1.0, as lenient as Prometheus 3 or more so.
//!
//! A line that cannot be read costs itself. Lines about a family, other comments and exemplars are passed over unread;
//! [`about`](crate::about()) reads the lines about a family for those who need them.

mod line;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;

use crate::{Fault, Format};
use line::Line;

/// How much is read. One sample more ends the reading; a series that breaks a limit of labels has a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples of the text.
    pub samples: usize,
    /// Labels of a series, the name included.
    pub labels: usize,
    /// Bytes of a label's name and value together.
    pub label_bytes: usize,
}

impl Limits {
    /// Everything is read.
    pub const NONE: Self = Self { samples: usize::MAX, labels: usize::MAX, label_bytes: usize::MAX };
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

/// Labels as they are written, empty values included. A text is copied only to replace its escapes.
pub type PointLabels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// One sample line.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// The metric name; empty where it is missing.
    pub name: Cow<'a, str>,
    /// The labels; of a series with a fault, some of them.
    pub labels: PointLabels<'a>,
    /// The value.
    pub value: f64,
    /// The sender's own timestamp in milliseconds since 1970, where it gives one.
    pub time_ms: Option<i64>,
    /// What is wrong with the series, though the line can be read.
    pub fault: Option<Box<Fault>>,
}

/// The sample lines one by one. An error is one line's, and the next line follows.
pub struct Points<'a> {
    /// Lines that are UTF-8.
    body: &'a str,
    /// What follows them: a line that is not UTF-8 comes first.
    later: &'a [u8],
    reader: LineByLine,
    samples: usize,
    /// Memory for labels.
    spare: PointLabels<'a>,
}

impl<'a> Points<'a> {
    /// Before the first line.
    #[must_use]
    pub fn new<T: AsRef<[u8]> + ?Sized>(body: &'a T, format: Format, limits: Limits) -> Self {
        let (body, later) = split_utf8(body.as_ref());
        Self { body, later, reader: LineByLine::new(format, limits), samples: 0, spare: Vec::new() }
    }

    /// The labels of a point that is done with: their memory is used for the next one.
    pub fn give_back(&mut self, labels: PointLabels<'a>) {
        self.spare = labels;
    }

    /// The number of the line that was read last.
    #[must_use]
    pub fn line(&self) -> usize {
        self.reader.line
    }

    /// After the last line: is the exposition whole?
    pub fn finish(&self) -> Result<(), TextError> {
        let limit = self.reader.limits.samples;
        if self.samples > limit {
            return Err(self.reader.error(format!("more than {limit} samples")));
        }
        self.reader.finish()
    }

    fn line_that_is_not_utf8(&mut self) -> TextError {
        let end = self.later.iter().position(|byte| *byte == b'\n').map_or(self.later.len(), |end| end + 1);
        (self.body, self.later) = split_utf8(self.later.get(end..).unwrap_or_default());
        self.reader.line += 1;
        self.reader.error("expected UTF-8")
    }
}

impl<'a> Iterator for Points<'a> {
    type Item = Result<Point<'a>, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.samples > self.reader.limits.samples {
                return None;
            }
            if self.body.is_empty() {
                return (!self.later.is_empty()).then(|| Err(self.line_that_is_not_utf8()));
            }
            let (line, rest, ended) = match self.body.split_once('\n') {
                Some((line, rest)) => (line, rest, true),
                None => (self.body, "", false),
            };
            self.body = rest;
            let spare = mem::take(&mut self.spare);
            match self.reader.read(line, ended, spare) {
                Ok(Ok(point)) => {
                    self.samples += 1;
                    return (self.samples <= self.reader.limits.samples).then_some(Ok(point));
                }
                Ok(Err(spare)) => self.spare = spare,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The lines up to the first that is not UTF-8, and what begins with that one.
fn split_utf8(bytes: &[u8]) -> (&str, &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => (text, &[]),
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            let whole = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            (str::from_utf8(&bytes[..whole]).unwrap_or_default(), &bytes[whole..])
        }
    }
}

/// Reads lines that come one at a time, as from a file too large to hold.
#[derive(Debug)]
pub struct LineByLine {
    format: Format,
    limits: Limits,
    line: usize,
    /// `# EOF` has been seen.
    ended: bool,
}

impl LineByLine {
    /// Before the first line.
    #[must_use]
    pub fn new(format: Format, limits: Limits) -> Self {
        Self { format, limits, line: 0, ended: false }
    }

    /// The next line, without its line feed, which the last line need not have; `None` when it holds no sample.
    pub fn point<'l>(&mut self, text: &'l str, has_line_feed: bool) -> Result<Option<Point<'l>>, TextError> {
        self.read(text, has_line_feed, Vec::new()).map(Result::ok)
    }

    /// Counts a line that is not to be read.
    pub fn pass(&mut self) {
        self.line += 1;
    }

    /// After the last line. An exposition without its end mark may be cut.
    pub fn finish(&self) -> Result<(), TextError> {
        let whole = self.ended || self.format != Format::OpenMetrics;
        if whole {
            Ok(())
        } else {
            Err(TextError { line: self.line + 1, reason: "expected # EOF at the end".to_owned() })
        }
    }

    /// Something is wrong with the line that was read last.
    pub fn error(&self, reason: impl Into<String>) -> TextError {
        TextError { line: self.line, reason: reason.into() }
    }

    /// The sample of a line, or the memory for labels back where it has none.
    fn read<'l>(
        &mut self,
        text: &'l str,
        has_line_feed: bool,
        labels: PointLabels<'l>,
    ) -> Result<Result<Point<'l>, PointLabels<'l>>, TextError> {
        self.line += 1;
        let mut line = Line::new(text.strip_suffix('\r').unwrap_or(text), self.format);
        if line.is_empty() {
            return Ok(Err(labels));
        }
        if self.ended {
            return Err(self.error("expected nothing after # EOF"));
        }
        if line.is_comment() {
            self.ended = self.format == Format::OpenMetrics && text.trim_end() == "# EOF";
            return Ok(Err(labels));
        }
        // A cut line may hold a wrong number. Text 0.0.4 lacks an end mark, and Prometheus takes its last line without a
        // line feed.
        if !has_line_feed && self.format == Format::OpenMetrics {
            return Err(self.error("expected a line feed at the end of the line: it may be cut"));
        }
        line.sample(&self.limits, labels).map(Ok).map_err(|reason| self.error(reason))
    }
}
