//! Open connections by peer, and which one has to go when there are too many. Pure but for a lock.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connection::Limits;
use crate::refused::{Reason, Refusals};

/// Who counts as one peer: an IPv4 address, or the /64 network of an IPv6 address. A host has as many addresses of its
/// network as it likes (RFC 8981). All clients of Unix sockets are one peer, the unspecified address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey(IpAddr);

impl PeerKey {
    /// The peer of a client; one of a Unix socket has no address.
    pub(crate) fn of_client(address: Option<IpAddr>) -> Self {
        Self::of(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }

    /// The peer that this address belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let [a, b, c, d, ..] = v6.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            canonical => Self(canonical),
        }
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            address if address.is_unspecified() => f.write_str("unix"),
            IpAddr::V6(v6) if !v6.is_loopback() => write!(f, "{v6}/64"),
            address => write!(f, "{address}"),
        }
    }
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Open {
    peer: PeerKey,
    /// Is a request in work?
    busy: AtomicBool,
    /// Grows with each opening and each answer: the smallest has been idle for longest.
    last: AtomicU64,
    /// Was a request answered?
    served: AtomicBool,
    /// Says that the connection has to close at once.
    cut: Notify,
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    refusals: Arc<Refusals>,
    clock: AtomicU64,
    open: Mutex<HashMap<PeerKey, Vec<Arc<Open>>>>,
    /// Tells when one has closed.
    closed: Notify,
}

/// Held by an open connection.
pub(crate) struct Place {
    connections: Arc<Connections>,
    open: Arc<Open>,
}

impl Connections {
    pub(crate) fn new(limits: Limits, refusals: Arc<Refusals>) -> Self {
        Self { limits, refusals, clock: AtomicU64::new(0), open: Mutex::default(), closed: Notify::new() }
    }

    /// A place for a new connection, if need be that of an idle one. `None` where all that could go are at work.
    pub(crate) fn admit(self: &Arc<Self>, peer: PeerKey) -> Option<Place> {
        let mut open = self.open.lock();
        let of_peer = open.get(&peer).map_or(0, Vec::len);
        let total: usize = open.values().map(Vec::len).sum();
        let over = if of_peer >= self.limits.of_peer {
            Some((Reason::PeerConnections, peer, format!("it has {of_peer} connections")))
        } else if total >= self.limits.connections {
            Some((Reason::Connections, greediest(&open).unwrap_or(peer), format!("{total} connections are open")))
        } else {
            None
        };
        if let Some((reason, from, detail)) = over {
            let gone = open.get_mut(&from).is_some_and(cut_idle);
            self.refusals.note(reason, if gone { from } else { peer }, &detail);
            if !gone {
                return None;
            }
        }
        let last = self.clock.fetch_add(1, Ordering::Relaxed).into();
        let new = Arc::new(Open { peer, busy: false.into(), last, served: false.into(), cut: Notify::new() });
        open.entry(peer).or_default().push(Arc::clone(&new));
        Some(Place { connections: Arc::clone(self), open: new })
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().values().map(Vec::len).sum()
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.count() == 0 {
                return;
            }
            closed.await;
        }
    }
}

/// The peer with the most connections of those that have an idle one.
fn greediest(open: &HashMap<PeerKey, Vec<Arc<Open>>>) -> Option<PeerKey> {
    let idle = open.iter().filter(|(_, list)| list.iter().any(|open| !open.busy.load(Ordering::Relaxed)));
    idle.max_by_key(|(_, list)| list.len()).map(|(peer, _)| *peer)
}

/// Closes the connection that has been idle for longest.
fn cut_idle(list: &mut Vec<Arc<Open>>) -> bool {
    let idle = list.iter().enumerate().filter(|(_, open)| !open.busy.load(Ordering::Relaxed));
    let Some((oldest, _)) = idle.min_by_key(|(_, open)| open.last.load(Ordering::Relaxed)) else { return false };
    list.swap_remove(oldest).cut.notify_one();
    true
}

