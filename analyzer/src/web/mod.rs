//! What people look at: what to do now, findings, runs, nodes, GPUs, the evidence of a verdict, the report, and how the
//! analyzer itself is.
//!
//! Pages are rendered here, whole, from stored verdicts and samples; the script only adds comfort. Every page is a pure
//! function of its address, the store and the clock. The structs that templates see hold finished text, with units, so that
//! a template does nothing but write it down.

use axum::Router;
use axum::routing::{get, post};

mod assets;
mod attempts;
mod axis;
mod chosen;
mod clock;
mod compare;
mod counted;
mod curve;
mod evidence;
mod finding;
mod findings;
mod fleet;
mod gpu;
mod health;
mod jobs;
mod kept;
mod link;
mod node;
mod outlook;
mod ownership;
mod page;
mod part;
mod picker;
mod repeat;
mod report;
mod run;
mod runs;
mod search;
mod serving;
mod share;
mod sorted;
mod state;
mod stretch;
mod strip;
mod table;
mod team;
mod teams;
#[cfg(test)]
mod tests;
mod view;

use axum::response::{Redirect, Response};

use crate::app::{App, Busy};
use goodput_store::Embedded;

/// The page that says that a limit of reads is reached.
pub(crate) fn busy(busy: Busy) -> Response {
    axum::response::IntoResponse::into_response(page::Problem::busy(busy))
}

/// All pages and what they load.
pub(crate) fn routes<S: Embedded + Clone + 'static>() -> Router<App<S>> {
    Router::new()
        .route("/", get(fleet::page::<S>))
        .route("/nodes/{node}", get(node::page::<S>))
        .route("/clusters/{cluster}/nodes/{node}", get(node::page_within::<S>))
        .route("/gpus/{gpu}", get(gpu::page::<S>))
        .route("/gpus/{gpu}/evidence", get(evidence::page::<S>))
        .route("/findings", get(findings::page::<S>))
        .route("/findings/repeat", get(repeat::page::<S>))
        .route("/findings/{id}", get(ownership::page::<S>))
        .route("/findings/{id}/events", post(ownership::say::<S>))
        .route("/runs", get(runs::page::<S>))
        .route("/runs/{run}", get(run::page::<S>))
        .route("/clusters/{cluster}/runs/{run}", get(run::page_within::<S>))
        .route("/teams", get(teams::page::<S>))
        .route("/teams/{team}", get(team::page::<S>))
        .route("/serving", get(serving::page::<S>))
        .route("/search", get(search::page::<S>))
        .route("/compare", get(compare::page::<S>))
        .route("/report", get(report::page::<S>))
        .route("/state", get(state::page::<S>))
        .route("/openapi.json", get(async || Redirect::permanent("api/v1/openapi.json")))
        .route("/assets/{name}", get(assets::file))
        .fallback(page::nothing_here)
}
