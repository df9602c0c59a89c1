//! What there is: nodes, GPUs, and the analyzer itself.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::parameters::{CLUSTER, CURSOR, LIMIT, NODE, Parameter};
use super::query::Asked;
use super::results::MAX_HOURS;
use super::route::{Reads, Route};
use super::table::Table;
use super::{Answer, Page};
use crate::app::conditions::Finding;
use crate::app::{App, Outcomes};
use goodput_exposition::sample::TimeMs;
use goodput_store::{Embedded, Results};
use goodput_verdict::{Allocation, Class, Part, RollUp};

pub(super) fn routes<S: Embedded + Clone + 'static>(table: Table<S>) -> Table<S> {
    table
        .get(Route::new("/health", "How the analyzer is").reads(Reads::Little), health)
        .get(
            Route::new("/conditions", "Conditions of the analyzer that hold").reads(Reads::Memory).asks(LIST),
            conditions,
        )
        .get(Route::new("/deliveries", "Where reports are delivered to").reads(Reads::Memory).asks(LIST), deliveries)
        .get(Route::new("/sources", "Sources of samples since the start").reads(Reads::Memory).asks(LIST), sources)
        .get(Route::new("/nodes", "Nodes with verdicts").hours(MAX_HOURS).asks(&[LIMIT, CURSOR]), nodes)
        .get(Route::new("/gpus", "GPUs with verdicts").hours(MAX_HOURS).asks(&[CLUSTER, NODE, LIMIT, CURSOR]), gpus)
}

const LIST: &[Parameter] = &[LIMIT, CURSOR];

/// A place that reports are delivered to.
#[derive(Serialize, JsonSchema)]
struct Delivery {
    /// Its name in the configuration.
    destination: String,
    /// When the last delivery was taken, Unix milliseconds, UTC; null where none was since the start.
    last_success_ms: Option<TimeMs>,
    /// Since the start.
    delivered: u64,
    /// Attempts since the start that failed, and those that were refused.
    failed: u64,
    /// Did the last attempt fail?
    overdue: bool,
    /// Messages about the newest week that are still to be sent.
    pending: u64,
    /// Messages about the newest week that are held back by `at_most`; null where the destination has no messages.
    held: Option<u64>,
}

/// A source of samples.
#[derive(Serialize, JsonSchema)]
struct Source {
    /// Its name: job and target.
    source: String,
    /// Time of its newest sample, Unix milliseconds, UTC.
    last_sample_ms: TimeMs,
}

/// How the analyzer is.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// The program's.
    version: &'static str,
    /// Is it about to end?
    stopping: bool,
    /// Every minute that ends here or before is judged, Unix milliseconds, UTC; null before the first round.
    judged_until_ms: Option<TimeMs>,
    /// Hours that end here or before are final, unless samples come in late, Unix milliseconds, UTC; null before the
    /// first round.
    final_until_ms: Option<TimeMs>,
    /// Since the start.
    stored_samples: u64,
    /// Since the start.
    dropped_samples: u64,
    /// What an operator has to know, worst first, whether it holds or not.
    conditions: Vec<Finding>,
}

/// A node with verdicts in the time asked for.
#[derive(Serialize, JsonSchema)]
struct Node {
    /// Its cluster; null where its series name none, and in verdicts of earlier releases.
    cluster: Option<String>,
    /// Its name.
    node: String,
    #[serde(flatten)]
    members: Members,
}

#[derive(Default, Serialize, JsonSchema)]
struct Members {
    /// Its GPUs, by UUID.
    gpus: BTreeSet<String>,
    /// Who held them.
    owners: BTreeSet<String>,
}

/// A GPU with verdicts in the time asked for.
#[derive(Serialize, JsonSchema)]
struct Gpu {
    /// Its UUID.
    gpu: String,
    /// Its cluster; null where its series name none, and in verdicts of earlier releases.
    cluster: Option<String>,
    /// Its node.
    node: String,
    /// Its model; null where unknown.
    model: Option<String>,
    /// Start of its first interval with data, Unix milliseconds, UTC; null when there is none.
    first_data_ms: Option<TimeMs>,
    /// End of its last interval with data, Unix milliseconds, UTC; null when there is none.
    last_data_ms: Option<TimeMs>,
}

