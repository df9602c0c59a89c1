//! Sums of time, energy and money over intervals: whole numbers, so that every table agrees with every other. A sum of
//! damaged rows stops at the end of the range in place of turning its sign.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::price::{MICROS, MJ_PER_KWH};
use super::summed::Item;
use super::{MS_PER_HOUR, ratio, text};
use crate::teams::apportion;
use goodput_rules::classify::sampling::{Bounds, bounds};
use goodput_verdict::{Energy, Interval};

/// GPU time, the part that it is of some whole, and what it drew and cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Amount {
    /// GPU-milliseconds, exact.
    pub gpu_ms: i64,
    /// The same in GPU-hours.
    pub gpu_hours: f64,
    /// 0 to 1, of the whole that the field's owner names; null when that whole is nothing.
    pub share: Option<f64>,
    /// What the GPUs drew in this time; null where that is known for none of it.
    pub energy: Option<Drawn>,
    /// What it cost, one entry per currency, in order of their letters; empty where no price applies.
    pub cost: Vec<Cost>,
}

/// Energy that GPUs drew, at the board: without the host, losses and cooling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drawn {
    /// Millijoules, exact.
    pub mj: i64,
    /// The same in kilowatt-hours.
    pub kwh: f64,
    /// GPU-milliseconds that it is known for; what was drawn in the others is not in.
    pub known_ms: i64,
}

/// Money in one currency.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// Three letters (ISO 4217).
    pub currency: String,
    /// Millionths, exact.
    pub micros: i64,
    /// The same in the currency.
    pub amount: f64,
    /// GPU-milliseconds that have a price in this currency.
    pub priced_ms: i64,
}

/// What is summed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sum<'a> {
    pub(crate) ms: i64,
    pub(super) energy: Option<Energy>,
    /// Millionths and milliseconds, by currency.
    cost: BTreeMap<&'a str, (i64, i64)>,
    /// What sampling leaves unknown, in ms²; of one class only is it the variance of the sum.
    variance_ms2: i128,
    /// For some of the time that is not known.
    is_open: bool,
}

impl<'a> Sum<'a> {
    pub(super) fn of<'i>(items: impl IntoIterator<Item = &'i Item<'a>>) -> Self
    where
        'a: 'i,
    {
        let mut sum = Self::default();
        items.into_iter().for_each(|item| sum.add(item));
        sum
    }

    pub(super) fn add(&mut self, item: &Item<'a>) {
        self.add_time(item);
        if let Some(price) = item.price {
            let (micros, ms) = self.cost.entry(&price.currency).or_default();
            *micros = micros.saturating_add(item.micros);
            *ms = ms.saturating_add(item.ms);
        }
    }

    /// Time and energy, without a price.
    pub(super) fn add_time(&mut self, interval: &Interval) {
        self.ms = self.ms.saturating_add(interval.ms);
        self.energy = Energy::sum(self.energy, interval.energy);
        self.variance_ms2 += i128::from(interval.variance_ms2.unwrap_or_default());
        self.is_open |= interval.variance_ms2.is_none();
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.ms = self.ms.saturating_add(other.ms);
        self.energy = Energy::sum(self.energy, other.energy);
        self.variance_ms2 += other.variance_ms2;
        self.is_open |= other.is_open;
        for (currency, (micros, ms)) in &other.cost {
            let sums = self.cost.entry(currency).or_default();
            *sums = (sums.0.saturating_add(*micros), sums.1.saturating_add(*ms));
        }
        self
    }

    /// Millionths of a currency.
    pub(super) fn micros(&self, currency: &str) -> i64 {
        self.cost.get(currency).map_or(0, |(micros, _)| *micros)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.ms == 0 && self.energy.is_none_or(|energy| energy.mj == 0) && self.cost.values().all(|(m, _)| *m == 0)
    }

    /// This by weights, each unit in one part. All of it has one price, or none; what sampling leaves unknown of a part is
    /// not known.
    pub(super) fn split(&self, weights: &[i64]) -> Vec<Self> {
        let parts = |whole: i64| apportion(whole, weights);
        let (all_ms, energy) = (parts(self.ms), self.energy.unwrap_or_default());
        let (mj, known, counted) = (parts(energy.mj), parts(energy.ms), parts(energy.counted_ms));
        let costs: Vec<_> = self.cost.iter().map(|(currency, (micros, _))| (*currency, parts(*micros))).collect();
        let part = |n: usize| Self {
            ms: all_ms[n],
            energy: self.energy.map(|_| Energy { mj: mj[n], ms: known[n], counted_ms: counted[n] }),
            cost: costs.iter().map(|(currency, micros)| (*currency, (micros[n], all_ms[n]))).collect(),
            variance_ms2: 0,
            is_open: true,
        };
        (0..weights.len()).map(part).collect()
    }

    /// The 90 % interval of a class total, of `whole_ms` at most.
    pub(crate) fn bounds(&self, whole_ms: i64) -> Option<Bounds> {
        (!self.is_open).then(|| bounds(self.ms, self.variance_ms2, whole_ms))
    }

    /// This as a part of `whole_ms`.
    pub(crate) fn amount(&self, whole_ms: i64) -> Amount {
        let cost = |(currency, (micros, priced_ms)): (&&str, &(i64, i64))| Cost {
            currency: (*currency).to_owned(),
            micros: *micros,
            amount: *micros as f64 / MICROS,
            priced_ms: *priced_ms,
        };
        Amount {
            energy: self.energy.map(|e| Drawn { mj: e.mj, kwh: e.mj as f64 / MJ_PER_KWH, known_ms: e.ms }),
            cost: self.cost.iter().map(cost).collect(),
            ..Amount::of(self.ms, whole_ms)
        }
    }
}

