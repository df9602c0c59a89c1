//! From a plan to a trace directory: machines run through the plan's steps, exporters are scraped, and the truth is kept
//! by the state of each GPU and the step's cause.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use goodput_exposition::sample::{Series, TimeMs};

use super::counters::{Counters, Spent};
use super::exporters::{Exporters, Fields, Names, Recorder, View};
use super::model::{Layout, Machine};
use super::phase::Phase;
use super::spoil::{Spoilt, merged};
use super::trace;

/// Ticks of the model are so long.
const TICK_MS: i64 = 10;
const MINUTE_MS: i64 = 60_000;

/// A trace to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its family.
    pub family: &'static str,
    /// Its name within.
    pub name: String,
    /// When it begins.
    pub start_ms: TimeMs,
    /// Machines, all alike.
    pub nodes: usize,
    /// What each is made of.
    pub layout: Layout,
    /// What is scraped.
    pub exporters: Exporters,
    /// The same of every machine but the first, where it differs.
    pub exporters_elsewhere: Option<Exporters>,
    /// Whose names.
    pub names: Names,
    /// Of dcgm-exporter, where it is.
    pub fields: Fields,
    /// The GPUs, as the driver names them.
    pub model: &'static str,
    /// Metrics that are not there, by the beginning of their name.
    pub without: Vec<&'static str>,
    /// Time between scrapes.
    pub interval_ms: i64,
    /// Time of the first scrape after the start.
    pub offset_ms: i64,
    /// Minute at which our exporters restart.
    pub restart_minute: Option<usize>,
    /// Over which time the driver's gauges are means.
    pub gauges: Gauges,
    /// Does dcgm-exporter name pods?
    pub names_pods: bool,
    /// The machines are parts of one node, each with a job and GPUs of its own.
    pub shares_node: bool,
    /// What exporters tell that is not so.
    pub spoilt: Vec<Spoilt>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// Over which time utilisation and power are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gauges {
    /// The last second before the scrape.
    #[default]
    Second,
    /// A tenth of a second: whatever the GPU did at that moment.
    Point,
    /// The time since the scrape before.
    Mean,
}

impl Plan {
    /// The node's name, and the GPU's index on it.
    fn place(&self, node: usize, gpu: usize) -> (usize, usize) {
        if self.shares_node { (0, node * (self.layout.gpus + self.layout.spare) + gpu) } else { (node, gpu) }
    }

    /// Time before a scrape over which gauges are means; none where it is all the time since the scrape before.
    fn gauge_ms(&self) -> Option<i64> {
        match self.gauges {
            Gauges::Second => Some(1000),
            Gauges::Point => Some(100),
            Gauges::Mean => None,
        }
    }

    fn exporters_of(&self, node: usize) -> Exporters {
        self.exporters_elsewhere.filter(|_| node > 0).unwrap_or(self.exporters)
    }
}

/// Some minutes of a plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// On the first machine; its `minutes` are the step's.
    pub here: Phase,
    /// On the others, where that is not the same.
    pub elsewhere: Option<Phase>,
    /// What was the matter.
    pub cause: Cause,
}

/// What the step was made to show: to which class each state of a GPU is lost.
#[derive(Clone, Debug)]
pub struct Cause {
    /// A held GPU has nothing to do.
    pub starved: &'static str,
    /// The same of the GPU that others wait for, else of the last one of the first machine, where it differs.
    pub starved_odd: Option<&'static str>,
    /// The same of the GPUs of other machines, where it differs.
    pub starved_elsewhere: Option<&'static str>,
    /// Ranks wait for each other.
    pub waiting: &'static str,
    /// Machine and GPU that they wait for.
    pub culprit: Option<(usize, usize)>,
    /// Work takes longer at a lower clock.
    pub slowed: &'static str,
    /// Requests are open, and the CPU side of their server has them.
    pub held_up: &'static str,
    /// Slices of a GPU that is cut up which no instance has.
    pub rest: &'static str,
    /// Classes that are as good an answer with what the exporters tell.
    pub also: Vec<&'static str>,
    /// The step ends as this of the first machine runs out: its device memory (`gpu`), which is a crash, or its `disk`.
    pub runs_out: Option<&'static str>,
    /// It ends in a crash of another kind.
    pub ends_in_crash: bool,
}

impl Default for Cause {
    fn default() -> Self {
        Cause {
            starved: "productive",
            starved_odd: None,
            starved_elsewhere: None,
            waiting: "collective_wait",
            culprit: None,
            slowed: "thermal_throttle",
            held_up: "serving_host",
            rest: "unallocated",
            also: Vec::new(),
            runs_out: None,
            ends_in_crash: false,
        }
    }
}

