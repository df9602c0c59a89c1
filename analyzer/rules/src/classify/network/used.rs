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
    let ports = all.len();
    let mut most: Vec<((usize, &str), Used)> = all.into_iter().collect();
    most.sort_by(|(_, a), (_, b)| {
        let order = |used: &Used| Reverse((used.charged, used.shown, used.told.down_ms));
        order(a).cmp(&order(b)).then(b.told.events().total_cmp(&a.told.events()))
    });
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

fn grow(sum: &mut Option<f64>, by: Option<f64>) {
    if let Some(by) = by {
        *sum = Some(sum.unwrap_or(0.0) + by);
    }
}

impl Used {
    fn add(&mut self, port: &Port, ms: f64) {
        let told = &mut self.told;
        told.rate = told.rate.into_iter().chain(port.speed).reduce(f64::max);
        told.down_ms += if port.is_active == Some(false) { ms as i64 } else { 0 };
        grow(&mut told.sent_bytes, port.sent.map(|sent| sent * ms / 1000.0));
        grow(&mut told.timeouts, port.timeouts);
        grow(&mut told.retransmits, port.retransmits);
        grow(&mut told.link_changes, port.link_changes);
    }

    fn add_interface(&mut self, interface: Interface, ms: f64) {
        grow(&mut self.told.sent_bytes, interface.sent.map(|sent| sent * ms / 1000.0));
        grow(&mut self.told.paused_ms, interface.paused.map(|share| share * ms));
    }
}
