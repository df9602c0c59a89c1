//! What the kubelet has allocated to pods: its pod-resources API (gRPC over a unix socket).
//!
//! A thread of its own asks, so that a kubelet that hangs costs the names of pods and nothing else; everyone else reads
//! the last answer. Each call has a connection of its own: a restart of the kubelet needs no care.

mod client;
pub mod proto;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::{Condvar, Mutex};

use client::Failure;
use proto::Pod;

/// Where the kubelet's socket is on every distribution of Kubernetes, below the host's root.
pub const SOCKET: &str = "var/lib/kubelet/pod-resources/kubelet.sock";

/// Pause between two calls: less than one usual scrape interval (15 s), so that a scrape shows what the one before could
/// not.
const EVERY: Duration = Duration::from_secs(10);

/// Shortest pause between two calls: when the processes on GPUs change, and after the first failure. The pause after
/// further failures doubles up to [`EVERY`].
const AT_LEAST: Duration = Duration::from_secs(1);

/// How long an answer is used when no other comes: a restart of the kubelet takes less, and a pod that ends meanwhile is
/// not named for much longer.
const USABLE: Duration = Duration::from_secs(60);

/// Stack of the thread: messages are on the heap.
const STACK_BYTES: usize = 512 * 1024;

goodput_catalog::named! {
    /// How asking goes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum State {
        /// Not asked yet.
        #[default]
        Starting = "starting",
        /// The last call was answered.
        Ok = "ok",
        /// There is no socket: no kubelet, or its folder is not mounted.
        Absent = "absent",
        /// This process may not open the socket.
        Denied = "denied",
        /// No answer in time.
        TimedOut = "timed_out",
        /// The answer is longer than what is read.
        TooLarge = "too_large",
        /// Refused, broken off, or answered with an error.
        Failed = "failed",
    }
}

impl From<&Failure> for State {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Absent => Self::Absent,
            Failure::Denied => Self::Denied,
            Failure::TimedOut => Self::TimedOut,
            Failure::TooLarge => Self::TooLarge,
            Failure::Other(_) => Self::Failed,
        }
    }
}

/// What is known of allocations.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// How the last call went.
    pub state: State,
    /// When the last good answer came.
    pub taken: Option<Instant>,
    pods: Arc<Vec<Pod>>,
}

impl Answer {
    /// The pods of the last good answer; `None` when there is none, or it is too old to be true.
    #[must_use]
    pub fn pods(&self) -> Option<&[Pod]> {
        self.taken.filter(|taken| taken.elapsed() <= USABLE).map(|_| self.pods.as_slice())
    }
}

/// A running reader of the API. The thread ends when this is dropped, after the call it is making.
pub struct PodResources {
    shared: Arc<Shared>,
    changed: SyncSender<()>,
}

#[derive(Default)]
struct Shared {
    answer: Mutex<Answer>,
    asked: Condvar,
}

impl PodResources {
    /// Starts the thread. A socket that is not there is looked for again and again.
    ///
    /// # Errors
    /// When the kernel gives no more threads.
    pub fn start(socket: PathBuf) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (changed, poked) = sync_channel(1);
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("pod-resources".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || run(&socket, &theirs, &poked))?;
        Ok(Self { shared, changed })
    }

    /// The last answer; waits for the first, but no longer than `limit`.
    #[must_use]
    pub fn answer(&self, limit: Duration) -> Answer {
        let mut answer = self.shared.answer.lock();
        self.shared.asked.wait_while_for(&mut answer, |answer| answer.state == State::Starting, limit);
        answer.clone()
    }

    /// Asks, and waits for what comes of it, but no longer than `limit`, and only where the last call was answered.
    #[must_use]
    pub fn newer_answer(&self, limit: Duration) -> Answer {
        let mut answer = self.shared.answer.lock();
        if answer.state == State::Ok {
            let before = answer.taken;
            self.poke();
            let same = |answer: &mut Answer| answer.state == State::Ok && answer.taken == before;
            self.shared.asked.wait_while_for(&mut answer, same, limit);
        }
        answer.clone()
    }

    /// Asks soon, because something has changed.
    pub fn poke(&self) {
        // A full channel means that it was poked already.
        let _ = self.changed.try_send(());
    }
}

fn run(socket: &std::path::Path, shared: &Shared, poked: &Receiver<()>) {
    let mut last: Option<Result<(), Failure>> = None;
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        let result = client::list(socket);
        failures = if result.is_ok() { 0 } else { failures + 1 };
        let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        if last.as_ref() != Some(&outcome) {
            log(socket, &outcome);
            last = Some(outcome);
        }
        store(shared, result);
        let pause = match failures {
            0 => EVERY,
            n => EVERY.min(AT_LEAST * 2_u32.saturating_pow(n - 1)),
        };
        match poked.recv_timeout(pause) {
            Ok(()) => thread::sleep(AT_LEAST.saturating_sub(begun.elapsed())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn store(shared: &Shared, result: Result<Vec<Pod>, Failure>) {
    let mut answer = shared.answer.lock();
    match result {
        Ok(pods) => *answer = Answer { state: State::Ok, taken: Some(Instant::now()), pods: Arc::new(pods) },
        Err(failure) => answer.state = State::from(&failure),
    }
    shared.asked.notify_all();
}

/// Called when the outcome changes. Most machines have no kubelet.
fn log(socket: &std::path::Path, outcome: &Result<(), Failure>) {
    let socket = socket.display();
    match outcome {
        Ok(()) => tracing::info!("the kubelet's pod-resources API answers at {socket}"),
        Err(Failure::Absent) => tracing::debug!("no pods are named: {socket} is not there"),
        Err(failure) => tracing::warn!("no pods are named: the kubelet's pod-resources API at {socket}: {failure}"),
    }
}