/// A line of the truth, by machine and GPU.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// Machine and GPU.
    entity: (usize, usize),
    start_ms: TimeMs,
    end_ms: TimeMs,
    class: &'static str,
    charged_to: Option<String>,
    also: Vec<&'static str>,
}

fn node_name(node: usize) -> String {
    format!("n{}", node + 1)
}

fn entity((node, gpu): (usize, usize)) -> String {
    format!("{}/gpu{gpu}", node_name(node))
}

/// A plan being carried out.
struct Lab<'p> {
    plan: &'p Plan,
    machines: Vec<Machine>,
    recorders: Vec<Recorder>,
    /// Counters a second before the next scrape, and that time in seconds.
    lately: Vec<(Counters, f64)>,
    elapsed_ms: i64,
    /// When the minute that the truth is being kept of began, and what each GPU had spent by then.
    since_ms: i64,
    before: Vec<Vec<Spent>>,
    rows: Vec<Row>,
}

/// Makes the trace in a folder below this one, by family and name.
///
/// # Errors
/// When it cannot be written.
pub fn record(plan: &Plan, root: &Path) -> Result<()> {
    let mut lab = Lab::new(plan);
    for step in &plan.steps {
        lab.run(step);
    }
    let dir = root.join(plan.family).join(&plan.name);
    let series: Vec<Series> = lab.recorders.into_iter().flat_map(Recorder::into_series).collect();
    let mut series = if plan.shares_node { merged(series) } else { series };
    plan.spoilt.iter().for_each(|spoilt| spoilt.spoil(&mut series, plan.start_ms));
    trace::write(&dir, series, &in_order(plan, lab.rows), &about(plan))
}

