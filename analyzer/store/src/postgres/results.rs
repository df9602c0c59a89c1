//! Verdicts to be written, window by window.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sqlx::AssertSqlSafe;

use super::Postgres;
use super::encode::{Rows, keeps};
use super::write::{Change, Judged, Replaced};
use crate::checked::checksum;
use crate::columns::{ACHIEVED, ADVISORIES, HOURS, IN_WINDOW, INTERVALS, Kept, RISKS, STANDINGS, Stored};
use crate::results::misplaced;
use crate::{Replacement, Results, StoreError, judged, outlook};
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Achieved, RollUp, TeamTime};

/// What rows of nodes are replaced by.
pub(super) const NODE: [&str; 2] = ["node", "cluster"];

/// The rows of a node, by table.
struct Encoded {
    intervals: Option<[Rows; 2]>,
    outlook: Option<[Rows; 3]>,
}

impl Postgres {
    fn rows<T: Stored>(&self, kept: &'static Kept<T>, rows: &[T]) -> sqlx::Result<Rows> {
        let mut encoded = Rows::default();
        for row in rows {
            let mut values = row.values();
            keeps(&kept.table, &values, &self.required)?;
            values.push(checksum(&values).into());
            encoded.add(values.iter());
        }
        Ok(encoded)
    }

    fn encode(&self, window: &Range<TimeMs>, new: &Replacement<'_>) -> Result<Encoded, StoreError> {
        if let Some(what) = misplaced(window, new) {
            let (node, window) = (new.place.to_string(), window.clone());
            return Err(StoreError::OutsideWindow { what, node, window });
        }
        let intervals = new
            .intervals
            .map(|intervals| Ok([self.rows(&INTERVALS, intervals)?, self.rows(&HOURS, &RollUp::fold(intervals))?]));
        let outlook = new.outlook.map(|outlook| {
            outlook::check(outlook)?;
            Ok([
                self.rows(&ADVISORIES, &outlook.advisories)?,
                self.rows(&RISKS, &outlook.risks)?,
                self.rows(&STANDINGS, &outlook.standings)?,
            ])
        });
        let failed = |error| self.failed(error);
        Ok(Encoded { intervals: intervals.transpose().map_err(failed)?, outlook: outlook.transpose().map_err(failed)? })
    }

    async fn replace_and_note(
        &self,
        window: Range<TimeMs>,
        judged_until: Option<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        let of = |table| Replaced::within(table, IN_WINDOW, &window, &NODE);
        let mut intervals = [of(&INTERVALS.table), of(&HOURS.table)];
        let mut outlook = [of(&ADVISORIES.table), of(&RISKS.table), of(&STANDINGS.table)];
        let mut refused = Vec::new();
        for (n, new) in nodes.iter().enumerate() {
            match self.encode(&window, new) {
                Err(error) => refused.push((n, error)),
                Ok(encoded) => {
                    let key = [Some(new.place.node), new.place.cluster];
                    let add = |(table, mut rows): (&mut Replaced, Rows)| {
                        table.key(key);
                        table.rows.append(&mut rows);
                    };
                    intervals.iter_mut().zip(encoded.intervals.into_iter().flatten()).for_each(add);
                    outlook.iter_mut().zip(encoded.outlook.into_iter().flatten()).for_each(add);
                }
            }
        }
        let tables = intervals.into_iter().filter(|_| nodes.iter().any(|new| new.intervals.is_some()));
        let tables = tables.chain(outlook.into_iter().filter(|_| nodes.iter().any(|new| new.outlook.is_some())));
        let judged = judged_until.map(|until| Judged { clusters: clusters(nodes), window: window.clone(), until });
        let change = Change { tables: tables.collect(), judged: judged.into_iter().collect(), window };
        self.write(change).await?;
        Ok(refused)
    }
}

/// The clusters of nodes; an empty name where series name none.
fn clusters(nodes: &[Replacement<'_>]) -> Vec<String> {
    let named: BTreeSet<&str> = nodes.iter().map(|new| new.place.cluster.unwrap_or_default()).collect();
    if named.is_empty() { vec![String::new()] } else { named.into_iter().map(str::to_owned).collect() }
}

impl Results for Postgres {
    async fn replace_window(
        &self,
        window: Range<TimeMs>,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.replace_and_note(window, None, nodes).await
    }

    async fn store_judged(
        &self,
        window: Range<TimeMs>,
        until: TimeMs,
        nodes: &[Replacement<'_>],
    ) -> Result<Vec<(usize, StoreError)>, StoreError> {
        self.replace_and_note(window, Some(until), nodes).await
    }

    async fn judged_windows(&self, range: Range<TimeMs>) -> Result<BTreeMap<TimeMs, TimeMs>, StoreError> {
        Ok(self.judged(&range).await?.into_iter().collect())
    }

    async fn replace_achieved(&self, window: Range<TimeMs>, achieved: &[Achieved]) -> Result<(), StoreError> {
        let mut replaced = Replaced::all(&ACHIEVED.table, &window);
        replaced.rows = self.rows(&ACHIEVED, achieved).map_err(|error| self.failed(error))?;
        self.write(Change { window, tables: vec![replaced], judged: Vec::new() }).await
    }

    async fn note_teams(&self, week: (&str, TimeMs), content: &str, times: &[TeamTime]) -> Result<(), StoreError> {
        self.store_teams(week, content, times).await
    }

    /// Of what this process wrote: other processes have numbers of their own.
    fn version(&self, window: &Range<TimeMs>) -> u64 {
        self.changes.lock().version(window)
    }

    async fn hours_across(&self, into_hour_ms: i64) -> Result<Vec<TimeMs>, StoreError> {
        let mut hours = Vec::new();
        for sql in judged::TABLES.map(judged::across) {
            let query = sqlx::query_scalar::<_, TimeMs>(AssertSqlSafe(sql)).bind(into_hour_ms);
            hours.extend(query.fetch_all(&self.pool).await.map_err(|error| self.failed(error))?);
        }
        Ok(hours)
    }
}