impl Place {
    pub(crate) fn peer(&self) -> PeerKey {
        self.open.peer
    }

    /// A request begins: the connection is not closed for another meanwhile.
    pub(crate) fn begin(&self) {
        self.open.busy.store(true, Ordering::Relaxed);
    }

    /// The request is answered.
    pub(crate) fn end(&self) {
        self.open.last.store(self.connections.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.open.served.store(true, Ordering::Relaxed);
        self.open.busy.store(false, Ordering::Relaxed);
    }

    pub(crate) fn has_served(&self) -> bool {
        self.open.served.load(Ordering::Relaxed)
    }

    /// Waits until the connection has to close.
    pub(crate) async fn cut(&self) {
        self.open.cut.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        if let Some(list) = open.get_mut(&self.open.peer) {
            list.retain(|other| !Arc::ptr_eq(other, &self.open));
            if list.is_empty() {
                open.remove(&self.open.peer);
            }
        }
        drop(open);
        self.connections.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(connections: usize, of_peer: usize) -> Arc<Connections> {
        Arc::new(Connections::new(Limits { connections, of_peer, ..Limits::exporter() }, Arc::default()))
    }

    fn address(n: u8) -> PeerKey {
        PeerKey::of([10, 0, 0, n].into())
    }

    fn was_cut(place: &Place) -> bool {
        !place.connections.open.lock().values().flatten().any(|open| Arc::ptr_eq(open, &place.open))
    }

    #[test]
    fn a_peer_that_has_too_many_loses_the_one_that_was_idle_for_longest() {
        let all = connections(10, 2);
        let (first, second) = (all.admit(address(1)).unwrap(), all.admit(address(1)).unwrap());
        first.begin();
        let third = all.admit(address(1)).unwrap();
        assert!(!was_cut(&first) && was_cut(&second) && !was_cut(&third));
        third.begin();
        assert!(all.admit(address(1)).is_none(), "both are at work");
        first.end();
        assert!(all.admit(address(1)).is_some() && was_cut(&first));
        assert!(all.admit(address(2)).is_some());
    }

    #[test]
    fn when_all_places_are_taken_the_peer_with_the_most_gives_one() {
        let all = connections(4, 4);
        let honest = all.admit(address(1)).unwrap();
        let greedy: Vec<_> = (0..3).map(|_| all.admit(address(2)).unwrap()).collect();
        let new = all.admit(address(3)).unwrap();
        assert_eq!(greedy.iter().map(was_cut).collect::<Vec<_>>(), [true, false, false]);
        assert!(!was_cut(&honest) && !was_cut(&new));
        assert_eq!(all.count(), 4);
        for place in &greedy[1..] {
            place.begin();
        }
        assert!(all.admit(address(4)).is_some() && (was_cut(&honest) || was_cut(&new)), "the others are at work");
        let counts: HashMap<_, _> = all.refusals().counts().collect();
        assert_eq!((counts[&Reason::Connections], counts[&Reason::PeerConnections]), (2, 0));
    }

    #[tokio::test]
    async fn a_connection_that_must_go_hears_of_it_and_the_last_one_is_waited_for() {
        let all = connections(1, 1);
        let (first, second) = (all.admit(address(1)).unwrap(), all.admit(address(2)).unwrap());
        first.cut().await;
        drop(first);
        assert_eq!(all.count(), 1);
        let waiting = all.all_closed();
        drop(second);
        waiting.await;
    }

    #[test]
    fn a_host_with_many_addresses_is_one_peer() {
        let key = |text: &str| PeerKey::of(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_ne!(key("10.0.0.1"), key("10.0.0.2"));
        assert_eq!([key("::1"), key("2001:db8::1")].map(|key| key.to_string()), ["::1", "2001:db8::/64"]);
        assert_eq!(PeerKey::of_client(None).to_string(), "unix");
    }
}
