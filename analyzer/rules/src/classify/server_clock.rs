//! The clock of an inference server: for which share of the time at least one request was in its engine. Next to it is
//! the GPU's clock, the share of time with kernels; what lies between says why the GPU rested.

use super::thresholds::confidence::{COUNTED, INFERRED};
use super::work::work;
use super::{Cell, Fact, Thresholds, Verdict};
use crate::signal::Signal;

/// How the time without kernels of a cell splits, in shares of the cell.
#[derive(Debug)]
pub(super) struct Split {
    /// No request was open.
    pub(super) without_requests: f64,
    /// Requests were open, and the server's CPU side had them.
    pub(super) on_the_host: f64,
    pub(super) confidence: f64,
    /// What the server's clock says.
    pub(super) active: Fact,
    /// That the CPU side held requests outside the engine, where it did.
    pub(super) front: Option<Fact>,
}

/// The share of time with a request in the engine: no less than `least`, no more than `most`.
#[derive(Clone, Copy)]
struct Active {
    least: f64,
    most: f64,
    /// Does the engine itself count it?
    is_counted: bool,
    formula: &'static str,
}

/// A coincidence of this probability is taken for none (the usual level of significance).
const SIGNIFICANT: f64 = 0.05;

/// Is it a server's time? A server reports how many requests it has, and its GPU works no longer than it has some: a job that
/// trains between two calls of its server is none.
pub(super) fn is_server(cell: &Cell<'_>, t: &Thresholds) -> bool {
    reports_requests(cell) && !has_other_work(cell, t)
}

/// Does the owner report requests?
pub(super) fn reports_requests(cell: &Cell<'_>) -> bool {
    let reported = [Signal::JobRequestsOpen, Signal::JobRequestsWaiting, Signal::JobRequests];
    reported.iter().any(|signal| cell.read(*signal).is_some())
}

/// What a rule says of a cell without a split: of a server that it has no clock.
pub(super) fn untold(cell: &Cell<'_>) -> Verdict {
    let clock = [Signal::ServerIdle, Signal::ServerSteps, Signal::ServerRequestTime];
    if reports_requests(cell) { Verdict::without(&clock) } else { Verdict::No }
}

/// Does the GPU work for longer than its server has requests, in the mean of minutes?
fn has_other_work(cell: &Cell<'_>, t: &Thresholds) -> bool {
    let far = Near::of(cell, t.server_far_seconds);
    let active = far.active(t).or_else(|| far.active_on_average(t));
    let working = far.mean(|cell| kernels(cell, t));
    active.zip(working).is_some_and(|(active, working)| working > active.most + t.server_host_ratio)
}

/// What the two clocks say of the cell; `None` where the server has no clock, or something contradicts it: other work on the
/// GPU, the server's own count of requests, GPUs of one server that work for other shares of the time. Both are read over the
/// cells around as well: scrapes of server and GPU do not fall together.
pub(super) fn split(cell: &Cell<'_>, t: &Thresholds) -> Option<Split> {
    if !reports_requests(cell) || cell.gpu.owners[cell.index].len() > 1 {
        return None;
    }
    let (near, far) = (Near::of(cell, t.server_near_seconds), Near::of(cell, t.server_far_seconds));
    let active = near.active(t).or_else(|| far.active_on_average(t))?;
    let (ratio, working) = (kernels(cell, t)?, near.mean(|cell| kernels(cell, t))?);
    let gpus = working_gpus(cell, t);
    let is_unlike = gpus.iter().any(|other| (other - working).abs() > t.server_host_ratio);
    if is_unlike || working > active.most + t.server_host_ratio || near.has_requests_beyond(active.most) {
        return None;
    }
    let most = active.most.max(working);
    let front = near.front().map(|value| Fact { value, threshold: t.server_front_requests, ..FRONT });
    let late = front.filter(|front| front.value >= front.threshold);
    let in_front = late.map_or(0.0, |front| (1.0 - most) * at_least_one(front.value));
    // Stages of a pipeline take turns: their engine works for as long as all of them together.
    let take_turns = gpus.len() > 1 && gpus.iter().sum::<f64>() <= active.least;
    let is_late = active.is_counted && near.schedules_alone(t) && !take_turns;
    let between = Some(active.least - working).filter(|gap| is_late && *gap >= t.server_host_ratio);
    let in_doubt = far.front_by_counts().map_or(0.0, |front| (1.0 - most) * at_least_one(front));
    // What each takes of the time without kernels around, it takes of the cell's.
    let of_cell = |share: f64| if working < 1.0 { (1.0 - ratio) * (share / (1.0 - working)).min(1.0) } else { 0.0 };
    Some(Split {
        without_requests: of_cell((1.0 - most - in_front - in_doubt).max(0.0)),
        on_the_host: of_cell(between.unwrap_or_default() + in_front),
        confidence: if active.is_counted { COUNTED } else { INFERRED },
        active: Fact { signal: active.formula, unit: "ratio", value: most, threshold: working },
        front: late,
    })
}

