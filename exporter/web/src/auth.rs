//! Basic auth against bcrypt hashes.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr as _;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use parking_lot::Mutex;
use ring::{hmac, rand};
use tokio::time::sleep;

use crate::guesses::{Full, Guesses};
use crate::peers::PeerKey;

/// User names and their bcrypt hashes.
pub(crate) type Users = BTreeMap<String, String>;

/// How many right passwords are remembered; more users than that are checked again now and then.
const MAX_KNOWN: usize = 100;

/// Checks credentials. A right password is checked once and remembered; a wrong one costs a bcrypt every time, one
/// after another, so that guessing cannot occupy more than one core.
pub(crate) struct Authenticator {
    /// Key of the tags in `known`: passwords are not kept, not even as a plain hash.
    key: hmac::Key,
    known: Mutex<HashSet<[u8; 32]>>,
    guesses: Guesses,
}

impl Authenticator {
    /// # Errors
    /// When the kernel gives no random bytes.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())?;
        Ok(Self { key, known: Mutex::default(), guesses: Guesses::default() })
    }

    /// The user that this `Authorization` header names with the right password. `held` is told when a wrong password's
    /// answer begins to be held.
    pub(crate) async fn user(
        &self,
        users: &Users,
        authorization: Option<&HeaderValue>,
        peer: PeerKey,
        held: impl FnOnce(),
    ) -> Result<Option<String>, Full> {
        let Some((user, password)) = authorization.and_then(credentials) else { return Ok(None) };
        let Some(dearest) = users.values().max_by_key(|hash| cost(hash)).cloned() else { return Ok(None) };
        let known_user = users.get(&user).cloned();
        let tag = known_user.as_ref().map(|hash| self.tag(&user, hash, &password));
        if tag.is_some_and(|tag| self.known.lock().contains(&tag)) {
            return Ok(Some(user));
        }
        if self.verify(password, known_user, dearest, peer).await? {
            if let Some(tag) = tag {
                self.remember(tag);
            }
            return Ok(Some(user));
        }
        let hold = self.guesses.wrong(peer, Instant::now());
        if !hold.is_zero() {
            held();
            sleep(hold).await;
        }
        Ok(None)
    }

    fn remember(&self, tag: [u8; 32]) {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(tag);
    }

    async fn verify(
        &self,
        password: Vec<u8>,
        hash: Option<String>,
        dearest: String,
        peer: PeerKey,
    ) -> Result<bool, Full> {
        let turn = self.guesses.turn(peer).await?;
        let check = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, even when the client has gone.
            let _turn = turn;
            check(&password, hash.as_deref(), &dearest)
        });
        Ok(check.await.unwrap_or(false))
    }

    fn tag(&self, user: &str, hash: &str, password: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        // Neither user names from a header (see `credentials`) nor bcrypt hashes hold a NUL.
        for part in [user.as_bytes(), hash.as_bytes(), password] {
            context.update(part);
            context.update(b"\0");
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

/// Is the password that of the hash? A wrong one costs the same for every user, known or not: a hash of
/// cost c takes 2^c rounds, and hashes of costs c to d - 1 take 2^d - 2^c together.
fn check(password: &[u8], hash: Option<&str>, dearest: &str) -> bool {
    let Some(hash) = hash else {
        let _ = bcrypt::verify(password, dearest);
        return false;
    };
    let right = bcrypt::verify(password, hash).unwrap_or(false);
    if !right {
        for cost in cost(hash)..cost(dearest) {
            let _ = bcrypt::hash_with_salt(password, cost, [0; 16]);
        }
    }
    right
}

/// What a bcrypt hash costs, as a power of two; 0 where it is none.
fn cost(hash: &str) -> u32 {
    bcrypt::HashParts::from_str(hash).map_or(0, |parts| parts.get_cost())
}

/// User and password of a `Basic` header (RFC 7617).
fn credentials(header: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let decoded = STANDARD.decode(scheme(header, "basic")?).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok().filter(|user| !user.contains('\0'))?;
    Some((user, decoded[colon + 1..].to_vec()))
}

/// What follows this scheme in an `Authorization` header.
pub(crate) fn scheme<'a>(header: &'a HeaderValue, wanted: &str) -> Option<&'a str> {
    let (scheme, rest) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(wanted).then_some(rest.trim())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// Lowest cost, for tests alone.
    fn users() -> Users {
        let hash = |password: &str| bcrypt::hash(password, 4).unwrap();
        Users::from([("alice".into(), hash("secret")), ("bob".into(), hash("pass:word"))])
    }

    fn header(credentials: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials))).unwrap()
    }

    /// Asked from an address that has sent no wrong password yet.
    async fn allows(auth: &Authenticator, users: &Users, header: Option<&HeaderValue>, n: u8) -> bool {
        let peer = PeerKey::of(IpAddr::from([10, 0, 0, n]));
        auth.user(users, header, peer, || {}).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_passes() {
        let (auth, users) = (Authenticator::new().unwrap(), users());
        let mut n = 0;
        for _ in 0..2 {
            assert!(allows(&auth, &users, Some(&header("alice:secret")), 0).await);
            assert!(allows(&auth, &users, Some(&header("bob:pass:word")), 0).await);
            for wrong in ["alice:Secret", "alice:", "alice", ":", "bob:secret", "carol:secret", "alice\0:secret"] {
                n += 1;
                assert!(!allows(&auth, &users, Some(&header(wrong)), n).await, "{wrong}");
            }
        }
        assert_eq!(auth.known.lock().len(), 2);
        assert!(!allows(&auth, &users, None, 0).await);
        for text in ["Basic", "Basic !!!", "Bearer abc", ""] {
            assert!(!allows(&auth, &users, Some(&HeaderValue::from_static(text)), 0).await, "{text}");
        }
    }

    #[tokio::test]
    async fn a_changed_hash_forgets_the_old_password() {
        let (auth, mut users) = (Authenticator::new().unwrap(), users());
        assert!(allows(&auth, &users, Some(&header("alice:secret")), 0).await);
        users.insert("alice".into(), bcrypt::hash("new", 4).unwrap());
        assert!(!allows(&auth, &users, Some(&header("alice:secret")), 0).await);
        assert!(allows(&auth, &users, Some(&header("alice:new")), 0).await);
    }

    #[test]
    fn costs_are_read_from_hashes() {
        assert_eq!([4, 5].map(|cost_of| cost(&bcrypt::hash("x", cost_of).unwrap())), [4, 5]);
        assert_eq!(cost("plain"), 0);
    }
}
