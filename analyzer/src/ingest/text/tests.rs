use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ingest::fixture;

fn parse_now(body: &str, format: Format) -> Result<Batch, TextError> {
    parse(body, format, &Limits::default(), 1000)
}

fn text(body: &str) -> Result<Batch, TextError> {
    parse_now(body, Format::Text)
}

fn openmetrics(body: &str) -> Result<Batch, TextError> {
    parse_now(body, Format::OpenMetrics)
}

/// Labels and value of every series, in order.
fn plain(batch: &Batch) -> Vec<(BTreeMap<&str, &str>, f64, TimeMs)> {
    batch
        .series()
        .flat_map(|series| series.samples.iter().map(move |s| (series.labels.iter().collect(), s.value, s.time_ms)))
        .collect()
}

fn expect(name: &'static str, labels: &[(&'static str, &'static str)]) -> BTreeMap<&'static str, &'static str> {
    labels.iter().copied().chain([("__name__", name)]).collect()
}

#[test]
fn reads_the_recorded_dcgm_scrapes() {
    for name in ["8xh100-aicr", "a100-mig-3-instances", "a100-mig-disabled", "l4-kops", "t4-ericsson"] {
        let facts = fixture::read(&format!("dcgm-{name}/facts.json"));
        let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
        let mut expected = Vec::new();
        for (family, samples) in facts["families"].as_object().unwrap() {
            for sample in samples.as_array().unwrap() {
                let mut labels: BTreeMap<&str, &str> =
                    sample.as_object().unwrap().iter().map(|(n, v)| (n.as_str(), v.as_str().unwrap())).collect();
                let value: f64 = labels.remove("value").unwrap().parse().unwrap();
                labels.insert("__name__", family);
                labels.retain(|_, value| !value.is_empty());
                expected.push((labels, value, 1000));
            }
        }
        let body = fixture::read(&format!("dcgm-{name}/metrics.prom"));
        let batch = text(&body).unwrap();
        let mut read = plain(&batch);
        read.sort_by(|a, b| a.0.cmp(&b.0));
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn reads_node_exporters_own_expected_output() {
    let body = fixture::read("node-exporter-e2e/e2e-output.txt");
    let batch = text(&body).unwrap();
    let lines = body.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(plain(&batch).len(), lines);
    // MANIFEST.md: 1228 metric families.
    assert_eq!(body.lines().filter(|line| line.starts_with("# TYPE")).count(), 1228);
    let free = |node| expect("node_memory_numa_MemFree", &[("node", node)]);
    for (node, value) in [("0", 5.4303100928e+10), ("1", 4.0586022912e+10), ("2", 4.0586022912e+10)] {
        assert!(plain(&batch).contains(&(free(node), value, 1000)), "{node}");
    }
}

#[test]
fn reads_every_form_of_a_text_line() {
    let body = "# a comment\n\n\t# HELP a b \\ c\n# TYPE a counter\n# TYPE a counter\n\
        a 1\n  b \t{ x = \"1\" , y=\"\", } \t+Inf\t-5 \nc:d{p=\"a\\\\b\\\"c\\nd}\u{e9}\"} 1e3 99\na 2";
    let batch = text(body).unwrap();
    let b = expect("b", &[("x", "1")]);
    let c = expect("c:d", &[("p", "a\\b\"c\nd}\u{e9}")]);
    assert_eq!(plain(&batch), [(expect("a", &[]), 1.0, 1000), (b, f64::INFINITY, -5), (c, 1000.0, 99)]);
}

/// Forms that Prometheus 3 takes, and some that only cost it nothing to read.
#[test]
fn reads_what_prometheus_reads() {
    let one = |name, labels: &[(&'static str, &'static str)]| vec![(expect(name, labels), 1.0, 1000)];
    let cases = [
        (r#"a{p="C:\dir\\new"} 1"#, one("a", &[("p", r"C:\dir\new")])),
        (r#"{"my.metric",label="x"} 1"#, one("my.metric", &[("label", "x")])),
        (r#"{label="x","my.metric"} 1"#, one("my.metric", &[("label", "x")])),
        (r#"{"my.metric"} 1"#, one("my.metric", &[])),
        (r#"{"m\"q\"", "my.label" = "x",} 1"#, one("m\"q\"", &[("my.label", "x")])),
        (r#"a{"my.label"="x",b="y"} 1"#, one("a", &[("my.label", "x"), ("b", "y")])),
        ("# UNIT a seconds\na 1", one("a", &[])),
        ("# TYPE a nonsense\n# TYPE 5 gauge\n# HELP\n# TYPE a\n#\n#x\na 1", one("a", &[])),
        ("a 1 # {trace=\"t\"} 0.5", one("a", &[])),
        ("a  1 ", one("a", &[])),
        ("\n\na 1\r\n\r", one("a", &[])),
    ];
    for (line, expected) in cases {
        for (format, body) in [(Format::Text, line.to_owned()), (Format::OpenMetrics, format!("{line}\n# EOF"))] {
            assert_eq!(plain(&parse_now(&body, format).unwrap()), expected, "{body:?}");
        }
    }
}

#[test]
fn reads_every_form_of_an_openmetrics_line() {
    let body = "# HELP a_seconds help with spaces\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
        a_seconds_total{x=\"y\"} 1.5 1700000000.1234 # {trace=\"t\"} 0.7 1.6e9\nb 2 # {} 1\nc NaN\n# EOF\n";
    let batch = openmetrics(body).unwrap();
    let read = plain(&batch);
    assert_eq!(read[0], (expect("a_seconds_total", &[("x", "y")]), 1.5, 1_700_000_000_123));
    assert_eq!(read[1], (expect("b", &[]), 2.0, 1000));
    assert!(read[2].1.is_nan());
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    let cases = [
        (Format::Text, "a 1\nb\n", "line 2: expected a number, found \"\""),
        (Format::Text, "1a 2\n", "line 1: expected a metric name, found '1'"),
        (Format::Text, "a{x=y} 1\n", "line 1: expected \"\\\"\", found 'y'"),
        (Format::Text, "a{x=\"y} 1\n", "line 1: expected a closing quote"),
        (Format::Text, "a{x=\"y\\", "line 1: expected a closing quote"),
        (Format::Text, "a{x=\"y\" z=\"\"} 1\n", "line 1: expected \",\", found 'z'"),
        (Format::Text, "a{x=\"1\",x=\"2\"} 1\n", "line 1: label \"x\" is there twice"),
        (Format::Text, "a{\"b\"} 1\n", "line 1: expected one metric name, found \"b\" too"),
        (Format::Text, "{x=\"1\"} 1\n", "line 1: the metric name is missing"),
        (Format::Text, "{\"\"} 1\n", "line 1: the metric name is missing"),
        (Format::Text, "a{\"\"=\"1\"} 1\n", "line 1: label 1 has no name"),
        (Format::Text, "a 1 2 3\n", "line 1: expected the end of the line, found \"3\""),
        (Format::Text, "a 1 1.5\n", "line 1: expected a timestamp in milliseconds, found \"1.5\""),
        (Format::Text, "a 0x\n", "line 1: expected a number, found \"0x\""),
        (Format::OpenMetrics, "a 1\n", "line 2: expected # EOF at the end"),
        (Format::OpenMetrics, "# EOF\na 1\n", "line 2: expected nothing after # EOF"),
        (Format::OpenMetrics, "a 1", "line 1: expected a line feed at the end of the line: it may be cut"),
        (Format::OpenMetrics, "a 1 1e300\n# EOF\n", "line 1: expected a timestamp in seconds, found \"1e300\""),
    ];
    for (format, body, expected) in cases {
        assert_eq!(parse_now(body, format).unwrap_err().to_string(), expected, "{body:?}");
    }
}

#[test]
fn a_bad_line_costs_itself() {
    let body = b"a 1\nb x\nc{d=\"\xff\"} 1\n# \xff\n\xff\ne 5\nf{\n# EOF\ng 7\n";
    let limits = Limits::default();
    let mut points = Points::new(body.as_slice(), Format::OpenMetrics, &limits);
    let (mut names, mut bad) = (Vec::new(), Vec::new());
    for point in points.by_ref() {
        match point {
            Ok(point) => names.push(point.name.into_owned()),
            Err(error) => bad.push(error.line),
        }
    }
    assert_eq!((names, bad), (vec!["a".to_owned(), "e".to_owned()], vec![2, 3, 4, 5, 7, 9]));
    assert_eq!(points.finish(), Ok(()));
}

#[test]
fn limits_are_named() {
    let limits = Limits { samples: 2, labels: 2, label_bytes: 9, ..Limits::default() };
    let error = |body| parse(body, Format::Text, &limits, 0).unwrap_err().to_string();
    assert_eq!(error("a 1\nb 1\nc 1\n"), "line 3: more than 2 samples");
    assert_eq!(error("a{b=\"1\",c=\"2\"} 1\n"), "line 1: more than 2 labels");
    assert_eq!(error("a{b=\"123456789\"} 1\n"), "line 1: label \"b\" of 10 bytes, more than 9");
    assert_eq!(error("abcde 1\n"), "line 1: label \"__name__\" of 13 bytes, more than 9");
    assert!(parse("a{b=\"12345678\"} 1\nb 1\n", Format::Text, &limits, 0).is_ok());
}

#[test]
fn the_content_type_decides() {
    assert_eq!(Format::of(Some("application/openmetrics-text; version=1.0.0; charset=utf-8")), Format::OpenMetrics);
    assert_eq!(Format::of(Some("text/plain; version=0.0.4")), Format::Text);
    assert_eq!(Format::of(None), Format::Text);
}

proptest! {
    #[test]
    fn never_panics(body in "\\PC*", pieces in proptest::collection::vec(prop_oneof![
        Just("a"), Just("{"), Just("}"), Just("="), Just("\""), Just("\\"), Just(","), Just(" "), Just("\n"), Just("1"),
        Just("# "), Just("TYPE "), Just("UNIT "), Just("EOF"), Just("\u{e9}"), Just("-"),
    ], 0..40)) {
        for format in [Format::Text, Format::OpenMetrics] {
            let _ = parse_now(&body, format);
            let _ = parse_now(&pieces.concat(), format);
        }
    }

    #[test]
    fn every_label_value_comes_back(value in any::<String>(), number in any::<f64>()) {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let line = format!("a{{x=\"{escaped}\"}} {number}\n");
        for (format, body) in [(Format::Text, line.clone()), (Format::OpenMetrics, line + "# EOF\n")] {
            let batch = parse_now(&body, format).unwrap();
            prop_assert_eq!(batch.series().next().unwrap().labels.get("x").unwrap_or_default(), &value);
            prop_assert_eq!(batch.series().next().unwrap().samples[0].value.total_cmp(&number), std::cmp::Ordering::Equal);
        }
    }
}