impl<'p> Lab<'p> {
    fn new(plan: &'p Plan) -> Lab<'p> {
        let seed = |node: usize| plan.layout.seed.wrapping_mul(1009).wrapping_add(node as u64);
        let machine = |node| Machine::of(Layout { seed: seed(node), node: node as u64, ..plan.layout });
        let recorder = |node: usize| {
            let (place, first_gpu) = plan.place(node, 0);
            let recorder = Recorder::new(&node_name(place), plan.exporters_of(node));
            let recorder = recorder.speaking(plan.names, &plan.without).telling(plan.model, plan.fields);
            let recorder = recorder.naming_pods(plan.names_pods);
            if plan.shares_node { recorder.being_part(first_gpu, node) } else { recorder }
        };
        let gpus = plan.layout.gpus + plan.layout.spare;
        Lab {
            plan,
            machines: (0..plan.nodes).map(machine).collect(),
            recorders: (0..plan.nodes).map(recorder).collect(),
            lately: vec![(Counters::default(), 0.0); plan.nodes],
            elapsed_ms: 0,
            since_ms: 0,
            before: vec![vec![Spent::default(); gpus]; plan.nodes],
            rows: Vec::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        let phase = |node: usize| step.elsewhere.as_ref().filter(|_| node > 0).unwrap_or(&step.here);
        for (node, machine) in self.machines.iter_mut().enumerate() {
            machine.enter(phase(node));
            if phase(node).boots {
                self.recorders[node].restart(machine);
            }
        }
        let start_ms = self.elapsed_ms;
        let end_ms = start_ms + step.here.minutes as i64 * MINUTE_MS;
        while self.elapsed_ms < end_ms {
            if self.plan.restart_minute.is_some_and(|m| m as i64 * MINUTE_MS == self.elapsed_ms) {
                self.recorders.iter_mut().zip(&self.machines).for_each(|(r, m)| r.restart(m));
            }
            for node in 0..self.plan.nodes {
                self.scrape(node, phase(node));
                self.machines[node].tick(phase(node));
            }
            if step.here.sync && !step.here.hangs && self.machines.iter().all(Machine::is_done) {
                self.machines.iter_mut().enumerate().for_each(|(node, machine)| machine.go_on(phase(node)));
            }
            self.elapsed_ms += TICK_MS;
            if self.now_ms() % MINUTE_MS == 0 {
                self.keep(step);
            }
        }
        self.keep(step);
        for node in (0..self.plan.nodes).filter(|node| phase(*node).is_damaged()) {
            self.damage((node, phase(node).odd.unwrap_or(self.plan.layout.gpus - 1)), self.plan.start_ms + start_ms);
        }
        if step.cause.runs_out == Some("gpu") || step.cause.ends_in_crash {
            self.crash();
        }
        if let Some(what) = step.cause.runs_out {
            let (now, class, charged_to) = (self.now_ms(), "oom", Some(what.to_owned()));
            self.rows.push(Row { entity: (0, 0), start_ms: now, end_ms: now, class, charged_to, also: Vec::new() });
        }
    }

    /// A GPU has been damaged from then until now.
    fn damage(&mut self, entity: (usize, usize), start_ms: TimeMs) {
        let (end_ms, class) = (self.now_ms(), "damage");
        match self.rows.iter_mut().find(|row| (row.class, row.entity, row.end_ms) == (class, entity, start_ms)) {
            Some(row) => row.end_ms = end_ms,
            None => self.rows.push(Row { entity, start_ms, end_ms, class, charged_to: None, also: Vec::new() }),
        }
    }

    fn now_ms(&self) -> TimeMs {
        self.plan.start_ms + self.elapsed_ms
    }

    /// Machines are scraped one after another, each at its own moment.
    fn scrape(&mut self, node: usize, phase: &Phase) {
        let (interval, machine) = (self.plan.interval_ms, &self.machines[node]);
        let offset = self.plan.offset_ms + if self.plan.shares_node { 0 } else { node as i64 * 370 };
        let past = (self.elapsed_ms - offset).rem_euclid(interval);
        if self.plan.gauge_ms().is_some_and(|ms| past == interval - ms) {
            self.lately[node] = (machine.counters.clone(), machine.now());
        }
        if past != 0 {
            return;
        }
        let (counters, then) = &self.lately[node];
        let time_ms = self.plan.start_ms + self.elapsed_ms;
        match phase.scraped {
            true => {
                let view = View::of(machine, phase);
                let is_mean = self.plan.gauges == Gauges::Mean;
                let view = if is_mean { view } else { view.since(counters, *then) };
                self.recorders[node].scrape(time_ms, &view);
            }
            false => self.recorders[node].miss(time_ms),
        }
    }

    /// Writes down what the time since the last call was spent on.
    fn keep(&mut self, step: &Step) {
        let (start_ms, end_ms) = (self.plan.start_ms + self.since_ms, self.now_ms());
        self.since_ms = self.elapsed_ms;
        if start_ms == end_ms {
            return;
        }
        for node in 0..self.plan.nodes {
            let phase = step.elsewhere.as_ref().filter(|_| node > 0).unwrap_or(&step.here);
            let seconds = (end_ms - start_ms) as f64 / 1000.0;
            let mut of_board = Vec::new();
            for gpu in 0..self.before[node].len() {
                let spent = self.machines[node].counters.gpus[gpu].spent;
                let before = std::mem::replace(&mut self.before[node][gpu], spent);
                let is_held = phase.job && gpu < self.plan.layout.gpus;
                let parts = if is_held {
                    self.parts(&step.cause, (node, gpu), &before, &spent)
                } else {
                    let is_lost = phase.lost && phase.is_odd(gpu, self.plan.layout.gpus);
                    let class = if phase.cordoned { "maintenance" } else { "unallocated" };
                    vec![(if is_lost { "down" } else { class }, seconds)]
                };
                if phase.mig.is_empty() {
                    self.lay((node, gpu), start_ms..end_ms, &parts, step, phase);
                }
                of_board.extend(parts.into_iter().map(|(class, seconds)| (class, seconds * phase.slices(gpu))));
            }
            if !phase.mig.is_empty() {
                let taken: f64 = (0..phase.mig.len()).map(|gpu| phase.slices(gpu)).sum();
                of_board.push((step.cause.rest, seconds * (1.0 - taken).max(0.0)));
                self.lay((node, 0), start_ms..end_ms, &of_board, step, phase);
            }
        }
    }

    /// Classes of a held GPU's time, with the seconds of each.
    fn parts(&self, cause: &Cause, at: (usize, usize), before: &Spent, now: &Spent) -> Vec<(&'static str, f64)> {
        let is_odd = Some(at) == cause.culprit || cause.culprit.is_none() && at == (0, self.plan.layout.gpus - 1);
        let elsewhere = cause.starved_elsewhere.filter(|_| at.0 > 0);
        let starved = cause.starved_odd.filter(|_| is_odd).or(elsewhere).unwrap_or(cause.starved);
        vec![
            ("productive", now.work - before.work),
            (cause.slowed, now.slowed - before.slowed),
            ("launch_bound", now.launching - before.launching),
            ("host_to_device", now.copying - before.copying),
            ("pcie_degraded", now.narrow - before.narrow),
            (cause.waiting, now.waiting - before.waiting),
            (starved, now.starved - before.starved),
            ("recompute", now.again - before.again),
            ("no_demand", now.unasked - before.unasked),
            (cause.held_up, now.held_up - before.held_up),
        ]
    }

    /// Lays the classes of a stretch one after another: where within the minute each of them was is not kept.
    fn lay(
        &mut self,
        at: (usize, usize),
        span: std::ops::Range<TimeMs>,
        parts: &[(&'static str, f64)],
        step: &Step,
        phase: &Phase,
    ) {
        let total: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        let (length, mut start_ms, mut done) = ((span.end - span.start) as f64, span.start, 0.0);
        for (class, seconds) in parts {
            done += seconds;
            let end_ms = span.start + (length * done / total).round() as i64;
            if end_ms > start_ms {
                let row = self.row(at, start_ms..end_ms, class, step, phase);
                self.push(row);
            }
            start_ms = end_ms.max(start_ms);
        }
    }

    fn row(
        &self,
        at: (usize, usize),
        span: std::ops::Range<TimeMs>,
        class: &'static str,
        step: &Step,
        phase: &Phase,
    ) -> Row {
        let culprit = step.cause.culprit.filter(|_| class == step.cause.waiting);
        let charged_to = culprit.map(|(node, gpu)| entity(self.plan.place(node, gpu)));
        let mut also = if class == "productive" { Vec::new() } else { step.cause.also.clone() };
        let mut class = class;
        if !phase.scraped {
            // Our exporter's counters bridge a hole that its process lived through; gauges tell nothing of it.
            let (told, other) =
                if self.plan.exporters_of(at.0) == Exporters::Ours { (class, "no_data") } else { ("no_data", class) };
            class = told;
            also.push(other);
        }
        also.retain(|c| *c != class);
        Row { entity: at, start_ms: span.start, end_ms: span.end, class, charged_to, also }
    }

    fn push(&mut self, row: Row) {
        let last = self.rows.iter_mut().rev().find(|last| last.entity == row.entity);
        match last {
            Some(last) if last.end_ms == row.start_ms && is_same(last, &row) => last.end_ms = row.end_ms,
            _ => self.rows.push(row),
        }
    }

    /// The job dies: what each of its GPUs worked since it saved its state is lost.
    fn crash(&mut self) {
        let gpus = self.plan.layout.gpus;
        let mut kept = BTreeSet::new();
        for row in self.rows.iter_mut().rev().filter(|row| row.entity.1 < gpus) {
            if matches!(row.class, "checkpoint" | "unallocated" | "down") {
                kept.insert(row.entity);
            }
            if row.class == "productive" && !kept.contains(&row.entity) {
                row.class = "lost_work";
            }
        }
    }
}

fn is_same(a: &Row, b: &Row) -> bool {
    a.class == b.class && a.charged_to == b.charged_to && a.also == b.also
}

/// In order of machine, GPU and time.
fn in_order(plan: &Plan, mut rows: Vec<Row>) -> Vec<trace::Row> {
    rows.sort_by_key(|row| (row.entity, row.start_ms));
    let named = |row: Row| {
        let Row { entity: (node, gpu), start_ms, end_ms, class, charged_to, also } = row;
        trace::Row { entity: entity(plan.place(node, gpu)), start_ms, end_ms, class, charged_to, also }
    };
    rows.into_iter().map(named).collect()
}

fn about(plan: &Plan) -> String {
    let Plan { family, name, nodes, layout, exporters, names, fields, model, interval_ms, .. } = plan;
    let elsewhere = plan.exporters_elsewhere.map_or(String::new(), |others| format!(", on other nodes {others:?}"));
    let mut text = format!(
        "# {family}/{name}\n\nSimulated by the queue model (`tests/lab/src/model.rs`), seed {}: {nodes} nodes of {} GPUs, {} of \
         them held, {model}, {} CPUs, {} NUMA nodes.\nExporters: {exporters:?}{elsewhere}, names {names:?}, fields of dcgm-exporter {fields:?}, scraped every {} s. Metrics that \
         are missing: {}.\nThe truth is what each GPU did, minute by minute, and what the schedule was made to show; within \
         a minute it is in order of class.\n\n| minutes | schedule of the first node | lost to |\n|---|---|---|\n",
        layout.seed,
        layout.gpus + layout.spare,
        layout.gpus,
        layout.cpus,
        layout.sockets,
        *interval_ms as f64 / 1000.0,
        if plan.without.is_empty() { "none".to_owned() } else { plan.without.join(", ") },
    );
    for step in &plan.steps {
        let _ = writeln!(text, "| {} | {:?} | {:?} |", step.here.minutes, step.here, step.cause);
    }
    text
}
