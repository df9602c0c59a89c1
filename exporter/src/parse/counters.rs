//! dcgm-exporter's lists of fields to serve: its CSV, and its YAML configuration of version 1 and 2.
//!
//! More is accepted than dcgm-exporter accepts, where the meaning is clear: blanks around quotes and before `#`, and
//! commas in a help text without quotes, as it is the last column.

use std::collections::BTreeMap;
use std::path::PathBuf;

use goodput_exposition::{Counter, CounterType};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Spanned;

use super::{ParseError, lines};

const A_FIELD: &str = "the name of a DCGM field, such as DCGM_FI_DEV_GPU_TEMP";

/// What the YAML configuration says.
#[derive(Debug, PartialEq, Eq)]
pub struct Yaml {
    /// The fields.
    pub metrics: Metrics,
    /// Its keys that mean nothing here.
    pub ignored: Vec<String>,
}

/// Where the YAML configuration has its fields.
#[derive(Debug, PartialEq, Eq)]
pub enum Metrics {
    /// In a CSV file.
    File(PathBuf),
    /// In the configuration itself.
    Fields(Vec<Counter>),
}

/// Reads the CSV: field, type, help.
///
/// # Errors
/// The first line that is none of a row, a comment or blank.
pub fn csv(text: &str) -> Result<Vec<Counter>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    lines(text).filter(|(_, row)| !row.starts_with('#')).map(|(line, row)| counter(line, row)).collect()
}

fn counter(line: usize, row: &str) -> Result<Counter, ParseError> {
    let wrong = |expected, found: &str| ParseError::new(line, expected, found);
    let column = |text| column(text).ok_or_else(|| wrong("a column that ends with its quote and a comma", text));
    let three = || wrong("three columns: field, type, help", row);
    let (field, rest) = column(row)?;
    let (kind, rest) = column(rest.ok_or_else(three)?)?;
    let help = rest.ok_or_else(three)?.trim();
    let help = match help.starts_with('"') {
        true => match column(help)? {
            (help, None) => help,
            (_, Some(_)) => return Err(wrong("nothing behind the quoted help", help)),
        },
        false => help.to_owned(),
    };
    if !is_name(&field) {
        return Err(wrong(A_FIELD, &field));
    }
    let kind = counter_type(&kind).ok_or_else(|| wrong("gauge, counter, histogram, summary or label", &kind))?;
    Ok(Counter { line, field, kind, help })
}

/// The first column, without its quotes, and what is behind its comma. `None` when its quote does not end as it should.
fn column(text: &str) -> Option<(String, Option<&str>)> {
    let Some(quoted) = text.trim_start().strip_prefix('"') else {
        return Some(match text.split_once(',') {
            Some((column, rest)) => (column.trim().to_owned(), Some(rest)),
            None => (text.trim().to_owned(), None),
        });
    };
    let (mut column, mut rest) = (String::new(), quoted);
    loop {
        let (part, behind) = rest.split_once('"')?;
        column.push_str(part);
        // A doubled quote stands for one.
        match behind.strip_prefix('"') {
            Some(more) => {
                column.push('"');
                rest = more;
            }
            None => {
                let behind = behind.trim_start();
                let rest = behind.strip_prefix(',');
                return (rest.is_some() || behind.is_empty()).then_some((column.trim().to_owned(), rest));
            }
        }
    }
}

fn counter_type(text: &str) -> Option<CounterType> {
    Some(match text {
        "gauge" => CounterType::Gauge,
        "counter" => CounterType::Counter,
        "histogram" => CounterType::Histogram,
        "summary" => CounterType::Summary,
        "label" => CounterType::Label,
        _ => return None,
    })
}

