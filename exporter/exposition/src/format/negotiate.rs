//! Which text format a client wants, from its `Accept` header (RFC 9110, section 12.5.1).

use super::Format;

impl Format {
    /// The format for an `Accept` header, all its lines joined by commas.
    ///
    /// OpenMetrics only for those who name it, as a browser's `*/*` is better served by plain text. Of equal weights
    /// the first counts. A client that accepts neither gets plain text: a scraper may still make use of it.
    #[must_use]
    pub fn negotiate(accept: &str) -> Format {
        let mut best = (0.0, Format::Text);
        for (format, weight) in accept.split(',').filter_map(range) {
            if weight > best.0 {
                best = (weight, format);
            }
        }
        best.1
    }
}

/// The format that one media range asks for, and its weight.
fn range(text: &str) -> Option<(Format, f64)> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let (mut version, mut weight) = (None, 1.0);
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "version" => version = Some(value),
            "q" => weight = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?,
            _ => {}
        }
    }
    let format = match (media.as_str(), version) {
        ("application/openmetrics-text", None | Some("1.0.0")) => Format::OpenMetrics,
        ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Format::Text,
        _ => return None,
    };
    Some((format, weight))
}

#[cfg(test)]
mod tests {
    use super::Format::{self, OpenMetrics, Text};

    #[test]
    fn the_heaviest_known_range_counts() {
        let prometheus_2_42 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                               text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,\
                            application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, expected) in [
            (prometheus_2_42, OpenMetrics),
            (prometheus_3, OpenMetrics),
            (browser, Text),
            ("", Text),
            ("*/*", Text),
            ("application/*", Text),
            ("application/json", Text),
            ("Application/OpenMetrics-Text", OpenMetrics),
            ("application/openmetrics-text; version=\"1.0.0\"", OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Text),
            ("application/openmetrics-text;version=2.0.0, text/plain;q=0.1", Text),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", Text),
            ("text/plain;q=0.2,application/openmetrics-text; q=0.3", OpenMetrics),
            ("text/plain, application/openmetrics-text", Text),
            ("application/openmetrics-text, text/plain", OpenMetrics),
            ("application/openmetrics-text;q=0", Text),
            ("application/openmetrics-text;q=NaN", Text),
            ("application/openmetrics-text;q=9", Text),
            (";;q=,=;,", Text),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept}");
        }
    }
}
