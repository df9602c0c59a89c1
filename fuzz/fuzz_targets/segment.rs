//! The bytes of a segment file, whatever has become of them.

#![no_main]

use goodput_analyzer::store::samples_in_segment;
use libfuzzer_sys::fuzz_target;

// The Parquet reader panics over some damages, which is caught and told as an error: only what is not caught counts.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |bytes: &[u8]| {
    let _ = samples_in_segment(bytes);
});
