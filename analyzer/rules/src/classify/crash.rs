//! What ended jobs against their will, as signals tell, and since when nothing had been saved.
//!
//! An owner crashed if it released a GPU right when something that ends programs happened: the kernel killed one of its
//! processes for lack of memory, device memory that had been growing was full, an XID ended the program or took the GPU
//! down, the driver lost the GPU, or the node restarted. A run over several nodes crashes as one: its owners that
//! release GPUs within minutes of the crash crashed with it. A node that falls silent while all others of its run
//! release their GPUs is lost. An owner that releases a GPU without any of that ended as it was meant to.
//!
//! What was saved last may be hours back. So crashes are looked for before the hour is judged, in few signals and further
//! ahead than any rule looks: the hour before a crash is judged by what came after it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use goodput_catalog::xid_codes::{self, Action};

use super::run::Run;
use super::thresholds::ms;
use super::{Cell, Fact, Node, Thresholds, writing};
use crate::frame::{self, Framed, GpuFrame, Source};
use crate::signal::Signal;
use crate::told::Told;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::HOUR_MS;

/// The most that `lost_work_reach_seconds` may be configured to: how far ahead of an hour crashes may change its verdicts.
pub const LOST_REACH_MS: i64 = 4 * HOUR_MS;

/// All that crashes are seen by: who held what, what ends programs, what was written.
pub const CRASH_SIGNALS: &[Signal] = &[
    Signal::GpuObserved,
    Signal::GpuUtilization,
    Signal::GpuOwner,
    Signal::GpuInfo,
    Signal::GpuLost,
    Signal::GpuXid,
    Signal::GpuXidRestartApp,
    Signal::GpuXidReset,
    Signal::FbUsed,
    Signal::FbFree,
    Signal::NodeInfo,
    Signal::NodeBootTime,
    Signal::NodeDiskWritten,
    Signal::MountWritten,
    Signal::JobInfo,
    Signal::PodController,
    Signal::JobController,
    Signal::JobOomKills,
    Signal::JobWritten,
];

/// Ends of holds that were crashes.
#[derive(Debug, Default)]
pub(crate) struct Crashes(Vec<Crash>);

/// The crash of an owner on one GPU.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    run: Run,
    gpu: String,
    /// Since then nothing was saved, as far as is known.
    pub(super) from_ms: TimeMs,
    /// Since when verdicts may rest on it: the same, or as far as it may reach where the cells looked at end before a save.
    rests_ms: TimeMs,
    /// What was saved before is unknown, because no signal shows what was written then.
    pub(super) is_blind: bool,
    /// The end of the last cell in which it held the GPU.
    pub(super) until_ms: TimeMs,
    pub(super) facts: Vec<Fact>,
}

impl Crashes {
    /// The first crash of the cell's owner on the cell's GPU that is not over as the cell begins.
    pub(super) fn ahead(&self, cell: &Cell<'_>) -> Option<&Crash> {
        let (run, start) = (Run::of(cell.node, cell.owner?), cell.node.cells[cell.index].start);
        let own = self.0.iter().filter(|c| c.gpu == cell.gpu.uuid && c.run == run && c.until_ms > start);
        own.min_by_key(|crash| crash.until_ms)
    }

    /// The last crash of the owner, on whatever GPU, within the range.
    pub(super) fn last(&self, node: &Node, owner: &str, range: &Range<TimeMs>) -> Option<&Crash> {
        let run = Run::of(node, owner);
        let all = self.0.iter().filter(|c| c.run == run && range.start <= c.until_ms && c.until_ms <= range.end);
        all.max_by_key(|crash| crash.until_ms)
    }

    /// Since when verdicts may rest on crashes within the range.
    pub(super) fn reach_back(&self, range: &Range<TimeMs>) -> Option<TimeMs> {
        self.0.iter().filter(|c| range.start < c.until_ms && c.until_ms <= range.end).map(|c| c.rests_ms).min()
    }
}

