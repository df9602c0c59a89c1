//! The messages of remote write, 1.0 and 2.0. What is fuzzed is what they are once decompressed, and the body itself.

#![no_main]

use goodput_analyzer::ingest::{Limits, Rules};
use goodput_analyzer::ingest::remote_write::{Message, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(compressed) = snap::raw::Encoder::new().compress_vec(bytes) else { return };
    let limits = Limits::default();
    let rules = Rules { limits: &limits, keeps: &|metric| metric.len() % 2 == 0 };
    for message in [Message::V1, Message::V2] {
        let _ = decode(bytes, message, &rules);
        let _ = decode(&compressed, message, &rules);
    }
});
