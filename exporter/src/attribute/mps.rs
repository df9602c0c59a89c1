//! The limits that MPS clients were started with, from their environment, where that may be read. What the control daemon
//! sets by itself is in no file.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use super::accounts::Unread;
use crate::source::environ::{Answer, Environs, MpsLimits};
use crate::source::files::Roots;
use crate::source::nvml::Snapshot;

/// How long a resolution waits for the environments of clients that it meets for the first time, as for accounts.
const PATIENCE: Duration = Duration::from_millis(500);

/// Clients asked for at once: MPS allows 48 per GPU.
const MOST_AT_ONCE: usize = 64;

/// The limits of each client by its pid.
pub type Limits = BTreeMap<u32, MpsLimits>;

/// Asks each client once: an environment is that of its process's start.
pub(super) struct Clients {
    environs: Environs<MpsLimits>,
    known: BTreeMap<u32, Result<MpsLimits, Unread>>,
    open: VecDeque<u32>,
}

impl Clients {
    /// Starts the thread that reads.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { environs: Environs::start(MpsLimits::of)?, known: BTreeMap::new(), open: VecDeque::new() })
    }

    /// The limits of the clients on these GPUs, and why one could not be read.
    pub(super) fn resolve(&mut self, roots: &Roots, gpus: &Snapshot) -> (Limits, Option<Unread>) {
        let processes = gpus.gpus.iter().flat_map(|gpu| gpu.processes.iter().flatten());
        let clients: Vec<u32> = processes.filter(|process| process.mps).map(|process| process.pid).collect();
        self.known.retain(|pid, _| clients.contains(pid));
        self.listen(&clients, Duration::ZERO);
        // While an environment is being waited for, no other is asked for: questions must not pile up.
        if self.open.is_empty() {
            self.ask(roots, &clients);
            self.listen(&clients, PATIENCE);
        }
        let limits = self.known.iter().filter_map(|(pid, told)| Some((*pid, told.as_ref().ok()?.clone()))).collect();
        (limits, self.known.values().find_map(|told| told.as_ref().err().cloned()))
    }

    fn ask(&mut self, roots: &Roots, clients: &[u32]) {
        for pid in clients.iter().filter(|pid| !self.known.contains_key(pid)).take(MOST_AT_ONCE) {
            if !self.open.contains(pid) {
                self.environs.ask(roots.proc.join(pid.to_string()).join("environ"));
                self.open.push_back(*pid);
            }
        }
    }

    fn listen(&mut self, clients: &[u32], limit: Duration) {
        let deadline = Instant::now() + limit;
        while let Some(pid) = self.open.front().copied() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let Some(answer) = self.environs.answer(rest) else { return };
            self.open.pop_front();
            if let Some(told) = told(answer).filter(|_| clients.contains(&pid)) {
                self.known.insert(pid, told);
            }
        }
    }
}

/// Nothing of a process that has ended or is being started, which is asked again.
fn told(answer: Answer<MpsLimits>) -> Option<Result<MpsLimits, Unread>> {
    match answer {
        Ok(limits) => Some(Ok(limits)),
        Err(error) => Unread::of(error).map(Err),
    }
}
