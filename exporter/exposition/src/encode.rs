//! Families to exposition text: the only place that writes the lines about a family.

use std::fmt::Write as _;

use goodput_catalog::Kind;

use crate::{Families, Format, Head};

/// Writes all families that have samples.
#[must_use]
pub fn encode(families: &Families, format: Format) -> String {
    let bytes: usize = families.iter().map(|f| f.lines.len() + 256).sum();
    let mut out = String::with_capacity(bytes);
    for family in families.iter() {
        let (name, kind) = declared(&family.head, format);
        let _ = write!(out, "# HELP {name} ");
        escape_help(&mut out, &family.head.help, format);
        let _ = writeln!(out, "\n# TYPE {name} {kind}");
        if let Some(unit) = unit(&family.head, name).filter(|_| format == Format::OpenMetrics) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        out.push_str(&family.lines);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// Family name and type as the format wants them declared.
///
/// OpenMetrics names a counter's family without `_total` and rejects a counter whose samples lack it, so DCGM's
/// counters, which never had it, are `unknown` there. Text 0.0.4 has no `info` type.
fn declared(head: &Head, format: Format) -> (&str, &'static str) {
    let name = &*head.name;
    match (head.kind, format) {
        (None, Format::Text) => (name, "untyped"),
        (None, Format::OpenMetrics) => (name, "unknown"),
        (Some(Kind::Counter), Format::Text) => (name, "counter"),
        (Some(Kind::Counter), Format::OpenMetrics) => match name.strip_suffix("_total") {
            Some(stem) => (stem, "counter"),
            None => (name, "unknown"),
        },
        (Some(Kind::Info), Format::OpenMetrics) => (name.strip_suffix("_info").unwrap_or(name), "info"),
        (Some(Kind::Gauge | Kind::Info), _) => (name, "gauge"),
        (Some(Kind::Histogram), _) => (name, "histogram"),
    }
}

/// The unit to declare: only one that the family's name ends in, since Prometheus rejects the whole scrape otherwise.
fn unit(head: &Head, name: &str) -> Option<&'static str> {
    head.unit.name().filter(|unit| name.strip_suffix(unit).is_some_and(|stem| stem.ends_with('_')))
}

fn escape_help(out: &mut String, help: &str, format: Format) {
    for c in help.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if format == Format::OpenMetrics => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_catalog::{Metric, Unit};

    const fn row(name: &'static str, kind: Kind, unit: Unit, labels: &'static [&'static str]) -> Metric {
        let help = "Says \"a\\b\".";
        let (source, collector, series, since, purpose) = ("", "", "", "", "");
        Metric { name, kind, unit, labels, optional: &[], help, source, collector, series, since, purpose }
    }

    static BUSY: Metric = row("x_busy_seconds_total", Kind::Counter, Unit::Seconds, &["gpu"]);
    static ENERGY: Metric = row("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Kind::Counter, Unit::Millijoules, &["gpu"]);
    static FREE: Metric = row("x_free_bytes", Kind::Gauge, Unit::Bytes, &[]);
    static ABOUT: Metric = row("x_build_info", Kind::Info, Unit::None, &["version"]);
    static WAIT: Metric = row("x_wait_seconds", Kind::Histogram, Unit::Seconds, &["gpu"]);

    fn families() -> Families {
        let mut families = Families::default();
        families.push_histogram(&WAIT, &["0"], &[(0.001, 1), (1.0, 3)], 4, 5.25);
        families.push(&ABOUT, &["1.0"], 1.0);
        families.push(&FREE, &[], 1e20);
        families.push(&ENERGY, &["0"], 12_345_678.0);
        families.push(&BUSY, &["1"], 0.5);
        families.push(&BUSY, &["0"], f64::INFINITY);
        families
    }

    #[test]
    fn text_declares_every_family_once() {
        assert_eq!(encode(&families(), Format::Text), include_str!("../tests/fixtures/exposition/all.txt"));
    }

    #[test]
    fn openmetrics_declares_units_and_only_its_own_counters() {
        assert_eq!(encode(&families(), Format::OpenMetrics), include_str!("../tests/fixtures/exposition/all.om"));
    }

    #[test]
    fn nothing_is_valid_text_too() {
        assert_eq!(encode(&Families::default(), Format::Text), "");
        assert_eq!(encode(&Families::default(), Format::OpenMetrics), "# EOF\n");
    }
}
