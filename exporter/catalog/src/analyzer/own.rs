//! The program itself: judging, delivering, answering.

crate::metric_rows! {
    BUILD_INFO = Info None "goodput_analyzer_build_info" ["version", "revision", "date", "target"] {
        "Version of the analyzer, its commit, the day of that, and the target it was built for.",
        by "analyzer", series "1", since "0.1.0"
    }
    CLOCK_IN_DOUBT = Gauge None "goodput_analyzer_clock_in_doubt" [] {
        "1 while the clock of this machine is in doubt: it stepped, or most samples of several senders lie ahead of it; requests whose samples lie ahead of it are put off.",
        by "analyzer", series "1", since "0.1.0"
    }
    HTTP_REFUSED = Counter None "goodput_analyzer_http_refused_total" ["reason"] {
        "Connections and requests that were refused, by reason; the log names each peer once. An idle connection that was closed to make room for another counts too.",
        by "analyzer", series "10", since "0.1.0"
    }
    READS_IN_WORK = Gauge None "goodput_analyzer_reads_in_work" [] {
        "Pages and answers of the API that are being made.",
        by "analyzer", series "1", since "0.1.0"
    }
    REFUSED_READS = Counter None "goodput_analyzer_refused_reads_total" [] {
        "Requests for pages and the API that were refused with status 503 because a limit was reached.",
        by "analyzer", series "1", since "0.1.0"
    }
    READ_LIMIT = Gauge None "goodput_analyzer_read_limit" ["limit"] {
        "Bounds of pages and the API, by their name in the configuration.",
        by "analyzer", series "3", since "0.1.0"
    }
    JUDGED_UNTIL = Gauge Seconds "goodput_analyzer_judged_timestamp_seconds" [] {
        "Every cell that ends here or before has a verdict.",
        by "judging", series "1 after the first round", since "0.1.0"
    }
    JUDGE_DURATION = Gauge Seconds "goodput_analyzer_judge_duration_seconds" [] {
        "How long the last round of judging took.",
        by "judging", series "1", since "0.1.0"
    }
    JUDGE_FAILURES = Counter None "goodput_analyzer_judge_failures_total" [] {
        "Rounds of judging that failed, and windows that could not be judged.",
        by "judging", series "1", since "0.1.0"
    }
    JUDGE_FAILED_NODES = Gauge None "goodput_analyzer_judge_failed_nodes" [] {
        "Nodes whose last judging failed; they keep the verdicts that they had, and the log names them.",
        by "judging", series "1", since "0.1.0"
    }
    JUDGE_DROPPED_GPUS = Gauge None "goodput_analyzer_judge_dropped_gpus" [] {
        "GPUs that are not judged: there are more than max_gpus.",
        by "judging", series "1", since "0.1.0"
    }
    NODES = Gauge None "goodput_analyzer_nodes" [] {
        "Nodes with GPUs in the last five minutes that are judged.",
        by "judging", series "1", since "0.1.0"
    }
    TEAMS_FILE_ERROR = Gauge None "goodput_analyzer_teams_file_error" [] {
        "1 while the file of teams cannot be read or has mistakes; the teams that were read last hold on.",
        by "analyzer", series "1", since "0.1.0"
    }
    REPORT_DELIVERIES = Counter None "goodput_analyzer_report_deliveries_total" ["destination", "outcome"] {
        "Attempts to deliver the weekly report: delivered; failed, to be repeated; refused for good.",
        by "delivery", series "3 per destination", since "0.1.0"
    }
    REPORT_LAST_SUCCESS = Gauge Seconds "goodput_analyzer_report_last_success_timestamp_seconds" ["destination"] {
        "When the destination last took a weekly report; absent until the first.",
        by "delivery", series "1 per destination that took one", since "0.1.0"
    }
    REPORT_OVERDUE = Gauge None "goodput_analyzer_report_overdue" ["destination"] {
        "1 while the last attempt to deliver the weekly report has failed.",
        by "delivery", series "1 per destination", since "0.1.0"
    }
    REPORT_RESTATEMENTS = Counter None "goodput_analyzer_report_restatements_total" [] {
        "Weeks whose verdicts had changed after their delivery.",
        by "delivery", series "1", since "0.1.0"
    }
}
