//! The work of inference servers, with the GPU time that they held: tokens and requests, what they cost and drew.

mod figures;
mod latency;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

pub use figures::money;
use figures::{joules, per_million, per_second};
pub use latency::{Attainment, Measured, Slo, Within, shown};

use super::build::{Ledger, is_held};
use super::summed::{Item, Summed};
use super::{Amount, ClassAmount, Price, units};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, Class, Counted, Histogram, Latency, RollUp, Served};

/// The work of inference servers. It is never part of time goodput.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Serving {
    /// GPU time that the servers held in the hours in which their counters are known; share of all that they held.
    pub held: Amount,
    /// The part of it that was judged `no_demand`: as far as is known, they had no request. Shares are of `held`.
    pub without_a_request: Amount,
    /// By model, the most GPU time first.
    pub models: Vec<ServedModel>,
    /// Servers whose owner held no GPU that is known of, or that fit two owners.
    pub unjoined: Vec<UnjoinedServer>,
}

/// The servers of one model. A server of several models in the period has a line with all of their names, and one that names
/// none has a line of its own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServedModel {
    /// The names that the servers give their models; empty where they give none.
    pub models: Vec<String>,
    /// All of them together.
    #[serde(flatten)]
    pub work: Work,
    /// Each of them, the most GPU time first.
    pub servers: Vec<Server>,
}

/// One server: what one owner of GPUs runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Server {
    /// The cluster of the owner's GPUs; null where their series name none.
    pub cluster: Option<String>,
    /// Who held the GPUs.
    pub owner: String,
    /// What it did.
    #[serde(flatten)]
    pub work: Work,
}

/// GPU time, and what was served with it. All figures are about the hours in which the server's counters are known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Work {
    /// GPU time held; share of all that was held by these servers in the period.
    pub held: Amount,
    /// What it went into, in the order of classes; shares are of `held`.
    pub classes: Vec<ClassAmount>,
    /// What was counted of requests, prompts, cached prompts and answers, by its name; what is not counted is not there.
    pub served: BTreeMap<Served, f64>,
    /// The counters that told it.
    pub counters: BTreeSet<String>,
    /// Tokens of answers per GPU-second held; null where they are not counted or nothing was held.
    pub generation_tokens_per_gpu_second: Option<f64>,
    /// The same per GPU-second that was productive.
    pub generation_tokens_per_productive_gpu_second: Option<f64>,
    /// Money for the time held, per million tokens of answers; null where some of the time has no price, or prices are in two
    /// currencies.
    pub cost_per_million_generation_tokens: Option<Money>,
    /// The same for the productive time alone.
    pub productive_cost_per_million_generation_tokens: Option<Money>,
    /// Money for the time held, per million tokens of prompts and answers.
    pub cost_per_million_tokens: Option<Money>,
    /// Energy that the GPUs drew in the time held, per token of an answer; null where less than 90 % of it is known.
    pub joules_per_generation_token: Option<f64>,
    /// How long requests took, by what is measured.
    pub latencies: BTreeMap<Latency, Measured>,
    /// The requests that kept the limits of their model; null where it has none (`serving.slo`) or no request is known.
    pub slo: Option<Attainment>,
    /// What `latencies` are read from.
    #[serde(skip)]
    histograms: BTreeMap<Latency, Histogram>,
}

/// Classes that have a column of the report.
pub(super) const SHOWN: [Class; 4] = [Class::Productive, Class::NoDemand, Class::ServingHost, Class::ColdStart];
/// Most servers of a model that the report lists; the JSON form has the others.
pub(super) const MAX_SERVERS: usize = 10;

/// Money in one currency.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Money {
    /// Three letters (ISO 4217).
    pub currency: String,
    /// In the currency.
    pub amount: f64,
}

/// A server that could not be joined to GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnjoinedServer {
    /// The cluster of the series; null where they name none.
    pub cluster: Option<String>,
    /// Its pod or owner, else the target of the scrape.
    pub subject: String,
    /// The model; null where it is not named.
    pub model: Option<String>,
    /// What it served in the period.
    pub served: BTreeMap<Served, f64>,
}

