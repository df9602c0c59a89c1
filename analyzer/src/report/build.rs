//! Sums to report: groups, totals and orders, nothing else.

use std::collections::BTreeMap;
use std::hash::Hash;

use foldhash::HashSet;

use super::chart::Timeline;
use super::comparison::{comparison, reach};
use super::contradiction::contradictions;
use super::finding::Proving;
use super::gap::gaps;
use super::losses::Losses;
use super::names::Names;
use super::price::{MICROS, Price};
use super::rows::By;
use super::sum::{Amount, Sum};
use super::summed::{Item, Summed};
use super::teams::TeamTable;
use super::tuning::Tuning;
use super::{
    AppliedPrice, BusySignal, ClassAmount, ClassRow, Coverage, FORMULA, Fleet, Headline, LEAST_COVERAGE, Period,
    Previous, Report, Row, SCHEMA_VERSION, Span, Unpriced, ratio,
};
use crate::teams::Teams;
use goodput_verdict::{Class, Group, Interval, RollUp, Version};

/// Computes the report of `period` from its intervals and those of the period before it, at the prices that were valid
/// when each interval began.
#[must_use]
pub fn build(intervals: &[Interval], previous: &[Interval], period: Period, prices: &[Price]) -> Report {
    build_by_team(intervals, previous, period, (prices, &Teams::default()))
}

/// The same with the table of these teams.
#[must_use]
pub fn build_by_team(
    intervals: &[Interval],
    previous: &[Interval],
    period: Period,
    (prices, teams): (&[Price], &Teams),
) -> Report {
    let items = Summed::of(intervals, prices);
    let other = period.compared(reach(&items));
    let previous: Vec<Interval> = previous.iter().filter(|i| i.start_ms < other.end_ms).cloned().collect();
    let mut report = summed(&items, &Summed::of(&previous, prices), period, (prices, teams));
    RollUp::fold(intervals).iter().for_each(|hour| report.timeline.add(hour));
    let axis = report.timeline.axis.clone();
    for finding in report.proven_mut() {
        let mut proving = Proving::of(finding, &axis);
        intervals.iter().filter(|i| finding.has(i)).for_each(|i| proving.add(i));
        finding.prove(proving);
    }
    report
}

