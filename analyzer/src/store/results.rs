//! Verdicts in SQLite.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use sqlx::sqlite::{SqliteExecutor, SqliteRow};
use sqlx::{AssertSqlSafe, Row};

use super::options::database_path;
use super::{
    Arrivals, History, Mark, Results, Stats, Store, StoreError, Verdicts, Whose, application, database, delivery,
    events, judged, outlook,
};
use crate::application::Achieved;
use crate::classify::{Class, Culprit, Energy, Evidence, Interval, Version};
use crate::forecast::Outlook;
use crate::mig::Instance;
use crate::sample::TimeMs;

const INSERT: &str = "INSERT INTO intervals
    (node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence, missing,
    energy_mj, energy_ms, energy_counted_ms, charged_node, charged_gpu, gpu_instance, gpu_instance_profile,
    variance_ms2, rule_version, rules_version, run, account, cluster)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25)";

const SELECT: &str = "SELECT node, start_ms, end_ms, gpu, model, owner, class, ms, confidence, busy_signal, evidence,
    missing, energy_mj, energy_ms, energy_counted_ms, charged_node, charged_gpu, gpu_instance, gpu_instance_profile,
    variance_ms2, rule_version, rules_version, run, account, cluster FROM intervals WHERE start_ms >= $1 AND end_ms <= $2";

const ORDER: &str = "ORDER BY node, gpu, start_ms, class, owner NULLS FIRST,
    charged_node NULLS FIRST, charged_gpu NULLS FIRST,
    gpu_instance NULLS FIRST, gpu_instance_profile NULLS FIRST";

const DELETE: &str = "DELETE FROM intervals WHERE node = $1 AND start_ms >= $2 AND end_ms <= $3";

/// What intervals can be chosen by.
const CONDITIONS: [&str; 8] = ["cluster", "node", "gpu", "owner", "run", "account", "class", "charged_gpu"];

/// Every statement on results. SQLite and PostgreSQL understand them alike, which `tests/tests/postgres.rs` holds them to.
#[must_use]
pub fn statements() -> Vec<String> {
    let chosen = (0..1 << CONDITIONS.len()).map(|choice: u32| {
        let columns = (0..).zip(CONDITIONS).filter(|(n, _)| choice >> n & 1 == 1).map(|(_, column)| column);
        selection(columns)
    });
    let fixed = [INSERT, DELETE].iter().chain(&outlook::STATEMENTS).chain(&application::STATEMENTS);
    let fixed = fixed
        .chain(&delivery::STATEMENTS)
        .chain(&judged::STATEMENTS)
        .chain(&events::STATEMENTS)
        .map(|sql| (*sql).to_owned());
    chosen.chain(fixed).chain(judged::TABLES.map(judged::forget)).collect()
}

/// The intervals of a window where these columns have given values, from one on and so many.
fn selection<'a>(columns: impl Iterator<Item = &'a str>) -> String {
    let mut next = 3;
    let mut sql = SELECT.to_owned();
    // Conditions that are not there leave the choice of index to those that are.
    for column in columns {
        sql += &format!(" AND {column} = ${next}");
        next += 1;
    }
    format!("{sql} {ORDER} LIMIT ${next} OFFSET ${}", next + 1)
}

impl Results for Store {
    async fn replace(&self, node: &str, window: Range<TimeMs>, intervals: &[Interval]) -> Result<(), StoreError> {
        let outside = |i: &&Interval| i.node != node || i.start_ms < window.start || i.end_ms > window.end;
        if let Some(interval) = intervals.iter().find(outside) {
            let Interval { gpu, node: on, start_ms, end_ms, .. } = interval;
            let what = format!("interval of {gpu} on {on} from {start_ms} to {end_ms}");
            return Err(StoreError::OutsideWindow { what, node: node.to_owned(), window });
        }
        let database = &self.shared.database;
        let stored = async {
            let mut transaction = database.begin().await?;
            sqlx::query(DELETE).bind(node).bind(window.start).bind(window.end).execute(&mut *transaction).await?;
            for interval in intervals {
                insert(&mut transaction, interval).await?;
            }
            transaction.commit().await
        };
        stored.await.map_err(|error| database.failed(error))
    }

    async fn intervals_of(&self, window: Range<TimeMs>, whose: &Whose) -> Result<Vec<Interval>, StoreError> {
        let database = &self.shared.database;
        select(&database.read, &window, whose).await.map_err(|error| database.failed(error))
    }

