//! Sources that a few threads ask in turn; whichever hangs or panics takes nothing else along.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Was it the round's deadline that ended the wait, and not the source's own patience?
    pub(super) cut: bool,
}

/// An answer, and how long it took.
pub(super) type Answered<A> = Result<(A, Duration), Missed>;

/// Sources that a few threads ask, each the next that none has asked: so a scrape changes threads a few times, not once
/// per source.
///
/// One that does not answer in time keeps its thread, and another takes that one's place. Until it is back it is not
/// asked again, and then its answer is dropped, as it is old. So whatever hangs, hangs one thread.
pub(super) struct Workers<Q, A> {
    name: &'static str,
    sources: Arc<[Source<Q, A>]>,
    /// What is known of each source that was given up.
    stuck: Vec<Option<Stuck>>,
    threads: Vec<Option<Inbox<Q, A>>>,
}

/// A source that was given up.
#[derive(Clone, Copy)]
struct Stuck {
    /// Since when it has been at its question.
    since: Instant,
    /// As [`Missed::cut`].
    cut: bool,
}

/// Where a thread takes its rounds from.
type Inbox<Q, A> = Sender<Arc<Round<Q, A>>>;

/// One question to all sources.
struct Round<Q, A> {
    question: Q,
    sources: Arc<[Source<Q, A>]>,
    /// Until when a source is waited for that an earlier round's deadline cut: it is slow, and may be sound.
    graces: Vec<Option<Instant>>,
    /// The first source that no thread has taken.
    next: AtomicUsize,
    turns: Mutex<Vec<Turn<A>>>,
    /// No turn is waiting or asked any more.
    over: Condvar,
}

/// How far a source is in a round.
enum Turn<A> {
    Waiting,
    Asked {
        since: Instant,
        thread: usize,
    },
    Answered(A, Duration),
    /// Still at the question of an earlier round.
    Busy,
    /// Out of time since it was asked.
    GivenUp(Stuck),
    /// Out of time before it was asked.
    NotAsked,
}

impl<A> Turn<A> {
    fn is_over(&self) -> bool {
        !matches!(self, Turn::Waiting | Turn::Asked { .. })
    }

    /// What came of it; `stuck` is what was known of the source before, and is known now.
    fn answer(self, stuck: &mut Option<Stuck>) -> Answered<A> {
        let cut = match self {
            Turn::Answered(answer, duration) => {
                *stuck = None;
                return Ok((answer, duration));
            }
            Turn::GivenUp(now) => stuck.insert(now).cut,
            Turn::Busy => false,
            Turn::Waiting | Turn::Asked { .. } | Turn::NotAsked => {
                return Err(Missed { busy: Duration::ZERO, cut: true });
            }
        };
        Err(Missed { busy: stuck.map_or(Duration::ZERO, |stuck| stuck.since.elapsed()), cut })
    }
}

impl<Q: Send + Sync + 'static, A: Send + 'static> Workers<Q, A> {
    /// Starts this many threads.
    pub(super) fn start(name: &'static str, threads: usize, sources: Vec<Source<Q, A>>) -> io::Result<Self> {
        let stuck = vec![None; sources.len()];
        let threads = (0..threads).map(|thread| spawn(name, thread).map(Some)).collect::<io::Result<_>>()?;
        Ok(Self { name, sources: sources.into(), stuck, threads })
    }

