//! What GPU time and energy cost, and from when on.
//!
//! Money is counted in whole millionths of a currency, rounded once for a GPU's time of a class, a holder and a price in the
//! period, so that every table sums to the same.
//! Currencies are never added to each other.

use std::sync::Arc;

use jiff::civil::Date;

use super::serving::ServingTerms;
use crate::teams::Live;
use crate::wildcard::matches;
use goodput_exposition::sample::TimeMs;
use goodput_store::Place;
use goodput_verdict::Energy;

/// Millionths in one of a currency.
pub(crate) const MICROS: f64 = 1e6;
const MS_PER_HOUR: i128 = 3_600_000;
pub(super) const MJ_PER_KWH: f64 = 3.6e9;

/// The price of some GPUs from a date on, until an entry of the same model and node with a later date.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Pattern of the model's name; `*` stands for any characters.
    pub model: String,
    /// Pattern of the node's name; `None` is any node.
    pub node: Option<String>,
    /// Pattern of the cluster's name; `None` is any cluster, or none.
    pub cluster: Option<String>,
    /// Three letters (ISO 4217).
    pub currency: String,
    /// Millionths per GPU-hour, whether used or not.
    pub micros_per_gpu_hour: i64,
    /// What electricity costs in addition; `None` where the price of a GPU-hour includes it.
    pub electricity: Option<Electricity>,
    /// First day, in the report's zone.
    pub valid_from: Date,
    /// Its first instant.
    pub valid_from_ms: TimeMs,
}

/// What the configuration says of how reports are made.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What GPU time and energy cost.
    pub prices: Arc<[Price]>,
    /// `report.first_at_least`: a cost that is among the first of a report.
    pub first_at_least: Option<f64>,
    /// What is wanted of inference servers.
    pub serving: Arc<ServingTerms>,
    /// Whose GPU time is whose.
    pub teams: Live,
}

impl Terms {
    /// The price of the time of a GPU of this model that starts at this instant; `None` where no entry matches.
    #[must_use]
    pub(crate) fn of(&self, model: Option<&str>, place: Place<'_>, start: TimeMs) -> Option<&Price> {
        price_of(&self.prices, model, place, start)
    }
}

/// The price of energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Electricity {
    /// Millionths per kilowatt-hour.
    pub micros_per_kwh: i64,
    /// Power usage effectiveness (ISO/IEC 30134-2): the site's energy over that of its machines, at least 1.
    pub pue: f64,
}

/// The price of a GPU's time: of the entries that match and are valid at its start, one that names the node goes before
/// one that does not, then one that names the cluster, then the later date, then the later entry.
#[must_use]
pub(super) fn price_of<'p>(
    prices: &'p [Price],
    model: Option<&str>,
    place: Place<'_>,
    start: TimeMs,
) -> Option<&'p Price> {
    let valid = prices.iter().filter(|p| p.valid_from_ms <= start && p.matches(model, place));
    valid.max_by_key(|p| (p.node.is_some(), p.cluster.is_some(), p.valid_from_ms))
}

impl Price {
    fn matches(&self, model: Option<&str>, place: Place<'_>) -> bool {
        let is_node = self.node.as_ref().is_none_or(|pattern| matches(pattern, place.node));
        let cluster = place.cluster.unwrap_or_default();
        let is_cluster = self.cluster.as_ref().is_none_or(|pattern| matches(pattern, cluster));
        is_node && is_cluster && matches(&self.model, model.unwrap_or_default())
    }

    /// In whole units of the currency, without electricity that has a price of its own.
    #[must_use]
    pub(crate) fn per_gpu_hour(&self) -> f64 {
        self.micros_per_gpu_hour as f64 / MICROS
    }

    /// What GPU-milliseconds cost, in millionths; where their energy is not known, without electricity.
    #[must_use]
    pub fn cost(&self, ms: i64, energy: Option<Energy>) -> i64 {
        let time = i128::from(ms) * i128::from(self.micros_per_gpu_hour);
        let time = i64::try_from((time + MS_PER_HOUR / 2) / MS_PER_HOUR).unwrap_or(i64::MAX);
        let kwh = energy.map_or(0.0, |e| e.mj as f64 / MJ_PER_KWH);
        let energy = self.electricity.map_or(0.0, |e| kwh * e.pue * e.micros_per_kwh as f64);
        time.saturating_add(energy.round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn price(model: &str, node: Option<&str>, micros_per_gpu_hour: i64, valid_from_ms: TimeMs) -> Price {
        Price {
            model: model.into(),
            node: node.map(str::to_owned),
            cluster: None,
            currency: "EUR".into(),
            micros_per_gpu_hour,
            electricity: None,
            valid_from: Date::ZERO,
            valid_from_ms,
        }
    }

    #[test]
    fn an_old_interval_keeps_its_price_and_the_node_goes_before_the_date() {
        let of_cluster = |name: &str| Price { cluster: Some(name.into()), ..price("*A100*", None, 5, 0) };
        let prices = [
            of_cluster("e*"),
            of_cluster("us"),
            price("*", None, 1, 0),
            price("*H100*", None, 2, 10 * HOUR),
            price("*", Some("old-*"), 3, 5 * HOUR),
            price("*H100*", None, 4, 20 * HOUR),
        ];
        let found = |model, node, hour| {
            price_of(&prices, Some(model), Place { cluster: Some("eu"), node }, hour * HOUR)
                .map(|p| p.micros_per_gpu_hour)
        };
        assert_eq!([0, 9, 10, 19, 20].map(|hour| found("H100", "n", hour)), [1, 1, 2, 2, 4].map(Some));
        assert_eq!([4, 5, 20].map(|hour| found("H100", "old-1", hour)), [1, 3, 3].map(Some));
        assert_eq!(found("A100", "n", 30), Some(5), "one that names the cluster, not the later one");
        assert_eq!(found("H100", "n", -1), None, "before the first date nothing is known");
    }

    #[test]
    fn half_an_hour_and_two_kilowatt_hours() {
        let plain = price("*", None, 2_500_001, 0);
        let energy = Some(Energy { mj: 7_200_000_000, ms: HOUR / 2, counted_ms: 0 });
        assert_eq!(plain.cost(HOUR / 2, energy), 1_250_001);
        let electricity = Some(Electricity { micros_per_kwh: 250_000, pue: 1.2 });
        let metered = Price { electricity, ..plain };
        assert_eq!(metered.cost(HOUR / 2, energy), 1_250_001 + 600_000);
        assert_eq!(metered.cost(HOUR / 2, None), 1_250_001);
    }
}