/// Can this be the name of a metric?
#[must_use]
pub fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Its `collection` or `collections`, which say how often DCGM is to look, mean nothing here.
#[derive(Deserialize)]
struct File {
    version: u64,
    #[serde(default)]
    metrics: Section,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    file: Option<PathBuf>,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Field {
    name: Spanned<String>,
    prometheus_type: CounterType,
    #[serde(default)]
    help: String,
}

/// Reads the YAML configuration.
///
/// # Errors
/// A sentence with the line and what was expected there.
pub fn yaml(text: &str) -> Result<Yaml, String> {
    let file: File = document(text)?;
    if !(1..=2).contains(&file.version) {
        return Err(format!("version: expected 1 or 2, found {}", file.version));
    }
    let keys: BTreeMap<String, IgnoredAny> = document(text)?;
    let ignored = keys.into_keys().filter(|key| key != "version" && key != "metrics").collect();
    let metrics = match (file.metrics.file, file.metrics.fields) {
        (Some(file), fields) if fields.is_empty() => Metrics::File(file),
        (None, fields) if !fields.is_empty() => {
            Metrics::Fields(fields.into_iter().map(Counter::try_from).collect::<Result<_, _>>()?)
        }
        _ => return Err("metrics: expected either file or a list of fields".to_owned()),
    };
    Ok(Yaml { metrics, ignored })
}

fn document<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

impl TryFrom<Field> for Counter {
    type Error = String;

