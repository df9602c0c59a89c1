//! What states and counters of an RDMA port, or of a network interface, tell.

use super::super::hardware::{RATE_SECONDS, evidence, increase, state_unit};
use super::pool::{Usual, at};
use super::{Fault, Network, Part, lasts, within};
use crate::classify::Thresholds;
use crate::frame::STALENESS_MS;
use crate::signal::Signal;
use goodput_exposition::sample::{Sample, TimeMs};
use goodput_verdict::{Damage, Evidence, Level};

/// A rate of timeouts is of so long a time.
const TIMEOUT_SECONDS: f64 = 300.0;
/// Rates of alike ports differ by what drivers round.
const SAME_RATE: f64 = 0.99;
/// How recoveries of a link are called, in kinds and in names of metrics.
const RECOVERY: &str = "recovery";

pub(super) fn look(fault: Fault, part: &Part, all: &Network, now: TimeMs, t: &Thresholds) -> Option<Damage> {
    let port = Port { part, all, now, t };
    match fault {
        Fault::RdmaPortDown => Damage::new(Level::Act, t.link_down_seconds, port.down()),
        Fault::RdmaPortSlow => Damage::new(Level::Act, t.link_down_seconds, port.slow()),
        Fault::RdmaLinkUnstable => port.unstable(),
        Fault::RdmaLinkErrors => Damage::new(Level::Watch, RATE_SECONDS, port.errors()),
        Fault::RdmaTransport => port.transport(),
        _ => None,
    }
}

/// One port at one time.
struct Port<'a> {
    part: &'a Part,
    all: &'a Network,
    now: TimeMs,
    t: &'a Thresholds,
}

