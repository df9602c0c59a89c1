//! Parameters of queries: one row each.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::query::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::ownership::State;
use crate::report::By;
use goodput_verdict::{Advice, Class, Memory, Sort};

/// How lists may be written.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
#[expect(dead_code, reason = "its schema alone is used")]
enum Format {
    Json,
    Csv,
}

/// Something that a query may ask for.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    about: &'static str,
    is_required: bool,
    /// Is it a part of the path, and not of the query?
    pub(super) is_in_path: bool,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Parameter {
    /// One that takes what the type writes.
    pub(super) const fn new<T: JsonSchema>(name: &'static str, about: &'static str) -> Self {
        Self { name, about, is_required: false, is_in_path: false, schema: SchemaGenerator::subschema_for::<T> }
    }

    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn in_path(self) -> Self {
        Self { is_in_path: true, ..self.required() }
    }

    pub(super) fn described(&self, schemas: &mut SchemaGenerator) -> Value {
        json!({
            "name": self.name,
            "in": if self.is_in_path { "path" } else { "query" },
            "required": self.is_required,
            "description": self.about,
            "schema": (self.schema)(schemas),
        })
    }
}

pub(super) const START: Parameter = Parameter::new::<String>(
    "start",
    "From: RFC 3339, or a date or local time in the configured zone. By default 25 hours before the end.",
);
pub(super) const END: Parameter =
    Parameter::new::<String>("end", "To (exclusive). By default the end of the open hour.");
pub(super) const WEEK: Parameter = Parameter::new::<String>(
    "week",
    "ISO week such as 2026-W47; by default the last full one, or this one so far where that has no verdicts.",
);
pub(super) const TEAM_NAME: Parameter =
    Parameter::new::<String>("name", "The team, or unassigned or platform.").in_path();
pub(super) const TEAM: Parameter =
    Parameter::new::<String>("team", "Only what this team and the teams that are part of it held.");
pub(super) const FINDING_ID: Parameter =
    Parameter::new::<String>("id", "The finding, as groups of reports name it.").in_path();
pub(super) const STATE: Parameter = Parameter::new::<State>("state", "Only findings that stand there now.");
pub(super) const ASSIGNEE: Parameter = Parameter::new::<String>("assignee", "Only findings that this one looks at.");
pub(super) const BY: Parameter = Parameter::new::<By>("by", "What each line is about.").required();
pub(super) const CLUSTER: Parameter = Parameter::new::<String>("cluster", "Only of this cluster.");
pub(super) const NODE: Parameter = Parameter::new::<String>("node", "Only this node's.");
pub(super) const GPU: Parameter = Parameter::new::<String>("gpu", "Only this GPU's, by UUID.");
pub(super) const OWNER: Parameter = Parameter::new::<String>("owner", "Only this owner's.");
pub(super) const RUN: Parameter = Parameter::new::<String>("run", "Only this run's.");
pub(super) const ACCOUNT: Parameter = Parameter::new::<String>("account", "Only this account's.");
pub(super) const CLASS: Parameter = Parameter::new::<Class>("class", "Only of this class.");
pub(super) const CHARGED_TO: Parameter =
    Parameter::new::<String>("charged_to", "Only what this GPU caused on others, by UUID.");
pub(super) const ADVICE: Parameter = Parameter::new::<Advice>("advice", "Only this advice.");
pub(super) const KIND: Parameter = Parameter::new::<Sort>("kind", "Only of this kind.");
pub(super) const MEMORY: Parameter = Parameter::new::<Memory>("memory", "Only of this memory.");

pub(super) const FORMAT: Parameter = Parameter::new::<Format>(
    "format",
    "How the list is written; json by default. csv has one line per item and no next: fewer lines than limit are the last.",
);

pub(super) const LIMIT: Parameter = Parameter {
    schema: |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT }),
    ..Parameter::new::<usize>("limit", "Items of the answer.")
};
pub(super) const CURSOR: Parameter = Parameter {
    schema: |_| json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 0 }),
    ..Parameter::new::<u32>("cursor", "What the answer before gave as next.")
};
