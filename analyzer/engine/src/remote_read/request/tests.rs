use super::*;

fn sent(metrics: &[&str], matchers: &[&str], range: Range<TimeMs>, accept: Accept) -> ReadRequest {
    let matchers: Vec<_> = matchers.iter().map(|text| text.parse().unwrap()).collect();
    let body = body(metrics, &matchers, &range, accept).unwrap();
    ReadRequest::decode(snap::raw::Decoder::new().decompress_vec(&body).unwrap().as_slice()).unwrap()
}

fn by_name_of(metrics: &[&str]) -> Option<(i32, String)> {
    let request = sent(metrics, &[], 0..1, Accept::Samples);
    let [query] = request.queries.as_slice() else { panic!("{request:?}") };
    query.matchers.first().map(|matcher| {
        assert_eq!(matcher.name, "__name__");
        (matcher.kind, matcher.value.clone())
    })
}

#[test]
fn a_request_has_the_names_matchers_and_range() {
    let request = sent(&["up"], &["job=~\"gpu|node\"", "x!=''"], -5..1000, Accept::ChunksOrSamples);
    let [query] = request.queries.as_slice() else { panic!("{request:?}") };
    assert_eq!((query.start_timestamp_ms, query.end_timestamp_ms), (-5, 999));
    let matchers: Vec<_> = query.matchers.iter().map(|m| (m.name.as_str(), m.kind, m.value.as_str())).collect();
    assert_eq!(matchers, [("__name__", 0, "up"), ("job", 2, "gpu|node"), ("x", 1, "")]);
    assert_eq!(request.accepted_response_types, [1, 0]);
    assert_eq!(sent(&["up"], &[], 0..1, Accept::Samples).accepted_response_types, [0]);
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let body = body(&["up"], &[], &(1..129), Accept::ChunksOrSamples).unwrap();
    let message = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    // Query 1 {1: 1, 2: 128, matcher 3 {2: "__name__", 3: "up"}}, answers 2 {1, 0}.
    let query = [b"\x08\x01\x10\x80\x01\x1a\x0e\x12\x08__name__\x1a\x02up".as_slice()].concat();
    let expected = [b"\x0a".as_slice(), &[query.len() as u8], &query, b"\x12\x02\x01\x00"].concat();
    assert_eq!(message, expected);
}

#[test]
fn metric_names_are_matched_as_they_are() {
    assert_eq!(by_name_of(&[]), None);
    assert_eq!(by_name_of(&["a.b"]), Some((0, "a.b".to_owned())));
    assert_eq!(by_name_of(&["up", "a.b", "c|d", "e\\f"]), Some((2, r"up|a\.b|c\|d|e\\f".to_owned())));
}

#[test]
fn the_smallest_end_does_not_wrap_around() {
    let request = sent(&["up"], &[], i64::MIN..i64::MIN, Accept::Samples);
    assert_eq!(request.queries[0].end_timestamp_ms, i64::MIN);
}
