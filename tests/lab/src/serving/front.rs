//! The front end: a queue of work on the CPU, first come first served, and the processes that do it.

use std::collections::VecDeque;

use super::Server;
use super::request::{Answers, Request};

/// Work that is over but for less than this is over: sums of seconds are not exact.
const ROUNDING: f64 = 1e-9;

/// Something to be done on a CPU.
#[derive(Debug)]
pub(super) enum Job {
    /// A request to be checked and its prompt to be cut into tokens.
    Prompt(Request),
    /// Tokens of answers to be made text and sent.
    Tokens(Answers),
}

impl Job {
    fn cost(&self, server: &Server) -> f64 {
        match self {
            Job::Prompt(request) => server.per_request + server.per_prompt_token * request.prompt as f64,
            Job::Tokens(answers) => server.per_answer_token * answers.tokens as f64,
        }
    }
}

#[derive(Debug)]
pub(super) struct Front {
    queue: VecDeque<Job>,
    /// What each process does, and for how many seconds more.
    processes: Vec<Option<(Job, f64)>>,
    /// CPU time of each process.
    pub(super) cpu: Vec<f64>,
}

impl Front {
    pub(super) fn new(processes: usize) -> Self {
        let processes = processes.max(1);
        Front { queue: VecDeque::new(), processes: (0..processes).map(|_| None).collect(), cpu: vec![0.0; processes] }
    }

    pub(super) fn add(&mut self, job: Job, server: &Server) {
        self.queue.push_back(job);
        self.take(server);
    }

    /// Processes without work take what came first.
    fn take(&mut self, server: &Server) {
        for process in self.processes.iter_mut().filter(|process| process.is_none()) {
            let Some(job) = self.queue.pop_front() else { return };
            let cost = job.cost(server);
            *process = Some((job, cost));
        }
    }

    /// Processes with work.
    pub(super) fn runnable(&self) -> usize {
        self.processes.iter().flatten().count()
    }

    /// Time until one of the processes that have a CPU is done.
    pub(super) fn left(&self, cpus: usize) -> f64 {
        self.processes.iter().flatten().take(cpus).map(|(_, left)| *left).fold(f64::INFINITY, f64::min)
    }

    /// As many processes as there are CPUs work for so long. Returns their CPU time.
    pub(super) fn run(&mut self, cpus: usize, seconds: f64) -> f64 {
        let at_work = self.processes.iter_mut().zip(&mut self.cpu).filter_map(|(p, cpu)| Some((p.as_mut()?, cpu)));
        let mut used = 0.0;
        for ((_, left), cpu) in at_work.take(cpus) {
            *left -= seconds;
            *cpu += seconds;
            used += seconds;
        }
        used
    }

    /// The next piece of work that is done.
    pub(super) fn done(&mut self, server: &Server) -> Option<Job> {
        let is_done = |process: &&mut Option<(Job, f64)>| process.as_ref().is_some_and(|(_, left)| *left <= ROUNDING);
        let (job, _) = self.processes.iter_mut().find(is_done)?.take()?;
        self.take(server);
        Some(job)
    }
}
