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
use super::{Thresholds, work};
use crate::events::Told;
use crate::frame::{self, Around, Framed, NodeFrame, Source, Unjoined};
use crate::sample::TimeMs;

/// The nodes of a window, with all that rules ask them for.
pub(super) struct Prepared {
    pub(super) nodes: Vec<NodeFrame>,
    pub(super) crashes: Arc<Crashes>,
    pub(super) long_starts: Arc<LongStarts>,
    pub(super) unjoined: BTreeSet<Unjoined>,
}

/// Looks at the window, which does not reach over a UTC hour, and at what is around it.
pub(super) fn prepare(sources: &[Source<'_>], told: &Arc<Told>, window: &Range<TimeMs>, t: &Thresholds) -> Prepared {
    let around = Around { ms: around_ms(t), frozen_ms: ms(t.frozen_seconds) };
    let Framed { mut nodes, unjoined } = frame::frames(sources.iter(), window, around);
    nodes.par_iter_mut().for_each(|node| work::note(node, t));
    let long_starts = Arc::new(long_start::find(sources, &nodes, window, t));
    // What a long start followed is looked for where it began.
    let from = long_starts.first_ms().map_or(window.start, |first| first.min(window.start));
    let crashes = Arc::new(crash::find(sources, told, &(from..window.end), t));
    for node in &mut nodes {
        node.told = Arc::clone(told);
        (node.crashes, node.long_starts) = (Arc::clone(&crashes), Arc::clone(&long_starts));
    }
    look_elsewhere(&mut nodes, t);
    Prepared { nodes, crashes, long_starts, unjoined }
}
