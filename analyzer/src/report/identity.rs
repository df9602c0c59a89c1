//! The name of a finding that stays the same from week to week, over releases and rules.

use sha2::{Digest as _, Sha256};

use goodput_verdict::Class;

/// As RFC 4648 writes base32, in small letters: they are read in addresses and typed in commands.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// 60 bits: of a million findings, two share a name once in two million fleets.
const LENGTH: usize = 12;

/// The first 12 letters of the base32 of the SHA-256 of cluster, class, kind of scope and scope. Each part has its length
/// before it, so that no two findings read alike; no cluster is not a cluster without a name.
pub(super) fn finding_id(cluster: Option<&str>, class: Class, kind: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    hash.update([u8::from(cluster.is_some())]);
    for part in [cluster.unwrap_or_default(), class.name(), kind, key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    base32(&hash.finalize())
}

fn base32(bytes: &[u8]) -> String {
    let bit = |n: usize| bytes[n / 8] >> (7 - n % 8) & 1;
    let letter = |n: usize| (0..5).fold(0, |value, k| value << 1 | usize::from(bit(5 * n + k)));
    (0..LENGTH).map(|n| char::from(ALPHABET[letter(n)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are kept for ever: a finding that was acknowledged is found again by its name.
    #[test]
    fn ids_are_those_of_every_release() {
        for (cluster, class, kind, key, id) in [
            (None, Class::IdleHeld, "template", "jupyter-*\u{1f}\u{1f}\u{1f}1\u{1f}NVIDIA A100", "f6krkcdqcyow"),
            (
                Some("east"),
                Class::IdleHeld,
                "template",
                "jupyter-*\u{1f}\u{1f}\u{1f}1\u{1f}NVIDIA A100",
                "5vteccijqmbk",
            ),
            (Some(""), Class::Unallocated, "pool", "NVIDIA H100 80GB HBM3", "pfztxbsovwsq"),
            (None, Class::Unallocated, "pool", "NVIDIA H100 80GB HBM3", "wz7agmjcr26t"),
        ] {
            assert_eq!(finding_id(cluster, class, kind, key), id, "{cluster:?} {class:?} {kind} {key}");
        }
    }

    #[test]
    fn base32_is_that_of_rfc_4648() {
        // RFC 4648, section 10: "foobar" is MZXW6YTBOI======.
        assert_eq!(&base32(b"foobar\0\0")[..9], "mzxw6ytbo");
    }
}
