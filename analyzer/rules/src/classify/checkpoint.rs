//! `checkpoint`: the job writes a burst, as when it saves its state, and the GPU waits for it.

use super::busy::busy;
use super::server_clock::is_server;
use super::work::work;
use super::writing::{WRITTEN, Writing, all_stop, stops_meanwhile, told, writing};
use super::{Cell, Class, Fact, Rule, Thresholds, Verdict};
use crate::frame::Reading;
use crate::median::upper_median;
use crate::signal::{Scope, Signal};

pub(super) const RULE: Rule = Rule {
    class: Class::Checkpoint,
    explains: &[Class::DataloaderStorage, Class::DataloaderCpu, Class::FeedingUnsplit],
    judge,
};

/// What a node reads and writes is no server's doing, and a server waits for requests.
fn judge(cell: &Cell<'_>, t: &Thresholds) -> Verdict {
    if is_server(cell, t) {
        return Verdict::No;
    }
    let Some(Writing { signal, reading: written, confidence }) = writing(cell) else {
        return Verdict::without(&WRITTEN);
    };
    let burst = t.checkpoint_bytes.max(t.checkpoint_burst_ratio * usual(cell, signal, t));
    if written.max < burst {
        return Verdict::No;
    }
    if goes_on_beside_work(cell, signal, burst, t) {
        return Verdict::No;
    }
    // Of what a node writes it is not known whose it is.
    let one_saves = || signal == Signal::MountWritten && stops_meanwhile(cell, &written, t);
    if signal.scope() == Scope::Node && !all_stop(cell, &written, t) && !one_saves() {
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

/// The median rate around the cell while the GPU works: what is written all the time is no checkpoint. A save that lasts
/// does not become the usual.
fn usual(cell: &Cell<'_>, signal: Signal, t: &Thresholds) -> f64 {
    let around = cell.node.around(cell.index, t.around_seconds).map(|index| Cell { index, ..*cell });
    let works = |cell: &Cell<'_>| work(cell, t).is_some_and(|work| work.ratio >= t.sustained_busy_ratio);
    upper_median(around.filter(works).filter_map(|cell| Some(told(&cell, signal)?.reading.mean)).collect())
        .unwrap_or(0.0)
}

/// A save stops the work: in some of the cells that it fills, or nearly, the GPU does nothing. If the times of writing
/// and of work do not both fit into any of them, one after the other, the job only writes more than it did before. A
/// burst of fewer than three cells is not known to fill any: scrapes do not fall on its borders.
fn goes_on_beside_work(cell: &Cell<'_>, signal: Signal, burst: f64, t: &Thresholds) -> bool {
    let around = cell.node.around(cell.index, t.around_seconds);
    let written = |index: usize| {
        let of_cell = told(&Cell { index, ..*cell }, signal).map(|written| written.reading);
        of_cell.filter(|written| written.max >= burst)
    };
    let first = (around.start..cell.index).rev().take_while(|index| written(*index).is_some()).last();
    let last = (cell.index + 1..around.end).take_while(|index| written(*index).is_some()).last();
    let run = first.unwrap_or(cell.index)..=last.unwrap_or(cell.index);
    let filled: Vec<_> = (*run.start() + 1..*run.end()).filter_map(|index| Some((index, written(index)?))).collect();
    // The median, because others may write as well in one of the cells.
    let Some(usual) = upper_median(filled.iter().map(|(_, written)| written.max).collect()) else { return false };
    let overlaps = |(index, written): &(usize, Reading)| {
        let busy = busy(&Cell { index: *index, ..*cell }, t);
        busy.is_some_and(|busy| busy.ratio + written.mean / usual > 1.0 + t.sustained_busy_ratio)
    };
    filled.iter().all(overlaps)
}
