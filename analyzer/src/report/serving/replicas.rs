//! How many replicas of a model its requests needed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::priced;
use super::{Money, Work};
use crate::report::text;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, SLOT_MS};

const MS_PER_HOUR: f64 = 3_600_000.0;

/// What the replicas of one model reported at once, by the start of five minutes: how many they were, and how many their
/// requests needed.
type Slots = BTreeMap<TimeMs, (u32, f64)>;

/// The same by cluster: a request reaches the replicas of its own.
pub(super) type Demand = BTreeMap<Option<String>, Slots>;

/// The replicas of one model, and those that its requests did not need. A replica is one server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Replicas {
    /// The most that reported at once; of several clusters the sum.
    pub most: u32,
    /// The fewest that reported at once, while any did.
    pub fewest: u32,
    /// How many would have had room for all requests in any five minutes of the period: by the time in which engines had
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
    let told = row.served.iter().flat_map(|served| &served.demand);
    for (start, needed) in (0..).map(|n: i64| row.start_ms + n * SLOT_MS).zip(told) {
        if let Some(needed) = needed {
            let (replicas, sum) = demand.entry(row.cluster.clone()).or_default().entry(start).or_default();
            *replicas += 1;
            *sum += needed;
        }
    }
}

/// Where series name the cluster for a part of the period alone, all replicas are of that cluster.
fn joined(demand: &Demand) -> Demand {
    let mut demand = demand.clone();
    if demand.len() == 2
        && let Some(unnamed) = demand.remove(&None)
    {
        for (start, (replicas, sum)) in unnamed {
            for slots in demand.values_mut() {
                let all = slots.entry(start).or_default();
                *all = (all.0 + replicas, all.1 + sum);
            }
        }
    }
    demand
}

/// What the replicas of one cluster come to.
struct Pool {
    most: u32,
    fewest: u32,
    needed: u32,
    slots: u32,
    spare: u32,
}

impl Pool {
    fn of(slots: &Slots, least: u32) -> Self {
        let replicas = || slots.values().map(|(replicas, _)| *replicas);
        // Sums of hundredths are not whole.
        let needed = slots.values().map(|(_, sum)| (sum - 1e-6).ceil() as u32).fold(least, u32::max);
        Self {
            most: replicas().max().unwrap_or_default(),
            fewest: replicas().min().unwrap_or_default(),
            needed,
            slots: replicas().sum(),
            spare: replicas().map(|replicas| replicas.saturating_sub(needed)).sum(),
        }
    }
}

impl Replicas {
    /// `None` where no cluster had two at once. At least this many are kept in each.
    pub(super) fn of(demand: &Demand, least: u32, work: &Work) -> Option<Self> {
        let pools: Vec<Pool> = joined(demand).values().map(|slots| Pool::of(slots, least)).collect();
        pools.iter().find(|pool| pool.most >= 2)?;
        let sum = |of: fn(&Pool) -> u32| pools.iter().map(of).sum::<u32>();
        let hours = |slots: u32| f64::from(slots) * SLOT_MS as f64 / MS_PER_HOUR;
        let spare_hours = hours(sum(|pool| pool.spare));
        // GPUs of a replica, in the mean.
        let gpus = work.held.gpu_ms as f64 / work.known_ms as f64;
        let spare_gpu_hours = Some(spare_hours * gpus).filter(|hours| hours.is_finite())?;
        let share = spare_gpu_hours / (work.held.gpu_ms as f64 / MS_PER_HOUR);
        let cost = priced(&work.held).map(|money| Money { amount: money.amount * share, ..money });
        Some(Self {
            most: sum(|pool| pool.most),
            fewest: sum(|pool| pool.fewest),
            needed: sum(|pool| pool.needed),
            hours: hours(sum(|pool| pool.slots)),
            spare_hours,
            spare_gpu_hours,
            spare_cost: cost.filter(|money| money.amount.is_finite()),
        })
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
}