/// The crashes that verdicts on the window rest on.
pub(super) fn find(sources: &[Source<'_>], told: &Arc<Told>, window: &Range<TimeMs>, t: &Thresholds) -> Crashes {
    let seen_by = sources.iter().filter(|s| CRASH_SIGNALS.contains(&s.meaning.signal));
    let ahead = window.start..window.end + ms(t.lost_work_reach_seconds);
    let Framed { nodes, .. } = frame::frames_of_ends(seen_by, &ahead, ms(t.lost_work_seconds));
    let mut nodes: Vec<Node> = nodes.into_iter().map(Node::from).collect();
    nodes.iter_mut().for_each(|node| node.told = Arc::clone(told));
    let mut by_run: BTreeMap<Run, Vec<Ending<'_>>> = BTreeMap::new();
    for ending in nodes.iter().flat_map(|node| node.gpus.iter().flat_map(|gpu| Ending::all(node, gpu, t))) {
        by_run.entry(Run::of(ending.node, ending.owner)).or_default().push(ending);
    }
    Crashes(by_run.into_iter().flat_map(|(run, endings)| of_run(&run, &endings, t)).collect())
}

/// The end of an owner's hold on a GPU.
#[derive(Clone, Copy, Debug)]
struct Ending<'a> {
    node: &'a Node,
    gpu: &'a GpuFrame,
    owner: &'a str,
    /// The cells of the hold, without a hole in the data.
    first: usize,
    last: usize,
    /// The first cell after it in which anything is known of the GPU but that it is lost.
    after: Option<usize>,
}

impl<'a> Ending<'a> {
    /// Every end of a hold on the GPU; a hole in the data ends one too.
    fn all(node: &'a Node, gpu: &'a GpuFrame, t: &'a Thresholds) -> impl Iterator<Item = Ending<'a>> {
        let holds = |index: usize, owner: &str| gpu.is_held_by(owner, index);
        let ends = move |last: usize| {
            let over = gpu.owners[last].iter().filter(move |(owner, _)| !holds(last + 1, owner));
            over.map(move |(owner, _)| {
                let first = (0..=last).rev().take_while(|i| holds(*i, owner)).last().unwrap_or(last);
                let is_there =
                    |index: &usize| gpu.known_ms[*index] > 0 && lost(&Cell::of(node, gpu, None, *index), t).is_none();
                let after = (last + 1..node.cells.len()).find(is_there);
                Ending { node, gpu, owner, first, last, after }
            })
        };
        (0..node.cells.len().saturating_sub(1)).flat_map(ends)
    }

    fn cell(&self, index: usize) -> Cell<'a> {
        Cell::of(self.node, self.gpu, Some(self.owner), index)
    }

    fn until_ms(&self) -> TimeMs {
        self.node.cells[self.last].end
    }

    /// Was the GPU seen right after, without the owner?
    fn is_seen(&self) -> bool {
        self.after == Some(self.last + 1)
    }

    /// Did the GPU come back from a hole in the data with the owner still there, or does the owner go on with another GPU
    /// of the node, so that nothing ended?
    fn goes_on(&self, t: &Thresholds) -> bool {
        let comes_back = self.after.is_some_and(|after| self.cell(after).is_held_by_owner());
        let later = self.node.around(self.last, t.idle_window_seconds).end.saturating_sub(1);
        let others = self.node.gpus.iter().filter(|gpu| gpu.uuid != self.gpu.uuid);
        comes_back
            || others
                .map(|gpu| Cell { gpu, ..self.cell(self.last) })
                .any(|other| (self.last..=later).all(|index| Cell { index, ..other }.is_held_by_owner()))
    }

    /// Did the job tell of its end?
    fn is_told(&self) -> bool {
        let before = self.node.cells[self.last.saturating_sub(1)].start;
        let after = self.node.cells[self.last + 1].end;
        self.node.told.ends(self.cell(self.last).who(), &(before..after))
    }

