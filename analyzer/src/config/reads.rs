//! The section about pages and the API.

use goodput_settings::kind::Count;
use goodput_settings::settings;

settings! {
    /// Bounds of reads, by their names in the configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadLimits: "reads" {}
    requests: Count = 8,
        "Pages and answers of the API that are made at once. Further requests wait for 5 s, then they are answered with status 503.",
        limit "goodput_analyzer_reads_in_work";
    reports: Count = 4,
        "Requests at once that need a report: one report is built at a time, and the others wait. Further requests are answered with status 503.",
        limit;
    max_rows: Count = 2_000_000,
        "Rows of verdicts that one read may return.",
        limit;
}
