//! Basic auth against bcrypt hashes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use ring::{hmac, rand};
use tokio::sync::Semaphore;

/// User names and their bcrypt hashes.
pub(super) type Users = BTreeMap<String, String>;

/// How many right passwords are remembered; more users than that are checked afresh now and then.
const MAX_KNOWN: usize = 100;

/// Checks credentials. A right password is checked once and remembered; a wrong one costs a bcrypt every time, one
/// after another, so that guessing cannot occupy more than one core.
pub(super) struct Authenticator {
    /// Key of the tags in `known`: passwords are not kept, not even as a plain hash.
    key: hmac::Key,
    known: Mutex<HashSet<[u8; 32]>>,
    turn: Arc<Semaphore>,
}

impl Authenticator {
    /// # Errors
    /// When the kernel gives no random bytes.
    pub(super) fn new() -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())?;
        Ok(Self { key, known: Mutex::default(), turn: Arc::new(Semaphore::new(1)) })
    }

    /// Does this `Authorization` header name one of the users, with the right password?
    pub(super) async fn allows(&self, users: &Users, authorization: Option<&HeaderValue>) -> bool {
        let Some((user, password)) = authorization.and_then(credentials) else { return false };
        // An unknown user costs the same as a known one: the first user's hash stands in.
        let known_user = users.get(&user);
        let Some(hash) = known_user.or_else(|| users.values().next()).cloned() else { return false };
        let tag = self.tag(&user, &hash, &password);
        if self.known.lock().contains(&tag) {
            return true;
        }
        let right = self.verify(password, hash).await && known_user.is_some();
        if right {
            let mut known = self.known.lock();
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(tag);
        }
        right
    }

    async fn verify(&self, password: Vec<u8>, hash: String) -> bool {
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return false };
        let check = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, even when the client has gone.
            let _turn = turn;
            bcrypt::verify(password, &hash).unwrap_or(false)
        });
        check.await.unwrap_or(false)
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

/// User and password of a `Basic` header (RFC 7617).
fn credentials(header: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok().filter(|user| !user.contains('\0'))?;
    Some((user, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lowest cost, for tests alone.
    fn users() -> Users {
        let hash = |password: &str| bcrypt::hash(password, 4).unwrap();
        Users::from([("alice".into(), hash("secret")), ("bob".into(), hash("pass:word"))])
    }

    fn header(credentials: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials))).unwrap()
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_passes() {
        let (auth, users) = (Authenticator::new().unwrap(), users());
        for _ in 0..2 {
            assert!(auth.allows(&users, Some(&header("alice:secret"))).await);
            assert!(auth.allows(&users, Some(&header("bob:pass:word"))).await);
            for wrong in ["alice:Secret", "alice:", "alice", ":", "bob:secret", "carol:secret", "alice\0:secret"] {
                assert!(!auth.allows(&users, Some(&header(wrong))).await, "{wrong}");
            }
        }
        assert_eq!(auth.known.lock().len(), 2);
        assert!(!auth.allows(&users, None).await);
        for text in ["Basic", "Basic !!!", "Bearer abc", ""] {
            assert!(!auth.allows(&users, Some(&HeaderValue::from_static(text))).await, "{text}");
        }
    }

    #[tokio::test]
    async fn a_changed_hash_forgets_the_old_password() {
        let (auth, mut users) = (Authenticator::new().unwrap(), users());
        assert!(auth.allows(&users, Some(&header("alice:secret"))).await);
        users.insert("alice".into(), bcrypt::hash("new", 4).unwrap());
        assert!(!auth.allows(&users, Some(&header("alice:secret"))).await);
        assert!(auth.allows(&users, Some(&header("alice:new"))).await);
    }
}
