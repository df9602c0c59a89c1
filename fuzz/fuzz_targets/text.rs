//! The exposition formats, as a scraped target answers.

#![no_main]

use goodput_exposition::{Format, Limits, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Format::Text, Format::OpenMetrics] {
        let _ = parse(text, format, Limits::NONE, 1_700_000_000_000);
    }
});
