//! Which of the two text formats.

mod negotiate;

/// The two text formats that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::OpenMetrics];

    /// Value of the Content-Type header; Prometheus 3 refuses a body without one.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a `Content-Type` announces; everything unknown is read as 0.0.4, as Prometheus 2 does.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn the_content_type_decides() {
        let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(Format::of(Some(openmetrics)), Format::OpenMetrics);
        assert_eq!(Format::of(Some("text/plain; version=0.0.4")), Format::Text);
        assert_eq!(Format::of(None), Format::Text);
        assert!(Format::ALL.iter().all(|format| Format::of(Some(format.content_type())) == *format));
    }
}
