//! Ups and downs that are the same in every run.

/// A number for a name and an index (splitmix64 over FNV-1a).
pub(crate) fn hash(name: &str, index: u64) -> u64 {
    let fnv = name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut z = fnv.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A factor between `1 - swing` and `1 + swing`.
pub(super) fn around_one(name: &str, index: u64, swing: f64) -> f64 {
    let unit = hash(name, index) as f64 / u64::MAX as f64;
    1.0 + swing * (2.0 * unit - 1.0)
}