impl Amount {
    /// `gpu_ms` as a part of `whole_ms`, with nothing known of energy and money.
    #[must_use]
    pub fn of(gpu_ms: i64, whole_ms: i64) -> Self {
        let gpu_hours = gpu_ms as f64 / MS_PER_HOUR;
        Self { gpu_ms, gpu_hours, share: ratio(gpu_ms, whole_ms), ..Self::default() }
    }

    /// This share of it, rounded to whole units; shares stay of the same whole.
    #[must_use]
    pub(super) fn scaled(&self, share: f64) -> Self {
        let part = |whole: i64| (whole as f64 * share).round() as i64;
        let scaled_cost = |c: &Cost| Cost {
            micros: part(c.micros),
            amount: part(c.micros) as f64 / MICROS,
            priced_ms: part(c.priced_ms),
            currency: c.currency.clone(),
        };
        let scaled_energy =
            |e: Drawn| Drawn { mj: part(e.mj), kwh: part(e.mj) as f64 / MJ_PER_KWH, known_ms: part(e.known_ms) };
        Self {
            gpu_ms: part(self.gpu_ms),
            gpu_hours: part(self.gpu_ms) as f64 / MS_PER_HOUR,
            share: self.share.map(|s| s * share),
            energy: self.energy.map(scaled_energy),
            cost: self.cost.iter().map(scaled_cost).collect(),
        }
    }

    /// Both, as parts of the same whole.
    #[must_use]
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut cost = self.cost.clone();
        for more in &other.cost {
            match cost.iter_mut().find(|own| own.currency == more.currency) {
                Some(own) => {
                    own.micros = own.micros.saturating_add(more.micros);
                    own.priced_ms = own.priced_ms.saturating_add(more.priced_ms);
                    own.amount = own.micros as f64 / MICROS;
                }
                None => cost.push(more.clone()),
            }
        }
        cost.sort_by(|a, b| a.currency.cmp(&b.currency));
        let drawn = |a: Drawn, b: Drawn| {
            let mj = a.mj.saturating_add(b.mj);
            Drawn { mj, kwh: mj as f64 / MJ_PER_KWH, known_ms: a.known_ms.saturating_add(b.known_ms) }
        };
        let energy = match (self.energy, other.energy) {
            (Some(own), Some(more)) => Some(drawn(own, more)),
            (own, more) => own.or(more),
        };
        let gpu_ms = self.gpu_ms.saturating_add(other.gpu_ms);
        let share = self.share.zip(other.share).map(|(own, more)| own + more);
        Self { gpu_ms, gpu_hours: gpu_ms as f64 / MS_PER_HOUR, share, energy, cost }
    }

    /// GPU-hours to be read.
    #[must_use]
    pub fn hours(&self) -> String {
        text::hours(self.gpu_ms)
    }

    /// The share to be read.
    #[must_use]
    pub fn percent(&self) -> String {
        text::percent(self.share)
    }

    /// Kilowatt-hours to be read, without the unit.
    #[must_use]
    pub fn kwh(&self) -> String {
        match self.energy {
            Some(energy) => text::quantity(energy.kwh),
            None if self.gpu_ms == 0 => "0".into(),
            None => text::UNKNOWN.into(),
        }
    }

    /// GPU-hours more or fewer than before, to be read.
    #[must_use]
    pub fn hours_change(&self, before: &Self) -> String {
        text::change(Some(self.gpu_hours), Some(before.gpu_hours), text::quantity)
    }

    /// Kilowatt-hours more or fewer than before, to be read, without the unit.
    #[must_use]
    pub fn kwh_change(&self, before: &Self) -> String {
        let known = |amount: &Self| amount.energy.map(|e| e.kwh).or((amount.gpu_ms == 0).then_some(0.0));
        text::change(known(self), known(before), text::quantity)
    }

    /// Money more or less than before, to be read, each difference with its currency.
    #[must_use]
    pub fn money_change(&self, before: &Self) -> String {
        let currencies: BTreeSet<&str> = self.cost.iter().chain(&before.cost).map(|c| c.currency.as_str()).collect();
        let known = |amount: &Self, currency: &str| {
            let cost = amount.cost.iter().find(|c| c.currency == currency).map(|c| c.amount);
            // Where no price applies to time that there is, nothing is known.
            cost.or((amount.gpu_ms == 0 || !amount.cost.is_empty()).then_some(0.0))
        };
        let change = |currency| text::change(known(self, currency), known(before, currency), text::money);
        let shown: Vec<String> = currencies.into_iter().map(|c| signed(c, &change(c))).collect();
        match shown.as_slice() {
            [] if self.gpu_ms == 0 && before.gpu_ms == 0 => "±0".into(),
            [] => text::UNKNOWN.into(),
            shown => shown.join(" and "),
        }
    }

    /// Money to be read, each sum with its currency, from which no line break parts it.
    #[must_use]
    pub fn money(&self) -> String {
        let shown: Vec<String> =
            self.cost.iter().map(|c| format!("{}\u{a0}{}", c.currency, text::money(c.amount))).collect();
        match shown.as_slice() {
            [] if self.gpu_ms == 0 => "0".into(),
            [] => text::UNKNOWN.into(),
            shown => shown.join(" and "),
        }
    }
}

/// A change of money with its currency behind the sign: −EUR 699.
fn signed(currency: &str, change: &str) -> String {
    match change.strip_prefix(['+', '−', '±']) {
        Some(amount) => format!("{}{currency}\u{a0}{amount}", &change[..change.len() - amount.len()]),
        None => format!("{currency}\u{a0}{change}"),
    }
}
