//! How much of a server its requests need, five minutes at a time: one for all of it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{OF_COPIES, Told, seen};
use crate::application::within;
use crate::classify::thresholds::Thresholds;
use crate::signal::{Kind, Meaning, Signal, engine_of, metrics_of};
use goodput_exposition::sample::{Labels, Sample, TimeMs};
use goodput_verdict::SLOT_MS;

/// What tells it.
const SIGNALS: [Signal; 9] = [
    Signal::JobRequestsOpen,
    Signal::JobRequestsWaiting,
    Signal::ServerKvUse,
    Signal::ServerIdle,
    Signal::ServerSteps,
    Signal::ServerTokens,
    Signal::ServerTokenTime,
    Signal::ServerPrefillTime,
    Signal::ServerRequestTime,
];

/// Fewer scrapes say little of how often a request was open.
const LEAST_SCRAPES: usize = 12;
/// Triton's gauge of requests has those alone that wait: without any, it may be as busy as can be.
const QUEUED_ALONE: &str = "nv_inference_pending_request_count";
/// Kept to a hundredth.
const PER_SERVER: f64 = 100.0;

/// All metrics that are looked at.
pub(super) fn metrics() -> Vec<String> {
    metrics_of(&SIGNALS)
}

/// An engine: its target, and the labels that tell engines apart.
type Engine<'a> = (Option<&'a str>, Vec<Option<&'a str>>);

/// A value for each slot of the window, where it is known.
type Slots = Vec<Option<f64>>;

/// The parts of a signal by the labels that tell them apart, and by the job that scraped them.
type Jobs<'a> = BTreeMap<Option<&'a str>, BTreeMap<Told<'a>, Slots>>;

/// The same of each metric that gives a signal, by its place in the table.
type Metrics<'a> = BTreeMap<usize, Jobs<'a>>;

/// What the engines of a server tell.
#[derive(Default)]
pub(super) struct Engines<'a>(BTreeMap<Engine<'a>, BTreeMap<Signal, Metrics<'a>>>);

impl<'a> Engines<'a> {
    /// With a series of one of them.
    pub(super) fn add(
        &mut self,
        labels: &'a Labels,
        meaning: &Meaning<'_>,
        samples: &[Sample],
        window: &Range<TimeMs>,
    ) {
        // Servers of prefill and of decode are no replicas of each other.
        let is_half = matches!(labels.get("engine_type"), Some("prefill" | "decode"));
        if !SIGNALS.contains(&meaning.signal) || labels.metric() == QUEUED_ALONE || is_half {
            return;
        }
        let slots: Slots = slots(window).map(|slot| read(meaning.signal, samples, &slot)).collect();
        let signals = self.0.entry((labels.get("instance"), engine_of(labels))).or_default();
        let part = labels.iter().filter(|(name, _)| !OF_COPIES.contains(name)).collect();
        let jobs = signals.entry(meaning.signal).or_default().entry(meaning.rank).or_default();
        let known = jobs.entry(labels.get("job")).or_default().entry(part).or_insert_with(|| vec![None; count(window)]);
        // Copies tell the same, and one of them may miss scrapes.
        let most = |(a, b): (Option<f64>, Option<f64>)| a.into_iter().chain(b).reduce(f64::max);
        *known = known.iter().copied().zip(slots).map(most).collect();
    }

    /// What of the server is needed in each slot: the mean of its engines. Nothing where the server does not tell; all of it
    /// where it is there and does not tell how busy it is.
    pub(super) fn demand(&self, window: &Range<TimeMs>, t: &Thresholds) -> Slots {
        // The front end of several engines reports them together.
        let is_front = |(instance, labels): &Engine<'_>| {
            let is_engine = |(other, labels): &Engine<'_>| other == instance && labels.iter().any(Option::is_some);
            labels.iter().all(Option::is_none) && self.0.keys().any(is_engine)
        };
        let engines: Vec<_> = self.0.iter().filter(|(engine, _)| !is_front(engine)).map(|(_, told)| told).collect();
        let slot = |slot: usize| {
            let told: Vec<f64> = engines.iter().filter_map(|engine| demand(engine, slot, t)).collect();
            let mean = told.iter().sum::<f64>() / told.len() as f64;
            (!told.is_empty()).then_some((mean * PER_SERVER).round() / PER_SERVER)
        };
        let all: Slots = (0..count(window)).map(slot).collect();
        if all.iter().all(Option::is_none) { Vec::new() } else { all }
    }
}