    async fn replace_outlook(&self, node: &str, window: Range<TimeMs>, outlook: &Outlook) -> Result<(), StoreError> {
        if let Some(what) = outlook::misplaced(node, &window, outlook) {
            return Err(StoreError::OutsideWindow { what, node: node.to_owned(), window });
        }
        let database = &self.shared.database;
        outlook::replace(database, node, &window, outlook).await.map_err(|error| database.failed(error))
    }

    async fn outlook(&self, window: Range<TimeMs>) -> Result<Outlook, StoreError> {
        let database = &self.shared.database;
        let read = async {
            let mut connection = database.read.acquire().await?;
            outlook::select(&mut connection, &window).await
        };
        read.await.map_err(|error| database.failed(error))
    }

    async fn history(&self, window: Range<TimeMs>) -> Result<History, StoreError> {
        self.history_in(&window).await
    }

    fn mark(&self) -> Mark {
        Mark { samples: self.shared.state.read().seq, events: self.shared.last_event.load(Ordering::Acquire) }
    }

    async fn note_begun(&self, mark: Mark) -> Result<(), StoreError> {
        let database = &self.shared.database;
        database.note_begun(mark.samples).await.map_err(|error| database.failed(error))
    }

    async fn note_judged(&self, mark: Mark) -> Result<(), StoreError> {
        let database = &self.shared.database;
        let noted = async {
            database.note_events_judged(mark.events).await?;
            database.note_judged(mark.samples).await
        };
        noted.await.map_err(|error| database.failed(error))
    }

    fn unjudged_from(&self) -> Option<TimeMs> {
        self.shared.totals.lock().unjudged_from
    }

    fn raw_from(&self) -> Option<TimeMs> {
        self.shared.state.read().raw_from
    }