/// The share of time in which a queue has one request at least, by their mean (Jackson 1957): whether another queue has one then
/// or not.
fn at_least_one(mean: f64) -> f64 {
    mean / (1.0 + mean)
}

/// The shares of time with kernels of the owner's GPUs on the node.
fn working_gpus(cell: &Cell<'_>, t: &Thresholds) -> Vec<f64> {
    let gpus = cell.node.gpus.iter().map(|gpu| Cell { gpu, ..*cell }).filter(Cell::is_held_by_owner);
    gpus.filter_map(|cell| Near::of(&cell, t.server_near_seconds).mean(|cell| kernels(cell, t))).collect()
}

/// The probability of at least `k` of `n`, each of probability `p`.
fn binomial_tail(n: u32, k: u32, p: f64) -> f64 {
    let term = |i: u32| {
        let ways: f64 = (0..i).map(|j| f64::from(n - j) / f64::from(j + 1)).product();
        ways * p.powf(f64::from(i)) * (1.0 - p).powf(f64::from(n - i))
    };
    1.0 - (0..k).map(term).sum::<f64>()
}

/// Requests that the server's CPU side holds outside the engine, in the mean (Little's law).
const FRONT: Fact = Fact {
    signal: "server_request_time - server_queue_time - server_inference_time",
    unit: "requests",
    value: 0.0,
    threshold: 0.0,
};

/// The share of the cell with kernels, whether they work or spin.
fn kernels(cell: &Cell<'_>, t: &Thresholds) -> Option<f64> {
    work(cell, t).map(|work| (work.ratio + work.spun).min(1.0))
}

/// The cells around one in which the same owner had the GPU.
pub(super) struct Near<'a>(Vec<Cell<'a>>);

impl<'a> Near<'a> {
    /// Those that are no further than this, and the next one to either side however long cells are.
    pub(super) fn of(cell: &Cell<'a>, seconds: f64) -> Self {
        let span = &cell.node.cells[cell.index];
        let seconds = seconds.max((span.end - span.start) as f64 / 1000.0);
        let cells = cell.node.around(cell.index, seconds).map(|index| Cell { index, ..*cell });
        Self(cells.filter(|near| near.is_held_by_owner()).collect())
    }

