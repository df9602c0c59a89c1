//! How many replicas of a model its requests needed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Money, Work};
use crate::report::text::{self, UNKNOWN};
use crate::report::{Cost, MICROS};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, SLOT_MS};

/// What the replicas of one model reported at once, by the start of five minutes: how many they were, and how many their
/// requests needed.
pub(super) type Demand = BTreeMap<TimeMs, (u32, f64)>;

/// The replicas of one model, and those that its requests did not need. A replica is one server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Replicas {
    /// The most that reported at once.
    pub most: u32,
    /// The fewest that would have had room for all requests in any five minutes of the period: by the time in which engines had
    /// requests, by KV caches that are 80 % full at most, and one for each replica with five requests that wait. Latency may
    /// ask for more.
    pub needed: u32,
    /// Hours of replicas that reported.
    pub hours: f64,
    /// Those of replicas beyond `needed`.
    pub spare_hours: f64,
    /// GPU-hours that these held.
    pub spare_gpu_hours: f64,
    /// What these cost; null where some of the time has no price, or prices are in two currencies.
    pub spare_cost: Option<Money>,
}

/// With what one replica needed in a window.
pub(super) fn add(demand: &mut Demand, row: &Achieved) {
    let slots = row.served.iter().flat_map(|served| &served.demand);
    for (start, needed) in (0..).map(|n: i64| row.start_ms + n * SLOT_MS).zip(slots) {
        if let Some(needed) = needed {
            let (replicas, sum) = demand.entry(start).or_default();
            *replicas += 1;
            *sum += needed;
        }
    }
}

impl Replicas {
    /// `None` where there never were two. At least this many are kept.
    pub(super) fn of(demand: &Demand, least: u32, work: &Work) -> Option<Self> {
        let most = demand.values().map(|(replicas, _)| *replicas).max().filter(|most| *most >= 2)?;
        // Sums of hundredths are not whole.
        let needed = demand.values().map(|(_, sum)| (sum - 1e-6).ceil() as u32).fold(least, u32::max);
        let hours = |slots: u32| f64::from(slots) * SLOT_MS as f64 / 3_600_000.0;
        let all = hours(demand.values().map(|(replicas, _)| replicas).sum());
        let spare = hours(demand.values().map(|(replicas, _)| replicas.saturating_sub(needed)).sum());
        let share = spare / all;
        let cost = match &work.held.cost[..] {
            [Cost { currency, micros, priced_ms, .. }] if *priced_ms == work.held.gpu_ms => {
                Some(Money { currency: currency.clone(), amount: *micros as f64 / MICROS * share })
            }
            _ => None,
        };
        let spare_gpu_hours = work.held.gpu_ms as f64 / 3_600_000.0 * share;
        Some(Self { most, needed, hours: all, spare_hours: spare, spare_gpu_hours, spare_cost: cost })
    }

    /// Hours of replicas, for the report.
    #[must_use]
    pub fn spare_hours(&self) -> String {
        format!("{} of {}", text::quantity(self.spare_hours), text::quantity(self.hours))
    }

    /// GPU-hours of spare replicas, for the report.
    #[must_use]
    pub fn spare_gpu_hours(&self) -> String {
        text::quantity(self.spare_gpu_hours)
    }

    /// What they cost, for the report.
    #[must_use]
    pub fn spare_cost(&self) -> String {
        if self.spare_cost.is_some() { super::money(&self.spare_cost) } else { UNKNOWN.to_owned() }
    }
}