    /// The owner's GPUs on the node in its last cell.
    fn held(&self) -> impl Iterator<Item = Cell<'a>> {
        let last = self.cell(self.last);
        last.node.gpus.iter().map(move |gpu| Cell { gpu, ..last }).filter(Cell::is_held_by_owner)
    }

    /// What ended it against its will, as far as its own node tells.
    fn proof(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        if self.last == 0 || self.is_told() {
            return None;
        }
        let restarted = || self.restarted(t).filter(|_| !self.is_seen());
        let others = || self.killed().or_else(|| self.full(t)).or_else(|| self.broken(t)).or_else(|| self.gone(t));
        let is_over = || (self.after.is_some() || lost(&self.cell(self.last + 1), t).is_some()) && !self.goes_on(t);
        restarted().or_else(|| self.fell_off(t)).or_else(|| others().filter(|_| is_over()))
    }

    /// The kernel killed a process of it for lack of memory.
    fn killed(&self) -> Option<Vec<Fact>> {
        let kills = [self.last - 1, self.last].map(|i| self.cell(i).mean(Signal::JobOomKills));
        let most = kills.into_iter().flatten().reduce(f64::max).filter(|kills| *kills > 0.0)?;
        Some(vec![Fact::of(Signal::JobOomKills, most, 0.0)])
    }

    /// Device memory had been growing, and was full.
    fn full(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        let then = self.cell(self.node.around(self.last, t.idle_window_seconds).start);
        let (used, free) = (then.mean(Signal::FbUsed)?, then.mean(Signal::FbFree)?);
        let ends = [self.last - 1, self.last].map(|i| self.cell(i).read(Signal::FbUsed));
        let most = ends.into_iter().flatten().map(|used| used.max).reduce(f64::max)?;
        let (full, grown) = (t.lost_work_memory_ratio * (used + free), used + t.forecast_growth_ratio * (used + free));
        let before = Fact { signal: "fb_used before", ..Fact::of(Signal::FbUsed, used, most) };
        (self.is_seen() && then.is_held_by_owner() && most >= grown && most >= full)
            .then(|| vec![Fact::of(Signal::FbUsed, most, full), before])
    }

    /// An XID that ends programs came: one that ends only the program within two cells, on a GPU that no other owner
    /// had; one that takes the GPU down within the idle window, because programs on it may hang before they end.
    fn broken(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        let last = self.last + 1;
        let (near, far) = ((self.last - 1).max(1), self.node.around(self.last, t.idle_window_seconds).start.max(1));
        let found = self.held().find_map(|held| {
            let at = |index: usize| Cell { index, ..held };
            let owners = |index: usize| held.gpu.owners[index].iter();
            let alone = |index: &usize| owners(*index - 1).chain(owners(*index)).all(|(name, _)| **name == *self.owner);
            let program = || (near..=last).filter(alone).find_map(|i| ends_program(&at(i - 1), &at(i)));
            program().or_else(|| (far..=last).find_map(|i| takes_gpu_down(&at(i - 1), &at(i))))
        });
        found.map(|fact| vec![fact])
    }

    /// The driver lost one of its GPUs.
    fn gone(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        let fresh = |held: &Cell<'_>| lost(&Cell { index: self.last - 1, ..*held }, t).is_none();
        let ends =
            |held: Cell<'_>| [self.last, self.last + 1].into_iter().find_map(|i| lost(&Cell { index: i, ..held }, t));
        let found = self.held().filter(fresh).find_map(ends);
        found.map(|lost| vec![Fact::of(Signal::GpuLost, lost, t.claim_floor)])
    }

    /// The driver lost the GPU right after an XID that takes it down: an owner on it when it comes back has started
    /// again.
    fn fell_off(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        let far = self.node.around(self.last, t.idle_window_seconds).start.max(1);
        let fact = (far..=self.last + 1).find_map(|i| takes_gpu_down(&self.cell(i - 1), &self.cell(i)))?;
        lost(&self.cell(self.last + 1), t).map(|_| vec![fact])
    }

    /// The node started after the owner had held the GPU, and before the GPU was seen again. When it started may be told
    /// later than that, by another exporter.
    fn restarted(&self, t: &Thresholds) -> Option<Vec<Fact>> {
        let cells = &self.node.cells;
        // What was sampled last holds for a scrape interval, half a cell at the most.
        let held = cells[self.last - 1].start as f64 / 1000.0;
        let seen = cells[self.after?].end as f64 / 1000.0;
        let told = self.last + 1..self.node.around(self.after?, t.idle_window_seconds).end;
        let boots = told.filter_map(|i| self.cell(i).read(Signal::NodeBootTime));
        let booted = boots.map(|boot| boot.max).find(|booted| held < *booted && *booted <= seen)?;
        Some(vec![Fact::of(Signal::NodeBootTime, booted, held)])
    }

    /// Is nothing known of the node for at least the idle window after it?
    fn falls_silent(&self, t: &Thresholds) -> bool {
        let until = self.until_ms() + ms(t.idle_window_seconds);
        let cells = self.node.cells.iter().enumerate().skip(self.last + 1);
        let mut silent = cells.take_while(|(_, cell)| cell.start < until);
        silent.all(|(index, _)| self.node.gpus.iter().all(|gpu| gpu.known_ms[index] == 0))
    }

    /// Since when nothing was saved, whether that was a save, and whether it is only as far as writing is known.
    fn unsaved(&self, t: &Thresholds) -> (TimeMs, bool, bool) {
        let cells = &self.node.cells;
        let reach = self.until_ms() - ms(t.lost_work_reach_seconds);
        for index in (self.first..=self.last).rev().take_while(|i| cells[*i].start >= reach) {
            match saves(&self.cell(index), t) {
                Some(false) => {}
                saved => return (cells[index].end, saved.is_some(), saved.is_none()),
            }
        }
        (cells[self.first].start.max(reach), false, false)
    }
}

