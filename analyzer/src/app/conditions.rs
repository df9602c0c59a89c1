//! What an operator has to know of the analyzer: one row per condition. `/state`, `/api/v1/health`, the alert rules and
//! their runbooks follow this table. A condition reads the analyzer's own metrics and nothing else, so that page, API and
//! alert see the same number.

use goodput_catalog::Metric;
use goodput_catalog::analyzer::{ingest, own, store};
use schemars::JsonSchema;
use serde::Serialize;

use super::page::Page;

/// Where runbooks are.
pub const RUNBOOKS: &str = "https://github.com/goodput/goodput/blob/main/docs/runbooks";

goodput_catalog::named! {
    /// How bad a condition is; as the label `severity` of its alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Severity {
        /// Samples are lost or refused now.
        Critical = "critical",
        /// Someone has to act within days.
        Warning = "warning",
        /// Worth knowing.
        Info = "info",
    }
}

/// When a condition holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Holds {
    /// The metric is above zero: a gauge now, a counter since the start.
    AboveZero,
    /// The metric has reached this share of a limit of the store.
    OfLimit(&'static str, f64),
    /// The metric is a time, and that is this many seconds ago.
    OlderThan(f64),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its name in the API.
    pub name: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// The metric that tells.
    pub metric: &'static Metric,
    /// The only series of the metric that counts, by one label; without one all series are added up.
    pub label: Option<(&'static str, &'static str)>,
    /// When it holds.
    pub holds: Holds,
    /// How bad it is.
    pub severity: Severity,
    /// What to do, in a sentence.
    pub action: &'static str,
    /// The alert, whose runbook has the same name.
    pub alert: &'static str,
}

/// Every condition, worst first.
pub static CONDITIONS: &[Condition] = &[
    Condition {
        name: "short_of_space",
        meaning: "The disk of the data directory is nearly full: no samples are taken, remote write is answered with 503.",
        metric: &store::SHORT_OF_SPACE,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Critical,
        action: "Free space on the disk, or shorten store.retention.",
        alert: "GoodputAnalyzerShortOfSpace",
    },
    Condition {
        name: "missing_samples",
        meaning: "Samples that were acknowledged were missing when the store was opened.",
        metric: &store::MISSING_SAMPLES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Critical,
        action: "Find out what changed the data directory, and restore a backup if the samples matter.",
        alert: "GoodputAnalyzerSamplesMissing",
    },
    Condition {
        name: "clock_in_doubt",
        meaning: "The analyzer's clock stepped or disagrees with most senders: remote write is answered with 503.",
        metric: &own::CLOCK_IN_DOUBT,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Critical,
        action: "Check time synchronisation on the analyzer's machine.",
        alert: "GoodputAnalyzerClockInDoubt",
    },
    Condition {
        name: "flush_failures",
        meaning: "Segments could not be written; their samples stay in the write-ahead.",
        metric: &store::FLUSH_FAILURES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Check the disk and the rights of the data directory; the log names the file.",
        alert: "GoodputAnalyzerFlushFailing",
    },
    Condition {
        name: "read_errors",
        meaning: "Stored files could not be read; reads are retried and no file is set aside for that.",
        metric: &store::READ_ERRORS,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Check the disk, the open file limit and the rights of the data directory; the log names the file.",
        alert: "GoodputAnalyzerReadErrors",
    },
    Condition {
        name: "quarantined",
        meaning: "Segments or write-ahead rows are damaged and set aside; their samples are not served.",
        metric: &store::QUARANTINED,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Run `goodput-analyzer store status`, and restore the files it names from a backup.",
        alert: "GoodputAnalyzerQuarantined",
    },
    Condition {
        name: "bad_rows",
        meaning: "Stored verdicts or events are damaged and set aside; reports do not count them.",
        metric: &store::BAD_ROWS,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Check the disk, run `goodput-analyzer store bad-rows`, and remove the rows once their hours were judged again.",
        alert: "GoodputAnalyzerBadRows",
    },
    Condition {
        name: "unknown_files",
        meaning: "Files in segments/ were not in the index and were moved to unknown/; their samples are not served.",
        metric: &store::UNKNOWN_FILES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Compare goodput.db with the files in unknown/; `goodput-analyzer store rebuild` makes a new index.",
        alert: "GoodputAnalyzerUnknownFiles",
    },
    Condition {
        name: "series_dropped",
        meaning: "Samples of new series are dropped because a series limit is reached.",
        metric: &ingest::RECEIVED_SAMPLES,
        label: Some(("outcome", "over_limit")),
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Raise store.max_series, or stop the sender that brings more series than before.",
        alert: "GoodputAnalyzerSeriesDropped",
    },
    Condition {
        name: "series_limit_near",
        meaning: "The catalogue holds at least 80 % of the series that store.max_series allows.",
        metric: &store::SERIES,
        label: None,
        holds: Holds::OfLimit("max_series", 0.8),
        severity: Severity::Warning,
        action: "Raise store.max_series before series are dropped, or shorten store.retention.",
        alert: "GoodputAnalyzerSeriesLimitNear",
    },
    Condition {
        name: "label_bytes_near",
        meaning: "Labels in the catalogue take at least 80 % of the memory that store.max_label_bytes allows.",
        metric: &store::LABEL_BYTES,
        label: None,
        holds: Holds::OfLimit("max_label_bytes", 0.8),
        severity: Severity::Warning,
        action: "Raise store.max_label_bytes before series are dropped, or shorten labels at the sender.",
        alert: "GoodputAnalyzerSeriesLimitNear",
    },
    Condition {
        name: "judging_stale",
        meaning: "The newest verdict is older than half an hour.",
        metric: &own::JUDGED_UNTIL,
        label: None,
        holds: Holds::OlderThan(1800.0),
        severity: Severity::Warning,
        action: "Read the log for why judging fails, or give the analyzer more CPU.",
        alert: "GoodputAnalyzerJudgingStale",
    },
    Condition {
        name: "judge_failures",
        meaning: "Rounds of judging failed.",
        metric: &own::JUDGE_FAILURES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Read the log: each failed round names its reason.",
        alert: "GoodputAnalyzerJudgingFailing",
    },
    Condition {
        name: "judge_failed_nodes",
        meaning: "The last round could not judge some nodes; all others have verdicts.",
        metric: &own::JUDGE_FAILED_NODES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Read the log: it names each node and the reason.",
        alert: "GoodputAnalyzerNodesNotJudged",
    },
    Condition {
        name: "upkeep_failures",
        meaning: "Merges or removals of segments failed and are retried; the data directory grows meanwhile.",
        metric: &store::UPKEEP_FAILURES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Check the disk and the rights of the data directory; the log names the file.",
        alert: "GoodputAnalyzerUpkeepFailing",
    },
    Condition {
        name: "teams_file_error",
        meaning: "The file of teams cannot be read or has mistakes; the teams that were read last hold on.",
        metric: &own::TEAMS_FILE_ERROR,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Warning,
        action: "Correct the file that teams_file names; the log and `check-config` name file, line and field.",
        alert: "GoodputAnalyzerTeamsFileError",
    },
    Condition {
        name: "skipped_series",
        meaning: "Series were skipped because their labels break a limit or a rule; the rest of their requests is stored.",
        metric: &ingest::SKIPPED_SERIES,
        label: None,
        holds: Holds::AboveZero,
        severity: Severity::Info,
        action: "The log names one metric per reason: drop it at its sender, or shorten its labels.",
        alert: "GoodputAnalyzerSeriesSkipped",
    },
];