impl Port<'_> {
    /// A port that never was up, and that others like it are not, is not in use.
    fn down(&self) -> Option<Evidence> {
        let states = self.part.samples(Signal::PortActive);
        if !lasts(states, self.now, self.t.link_down_seconds, |state| state < 1.0) {
            return None;
        }
        let was_up = within(states, self.now, self.t.forecast_window_seconds).iter().any(|s| s.value >= 1.0);
        (was_up || self.usual().is_some_and(|usual| usual.is_active)).then(|| Evidence {
            signal: Signal::PortActive.name().to_owned(),
            value: 0.0,
            unit: "ports".to_owned(),
            threshold: 1.0,
        })
    }

    /// A port that is down may tell any rate.
    fn slow(&self) -> Option<Evidence> {
        let is_down = at(self.part.samples(Signal::PortActive), self.now).is_some_and(|state| state < 1.0);
        let speeds = self.part.samples(Signal::PortSpeed);
        let speed = at(speeds, self.now).filter(|_| !is_down)?;
        let before = within(speeds, self.now, self.t.forecast_window_seconds).iter().map(|s| s.value);
        let full = before.chain(self.usual().and_then(|usual| usual.speed)).reduce(f64::max)?;
        let is_slow = |speed: f64| speed < full * SAME_RATE;
        lasts(speeds, self.now, self.t.link_down_seconds, is_slow).then(|| Evidence {
            signal: Signal::PortSpeed.name().to_owned(),
            value: speed,
            unit: Signal::PortSpeed.unit().to_owned(),
            threshold: full,
        })
    }

    fn usual(&self) -> Option<Usual> {
        self.all.pools.usual(&self.all.parts, self.part, self.now)
    }

    /// Many changes within minutes are told as such, few within the window one by one.
    fn unstable(&self) -> Option<Damage> {
        let (window, most) = (self.t.forecast_window_seconds, self.t.rdma_link_changes);
        let changed = |seconds, least| {
            let of = |(signal, count): &(String, f64)| evidence(signal, *count, "changes", least);
            self.changes(seconds).iter().filter_map(of).collect::<Vec<_>>()
        };
        let many = changed(RATE_SECONDS, most);
        if !many.is_empty() {
            return Damage::new(Level::Act, RATE_SECONDS, many);
        }
        Damage::new(Level::Watch, window, changed(window, 1.0).into_iter().chain(self.recoveries()))
    }

    /// How often the link came or went, by each who tells: what one of them misses another may see.
    fn changes(&self, seconds: f64) -> [(String, f64); 3] {
        let (part, now) = (self.part, self.now);
        let states = within(part.samples(Signal::PortActive), now, seconds);
        let turned = |pair: &&[Sample]| is_close(pair) && (pair[0].value >= 1.0) != (pair[1].value >= 1.0);
        let risen = |signal, is_its: fn(&[String]) -> bool| {
            let tracks = part.tracks(signal).iter().filter(|track| is_its(&track.of));
            tracks.map(|track| risen(within(&track.samples, now, seconds))).sum()
        };
        [
            (format!("changes of {}", Signal::PortActive.name()), states.windows(2).filter(turned).count() as f64),
            (grown(Signal::PortLinkChanges), risen(Signal::PortLinkChanges, |of| !is_recovery(of))),
            (grown(Signal::InterfaceCarrierChanges), risen(Signal::InterfaceCarrierChanges, |_| true)),
        ]
    }

    fn recoveries(&self) -> Option<Evidence> {
        let tracks = self.part.tracks(Signal::PortLinkChanges).iter().filter(|track| is_recovery(&track.of));
        let count: f64 = tracks.map(|track| increase(&track.samples, self.now, RATE_SECONDS)).sum();
        let per_minute = count * 60.0 / RATE_SECONDS;
        evidence(Signal::PortLinkChanges.name(), per_minute, "recoveries per minute", self.t.rdma_link_recoveries)
    }

    fn errors(&self) -> Vec<Evidence> {
        let rates = [
            (Signal::PortSymbolErrors, self.t.rdma_symbol_errors),
            (Signal::PortReceiveErrors, self.t.rdma_receive_errors),
            (Signal::PortDiscards, self.t.rdma_discards),
        ];
        let rates = rates.into_iter().filter_map(|(signal, most)| self.rate(signal, RATE_SECONDS, most));
        let any = [Signal::PortIntegrityErrors, Signal::PortOverruns].into_iter().filter_map(|signal| {
            let count = self.grew(signal, self.t.forecast_window_seconds);
            evidence(&grown(signal), count, state_unit(signal), 1.0)
        });
        rates.chain(any).collect()
    }

    /// Connections that ended are errors of the job's; timeouts alone cost it time.
    fn transport(&self) -> Option<Damage> {
        let window = self.t.forecast_window_seconds;
        let ended = self.grew(Signal::PortFatal, window);
        let ended = evidence(&grown(Signal::PortFatal), ended, state_unit(Signal::PortFatal), 1.0);
        let timeouts = self.rate(Signal::PortTimeouts, TIMEOUT_SECONDS, self.t.rdma_timeouts);
        let (level, seconds) = if ended.is_some() { (Level::Act, window) } else { (Level::Watch, TIMEOUT_SECONDS) };
        Damage::new(level, seconds, ended.into_iter().chain(timeouts))
    }

    /// Between two readings of a series. What a port counted by its first reading may be years old.
    fn grew(&self, signal: Signal, seconds: f64) -> f64 {
        self.part.tracks(signal).iter().map(|track| increase(&track.samples, self.now, seconds)).sum()
    }

    fn rate(&self, signal: Signal, seconds: f64, threshold: f64) -> Option<Evidence> {
        evidence(signal.name(), self.grew(signal, seconds) / seconds, signal.unit(), threshold)
    }
}

fn grown(signal: Signal) -> String {
    format!("growth of {}", signal.name())
}

fn is_recovery(of: &[String]) -> bool {
    of.iter().any(|name| name.contains(RECOVERY))
}

fn is_close(pair: &[Sample]) -> bool {
    pair[1].time_ms - pair[0].time_ms <= STALENESS_MS
}

/// By how much a counter of changes rose. One that began again, as after a start of the node, counts what that took, which is no
/// fault.
fn risen(samples: &[Sample]) -> f64 {
    samples.windows(2).filter(|pair| is_close(pair)).map(|pair| (pair[1].value - pair[0].value).max(0.0)).sum()
}
