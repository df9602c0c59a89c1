//! The section `ingest` of the configuration file: how much remote write may bring, and how replicas are recognised.

use std::fmt;

use serde_saphyr::Spanned;

use super::file::non_empty;
use super::rows;
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
    let IngestSettings { mut limits, mut replicas } = IngestSettings::default();
    let mut fields = Fields::of(value, format!("{name}."), mistakes);
    rows::read(&mut limits, &mut fields, mistakes);
    if let Some((name, value)) = fields.take("replica_labels") {
        replicas.labels = names(&name, value, mistakes);
    }
    rows::read(&mut replicas, &mut fields, mistakes);
    fields.finish(mistakes);
    IngestSettings { limits, replicas }
}

fn names(name: &str, value: &Spanned<Value>, mistakes: &mut Vec<Mistake>) -> Vec<String> {
    let items = list(name, value, mistakes).iter().enumerate();
    items.filter_map(|(n, item)| scalar(&format!("{name}[{n}]"), item, mistakes, non_empty)).collect()
}

/// Writes the section in the file's own form.
pub(super) fn write(f: &mut fmt::Formatter<'_>, settings: &IngestSettings) -> fmt::Result {
    writeln!(f, "ingest:")?;
    rows::write(&settings.limits, f)?;
    writeln!(f, "  replica_labels: {:?}", settings.replicas.labels)?;
    rows::write(&settings.replicas, f)
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
