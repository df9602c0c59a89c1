//! The work of inference servers, with the GPU time that they held: tokens and requests, what they cost and drew.

mod collected;
mod figures;
mod latency;
mod replicas;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

pub(super) use collected::Servers;
use collected::{Owner, Reported};
pub use figures::money;
use figures::{joules, per_million, per_second};
use latency::Timed;
pub use latency::{Attainment, Measured, Slo, Within, shown};
use replicas::Demand;
pub use replicas::Replicas;

use super::build::Ledger;
use super::summed::{Item, Summed};
use super::{Amount, ClassAmount, Terms, units};
use crate::wildcard::matches;
use goodput_verdict::{Achieved, Class, Interval, Latency, RollUp, Served};

/// The section `serving` of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServingTerms {
    /// What requests are to keep.
    pub slo: Vec<Slo>,
    /// By pattern of the model's name, how many replicas are kept whatever the load.
    pub min_replicas: Vec<(String, u32)>,
}

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
    /// How many of them were needed; null where there never were two.
    pub replicas: Option<Replicas>,
    /// What `replicas` is read from.
    #[serde(skip)]
    demand: Demand,
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
    timed: BTreeMap<Latency, Timed>,
    /// Milliseconds of servers in which their counters are known.
    #[serde(skip)]
    known_ms: i64,
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

/// A server, with what it reported and the time that it held meanwhile.
#[derive(Debug)]
struct Used<'a, 'p> {
    owner: Owner,
    reported: &'a Reported,
    items: Vec<&'a Item<'p>>,
    /// GPU-milliseconds held in the whole period.
    all_ms: i64,
}

/// What servers served in a window, by what was stored of it.
pub(crate) fn of_window(rows: &[Achieved], intervals: &[Interval], terms: &Terms) -> Option<Serving> {
    if rows.iter().all(|row| row.served.is_none()) {
        return None;
    }
    let mut servers = Servers::new(&terms.prices);
    servers.report(rows);
    servers.nodes(&Summed::of(intervals, &terms.prices));
    RollUp::fold(intervals).into_iter().for_each(|hour| servers.add(hour));
    servers.section().map(|serving| serving.with_terms(&terms.serving))
}

impl Serving {
    /// With what these terms say of requests and replicas.
    #[must_use]
    pub(super) fn with_terms(mut self, terms: &ServingTerms) -> Self {
        for model in &mut self.models {
            let slo = fitting(&terms.slo, |slo| &slo.model, &model.models);
            if let Some(slo) = slo {
                model.servers.iter_mut().for_each(|server| server.work.slo = slo.judge(&server.work));
                model.work.slo = slo.judge_all(&model.servers, &model.work);
            }
            // One that fails leaves another, where requests have limits.
            let least = fitting(&terms.min_replicas, |(model, _)| model, &model.models).map(|(_, least)| *least);
            let least = least.unwrap_or(if slo.is_some() { 2 } else { 1 });
            model.replicas = Replicas::of(&model.demand, least, &model.work);
        }
        self
    }

    /// Is any latency known?
    #[must_use]
    pub fn has_latencies(&self) -> bool {
        self.models.iter().any(|model| !model.work.latencies.is_empty())
    }

    /// Did any model have several replicas?
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.models.iter().any(|model| model.replicas.is_some())
    }

    /// Does any model have limits?
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.models.iter().any(|model| model.work.slo.is_some())
    }
}

/// The entry that is meant for these models: the first whose pattern fits all of their names.
fn fitting<'t, T>(entries: &'t [T], pattern: fn(&T) -> &String, models: &[String]) -> Option<&'t T> {
    let is_of = |entry: &&T| match models {
        [] => matches(pattern(entry), ""),
        _ => models.iter().all(|model| matches(pattern(entry), model)),
    };
    entries.iter().find(is_of)
}

impl ServedModel {
    fn of(models: Vec<String>, used: &[Used<'_, '_>], demand: Demand) -> Self {
        let server = |used: &Used<'_, '_>| {
            let (owner, cluster) = used.owner.clone();
            Server { cluster, owner, work: Work::of([used]) }
        };
        let mut servers: Vec<Server> = used.iter().map(server).collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.work.held.gpu_ms));
        Self { models, work: Work::of(used), servers, replicas: None, demand }
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
        let (mut counters, mut timed, mut known_ms) = (BTreeSet::new(), BTreeMap::<Latency, Timed>::new(), 0);
        for used in used {
            used.items.iter().for_each(|item| ledger.add(item));
            used.reported.known().for_each(|(kind, amount)| *served.entry(kind).or_default() += amount);
            counters.extend(used.reported.counters.iter().cloned());
            for (latency, told) in used.reported.timed() {
                timed.entry(*latency).or_default().add(&told.histogram, told.requests);
            }
            known_ms += used.reported.known_ms();
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
            latencies: timed.iter().filter_map(|(one, told)| Some((*one, Measured::of(&told.histogram)?))).collect(),
            slo: None,
            timed,
            known_ms,
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
