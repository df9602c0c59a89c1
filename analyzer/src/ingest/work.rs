//! How much may be in work at once: requests in all, requests of one sender, and memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use super::tally::Tally;

/// Memory is given out in pieces of so many bytes.
const PIECE: usize = 1024;

/// What there is none of for now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Busy {
    #[error("{0} requests are in work")]
    Requests(usize),
    #[error("{1} requests of {0} are in work")]
    Sender(IpAddr, usize),
    #[error("requests in work take all of the {0} bytes that they may")]
    Memory(usize),
}

impl Busy {
    /// What it is counted as.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Requests(_) => "busy",
            Self::Sender(..) => "sender_busy",
            Self::Memory(_) => "memory",
        }
    }
}

/// Why a request is not taken, or not all of it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    /// What it is counted as.
    pub(super) outcome: &'static str,
    pub(super) reason: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, outcome: &'static str, reason: impl ToString) -> Self {
        Self { status, outcome, reason: reason.to_string() }
    }

    /// To be sent again, as it is.
    pub(super) fn later(outcome: &'static str, reason: impl ToString) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, outcome, reason)
    }
}

impl From<Busy> for Refused {
    fn from(busy: Busy) -> Self {
        Self::later(busy.outcome(), busy)
    }
}

/// The bounds of what may be in work, shared by the ways in that others send to.
pub struct Work {
    pub(super) limits: Limits,
    pub(super) tally: Arc<Tally>,
    requests: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    senders: Mutex<HashMap<IpAddr, usize>>,
}

/// Held while a request is in work, also by a thread that goes on after the sender has left.
pub(super) struct Place {
    work: Arc<Work>,
    sender: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl Work {
    /// With nothing in work.
    #[must_use]
    pub fn new(limits: Limits, tally: Arc<Tally>) -> Self {
        let requests = Arc::new(Semaphore::new(limits.requests));
        let memory = Arc::new(Semaphore::new(pieces(limits.work_bytes) as usize));
        Self { limits, requests, memory, senders: Mutex::default(), tally }
    }

    /// A place for one request of this sender. The sender's own limit is below that of all, so that nobody takes every
    /// place.
    pub(super) fn place(self: &Arc<Self>, sender: IpAddr) -> Result<Place, Busy> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        let permit = permit.map_err(|_| Busy::Requests(self.limits.requests))?;
        let mut senders = self.senders.lock();
        let count = senders.entry(sender).or_default();
        if *count >= self.limits.sender_requests {
            return Err(Busy::Sender(sender, *count));
        }
        *count += 1;
        self.tally.in_work(1);
        Ok(Place { work: Arc::clone(self), sender, _permit: permit })
    }

    /// So much memory. What alone is more than there is at all gets what there is.
    pub(super) fn memory(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Busy> {
        let wanted = pieces(bytes).min(pieces(self.limits.work_bytes));
        let permit = Arc::clone(&self.memory).try_acquire_many_owned(wanted);
        permit.map_err(|_| Busy::Memory(self.limits.work_bytes))
    }

    /// The body of a request, called `what`, of at most so many bytes.
    pub(super) async fn body(&self, request: Request, what: &str, limit: usize) -> Result<Bytes, Refused> {
        match tokio::time::timeout(self.limits.read, Bytes::from_request(request, &())).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let reason = format!("{what} of more than the limit of {limit} bytes");
                Err(Refused::new(error.status(), "malformed", reason))
            }
            Ok(Err(error)) => Err(Refused::new(error.status(), "malformed", error.body_text())),
            Err(_) => Err(Refused::later("slow", format!("body not sent within {:?}", self.limits.read))),
        }
    }
}

/// Senders are told apart by address where the server knows it.
pub(super) fn sender(request: &Request) -> IpAddr {
    let known = request.extensions().get::<ConnectInfo<SocketAddr>>();
    known.map_or(Ipv4Addr::UNSPECIFIED.into(), |ConnectInfo(address)| address.ip())
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut senders = self.work.senders.lock();
        if let Some(count) = senders.get_mut(&self.sender) {
            *count -= 1;
            if *count == 0 {
                senders.remove(&self.sender);
            }
        }
        self.work.tally.in_work(-1);
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(limits: Limits) -> Arc<Work> {
        Arc::new(Work::new(limits, Arc::default()))
    }

    #[test]
    fn one_sender_never_takes_every_place() {
        let work = work(Limits { requests: 3, sender_requests: 2, ..Limits::default() });
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from([10, 0, 0, n]));
        let first = work.place(a);
        let second = work.place(a);
        assert_eq!(work.place(a).err(), Some(Busy::Sender(a, 2)));
        let third = work.place(b);
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert_eq!(work.place(c).err(), Some(Busy::Requests(3)));
        drop(first);
        assert!(work.place(c).is_ok() && work.place(a).is_ok());
        drop((second, third));
        assert!(work.senders.lock().is_empty(), "senders that have nothing in work are remembered");
    }

    #[test]
    fn memory_is_given_back() {
        let work = work(Limits { work_bytes: 10 * PIECE, ..Limits::default() });
        let first = work.memory(9 * PIECE);
        assert!(first.is_ok());
        assert_eq!(work.memory(PIECE + 1).err(), Some(Busy::Memory(10 * PIECE)));
        drop(first);
        assert!(work.memory(usize::MAX).is_ok(), "alone, even what is too large is tried");
    }
}
