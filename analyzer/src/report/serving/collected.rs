//! What servers reported, and the GPU time that they held meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::latency::Timed;
use super::replicas::{self, Demand};
use super::{ServedModel, Serving, UnjoinedServer, Used, Work};
use crate::report::Price;
use crate::report::build::is_held;
use crate::report::summed::{Item, Summed};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, Class, Counted, Histogram, Latency, RollUp, Served};

/// What one server reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    models: BTreeSet<String>,
    counted: BTreeMap<Served, f64>,
    timed: BTreeMap<Latency, Timed>,
    pub(super) counters: BTreeSet<String>,
    /// The windows that count: at least half of each is known.
    windows: BTreeSet<(TimeMs, TimeMs)>,
}

/// What one owner of GPUs reported, by its cluster.
type Clusters = BTreeMap<Option<String>, Reported>;

/// What servers reported, and the GPU time that they held in the hours in which they did.
#[derive(Debug)]
pub(in crate::report) struct Servers<'p> {
    owners: BTreeMap<String, Clusters>,
    unjoined: BTreeMap<Stranger, BTreeMap<Served, f64>>,
    /// By model, what its replicas needed.
    demand: BTreeMap<String, Demand>,
    held: Summed<'p>,
    /// GPU-milliseconds held in the whole period.
    all_ms: HashMap<Owner, i64>,
}

/// A model of a server that could not be joined: the cluster of the series, its subject and the model.
type Stranger = (Option<String>, String, Option<String>);

/// What one owner, or none, reported in a window: cluster, owner, start and end.
type InWindow<'a> = (Option<&'a str>, Option<&'a str>, TimeMs, TimeMs);

/// An owner: its name and cluster.
pub(super) type Owner = (String, Option<String>);

impl<'p> Servers<'p> {
    pub(in crate::report) fn new(prices: &'p [Price]) -> Self {
        let (owners, unjoined, demand) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { owners, unjoined, demand, held: Summed::new(prices), all_ms: HashMap::new() }
    }

    /// With these rows, of whole windows. A window is left out where less than half of it is known: the GPUs were held all
    /// the time, and tokens are missing.
    pub(in crate::report) fn report(&mut self, rows: &[Achieved]) {
        let mut windows: BTreeMap<InWindow<'_>, Vec<&Achieved>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.served.is_some()) {
            let owner = (row.cluster.as_deref(), row.owner.as_deref());
            windows.entry((owner.0, owner.1, row.start_ms, row.end_ms)).or_default().push(row);
        }
        for ((cluster, owner, start, end), rows) in windows {
            let covered = rows.iter().map(|row| row.covered_ms).max().unwrap_or_default();
            match owner {
                None => rows.into_iter().for_each(|row| self.leave(row)),
                Some(owner) => {
                    let clusters = self.owners.entry(owner.to_owned()).or_default();
                    let reported = clusters.entry(cluster.map(str::to_owned)).or_default();
                    reported.models.extend(rows.iter().filter_map(|row| row.model.clone()));
                    if covered >= (end - start) / 2 {
                        reported.windows.insert((start, end));
                        for row in rows {
                            reported.count(row);
                            let model = row.model.iter();
                            model.for_each(|model| replicas::add(self.demand.entry(model.clone()).or_default(), row));
                        }
                    }
                }
            }
        }
    }

    /// Did none report anything?
    pub(in crate::report) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.unjoined.is_empty()
    }

    fn leave(&mut self, row: &Achieved) {
        let who = (row.cluster.clone(), row.subject.clone(), row.model.clone());
        let counted = self.unjoined.entry(who).or_default();
        for (kind, (amount, _)) in amounts(row) {
            *counted.entry(*kind).or_default() += amount;
        }
    }

    /// The server that this owner is. Where its series or those of its GPUs name no cluster, it is the one of that name.
    fn owner(&self, cluster: Option<&str>, name: Option<&str>) -> Option<Owner> {
        let (name, clusters) = self.owners.get_key_value(name?)?;
        let exact = clusters.keys().find(|known| known.as_deref() == cluster);
        let only =
            || clusters.keys().next().filter(|only| clusters.len() == 1 && (cluster.is_none() || only.is_none()));
        exact.or_else(only).map(|cluster| (name.clone(), cluster.clone()))
    }

    /// Where servers hold GPUs, of these items, which are all of the period.
    pub(in crate::report) fn nodes(&mut self, items: &[Item<'_>]) -> BTreeSet<String> {
        self.owners.values_mut().for_each(join);
        let mut nodes = BTreeSet::new();
        for item in items.iter().filter(|item| is_held(item.class)) {
            let Some(owner) = self.owner(item.cluster.as_deref(), item.owner.as_deref()) else { continue };
            *self.all_ms.entry(owner).or_default() += item.ms;
            if !nodes.contains(&item.node) {
                nodes.insert(item.node.clone());
            }
        }
        nodes
    }

    /// With the time in this hour of those that reported in it.
    pub(in crate::report) fn add(&mut self, mut hour: RollUp) {
        let cluster = hour.cluster.clone();
        hour.held.retain_mut(|held| {
            let owner = self.owner(cluster.as_deref(), held.allocation.owner.as_deref());
            let Some(reported) = owner.and_then(|(name, cluster)| self.owners.get(&name)?.get(&cluster)) else {
                return false;
            };
            held.parts.retain(|part| {
                let span = part.stretches.first().zip(part.stretches.last());
                is_held(part.class) && span.is_some_and(|(first, last)| reported.has(first.start_ms, last.end_ms))
            });
            !held.parts.is_empty()
        });
        self.held.add(hour);
    }

    /// The section; `None` where no server reported anything.
    pub(in crate::report) fn section(mut self) -> Option<Serving> {
        let items = std::mem::replace(&mut self.held, Summed::new(&[])).items();
        let mut by_owner: HashMap<Owner, Vec<&Item<'_>>> = HashMap::new();
        for item in &items {
            let owner = self.owner(item.cluster.as_deref(), item.owner.as_deref());
            owner.into_iter().for_each(|owner| by_owner.entry(owner).or_default().push(item));
        }
        // Servers that do not name their model may serve any: each stands alone.
        let mut by_model: BTreeMap<(Vec<String>, Option<Owner>), Vec<Used<'_, '_>>> = BTreeMap::new();
        for (name, clusters) in &self.owners {
            for (cluster, reported) in clusters {
                let owner = (name.clone(), cluster.clone());
                let items = by_owner.remove(&owner).unwrap_or_default();
                let all_ms = self.all_ms.get(&owner).copied().unwrap_or_default();
                let models: Vec<String> = reported.models.iter().cloned().collect();
                let alone = models.is_empty().then(|| owner.clone());
                by_model.entry((models, alone)).or_default().push(Used { owner, reported, items, all_ms });
            }
        }
        let every = Work::of(by_model.values().flatten());
        // Replicas are compared where a model has a line of its own, and no other line has it too.
        let lines = |model: &String| by_model.keys().filter(|(models, _)| models.contains(model)).count();
        let demand = |models: &[String]| match models {
            [model] if lines(model) == 1 => self.demand.get(model).cloned().unwrap_or_default(),
            _ => Demand::new(),
        };
        let line = |((models, _), used): (&(Vec<String>, _), &Vec<Used<'_, '_>>)| {
            ServedModel::of(models.clone(), used, demand(models))
        };
        let mut models: Vec<ServedModel> = by_model.iter().map(line).collect();
        models.sort_by_key(|model| std::cmp::Reverse(model.work.held.gpu_ms));
        let unjoined = self.unjoined.into_iter();
        let unjoined: Vec<UnjoinedServer> = unjoined
            .map(|((cluster, subject, model), served)| UnjoinedServer { cluster, subject, model, served })
            .collect();
        let without_a_request = every.class(Class::NoDemand);
        (!models.is_empty() || !unjoined.is_empty()).then_some(Serving {
            held: every.held,
            without_a_request,
            models,
            unjoined,
        })
    }
}