/// All of the report that follows from sums: its findings have no evidence yet, and its timeline no time.
///
/// All sums are sums over items of their milliseconds, their energy and their cost, so that tables agree with each other
/// and with the ledger to the unit.
pub(super) fn summed(
    items: &[Item<'_>],
    before: &[Item<'_>],
    period: Period,
    (prices, teams): (&[Price], &Teams),
) -> Report {
    let (comparison, before) = comparison(&period, items, before);
    let (ledger, ledger_before) = (Ledger::of(items), before.map(Ledger::of));
    let accounted = span(items.iter().map(Item::interval));
    let axis = accounted.as_ref().map_or_else(|| period.clone(), |span| period.around(span.start_ms, span.end_ms));
    let Losses { findings, groups, unjudged } = Losses::of(items, before, ledger.capacity().ms);
    let rows = |by: By| by.rows(items, before);
    let teams = TeamTable::of(teams, period.start_ms, (items, before), (&groups, &findings));
    Report {
        schema_version: SCHEMA_VERSION,
        accounted,
        warnings: Vec::new(),
        fleet: fleet(items, &ledger),
        classes: classes(&ledger, ledger_before.as_ref()),
        previous: ledger_before.map(|before| compare(&ledger, &before, &comparison.label)),
        comparison,
        coverage: coverage(items, &ledger, prices),
        findings,
        groups,
        first_at_least: None,
        unjudged,
        risks: Vec::new(),
        advisories: Vec::new(),
        tuning: Tuning::default(),
        throughput: None,
        serving: None,
        runs: Vec::new(),
        trial: None,
        gaps: gaps(items, ledger.capacity().ms),
        contradictions: contradictions(items, ledger.capacity().ms),
        prices: applied(items, prices, ledger.capacity().ms),
        clusters: of_named(rows(By::Cluster)),
        accounts: of_named(rows(By::Account)),
        teams,
        owners: rows(By::Run),
        nodes: rows(By::Node),
        models: rows(By::Model),
        gpus: rows(By::Gpu),
        names: Names::default(),
        timeline: Timeline::of(items, axis),
        period,
    }
}

/// Where no name is known at all, a table by it says nothing.
fn of_named(rows: Vec<Row>) -> Vec<Row> {
    if rows.iter().any(|row| row.name.is_some()) { rows } else { Vec::new() }
}

pub(super) fn is_held(class: Class) -> bool {
    class.group() != Group::Capacity
}

/// Sums by class.
#[derive(Default)]
pub(crate) struct Ledger<'a>(BTreeMap<Class, Sum<'a>>);

impl<'a> Ledger<'a> {
    pub(crate) fn of<'i>(items: impl IntoIterator<Item = &'i Item<'a>>) -> Self
    where
        'a: 'i,
    {
        let mut ledger = Self::default();
        items.into_iter().for_each(|i| ledger.add(i));
        ledger
    }

    /// Of time and energy alone.
    pub(crate) fn unpriced<'i>(intervals: impl IntoIterator<Item = &'i Interval>) -> Self {
        let mut ledger = Self::default();
        intervals.into_iter().for_each(|i| ledger.0.entry(i.class).or_default().add_time(i));
        ledger
    }

    pub(super) fn add(&mut self, item: &Item<'a>) {
        self.0.entry(item.class).or_default().add(item);
    }

    pub(crate) fn get(&self, class: Class) -> Sum<'a> {
        self.0.get(&class).cloned().unwrap_or_default()
    }

    fn total(&self, which: impl Fn(Class) -> bool) -> Sum<'a> {
        let chosen = self.0.iter().filter(|(class, _)| which(**class));
        chosen.fold(Sum::default(), |total, (_, sum)| total.plus(sum))
    }

    pub(crate) fn capacity(&self) -> Sum<'a> {
        self.total(|_| true)
    }

    pub(crate) fn allocated(&self) -> Sum<'a> {
        self.total(is_held)
    }

    /// Time without data is not lost: what it was is not known.
    pub(crate) fn lost(&self) -> Amount {
        self.total(|class| !matches!(class, Class::Productive | Class::NoData)).amount(self.capacity().ms)
    }

    pub(crate) fn with_data(&self) -> Sum<'a> {
        self.total(|class| class != Class::NoData)
    }

    /// What is shown first: goodput, and where too little has data to say it, that of the time with data.
    pub(crate) fn headline(&self) -> Headline {
        let (with_data, capacity) = (self.with_data().ms, self.capacity().ms);
        let is_of_known = (with_data as f64) < LEAST_COVERAGE * capacity as f64;
        let of_known = || ratio(self.get(Class::Productive).ms, with_data);
        Headline { goodput: if is_of_known { of_known() } else { self.goodput() }, is_of_known }
    }

    /// Unknown when nothing at all was seen: zero would be a claim.
    pub(crate) fn goodput(&self) -> Option<f64> {
        ratio(self.get(Class::Productive).ms, self.capacity().ms).filter(|_| self.with_data().ms > 0)
    }

    pub(crate) fn losses(&self) -> Vec<ClassAmount> {
        let whole = self.capacity().ms;
        let is_lost = |class: Class| !matches!(class, Class::Productive | Class::NoData);
        let lost = self.0.iter().filter(|(class, sum)| is_lost(**class) && sum.ms > 0);
        let mut losses: Vec<ClassAmount> = lost
            .map(|(class, sum)| ClassAmount { class: *class, amount: sum.amount(whole), interval: sum.bounds(whole) })
            .collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.amount.gpu_ms));
        losses
    }
}

/// From the first to the last of them.
fn span<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Option<Span> {
    let one = |i: &Interval| Span { start_ms: i.start_ms, end_ms: i.end_ms, gpu_ms: i.ms };
    intervals.into_iter().map(one).reduce(|a, b| Span {
        start_ms: a.start_ms.min(b.start_ms),
        end_ms: a.end_ms.max(b.end_ms),
        gpu_ms: a.gpu_ms + b.gpu_ms,
    })
}

/// What was judged by rules of other releases, from its first to its last.
pub(crate) fn other_rules<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Option<Span> {
    span(intervals.into_iter().filter(|interval| interval.version != Some(Version::of(interval.class))))
}

