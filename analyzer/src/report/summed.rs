//! A period's roll-ups, summed by all that a report groups them by.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use foldhash::{HashMap, HashMapExt as _};

use super::price::{Price, price_of};
use goodput_store::Place;
use goodput_verdict::{Allocation, Energy, Grounds, Held, Interval, Part, RollUp, Stretch};

/// What a GPU did in the period: time of one class, holder, price and ground for judging it so. It is half a kilobyte, and
/// a large fleet has hundreds of thousands, so they are sorted and passed on by their places in memory.
#[derive(Clone, Debug)]
pub(crate) struct Item<'p>(Box<What<'p>>);

/// What an item says.
#[derive(Clone, Debug)]
pub(crate) struct What<'p> {
    /// From the first to the last of its time, without evidence.
    interval: Interval,
    pub(super) contradictions: Vec<String>,
    /// When, in order; those that touch are one.
    pub(super) stretches: Vec<Stretch>,
    pub(super) price: Option<&'p Price>,
    /// What it cost, in millionths of the price's currency.
    pub(super) micros: i64,
    /// Place in [`Summed::grounds`].
    grounds: usize,
    confidence_ms: f64,
}

impl<'p> Deref for Item<'p> {
    type Target = What<'p>;

    fn deref(&self) -> &What<'p> {
        &self.0
    }
}

impl DerefMut for Item<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Deref for What<'_> {
    type Target = Interval;

    fn deref(&self) -> &Interval {
        &self.interval
    }
}

impl Borrow<Interval> for Item<'_> {
    fn borrow(&self) -> &Interval {
        &self.0.interval
    }
}

/// Cluster and node.
type Node = (Option<String>, String);

/// Sums roll-ups, which it takes one by one: a period of a large fleet has more of them than memory holds.
#[derive(Debug)]
pub(crate) struct Summed<'p> {
    prices: &'p [Price],
    nodes: HashMap<Node, HashMap<Allocation, Vec<Item<'p>>>>,
    grounds: HashMap<Grounds, usize>,
}

impl<'p> Summed<'p> {
    pub(crate) fn new(prices: &'p [Price]) -> Self {
        Self { prices, nodes: HashMap::new(), grounds: HashMap::new() }
    }

    /// The items of these intervals.
    pub(crate) fn of(intervals: &[Interval], prices: &'p [Price]) -> Vec<Item<'p>> {
        let mut summed = Self::new(prices);
        RollUp::fold(intervals).into_iter().for_each(|hour| summed.add(hour));
        summed.items()
    }

    /// With the time of a roll-up, in which no price changes.
    pub(crate) fn add(&mut self, one: RollUp) {
        let RollUp { cluster, node, start_ms, grounds, held, .. } = one;
        let places: Vec<usize> = grounds.iter().map(|grounds| place(&mut self.grounds, grounds)).collect();
        let of_node = self.nodes.entry((cluster.clone(), node.clone())).or_default();
        for Held { allocation, parts } in held {
            let price = price_of(self.prices, allocation.model.as_deref(), Place::new(&cluster, &node), start_ms);
            let new = |part: &Part, place: usize| {
                let grounds = grounds.get(part.grounds).cloned().unwrap_or_default();
                Item::bare((cluster.clone(), node.clone()), allocation.clone(), part).on(grounds, place).at(price)
            };
            let add = |items: &mut Vec<Item<'p>>| {
                for part in &parts {
                    let place = places.get(part.grounds).copied().unwrap_or_default();
                    match items.iter_mut().find(|item| item.is_of(part, place, price)) {
                        Some(item) => item.add(part),
                        None => {
                            let mut item = new(part, place);
                            item.add(part);
                            items.push(item);
                        }
                    }
                }
            };
            // Most allocations are there from the day before: they are looked up once, and not copied.
            match of_node.get_mut(&allocation) {
                Some(items) => add(items),
                None => add(of_node.entry(allocation.clone()).or_default()),
            }
        }
    }

