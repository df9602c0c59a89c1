//! The section `ingest` of the configuration file: how much remote write may bring, and how replicas are recognised.

use std::fmt;

use serde_saphyr::Spanned;

use super::file::{count, duration_of, non_empty};
use super::yaml::{Fields, Mistake, Value, list, scalar};
use crate::ingest::Limits;
use crate::ingest::replicas::Options;

/// What the section says, with defaults for what it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestSettings {
    /// Bounds of remote write, and of what a target may answer.
    pub limits: Limits,
    /// How replicas of one Prometheus are recognised.
    pub replicas: Options,
}

/// Reads the section.
pub(super) fn settings(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> IngestSettings {
    let default = IngestSettings::default();
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    let mut number = |key, default| fields.optional(key, default, mistakes, count);
    let l = default.limits;
    let limits = Limits {
        body_bytes: number("body_bytes", l.body_bytes),
        decompressed_bytes: number("decompressed_bytes", l.decompressed_bytes),
        samples: number("samples", l.samples),
        labels: number("labels", l.labels),
        label_bytes: number("label_bytes", l.label_bytes),
        symbols: number("symbols", l.symbols),
        requests: number("requests", l.requests),
        sender_requests: number("sender_requests", l.sender_requests),
        work_bytes: number("work_bytes", l.work_bytes),
        read: fields.optional("read_timeout", l.read, mistakes, duration_of),
    };
    let labels = fields.take("replica_labels").map(|(name, value)| names(&name, value, mistakes));
    let takeover = fields.optional("replica_takeover", default.replicas.takeover, mistakes, duration_of);
    fields.finish(mistakes);
    IngestSettings { limits, replicas: Options { labels: labels.unwrap_or(default.replicas.labels), takeover } }
}

fn names(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<String> {
    let items = list(name, value, mistakes).iter().enumerate();
    items.filter_map(|(n, item)| scalar(&format!("{name}[{n}]"), item, mistakes, non_empty)).collect()
}

/// Writes the section in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, settings: &IngestSettings) -> fmt::Result {
    writeln!(f, "ingest:")?;
    for (name, limit) in settings.limits.list() {
        writeln!(f, "  {name}: {limit}")?;
    }
    let Options { labels, takeover } = &settings.replicas;
    writeln!(f, "  read_timeout: {}ms\n  replica_labels: {labels:?}", settings.limits.read.as_millis())?;
    writeln!(f, "  replica_takeover: {}ms", takeover.as_millis())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn the_section_is_read_and_printed_as_a_config() {
        let config = Config::parse(
            "ingest: {labels: 7, sender_requests: 2, read_timeout: 5s, replica_labels: [r], replica_takeover: 1m}\n",
        );
        let ingest = config.unwrap().ingest;
        assert_eq!((ingest.limits.labels, ingest.limits.sender_requests, ingest.limits.read.as_secs()), (7, 2, 5));
        assert_eq!((&ingest.replicas.labels[..], ingest.replicas.takeover.as_secs()), (&["r".to_owned()][..], 60));
        let printed = Config { ingest: ingest.clone(), ..Config::default() }.to_string();
        assert_eq!(Config::parse(&printed).unwrap().ingest, ingest);
        assert_eq!(Config::parse("").unwrap().ingest, Config::default().ingest);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        for (section, error) in [
            ("labels: 0", "2: ingest.labels: expected a whole number above 0, found \"0\""),
            ("replica_labels: r", "2: ingest.replica_labels: expected a list, found \"r\""),
            (
                "replica_takeover: soon",
                "2: ingest.replica_takeover: expected a positive duration such as 15s, 500ms or 1m30s, found \"soon\"",
            ),
        ] {
            let mistakes = Config::parse(&format!("ingest:\n  {section}\n")).unwrap_err();
            let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
            assert_eq!(shown, [error]);
        }
    }
}
