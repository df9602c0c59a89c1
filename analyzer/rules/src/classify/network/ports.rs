//! What the RDMA ports and the network interfaces of a node did, cell by cell.

use std::collections::BTreeMap;

use super::super::Node;
use crate::frame::Reading;
use crate::signal::Signal;

/// An RDMA port in one cell; what is not known is absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port {
    /// Is its link up and set up?
    pub(super) is_active: Option<bool>,
    /// Line rate, bytes per second.
    pub(super) speed: Option<f64>,
    /// Bytes per second.
    pub(super) sent: Option<f64>,
    /// Bytes per second.
    pub(super) received: Option<f64>,
    /// In the cell.
    pub(super) timeouts: Option<f64>,
    /// In the cell.
    pub(super) retransmits: Option<f64>,
    /// In the cell.
    pub(super) link_changes: Option<f64>,
    /// Notices of congestion per second.
    pub(super) congestion: Option<f64>,
    /// Ticks that it was held back so far.
    pub(super) waited: Option<f64>,
}

/// A network interface in one cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interface {
    /// Bytes per second.
    pub(super) sent: Option<f64>,
    /// Bytes per second.
    pub(super) received: Option<f64>,
    /// Share of the cell in which it paused, of the priority that did so most.
    pub(super) paused: Option<f64>,
}

/// By name, cell by cell.
#[derive(Debug, Default)]
pub(super) struct Ports<'a> {
    pub(super) rdma: BTreeMap<&'a str, Vec<Port>>,
    pub(super) interfaces: BTreeMap<&'a str, Vec<Interface>>,
}

/// Rates of alike ports differ by what drivers round.
const SAME_RATE: f64 = 0.99;

impl Port {
    /// Is this its line rate, in bytes per second, or a higher one?
    pub(super) fn has_rate(&self, rate: f64) -> bool {
        self.speed.is_some_and(|speed| speed >= rate * SAME_RATE)
    }

    /// Bytes per second, of the direction that has more.
    pub(super) fn bytes(&self) -> Option<f64> {
        self.sent.into_iter().chain(self.received).reduce(f64::max)
    }
}

impl<'a> Ports<'a> {
    pub(super) fn of(node: &'a Node) -> Ports<'a> {
        let mut ports = Ports::default();
        let seconds: Vec<f64> = node.cells.iter().map(|cell| (cell.end - cell.start) as f64 / 1000.0).collect();
        let all = &mut ports.rdma;
        each(node, Signal::PortActive, all, |port, r, _| port.is_active = Some(r.min >= 1.0));
        each(node, Signal::PortSpeed, all, |port, r, _| port.speed = Some(r.min));
        each(node, Signal::PortSent, all, |port, r, _| port.sent = Some(r.mean));
        each(node, Signal::PortReceived, all, |port, r, _| port.received = Some(r.mean));
        each(node, Signal::PortTimeouts, all, |port, r, cell| port.timeouts = Some(r.mean * seconds[cell]));
        each(node, Signal::PortRetransmits, all, |port, r, cell| port.retransmits = Some(r.mean * seconds[cell]));
        each(node, Signal::PortLinkChanges, all, |port, r, cell| port.link_changes = Some(r.mean * seconds[cell]));
        each(node, Signal::PortCongestion, all, |port, r, _| port.congestion = Some(r.mean));
        each(node, Signal::PortWait, all, |port, r, _| port.waited = Some(r.max));
        let all = &mut ports.interfaces;
        each(node, Signal::InterfaceSent, all, |interface, r, _| interface.sent = Some(r.mean));
        each(node, Signal::InterfaceReceived, all, |interface, r, _| interface.received = Some(r.mean));
        each(node, Signal::InterfacePause, all, |interface, r, _| {
            interface.paused = interface.paused.into_iter().chain([r.mean.min(1.0)]).reduce(f64::max);
        });
        ports
    }

    /// Bytes per second that all RDMA ports exchanged, of the direction that has more; `None` is not known.
    pub(super) fn rdma_bytes(&self, cell: usize) -> Option<f64> {
        let sum = |of: fn(&Port) -> Option<f64>| sum(self.rdma.values().map(|cells| of(&cells[cell])));
        let (sent, received) = (sum(|port| port.sent), sum(|port| port.received));
        sent.into_iter().chain(received).reduce(f64::max)
    }

    /// Bytes per second that all interfaces sent, and received.
    pub(super) fn interface_bytes(&self, cell: usize) -> Option<(f64, f64)> {
        let sum = |of: fn(&Interface) -> Option<f64>| sum(self.interfaces.values().map(|cells| of(&cells[cell])));
        Some((sum(|interface| interface.sent)?, sum(|interface| interface.received)?))
    }
}

/// Of those that are known; `None` where none is.
fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|a, b| a + b)
}

/// Puts the readings of a signal in their places.
fn each<'a, T: Clone + Default>(
    node: &'a Node,
    signal: Signal,
    all: &mut BTreeMap<&'a str, Vec<T>>,
    mut put: impl FnMut(&mut T, &Reading, usize),
) {
    for (name, track) in node.host.splits(signal) {
        // Of an interface the priority stands behind its name.
        let name =
            if signal == Signal::InterfacePause { name.rsplit_once('/').map_or(name, |(of, _)| of) } else { name };
        let cells = all.entry(name).or_insert_with(|| vec![T::default(); node.cells.len()]);
        for (index, reading) in track.iter().enumerate() {
            if let Some((place, reading)) = cells.get_mut(index).zip(reading.as_ref()) {
                put(place, reading, index);
            }
        }
    }
}
