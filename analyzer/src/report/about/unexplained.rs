//! Time without sufficient evidence.

use super::{About, Remedy};

pub(super) const UNEXPLAINED: About = About {
    meaning: "The GPU was held and not busy, and no rule had sufficient evidence of why.",
    light: "#4a5461",
    dark: "#b9c2cd",
    remedies: &[Remedy {
        action: "Look closer while it happens: a minute of scraping each second shows more than the stored samples, and \
             names the signals that are missing.",
        command: Some("goodput-analyzer why --target NODE:9400 --for 60s"),
        restarts: "nothing",
        who: "anyone who can reach the exporter",
        risk: "none",
        source: "goodput-analyzer why --help",
    }],
};
