//! Held out: inference servers that [`super::serving`] has not. Written before anything is measured on them.

use super::serving::{asked, server};
use super::{Chance, Plan};
use crate::serving::Server;

/// Requests come in bursts of two minutes.
pub(super) fn serving_bursts(plan: &mut Plan, chance: &mut Chance) {
    let server = server(plan, chance);
    let rate = server.rate_for(chance.between(0.7, 0.95));
    let every = chance.between(220.0, 480.0);
    asked(plan, chance, 40, Server { rate, burst: 120.0, every, ..server });
}

/// Always as many requests as the server takes at once, and more.
pub(super) fn serving_saturated(plan: &mut Plan, chance: &mut Chance) {
    let server = Server { seats: 32, ..server(plan, chance) };
    asked(plan, chance, 15, Server { clients: 30, ..server.clone() });
    asked(plan, chance, 20, Server { clients: 90, ..server });
}

/// A batch that is worked off offline: a thousand requests wait, and everything has room; then the server is asked nothing.
pub(super) fn serving_offline(plan: &mut Plan, chance: &mut Chance) {
    let server = server(plan, chance);
    asked(plan, chance, 30, Server { clients: 1000, memory: 1_000_000, ..server.clone() });
    asked(plan, chance, 12, server);
}