    /// Asks every source, until `deadline` at the latest. The answers are in the order of the sources.
    pub(super) fn ask(&mut self, question: Q, deadline: Instant) -> Vec<Answered<A>> {
        let round = Arc::new(Round::new(question, self.sources.clone(), self.graces()));
        // A source may be quick enough to answer after the deadline, which is then no deadline.
        if Instant::now() < deadline {
            (0..self.threads.len()).for_each(|thread| self.engage(thread, &round));
        }
        // No signal says that a source is being asked which may have to be given up sooner than those before it. So
        // this looks again as soon as any source could be given up. That is later than a round takes in which nothing
        // hangs.
        let shortest = self.sources.iter().map(|source| source.patience).min().unwrap_or_default();
        let mut turns = round.turns.lock();
        loop {
            let now = Instant::now();
            for thread in round.give_up(&mut turns, now, deadline) {
                self.threads[thread] = None;
                self.engage(thread, &round);
            }
            if self.threads.iter().all(Option::is_none) {
                round.give_up(&mut turns, now, now);
            }
            if turns.iter().all(Turn::is_over) {
                break;
            }
            let limit = round.limits(&turns).fold(deadline.min(now + shortest), Instant::min);
            round.over.wait_until(&mut turns, limit);
        }
        let turns = std::mem::take(&mut *turns);
        turns.into_iter().zip(&mut self.stuck).map(|(turn, stuck)| turn.answer(stuck)).collect()
    }

    /// Until when each source is waited for that is still at the question of a round that was cut.
    fn graces(&self) -> Vec<Option<Instant>> {
        let grace = |(stuck, source): (&Option<Stuck>, &Source<Q, A>)| {
            stuck.filter(|stuck| stuck.cut).map(|stuck| stuck.since + source.patience)
        };
        self.stuck.iter().zip(&*self.sources).map(grace).collect()
    }

    /// Has the thread take part in the round, or one in its place, where there is none or it has died.
    fn engage(&mut self, thread: usize, round: &Arc<Round<Q, A>>) {
        let take_part = |inbox: &Inbox<Q, A>| inbox.send(round.clone()).is_ok();
        self.threads[thread] = self.threads[thread].take().filter(take_part).or_else(|| {
            let started =
                spawn(self.name, thread).inspect_err(|e| tracing::warn!("cannot start a thread to collect on: {e}"));
            started.ok().filter(take_part)
        });
    }
}

impl<Q, A> Round<Q, A> {
    fn new(question: Q, sources: Arc<[Source<Q, A>]>, graces: Vec<Option<Instant>>) -> Self {
        let turns = sources.iter().map(|_| Turn::Waiting).collect();
        Self { question, sources, graces, next: AtomicUsize::new(0), turns: Mutex::new(turns), over: Condvar::new() }
    }

    /// What a thread does of it.
    fn run(&self, thread: usize) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = self.sources.get(index) else { return };
            let since = Instant::now();
            if !self.ask(index, Turn::Asked { since, thread }) {
                return;
            }
            let free = match self.graces.get(index).copied().flatten() {
                Some(until) => source.answer.try_lock_until(until),
                None => source.answer.try_lock(),
            };
            let answer = free.map(|mut answer| answer(&self.question));
            if !self.take(index, answer.map_or(Turn::Busy, |answer| Turn::Answered(answer, since.elapsed()))) {
                return;
            }
        }
    }

    /// Is there still time for it?
    fn ask(&self, index: usize, asked: Turn<A>) -> bool {
        let mut turns = self.turns.lock();
        let waits = turns.get_mut(index).filter(|turn| matches!(turn, Turn::Waiting));
        waits.map(|turn| *turn = asked).is_some()
    }

    /// Did it come in time? Else another thread has taken the place of the one that brings it.
    fn take(&self, index: usize, answer: Turn<A>) -> bool {
        let mut turns = self.turns.lock();
        let asked = turns.get_mut(index).filter(|turn| matches!(turn, Turn::Asked { .. }));
        let in_time = asked.map(|turn| *turn = answer).is_some();
        if turns.iter().all(Turn::is_over) {
            self.over.notify_all();
        }
        in_time
    }

    /// Gives up what is out of time, and everything that is left at `deadline`; gives the threads that were at it.
    fn give_up(&self, turns: &mut [Turn<A>], now: Instant, deadline: Instant) -> Vec<usize> {
        let mut lost = Vec::new();
        for (turn, source) in turns.iter_mut().zip(&*self.sources) {
            match *turn {
                Turn::Asked { since, thread } if now >= deadline.min(since + source.patience) => {
                    lost.push(thread);
                    *turn = Turn::GivenUp(Stuck { since, cut: now < since + source.patience });
                }
                Turn::Waiting if now >= deadline => *turn = Turn::NotAsked,
                _ => {}
            }
        }
        lost
    }

    /// When those that are asked are out of time.
    fn limits(&self, turns: &[Turn<A>]) -> impl Iterator<Item = Instant> {
        turns.iter().zip(&*self.sources).filter_map(|(turn, source)| match turn {
            Turn::Asked { since, .. } => Some(*since + source.patience),
            _ => None,
        })
    }
}

