use proptest::prelude::*;

use super::super::messages::{Chunk, ChunkedSeries, Label};
use super::*;

/// A stream of frames by the description of the format.
fn stream(messages: &[ChunkedReadResponse]) -> Vec<u8> {
    messages.iter().flat_map(|message| frame(&message.encode_to_vec())).collect()
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    prost::encoding::encode_varint(message.len() as u64, &mut frame);
    frame.extend(bitwise_crc(message).to_be_bytes());
    frame.extend(message);
    frame
}

/// CRC-32C bit by bit: the reversed polynomial of Castagnoli.
fn bitwise_crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn message(n: i64) -> ChunkedReadResponse {
    let label = |name: &str, value: String| Label { name: name.to_owned(), value };
    let chunk = Chunk { min_time_ms: n, max_time_ms: n + 1, encoding: 77, data: vec![n as u8; 40 * n as usize] };
    let labels = vec![label("__name__", "up".to_owned()), label("n", n.to_string())];
    ChunkedReadResponse { chunked_series: vec![ChunkedSeries { labels, chunks: vec![chunk] }], query_index: 0 }
}

fn messages() -> Vec<ChunkedReadResponse> {
    // The last one is empty; that of 160 bytes and more needs two bytes for its length.
    (0..5).map(message).chain([ChunkedReadResponse::default()]).collect()
}

fn read(stream: &[u8], piece: usize) -> Result<Vec<ChunkedReadResponse>, DecodeError> {
    let (mut frames, mut found) = (Frames::new(1000), Vec::new());
    for piece in stream.chunks(piece) {
        frames.push(piece);
        while let Some(message) = frames.next_frame()? {
            found.push(message);
        }
    }
    frames.finish().map(|()| found)
}

#[test]
fn the_checksum_is_castagnoli_s() {
    assert_eq!(bitwise_crc(b"123456789"), 0xe306_9283);
    assert_eq!(frame(b"123456789")[..5], [9, 0xe3, 0x06, 0x92, 0x83]);
}

#[test]
fn frames_are_read_from_pieces_of_any_size() {
    let stream = stream(&messages());
    for piece in 1..=stream.len() {
        assert_eq!(read(&stream, piece).unwrap(), messages());
    }
    assert_eq!(read(&[], 1).unwrap(), []);
}

#[test]
fn a_stream_cut_anywhere_is_whole_frames_or_broken_off() {
    let all = messages();
    let ends: Vec<usize> = (0..all.len()).map(|count| stream(&all[..count]).len()).collect();
    let stream = stream(&all);
    for end in 0..stream.len() {
        match ends.iter().position(|whole| *whole == end) {
            Some(count) => assert_eq!(read(&stream[..end], 64).unwrap(), all[..count]),
            None => assert!(matches!(read(&stream[..end], 64), Err(DecodeError::BrokenOff(_))), "{end}"),
        }
    }
}

#[test]
fn a_broken_off_stream_says_where() {
    let first = stream(&[message(1)]);
    let stream = [first.clone(), vec![50, 1, 2]].concat();
    let text = format!("frame at byte {}; expected more than its first 3 bytes", first.len());
    assert_eq!(read(&stream, 100), Err(DecodeError::BrokenOff(text)));
}

#[test]
fn every_flipped_bit_is_found() {
    let stream = stream(&messages());
    for (at, bit) in (0..stream.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut bad = stream.clone();
        bad[at] ^= 1 << bit;
        assert!(read(&bad, 100).is_err(), "bit {bit} of byte {at}");
    }
}

#[test]
fn a_flipped_byte_of_a_message_is_a_wrong_checksum() {
    let first = stream(&[message(1)]);
    let mut stream = stream(&[message(1), message(2)]);
    *stream.last_mut().unwrap() ^= 0xff;
    let Err(DecodeError::BrokenOff(text)) = read(&stream, 100) else { panic!("not broken off") };
    assert!(text.starts_with(&format!("frame at byte {}: expected CRC-32C ", first.len())), "{text}");
}

#[test]
fn an_error_is_returned_again() {
    let mut frames = Frames::default();
    frames.push(&[1, 0, 0, 0, 0, 7]);
    let error = frames.next_frame().unwrap_err();
    frames.push(&stream(&messages()));
    assert_eq!(frames.next_frame(), Err(error));
    assert!(frames.finish().is_err());
}

#[test]
fn a_frame_beyond_the_limit_is_refused_by_its_length_alone() {
    let mut length = Vec::new();
    prost::encoding::encode_varint(1001, &mut length);
    let large = DecodeError::TooLarge { what: "frame", bytes: 1001, limit: 1000 };
    assert_eq!(read(&length, 1), Err(large));
    let largest = [&[0xff; 9][..], &[1]].concat();
    let huge = DecodeError::TooLarge { what: "frame", bytes: u64::MAX, limit: 1000 };
    assert_eq!(read(&largest, 1), Err(huge));
}

#[test]
fn a_length_of_more_than_64_bits_is_malformed() {
    let text = "frame at byte 0: expected its length as a uvarint of at most 64 bits";
    for bytes in [[0x80; 10], [0xff; 10], [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]] {
        assert_eq!(read(&bytes, 1), Err(DecodeError::Malformed(text.to_owned())));
    }
}

#[test]
fn a_message_that_is_no_protobuf_is_malformed() {
    let Err(DecodeError::Malformed(text)) = read(&frame(&[0x0a, 0x7f]), 100) else { panic!("not malformed") };
    assert!(text.starts_with("expected a protobuf message ChunkedReadResponse: "), "{text}");
}

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1..50_usize) {
        let _ = read(&bytes, piece);
        let _ = read(&frame(&bytes), piece);
    }
}
