//! One long-lived thread per source: it may hang or panic without taking anything else along.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Stack of a worker: collectors keep their buffers on the heap.
const STACK_BYTES: usize = 512 * 1024;

/// A thread that answers one question at a time.
///
/// A question it does not answer in time stays its only one: until it is back, asking again costs nothing and gives
/// [`Missed`]. So whatever hangs, hangs one thread.
pub(super) struct Worker<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<A>,
    busy_since: Option<Instant>,
}

/// The worker has not answered in time.
#[derive(Debug)]
pub(super) struct Missed {
    /// How long it has been at the question so far.
    pub(super) busy: Duration,
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    /// Starts the thread. `answer` must not panic: see [`guarded`].
    pub(super) fn spawn(name: &str, mut answer: impl FnMut(Q) -> A + Send + 'static) -> io::Result<Self> {
        let (questions, inbox) = channel::<Q>();
        let (outbox, answers) = channel();
        thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(move || {
            // Ends when the owner of the worker is gone.
            while let Ok(question) = inbox.recv() {
                if outbox.send(answer(question)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { questions, answers, busy_since: None })
    }

    /// Asks and waits until `deadline`. The answer to an earlier question that was given up is dropped: it is old.
    pub(super) fn ask(&mut self, question: Q, deadline: Instant) -> Result<A, Missed> {
        if let Some(since) = self.busy_since {
            if self.answers.try_recv().is_err() {
                return Err(Missed { busy: since.elapsed() });
            }
            self.busy_since = None;
        }
        let asked = Instant::now();
        let missed = |_: RecvTimeoutError| Missed { busy: asked.elapsed() };
        if deadline <= asked {
            return Err(Missed { busy: Duration::ZERO });
        }
        self.busy_since = Some(asked);
        // A worker whose thread has died never answers, which the next line reports.
        let _ = self.questions.send(question);
        let answer = self.answers.recv_timeout(deadline - asked).map_err(missed)?;
        self.busy_since = None;
        Ok(answer)
    }
}

thread_local! {
    /// What the panic hook saw on this thread, while a [`guarded`] call runs on it.
    static GUARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic becomes its message and place.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    GUARD.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(work));
    let place = GUARD.take().unwrap_or_default();
    result.map_err(|payload| format!("panicked: {}{place}", message(payload.as_ref())))
}

/// Leaves panics inside a worker to its report, which is logged once and not at every scrape, and logs all others.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        let guarded = GUARD.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.clone_from(&place)).is_some());
        if !guarded {
            tracing::error!("panicked: {}{place}", message(panic.payload()));
        }
    }));
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_stuck_worker_is_not_asked_again_until_it_is_back() {
        let (release, gate) = mpsc::channel::<()>();
        let (asked, seen) = mpsc::channel();
        let mut worker = Worker::spawn("stuck", move |question: u32| {
            asked.send(question).unwrap();
            gate.recv().unwrap();
            question
        })
        .unwrap();

        assert!(worker.ask(1, soon()).is_err());
        assert!(worker.ask(2, late()).unwrap_err().busy > Duration::ZERO);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [1], "the second question never reached it");
        release.send(()).unwrap();
        release.send(()).unwrap();
        let answer = loop {
            if let Ok(answer) = worker.ask(3, late()) {
                break answer;
            }
            thread::yield_now();
        };
        assert_eq!(answer, 3, "the old answer is dropped");
    }

    #[test]
    fn no_time_left_asks_nothing() {
        let mut worker = Worker::spawn("idle", |question: u32| question).unwrap();
        assert!(worker.ask(1, Instant::now()).is_err());
        assert_eq!(worker.ask(2, late()).unwrap(), 2);
    }

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(guarded(|| 5), Ok(5));
        let broken: Result<(), String> = guarded(|| panic!("no {}", "good"));
        assert!(broken.unwrap_err().starts_with("panicked: no good"));
    }
}
