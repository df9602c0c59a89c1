//! `checkpoint`: the job writes a burst, as when it saves its state, and the GPU waits for it.

use super::thresholds::confidence::{INFERRED, NODE_WIDE};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::signal::Signal;

pub(super) const RULE: Rule = Rule { class: Class::Checkpoint, explains: &[Class::DataloaderStorage], judge };

/// Written by the job, else by the whole node.
const LEVELS: [(Signal, f64); 2] = [(Signal::JobWritten, INFERRED), (Signal::NodeDiskWritten, NODE_WIDE)];

fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    let known = LEVELS.into_iter().find_map(|(signal, confidence)| Some((signal, cell.read(signal)?, confidence)));
    let Some((signal, written, confidence)) = known else {
        return Verdict::Abstain { missing: LEVELS.map(|(signal, _)| signal).to_vec() };
    };
    let burst = t.checkpoint_bytes.max(t.checkpoint_burst_ratio * usual(cell, signal, t));
    if written.max < burst {
        return Verdict::No;
    }
    // As long as it takes to write all of it at the highest rate seen.
    let max_share = written.mean / written.max;
    let facts = vec![
        Fact { signal: "highest rate of writing", ..Fact::of(signal, written.max, burst) },
        Fact::of(signal, written.mean, 0.0),
    ];
    Verdict::Claim { max_share, confidence, facts }
}

/// The median rate around the cell: what is written all the time is no checkpoint.
fn usual(cell: &Cell<'_>, signal: Signal, t: &Thresholds) -> f64 {
    let around = cell.node.around(cell.index, t.around_seconds);
    let mut rates: Vec<f64> = around.filter_map(|index| Cell { index, ..*cell }.mean(signal)).collect();
    let middle = rates.len() / 2;
    if rates.is_empty() { 0.0 } else { *rates.select_nth_unstable_by(middle, f64::total_cmp).1 }
}
