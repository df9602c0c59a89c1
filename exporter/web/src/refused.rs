//! What was refused at the door: counted by reason, and named once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::peers::PeerKey;

/// A peer that goes on is named again after this time.
const SILENCE: Duration = Duration::from_secs(600);

/// Peers that are remembered for each reason: a client with thousands of addresses does not fill the log.
const REMEMBERED: usize = 64;

goodput_catalog::named! {
    /// Why a connection or a request was refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Reason {
        /// One peer had too many connections: its oldest idle one was closed, or the new one where none was idle.
        PeerConnections = "peer_connections",
        /// There were too many connections in all: an idle one of the peer with the most was closed, or the new one.
        Connections = "connections",
        /// A TLS handshake failed or took too long.
        Handshake = "tls_handshake",
        /// The head of a request took too long.
        SlowHead = "slow_head",
        /// A password or token was wrong, or there was none.
        Unauthenticated = "unauthenticated",
        /// Too many passwords wait to be checked.
        Guesses = "password_checks",
        /// The client is known and may not do this.
        Forbidden = "forbidden",
        /// The request comes from a page of another site.
        Origin = "origin",
        /// The `Host` is not one of this server.
        Host = "host",
        /// More requests than `rate_limit` of the web configuration lets through.
        Rate = "rate_limit",
    }
}

/// How often each reason held, and who was named for it.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: [AtomicU64; Reason::ALL.len()],
    named: Mutex<HashMap<(Reason, PeerKey), Instant>>,
}

impl Refusals {
    /// How often each reason held.
    pub fn counts(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().zip(&self.counts).map(|(reason, count)| (*reason, count.load(Ordering::Relaxed)))
    }

    /// Counts one, and names the peer in the log the first time.
    pub(crate) fn note(&self, reason: Reason, peer: PeerKey, detail: &str) {
        if let Some(count) = self.counts.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_news(reason, peer, Instant::now()) {
            tracing::warn!(reason = reason.name(), %peer, "refused: {detail}");
        }
    }

    fn is_news(&self, reason: Reason, peer: PeerKey, now: Instant) -> bool {
        let mut named = self.named.lock();
        if named.get(&(reason, peer)).is_some_and(|last| now.saturating_duration_since(*last) < SILENCE) {
            return false;
        }
        if named.keys().filter(|(named, _)| *named == reason).count() >= REMEMBERED {
            named.retain(|_, last| now.saturating_duration_since(*last) < SILENCE);
            if named.keys().filter(|(named, _)| *named == reason).count() >= REMEMBERED {
                return false;
            }
        }
        named.insert((reason, peer), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_peer_is_named_once_for_each_reason_and_again_after_a_silence() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let peer = |n: u8| PeerKey::of(IpAddr::from([10, 0, 0, n]));
        assert!(refusals.is_news(Reason::Host, peer(1), now));
        assert!(!refusals.is_news(Reason::Host, peer(1), now + SILENCE / 2));
        assert!(refusals.is_news(Reason::Origin, peer(1), now));
        assert!(refusals.is_news(Reason::Host, peer(1), now + SILENCE));
        let many: Vec<_> = (2..=200).map(|n| refusals.is_news(Reason::Host, peer(n), now + SILENCE)).collect();
        assert_eq!(many.iter().filter(|news| **news).count(), REMEMBERED - 1);
    }

    #[test]
    fn every_reason_is_counted_by_itself() {
        let refusals = Refusals::default();
        for reason in Reason::ALL {
            refusals.note(*reason, PeerKey::of(IpAddr::from([127, 0, 0, 1])), "test");
        }
        assert!(refusals.counts().all(|(_, count)| count == 1));
    }
}