/// Something about the analyzer that takes an operator's attention while it holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Condition")]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// Does it hold? Of a counter: did it happen since the start?
    pub active: bool,
    /// Value of the metric; null while it has none.
    pub value: Option<f64>,
    /// How bad it is.
    pub severity: Severity,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
    /// The metric of `/metrics` that it is read from.
    pub metric: &'static str,
    /// The alert of the shipped rules.
    pub alert: &'static str,
    /// Address of the runbook.
    pub runbook: String,
}

impl Condition {
    /// What the page says of it.
    fn at(&self, page: &Page, now_seconds: f64) -> Finding {
        let value = page.sum(self.metric, self.label);
        let active = value.is_some_and(|value| match self.holds {
            Holds::AboveZero => value > 0.0,
            Holds::OlderThan(seconds) => now_seconds - value > seconds,
            Holds::OfLimit(limit, share) => {
                let limit = page.sum(&store::LIMIT, Some(("limit", limit)));
                limit.is_some_and(|limit| limit > 0.0 && value >= share * limit)
            }
        });
        let Self { name, meaning, metric, severity, action, alert, .. } = *self;
        let runbook = format!("{RUNBOOKS}/{alert}.md");
        Finding { name, active, value, severity, meaning, action, metric: metric.name, alert, runbook }
    }
}

/// All conditions by what the page says.
pub(crate) fn findings(page: &Page, now_seconds: f64) -> Vec<Finding> {
    CONDITIONS.iter().map(|condition| condition.at(page, now_seconds)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(series: u64, quarantined: u64) -> Page {
        let mut page = Page::default();
        page.push(&store::QUARANTINED, &[], quarantined);
        page.push(&store::SERIES, &[], series);
        page.push(&store::LIMIT, &["max_series"], 100_u64);
        page.push(&store::LIMIT, &["max_gpus"], 1_u64);
        page.push(&ingest::RECEIVED_SAMPLES, &["stored"], 7_u64);
        page.push(&ingest::RECEIVED_SAMPLES, &["over_limit"], 0_u64);
        page.push(&ingest::SKIPPED_SERIES, &["label_bytes"], 1_u64);
        page.push(&ingest::SKIPPED_SERIES, &["empty_label"], 2_u64);
        page.push(&own::JUDGED_UNTIL, &[], 1000.5);
        page
    }

    fn active(page: &Page, now: f64) -> Vec<(&'static str, f64)> {
        let all = findings(page, now);
        all.into_iter().filter(|finding| finding.active).map(|finding| (finding.name, finding.value.unwrap())).collect()
    }

    #[test]
    fn a_condition_holds_by_its_metric_alone() {
        let all = [("quarantined", 2.0), ("series_limit_near", 80.0), ("skipped_series", 3.0)];
        assert_eq!(active(&page(80, 2), 2800.0), all);
        let stale = [all[0], all[1], ("judging_stale", 1000.5), all[2]];
        assert_eq!(active(&page(80, 2), 2801.0), stale);
        assert_eq!(active(&page(79, 0), 0.0), all[2..]);
        assert_eq!(active(&Page::default(), 0.0), []);
    }

    #[test]
    fn a_name_is_given_once_and_texts_are_sentences() {
        let names: std::collections::BTreeSet<_> = CONDITIONS.iter().map(|condition| condition.name).collect();
        assert_eq!(names.len(), CONDITIONS.len());
        for Condition { name, meaning, action, .. } in CONDITIONS {
            assert!([meaning, action].iter().all(|text| text.ends_with('.') && text.len() < 130), "{name}");
        }
    }
}
