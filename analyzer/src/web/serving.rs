//! `/serving`: inference servers of a period, and what they did with the GPU time that they held.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::page::{Frame, Page, show};
use super::picker::Picker;
use super::sorted::Key;
use super::view::{Fields, Of, View};
use crate::app::App;
use crate::report::serving::{self, MAX_SERVERS, SHOWN, ServedModel, Serving};
use crate::report::{Site, served, text, units};
use goodput_store::Results;
use goodput_verdict::Served;

#[derive(Template)]
#[template(path = "web/servers.html")]
struct Servers {
    frame: Frame,
    picker: Picker,
    period: String,
    r: Section,
    site: Site,
    /// What asks the API for it.
    api: String,
    models: View,
}

/// What the section of the report asks of the report.
struct Section {
    serving: Option<Serving>,
    has_clusters: bool,
}

impl Section {
    fn of(serving: Option<Serving>) -> Self {
        let servers = serving.iter().flat_map(|serving| &serving.models).flat_map(|model| &model.servers);
        let clusters: BTreeSet<Option<&str>> = servers.map(|server| server.cluster.as_deref()).collect();
        Self { has_clusters: clusters.len() > 1, serving }
    }

    /// In which cluster, to be read behind a name; nothing where there is only one.
    fn within(&self, cluster: &Option<String>) -> String {
        let told = cluster.as_ref().filter(|_| self.has_clusters);
        told.map(|cluster| format!(" in {cluster}")).unwrap_or_default()
    }
}

/// What models are sorted by, in all tables of the page and as the page calls it.
const COLUMNS: [&str; 5] = ["held", "model", "servers", "requests", "tokens"];

/// How the page calls the columns.
const ORDERS: [(&str, &str); 5] = [
    ("held", "by GPU-hours held"),
    ("model", "by name"),
    ("servers", "by servers"),
    ("requests", "by requests"),
    ("tokens", "by generation tokens"),
];

fn key(model: &ServedModel, column: &str) -> Key {
    let count = |of: Served| Key::number(model.work.served.get(&of).map(|count| *count as i64));
    match column {
        "model" => Key::Text(model.name()),
        "servers" => Key::count(model.servers.len()),
        "requests" => count(Served::Requests),
        "tokens" => count(Served::GenerationTokens),
        _ => Key::number(model.work.held.gpu_ms),
    }
}

/// What a filter looks into: the names of the model and of its servers.
fn text_of(model: &ServedModel) -> String {
    let servers: Vec<&str> = model.servers.iter().map(|server| server.owner.as_str()).collect();
    format!("{} {}", model.name(), servers.join(" "))
}

pub(super) async fn page<S: Results>(
    State(app): State<App<S>>,
    Query(query): Query<PeriodQuery>,
    Query(fields): Query<Fields>,
) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let mut serving = served(&app.store, &chosen.range(), &app.terms).await?;
    let mut models = serving.as_mut().map(|serving| std::mem::take(&mut serving.models)).unwrap_or_default();
    let view = Of { path: "/serving", fields: &fields, id: "models" }.view(&mut models, &COLUMNS, key, text_of)?;
    if let Some(serving) = &mut serving {
        serving.models = models;
    }
    show(&Servers {
        models: view,
        frame: Frame::new("Inference servers", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/serving").keeping(fields.kept()),
        period: chosen.show(),
        r: Section::of(serving),
        site: Site::default().with_annex(true),
        api: chosen.week().map_or_else(|| chosen.hours_query(), |week| format!("week={week}")),
    })
}