/// The whole slots of the window.
fn slots(window: &Range<TimeMs>) -> impl Iterator<Item = Range<TimeMs>> {
    let start = window.start;
    (0..count(window) as i64).map(move |n| start + n * SLOT_MS..start + (n + 1) * SLOT_MS)
}

fn count(window: &Range<TimeMs>) -> usize {
    usize::try_from((window.end - window.start) / SLOT_MS).unwrap_or_default()
}

/// Of counters the growth, of gauges the mean; of requests in work the share of scrapes with one at least. Nothing where less
/// than half of the slot is known: a replica that comes or goes is none yet, or no more.
fn read(signal: Signal, samples: &[Sample], slot: &Range<TimeMs>) -> Option<f64> {
    let half = SLOT_MS / 2;
    if signal.kind() != Kind::Counter && seen(samples, slot).map(|span| span.end - span.start).sum::<i64>() < half {
        return None;
    }
    match signal {
        Signal::JobRequestsOpen => {
            let told = scrapes(signal, samples, slot);
            let open = told.iter().filter(|value| **value >= 1.0).count();
            (told.len() >= LEAST_SCRAPES).then(|| open as f64 / told.len() as f64)
        }
        Signal::JobRequestsWaiting | Signal::ServerKvUse => {
            let told = scrapes(signal, samples, slot);
            (!told.is_empty()).then(|| told.iter().sum::<f64>() / told.len() as f64)
        }
        _ => {
            let growth = within(samples, slot)?;
            let known: i64 = growth.spans.iter().map(|span| span.end - span.start).sum();
            (known >= half).then(|| growth.amount * SLOT_MS as f64 / known as f64)
        }
    }
}

fn scrapes(signal: Signal, samples: &[Sample], slot: &Range<TimeMs>) -> Vec<f64> {
    let inside = samples.iter().filter(|sample| slot.contains(&sample.time_ms) && signal.admits(sample.value));
    inside.map(|sample| sample.value).collect()
}

fn demand(engine: &BTreeMap<Signal, Metrics<'_>>, slot: usize, t: &Thresholds) -> Option<f64> {
    let told = |signal| sum(engine.get(&signal)?, slot);
    SIGNALS.iter().find_map(|signal| told(*signal))?;
    let seconds = SLOT_MS as f64 / 1000.0;
    let idle = told(Signal::ServerIdle).map(|idle| 1.0 - idle / seconds);
    let of_steps = || {
        let tokens = told(Signal::ServerTokens).filter(|tokens| *tokens >= t.server_tokens)?;
        let stepping = told(Signal::ServerSteps)? * told(Signal::ServerTokenTime)? / tokens;
        Some((stepping + told(Signal::ServerPrefillTime).unwrap_or_default()) / seconds)
    };
    // A server that computes prompts for another one gives no token after the first.
    let is_half =
        told(Signal::ServerTokens) == Some(0.0) && told(Signal::ServerPrefillTime).is_some_and(|time| time > 0.0);
    if is_half {
        return None;
    }
    // No engine is active for longer than requests were open on average (Little's law); these are counted at their end.
    let open = told(Signal::ServerRequestTime).map(|time| time / seconds);
    let of_requests = || [open, told(Signal::JobRequestsOpen)].into_iter().flatten().reduce(f64::max);
    let active = idle.or_else(of_steps).or_else(of_requests).unwrap_or(1.0).clamp(0.0, 1.0);
    let waiting = told(Signal::JobRequestsWaiting).is_some_and(|waiting| waiting >= t.server_queue_requests);
    let kv = told(Signal::ServerKvUse).unwrap_or_default() / t.server_kv_ratio;
    Some(if waiting { kv.max(1.0) } else { kv.max(active) }).filter(|needed| needed.is_finite())
}

/// All parts, of the metric that stands first in the table. A target that two jobs scrape is told twice.
fn sum(metrics: &Metrics<'_>, slot: usize) -> Option<f64> {
    let of_job =
        |parts: &BTreeMap<Told<'_>, Slots>| parts.values().filter_map(|slots| slots[slot]).reduce(|a, b| a + b);
    metrics.values().find_map(|jobs| jobs.values().filter_map(of_job).reduce(f64::max))
}

#[cfg(test)]
mod tests;
