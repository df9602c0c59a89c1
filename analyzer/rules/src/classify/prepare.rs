//! What has to be known of a window before the first of its cells is judged.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::crash::{self, Crashes};
use super::elsewhere::look_elsewhere;
use super::judge::around_ms;
use super::long_start::{self, LongStarts};
use super::thresholds::ms;
use super::{Node, Thresholds, work};
use crate::caught::caught;
use crate::frame::{self, Around, FailedNode, Framed, NodeFrame, Source, Unjoined};
use crate::told::Told;
use goodput_exposition::sample::TimeMs;

/// The nodes of a window, with all that rules ask them for.
pub(super) struct Prepared {
    pub(super) nodes: Vec<Node>,
    pub(super) crashes: Arc<Crashes>,
    pub(super) long_starts: Arc<LongStarts>,
    pub(super) unjoined: BTreeSet<Unjoined>,
    /// Nodes that could not be laid on the grid.
    pub(super) failed: Vec<FailedNode>,
}

/// Looks at the window, which does not reach over a UTC hour, and at what is around it.
pub(super) fn prepare(sources: &[Source<'_>], told: &Arc<Told>, window: &Range<TimeMs>, t: &Thresholds) -> Prepared {
    let around = Around { ms: around_ms(t), frozen_ms: ms(t.frozen_seconds) };
    let Framed { nodes, unjoined, mut failed } = frame::frames(sources.iter(), window, around);
    let noted = |frame: NodeFrame| {
        let mut node = Node::from(frame);
        let place = (node.cluster.clone(), node.node.clone());
        let noted = caught(|| {
            work::note(&mut node, t);
            node
        });
        noted.map_err(|reason| FailedNode::new(&place.0, &place.1, reason))
    };
    let noted: Vec<_> = nodes.into_par_iter().map(noted).collect();
    let mut nodes = Vec::with_capacity(noted.len());
    for noted in noted {
        match noted {
            Ok(node) => nodes.push(node),
            Err(node) => failed.push(node),
        }
    }
    let long_starts = Arc::new(long_start::find(sources, &nodes, window, t));
    // What a long start followed is looked for where it began.
    let from = long_starts.first_ms().map_or(window.start, |first| first.min(window.start));
    let crashes = Arc::new(crash::find(sources, told, &(from..window.end), t));
    for node in &mut nodes {
        node.told = Arc::clone(told);
        (node.crashes, node.long_starts) = (Arc::clone(&crashes), Arc::clone(&long_starts));
    }
    look_elsewhere(&mut nodes, t);
    Prepared { nodes, crashes, long_starts, unjoined, failed }
}
