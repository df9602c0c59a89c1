//! The messages of remote write, 1.0 and 2.0. What is fuzzed is what they are once decompressed, and the body itself.

#![no_main]

use goodput_analyzer::ingest::Limits;
use goodput_analyzer::ingest::remote_write::{Message, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(compressed) = snap::raw::Encoder::new().compress_vec(bytes) else { return };
    for message in [Message::V1, Message::V2] {
        let _ = decode(bytes, message, &Limits::default());
        let _ = decode(&compressed, message, &Limits::default());
    }
});
