//! Time without sufficient evidence.

use super::{ClassInfo, Group, Remedy};

pub(super) const UNEXPLAINED: ClassInfo = ClassInfo {
    name: "unexplained",
    title: "Not busy, cause unknown",
    group: Group::Unexplained,
    version: 3,
    meaning: "The GPU was held and not busy, and no rule had sufficient evidence of why.",
    light: "#1d2521",
    dark: "#f1f8ec",
    key: "?",
    check: "The time has another class in the next report.",
    gain: None,
    remedies: &[Remedy {
        action: "Look closer while it happens: a minute of scraping each second shows more than the stored samples, and \
             names the signals that are missing.",
        command: Some("goodput-analyzer why --target NODE:9400 --for 60s"),
        who: "anyone who can reach the exporter",
        source: "goodput-analyzer why --help",
        ..Remedy::LIVE
    }],
};
