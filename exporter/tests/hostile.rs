//! Hostile inputs to every reader: recorded files and made-up ones that are cut, repeated, spliced and flipped.
//!
//! The functions and the corpus are those of `fuzz/`; `GOODPUT_HOSTILE` is how many inputs each reader gets, and
//! `GOODPUT_SEED` chooses them.

#![allow(clippy::unwrap_used, reason = "clippy spares tests, but not the helpers beside them")]

#[path = "../../fuzz/readers/exporter.rs"]
mod readers;

use std::path::Path;

use readers::READERS;

/// Inputs of each reader: 2,000 in all and more.
const INPUTS: u64 = 250;

/// Longest input, in bytes; what is longer is cut.
const LONGEST: usize = 4096;

/// What parsers split at, and values at the edges of what numbers hold.
const TOKENS: [&str; 22] = [
    "\0",
    "\n",
    "\n\n",
    " ",
    "\t",
    ":",
    ",",
    "-",
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "9999999999999999999999",
    "1e309",
    "NaN",
    "0x",
    "\u{fffd}",
    "\u{e9}",
    "\"",
    "{",
];

/// A generator that repeats: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// One change of the input.
fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1);
    match random.below(6) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        3 => {
            let from = random.below(other.len() + 1);
            input.splice(at..end, other[from..].iter().copied());
        }
        4 if at < input.len() => input[at] ^= 1 << random.below(8),
        _ => {
            let token = TOKENS[random.below(TOKENS.len())];
            input.splice(at..at, token.bytes());
        }
    }
    input.truncate(LONGEST);
}

fn corpus(reader: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(reader);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn no_reader_panics_at_hostile_inputs() {
    let (count, seed) = (setting("GOODPUT_HOSTILE", INPUTS), setting("GOODPUT_SEED", 1));
    for (name, reader) in READERS {
        let (corpus, mut random) = (corpus(name), Random(seed));
        assert!(corpus.len() > 1, "{name} has no corpus");
        corpus.iter().for_each(|input| reader(input));
        for _ in 0..count {
            let mut input = corpus[random.below(corpus.len())].clone();
            let other = &corpus[random.below(corpus.len())];
            (0..=random.below(4)).for_each(|_| change(&mut input, other, &mut random));
            let result = std::panic::catch_unwind(|| reader(&input));
            assert!(result.is_ok(), "{name}, seed {seed}: {:?}", String::from_utf8_lossy(&input));
        }
    }
}

#[test]
fn every_reader_has_a_fuzz_target_and_there_are_twelve_at_most() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let targets: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(targets.len() <= 12, "{targets:?}");
    for (name, _) in READERS {
        assert!(targets.iter().any(|target| target.file_stem().is_some_and(|stem| stem == name)), "{name}");
    }
}
