//! What inference servers served, beside the GPU time that they held: tokens and requests, what they cost and drew.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::build::{Ledger, is_held};
use super::summed::{Item, Summed};
use super::text::{self, UNKNOWN};
use super::{Amount, ClassAmount, Cost, LEAST_COVERAGE, MICROS, Price, ratio, units};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, Class, RollUp, Served};

/// What inference servers served. Never part of time goodput.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Serving {
    /// All GPU time that the servers held in the hours in which they told what they served; share of all that they held.
    pub held: Amount,
    /// The part of it in which they had no request; shares are of `held`.
    pub without_a_request: Amount,
    /// By model, the most GPU time first.
    pub models: Vec<ServedModel>,
    /// Servers whose owner held no GPU that is known of, or that fit two owners.
    pub unjoined: Vec<Unjoined>,
}

/// The servers of one model. A server of several models has a line with all of their names: what each of them held is not
/// known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServedModel {
    /// The names that the servers give their models; empty where they give none.
    pub models: Vec<String>,
    /// All of them together.
    #[serde(flatten)]
    pub work: Work,
    /// Each of them, by cluster and name.
    pub servers: Vec<Server>,
}

/// One server: what one owner of GPUs runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Server {
    /// The cluster of the owner; null where series name none.
    pub cluster: Option<String>,
    /// Who held the GPUs.
    pub owner: String,
    /// What it did.
    #[serde(flatten)]
    pub work: Work,
}

/// What was held and what was served with it. All figures are about the hours in which a server told what it served.
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
    /// Money for the time held, per million tokens of answers, by currency; empty where some of the time has no price.
    pub cost_per_million_generation_tokens: Vec<Money>,
    /// The same for the productive time alone.
    pub productive_cost_per_million_generation_tokens: Vec<Money>,
    /// Money for the time held, per million tokens of prompts and answers.
    pub cost_per_million_tokens: Vec<Money>,
    /// Energy that the GPUs drew in the time held, per token of an answer; null where less than 90 % of it is known.
    pub joules_per_generation_token: Option<f64>,
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
pub struct Unjoined {
    /// The cluster of the series; null where they name none.
    pub cluster: Option<String>,
    /// Its pod or owner, else the target of the scrape.
    pub subject: String,
    /// The model; null where it is not named.
    pub model: Option<String>,
    /// What it served in the period.
    pub served: BTreeMap<Served, f64>,
}

/// An owner: its cluster and name.
type Owner = (Option<String>, String);

/// What servers told, and the GPU time that they held in the hours in which they did.
#[derive(Debug)]
pub(super) struct Servers<'a, 'p> {
    rows: Vec<&'a Achieved>,
    /// When each of them told something.
    told: HashMap<Owner, BTreeSet<(TimeMs, TimeMs)>>,
    held: Summed<'p>,
}

impl<'a, 'p> Servers<'a, 'p> {
    /// No time yet.
    pub(super) fn of(achieved: &'a [Achieved], prices: &'p [Price]) -> Self {
        let rows: Vec<&Achieved> = achieved.iter().filter(|row| row.served.is_some()).collect();
        let mut told: HashMap<Owner, BTreeSet<(TimeMs, TimeMs)>> = HashMap::new();
        for row in &rows {
            let Some(owner) = owner_of(row) else { continue };
            told.entry(owner).or_default().insert((row.start_ms, row.end_ms));
        }
        Self { rows, told, held: Summed::new(prices) }
    }

    /// Does one of them hold what this item is about?
    pub(super) fn hold(&self, item: &Item<'_>) -> bool {
        let owner = item.owner.as_ref().map(|owner| (item.cluster.clone(), owner.clone()));
        owner.is_some_and(|owner| self.told.contains_key(&owner))
    }

