//! Which section of the report is about a fault: a reader opens the report, and finds there what the script did.

use std::time::SystemTime;

use anyhow::{Context as _, Result};
use goodput_analyzer::report::MAX_FINDINGS;
use serde::Deserialize;

use super::script::Fault;

/// What this reads of the JSON report.
#[derive(Deserialize)]
pub struct Report {
    groups: Vec<Group>,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Group {
    class: String,
    findings: Vec<usize>,
}

#[derive(Deserialize)]
struct Finding {
    places: Vec<Place>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Place {
    gpu: String,
}

#[derive(Deserialize)]
struct Span {
    start_ms: u64,
    end_ms: u64,
}

impl Report {
    /// Parses the JSON form.
    ///
    /// # Errors
    /// When it is not of this form.
    pub fn parse(json: &str) -> Result<Report> {
        serde_json::from_str(json).context("the report's JSON")
    }

    /// The number of the section that is about a fault on a GPU: of its class, with the GPU among its places and hours of
    /// the fault among its spans.
    #[must_use]
    pub fn section(&self, fault: &Fault, uuid: &str) -> Option<usize> {
        let (from_ms, to_ms) = (since_epoch_ms(fault.from), since_epoch_ms(fault.to));
        let tells = |finding: &Finding| {
            finding.places.iter().any(|place| place.gpu == uuid)
                && finding.spans.iter().any(|span| span.start_ms < to_ms && span.end_ms > from_ms)
        };
        let mut shown = self.groups.iter().take(MAX_FINDINGS);
        let found = shown.position(|group| {
            group.class == fault.class && group.findings.iter().filter_map(|n| self.findings.get(*n)).any(tells)
        });
        found.map(|index| index + 1)
    }
}

fn since_epoch_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_section_is_of_the_class_the_gpu_and_the_hours() {
        let report = r#"{"groups": [{"class": "idle_held", "findings": [1]}, {"class": "checkpoint", "findings": [0]}],
            "findings": [
                {"places": [{"gpu": "GPU-a"}], "spans": [{"start_ms": 1000, "end_ms": 9000}], "confidence": 0.9},
                {"places": [{"gpu": "GPU-b"}], "spans": []}]}"#;
        let report = Report::parse(report).unwrap();
        let fault = |class, from, to| {
            let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
            Fault { class, gpus: vec![0], from: at(from), to: at(to), owner: None }
        };
        assert_eq!(report.section(&fault("checkpoint", 8, 20), "GPU-a"), Some(2));
        assert_eq!(report.section(&fault("checkpoint", 9, 20), "GPU-a"), None, "other hours");
        assert_eq!(report.section(&fault("checkpoint", 8, 20), "GPU-b"), None, "another GPU");
        assert_eq!(report.section(&fault("idle_held", 8, 20), "GPU-a"), None, "another class");
    }
}
