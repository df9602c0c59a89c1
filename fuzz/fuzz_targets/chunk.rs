//! What a row of a segment holds: times and values of one series' samples, packed. The Parquet around it is not fuzzed: the
//! store reads only files whose checksum is right, as the reader believes lengths that are damaged.

#![no_main]

use goodput_store::read_chunk;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (count, bytes) = input;
    let _ = read_chunk(bytes, count.into());
});
