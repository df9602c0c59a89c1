use goodput_exposition::sample::is_stale;
use proptest::prelude::*;

use super::*;

const ALL: Range<TimeMs> = i64::MIN..i64::MAX;

fn pairs(line: &str) -> Vec<(TimeMs, f64)> {
    let series = parse_line(line.as_bytes(), &ALL).unwrap_or_else(|error| panic!("{line}: {error}"));
    series.samples.iter().map(|sample| (sample.time_ms, sample.value)).collect()
}

/// The value of a line with one sample.
fn one(value: &str) -> f64 {
    let pairs = pairs(&format!("{{\"metric\":{{}},\"values\":[{value}],\"timestamps\":[7]}}"));
    assert_eq!((pairs.len(), pairs[0].0), (1, 7));
    pairs[0].1
}

fn error(line: &str) -> String {
    parse_line(line.as_bytes(), &ALL).expect_err(line).to_string()
}

#[test]
fn a_line_is_read() {
    let line = r#"{"metric":{"__name__":"up","job":"a \"q\" \u00e9é"},"values":[1,-2.5,3.5e-7],"timestamps":[1700000000000,1700000000001,1700000015000]}"#;
    let series = parse_line(line.as_bytes(), &ALL).unwrap();
    assert_eq!(series.labels, Labels::new([("__name__", "up"), ("job", "a \"q\" éé")]));
    let expected = [(1_700_000_000_000, 1.0), (1_700_000_000_001, -2.5), (1_700_000_015_000, 3.5e-7)];
    assert_eq!(pairs(line), expected);
    assert_eq!(pairs(&format!("{line}\r\n")), expected);
}

#[test]
fn keys_come_in_any_order_and_others_are_skipped() {
    let parts = [
        r#""metric":{"__name__":"up"}"#,
        r#""values":[1,2]"#,
        r#""timestamps":[5,6]"#,
        r#""more":{"a":[1.5,"}",null,{"b":[]}],"values":"x"}"#,
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let line = format!("{{{}}}", order.map(|n| parts[n]).join(","));
        assert_eq!(pairs(&line), [(5, 1.0), (6, 2.0)]);
        let spaced = line.replace("[1,2]", " [ 1 , 2 ] ").replace(':', " : ").replace('}', " } ");
        assert_eq!(pairs(&format!(" {spaced} \n")), [(5, 1.0), (6, 2.0)]);
    }
}

#[test]
fn values_that_are_not_finite_are_read() {
    assert!(is_stale(one("null")));
    for text in ["Infinity", "+Infinity", "Inf", "+Inf"] {
        assert_eq!((one(text), one(&format!("\"{text}\""))), (f64::INFINITY, f64::INFINITY), "{text}");
    }
    for text in ["-Infinity", "-Inf"] {
        assert_eq!((one(text), one(&format!("\"{text}\""))), (f64::NEG_INFINITY, f64::NEG_INFINITY), "{text}");
    }
    for text in ["NaN", "\"NaN\""] {
        assert!(one(text).is_nan() && !is_stale(one(text)), "{text}");
    }
    let mixed = "{\"metric\":{},\"values\":[+Inf,0,null,-Inf,\"Infinity\",1e5],\"timestamps\":[1,2,3,4,5,6]}";
    let found: Vec<_> = pairs(mixed).iter().map(|(_, value)| value.to_bits()).collect();
    let infinity = f64::INFINITY.to_bits();
    let expected = [infinity, 0, STALE_BITS, f64::NEG_INFINITY.to_bits(), infinity, 1e5_f64.to_bits()];
    assert_eq!(found, expected);
}

