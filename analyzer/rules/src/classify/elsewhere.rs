//! What the rest of an owner's run has at the same time, on other nodes for the most part, so that a rule which sees one
//! node knows of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::collective_wait::has_kernels;
use super::{Cell, Node, Thresholds, late_rank};
use crate::frame::Elsewhere;
use crate::frame::grid::MINUTE_MS;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::owner::is_of_one_node;

/// A run's GPUs by minute, on all nodes, and the owners that have them, each on its node.
#[derive(Default)]
struct Run<'a> {
    owners: BTreeSet<(usize, &'a str)>,
    minutes: BTreeMap<i64, Elsewhere>,
}

/// Fills in what the rest of each owner's run has.
pub(super) fn look_elsewhere(nodes: &mut [Node], t: &Thresholds) {
    let of_nodes: Vec<BTreeMap<Arc<str>, Vec<Elsewhere>>> = nodes.iter().map(|node| of_node(node, t)).collect();
    let mut runs: BTreeMap<(&str, &str), Run<'_>> = BTreeMap::new();
    for (index, (node, owners)) in nodes.iter().zip(&of_nodes).enumerate() {
        for (owner, cells) in owners {
            let run = runs.entry((&node.cluster, node.runs.name(owner))).or_default();
            run.owners.insert((index, owner));
            for (span, here) in node.cells.iter().zip(cells) {
                for minute in minutes(span) {
                    let all = run.minutes.entry(minute).or_default();
                    let late = late_rank::later(all.late, here.late);
                    *all = Elsewhere { held: all.held + here.held, busy: all.busy + here.busy, late };
                }
            }
        }
    }
    runs.retain(|_, run| run.owners.len() > 1);
    let others = |node: &Node, owners: &BTreeMap<Arc<str>, Vec<Elsewhere>>| {
        let of_owner = |(owner, cells): (&Arc<str>, &Vec<Elsewhere>)| {
            let run = runs.get(&(node.cluster.as_str(), node.runs.name(owner)))?;
            let rest = |(span, here): (&Range<TimeMs>, &Elsewhere)| {
                let all = minutes(span).next().and_then(|minute| run.minutes.get(&minute)).copied().unwrap_or(*here);
                Elsewhere { held: all.held - here.held, busy: all.busy - here.busy, late: all.late }
            };
            Some((owner.clone(), node.cells.iter().zip(cells).map(rest).collect()))
        };
        owners.iter().filter_map(of_owner).collect()
    };
    let elsewhere: Vec<_> = nodes.iter().zip(&of_nodes).map(|(node, owners)| others(node, owners)).collect();
    nodes.iter_mut().zip(elsewhere).for_each(|(node, elsewhere)| node.elsewhere = elsewhere);
}

/// The GPUs of each owner on this node, cell by cell; without those who are of one node.
fn of_node(node: &Node, t: &Thresholds) -> BTreeMap<Arc<str>, Vec<Elsewhere>> {
    let mut owners: BTreeMap<Arc<str>, Vec<Elsewhere>> = BTreeMap::new();
    for gpu in &node.gpus {
        for (index, held) in gpu.owners.iter().enumerate() {
            for (owner, _) in held.iter().filter(|(owner, _)| !is_of_one_node(owner)) {
                let cells =
                    owners.entry(Arc::clone(owner)).or_insert_with(|| vec![Elsewhere::default(); node.cells.len()]);
                cells[index].held += 1;
                let cell = Cell::of(node, gpu, None, index);
                cells[index].busy += usize::from(has_kernels(&cell, t));
                cells[index].late = late_rank::later(cells[index].late, late_rank::activity(&cell, t));
            }
        }
    }
    owners
}

/// The minutes that begin in the cell: of a node, each begins in one.
fn minutes(cell: &Range<TimeMs>) -> impl Iterator<Item = i64> + use<> {
    let first = |time: TimeMs| time.div_euclid(MINUTE_MS) + i64::from(time.rem_euclid(MINUTE_MS) > 0);
    first(cell.start)..first(cell.end)
}
