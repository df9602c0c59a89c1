//! How much may be in work at once: requests in all, requests of one sender, and memory.
//!
//! A body takes memory as it arrives, and its request a place once it is there: who announces megabytes and sends nothing
//! takes neither.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::http::{StatusCode, header};
use bytes::Bytes;
use goodput_web::PeerKey;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;

use super::Limits;
use super::tally::Tally;

/// Memory is given out in pieces of this many bytes.
const PIECE: usize = 1024;

/// Bodies that arrive from one sender hold at most this part of the memory.
const SENDERS_PART: usize = 4;

/// A body that has arrived for so long has to have come at [`SLOWEST`] on the whole.
const SLOW_AFTER: Duration = Duration::from_secs(5);

/// Bytes a second: a hundredth of what a 10 Mbit/s line carries.
const SLOWEST: f64 = 12_500.0;

/// What there is none of for now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Busy {
    #[error("{0} requests are in work")]
    Requests(usize),
    #[error("{1} requests of {0} are in work")]
    Sender(PeerKey, usize),
    #[error("requests in work take all of the {0} bytes that they may")]
    Memory(usize),
    #[error("bodies that arrive from {0} take all of the {1} bytes that one sender's may")]
    Arriving(PeerKey, usize),
}

impl Busy {
    /// What it is counted as.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Requests(_) => "busy",
            Self::Sender(..) => "sender_busy",
            Self::Memory(_) | Self::Arriving(..) => "memory",
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
    senders: Mutex<HashMap<PeerKey, usize>>,
    /// Bytes of bodies that arrive, by sender.
    arriving: Mutex<HashMap<PeerKey, usize>>,
}

/// The memory of a body, taken as it arrives.
struct Arriving<'a> {
    work: &'a Work,
    sender: PeerKey,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// Held while a request is in work, also by a thread that goes on after the sender has left.
pub(super) struct Place {
    work: Arc<Work>,
    sender: PeerKey,
    _permit: OwnedSemaphorePermit,
}

impl Work {
    /// With nothing in work.
    #[must_use]
    pub fn new(limits: Limits, tally: Arc<Tally>) -> Self {
        let requests = Arc::new(Semaphore::new(limits.requests));
        let memory = Arc::new(Semaphore::new(pieces(limits.work_bytes) as usize));
        Self { limits, requests, memory, senders: Mutex::default(), arriving: Mutex::default(), tally }
    }

    /// A place for one request of this sender. The sender's own limit is below that of all, so that no sender takes
    /// every place.
    pub(super) fn place(self: &Arc<Self>, sender: IpAddr) -> Result<Place, Busy> {
        let sender = PeerKey::of(sender);
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

    /// The body of a request, called `what`, of at most `limit` bytes, and the memory that it holds.
    pub(super) async fn body(
        &self,
        request: Request,
        what: &str,
        limit: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refused> {
        let too_large = || {
            let reason = format!("{what} of more than the limit of {limit} bytes");
            Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "malformed", reason)
        };
        let announced =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|bytes: usize| bytes > limit) {
            return Err(too_large());
        }
        let mut arriving = Arriving { work: self, sender: PeerKey::of(sender(&request)), bytes: 0, permit: None };
        let (begun, mut body, mut frames) = (Instant::now(), Vec::new(), request.into_body().into_data_stream());
        loop {
            let frame = timeout_at(self.deadline(begun, body.len()), frames.next()).await;
            let slow = |_| Refused::later("slow", format!("body not sent within {:?}", begun.elapsed()));
            let Some(frame) = frame.map_err(slow)? else { break };
            let frame = frame.map_err(|error| Refused::new(StatusCode::BAD_REQUEST, "malformed", error))?;
            if body.len() + frame.len() > limit {
                return Err(too_large());
            }
            arriving.take(frame.len())?;
            body.extend_from_slice(&frame);
        }
        Ok((body.into(), arriving.permit.take()))
    }

    /// Bytes of bodies that arrive.
    #[cfg(test)]
    pub(super) fn arriving(&self) -> usize {
        self.arriving.lock().values().sum()
    }

    /// Until when the next part of a body that has come so far is waited for.
    fn deadline(&self, begun: Instant, bytes: usize) -> Instant {
        let due = Duration::from_secs_f64(bytes as f64 / SLOWEST).max(SLOW_AFTER);
        begun + due.min(self.limits.read)
    }
}

impl Arriving<'_> {
    /// Takes memory for this number of bytes more.
    fn take(&mut self, bytes: usize) -> Result<(), Busy> {
        let allowed = self.work.limits.work_bytes / SENDERS_PART;
        let mut arriving = self.work.arriving.lock();
        let of_sender = arriving.entry(self.sender).or_default();
        // One body alone is never too much.
        if *of_sender > self.bytes && *of_sender + bytes > allowed {
            return Err(Busy::Arriving(self.sender, allowed));
        }
        // What alone is more than there is at all gets what there is.
        let held = |bytes| pieces(bytes).min(pieces(self.work.limits.work_bytes));
        let more = held(self.bytes + bytes) - held(self.bytes);
        if more > 0 {
            let permit = Arc::clone(&self.work.memory).try_acquire_many_owned(more);
            let permit = permit.map_err(|_| Busy::Memory(self.work.limits.work_bytes))?;
            match &mut self.permit {
                Some(held) => held.merge(permit),
                None => self.permit = Some(permit),
            }
        }
        *of_sender += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        forget(&mut self.work.arriving.lock(), self.sender, self.bytes);
    }
}

/// Takes so much from what is counted of the sender.
fn forget(counts: &mut HashMap<PeerKey, usize>, sender: PeerKey, amount: usize) {
    if let Some(count) = counts.get_mut(&sender) {
        *count = count.saturating_sub(amount);
        if *count == 0 {
            counts.remove(&sender);
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
        forget(&mut self.work.senders.lock(), self.sender, 1);
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
        assert_eq!(work.place(a).err(), Some(Busy::Sender(PeerKey::of(a), 2)));
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
