//! Whose password is checked next. A check costs a tenth of a second of a core and more (bcrypt), so there is one at a
//! time, and those who guess must not keep a right log-in waiting.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::peers::PeerKey;

/// How long a check is waited for: less than the usual time limit of a scrape, 10 s.
const PATIENCE: Duration = Duration::from_secs(8);

/// Requests that wait at most; above that the last in turn is refused with status 503.
const MAX_WAITING: usize = 256;

/// Wrong passwords of a peer that are answered at once: people mistype.
const FREE: u32 = 3;

/// The answer to each further one is held a second longer, up to a minute: who sends a hundred guesses at once then sends
/// fewer of them than are checked, and others find the check free.
const MAX_HELD: Duration = Duration::from_secs(60);

/// Wrong passwords of a peer that was quiet for so long are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Peers whose wrong passwords are remembered.
const MAX_PEERS: usize = 4096;

/// Those who wait for a check, and the wrong passwords of late.
#[derive(Default)]
pub(crate) struct Guesses(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Is a check under way?
    running: bool,
    waiting: Vec<Waiting>,
    wrong: HashMap<PeerKey, (u32, Instant)>,
    arrivals: u64,
}

struct Waiting {
    peer: PeerKey,
    arrival: u64,
    go: oneshot::Sender<Turn>,
}

/// Held by the check that is under way. The next one begins when it is dropped.
pub(crate) struct Turn(Arc<Mutex<State>>);

/// Too many wait.
#[derive(Debug)]
pub(crate) struct Full;

impl Guesses {
    /// Waits for the turn of a check that this peer asks for.
    pub(crate) async fn turn(&self, peer: PeerKey) -> Result<Turn, Full> {
        let arrived = {
            let mut state = self.0.lock();
            if !state.running {
                state.running = true;
                return Ok(Turn(Arc::clone(&self.0)));
            }
            let (go, arrived) = oneshot::channel();
            let arrival = state.arrivals;
            state.arrivals += 1;
            state.waiting.push(Waiting { peer, arrival, go });
            if state.waiting.len() > MAX_WAITING {
                state.waiting.retain(|waiting| !waiting.go.is_closed());
            }
            if state.waiting.len() > MAX_WAITING {
                let last = state.orders().max_by_key(|(_, order)| *order);
                last.map(|(at, _)| state.waiting.swap_remove(at));
            }
            arrived
        };
        timeout(PATIENCE, arrived).await.map_err(|_| Full)?.map_err(|_| Full)
    }

    /// Notes a wrong password, and says how long its answer is to be held.
    pub(crate) fn wrong(&self, peer: PeerKey, now: Instant) -> Duration {
        let mut state = self.0.lock();
        if state.wrong.len() >= MAX_PEERS {
            state.wrong.retain(|_, (_, last)| now.saturating_duration_since(*last) < FORGOTTEN);
        }
        if state.wrong.len() >= MAX_PEERS {
            state.wrong.clear();
        }
        let (count, last) = state.wrong.entry(peer).or_insert((0, now));
        if now.saturating_duration_since(*last) >= FORGOTTEN {
            *count = 0;
        }
        (*count, *last) = (count.saturating_add(1), now);
        Duration::from_secs(count.saturating_sub(FREE).into()).min(MAX_HELD)
    }
}

/// The fewer wrong passwords of its peer, the earlier; then the later it came, the earlier: those who guess have waited
/// for longest.
type Order = (u32, Reverse<u64>);