/// What one server reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    models: BTreeSet<String>,
    counted: BTreeMap<Served, f64>,
    latencies: BTreeMap<Latency, Histogram>,
    counters: BTreeSet<String>,
    /// The windows that count: at least half of each is known.
    windows: BTreeSet<(TimeMs, TimeMs)>,
}

/// What one owner of GPUs reported, by its cluster.
type Clusters = BTreeMap<Option<String>, Reported>;

/// What servers reported, and the GPU time that they held in the hours in which they did.
#[derive(Debug)]
pub(super) struct Servers<'p> {
    owners: BTreeMap<String, Clusters>,
    unjoined: BTreeMap<Stranger, BTreeMap<Served, f64>>,
    held: Summed<'p>,
    /// GPU-milliseconds held in the whole period.
    all_ms: HashMap<Owner, i64>,
}

/// A model of a server that could not be joined: the cluster of the series, its subject and the model.
type Stranger = (Option<String>, String, Option<String>);

/// What one owner, or none, reported in a window: cluster, owner, start and end.
type InWindow<'a> = (Option<&'a str>, Option<&'a str>, TimeMs, TimeMs);

/// An owner: its name and cluster.
type Owner = (String, Option<String>);

impl<'p> Servers<'p> {
    pub(super) fn new(prices: &'p [Price]) -> Self {
        let (owners, unjoined) = (BTreeMap::new(), BTreeMap::new());
        Self { owners, unjoined, held: Summed::new(prices), all_ms: HashMap::new() }
    }

    /// With these rows, of whole windows. A window is left out where less than half of it is known: the GPUs were held all
    /// the time, and tokens are missing.
    pub(super) fn report(&mut self, rows: &[Achieved]) {
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
                        rows.into_iter().for_each(|row| reported.count(row));
                    }
                }
            }
        }
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
    pub(super) fn nodes(&mut self, items: &[Item<'_>]) -> BTreeSet<String> {
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
    pub(super) fn add(&mut self, mut hour: RollUp) {
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
    pub(super) fn section(mut self) -> Option<Serving> {
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
        let mut models: Vec<ServedModel> =
            by_model.into_iter().map(|((models, _), used)| ServedModel::of(models, &used)).collect();
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
        unnamed.latencies.iter().for_each(|(latency, told)| named.latencies.entry(*latency).or_default().add(told));
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
        for (latency, (histogram, _)) in row.served.iter().flat_map(|served| &served.latencies) {
            self.latencies.entry(*latency).or_default().add(histogram);
        }
    }

    /// Is this time in one of its windows? Hours are cut at the borders of windows.
    fn has(&self, start: TimeMs, end: TimeMs) -> bool {
        self.windows.range(..=(start, TimeMs::MAX)).next_back().is_some_and(|window| end <= window.1)
    }

    /// What was counted. Where a server of several models counts no tokens, its requests are not known: each model of an
    /// ensemble counts a request again.
    fn known(&self) -> impl Iterator<Item = (Served, f64)> {
        let is_ensemble = self.models.len() > 1 && !self.counted.contains_key(&Served::GenerationTokens);
        let counted = self.counted.iter().map(|(kind, amount)| (*kind, *amount));
        counted.filter(move |(kind, _)| !is_ensemble || !matches!(kind, Served::Requests | Served::FailedRequests))
    }
}

/// A server, with what it reported and the time that it held meanwhile.
#[derive(Debug)]
struct Used<'a, 'p> {
    owner: Owner,
    reported: &'a Reported,
    items: Vec<&'a Item<'p>>,
    all_ms: i64,
}

impl Serving {
    /// With what these limits say of requests.
    #[must_use]
    pub(super) fn with_limits(mut self, slo: &[Slo]) -> Self {
        for model in &mut self.models {
            let Some(slo) = Slo::of(slo, &model.models) else { continue };
            model.servers.iter_mut().for_each(|server| server.work.slo = slo.judge(&server.work));
            model.work.slo = slo.judge_all(&model.servers, &model.work);
        }
        self
    }

    /// Is any latency known?
    #[must_use]
    pub fn has_latencies(&self) -> bool {
        self.models.iter().any(|model| !model.work.latencies.is_empty())
    }

    /// Does any model have limits?
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.models.iter().any(|model| model.work.slo.is_some())
    }
}

impl ServedModel {
    fn of(models: Vec<String>, used: &[Used<'_, '_>]) -> Self {
        let server = |used: &Used<'_, '_>| {
            let (owner, cluster) = used.owner.clone();
            Server { cluster, owner, work: Work::of([used]) }
        };
        let mut servers: Vec<Server> = used.iter().map(server).collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.work.held.gpu_ms));
        Self { models, work: Work::of(used), servers }
    }

    /// The names of the models, for the report.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.servers[..] {
            [server] if self.models.is_empty() => format!("not named, of {}", server.owner),
            _ => self.models.join(", "),
        }
    }
}

