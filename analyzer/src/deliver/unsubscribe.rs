//! Links by which a contact ends messages of a destination: signed, so that only who has the message has the link.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use crate::report::site::escaped;

/// Bytes of a key at least (RFC 2104: the length of the hash).
const MIN_KEY: usize = 32;

/// The key that signs links.
pub struct Key(hmac::Key);

impl Key {
    /// Out of a file; an error names it, and never what is in it.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_long = bytes.len() >= MIN_KEY;
        let expected = || format!("{}: expected {MIN_KEY} bytes or more, found {}", path.display(), bytes.len());
        if is_long { Ok(Self::of(&bytes)) } else { Err(expected()) }
    }

    fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// What proves that its holder got a message.
    #[must_use]
    pub fn token(&self, destination: &str, contact: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, signed(destination, contact).as_bytes()))
    }

    /// Is it the token of this contact? Compared in constant time.
    #[must_use]
    pub fn verifies(&self, destination: &str, contact: &str, token: &str) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        hmac::verify(&self.0, signed(destination, contact).as_bytes(), &tag).is_ok()
    }

    /// The address that ends messages; `link` is where people reach the analyzer.
    #[must_use]
    pub fn link(&self, link: &str, destination: &str, contact: &str) -> String {
        let (base, token) = (link.trim_end_matches('/'), self.token(destination, contact));
        let contact = escaped(contact);
        format!("{base}/unsubscribe?destination={}&contact={contact}&token={token}", escaped(destination))
    }
}

fn signed(destination: &str, contact: &str) -> String {
    format!("unsubscribe\n{destination}\n{contact}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_destination_and_contact() {
        let key = Key::of(&[7; 32]);
        let token = key.token("d", "a@b.c");
        assert!(key.verifies("d", "a@b.c", &token));
        assert!(!key.verifies("e", "a@b.c", &token) && !key.verifies("d", "b@b.c", &token));
        assert!(!key.verifies("d", "a@b.c", "") && !key.verifies("d", "a@b.c", &token[1..]));
        assert!(!Key::of(&[8; 32]).verifies("d", "a@b.c", &token));
        let link = key.link("https://g.example/", "d", "a+b@c.d");
        assert_eq!(
            link.split("&token=").next(),
            Some("https://g.example/unsubscribe?destination=d&contact=a%2Bb%40c.d")
        );
    }

    #[test]
    fn a_short_key_is_named_and_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "secret").unwrap();
        let error = Key::of_file(&path).err().unwrap();
        assert!(error.contains("expected 32 bytes or more, found 6") && !error.contains("secret"), "{error}");
        assert!(Key::of_file(&dir.path().join("none")).err().unwrap().contains("none"));
    }
}