    /// With the time in this hour of those that told what they served in it.
    pub(super) fn add(&mut self, mut hour: RollUp) {
        let cluster = hour.cluster.clone();
        hour.held.retain_mut(|held| {
            let owner = held.allocation.owner.as_ref().map(|owner| (cluster.clone(), owner.clone()));
            let Some(windows) = owner.and_then(|owner| self.told.get(&owner)) else { return false };
            held.parts.retain(|part| {
                let span = part.stretches.first().zip(part.stretches.last());
                // Hours are cut at the borders of windows.
                let is_told = |start, end| windows.iter().any(|window| window.0 <= start && end <= window.1);
                is_held(part.class) && span.is_some_and(|(first, last)| is_told(first.start_ms, last.end_ms))
            });
            !held.parts.is_empty()
        });
        self.held.add(hour);
    }

    /// The section; `None` where no server told anything. `all` is what they held in the whole period.
    pub(super) fn section(self, all: &HashMap<Owner, i64>) -> Option<Serving> {
        let items = self.held.items();
        let mut by_owner: BTreeMap<Owner, Told<'_, 'p>> = BTreeMap::new();
        let mut unjoined: BTreeMap<(Option<String>, String, Option<String>), Unjoined> = BTreeMap::new();
        for row in &self.rows {
            match owner_of(row) {
                Some(owner) => by_owner.entry(owner).or_default().rows.push(row),
                None => {
                    let key = (row.cluster.clone(), row.subject.clone(), row.model.clone());
                    let (cluster, subject, model) = key.clone();
                    let entry = unjoined.entry(key);
                    let entry = entry.or_insert(Unjoined { cluster, subject, model, served: BTreeMap::new() });
                    row.served.into_iter().for_each(|kind| *entry.served.entry(kind).or_default() += row.amount);
                }
            }
        }
        for item in &items {
            let owner = item.owner.clone().map(|owner| (item.cluster.clone(), owner));
            if let Some(told) = owner.and_then(|owner| by_owner.get_mut(&owner)) {
                told.items.push(item);
            }
        }
        for (owner, told) in &mut by_owner {
            told.all_ms = all.get(owner).copied().unwrap_or_default();
        }
        let mut by_model: BTreeMap<Vec<String>, Vec<(Owner, Told<'_, 'p>)>> = BTreeMap::new();
        for (owner, told) in by_owner {
            by_model.entry(told.models()).or_default().push((owner, told));
        }
        let every = Told::of(by_model.values().flatten().map(|(_, told)| told)).work();
        let mut models: Vec<ServedModel> =
            by_model.into_iter().map(|(models, servers)| ServedModel::of(models, servers)).collect();
        models.sort_by_key(|model| std::cmp::Reverse(model.work.held.gpu_ms));
        (!self.rows.is_empty()).then(|| Serving {
            without_a_request: every.of(Class::NoDemand),
            held: every.held,
            models,
            unjoined: unjoined.into_values().collect(),
        })
    }
}

fn owner_of(row: &Achieved) -> Option<Owner> {
    row.owner.clone().map(|owner| (row.cluster.clone(), owner))
}

/// All that servers told, and the time that they held meanwhile.
#[derive(Clone, Debug, Default)]
struct Told<'i, 'p> {
    rows: Vec<&'i Achieved>,
    items: Vec<&'i Item<'p>>,
    all_ms: i64,
}

