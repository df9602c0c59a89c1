//! The work of inference servers.

use schemars::JsonSchema;
use serde::Serialize;

use super::parameters::{CLUSTER, CURSOR, LIMIT, OWNER, Parameter, WEEK};
use super::query::Asked;
use super::results::{MAX_HOURS, build};
use super::route::Route;
use super::table::Table;
use super::{Answer, Page, Problem};
use crate::app::App;
use crate::report::serving::{Replicas, Serving, Work};
use goodput_store::Results;

goodput_catalog::named! {
    /// What a line of served work is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    enum ServedBy {
        /// All servers of a model.
        Model = "model",
        /// One server.
        Replica = "replica",
    }
}

const BY: Parameter = Parameter::new::<ServedBy>(
    "by",
    "What each line is about: by default a replica where cluster or owner is asked for, else a model.",
);

/// The work of all servers of a model, or of one of them.
#[derive(Serialize, JsonSchema)]
struct ServedWork {
    /// The names that the servers give their models; empty where they give none.
    models: Vec<String>,
    /// The cluster of the GPUs; null where their series name none, and of all servers of a model.
    cluster: Option<String>,
    /// The owner of the server's GPUs; null of all servers of a model.
    owner: Option<String>,
    /// How many servers it is about.
    servers: usize,
    /// How many of them were needed; null of one server, and of models that never had two at once.
    replicas: Option<Replicas>,
    /// GPU time held, and what was served with it.
    #[serde(flatten)]
    work: Work,
}

pub(super) fn routes<S: Results + Clone + 'static>(table: Table<S>) -> Table<S> {
    table.get(
        Route::new(
            "/serving",
            "The work of inference servers with the GPU time that they held: tokens, latencies, limits, replicas",
        )
        .about("Of a week's report, or of the hours from start to end. With start or end the query has no week.")
        .hours(MAX_HOURS)
        .asks(&[BY, WEEK, CLUSTER, OWNER, LIMIT, CURSOR]),
        serving,
    )
}

async fn serving<S: Results>(app: App<S>, asked: Asked) -> Answer<Page<ServedWork>> {
    let by = asked.named("by", ServedBy::ALL, ServedBy::name)?;
    let is_of_replicas = ["cluster", "owner"].into_iter().any(|field| asked.get(field).is_some());
    if is_of_replicas && by == Some(ServedBy::Model) {
        return Err(Problem::bad("by", "replica with cluster or owner", Some("model")));
    }
    let by = by.unwrap_or(if is_of_replicas { ServedBy::Replica } else { ServedBy::Model });
    let report = build(&app, asked.period((app.now)(), &app.zone)?).await?;
    let lines = report.serving.as_ref().map(|serving| lines(serving, by)).unwrap_or_default();
    let wanted = |line: &ServedWork| {
        asked.wants("cluster", line.cluster.as_deref()) && asked.wants("owner", line.owner.as_deref())
    };
    Ok(asked.part()?.of(lines.into_iter().filter(wanted)))
}

fn lines(serving: &Serving, by: ServedBy) -> Vec<ServedWork> {
    let mut lines = Vec::new();
    for model in &serving.models {
        let (models, servers) = (model.models.clone(), model.servers.len());
        if by == ServedBy::Model {
            let (replicas, work) = (model.replicas.clone(), model.work.clone());
            lines.push(ServedWork { models, cluster: None, owner: None, servers, replicas, work });
            continue;
        }
        lines.extend(model.servers.iter().map(|server| ServedWork {
            models: models.clone(),
            cluster: server.cluster.clone(),
            owner: Some(server.owner.clone()),
            servers: 1,
            replicas: None,
            work: server.work.clone(),
        }));
    }
    lines
}