    fn arrivals(&self) -> &Arrivals {
        &self.shared.arrivals
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    async fn replace_achieved(&self, window: Range<TimeMs>, achieved: &[Achieved]) -> Result<(), StoreError> {
        self.replace_rows(&window, achieved).await
    }

    async fn achieved(&self, window: Range<TimeMs>) -> Result<Vec<Achieved>, StoreError> {
        self.rows(&window).await
    }
}

/// Reads what is stored of a period in a data directory that another process may have open; as [`Results::verdicts`].
pub async fn read_verdicts(dir: &Path, window: Range<TimeMs>) -> Result<Verdicts, StoreError> {
    let path = database_path(dir);
    let mut connection = database::look_into(&path).await?;
    let read = async {
        let intervals = select(&mut connection, &window, &Whose::default()).await?;
        let outlook = outlook::select(&mut connection, &window).await?;
        let achieved = application::select(&mut connection, &window).await?;
        Ok(Verdicts { intervals, outlook, achieved, history: events::select(&mut connection, &window).await? })
    };
    read.await.map_err(|error| database::failed(&path, error))
}

async fn select(
    executor: impl SqliteExecutor<'_>,
    window: &Range<TimeMs>,
    whose: &Whose,
) -> sqlx::Result<Vec<Interval>> {
    let class = whose.class.map(|class| class.name().to_owned());
    let values =
        [&whose.cluster, &whose.node, &whose.gpu, &whose.owner, &whose.run, &whose.account, &class, &whose.charged_to];
    let given = || CONDITIONS.into_iter().zip(values).filter_map(|(column, value)| Some((column, value.as_ref()?)));
    let mut query = sqlx::query(AssertSqlSafe(selection(given().map(|(column, _)| column))));
    query = query.bind(window.start).bind(window.end);
    for (_, value) in given() {
        query = query.bind(value.clone());
    }
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    query = query.bind(whose.limit.map_or(i64::MAX, number)).bind(number(whose.skip));
    let rows = query.fetch_all(executor).await?;
    rows.iter().map(decode).collect()
}

async fn insert(transaction: &mut sqlx::SqliteConnection, interval: &Interval) -> sqlx::Result<()> {
    let evidence = encode_evidence(&interval.evidence)?;
    let missing = serde_json::to_string(&interval.missing).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(INSERT)
        .bind(&interval.node)
        .bind(interval.start_ms)
        .bind(interval.end_ms)
        .bind(&interval.gpu)
        .bind(&interval.model)
        .bind(&interval.owner)
        .bind(interval.class.name())
        .bind(interval.ms)
        .bind(interval.confidence)
        .bind(&interval.busy_signal)
        .bind(evidence)
        .bind(missing)
        .bind(interval.energy.map(|e| e.mj))
        .bind(interval.energy.map(|e| e.ms))
        .bind(interval.energy.map(|e| e.counted_ms))
        .bind(interval.charged_to.as_ref().map(|culprit| &culprit.node))
        .bind(interval.charged_to.as_ref().map(|culprit| &culprit.gpu))
        .bind(interval.gpu_instance.as_ref().map(|instance| i64::from(instance.id)))
        .bind(interval.gpu_instance.as_ref().and_then(|instance| instance.profile.as_ref()))
        .bind(interval.variance_ms2)
        .bind(interval.version.map(|version| version.rule))
        .bind(interval.version.map(|version| version.rules))
        .bind(&interval.run)
        .bind(&interval.account)
        .bind(&interval.cluster)
        .execute(transaction)
        .await?;
    Ok(())
}

/// JSON has no NaN; it would be written as null and never be read again.
pub(super) fn encode_evidence(evidence: &[Evidence]) -> sqlx::Result<String> {
    if let Some(evidence) = evidence.iter().find(|e| !e.value.is_finite() || !e.threshold.is_finite()) {
        return Err(sqlx::Error::Encode(format!("evidence {} is not a finite number", evidence.signal).into()));
    }
    serde_json::to_string(evidence).map_err(|error| sqlx::Error::Encode(error.into()))
}

fn decode(row: &SqliteRow) -> sqlx::Result<Interval> {
    let name: &str = row.try_get("class")?;
    let class = Class::ALL.iter().copied().find(|class| class.name() == name);
    let (evidence, missing): (&str, &str) = (row.try_get("evidence")?, row.try_get("missing")?);
    Ok(Interval {
        gpu: row.try_get("gpu")?,
        gpu_instance: instance(row)?,
        cluster: row.try_get("cluster")?,
        node: row.try_get("node")?,
        model: row.try_get("model")?,
        owner: row.try_get("owner")?,
        run: row.try_get("run")?,
        account: row.try_get("account")?,
        class: class.ok_or_else(|| sqlx::Error::Decode(format!("unknown class {name}").into()))?,
        charged_to: culprit(row)?,
        start_ms: row.try_get("start_ms")?,
        end_ms: row.try_get("end_ms")?,
        ms: row.try_get("ms")?,
        confidence: row.try_get("confidence")?,
        busy_signal: row.try_get("busy_signal")?,
        evidence: serde_json::from_str(evidence).map_err(|error| sqlx::Error::Decode(error.into()))?,
        missing: serde_json::from_str(missing).map_err(|error| sqlx::Error::Decode(error.into()))?,
        energy: energy(row)?,
        variance_ms2: row.try_get("variance_ms2")?,
        version: version(row)?,
    })
}

/// Rows of releases whose rules had no versions have none.
fn version(row: &SqliteRow) -> sqlx::Result<Option<Version>> {
    let (rule, rules): (Option<u32>, Option<u32>) = (row.try_get("rule_version")?, row.try_get("rules_version")?);
    Ok(rule.zip(rules).map(|(rule, rules)| Version { rule, rules }))
}

/// Rows of releases before instances were judged have none.
fn instance(row: &SqliteRow) -> sqlx::Result<Option<Instance>> {
    let Some(id) = row.try_get("gpu_instance")? else { return Ok(None) };
    Ok(Some(Instance { id, profile: row.try_get("gpu_instance_profile")? }))
}

/// Rows of releases before there were culprits have none.
fn culprit(row: &SqliteRow) -> sqlx::Result<Option<Culprit>> {
    let (node, gpu): (Option<String>, Option<String>) = (row.try_get("charged_node")?, row.try_get("charged_gpu")?);
    Ok(node.zip(gpu).map(|(node, gpu)| Culprit { node, gpu }))
}

/// Rows of releases before there was energy have none.
fn energy(row: &SqliteRow) -> sqlx::Result<Option<Energy>> {
    let Some(mj) = row.try_get("energy_mj")? else { return Ok(None) };
    Ok(Some(Energy { mj, ms: row.try_get("energy_ms")?, counted_ms: row.try_get("energy_counted_ms")? }))
}
