//! What the nodes of a run exchanged before their network became slow. What lasts for an hour leaves nothing around to compare
//! with, and what waits all the time looks like the norm.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::run::Run;
use super::super::{Node, Thresholds};
use super::congestion::Usual;
use super::evidence::{self, Evidence, is_clean};
use super::exchange::Exchange;
use crate::frame::{self, Framed, Source};
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// How long before an hour a run is looked for without evidence: as far as starts are.
const REACH_MS: i64 = 4 * HOUR_MS;

/// Bytes per second by node.
pub(super) type Rates = BTreeMap<String, f64>;

/// What tells bytes, states of ports, and who held what.
pub const NETWORK_SIGNALS: &[Signal] = &[
    Signal::PortActive,
    Signal::PortSpeed,
    Signal::PortReceived,
    Signal::PortSent,
    Signal::PortTimeouts,
    Signal::PortRetransmits,
    Signal::PortLinkChanges,
    Signal::PortCongestion,
    Signal::PortWait,
    Signal::InterfacePause,
    Signal::MountRead,
    Signal::MountWritten,
    Signal::InterfaceReceived,
    Signal::InterfaceSent,
    Signal::NvlinkUp,
    Signal::NvlinkDown,
    Signal::FabricFailed,
    Signal::NvlinkReceived,
    Signal::NvlinkRate,
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

/// Bytes per second that each node of the run exchanged, by its name: the median of the cells without evidence, of the hours
/// before and of those looked at now, where there are several.
pub(super) fn rates(before: &[Node], now: &Exchange<'_>, told: &[Vec<Evidence>], run: &Run, t: &Thresholds) -> Rates {
    let names: BTreeSet<&str> = now.sides.iter().map(|side| side.node.node.as_str()).collect();
    let is_its = |node: &&Node| node.cluster == run.cluster() && names.contains(node.node.as_str());
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    // What goes over NVLink is not compared with what goes between nodes.
    let before = Exchange::between(run, before.iter().filter(is_its).collect());
    if let Some(before) = before.filter(|before| before.has_several_nodes() == now.has_several_nodes()) {
        let usual = Usual::of(&before, t);
        let clean = before.body().filter(|cell| is_clean(&evidence::told(&before, &usual, *cell, t)));
        clean.for_each(|cell| add(&before, cell, &mut rates, t));
    }
    let clean = (0..told.len()).filter(|cell| is_clean(&told[*cell]));
    clean.for_each(|cell| add(now, cell, &mut rates, t));
    rates.retain(|_, rates| rates.len() as f64 >= t.network_clean_cells);
    rates.into_iter().map(|(node, mut rates)| (node, median(&mut rates))).collect()
}

/// What each node exchanged in a cell.
fn add(exchange: &Exchange<'_>, cell: usize, rates: &mut BTreeMap<String, Vec<f64>>, t: &Thresholds) {
    for (_, side, index) in exchange.at(cell) {
        let bytes = side.exchanged(index).filter(|bytes| *bytes >= t.exchange_bytes);
        rates.entry(side.node.node.clone()).or_default().extend(bytes);
    }
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
