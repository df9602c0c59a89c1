//! Requests wait for their server: `queueing` while its KV cache has room for them, `kv_full` for want of that room.

use super::advisory::Adviser;
use super::intervals::Grounds;
use super::server_clock::Near;
use super::thresholds::confidence::INFERRED;
use super::{Advice, Cell, Class, Fact, Thresholds};
use crate::signal::Signal;

pub(super) const QUEUEING: Adviser = Adviser { advice: Advice::Queueing, charged_as: &[], judge: queueing };

/// Work that is done twice for want of that memory is charged.
pub(super) const KV_FULL: Adviser = Adviser { advice: Advice::KvFull, charged_as: &[Class::Recompute], judge: kv_full };

fn queueing(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let near = Near::of(cell, t.server_near_seconds);
    let (waiting, used) = (near.read(Signal::JobRequestsWaiting)?, near.read(Signal::ServerKvUse)?);
    let is_free = used < t.server_kv_ratio;
    (is_free && waiting >= t.server_queue_requests).then(|| grounds(vec![queue(waiting, t), memory(used, t)]))
}

fn kv_full(cell: &Cell<'_>, t: &Thresholds) -> Option<Grounds> {
    let near = Near::of(cell, t.server_near_seconds);
    let (waiting, used) = (near.read(Signal::JobRequestsWaiting)?, near.read(Signal::ServerKvUse)?);
    if used < t.server_kv_ratio {
        return None;
    }
    let preempted = near.read(Signal::ServerPreemptions).filter(|rate| *rate > 0.0);
    let preempted = preempted.map(|value| {
        let signal = Signal::ServerPreemptions.name();
        Fact { signal, unit: "requests per second", value, threshold: 0.0 }
    });
    let waits = Some(queue(waiting, t)).filter(|_| waiting >= t.server_queue_requests && !is_batch(cell, t));
    let facts: Vec<Fact> = [preempted, waits].into_iter().flatten().collect();
    (!facts.is_empty()).then(|| grounds([vec![memory(used, t)], facts].concat()))
}

/// Is there always more work, as in a batch of prompts? Then a full cache is as it should be.
fn is_batch(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let near = Near::of(cell, t.server_far_seconds);
    let waits = |cell: &Cell<'_>| Some(cell.read(Signal::JobRequestsWaiting)?.min >= 1.0);
    near.mean(|cell| waits(cell).map(|waits| f64::from(u8::from(waits)))) == Some(1.0)
}

fn grounds(facts: Vec<Fact>) -> Grounds {
    Grounds { confidence: INFERRED, facts, missing: Vec::new() }
}

fn queue(waiting: f64, t: &Thresholds) -> Fact {
    let signal = Signal::JobRequestsWaiting.name();
    Fact { signal, unit: "requests", value: waiting, threshold: t.server_queue_requests }
}

fn memory(used: f64, t: &Thresholds) -> Fact {
    Fact { signal: Signal::ServerKvUse.name(), unit: "ratio", value: used, threshold: t.server_kv_ratio }
}