    /// What was summed, in the order of intervals.
    pub(crate) fn items(self) -> Vec<Item<'p>> {
        // Sorted node by node: most comparisons would be of the same few names otherwise.
        let mut by_node: BTreeMap<String, Vec<Item<'p>>> = BTreeMap::new();
        for ((_, node), held) in self.nodes {
            by_node.entry(node).or_default().extend(held.into_values().flatten().map(Item::finished));
        }
        by_node.values_mut().for_each(|items| items.sort_by(|a, b| a.order().cmp(&b.order())));
        by_node.into_values().flatten().collect()
    }
}

/// The place of these grounds, which is given once.
fn place(places: &mut HashMap<Grounds, usize>, grounds: &Grounds) -> usize {
    if let Some(place) = places.get(grounds) {
        return *place;
    }
    let place = places.len();
    places.insert(grounds.clone(), place);
    place
}

impl<'p> Item<'p> {
    /// Without any time, grounds or price.
    fn bare((cluster, node): Node, allocation: Allocation, part: &Part) -> Self {
        let Allocation { gpu, gpu_instance, model, owner, run, account } = allocation;
        let interval = Interval {
            gpu,
            gpu_instance,
            cluster,
            node,
            model,
            owner,
            run,
            account,
            charged_to: part.charged_to.clone(),
            cause: part.cause.clone(),
            version: part.version,
            ..Interval::untimed(part.class)
        };
        Self(Box::new(What {
            interval,
            contradictions: Vec::new(),
            stretches: Vec::new(),
            price: None,
            micros: 0,
            grounds: 0,
            confidence_ms: 0.0,
        }))
    }

    fn on(mut self, grounds: Grounds, place: usize) -> Self {
        (self.interval.busy_signal, self.interval.missing) = (grounds.busy_signal, grounds.missing);
        (self.contradictions, self.grounds) = (grounds.contradictions, place);
        self
    }

    fn at(mut self, price: Option<&'p Price>) -> Self {
        self.price = price;
        self
    }

    fn is_of(&self, part: &Part, grounds: usize, price: Option<&Price>) -> bool {
        let is_price = match (self.price, price) {
            (Some(own), Some(price)) => std::ptr::eq(own, price),
            (None, None) => true,
            _ => false,
        };
        is_price
            && self.class == part.class
            && self.grounds == grounds
            && self.version == part.version
            && self.charged_to == part.charged_to
            && self.cause == part.cause
    }

    fn add(&mut self, part: &Part) {
        let What { interval: own, stretches, confidence_ms, .. } = &mut *self.0;
        own.ms = own.ms.saturating_add(part.ms);
        own.energy = Energy::sum(own.energy, part.energy);
        own.variance_ms2 = own.variance_ms2.zip(part.variance_ms2).map(|(a, b)| a.saturating_add(b));
        *confidence_ms += part.confidence_ms;
        for stretch in &part.stretches {
            own.start_ms = own.start_ms.min(stretch.start_ms);
            own.end_ms = own.end_ms.max(stretch.end_ms);
            match stretches.last_mut() {
                Some(last) if last.end_ms == stretch.start_ms => {
                    (last.end_ms, last.ms) = (stretch.end_ms, last.ms.saturating_add(stretch.ms));
                }
                _ => stretches.push(*stretch),
            }
        }
    }

    fn finished(mut self) -> Self {
        // Rounded, so that it does not depend on whether it was summed by hours or by days.
        self.interval.confidence = (self.confidence_ms / self.interval.ms as f64 * 1e9).round() / 1e9;
        self.micros = self.price.map_or(0, |price| price.cost(self.interval.ms, self.interval.energy));
        self.stretches.sort_unstable_by_key(|stretch| (stretch.start_ms, stretch.end_ms));
        self.stretches = Stretch::join(std::mem::take(&mut self.stretches));
        self
    }

    /// As intervals are sorted, and then by all that keeps items apart.
    fn order(&self) -> impl Ord {
        let i = &self.interval;
        let who = (&i.cluster, &i.owner, &i.run, &i.account, &i.model, &i.charged_to, &i.cause);
        let grounds = (&i.busy_signal, &i.missing, &self.contradictions, i.version);
        (&i.node, &i.gpu, &i.gpu_instance, i.start_ms, i.class, who, grounds)
    }

    pub(crate) fn interval(&self) -> &Interval {
        &self.interval
    }

    pub(super) fn interval_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