#[test]
fn numbers_are_exact() {
    // The first is halfway between two floats but for its last digit; the others are the edges of what there is.
    let texts = [
        "9007199254740993.00000000000000000000000000000000000000000000000001",
        "0.1",
        "-0",
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e+308",
        "123456789012345678901234567890",
        "8.41e+21",
        "6.631236846766476",
    ];
    for text in texts {
        assert_eq!(one(text).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
    assert_eq!(one(texts[0]), 9_007_199_254_740_994.0);
    assert_eq!(one("-0").to_bits(), 1 << 63);
}

#[test]
fn samples_are_cut_and_in_order() {
    let line = br#"{"metric":{},"values":[1,2,3,4,5,6],"timestamps":[9,10,19,20,12,10]}"#;
    let samples = parse_line(line, &(10..20)).unwrap().samples;
    assert_eq!(samples.iter().map(|s| (s.time_ms, s.value)).collect::<Vec<_>>(), [(10, 2.0), (12, 5.0), (19, 3.0)]);
    assert_eq!(parse_line(line, &(30..40)).unwrap().samples, []);
    assert_eq!(pairs(r#"{"metric":{},"values":[],"timestamps":[]}"#), []);
}

#[test]
fn an_error_says_where_and_what_was_expected() {
    let number = "a number, null, \"Infinity\", \"-Infinity\" or \"NaN\"";
    let rows = [
        (r#"{"values":[],"timestamps":[]}"#, 29, "\"metric\" before the end"),
        (r#"{"metric":{},"timestamps":[]}"#, 29, "\"values\" before the end"),
        (r#"{"metric":{},"values":[]}"#, 25, "\"timestamps\" before the end"),
        ("{}", 2, "\"metric\" before the end"),
        (r#"{"metric":{},"values":[1,2],"timestamps":[1]}"#, 45, "as many values as timestamps, found 2 and 1"),
        (r#"{"metric":{},"values":[],"timestamps":[1]}"#, 42, "as many values as timestamps, found 0 and 1"),
        (r#"{"metric":{},"values":[],"timestamps":[1.0]}"#, 39, "a timestamp that is an integer of 64 bits"),
        (r#"{"metric":{},"values":[],"timestamps":[1e3]}"#, 39, "a timestamp that is an integer of 64 bits"),
        (r#"{"metric":{},"values":[],"timestamps":[null]}"#, 39, "a timestamp that is an integer of 64 bits"),
        (r#"{"metric":{},"values":[],"timestamps":["1"]}"#, 39, "a timestamp that is an integer of 64 bits"),
        (r#"{"metric":{},"timestamps":[9223372036854775808]}"#, 27, "a timestamp that is an integer of 64 bits"),
        (r#"{"metric":{},"values":["null"]}"#, 23, number),
        (r#"{"metric":{},"values":["1"]}"#, 23, number),
        (r#"{"metric":{},"values":[1,]}"#, 25, number),
        (r#"{"metric":{},"values":[1e999]}"#, 23, number),
        (r#"{"metric":{},"values":[1.2.3]}"#, 23, number),
        (r#"{"metric":{},"values":[inf]}"#, 23, number),
        (r#"{"metric":{},"values":[Infinit]}"#, 26, ", or ]"),
        (r#"{"metric":{},"values":[NaNs]}"#, 26, ", or ]"),
        (r#"{"metric":{},"values":[1 2]}"#, 25, ", or ]"),
        (r#"{"metric":{},"values":1}"#, 22, "["),
        (r#"{"metric" {}}"#, 10, ":"),
        (r#"{"metric":{} "values":[]}"#, 13, ", or }"),
        (r#"{"metric":{},"metric":{}}"#, 13, "\"metric\" only once"),
        (r#"{"metric":{},"values":[],"values":[]}"#, 25, "\"values\" only once"),
        (r#"{"metric":{},"values":[],"timestamps":[]} x"#, 42, "nothing after the object"),
        (r#"{"metric":{},"values":[],"timestamps":[]}{}"#, 41, "nothing after the object"),
        ("[]", 0, "{"),
        ("x", 0, "{"),
    ];
    for (line, at, expected) in rows {
        assert_eq!(
            error(line),
            format!("malformed answer: line of export at byte {at}: expected {expected}"),
            "{line}"
        );
    }
}

#[test]
fn an_error_in_what_serde_reads_says_where() {
    let rows = [
        (r#"{"metric":{"a":1},"values":[]}"#, "byte 15: expected an object of texts: invalid type: integer `1`"),
        (r#"{"metric":[],"values":[]}"#, "byte 10: expected an object of texts: invalid type: sequence"),
        (r#"{metric:{}}"#, "byte 1: expected a key: "),
        (r#"{"other":+1}"#, "byte 9: expected a value of JSON: "),
    ];
    for (line, expected) in rows {
        assert!(error(line).contains(expected), "{line}: {}", error(line));
    }
    let bytes = b"{\"metric\":{\"a\":\"\xff\"}}";
    let error = parse_line(bytes, &ALL).unwrap_err().to_string();
    assert_eq!(error, "malformed answer: line of export at byte 16: expected UTF-8");
}

#[test]
fn a_line_cut_anywhere_is_an_error() {
    let line =
        r#"{"metric":{"__name__":"up","a":"é"},"values":[1,null,"NaN",-Inf],"more":[1,"x"],"timestamps":[1,22,3,4]}"#;
    assert_eq!(pairs(line).len(), 4);
    let mut broken_off = 0;
    for end in 0..line.len() {
        let error = parse_line(&line.as_bytes()[..end], &ALL).expect_err("cut");
        broken_off += usize::from(matches!(error, DecodeError::BrokenOff(_)));
    }
    // Within a word and within a character it is malformed.
    assert_eq!(broken_off, line.len() - "ull".len() - "NaN\"".len() - "-In".len() - 1);
}

fn split(stream: &[u8], piece: usize, limit: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
    let (mut lines, mut found) = (Lines::new(limit), Vec::new());
    for piece in stream.chunks(piece) {
        lines.push(piece);
        while let Some(line) = lines.next_line()? {
            found.push(line.to_vec());
        }
    }
    lines.finish().map(|()| found)
}

#[test]
fn lines_are_read_from_pieces_of_any_size() {
    let stream = b"one\n\nthree 3\r\nfour\n";
    for piece in 1..=stream.len() {
        let lines = split(stream, piece, 100).unwrap();
        assert_eq!(lines, [&b"one\n"[..], b"\n", b"three 3\r\n", b"four\n"]);
    }
    assert_eq!(split(b"", 1, 100).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_last_line_without_its_newline_is_broken_off() {
    let error = DecodeError::BrokenOff("line of 3 bytes; expected its newline".to_owned());
    assert_eq!(split(b"one\ntwo", 2, 100), Err(error));
}

#[test]
fn a_line_beyond_the_limit_is_refused_before_its_end() {
    assert_eq!(split(b"one\nfour\n", 100, 4).unwrap().len(), 2);
    let error = |bytes| Err(DecodeError::TooLarge { what: "line", bytes, limit: 3 });
    assert_eq!(split(b"one\nfour", 1, 3), error(4));
    assert_eq!(split(b"one\nfour five\n", 100, 3), error(9));
}

/// A line as the engine writes it.
fn written(samples: &[(TimeMs, u64)]) -> String {
    let value = |bits: u64| match f64::from_bits(bits) {
        value if value.is_nan() => "null".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }.to_owned(),
        value => {
            if bits & 1 == 0 {
                format!("{value}")
            } else {
                format!("{value:e}")
            }
        }
    };
    let values: Vec<_> = samples.iter().map(|(_, bits)| value(*bits)).collect();
    let times: Vec<_> = samples.iter().map(|(time, _)| time.to_string()).collect();
    format!("{{\"metric\":{{}},\"values\":[{}],\"timestamps\":[{}]}}\n", values.join(","), times.join(","))
}

proptest! {
    #[test]
    fn written_samples_are_read(samples in proptest::collection::btree_map(any::<TimeMs>(), any::<u64>(), 0..50)) {
        let samples: Vec<_> = samples.into_iter().filter(|(time, _)| ALL.contains(time)).collect();
        let read = pairs(&written(&samples)).into_iter().map(|(time, value)| (time, value.to_bits()));
        let expected = samples.iter().map(|&(time, bits)| {
            (time, if f64::from_bits(bits).is_nan() { STALE_BITS } else { bits })
        });
        prop_assert_eq!(read.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..100), pieces in proptest::collection::vec(prop_oneof![
        Just("{"), Just("}"), Just("["), Just("]"), Just("\"metric\":{}"), Just("\"values\":["), Just("\"timestamps\":["),
        Just(","), Just(":"), Just("\""), Just("\\"), Just("1"), Just("-"), Just("Inf"), Just("null"), Just("\u{e9}"),
        Just(" "),
    ], 0..30)) {
        let _ = parse_line(&bytes, &ALL);
        let _ = parse_line(pieces.concat().as_bytes(), &ALL);
        let _ = parse_line(format!("{{\"metric\":{{}},\"values\":[{}", pieces.concat()).as_bytes(), &ALL);
        let _ = split(&bytes, 7, 50);
    }
}