fn fleet(items: &[Item<'_>], ledger: &Ledger<'_>) -> Fleet {
    let (capacity, productive) = (ledger.capacity(), ledger.get(Class::Productive));
    Fleet {
        formula: FORMULA,
        headline: ledger.headline(),
        goodput: ledger.goodput(),
        goodput_of_known: ratio(productive.ms, ledger.with_data().ms),
        goodput_at_most: ratio(productive.ms + ledger.get(Class::NoData).ms, capacity.ms),
        gpus: distinct(items, |i| i.gpu.as_str()),
        nodes: distinct(items, |i| (i.cluster.as_deref(), i.node.as_str())),
        capacity: capacity.amount(capacity.ms),
        allocated: ledger.total(is_held).amount(capacity.ms),
        productive: productive.amount(capacity.ms),
        lost: ledger.lost(),
        no_data: ledger.get(Class::NoData).amount(capacity.ms),
    }
}

fn distinct<'a, K: Hash + Eq>(items: &'a [Item<'_>], key: impl Fn(&'a Interval) -> K) -> usize {
    items.iter().map(Item::interval).map(key).collect::<HashSet<_>>().len()
}

fn classes(ledger: &Ledger<'_>, before: Option<&Ledger<'_>>) -> Vec<ClassRow> {
    let row = |class: &Class| ClassRow {
        class: *class,
        group: class.group(),
        amount: ledger.get(*class).amount(ledger.capacity().ms),
        interval: ledger.get(*class).bounds(ledger.capacity().ms),
        previous: before.map(|b| b.get(*class).amount(b.capacity().ms)),
    };
    Class::ALL.iter().map(row).collect()
}

fn compare(ledger: &Ledger<'_>, before: &Ledger<'_>, label: &str) -> Previous {
    let change = |(now, then)| now - then;
    Previous {
        label: label.to_owned(),
        goodput: before.goodput(),
        goodput_change: ledger.goodput().zip(before.goodput()).map(change),
        capacity: before.capacity().amount(before.capacity().ms),
        lost: before.lost(),
    }
}

fn coverage(items: &[Item<'_>], ledger: &Ledger<'_>, prices: &[Price]) -> Coverage {
    let mut by_signal: BTreeMap<Option<&str>, i64> = BTreeMap::new();
    for i in items.iter().map(Item::interval).filter(|i| i.class != Class::NoData) {
        *by_signal.entry(i.busy_signal.as_deref()).or_default() += i.ms;
    }
    let (with_data, capacity) = (ledger.with_data(), ledger.capacity());
    let busy = |(signal, ms): (Option<&str>, i64)| BusySignal {
        signal: signal.map(str::to_owned),
        amount: Amount::of(ms, with_data.ms),
    };
    let mut busy_signals: Vec<BusySignal> = by_signal.into_iter().map(busy).collect();
    busy_signals.sort_by_key(|s| std::cmp::Reverse(s.amount.gpu_ms));
    let energy = capacity.energy.unwrap_or_default();
    Coverage {
        with_data: with_data.amount(capacity.ms),
        busy_signals,
        energy_counted: Amount::of(energy.counted_ms, capacity.ms),
        energy_by_power: Amount::of(energy.ms - energy.counted_ms, capacity.ms),
        unpriced: if prices.is_empty() { Vec::new() } else { unpriced(items, capacity.ms) },
        other_rules: other_rules(items.iter().map(Item::interval)),
    }
}

fn unpriced(items: &[Item<'_>], capacity_ms: i64) -> Vec<Unpriced> {
    let mut by_model: BTreeMap<Option<&str>, i64> = BTreeMap::new();
    for item in items.iter().filter(|item| item.price.is_none()) {
        *by_model.entry(item.model.as_deref()).or_default() += item.ms;
    }
    let unpriced = |(model, ms): (Option<&str>, i64)| Unpriced {
        model: model.map(str::to_owned),
        amount: Amount::of(ms, capacity_ms),
    };
    by_model.into_iter().map(unpriced).collect()
}

/// The prices that some interval has, in the order of the configuration.
fn applied(items: &[Item<'_>], prices: &[Price], capacity_ms: i64) -> Vec<AppliedPrice> {
    let applied = |price: &Price| {
        let sum = Sum::of(items.iter().filter(|item| item.price.is_some_and(|p| std::ptr::eq(p, price))));
        (sum.ms > 0).then(|| AppliedPrice {
            model: price.model.clone(),
            node: price.node.clone(),
            cluster: price.cluster.clone(),
            currency: price.currency.clone(),
            per_gpu_hour: price.micros_per_gpu_hour as f64 / MICROS,
            per_kwh: price.electricity.map(|e| e.micros_per_kwh as f64 / MICROS),
            pue: price.electricity.map(|e| e.pue),
            valid_from: price.valid_from.to_string(),
            amount: sum.amount(capacity_ms),
        })
    };
    prices.iter().filter_map(applied).collect()
}
