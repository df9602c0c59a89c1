//! Sources that a thread asks one after another; whichever hangs or panics takes nothing else along.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::{Condvar, Mutex};

/// Stack of a worker: collectors keep their buffers on the heap.
const STACK_BYTES: usize = 512 * 1024;

type Answer<Q, A> = dyn FnMut(&Q) -> A + Send;

/// Something that answers a question. It must not panic: see [`guarded`].
pub(super) struct Source<Q, A> {
    /// How long it may take.
    pub(super) patience: Duration,
    /// Locked while it answers.
    pub(super) answer: Mutex<Box<Answer<Q, A>>>,
}

/// The source has not answered in time.
#[derive(Debug)]
pub(super) struct Missed {
    /// How long it has been at the question so far.
    pub(super) busy: Duration,
}

/// An answer, and how long it took.
pub(super) type Answered<A> = Result<(A, Duration), Missed>;

/// Sources that one thread asks in turn, so that a scrape changes threads once and not once per source.
///
/// One that does not answer in time keeps that thread, and another goes on with the rest. Until it is back it is not
/// asked again, and then its answer is dropped, as it is old. So whatever hangs, hangs one thread.
pub(super) struct Workers<Q, A> {
    name: &'static str,
    sources: Arc<[Source<Q, A>]>,
    /// Of each source that was given up: since when it has been at its question.
    stuck: Vec<Option<Instant>>,
    free: Option<Sender<Arc<Round<Q, A>>>>,
}

/// What one thread asks: the sources from the first one given, until it is given up.
struct Round<Q, A> {
    question: Q,
    sources: Arc<[Source<Q, A>]>,
    first: usize,
    progress: Mutex<Progress<A>>,
    over: Condvar,
}

struct Progress<A> {
    /// None for one that is still at the question of an earlier round.
    answers: Vec<Option<(A, Duration)>>,
    /// When the source after those was asked.
    asked: Option<Instant>,
    over: bool,
}

impl<Q: Clone + Send + Sync + 'static, A: Send + 'static> Workers<Q, A> {
    /// Starts the thread.
    pub(super) fn start(name: &'static str, sources: Vec<Source<Q, A>>) -> io::Result<Self> {
        let stuck = vec![None; sources.len()];
        Ok(Self { name, sources: sources.into(), stuck, free: Some(spawn(name)?) })
    }

    /// Asks every source in turn, until `deadline` at the latest. The answers are in the order of the sources.
    pub(super) fn ask(&mut self, question: &Q, deadline: Instant) -> Vec<Answered<A>> {
        let mut answers = Vec::with_capacity(self.sources.len());
        while answers.len() < self.sources.len() && Instant::now() < deadline {
            match self.begin(question.clone(), answers.len()) {
                Ok(round) => self.follow(&round, deadline, &mut answers),
                Err(error) => {
                    tracing::warn!("cannot start a thread to collect on: {error}");
                    break;
                }
            }
        }
        answers.resize_with(self.sources.len(), || Err(Missed { busy: Duration::ZERO }));
        answers
    }

    fn begin(&mut self, question: Q, first: usize) -> io::Result<Arc<Round<Q, A>>> {
        let progress = Progress { answers: Vec::new(), asked: None, over: false };
        let sources = self.sources.clone();
        let round = Arc::new(Round { question, sources, first, progress: Mutex::new(progress), over: Condvar::new() });
        let free = match self.free.take() {
            Some(free) => free,
            None => spawn(self.name)?,
        };
        // A thread that has died answers nothing, as one that hangs.
        let _ = free.send(round.clone());
        self.free = Some(free);
        Ok(round)
    }

    /// Takes the round's answers, and gives it up when one is not in time.
    fn follow(&mut self, round: &Round<Q, A>, deadline: Instant, answers: &mut Vec<Answered<A>>) {
        let (came, asked) = round.wait(deadline);
        for answer in came {
            let stuck = &mut self.stuck[answers.len()];
            *stuck = stuck.filter(|_| answer.is_none());
            let busy = stuck.map_or(Duration::ZERO, |since| since.elapsed());
            answers.push(answer.ok_or(Missed { busy }));
        }
        if let Some(since) = asked {
            self.stuck[answers.len()] = asked;
            answers.push(Err(Missed { busy: since.elapsed() }));
            self.free = None;
        }
    }
}

impl<Q, A> Round<Q, A> {
    fn run(&self) {
        for source in &self.sources[self.first..] {
            let asked = Instant::now();
            // Given up: another thread goes on.
            if !self.at_work(asked) {
                return;
            }
            let answer = source.answer.try_lock().map(|mut answer| answer(&self.question));
            let mut progress = self.progress.lock();
            progress.answers.push(answer.map(|answer| (answer, asked.elapsed())));
            progress.asked = None;
        }
        self.progress.lock().over = true;
        self.over.notify_all();
    }

