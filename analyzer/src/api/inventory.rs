//! What there is: nodes, GPUs, and the analyzer itself.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Query, State};
use serde::Serialize;

use super::problem::Problem;
use super::query::Asked;
use super::results::MAX_HOURS;
use super::{Answer, Page};
use crate::classify::{Class, Interval};
use crate::sample::TimeMs;
use crate::serve::App;
use crate::serve::conditions::Finding;
use crate::store::{Results, Whose};

#[derive(Serialize)]
pub(super) struct Health {
    version: &'static str,
    stopping: bool,
    /// Every minute that ends here or before is judged; null before the first round.
    judged_until_ms: Option<TimeMs>,
    /// Hours that end here or before are final, unless samples come in late.
    final_until_ms: Option<TimeMs>,
    stored_samples: u64,
    dropped_samples: u64,
    /// What an operator has to know, whether it holds or not.
    conditions: Vec<Finding>,
}

#[derive(Serialize)]
pub(super) struct Node {
    cluster: Option<String>,
    node: String,
    #[serde(flatten)]
    members: Members,
}

#[derive(Default, Serialize)]
struct Members {
    gpus: BTreeSet<String>,
    owners: BTreeSet<String>,
}

#[derive(Serialize)]
pub(super) struct Gpu {
    gpu: String,
    cluster: Option<String>,
    node: String,
    model: Option<String>,
    /// First and last instant for which there is data in the time asked for; null when there is none.
    first_data_ms: Option<TimeMs>,
    last_data_ms: Option<TimeMs>,
}

type Given = Query<BTreeMap<String, String>>;

pub(super) async fn health<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Health> {
    Asked::of(given.0, &[])?;
    let (progress, samples) = (app.progress.borrow().clone(), app.intake.account().samples);
    let conditions = app.conditions().map_err(|error| Problem::failed(&error))?;
    Ok(Json(Health {
        version: env!("CARGO_PKG_VERSION"),
        stopping: *app.stopping.borrow(),
        judged_until_ms: progress.judged_until_ms,
        final_until_ms: progress.final_until_ms,
        stored_samples: samples.stored,
        dropped_samples: samples.conflicting + samples.out_of_bounds + samples.unknown + samples.over_limit,
        conditions,
    }))
}

pub(super) async fn nodes<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Node>> {
    let asked = Asked::of(given.0, &["start", "end", "limit", "cursor"])?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let mut nodes: BTreeMap<(String, Option<String>), Members> = BTreeMap::new();
    for Interval { cluster, node, gpu, owner, .. } in app.store.intervals(range).await? {
        let members = nodes.entry((node, cluster)).or_default();
        members.gpus.insert(gpu);
        members.owners.extend(owner);
    }
    let node = |((node, cluster), members)| Node { cluster, node, members };
    Ok(Json(asked.part()?.of(nodes.into_iter().map(node))))
}

pub(super) async fn gpus<S: Results>(State(app): State<App<S>>, given: Given) -> Answer<Page<Gpu>> {
    let asked = Asked::of(given.0, &["start", "end", "cluster", "node", "limit", "cursor"])?;
    let range = asked.range((app.now)(), &app.zone, MAX_HOURS)?;
    let whose = Whose { cluster: asked.owned("cluster"), node: asked.owned("node"), ..Whose::default() };
    let mut gpus: BTreeMap<(String, String), Gpu> = BTreeMap::new();
    for interval in app.store.intervals_of(range, &whose).await? {
        let Interval { cluster, node, gpu, model, class, start_ms, end_ms, .. } = interval;
        let entry = gpus.entry((node.clone(), gpu.clone())).or_insert(Gpu {
            gpu,
            cluster,
            node,
            model: None,
            first_data_ms: None,
            last_data_ms: None,
        });
        entry.model = model.or(entry.model.take());
        if class != Class::NoData {
            entry.first_data_ms = Some(entry.first_data_ms.map_or(start_ms, |first| first.min(start_ms)));
            entry.last_data_ms = entry.last_data_ms.max(Some(end_ms));
        }
    }
    Ok(Json(asked.part()?.of(gpus.into_values())))
}
