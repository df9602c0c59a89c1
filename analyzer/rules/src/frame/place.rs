//! On which node a GPU was, and when: its samples name it. A GPU that is moved, or whose node is renamed, is on one node
//! after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Source;
use super::epochs::span;
use super::identity::{Directory, NodeId, Unjoined};
use goodput_exposition::sample::TimeMs;

/// All of the time.
pub(super) const ALWAYS: Range<TimeMs> = TimeMs::MIN..TimeMs::MAX;

/// A GPU on a node.
#[derive(Debug)]
pub(super) struct Stay<'s, 'a> {
    pub(super) node: NodeId<'a>,
    /// The series that name this node, and those that name none of the nodes.
    pub(super) sources: Vec<&'s Source<'a>>,
    /// When it was there: nodes follow each other without a gap.
    pub(super) here: Range<TimeMs>,
}

/// The nodes that a GPU was on, in order of time.
pub(super) fn stays<'s, 'a>(
    uuid: &str,
    sources: &[&'s Source<'a>],
    directory: &Directory<'a>,
) -> Result<Vec<Stay<'s, 'a>>, Unjoined> {
    let named: Vec<(Option<NodeId<'a>>, &'s Source<'a>)> =
        sources.iter().map(|s| (directory.node_of(s.target, &s.meaning, s.labels), *s)).collect();
    let ids: BTreeSet<NodeId<'a>> = named.iter().filter_map(|(id, _)| *id).collect();
    let alone = |node| vec![Stay { node, sources: sources.to_vec(), here: ALWAYS }];
    if ids.len() < 2 {
        let without = || Unjoined::GpuWithoutNode { gpu: uuid.to_owned() };
        return ids.into_iter().next().map(alone).ok_or_else(without);
    }
    let mut spans = spans(&named);
    if !follow(&spans) {
        // Two names at one time: one may be no node's name, as that of an exporter's pod is.
        spans.retain(|(id, _)| directory.is_told(id));
    }
    if spans.is_empty() || !follow(&spans) {
        let nodes = ids.iter().map(NodeId::shown).collect();
        return Err(Unjoined::GpuOnSeveralNodes { gpu: uuid.to_owned(), nodes });
    }
    let ends = spans.iter().skip(1).map(|(_, (first, _))| *first).chain([TimeMs::MAX]);
    let starts = [TimeMs::MIN].into_iter().chain(ends.clone());
    let stay = |((node, _), (start, end)): (&Named<'a>, (TimeMs, TimeMs))| {
        let is_anothers = |id: NodeId<'a>| id != *node && spans.iter().any(|(other, _)| *other == id);
        let is_its = |(id, _): &&(Option<NodeId<'a>>, &'s Source<'a>)| !id.is_some_and(is_anothers);
        let sources = named.iter().filter(is_its).map(|(_, source)| *source).collect();
        Stay { node: *node, sources, here: start..end }
    };
    Ok(spans.iter().zip(starts.zip(ends)).map(stay).collect())
}

type Named<'a> = (NodeId<'a>, (TimeMs, TimeMs));

/// Does each name begin and end after the one before?
fn follow(spans: &[Named<'_>]) -> bool {
    spans.windows(2).all(|pair| pair[0].1.0 < pair[1].1.0 && pair[0].1.1 < pair[1].1.1)
}

/// From when to when each node is named, in order of time.
fn spans<'a>(named: &[(Option<NodeId<'a>>, &Source<'a>)]) -> Vec<Named<'a>> {
    let mut spans: BTreeMap<NodeId<'a>, (TimeMs, TimeMs)> = BTreeMap::new();
    for (id, source) in named {
        let (Some(id), Some((first, last))) = (*id, span(source)) else { continue };
        let known = spans.entry(id).or_insert((first, last));
        *known = (known.0.min(first), known.1.max(last));
    }
    let mut spans: Vec<_> = spans.into_iter().collect();
    spans.sort_by_key(|(_, span)| *span);
    spans
}