impl Gpu {
    fn of(hour: &RollUp, allocation: &Allocation) -> Self {
        Self {
            gpu: allocation.gpu.clone(),
            cluster: hour.cluster.clone(),
            node: hour.node.clone(),
            model: None,
            first_data_ms: None,
            last_data_ms: None,
        }
    }

    fn add(&mut self, allocation: &Allocation, part: &Part) {
        self.model = allocation.model.clone().or(self.model.take());
        for stretch in part.stretches.iter().filter(|_| part.class != Class::NoData) {
            let first = self.first_data_ms.map_or(stretch.start_ms, |first| first.min(stretch.start_ms));
            self.first_data_ms = Some(first);
            self.last_data_ms = self.last_data_ms.max(Some(stretch.end_ms));
        }
    }
}

async fn health<S: Embedded>(app: App<S>, _: Asked) -> Answer<Health> {
    let (progress, samples) = (app.progress.borrow().clone(), app.intake.account().samples);
    Ok(Health {
        version: env!("CARGO_PKG_VERSION"),
        stopping: *app.stopping.borrow(),
        judged_until_ms: progress.judged_until_ms,
        final_until_ms: progress.final_until_ms,
        stored_samples: samples.stored,
        dropped_samples: samples.conflicting + samples.out_of_bounds + samples.unknown + samples.over_limit,
        conditions: app.conditions(),
    })
}

async fn conditions<S: Embedded>(app: App<S>, asked: Asked) -> Answer<Page<Finding>> {
    Ok(asked.part()?.of(app.conditions().into_iter().filter(|condition| condition.active)))
}

async fn deliveries<S: Embedded>(app: App<S>, asked: Asked) -> Answer<Page<Delivery>> {
    let deliveries = app.deliveries.borrow().clone();
    let delivery = |(destination, one): (String, Outcomes)| Delivery {
        destination,
        last_success_ms: one.last_success_ms,
        delivered: one.delivered,
        failed: one.failed + one.refused,
        overdue: one.overdue,
        pending: one.pending,
        held: one.held,
    };
    Ok(asked.part()?.of(deliveries.destinations.into_iter().map(delivery)))
}

/// The longest silent first.
async fn sources<S: Embedded>(app: App<S>, asked: Asked) -> Answer<Page<Source>> {
    let mut sources: Vec<(String, TimeMs)> = app.intake.account().last_sample.into_iter().collect();
    sources.sort_by_key(|(_, time)| *time);
    Ok(asked.part()?.of(sources.into_iter().map(|(source, last_sample_ms)| Source { source, last_sample_ms })))
}

async fn nodes<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Node>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let mut nodes: BTreeMap<(String, Option<String>), Members> = BTreeMap::new();
    for RollUp { cluster, node, held, .. } in app.store.hours(range, None).await? {
        let members = nodes.entry((node, cluster)).or_default();
        for Allocation { gpu, owner, .. } in held.into_iter().map(|held| held.allocation) {
            members.gpus.insert(gpu);
            members.owners.extend(owner);
        }
    }
    let node = |((node, cluster), members)| Node { cluster, node, members };
    Ok(asked.part()?.of(nodes.into_iter().map(node)))
}

async fn gpus<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<Gpu>> {
    let range = asked.range((app.now)(), &app.zone)?;
    let mut hours = app.store.hours(range, asked.owned("node").as_deref()).await?;
    hours.retain(|hour| asked.wants("cluster", hour.cluster.as_deref()));
    hours.sort_by_key(|hour| hour.start_ms);
    let mut gpus: BTreeMap<(String, String), Gpu> = BTreeMap::new();
    for hour in &hours {
        for (allocation, part) in hour.parts() {
            gpus.entry((hour.node.clone(), allocation.gpu.clone()))
                .or_insert_with(|| Gpu::of(hour, allocation))
                .add(allocation, part);
        }
    }
    Ok(asked.part()?.of(gpus.into_values()))
}
