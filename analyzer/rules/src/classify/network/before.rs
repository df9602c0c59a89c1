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
    Signal::NodeNfsRead,
    Signal::NodeNfsWritten,
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

/// The hours before the window, of the nodes with these GPUs.
pub(super) fn nodes(sources: &[Source<'_>], gpus: &BTreeSet<&str>, window: &Range<TimeMs>) -> Vec<Node> {
    let is_wanted = |source: &&Source<'_>| {
        let is_there = match source.meaning.entity {
            Entity::Gpu(uuid) => gpus.contains(uuid),
            Entity::MigInstance(..) => false,
            _ => true,
        };
        is_there && NETWORK_SIGNALS.contains(&source.meaning.signal)
    };
    let range = window.start - REACH_MS..window.start;
    let Framed { nodes, .. } = frame::frames(sources.iter().filter(is_wanted), &range, 0);
    nodes.into_iter().map(Node::from).collect()
}

/// Bytes per second that each node of the run exchanged, by its name: the median of the cells without evidence, where there
/// are several.
pub(super) fn rates(nodes: &[Node], run: &Run, names: &BTreeSet<&str>, t: &Thresholds) -> BTreeMap<String, f64> {
    let is_its = |node: &&Node| node.cluster == run.cluster() && names.contains(node.node.as_str());
    let Some(exchange) = Exchange::between(run, nodes.iter().filter(is_its).collect()) else { return BTreeMap::new() };
    let clean = exchange.body().filter(|cell| evidence::told(&exchange, *cell, t).is_empty());
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for cell in clean {
        for (_, side, index) in exchange.at(cell) {
            let bytes = side.exchanged(index).filter(|bytes| *bytes >= t.exchange_bytes);
            rates.entry(side.node.node.clone()).or_default().extend(bytes);
        }
    }
    rates.retain(|_, rates| rates.len() as f64 >= t.network_clean_cells);
    rates.into_iter().map(|(node, mut rates)| (node, median(&mut rates))).collect()
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