    /// The mean over the cells that have it.
    pub(super) fn mean(&self, of: impl Fn(&Cell<'a>) -> Option<f64>) -> Option<f64> {
        let told: Vec<f64> = self.0.iter().filter_map(of).collect();
        (!told.is_empty()).then(|| told.iter().sum::<f64>() / told.len() as f64)
    }

    pub(super) fn read(&self, signal: Signal) -> Option<f64> {
        self.mean(|cell| cell.mean(signal))
    }

    fn active(&self, t: &Thresholds) -> Option<Active> {
        self.by_idleness().or_else(|| self.by_steps(t))
    }

    /// The same where few tokens came: over a longer time, and at least a bound.
    fn active_on_average(&self, t: &Thresholds) -> Option<Active> {
        self.by_steps(t).or_else(|| self.by_prefill()).or_else(|| self.by_requests(t))
    }

    /// A server that computes prompts for another one gives no token after the first.
    fn by_prefill(&self) -> Option<Active> {
        self.read(Signal::ServerTokens).filter(|tokens| *tokens == 0.0)?;
        let prefill = self.read(Signal::ServerPrefillTime)?;
        let formula = Signal::ServerPrefillTime.name();
        Some(Active { least: 0.0, most: prefill.min(1.0), is_counted: false, formula })
    }

    /// At any time with a request in the engine at least one is open: the mean of those that are (Little's law) bounds it. They
    /// are counted at their end, so that it holds over minutes alone.
    fn by_requests(&self, t: &Thresholds) -> Option<Active> {
        let open = self.read(Signal::ServerRequestTime).filter(|_| self.seconds() >= 2.0 * t.server_far_seconds)?;
        self.read(Signal::JobRequestsOpen)?;
        let formula = Signal::ServerRequestTime.name();
        Some(Active { least: 0.0, most: open.min(1.0), is_counted: false, formula })
    }

    /// Were requests open at more scrapes than chance allows, if the engine had some for this share of the time alone? A server that hangs does no step, and one that waits for the memory of another has none to do.
    fn has_requests_beyond(&self, share: f64) -> bool {
        let least = |cell: &Cell<'_>, signal| cell.read(signal).map_or(0.0, |requests| requests.min);
        let (mut scrapes, mut open) = (0, 0);
        for cell in &self.0 {
            let samples = cell.read(Signal::JobRequestsOpen).map_or(0, |requests| requests.samples);
            let is_open = least(cell, Signal::JobRequestsOpen).max(least(cell, Signal::JobRequestsWaiting)) >= 1.0;
            scrapes += samples;
            open += if is_open { samples } else { 0 };
        }
        open > 0 && binomial_tail(scrapes, open, share) < SIGNIFICANT
    }

    /// The scheduler itself counts the time without a request.
    fn by_idleness(&self) -> Option<Active> {
        let active = 1.0 - self.read(Signal::ServerIdle)?.min(1.0);
        let formula = Signal::ServerIdle.name();
        Some(Active { least: active, most: active, is_counted: true, formula })
    }

    /// Steps, each as long as from one token of a request to its next. Steps that give no token, of prefill alone, are not
    /// counted; the time of prefill bounds them, cell by cell: many requests of a burst are in it at once.
    fn by_steps(&self, t: &Thresholds) -> Option<Active> {
        let tokens = self.read(Signal::ServerTokens)?;
        let is_enough = tokens * self.seconds() >= t.server_tokens;
        if !is_enough && self.read(Signal::ServerSteps)? > 0.0 {
            return None;
        }
        let step = if is_enough { self.read(Signal::ServerTokenTime)? / tokens } else { 0.0 };
        let least = |cell: &Cell<'_>| Some((cell.mean(Signal::ServerSteps)? * step).min(1.0));
        let most = |cell: &Cell<'_>| Some((least(cell)? + cell.mean(Signal::ServerPrefillTime)?).min(1.0));
        let formula = "server_steps * server_token_time / server_tokens + server_prefill_time";
        Some(Active { least: self.mean(least)?, most: self.mean(most)?, is_counted: false, formula })
    }

    fn seconds(&self) -> f64 {
        let spans = self.0.iter().map(|cell| &cell.node.cells[cell.index]);
        spans.map(|span| span.end - span.start).sum::<i64>() as f64 / 1000.0
    }

    /// Requests between their arrival and the engine's queue, and between their last token and their end, in the mean.
    fn front(&self) -> Option<f64> {
        let [all, queue, engine] = [Signal::ServerRequestTime, Signal::ServerQueueTime, Signal::ServerInferenceTime]
            .map(|signal| self.read(signal));
        Some((all? - queue? - engine?).max(0.0))
    }

    /// The same of a server that reports how many requests its engine and the queue before it have. These are counted now and
    /// then, and the others at their end, and some that the engine has are in neither count: what is most of all requests proves
    /// that it is not without any, and no more.
    fn front_by_counts(&self) -> Option<f64> {
        let all = self.read(Signal::ServerRequestTime)?;
        let in_engine = self.read(Signal::JobRequestsOpen)? + self.read(Signal::JobRequestsWaiting)?;
        let has_times = self.read(Signal::ServerInferenceTime).is_some();
        Some(all - in_engine).filter(|front| !has_times && *front >= in_engine)
    }

    /// Does the scheduler work while the GPU has no step?
    fn schedules_alone(&self, t: &Thresholds) -> bool {
        self.read(Signal::ServerScheduling).is_some_and(|share| share >= t.server_host_ratio)
    }
}
