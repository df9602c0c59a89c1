//! The Prometheus text format 0.0.4, line by line, as other exporters write it.

use std::borrow::Cow;

use super::ParseError;
use super::counters::is_name;
use crate::catalog::Kind;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'a> {
    /// Help text of a family.
    Help(&'a str, Cow<'a, str>),
    /// Type of a family; `None` for one whose samples have other names than the family, or that is untyped.
    Type(&'a str, Option<Kind>),
    /// One sample. Its time, if it has one, is left out.
    Sample(Sample<'a>),
    /// A comment, or blank.
    Nothing,
}

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Name.
    pub name: &'a str,
    /// Labels in their order.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Name and labels as they are written, by which a repeated series is known.
    pub series: &'a str,
    /// Value.
    pub value: f64,
}

/// Reads line `number` (from 1).
///
/// # Errors
/// What was expected, and the line.
pub fn line(number: usize, text: &str) -> Result<Line<'_>, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Line::Nothing);
    }
    let Some(comment) = text.strip_prefix('#') else {
        return sample(text).map(Line::Sample).map_err(|expected| ParseError::new(number, expected, text));
    };
    let (keyword, rest) = word(comment.trim_start());
    let (name, rest) = word(rest);
    if !matches!(keyword, "HELP" | "TYPE") {
        return Ok(Line::Nothing);
    }
    if !is_name(name) {
        return Err(ParseError::new(number, "the name of a metric", text));
    }
    Ok(match keyword {
        "HELP" => Line::Help(name, unescaped(rest)),
        _ => Line::Type(name, kind(rest)),
    })
}

/// The first word, and what is behind the blanks after it.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (word, rest.trim_start())
}

fn kind(text: &str) -> Option<Kind> {
    match text {
        "counter" => Some(Kind::Counter),
        "gauge" => Some(Kind::Gauge),
        _ => None,
    }
}

fn sample(text: &str) -> Result<Sample<'_>, &'static str> {
    let end = text.find(['{', ' ', '\t']).ok_or("a value behind the name")?;
    let (name, mut rest) = text.split_at(end);
    if !is_name(name) {
        return Err("the name of a metric");
    }
    let mut labels = Vec::new();
    if let Some(open) = rest.strip_prefix('{') {
        (labels, rest) = self::labels(open)?;
    }
    let series = &text[..text.len() - rest.len()];
    let mut numbers = rest.split_whitespace();
    let value = numbers.next().and_then(number).ok_or("a number behind the labels")?;
    let timed = numbers.next().is_none_or(|time| time.parse::<i64>().is_ok());
    match timed && numbers.next().is_none() {
        true => Ok(Sample { name, labels, series, value }),
        false => Err("nothing but a time in milliseconds behind the value"),
    }
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // Rust reads `inf` and `nan` in any spelling; the format has three.
        _ if text.contains(['n', 'N', 'i', 'I']) => None,
        _ => text.parse().ok(),
    }
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// The labels behind `{`, and what is behind `}`.
fn labels(mut rest: &str) -> Result<(Labels<'_>, &str), &'static str> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok((labels, behind));
        }
        let (name, behind) = rest.split_once('=').ok_or("LABEL=\"VALUE\" or }")?;
        let quoted = behind.trim_start().strip_prefix('"').ok_or("a quoted label value")?;
        let end = closing_quote(quoted).ok_or("a label value that ends with a quote")?;
        let name = name.trim_end();
        if !is_name(name) {
            return Err("the name of a label");
        }
        if labels.iter().any(|(other, _)| *other == name) {
            return Err("every label once");
        }
        labels.push((name, unescaped(&quoted[..end])));
        rest = quoted[end + 1..].trim_start();
        rest = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with('}') => rest,
            None => return Err(", or } behind a label"),
        };
    }
}

/// Where the value ends: the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = rest.next() {
        match (c, rest.as_str().chars().next()) {
            ('\\', Some(next @ ('\\' | '"' | 'n'))) => {
                rest.next();
                out.push(if next == 'n' { '\n' } else { next });
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Sample<'_> {
        match line(1, text).unwrap() {
            Line::Sample(sample) => sample,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn every_kind_of_line_is_read() {
        assert_eq!(line(1, "# HELP A_b  one \\\\ two\\nthree"), Ok(Line::Help("A_b", "one \\ two\nthree".into())));
        assert_eq!(line(1, "# TYPE A counter"), Ok(Line::Type("A", Some(Kind::Counter))));
        assert_eq!(line(1, "#\tTYPE\tA gauge\r"), Ok(Line::Type("A", Some(Kind::Gauge))));
        assert_eq!(line(1, "# TYPE A histogram"), Ok(Line::Type("A", None)));
        for text in ["", "  ", "#", "# anything", "#HELPLESS A"] {
            assert_eq!(line(1, text), Ok(Line::Nothing), "{text:?}");
        }
    }

    #[test]
    fn samples_are_read_with_and_without_labels_and_times() {
        let sample = parsed("A{gpu=\"0\", x = \"a\\\"}\\\\,\\n\",} 1.5e3 1700000000000");
        assert_eq!((sample.name, sample.value), ("A", 1500.0));
        assert_eq!(sample.labels, [("gpu", "0".into()), ("x", "a\"}\\,\n".into())]);
        assert_eq!(sample.series, "A{gpu=\"0\", x = \"a\\\"}\\\\,\\n\",}");
        assert_eq!(parsed("A 1").labels, []);
        assert_eq!((parsed("A{} 1").series, parsed("A +Inf").value), ("A{}", f64::INFINITY));
        assert!(parsed("A NaN").value.is_nan());
    }

    #[test]
    fn a_malformed_line_says_what_was_expected() {
        for (text, expected) in [
            ("A", "a value behind the name"),
            ("A{gpu=\"0\"}", "a number behind the labels"),
            ("A{gpu=\"0\"} ERROR - FAILED TO CONVERT", "a number behind the labels"),
            ("A{gpu=\"0\"} infinity", "a number behind the labels"),
            ("A{gpu=\"0\"} 1 soon", "nothing but a time in milliseconds behind the value"),
            ("A{gpu=\"0\"} 1 2 3", "nothing but a time in milliseconds behind the value"),
            ("A{gpu=0} 1", "a quoted label value"),
            ("A{gpu=\"0} 1", "a label value that ends with a quote"),
            ("A{gpu=\"a\"b\"} 1", ", or } behind a label"),
            ("A{gpu} 1", "LABEL=\"VALUE\" or }"),
            ("A{9=\"\"} 1", "the name of a label"),
            ("A{a=\"\",b=\"\",a=\"x\"} 1", "every label once"),
            ("9 1", "the name of a metric"),
            ("<html>", "a value behind the name"),
            ("# TYPE 9 gauge", "the name of a metric"),
        ] {
            assert_eq!(line(7, text), Err(ParseError::new(7, expected, text)));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in any::<String>(), bits in any::<u64>()) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let number = f64::from_bits(bits);
            let written = match number.is_finite() {
                true => format!("A{{a=\"{escaped}\"}} {number:e}"),
                false => format!("A{{a=\"{escaped}\"}} NaN"),
            };
            let sample = parsed(&written);
            prop_assert_eq!(&*sample.labels[0].1, &value);
            prop_assert!(sample.value == number || !number.is_finite());
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), noise in "(A|\\{|a=|\"|\\\\|\\}|,| |1|#|HELP|TYPE){0,12}") {
            let _ = (line(1, &text), line(1, &noise));
        }
    }
}