/// The share of the cell that the driver had lost the GPU, where that is more than noise.
fn lost(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    cell.mean(Signal::GpuLost).filter(|lost| *lost >= t.claim_floor)
}

/// Did an XID come between the cells after which the program has to be started again?
fn ends_program(before: &Cell<'_>, now: &Cell<'_>) -> Option<Fact> {
    let counted = more(Signal::GpuXidRestartApp, before, now);
    counted.or_else(|| changed(before, now, |action| matches!(action, Action::RestartApp)))
}

/// Did an XID come that requires a reset of the GPU, or a restart of more than the GPU?
fn takes_gpu_down(before: &Cell<'_>, now: &Cell<'_>) -> Option<Fact> {
    let down = |action| matches!(action, Action::ResetGpu | Action::RestartNode | Action::RestartVm);
    more(Signal::GpuXidReset, before, now).or_else(|| changed(before, now, down))
}

/// A count of errors that has grown. Its series begins with the first error, so a missing earlier count is zero if the
/// exporter reported the GPU then.
fn more(signal: Signal, before: &Cell<'_>, now: &Cell<'_>) -> Option<Fact> {
    let told = before.read(signal).map(|count| count.max);
    let then = told.or_else(|| before.read(Signal::GpuObserved).map(|_| 0.0))?;
    let count = now.read(signal).map(|count| count.max).filter(|count| *count > then)?;
    Some(Fact::of(signal, count, then))
}

/// A last code that is another one than before: the gauge tells nothing of one that comes twice.
fn changed(before: &Cell<'_>, now: &Cell<'_>, is: impl Fn(Action) -> bool) -> Option<Fact> {
    let [then, code] = [before, now].map(|cell| cell.read(Signal::GpuXid).map(|code| code.max));
    let code = then.zip(code).filter(|(then, code)| then != code)?.1;
    xid_codes::find(code as u64).filter(|known| is(known.action)).map(|_| Fact::of(Signal::GpuXid, code, 0.0))
}