impl Work {
    fn of<'i, 'p: 'i>(used: impl IntoIterator<Item = &'i Used<'i, 'p>>) -> Self {
        let (mut ledger, mut served, mut all_ms) = (Ledger::default(), BTreeMap::new(), 0);
        let (mut counters, mut histograms) = (BTreeSet::new(), BTreeMap::<Latency, Histogram>::new());
        for used in used {
            used.items.iter().for_each(|item| ledger.add(item));
            used.reported.known().for_each(|(kind, amount)| *served.entry(kind).or_default() += amount);
            counters.extend(used.reported.counters.iter().cloned());
            for (latency, told) in &used.reported.latencies {
                histograms.entry(*latency).or_default().add(told);
            }
            all_ms += used.all_ms;
        }
        let (held, productive) = (ledger.allocated(), ledger.get(Class::Productive));
        let class = |class: Class| {
            let sum = ledger.get(class);
            ClassAmount { class, amount: sum.amount(held.ms), interval: sum.bounds(held.ms) }
        };
        let classes = Class::ALL.iter().copied().map(class).filter(|class| class.amount.gpu_ms > 0).collect();
        let answers = served.get(&Served::GenerationTokens).copied();
        let tokens = answers.zip(served.get(&Served::PromptTokens)).map(|(answers, prompts)| answers + prompts);
        let (held, productive) = (held.amount(all_ms), productive.amount(held.ms));
        Self {
            classes,
            counters,
            generation_tokens_per_gpu_second: per_second(answers, &held),
            generation_tokens_per_productive_gpu_second: per_second(answers, &productive),
            cost_per_million_generation_tokens: per_million(answers, &held),
            productive_cost_per_million_generation_tokens: per_million(answers, &productive),
            cost_per_million_tokens: per_million(tokens, &held),
            joules_per_generation_token: joules(answers, &held),
            latencies: histograms.iter().filter_map(|(one, told)| Some((*one, Measured::of(told)?))).collect(),
            slo: None,
            histograms,
            served,
            held,
        }
    }

    /// What went into a class; shares are of the time held.
    #[must_use]
    pub fn class(&self, class: Class) -> Amount {
        let found = self.classes.iter().find(|one| one.class == class);
        found.map_or_else(|| Amount::of(0, self.held.gpu_ms), |one| one.amount.clone())
    }

    /// What went into classes without a column.
    #[must_use]
    pub fn rest(&self) -> Amount {
        let others = self.classes.iter().filter(|one| !SHOWN.contains(&one.class));
        Amount::of(others.map(|one| one.amount.gpu_ms).sum(), self.held.gpu_ms)
    }

    /// How much of a kind was counted, for the report.
    #[must_use]
    pub fn count(&self, served: Served) -> String {
        units::count(self.served.get(&served).copied())
    }
}

#[cfg(test)]
mod tests;
