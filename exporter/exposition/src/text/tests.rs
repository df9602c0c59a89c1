use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// A file of the recorded fixtures next to the repository.
fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures").join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; this test needs the recorded fixtures", path.display()))
}

/// Labels with the name, value and time.
type Read = (BTreeMap<String, String>, f64, Option<i64>);

/// Every sample, or the first error, which a fault is too.
fn read(body: &str, format: Format, limits: Limits) -> Result<Vec<Read>, TextError> {
    let mut points = Points::new(body, format, limits);
    let mut all = Vec::new();
    while let Some(point) = points.next() {
        let Point { name, labels, value, time_ms, fault } = point?;
        if let Some(fault) = fault {
            return Err(TextError { line: points.line(), reason: fault.detail });
        }
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty()).chain([("__name__".into(), name)]);
        all.push((labels.map(|(name, value)| (name.into_owned(), value.into_owned())).collect(), value, time_ms));
    }
    points.finish().map(|()| all)
}

fn text(body: &str) -> Vec<Read> {
    read(body, Format::Text, Limits::NONE).unwrap()
}

fn expect(name: &str, labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().copied().chain([("__name__", name)]).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn reads_the_recorded_dcgm_scrapes() {
    for name in ["8xh100-aicr", "a100-mig-3-instances", "a100-mig-disabled", "l4-kops", "t4-ericsson"] {
        let facts: serde_json::Value = serde_json::from_str(&fixture(&format!("dcgm-{name}/facts.json"))).unwrap();
        let mut expected = Vec::new();
        for (family, samples) in facts["families"].as_object().unwrap() {
            for sample in samples.as_array().unwrap() {
                let labels = sample.as_object().unwrap().iter();
                let mut labels: BTreeMap<_, _> =
                    labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
                let value: f64 = labels.remove("value").unwrap().parse().unwrap();
                labels.insert("__name__".to_owned(), family.clone());
                labels.retain(|_, value| !value.is_empty());
                expected.push((labels, value, None));
            }
        }
        let mut read = text(&fixture(&format!("dcgm-{name}/metrics.prom")));
        read.sort_by(|a, b| a.0.cmp(&b.0));
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn reads_node_exporters_own_expected_output() {
    let body = fixture("node-exporter-e2e/e2e-output.txt");
    let read = text(&body);
    assert_eq!(read.len(), body.lines().filter(|line| !line.starts_with('#')).count());
    // MANIFEST.md: 1228 metric families.
    assert_eq!(body.lines().filter(|line| line.starts_with("# TYPE")).count(), 1228);
    let free = |node| expect("node_memory_numa_MemFree", &[("node", node)]);
    for (node, value) in [("0", 5.4303100928e+10), ("1", 4.0586022912e+10), ("2", 4.0586022912e+10)] {
        assert!(read.contains(&(free(node), value, None)), "{node}");
    }
}

#[test]
fn reads_every_form_of_a_text_line() {
    let body = "# a comment\n\n\t# HELP a b \\ c\n# TYPE a counter\n# TYPE a counter\n\
        a 1\n  b \t{ x = \"1\" , y=\"\", } \t+Inf\t-5 \nc:d{p=\"a\\\\b\\\"c\\nd}\u{e9}\"} 1e3 99\na 2";
    let b = expect("b", &[("x", "1")]);
    let c = expect("c:d", &[("p", "a\\b\"c\nd}\u{e9}")]);
    let a = expect("a", &[]);
    let expected = [(a.clone(), 1.0, None), (b, f64::INFINITY, Some(-5)), (c, 1000.0, Some(99)), (a, 2.0, None)];
    assert_eq!(text(body), expected);
}

/// Forms that Prometheus 3 takes, and some that only cost it nothing to read.
#[test]
fn reads_what_prometheus_reads() {
    let one = |name, labels: &[(&'static str, &'static str)]| vec![(expect(name, labels), 1.0, None)];
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
            assert_eq!(read(&body, format, Limits::NONE).unwrap(), expected, "{body:?}");
        }
    }
}

#[test]
fn reads_every_form_of_an_openmetrics_line() {
    let body = "# HELP a_seconds help with spaces\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
        a_seconds_total{x=\"y\"} 1.5 1700000000.1234 # {trace=\"t\"} 0.7 1.6e9\nb 2 # {} 1\nc NaN\n# EOF\n";
    let read = read(body, Format::OpenMetrics, Limits::NONE).unwrap();
    assert_eq!(read[0], (expect("a_seconds_total", &[("x", "y")]), 1.5, Some(1_700_000_000_123)));
    assert_eq!(read[1], (expect("b", &[]), 2.0, None));
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
        (Format::Text, "a{x=\"0\"} ERROR - FAILED TO CONVERT\n", "line 1: expected a number, found \"ERROR\""),
        (Format::Text, "a 1 soon\n", "line 1: expected a timestamp in milliseconds, found \"soon\""),
        (Format::Text, "a{x} 1\n", "line 1: expected \"=\", found '}'"),
        (Format::Text, "a{9=\"\"} 1\n", "line 1: expected a label name, found '9'"),
        (Format::Text, "a{x=\"a\"b\"} 1\n", "line 1: expected \",\", found 'b'"),
        (Format::Text, "<html>\n", "line 1: expected a metric name, found '<'"),
        (Format::OpenMetrics, "a 1\n", "line 2: expected # EOF at the end"),
        (Format::OpenMetrics, "# EOF\na 1\n", "line 2: expected nothing after # EOF"),
        (Format::OpenMetrics, "a 1", "line 1: expected a line feed at the end of the line: it may be cut"),
        (Format::OpenMetrics, "a 1 1e300\n# EOF\n", "line 1: expected a timestamp in seconds, found \"1e300\""),
    ];
    for (format, body, expected) in cases {
        assert_eq!(read(body, format, Limits::NONE).unwrap_err().to_string(), expected, "{body:?}");
    }
}

#[test]
fn a_bad_line_costs_itself() {
    let body = b"a 1\nb x\nc{d=\"\xff\"} 1\n# \xff\n\xff\ne 5\nf{\n# EOF\ng 7\n";
    let mut points = Points::new(body.as_slice(), Format::OpenMetrics, Limits::NONE);
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
    let limits = Limits { samples: 2, labels: 2, label_bytes: 9 };
    let error = |body| read(body, Format::Text, limits).unwrap_err().to_string();
    assert_eq!(error("a 1\nb 1\nc 1\n"), "line 3: more than 2 samples");
    assert_eq!(error("a{b=\"1\",c=\"2\"} 1\n"), "line 1: more than 2 labels");
    assert_eq!(error("a{b=\"123456789\"} 1\n"), "line 1: label \"b\" of 10 bytes, more than 9");
    assert_eq!(error("abcde 1\n"), "line 1: label \"__name__\" of 13 bytes, more than 9");
    assert!(read("a{b=\"12345678\"} 1\nb 1\n", Format::Text, limits).is_ok());
}

proptest! {
    #[test]
    fn never_panics(body in "\\PC*", pieces in proptest::collection::vec(prop_oneof![
        Just("a"), Just("{"), Just("}"), Just("="), Just("\""), Just("\\"), Just(","), Just(" "), Just("\n"), Just("1"),
        Just("# "), Just("TYPE "), Just("UNIT "), Just("EOF"), Just("\u{e9}"), Just("-"),
    ], 0..40)) {
        for format in [Format::Text, Format::OpenMetrics] {
            let _ = read(&body, format, Limits::NONE);
            let _ = read(&pieces.concat(), format, Limits::NONE);
        }
    }

    #[test]
    fn every_label_value_comes_back(value in any::<String>(), number in any::<f64>()) {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let line = format!("a{{x=\"{escaped}\"}} {number}\n");
        for (format, body) in [(Format::Text, line.clone()), (Format::OpenMetrics, line + "# EOF\n")] {
            let read = read(&body, format, Limits::NONE).unwrap();
            prop_assert_eq!(read[0].0.get("x").map_or("", String::as_str), &value);
            prop_assert_eq!(read[0].1.total_cmp(&number), std::cmp::Ordering::Equal);
        }
    }
}