impl State {
    /// Those who wait, by their place in the list.
    fn orders(&self) -> impl Iterator<Item = (usize, Order)> {
        let order = |waiting: &Waiting| {
            let wrong = self.wrong.get(&waiting.peer).map_or(0, |(count, _)| *count);
            (wrong, Reverse(waiting.arrival))
        };
        self.waiting.iter().map(order).enumerate()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting.retain(|waiting| !waiting.go.is_closed());
        let Some((next, _)) = state.orders().min_by_key(|(_, order)| *order) else {
            state.running = false;
            return;
        };
        let next = state.waiting.swap_remove(next);
        drop(state);
        // One that has gone in this very moment drops the turn, which goes on to the next.
        let _ = next.go.send(Turn(Arc::clone(&self.0)));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(n: u8) -> PeerKey {
        PeerKey::of(IpAddr::from([10, 0, 0, n]))
    }

    async fn until_waiting(guesses: &Guesses, count: usize) {
        while guesses.0.lock().waiting.len() < count {
            tokio::task::yield_now().await;
        }
    }

    /// In which order those that wait have their turn.
    async fn order(guesses: Guesses, arrivals: &[u8]) -> Vec<usize> {
        let (guesses, served) = (Arc::new(guesses), Arc::new(Mutex::new(Vec::new())));
        let first = guesses.turn(peer(0)).await.ok().unwrap();
        let mut tasks = Vec::new();
        for (n, from) in arrivals.iter().enumerate() {
            let (guesses, served, from) = (Arc::clone(&guesses), Arc::clone(&served), peer(*from));
            let all = Arc::clone(&guesses);
            tasks.push(tokio::spawn(async move {
                let turn = guesses.turn(from).await.ok().unwrap();
                served.lock().push(n);
                drop(turn);
            }));
            until_waiting(&all, n + 1).await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert!(!guesses.0.lock().running);
        served.lock().clone()
    }

    #[tokio::test]
    async fn the_last_to_come_is_next_and_peers_without_wrong_passwords_before_others() {
        assert_eq!(order(Guesses::default(), &[1, 1, 1]).await, [2, 1, 0]);
        let guesses = Guesses::default();
        for _ in 0..3 {
            guesses.wrong(peer(1), Instant::now());
        }
        guesses.wrong(peer(2), Instant::now());
        assert_eq!(order(guesses, &[3, 2, 1, 2, 3]).await, [4, 0, 3, 1, 2]);
    }

    #[tokio::test]
    async fn one_that_leaves_does_not_hold_up_the_others() {
        let guesses = Guesses::default();
        let first = guesses.turn(peer(1)).await.ok().unwrap();
        let left = guesses.turn(peer(2));
        let mut left = Box::pin(left);
        tokio::select! { biased; _ = &mut left => panic!("it had a turn"), () = tokio::task::yield_now() => {} }
        drop(left);
        drop(first);
        assert!(guesses.turn(peer(3)).await.is_ok());
    }

    #[tokio::test]
    async fn the_last_in_turn_is_told_to_come_later() {
        let guesses = Arc::new(Guesses::default());
        guesses.wrong(peer(1), Instant::now());
        let _first = guesses.turn(peer(1)).await.ok().unwrap();
        let all = Arc::clone(&guesses);
        let oldest = tokio::spawn(async move { all.turn(peer(1)).await.err() });
        until_waiting(&guesses, 1).await;
        for n in 0..MAX_WAITING {
            let all = Arc::clone(&guesses);
            tokio::spawn(async move { all.turn(peer(2)).await.err() });
            until_waiting(&guesses, (n + 2).min(MAX_WAITING)).await;
        }
        assert!(oldest.await.unwrap().is_some());
    }

    #[test]
    fn the_answer_to_a_wrong_password_is_held_longer_each_time() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let held: Vec<_> = (0..5).map(|_| guesses.wrong(peer(1), now).as_secs()).collect();
        assert_eq!(held, [0, 0, 0, 1, 2]);
        for _ in 0..100 {
            guesses.wrong(peer(1), now);
        }
        assert_eq!(guesses.wrong(peer(1), now), MAX_HELD);
        assert_eq!(guesses.wrong(peer(2), now), Duration::ZERO, "another peer");
        assert_eq!(guesses.wrong(peer(1), now + FORGOTTEN), Duration::ZERO, "after a pause");
    }
}
