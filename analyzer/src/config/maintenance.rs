//! The list `maintenance` of the configuration file.

use std::fmt;

use glob::Pattern;
use jiff::Timestamp;
use serde_saphyr::Spanned;

use super::file::text;
use super::yaml::{Fields, Mistake, Value, line, list};
use goodput_exposition::sample::TimeMs;
use goodput_rules::classify::Declared;

/// Reads the list.
pub(super) fn maintenance(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<Declared> {
    let items = list(name, value, mistakes).iter().enumerate();
    items.filter_map(|(n, item)| declared(format!("{name}[{n}]."), item, mistakes)).collect()
}

fn declared(path: String, item: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Option<Declared> {
    let mut fields = Fields::of(item, path.clone(), mistakes);
    let node = fields.required("node", mistakes, pattern);
    let cluster = fields.optional("cluster", None, mistakes, |value| pattern(value).map(Some));
    let gpu = fields.optional("gpu", None, mistakes, |value| pattern(value).map(Some));
    let from = fields.required("from", mistakes, time);
    let until = fields.required("until", mistakes, time);
    fields.finish(mistakes);
    let (node, span) = (node?, from?..until?);
    if span.is_empty() {
        mistakes.push(Mistake { line: line(item), text: format!("{path}until: expected a time after from") });
    }
    Some(Declared { node, cluster, gpu, span })
}

fn pattern(value: &Value) -> Result<Pattern, String> {
    let pattern = text(value).filter(|text| !text.is_empty()).and_then(|text| Pattern::new(text).ok());
    pattern.ok_or_else(|| "a name, in which * and ? stand for any others, such as gpu-0*".into())
}

fn time(value: &Value) -> Result<TimeMs, String> {
    let time = text(value).and_then(|text| text.parse::<Timestamp>().ok());
    time.map(Timestamp::as_millisecond).ok_or_else(|| "a time with its zone such as 2026-03-01T08:00:00+01:00".into())
}

/// In the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, all: &[Declared]) -> fmt::Result {
    writeln!(f, "maintenance:{}", if all.is_empty() { " []" } else { "" })?;
    for Declared { node, cluster, gpu, span } in all {
        write!(f, "  - {{node: {:?}, ", node.as_str())?;
        for (key, pattern) in [("cluster", cluster), ("gpu", gpu)] {
            if let Some(pattern) = pattern {
                write!(f, "{key}: {:?}, ", pattern.as_str())?;
            }
        }
        let time = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        writeln!(f, "from: '{}', until: '{}'}}", time(span.start), time(span.end))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn windows_are_read_and_printed() {
        let config = Config::parse(
            "maintenance:\n- {node: 'gpu-0[1-4]', from: '2026-03-01T08:00:00+01:00', until: '2026-03-01T12:00:00Z'}\n\
             - {node: '*', cluster: 'eu-*', gpu: 'GPU-7*', from: '2026-03-02T00:00:00Z', until: '2026-03-03T00:00:00Z'}\n",
        )
        .unwrap();
        let spans: Vec<i64> = config.maintenance.iter().map(|d| d.span.end - d.span.start).collect();
        assert_eq!(spans, [5 * 3_600_000, 24 * 3_600_000]);
        assert!(config.maintenance[0].node.matches("gpu-03") && !config.maintenance[0].node.matches("gpu-05"));
        assert_eq!(Config::parse(&config.to_string()).unwrap().maintenance, config.maintenance);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let file = "maintenance:\n\
                    - {from: '2026-03-01T08:00:00Z', until: '2026-03-01T09:00:00Z'}\n\
                    - {node: 'a[', from: '2026-03-01T08:00:00Z', until: '2026-03-01T09:00:00Z'}\n\
                    - {node: a, from: '2026-03-01 08:00', until: '2026-03-01T09:00:00Z'}\n\
                    - {node: a, from: '2026-03-01T10:00:00Z', until: '2026-03-01T09:00:00Z', why: disks}\n";
        let mistakes = Config::parse(file).unwrap_err();
        let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
        let time = "a time with its zone such as 2026-03-01T08:00:00+01:00";
        assert_eq!(
            shown,
            [
                "2: maintenance[0].node: missing".to_owned(),
                "3: maintenance[1].node: expected a name, in which * and ? stand for any others, such as gpu-0*, found \"a[\""
                    .into(),
                format!("4: maintenance[2].from: expected {time}, found \"2026-03-01 08:00\""),
                "5: maintenance[3].until: expected a time after from".into(),
                "5: maintenance[3].why: unknown key, expected one of node, cluster, gpu, from, until".into(),
            ]
        );
    }
}
