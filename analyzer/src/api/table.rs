//! The table of routes: a row and its handler give the route, the check of its query, and its description.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::IntoResponse as _;
use axum::routing::MethodRouter;
use axum::{Json, Router, routing};
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::query::Asked;
use super::route::{Reads, Route};
use super::{Answer, csv, events, responses};
use crate::app::App;

/// What the description says of all routes.
const ABOUT: &str = "What goodput-analyzer has stored, and a way in for what jobs report of themselves. A parameter \
    that a route does not know is an error. A null is not known. Where passwords are asked for, each route may answer \
    503 in plain text while too many wait to be checked.";

/// Routes that are read, and the description of all.
pub(super) struct Table<S> {
    router: Router<App<S>>,
    paths: Map<String, Value>,
    schemas: SchemaGenerator,
}

impl<S: Clone + Send + Sync + 'static> Table<S> {
    pub(super) fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize().with_transform(tidy);
        settings.definitions_path = "/components/schemas".into();
        let mut schemas = settings.into_generator();
        let paths = Map::from_iter([("/events".to_owned(), events::described(&mut schemas))]);
        Self { router: Router::new(), paths, schemas }
    }

    /// Adds a route, which the type of its answer describes.
    pub(super) fn get<T, H, F>(mut self, route: Route, handler: H) -> Self
    where
        T: Serialize + JsonSchema,
        H: Fn(App<S>, Asked) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        self.describe::<T>(&route);
        self.serve(route, handler)
    }

    /// Adds a route that has a handler of its own, which checks its query.
    pub(super) fn own<T: JsonSchema>(mut self, route: Route, handler: MethodRouter<App<S>>) -> Self {
        self.describe::<T>(&route);
        self.router = self.router.route(route.path, handler);
        self
    }

    /// Adds a path that describes itself.
    pub(super) fn own_path(
        mut self,
        path: &'static str,
        described: fn(&mut SchemaGenerator) -> Value,
        handler: MethodRouter<App<S>>,
    ) -> Self {
        let described = described(&mut self.schemas);
        self.paths.insert(path.to_owned(), described);
        self.router = self.router.route(path, handler);
        self
    }

    fn describe<T: JsonSchema>(&mut self, route: &Route) {
        let mut answer = self.schemas.subschema_for::<T>();
        tidy(&mut answer);
        self.paths.insert(route.path.to_owned(), route.described(&answer, &mut self.schemas));
    }

    fn serve<T, H, F>(mut self, route: Route, handler: H) -> Self
    where
        T: Serialize,
        H: Fn(App<S>, Asked) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let checked = async move |State(app): State<App<S>>,
                                  Path(path): Path<BTreeMap<String, String>>,
                                  Query(given): Query<BTreeMap<String, String>>| {
            let asked = Asked::of(given, &route)?.at(path);
            let is_csv = asked.is_csv()?;
            let answer = handler(app, asked).await?;
            if is_csv { csv::answer(&answer) } else { Ok(Json(answer).into_response()) }
        };
        self.router = self.router.route(route.path, routing::get(checked));
        self
    }

    /// The routes, and their description, which is served as one of them.
    pub(super) fn finish(mut self) -> (Router<App<S>>, Arc<Map<String, Value>>) {
        let route = Route::new("/openapi.json", "This description").reads(Reads::Little);
        self.describe::<Map<String, Value>>(&route);
        let responses = responses::all(&mut self.schemas);
        let described = Arc::new(Map::from_iter(
            [
                ("openapi", "3.1.0".into()),
                ("info", info()),
                ("servers", json!([{ "url": "/api/v1" }])),
                ("paths", std::mem::take(&mut self.paths).into()),
                ("components", json!({ "schemas": self.schemas.take_definitions(true), "responses": responses })),
            ]
            .map(|(name, value): (&str, Value)| (name.to_owned(), value)),
        ));
        let served = Arc::clone(&described);
        (self.serve(route, move |_, _| ready(Ok(Arc::clone(&served)))).router, described)
    }
}

fn info() -> Value {
    json!({
        "title": "Goodput",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}

/// Lines of a comment are one text, and an object has no fields but those that are described.
fn tidy(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    // Whether a field may be left out matters only to who reads the type.
    schema.remove("default");
    transform_subschemas(&mut tidy, schema);
    if schema.get("properties").is_none() {
        return;
    }
    let Some(Value::Array(choices)) = schema.get_mut("oneOf") else {
        schema.insert("additionalProperties".to_owned(), false.into());
        return;
    };
    // Each choice knows only the fields that it adds.
    for choice in choices.iter_mut().filter_map(Value::as_object_mut) {
        choice.remove("additionalProperties");
    }
    schema.insert("unevaluatedProperties".to_owned(), false.into());
}