    fn try_from(Field { name, prometheus_type: kind, help }: Field) -> Result<Self, String> {
        let line = usize::try_from(name.referenced.line()).unwrap_or_default();
        match is_name(&name.value) {
            true => Ok(Self { line, field: name.value, kind, help }),
            false => Err(ParseError::new(line, A_FIELD, &name.value).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEFAULT: &str = include_str!("../../tests/fixtures/counters/default.csv");

    fn rows(text: &str) -> Vec<(usize, String, CounterType, String)> {
        let rows = csv(text).unwrap();
        rows.into_iter().map(|row| (row.line, row.field, row.kind, row.help)).collect()
    }

    #[test]
    fn the_default_list_is_read() {
        let rows = csv(DEFAULT).unwrap();
        assert_eq!(rows.len(), 26);
        let temperature = rows.iter().find(|row| row.field == "DCGM_FI_DEV_GPU_TEMP").unwrap();
        assert_eq!((temperature.line, temperature.kind), (9, CounterType::Gauge));
        assert_eq!(temperature.help, "Degrees Celsius of the GPU.");
        let label = rows.iter().find(|row| row.kind == CounterType::Label).unwrap();
        assert_eq!(label.field, "DCGM_FI_DRIVER_VERSION");
    }

    #[test]
    fn quotes_blanks_comments_and_commas_are_understood() {
        let text = "\u{feff}# first, gauge, no\r\n\r\n  \"A_B\" ,\tgauge ,  one, two \r\n   # x\nC,label,\nD,counter,\"a \"\"b\"\", c\" \n";
        let expected = [
            (3, "A_B".to_owned(), CounterType::Gauge, "one, two".to_owned()),
            (5, "C".to_owned(), CounterType::Label, String::new()),
            (6, "D".to_owned(), CounterType::Counter, "a \"b\", c".to_owned()),
        ];
        assert_eq!(rows(text), expected);
    }

    #[test]
    fn a_malformed_row_is_named() {
        for (text, message) in [
            ("A,gauge,h\nB,gauge", "line 2: expected three columns: field, type, help, found \"B,gauge\""),
            ("B", "line 1: expected three columns: field, type, help, found \"B\""),
            ("B;gauge;h", "line 1: expected three columns: field, type, help, found \"B;gauge;h\""),
            ("B C,gauge,h", "line 1: expected the name of a DCGM field, such as DCGM_FI_DEV_GPU_TEMP, found \"B C\""),
            (",gauge,h", "line 1: expected the name of a DCGM field, such as DCGM_FI_DEV_GPU_TEMP, found \"\""),
            ("B,gaugee,h", "line 1: expected gauge, counter, histogram, summary or label, found \"gaugee\""),
            ("B,,h", "line 1: expected gauge, counter, histogram, summary or label, found \"\""),
            ("B,gauge,\"h", "line 1: expected a column that ends with its quote and a comma, found \"\\\"h\""),
            (
                "B,gauge,\"h\" x",
                "line 1: expected a column that ends with its quote and a comma, found \"\\\"h\\\" x\"",
            ),
            ("B,gauge,\"h\",x", "line 1: expected nothing behind the quoted help, found \"\\\"h\\\",x\""),
        ] {
            assert_eq!(csv(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }

    #[test]
    fn yaml_lists_fields_or_names_a_file() {
        let text = "version: 1\n\
                    collection:\n  interval: 30s\n  watchGroups: [{name: slow, interval: 5m, fields: [A]}]\n\
                    metrics:\n  fields:\n  - name: A\n    prometheusType: gauge\n    help: one\n\
                    \x20 - {name: B, prometheusType: label}\n";
        let counter =
            |line, field: &str, kind, help: &str| Counter { line, field: field.into(), kind, help: help.into() };
        let fields = vec![counter(7, "A", CounterType::Gauge, "one"), counter(10, "B", CounterType::Label, "")];
        assert_eq!(yaml(text), Ok(Yaml { metrics: Metrics::Fields(fields), ignored: vec!["collection".into()] }));
        let text = "version: 2\nmetrics: {file: /etc/x.csv}\ncollections: [{name: a}]\n";
        let file = Metrics::File("/etc/x.csv".into());
        assert_eq!(yaml(text), Ok(Yaml { metrics: file, ignored: vec!["collections".into()] }));
    }

    #[test]
    fn malformed_yaml_is_named() {
        for (text, part) in [
            ("version: 3\nmetrics: {file: x}", "version: expected 1 or 2, found 3"),
            ("metrics: {file: x}", "missing field `version`"),
            ("version: 1", "metrics: expected either file or a list of fields"),
            ("version: 1\nmetrics: {file: x, fields: [{name: A, prometheusType: gauge}]}", "expected either file or"),
            ("version: 1\nmetrics:\n  fields:\n  - {name: A, prometheusType: gage}", "line 4"),
            ("version: 1\nmetrics:\n  fields:\n  - {name: A B, prometheusType: gauge}", "line 4: expected the name of"),
            ("version: 1\nmetrics:\n  field: []", "line 3"),
            ("web.max-requests: 3", "missing field `version`"),
            ("[", "line 1"),
        ] {
            let error = yaml(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    fn written(counter: &Counter, quoted: bool) -> String {
        let kind = format!("{:?}", counter.kind).to_lowercase();
        match quoted {
            true => format!("{}, {kind}, \"{}\"\n", counter.field, counter.help.replace('"', "\"\"")),
            false => format!("{},{kind},{}\n", counter.field, counter.help),
        }
    }

    proptest! {
        #[test]
        fn rows_read_back(
            listed in prop::collection::vec(("[A-Za-z_][A-Za-z0-9_]{0,40}", 0..5usize, "[a-z]([ -~]{0,40}[a-z])?", any::<bool>()), 0..10),
        ) {
            let kinds = [CounterType::Gauge, CounterType::Counter, CounterType::Histogram, CounterType::Summary, CounterType::Label];
            let row = |(i, (field, kind, help, _)): (usize, &(String, usize, String, bool))| {
                Counter { line: i + 1, field: field.clone(), kind: kinds[*kind], help: help.clone() }
            };
            let rows: Vec<Counter> = listed.iter().enumerate().map(row).collect();
            let text: String = rows.iter().zip(&listed).map(|(row, (.., quoted))| written(row, *quoted)).collect();
            prop_assert_eq!(csv(&text).unwrap(), rows);
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), noise in "[A,\"# \n]{0,40}") {
            let _ = (csv(&text), csv(&noise), yaml(&text));
        }
    }
}
