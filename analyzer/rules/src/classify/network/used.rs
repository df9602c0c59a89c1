//! What the ports of a run did in a window in which it waited for the network, for reports to show beside what is lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::{PortUse, Thresholds};
use super::ports::{Interface, Port};
use super::{Charge, Slow};
use crate::frame::named;
use goodput_exposition::sample::TimeMs;

/// Ports of a run that are kept in a window, those that show most: more than anyone reads.
const MOST_PORTS: usize = 32;

/// A port over the window.
#[derive(Default)]
struct Used {
    told: PortUse,
    /// Cells of GPUs that are charged to it.
    charged: usize,
    /// Cells in which it is evidence.
    shown: usize,
    /// Is it up in some cell, or not known to be down? Nodes have ports that no cable was ever in.
    is_used: bool,
}

/// The ports of the nodes of a run that show most, with what they did while the run held GPUs there.
pub(super) fn used(slow: &Slow<'_, '_>, charges: &[Charge], start_ms: TimeMs, t: &Thresholds) -> Vec<PortUse> {
    let mut all: BTreeMap<(usize, &str), Used> = BTreeMap::new();
    for cell in slow.exchange.body() {
        for (n, side, index) in slow.exchange.at(cell) {
            let ms = (side.node.cells[index].end - side.node.cells[index].start) as f64;
            for (name, cells) in &side.ports.rdma {
                all.entry((n, name)).or_default().add(&cells[index], ms);
            }
            let carries = |interface: &Interface| {
                interface.paused.is_some_and(|share| share > 0.0)
                    || interface.sent.is_some_and(|bytes| bytes >= t.tcp_exchange_bytes)
            };
            for (name, cells) in side.ports.interfaces.iter().filter(|(_, cells)| carries(&cells[index])) {
                all.entry((n, name)).or_default().add_interface(cells[index], ms);
            }
        }
        for (n, name, _) in slow.told[cell].iter().flat_map(|found| &found.at) {
            all.entry((*n, name)).and_modify(|used| used.shown += 1);
        }
    }
    for charge in charges {
        let named = charge.charged_to.as_ref().zip(charge.cause.which.as_ref());
        let Some((culprit, which)) = named else { continue };
        let side = slow.exchange.sides.iter().position(|side| side.node.node == culprit.node);
        side.into_iter().for_each(|n| {
            all.entry((n, which)).and_modify(|used| used.charged += 1);
        });
    }
    let mut most: Vec<((usize, &str), Used)> = all.into_iter().collect();
    most.retain(|(_, used)| used.is_used || used.charged + used.shown > 0);
    most.sort_by(|(_, a), (_, b)| {
        let (first, last) =
            (|used: &Used| Reverse((used.charged, used.shown)), |used: &Used| Reverse(used.told.down_ms));
        let events = b.told.events().total_cmp(&a.told.events());
        first(a).cmp(&first(b)).then(events).then(last(a).cmp(&last(b)))
    });
    let ports = most.len();
    most.truncate(MOST_PORTS);
    let one = |((n, name), used): ((usize, &str), Used)| PortUse {
        cluster: named(slow.run.cluster()),
        node: slow.exchange.node(n).node.clone(),
        owner: slow.run.name().to_owned(),
        port: name.to_owned(),
        start_ms,
        ports,
        ..used.told
    };
    most.into_iter().map(one).collect()
}

impl Used {
    fn add(&mut self, port: &Port, ms: f64) {
        self.is_used |= port.is_active != Some(false);
        self.told.add(&PortUse {
            rate: port.speed,
            down_ms: port.is_active.map(|is_active| if is_active { 0 } else { ms as i64 }),
            sent_bytes: port.sent.map(|sent| sent * ms / 1000.0),
            timeouts: port.timeouts,
            retransmits: port.retransmits,
            link_changes: port.link_changes,
            ..PortUse::default()
        });
    }

    fn add_interface(&mut self, interface: Interface, ms: f64) {
        self.is_used = true;
        self.told.add(&PortUse {
            sent_bytes: interface.sent.map(|sent| sent * ms / 1000.0),
            paused_ms: interface.paused.map(|share| share * ms),
            ..PortUse::default()
        });
    }
}
