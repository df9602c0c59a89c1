//! `/serving`: inference servers of a period, and what they did with the GPU time that they held.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::{Query, State};

use super::chosen::{Chosen, PeriodQuery};
use super::page::{Frame, Page, show};
use super::picker::Picker;
use crate::app::App;
use crate::report::serving::{self, MAX_SERVERS, SHOWN, Serving};
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

pub(super) async fn page<S: Results>(State(app): State<App<S>>, Query(query): Query<PeriodQuery>) -> Page {
    let chosen = Chosen::of(&query, (app.now)(), &app.zone)?;
    let serving = served(&app.store, &chosen.range(), &app.terms).await?;
    show(&Servers {
        frame: Frame::new("Inference servers", vec![chosen.fleet()], chosen.is_open()),
        picker: Picker::of(&chosen, "/serving"),
        period: chosen.show(),
        r: Section::of(serving),
        site: Site::default().with_annex(true),
        api: chosen.week().map_or_else(|| chosen.hours_query(), |week| format!("week={week}")),
    })
}