/// Could the cell's writing be a save? `None` where no signal shows what is written.
fn saves(cell: &Cell<'_>, t: &Thresholds) -> Option<bool> {
    let of_disks = [Signal::JobWritten, Signal::NodeDiskWritten].into_iter().find_map(|s| writing::told(cell, s));
    let told = of_disks.into_iter().chain(writing::told(cell, Signal::MountWritten));
    Some(told.map(|written| written.reading.max).reduce(f64::max)? >= t.checkpoint_bytes)
}

/// The crashes among the ends of one run's holds.
fn of_run(run: &Run, endings: &[Ending<'_>], t: &Thresholds) -> Vec<Crash> {
    let mut proven: Vec<(TimeMs, Vec<Fact>)> =
        endings.iter().filter_map(|end| Some((end.until_ms(), end.proof(t)?))).collect();
    proven.extend(endings.iter().filter_map(|end| Some((end.until_ms(), deserted(end, endings, t)?))));
    let together = |end: &Ending<'_>, time: TimeMs| (end.until_ms() - time).abs() <= ms(t.idle_window_seconds);
    let crash = |end: &Ending<'_>| {
        let near = proven.iter().filter(|(time, _)| together(end, *time));
        let (_, facts) = near.min_by_key(|(time, _)| (end.until_ms() - time).abs())?;
        if end.is_told() || end.proof(t).is_none() && end.goes_on(t) {
            return None;
        }
        let (own_ms, _, is_blind) = end.unsaved(t);
        // One rank may save for all.
        let others = endings.iter().filter(|other| together(other, end.until_ms())).map(|other| other.unsaved(t));
        let saved = others.filter(|(_, is_save, _)| *is_save).map(|(time, ..)| time).max();
        let from_ms = saved.map_or(own_ms, |saved| saved.max(own_ms)).min(end.until_ms());
        let begins = end.node.cells.first().is_some_and(|first| from_ms <= first.start);
        let reach = end.until_ms() - ms(t.lost_work_reach_seconds);
        Some(Crash {
            run: run.clone(),
            gpu: end.gpu.uuid.clone(),
            from_ms,
            rests_ms: if begins { reach } else { from_ms },
            is_blind,
            until_ms: end.until_ms(),
            facts: facts.clone(),
        })
    };
    endings.iter().filter_map(crash).collect()
}

/// A node that fell silent while all others of its run were seen to let go was lost.
fn deserted(end: &Ending<'_>, endings: &[Ending<'_>], t: &Thresholds) -> Option<Vec<Fact>> {
    if end.is_seen() || end.goes_on(t) || end.is_told() || !end.falls_silent(t) {
        return None;
    }
    let others = endings.iter().filter(|other| other.node.node != end.node.node);
    let (gone, left): (Vec<&Ending<'_>>, Vec<&Ending<'_>>) =
        others.filter(|other| held_at(other, end)).partition(|other| other.is_seen() && follows(other, end, t));
    let nodes: BTreeSet<&str> = gone.iter().map(|other| other.node.node.as_str()).collect();
    let fact = Fact {
        signal: "other nodes of the owner that let go as this one fell silent",
        unit: "nodes",
        value: nodes.len() as f64,
        threshold: 1.0,
    };
    (left.is_empty() && !nodes.is_empty()).then(|| vec![fact])
}

/// Did the other hold go on until the end of this one, or nearly?
fn held_at(other: &Ending<'_>, end: &Ending<'_>) -> bool {
    let cell = &end.node.cells[end.last];
    let length = cell.end - cell.start;
    other.node.cells[other.first].start < cell.end && other.until_ms() >= cell.end - 2 * length
}

fn follows(other: &Ending<'_>, end: &Ending<'_>, t: &Thresholds) -> bool {
    other.until_ms() - end.until_ms() <= ms(t.idle_window_seconds)
}
