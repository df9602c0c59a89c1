//! Segments that say themselves what is in them enter the index.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use super::catalogue::SeriesId;
use super::database::Database;
use super::embedded::Shared;
use super::index::{delete_write_ahead, insert_segment, raise_seq};
use super::segment::about::Described;
use super::segments::Segment;
use super::series_rows;
use goodput_exposition::sample::Labels;

/// Why series of a segment cannot enter the catalogue; none when they can. A series has one id, and an id one series.
pub(super) fn contradiction<'a>(
    series: &[(SeriesId, Labels)],
    labels: impl Fn(SeriesId) -> Option<&'a Labels>,
    id: impl Fn(&Labels) -> Option<SeriesId>,
) -> Option<String> {
    let differs = |(own, named): &&(SeriesId, Labels)| {
        labels(*own).is_some_and(|known| known != named) || id(named).is_some_and(|known| known != *own)
    };
    let (own, named) = series.iter().find(differs)?;
    Some(format!("its series {} is {named:?}, which the catalogue contradicts", own.0))
}

impl Shared {
    /// Puts a segment whose file is in place into the index, and its series into the catalogue.
    pub(super) async fn adopt(&self, described: &Described, segment: &Segment) -> Result<(), String> {
        {
            let catalogue = self.catalogue.read();
            let found =
                contradiction(&described.series, |id| catalogue.labels(id), |labels| catalogue.id(labels.as_ref()));
            if let Some(reason) = found {
                return Err(reason);
            }
        }
        let gone = self.absent_inputs(described);
        self.database.adopt(described, segment, &gone).await.map_err(|error| error.to_string())?;
        let mut catalogue = self.catalogue.write();
        for (id, labels) in &described.series {
            if catalogue.labels(*id).is_none() {
                catalogue.insert(*id, labels.clone());
            }
        }
        Ok(())
    }

    /// Segments that it replaces, as far as their files are gone. Others stay: a sample that is in both is read once.
    fn absent_inputs(&self, described: &Described) -> Vec<i64> {
        let dir = self.options.segments();
        let is_gone = |id: &&i64| dir.join(super::segments::file_name(**id)).try_exists().is_ok_and(|there| !there);
        described.about.replaces.iter().filter(is_gone).copied().collect()
    }
}

impl Database {
    async fn adopt(&self, described: &Described, segment: &Segment, gone: &[i64]) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        insert(&mut transaction, &described.series, segment).await?;
        for id in gone {
            sqlx::query("DELETE FROM segments WHERE id = $1").bind(id).execute(&mut *transaction).await?;
        }
        if let Some(after) = described.about.after {
            delete_write_ahead(&mut transaction, after, segment.seq, &[]).await?;
        }
        raise_seq(&mut transaction, segment.seq).await?;
        transaction.commit().await
    }
}

/// The index entry and the series of a segment.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    series: &[(SeriesId, Labels)],
    segment: &Segment,
) -> sqlx::Result<()> {
    series_rows::insert(connection, series).await?;
    insert_segment(connection, segment).await
}

/// The catalogue while an index is made.
#[derive(Default)]
pub(super) struct Named {
    labels: BTreeMap<SeriesId, Labels>,
    ids: BTreeMap<Labels, SeriesId>,
}

impl Named {
    pub(super) fn insert(&mut self, id: SeriesId, labels: Labels) {
        self.labels.insert(id, labels.clone());
        self.ids.insert(labels, id);
    }

    pub(super) fn labels(&self, id: SeriesId) -> Option<&Labels> {
        self.labels.get(&id)
    }

    pub(super) fn contradiction(&self, series: &[(SeriesId, Labels)]) -> Option<String> {
        contradiction(series, |id| self.labels.get(&id), |labels| self.ids.get(labels).copied())
    }
}
