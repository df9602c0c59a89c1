//! What has not happened yet: memory or a disk that runs out, pods that are evicted before it does, a GPU or a link that fails.
//!
//! [`exhaustion`] follows the peaks of what is in use, since the highest of them runs into the limit, and draws a robust
//! line through them; a GPU's [`Damage`] is read off counters and states that have sourced limits. [`prospects`] asks both
//! about all that is known, [`risks`] goes through a window and keeps what was at risk. A forecast has no GPU-time; it is
//! not a class of the ledger.

mod course;
mod disk;
mod eviction;
mod exhaustion;
mod hardware;
mod memory;
mod network;
mod risk;
#[cfg(test)]
mod testing;
mod trend;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::caught::caught;
use crate::classify::Thresholds;
use crate::frame;
use crate::signal::Signal;
use course::Course;
pub use exhaustion::exhaustion;
use goodput_exposition::sample::{Series, TimeMs};
use goodput_verdict::{Eviction, Exhaustion, Fault, Forecast, Kind, Level, Memory, Prospect, Risk, Room};
pub use hardware::{blames_hardware, xid_level};
use network::Network;
pub use risk::{STEP_MS, risks};

/// All that forecasts look at.
pub static SIGNALS: LazyLock<Vec<Signal>> = LazyLock::new(|| {
    let all = [memory::SIGNALS, disk::SIGNALS, eviction::SIGNALS, hardware::SIGNALS, network::SIGNALS].concat();
    all.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
});

/// Forecasts of all whose use and limit are known, and of every GPU that is damaged, as at a time. `series` should reach
/// from `forecast_window_seconds` before it.
#[must_use]
pub fn prospects(series: &[Series], now: TimeMs, t: &Thresholds) -> Vec<Prospect> {
    let sources = frame::sources(series);
    let levels = frame::levels(&sources);
    let disks = disk::file_systems(&sources);
    let network = Network::of(&sources);
    let sound = |course: &Course<'_>| caught(|| course.prospect(now, t)).unwrap_or_else(|error| risk::left_out(&error));
    Course::all(&levels, &disks, &network, t).iter().filter_map(sound).filter(Prospect::is_finite).collect()
}
