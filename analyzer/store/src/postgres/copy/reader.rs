//! Rows of a directory on their way to PostgreSQL.

use std::collections::BTreeSet;
use std::ops::Range;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqliteConnection};
use tokio_stream::StreamExt as _;
use tracing::warn;

use super::super::Postgres;
use super::super::encode::keeps;
use super::super::write::{Counted, Replaced, columns};
use crate::checked::{Reading, Table, Value, checksum};
use crate::columns::{Stored as _, in_window};
use crate::rollup;
use crate::row::{Raw, Row, Session as _};
use goodput_exposition::sample::TimeMs;

/// Whose rows are.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Nodes, and their clusters.
    pub(super) nodes: BTreeSet<(String, Option<String>)>,
    /// Clusters, of nodes and of what jobs achieved.
    pub(super) clusters: BTreeSet<Option<String>>,
}

impl Nodes {
    fn add(&mut self, node: Option<String>, cluster: Option<String>) {
        self.nodes.extend(node.map(|node| (node, cluster.clone())));
        self.clusters.insert(cluster);
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.nodes.extend(others.nodes);
        self.clusters.extend(others.clusters);
    }
}

/// Reads the rows of a table.
pub(super) struct Reader<'t> {
    pub(super) to: &'t Postgres,
    pub(super) replaced: Replaced,
    /// What was read.
    pub(super) counted: Counted,
    /// Damaged rows.
    pub(super) left_out: u64,
}

/// The columns that are selected of a table.
pub(super) fn selected(table: &Table) -> String {
    columns(table).collect::<Vec<_>>().join(", ")
}

impl<'t> Reader<'t> {
    pub(super) fn new(to: &'t Postgres, replaced: Replaced) -> Self {
        Self { to, replaced, counted: Counted::default(), left_out: 0 }
    }

    /// The rows that begin in an hour, as they are, and whose they are. Are all of them sound?
    pub(super) async fn rows(
        &mut self,
        connection: &mut SqliteConnection,
        hour: &Range<TimeMs>,
        nodes: &mut Nodes,
    ) -> sqlx::Result<bool> {
        let table = self.replaced.table;
        let node = if table.columns.contains(&"node") { "node" } else { "NULL" };
        let sql = format!(
            "SELECT {}, {node} AS of_node, cluster AS of_cluster FROM {} WHERE start_ms >= $1 AND start_ms < $2
            ORDER BY rowid",
            selected(table),
            table.name
        );
        let sql = AssertSqlSafe(sql).into_sql_str();
        let mut rows = connection.rows(sql, &[&in_window(hour)]);
        let mut are_sound = true;
        while let Some(fetched) = rows.try_next().await? {
            let row = fetched.row();
            match self.row(row) {
                Ok(()) => nodes.add(row.get("of_node")?, row.get("of_cluster")?),
                Err(reason) => {
                    are_sound = false;
                    self.leave_out(row, &reason);
                }
            }
        }
        Ok(are_sound)
    }

    /// Adds a row and what names it, or leaves it out.
    pub(super) fn keyed(&mut self, row: Row<'_>, key: &[&str]) {
        if let Err(reason) = self.row(row) {
            return self.leave_out(row, &reason);
        }
        let text = |column: &&str| row.raw(column).ok().and_then(Raw::value).as_ref().map(ToString::to_string);
        let values: Vec<Option<String>> = key.iter().map(text).collect();
        self.replaced.key(values.iter().map(Option::as_deref));
    }

    fn leave_out(&mut self, row: Row<'_>, reason: &str) {
        let table = self.replaced.table;
        let content = table.content(row).chars().take(200).collect::<String>();
        warn!(table = table.name, reason, content, "a damaged row of the directory is left out");
        self.left_out += 1;
    }

    /// Adds a row as it is, or says what is wrong with it.
    fn row(&mut self, row: Row<'_>) -> Result<(), String> {
        let table = self.replaced.table;
        table.check(row)?;
        let mut values = Vec::with_capacity(table.columns.len() + 2);
        for column in columns(table) {
            let value = row.raw(column).map_err(|error| error.to_string())?.value();
            values.push(value.ok_or_else(|| format!("{column} is no text"))?);
        }
        self.add(&values);
        Ok(())
    }

    /// Adds a row of all columns that are written.
    fn add(&mut self, values: &[Value<'_>]) {
        let table = self.replaced.table;
        let number = |column: &str| match columns(table).position(|name| name == column).and_then(|n| values.get(n)) {
            Some(Value::Integer(number)) => *number,
            _ => 0,
        };
        let is_interval = table.name == "intervals";
        self.counted += Counted {
            rows: 1,
            checksums: number("checksum"),
            gpu_ms: if is_interval { number("ms") } else { 0 },
            energy_mj: if is_interval { number("energy_mj") } else { 0 },
        };
        match keeps(table, &values[..table.columns.len()], &self.to.required) {
            Ok(()) => self.replaced.rows.add(values.iter()),
            // It is counted in the directory alone, so that the two sides differ.
            Err(error) => warn!(table = table.name, %error, "PostgreSQL cannot keep a row of the directory"),
        }
    }

    /// The roll-up of an hour out of its intervals, where it is not stored or not sound: as the embedded store reads it.
    pub(super) async fn folded(
        &mut self,
        connection: &mut SqliteConnection,
        hour: &Range<TimeMs>,
        nodes: &mut Nodes,
    ) -> sqlx::Result<()> {
        (self.replaced.rows, self.counted) = Default::default();
        for hour in rollup::folded(connection, &mut Reading::default(), hour, None).await? {
            let mut values = hour.values();
            values.push(checksum(&values).into());
            self.add(&values);
            nodes.add(Some(hour.node.clone()), hour.cluster.clone());
        }
        Ok(())
    }
}
