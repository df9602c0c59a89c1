//! Counters files of dcgm-exporter, and metrics that one serves: `counters_files` in `readers/exporter.rs`, which the property tests call too.

#![no_main]

#[allow(dead_code, reason = "a target calls one reader of several")]
#[path = "../readers/exporter.rs"]
mod readers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| readers::counters_files(bytes));