impl<'i, 'p> Told<'i, 'p> {
    fn of<'t>(all: impl Iterator<Item = &'t Self>) -> Self
    where
        'i: 't,
        'p: 't,
    {
        all.fold(Self::default(), |mut sum, told| {
            sum.rows.extend(&told.rows);
            sum.items.extend(&told.items);
            sum.all_ms += told.all_ms;
            sum
        })
    }

    fn models(&self) -> Vec<String> {
        let named: BTreeSet<&String> = self.rows.iter().filter_map(|row| row.model.as_ref()).collect();
        named.into_iter().cloned().collect()
    }

    fn work(&self) -> Work {
        let ledger = Ledger::of(self.items.iter().copied());
        let (held, productive) = (ledger.allocated(), ledger.get(Class::Productive));
        let mut served: BTreeMap<Served, f64> = BTreeMap::new();
        for (kind, row) in self.rows.iter().filter_map(|row| Some((row.served?, row))) {
            *served.entry(kind).or_default() += row.amount;
        }
        let class = |class: Class| {
            let sum = ledger.get(class);
            ClassAmount { class, amount: sum.amount(held.ms), interval: sum.bounds(held.ms) }
        };
        let classes = Class::ALL.iter().copied().map(class).filter(|class| class.amount.gpu_ms > 0).collect();
        let answers = served.get(&Served::GenerationTokens).copied();
        let tokens = answers.zip(served.get(&Served::PromptTokens)).map(|(answers, prompts)| answers + prompts);
        let (held, productive) = (held.amount(self.all_ms), productive.amount(held.ms));
        Work {
            classes,
            counters: self.rows.iter().map(|row| row.metric.clone()).collect(),
            generation_tokens_per_gpu_second: per_second(answers, &held),
            generation_tokens_per_productive_gpu_second: per_second(answers, &productive),
            cost_per_million_generation_tokens: per_million(answers, &held),
            productive_cost_per_million_generation_tokens: per_million(answers, &productive),
            cost_per_million_tokens: per_million(tokens, &held),
            joules_per_generation_token: joules(answers, &held),
            served,
            held,
        }
    }
}

impl ServedModel {
    fn of(models: Vec<String>, servers: Vec<(Owner, Told<'_, '_>)>) -> Self {
        let work = Told::of(servers.iter().map(|(_, told)| told)).work();
        let server = |((cluster, owner), told): (Owner, Told<'_, '_>)| Server { cluster, owner, work: told.work() };
        Self { models, work, servers: servers.into_iter().map(server).collect() }
    }

    /// The names of the models, for the report.
    #[must_use]
    pub fn name(&self) -> String {
        if self.models.is_empty() { "not named".to_owned() } else { self.models.join(", ") }
    }
}

impl Work {
    /// What went into a class; shares are of the time held.
    #[must_use]
    pub fn of(&self, class: Class) -> Amount {
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

/// Money for the report.
#[must_use]
pub fn money(all: &[Money]) -> String {
    let one = |money: &Money| format!("{} {}", text::money(money.amount), money.currency);
    if all.is_empty() { UNKNOWN.to_owned() } else { all.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn per_second(tokens: Option<f64>, time: &Amount) -> Option<f64> {
    Some(tokens? / (time.gpu_ms as f64 / 1000.0)).filter(|rate| rate.is_finite())
}

/// In each currency, where all of the time has a price in one of them and there are tokens.
fn per_million(tokens: Option<f64>, time: &Amount) -> Vec<Money> {
    let priced: i64 = time.cost.iter().map(|cost| cost.priced_ms).sum();
    let Some(tokens) = tokens.filter(|tokens| *tokens > 0.0 && priced == time.gpu_ms) else { return Vec::new() };
    // Millionths of the currency over tokens are the currency over millions of tokens.
    let money = |Cost { currency, micros, .. }: &Cost| Money {
        currency: currency.clone(),
        amount: *micros as f64 / MICROS / tokens * 1e6,
    };
    time.cost.iter().map(money).collect()
}

/// Where energy is not known for a part of the time, it is taken to have drawn as much as the rest.
fn joules(tokens: Option<f64>, time: &Amount) -> Option<f64> {
    let (tokens, drawn) = (tokens.filter(|tokens| *tokens > 0.0)?, time.energy?);
    let known = ratio(drawn.known_ms, time.gpu_ms).filter(|known| *known >= LEAST_COVERAGE)?;
    Some(drawn.mj as f64 / 1000.0 / known / tokens)
}

#[cfg(test)]
mod tests;
