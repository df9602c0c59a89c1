//! The exposition formats, as a scraped target answers.

#![no_main]

use goodput_analyzer::ingest::Limits;
use goodput_analyzer::ingest::text::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Format::Text, Format::OpenMetrics] {
        let _ = parse(text, format, &Limits::default(), 1_700_000_000_000);
    }
});
