//! What the nodes of a run exchanged before their network became slow. What lasts for an hour leaves nothing around to compare
//! with, and what waits all the time looks like the norm.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::run::Run;
use super::super::{Node, Thresholds};
use super::evidence;
use super::exchange::Exchange;
use crate::frame::{self, Framed, Source};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// How long before an hour a run is looked for without evidence: as far as starts are.
const REACH_MS: i64 = 4 * HOUR_MS;

/// What tells bytes, states of ports, and who held what.
pub const NETWORK_SIGNALS: &[Signal] = &[
    Signal::PortActive,
    Signal::PortSpeed,
    Signal::PortReceived,
    Signal::PortSent,
    Signal::PortTimeouts,
    Signal::PortRetransmits,
    Signal::PortLinkChanges,
    Signal::InterfacePause,
    Signal::InterfaceReceived,
    Signal::InterfaceSent,
    Signal::GpuUtilization,
    Signal::GrEngineActive,
    Signal::GpuPower,
    Signal::GpuOwner,
    Signal::GpuInfo,
    Signal::NodeInfo,
    Signal::JobInfo,
    Signal::PodController,
    Signal::JobController,
];

/// Bytes per second that each node of the run exchanged, by its name: the median of the cells before the window without
/// evidence, where there are several.
pub(super) fn rates(
    sources: &[Source<'_>],
    run: &Run,
    gpus: &BTreeSet<&str>,
    window: &Range<TimeMs>,
    t: &Thresholds,
) -> BTreeMap<String, f64> {
    let is_wanted = |source: &&Source<'_>| {
        let of_run = match source.meaning.entity {
            Entity::Gpu(uuid) => gpus.contains(uuid),
            Entity::MigInstance(..) => false,
            _ => true,
        };
        of_run && NETWORK_SIGNALS.contains(&source.meaning.signal)
    };
    let Framed { nodes, .. } = frame::frames(sources.iter().filter(is_wanted), window, REACH_MS);
    let nodes: Vec<Node> = nodes.into_iter().map(Node::from).collect();
    let sides = nodes.iter().map(|node| (node, node.gpus.len())).collect();
    let Some(exchange) = Exchange::between(sides) else { return BTreeMap::new() };
    let before = 0..exchange.body().start;
    let clean = before.filter(|cell| evidence::told(&exchange, *cell, t).is_empty());
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for cell in clean {
        for (_, side, index) in exchange.at(cell).filter(|(_, side, index)| holds_all(side.node, run, *index)) {
            let bytes = side.exchanged(index).filter(|bytes| *bytes >= t.exchange_bytes);
            rates.entry(side.node.node.clone()).or_default().extend(bytes);
        }
    }
    rates.retain(|_, rates| rates.len() as f64 >= t.network_clean_cells);
    rates.into_iter().map(|(node, mut rates)| (node, median(&mut rates))).collect()
}

/// Does the run hold all of these GPUs of the node?
fn holds_all(node: &Node, run: &Run, index: usize) -> bool {
    let is_its = |owner: Option<&str>| owner.is_some_and(|owner| Run::of(node, owner) == *run);
    node.gpus.iter().all(|gpu| is_its(gpu.main_owner(index)))
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