    fn at_work(&self, since: Instant) -> bool {
        let mut progress = self.progress.lock();
        progress.asked = Some(since).filter(|_| !progress.over);
        !progress.over
    }

    /// Waits until all have answered, the one that is asked has run out of time, or `deadline`; the round is over then.
    fn wait(&self, deadline: Instant) -> (Vec<Option<(A, Duration)>>, Option<Instant>) {
        // Nobody tells that the next source is asked, which may have to be given up sooner than this one: so this looks
        // again as soon as any could be. That is later than a round takes in which nothing hangs.
        let shortest = self.sources[self.first..].iter().map(|source| source.patience).min().unwrap_or_default();
        let mut progress = self.progress.lock();
        while !progress.over {
            let patience = |since: Instant| since + self.sources[self.first + progress.answers.len()].patience;
            let limit = progress.asked.map_or(deadline, |since| deadline.min(patience(since)));
            let now = Instant::now();
            if now >= limit {
                break;
            }
            self.over.wait_until(&mut progress, limit.min(now + shortest));
        }
        progress.over = true;
        (std::mem::take(&mut progress.answers), progress.asked)
    }
}

/// A thread that runs rounds until nobody can send it another.
fn spawn<Q: Send + Sync + 'static, A: Send + 'static>(name: &str) -> io::Result<Sender<Arc<Round<Q, A>>>> {
    let (rounds, inbox) = channel::<Arc<Round<Q, A>>>();
    let run = move || inbox.iter().for_each(|round| round.run());
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(rounds)
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

    fn source(patience: Duration, answer: impl FnMut(&u32) -> u32 + Send + 'static) -> Source<u32, u32> {
        Source { patience, answer: Mutex::new(Box::new(answer)) }
    }

    fn late() -> Instant {
        Instant::now() + LONG
    }

    fn values(answers: Vec<Answered<u32>>) -> Vec<Option<u32>> {
        answers.into_iter().map(|answer| answer.ok().map(|(value, _)| value)).collect()
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_stuck_source_is_not_asked_again_until_it_is_back() {
        let (release, gate) = mpsc::channel::<()>();
        let (asked, seen) = mpsc::channel();
        let stuck = source(SHORT, move |question| {
            asked.send(*question).unwrap();
            gate.recv().unwrap();
            *question
        });
        let around = || source(LONG, |question| question + 10);
        let mut workers = Workers::start("stuck", vec![around(), stuck, around()]).unwrap();

        assert_eq!(values(workers.ask(&1, late())), [Some(11), None, Some(11)]);
        let second = workers.ask(&2, late());
        assert!(second[1].as_ref().is_err_and(|missed| missed.busy >= SHORT), "{second:?}");
        assert_eq!(values(second), [Some(12), None, Some(12)]);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [1], "the second question never reached it");
        release.send(()).unwrap();
        release.send(()).unwrap();
        let back = (0..1_000_000).find_map(|_| values(workers.ask(&3, late()))[1]);
        assert_eq!(back, Some(3), "the old answer is dropped");
    }

    #[test]
    fn all_may_be_stuck_and_each_has_been_for_as_long_as_it_has() {
        let (_never, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let stuck = || {
            let gate = gate.clone();
            source(SHORT, move |question| {
                let _ = gate.lock().recv();
                *question
            })
        };
        let mut workers = Workers::start("stuck", vec![stuck(), stuck(), stuck()]).unwrap();
        let mut busy = || -> Vec<_> { workers.ask(&1, late()).into_iter().map(|a| a.unwrap_err().busy).collect() };
        assert!(busy().into_iter().all(|busy| busy >= SHORT));
        let later = busy();
        assert!(later.is_sorted_by(|a, b| a > b) && later[2] >= SHORT, "{later:?}");
    }

    #[test]
    fn no_time_left_asks_nothing() {
        let mut workers = Workers::start("idle", vec![source(LONG, |question| *question)]).unwrap();
        assert_eq!(values(workers.ask(&1, Instant::now())), [None]);
        assert_eq!(values(workers.ask(&2, late())), [Some(2)]);
    }

    #[test]
    fn what_is_left_when_time_is_up_is_asked_next_time() {
        let slow = source(LONG, |question| {
            thread::sleep(SHORT);
            *question
        });
        let mut workers = Workers::start("slow", vec![slow, source(LONG, |question| *question)]).unwrap();
        assert_eq!(values(workers.ask(&1, Instant::now() + SHORT / 4)), [None, None]);
        let both = (0..1_000_000).find_map(|_| Some(values(workers.ask(&2, late()))).filter(|a| a[0].is_some()));
        assert_eq!(both.unwrap(), [Some(2), Some(2)]);
    }

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(guarded(|| 5), Ok(5));
        let broken: Result<(), String> = guarded(|| panic!("no {}", "good"));
        assert!(broken.unwrap_err().starts_with("panicked: no good"));
    }
}