/// A thread that takes part in rounds until its sender is gone.
fn spawn<Q: Send + Sync + 'static, A: Send + 'static>(name: &str, thread: usize) -> io::Result<Inbox<Q, A>> {
    let (rounds, inbox) = channel::<Arc<Round<Q, A>>>();
    let run = move || inbox.iter().for_each(|round| round.run(thread));
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
        let mut workers = Workers::start("stuck", 1, vec![around(), stuck, around()]).unwrap();

        assert_eq!(values(workers.ask(1, late())), [Some(11), None, Some(11)]);
        let second = workers.ask(2, late());
        assert!(second[1].as_ref().is_err_and(|missed| missed.busy >= SHORT), "{second:?}");
        assert_eq!(values(second), [Some(12), None, Some(12)]);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [1], "the second question never reached it");
        release.send(()).unwrap();
        release.send(()).unwrap();
        let back = (0..1_000_000).find_map(|_| values(workers.ask(3, late()))[1]);
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
        let mut workers = Workers::start("stuck", 1, vec![stuck(), stuck(), stuck()]).unwrap();
        let mut busy = || -> Vec<_> { workers.ask(1, late()).into_iter().map(|a| a.unwrap_err().busy).collect() };
        assert!(busy().into_iter().all(|busy| busy >= SHORT));
        let later = busy();
        assert!(later.is_sorted_by(|a, b| a > b) && later[2] >= SHORT, "{later:?}");
    }

    #[test]
    fn threads_share_the_sources_and_one_that_hangs_leaves_its_place() {
        let (_never, gate) = mpsc::channel::<()>();
        let hangs = source(SHORT, move |question| {
            let _ = gate.recv();
            *question
        });
        let together = Arc::new(std::sync::Barrier::new(2));
        let meets = |together: &Arc<std::sync::Barrier>| {
            let together = together.clone();
            source(LONG, move |question| {
                together.wait();
                *question
            })
        };
        let mut workers = Workers::start(
            "two",
            2,
            vec![hangs, meets(&together), meets(&together), meets(&together), meets(&together)],
        )
        .unwrap();
        for question in [1, 2] {
            let expected = [None, Some(question), Some(question), Some(question), Some(question)];
            assert_eq!(values(workers.ask(question, late())), expected);
        }
    }

    #[test]
    fn no_time_left_asks_nothing() {
        let mut workers = Workers::start("idle", 1, vec![source(LONG, |question| *question)]).unwrap();
        assert_eq!(values(workers.ask(1, Instant::now())), [None]);
        assert_eq!(values(workers.ask(2, late())), [Some(2)]);
    }

    #[test]
    fn what_is_left_when_time_is_up_is_asked_next_time() {
        let slow = source(LONG, |question| {
            thread::sleep(SHORT);
            *question
        });
        let mut workers = Workers::start("slow", 1, vec![slow, source(LONG, |question| *question)]).unwrap();
        assert_eq!(values(workers.ask(1, Instant::now() + SHORT / 4)), [None, None]);
        let both = (0..1_000_000).find_map(|_| Some(values(workers.ask(2, late()))).filter(|a| a[0].is_some()));
        assert_eq!(both.unwrap(), [Some(2), Some(2)]);
    }

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(guarded(|| 5), Ok(5));
        let broken: Result<(), String> = guarded(|| panic!("no {}", "good"));
        assert!(broken.unwrap_err().starts_with("panicked: no good"));
    }
}
