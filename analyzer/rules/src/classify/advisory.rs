//! What deserves attention though no GPU-time can be charged to it.

use super::cell::{Part, State, owned};
use super::held::Held;
use super::intervals::{Entry, Grounds};
use super::{
    Advice, Cause, Cell, Class, Thresholds, clock_locked, cross_numa, gds_fell_back, low_occupancy, memory_bound,
    oversized_gpu, power_throttle, server_queue, small_batch, tensor_unused,
};

/// Finds one advice: asked of every cell of a held GPU, whether it works or not.
#[derive(Debug)]
pub(super) struct Adviser {
    pub(super) advice: Advice,
    /// The classes of time that is charged to the same, or comes before it: where there is any, nothing is left to advise.
    pub(super) charged_as: &'static [Class],
    /// `None` where nothing is wrong or nothing is known.
    pub(super) judge: fn(&Cell<'_>, &Thresholds) -> Option<Grounds>,
}

/// Everything that is advised.
pub(super) static ADVISERS: &[Adviser] = &[
    cross_numa::ADVISER,
    clock_locked::ADVISER,
    power_throttle::ADVISER,
    tensor_unused::ADVISER,
    memory_bound::ADVISER,
    memory_bound::AT_FULL_CLOCK,
    low_occupancy::ADVISER,
    small_batch::ADVISER,
    oversized_gpu::ADVISER,
    server_queue::QUEUEING,
    server_queue::KV_FULL,
    gds_fell_back::ADVISER,
];

/// What must agree for the advice of two neighbouring cells to be one advisory: advice, owner, cause, and the GPUs that were free.
pub(super) type Key = (Advice, Option<String>, Option<Cause>, Option<String>);

/// What is advised in a cell, by owner, weighted with the owner's known milliseconds.
pub(super) fn advise(cell: &Cell<'_>, state: &State, booked: &[(Part, i64)], t: &Thresholds) -> Vec<Entry<Key>> {
    // What is advised is done to the whole GPU.
    if cell.gpu.instance.is_some() || !matches!(state.held, Held::Yes { .. }) {
        return Vec::new();
    }
    let mut advised = Vec::new();
    for (owner, ms) in owned(cell, state, cell.gpu.known_ms[cell.index]).into_iter().filter(|(_, ms)| *ms > 0) {
        let cell = cell.of_owner(owner);
        let own = || booked.iter().filter(|(part, _)| part.owner.as_deref() == owner);
        for adviser in ADVISERS {
            let grounds = (adviser.judge)(&cell, t);
            let grounds = grounds.filter(|_| !own().any(|(part, _)| adviser.charged_as.contains(&part.class)));
            advised.extend(grounds.map(|grounds| Entry {
                key: (adviser.advice, owner.map(str::to_owned), None, None),
                grounds,
                ms,
                energy: None,
                variance_ms2: 0,
            }));
        }
    }
    advised
}
