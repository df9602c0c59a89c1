//! Intervals, by whose they are.

use std::ops::Range;

use sqlx::AssertSqlSafe;

use super::Whose;
use super::checked::{Reading, Value};
use super::columns::{IN_WINDOW, INTERVALS, Stored as _, in_window};
use super::row::Session;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::Interval;

/// What intervals can be chosen by.
const CONDITIONS: [&str; 8] = ["cluster", "node", "gpu", "owner", "run", "account", "class", "charged_gpu"];

/// Intervals lie within an hour, so that the last end is that of one of the last starts.
const EXTENT: &str = "SELECT (SELECT min(start_ms) FROM intervals), (SELECT max(end_ms) FROM intervals \
                      WHERE start_ms > (SELECT max(start_ms) FROM intervals) - 3600000)";

/// From the first to the last interval.
pub(super) async fn extent(connection: &mut impl Session) -> sqlx::Result<Option<Range<TimeMs>>> {
    let found = connection.one(EXTENT, &[]).await?;
    let (first, last): (Option<TimeMs>, Option<TimeMs>) = (found.row().at(0)?, found.row().at(1)?);
    Ok(first.zip(last).map(|(first, last)| first..last))
}

/// Every statement of this file.
pub(super) fn statements() -> impl Iterator<Item = String> {
    let selections = (0..1 << CONDITIONS.len()).map(|choice: u32| {
        let columns = (0..).zip(CONDITIONS).filter(|(n, _)| choice >> n & 1 == 1).map(|(_, column)| column);
        selection(&columns.collect::<Vec<_>>())
    });
    selections.chain([EXTENT.to_owned()])
}

/// The intervals of a window where these columns have given values, with a limit and an offset. Conditions that are not
/// there leave the choice of index to those that are.
fn selection(columns: &[&str]) -> String {
    let next = columns.len() + 3;
    format!("{} LIMIT ${next} OFFSET ${}", INTERVALS.selection(columns), next + 1)
}

pub(super) async fn select(
    connection: &mut impl Session,
    reading: &mut Reading,
    window: &Range<TimeMs>,
    whose: &Whose,
) -> sqlx::Result<Vec<Interval>> {
    let class = whose.class.map(|class| class.name().to_owned());
    let values =
        [&whose.cluster, &whose.node, &whose.gpu, &whose.owner, &whose.run, &whose.account, &class, &whose.charged_to];
    let given = CONDITIONS.into_iter().zip(values).filter_map(|(column, value)| Some((column, value.clone()?)));
    let (columns, mut more): (Vec<&str>, Vec<Value<'_>>) =
        given.map(|(column, value)| (column, Value::from(value))).unzip();
    let number = |count: usize| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
    more.extend([whose.limit.map_or(i64::MAX.into(), number), number(whose.skip)]);
    let sql = AssertSqlSafe(selection(&columns));
    reading.all(connection, &INTERVALS.table, sql, (IN_WINDOW, &in_window(window)), &more, Interval::read).await
}
