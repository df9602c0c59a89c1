//! Reads VictoriaMetrics' `/api/v1/export`: lines of JSON, one series or a part of one each.
//!
//! `{"metric":{"__name__":"up","job":"x"},"values":[1,null,3.5e-7],"timestamps":[1700000000000,…]}`
//!
//! Source of the format: "How to export data in JSON line format" of VictoriaMetrics' documentation.

mod cursor;
mod lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use serde::de::IgnoredAny;

use crate::DecodeError;
use crate::order::in_order;
use cursor::Cursor;
pub use lines::Lines;

/// How values are written that are not finite: as text in quotes, bare by old releases. `null` is a staleness marker.
const SPECIAL: [(&str, f64); 8] = [
    ("null", f64::from_bits(STALE_BITS)),
    ("+Infinity", f64::INFINITY),
    ("Infinity", f64::INFINITY),
    ("-Infinity", f64::NEG_INFINITY),
    ("+Inf", f64::INFINITY),
    ("Inf", f64::INFINITY),
    ("-Inf", f64::NEG_INFINITY),
    ("NaN", f64::NAN),
];

/// Reads a line, with or without its newline. Its samples are cut to the range, which does not include its end, and are in
/// order of time, no time twice; there may be none. A series may come in several lines.
///
/// # Errors
///
/// The line is malformed or broken off. The text says at which byte.
pub fn parse_line(line: &[u8], range: &Range<TimeMs>) -> Result<Series, DecodeError> {
    let text = str::from_utf8(line).map_err(|error| malformed("UTF-8", error.valid_up_to()))?;
    let mut cursor = Cursor::new(text);
    let fields = Fields::read(&mut cursor)?;
    let end = cursor.at();
    cursor.end()?;
    fields.series(range, end)
}

/// The error of a line in which something else was expected at a byte.
#[cold]
fn malformed(expected: &str, at: usize) -> DecodeError {
    DecodeError::Malformed(format!("line of export at byte {at}: expected {expected}"))
}

/// What a line holds.
#[derive(Default)]
struct Fields {
    labels: Option<Labels>,
    values: Option<Vec<f64>>,
    times: Option<Vec<TimeMs>>,
}

impl Fields {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let mut fields = Self::default();
        cursor.expect(b'{', "{")?;
        if cursor.accept(b'}') {
            return Ok(fields);
        }
        loop {
            let at = cursor.at();
            let key: String = cursor.json("a key")?;
            cursor.expect(b':', ":")?;
            let is_new = fields.field(&key, cursor)?;
            if !is_new {
                return Err(malformed(&format!("{key:?} only once"), at));
            }
            if cursor.accept(b'}') {
                return Ok(fields);
            }
            cursor.expect(b',', ", or }")?;
        }
    }

    /// Reads the value of a key. Was it not there before?
    fn field(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<bool, DecodeError> {
        Ok(match key {
            "metric" => {
                let labels: BTreeMap<String, String> = cursor.json("an object of texts")?;
                self.labels.replace(Labels::new(labels)).is_none()
            }
            "values" => self.values.replace(cursor.array(value)?).is_none(),
            "timestamps" => self.times.replace(cursor.array(time)?).is_none(),
            _ => cursor.json::<IgnoredAny>("a value of JSON").map(|_| true)?,
        })
    }

    /// The series, when the line that ends at this byte is complete.
    fn series(self, range: &Range<TimeMs>, end: usize) -> Result<Series, DecodeError> {
        let labels = self.labels.ok_or_else(|| malformed("\"metric\" before the end", end))?;
        let values = self.values.ok_or_else(|| malformed("\"values\" before the end", end))?;
        let times = self.times.ok_or_else(|| malformed("\"timestamps\" before the end", end))?;
        if values.len() != times.len() {
            let text = format!("as many values as timestamps, found {} and {}", values.len(), times.len());
            return Err(malformed(&text, end));
        }
        let all = times.into_iter().zip(values).filter(|(time, _)| range.contains(time));
        let mut samples = all.map(|(time_ms, value)| Sample { time_ms, value }).collect();
        in_order(&mut samples);
        Ok(Series { labels, samples })
    }
}

/// One value. Parsed by the standard library, which is exact.
#[inline]
fn value(cursor: &mut Cursor<'_>) -> Result<f64, DecodeError> {
    let number = cursor.number();
    if let Some(value) = number.parse().ok().filter(|value: &f64| value.is_finite()) {
        cursor.skip(number.len());
        return Ok(value);
    }
    special(cursor).ok_or_else(|| cursor.unexpected("a number, null, \"Infinity\", \"-Infinity\" or \"NaN\""))
}

/// One value that is not finite.
fn special(cursor: &mut Cursor<'_>) -> Option<f64> {
    let rest = cursor.rest();
    let (inside, quotes) = rest.strip_prefix('"').map_or((rest, 0), |inside| (inside, 2));
    let (word, value) = SPECIAL.iter().find(|(word, _)| inside.starts_with(word))?;
    let is_whole = quotes == 0 || inside[word.len()..].starts_with('"') && *word != "null";
    is_whole.then(|| {
        cursor.skip(word.len() + quotes);
        *value
    })
}

/// One time, in milliseconds.
#[inline]
fn time(cursor: &mut Cursor<'_>) -> Result<TimeMs, DecodeError> {
    let number = cursor.number();
    let time = number.parse().map_err(|_| cursor.unexpected("a timestamp that is an integer of 64 bits"))?;
    cursor.skip(number.len());
    Ok(time)
}