/// Where an owner's series name its cluster for a part of the period alone, all of them are of that cluster.
fn join(clusters: &mut Clusters) {
    if clusters.len() != 2 {
        return;
    }
    let Some(unnamed) = clusters.remove(&None) else { return };
    for named in clusters.values_mut() {
        named.models.extend(unnamed.models.iter().cloned());
        named.counters.extend(unnamed.counters.iter().cloned());
        named.windows.extend(&unnamed.windows);
        for (latency, told) in &unnamed.timed {
            named.timed.entry(*latency).or_default().add(&told.histogram, told.requests);
        }
        unnamed.counted.iter().for_each(|(kind, amount)| *named.counted.entry(*kind).or_default() += amount);
    }
}

/// What the server counted.
fn amounts(row: &Achieved) -> impl Iterator<Item = (&Served, &(f64, String))> {
    row.served.iter().flat_map(|Counted { amounts, .. }| amounts)
}

impl Reported {
    fn count(&mut self, row: &Achieved) {
        for (kind, (amount, metric)) in amounts(row) {
            *self.counted.entry(*kind).or_default() += amount;
            if !self.counters.contains(metric) {
                self.counters.insert(metric.clone());
            }
        }
        if let Some(Counted { amounts, latencies, .. }) = &row.served {
            let requests = amounts.get(&Served::Requests).map_or(0.0, |(amount, _)| *amount);
            let add =
                |(latency, told): (&Latency, &Histogram)| self.timed.entry(*latency).or_default().add(told, requests);
            latencies.iter().for_each(add);
        }
    }

    /// Is this time in one of its windows? Hours are cut at the borders of windows.
    fn has(&self, start: TimeMs, end: TimeMs) -> bool {
        self.windows.range(..=(start, TimeMs::MAX)).next_back().is_some_and(|window| end <= window.1)
    }

    /// Where a server of several models counts no tokens, its requests are not known: each model of an ensemble counts a request
    /// again.
    fn is_ensemble(&self) -> bool {
        self.models.len() > 1 && !self.counted.contains_key(&Served::GenerationTokens)
    }

    /// How long requests took.
    pub(super) fn timed(&self) -> impl Iterator<Item = (&Latency, &Timed)> {
        self.timed.iter().filter(|_| !self.is_ensemble())
    }

    /// Milliseconds of the windows that count.
    pub(super) fn known_ms(&self) -> i64 {
        self.windows.iter().map(|(start, end)| end - start).sum()
    }

    /// What was counted.
    pub(super) fn known(&self) -> impl Iterator<Item = (Served, f64)> {
        let is_ensemble = self.is_ensemble();
        let counted = self.counted.iter().map(|(kind, amount)| (*kind, *amount));
        counted.filter(move |(kind, _)| !is_ensemble || !matches!(kind, Served::Requests | Served::FailedRequests))
    }
}
