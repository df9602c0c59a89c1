//! Segments of formats 1 and 2, which do not name their series, out of quarantine: earlier releases set sound ones aside
//! when the file system failed. The catalogue names their series, so they are written again in the present format.

use std::path::Path;

use super::catalogue::SeriesId;
use super::database::Database;
use super::index::insert_segment;
use super::options::segments_path;
use super::segment::about::About;
use super::segment::{self, Encoder};
use super::segments::{self, Segment};
use super::{StoreError, inspect};
use goodput_exposition::sample::{Labels, Sample};

/// Writes the samples of a quarantined file to a new segment, if all of them can be read and their series are known. Or
/// says why not.
pub(super) async fn put_back(
    dir: &Path,
    database: &Database,
    name: &str,
    bytes: &[u8],
) -> Result<Result<Segment, String>, StoreError> {
    let failed = |error| database.failed(error);
    if !database.is_quarantined(name).await.map_err(failed)? {
        return Ok(Err("its format does not name its series, and it was not set aside in this directory".to_owned()));
    }
    let catalogue: std::collections::BTreeMap<SeriesId, Labels> =
        database.series().await.map_err(failed)?.into_iter().collect();
    let series = match decode(bytes, &catalogue) {
        Ok(series) => series,
        Err(reason) => return Ok(Err(reason)),
    };
    let encoder = Encoder::of(series.iter().map(|(id, samples)| (*id, samples.as_slice())));
    let (last_segment, _) = database.upkeep().await.map_err(failed)?;
    let (directory, generation) = (database.directory.clone(), database.generation());
    let about = About { directory, generation, id: last_segment + 1, ..About::default() };
    let written = encoder
        .map_err(|reason| StoreError::NotStored { reason })
        .and_then(|encoder| segments::write(&segments_path(dir), &about, encoder, |id| catalogue.get(&id).cloned()));
    let Some(segment) = written? else { return Ok(Err("it holds no samples".to_owned())) };
    let mut transaction = database.begin().await.map_err(failed)?;
    insert_segment(&mut transaction, &segment).await.map_err(failed)?;
    let sql = "DELETE FROM quarantine WHERE name = $1";
    sqlx::query(sql).bind(name).execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(Ok(segment))
}

/// All samples of a file, by series. An error unless there are as many as the file says, in order, of known series.
fn decode(
    bytes: &[u8],
    catalogue: &std::collections::BTreeMap<SeriesId, Labels>,
) -> Result<Vec<(SeriesId, Vec<Sample>)>, String> {
    let (ids, expected) = segment::series_in(bytes)?;
    ids.iter().try_for_each(|id| match catalogue.contains_key(id) {
        true => Ok(()),
        false => Err(format!("its series {} is not in the catalogue", id.0)),
    })?;
    let samples = segment::decode_all(bytes, &ids)?;
    let rows: Vec<_> =
        ids.iter().zip(&samples).flat_map(|(id, samples)| samples.iter().map(|sample| (*id, *sample))).collect();
    if rows.len() as u64 != expected {
        return Err(format!("{} samples could be read of {expected}", rows.len()));
    }
    inspect::in_order(&rows)?;
    Ok(ids.into_iter().zip(samples).collect())
}
