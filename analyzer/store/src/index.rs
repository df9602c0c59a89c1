//! The index of segments in SQLite: which there are, which were written off, what was set aside.

use std::sync::{Arc, OnceLock};

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::catalogue::SeriesId;
use super::database::Database;
use super::holes::Hole;
use super::segment::RowGroup;
use super::segments::Segment;
use goodput_exposition::sample::TimeMs;

impl Database {
    pub(super) async fn segments(&self) -> sqlx::Result<Vec<Segment>> {
        segments(&mut *self.read.acquire().await?).await
    }

    /// Segments and write-ahead rows that are set aside.
    pub(super) async fn quarantined(&self) -> sqlx::Result<u64> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM quarantine").fetch_one(&self.read).await?;
        Ok(count.cast_unsigned())
    }

    /// Is a file of that name set aside?
    pub(super) async fn is_quarantined(&self, name: &str) -> sqlx::Result<bool> {
        let sql = "SELECT count(*) FROM quarantine WHERE name = $1";
        let count: i64 = sqlx::query_scalar(sql).bind(name).fetch_one(&self.read).await?;
        Ok(count > 0)
    }

    /// The last step of a flush: the segment exists and the write-ahead that it holds does not, or neither.
    /// Rows to keep are those that could not be set aside.
    pub(super) async fn commit_segment(&self, segment: &Segment, keep: &[i64]) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        insert_segment(&mut transaction, segment).await?;
        delete_write_ahead(&mut transaction, i64::MIN, segment.seq, keep).await?;
        transaction.commit().await
    }

    /// Writes an entry again, by what its file says.
    pub(super) async fn repair_segment(&self, segment: &Segment) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM segments WHERE id = $1").bind(segment.id).execute(&mut *transaction).await?;
        insert_segment(&mut transaction, segment).await?;
        transaction.commit().await
    }

    /// The last step of a merge, or of a removal, which has no new segments and says before when samples are missing now.
    pub(super) async fn replace_segments(
        &self,
        old: &[Arc<Segment>],
        new: &[Segment],
        raw_from: Option<TimeMs>,
    ) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        for segment in new {
            insert_segment(&mut transaction, segment).await?;
        }
        for segment in old {
            sqlx::query("DELETE FROM segments WHERE id = $1").bind(segment.id).execute(&mut *transaction).await?;
            retire(&mut transaction, segment.id).await?;
        }
        // The row is written in any case, so that even without segments there is a commit.
        let sql = "UPDATE upkeep SET raw_from_ms = coalesce(max(coalesce(raw_from_ms, $1), $1), raw_from_ms)";
        sqlx::query(sql).bind(raw_from).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    /// The highest id that a segment ever had, and since when samples have not been removed.
    pub(super) async fn upkeep(&self) -> sqlx::Result<(i64, Option<TimeMs>)> {
        sqlx::query_as("SELECT last_segment, raw_from_ms FROM upkeep").fetch_one(&self.read).await
    }

    /// Segments that are written off; their files may be removed.
    pub(super) async fn retired(&self) -> sqlx::Result<Vec<i64>> {
        sqlx::query_scalar("SELECT id FROM retired ORDER BY id").fetch_all(&self.read).await
    }

    /// The files of these are gone.
    pub(super) async fn forget_retired(&self, gone: &[i64]) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        for id in gone {
            sqlx::query("DELETE FROM retired WHERE id = $1").bind(id).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }

    /// The highest sequence number that a commit ever had here.
    pub(super) async fn last_seq(&self) -> sqlx::Result<i64> {
        let sql = "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'write_ahead'), 0),
            coalesce((SELECT max(seq) FROM segments), 0))";
        sqlx::query_scalar(sql).fetch_one(&self.read).await
    }

    /// Takes a bad segment or write-ahead row out of the index and notes it.
    pub(super) async fn quarantine(&self, bad: Bad<'_>, now: TimeMs) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        let sql = match bad.kind {
            Kind::Segment => "DELETE FROM segments WHERE id = $1",
            Kind::WriteAhead => "DELETE FROM write_ahead WHERE seq = $1",
        };
        sqlx::query(sql).bind(bad.id).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO quarantine (name, reason, found_ms, first_ms, last_ms) VALUES ($1, $2, $3, $4, $5)")
            .bind(bad.name)
            .bind(bad.reason)
            .bind(now)
            .bind(bad.times.map(|times| times.0))
            .bind(bad.times.map(|times| times.1))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    /// Acknowledged commits that are not here. Their sequence numbers are not given again.
    pub(super) async fn note_missing(&self, missing: &Missing, now: TimeMs) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        let sql = "INSERT INTO missing (first_seq, last_seq, samples, first_ms, last_ms, found_ms)
            VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (first_seq) DO NOTHING";
        sqlx::query(sql)
            .bind(missing.first_seq)
            .bind(missing.last_seq)
            .bind(missing.samples.cast_signed())
            .bind(missing.first_ms)
            .bind(missing.last_ms)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        raise_seq(&mut transaction, missing.last_seq).await?;
        transaction.commit().await
    }

    /// Time ranges of what was set aside, and of commits that are missing.
    pub(super) async fn holes(&self) -> sqlx::Result<Vec<Hole>> {
        let sql = "SELECT 'quarantine/' || name, first_ms, last_ms, found_ms FROM quarantine WHERE first_ms IS NOT NULL
            UNION ALL
            SELECT 'commits ' || first_seq || ' to ' || last_seq, first_ms, last_ms, found_ms FROM missing";
        let rows: Vec<(String, TimeMs, TimeMs, TimeMs)> = sqlx::query_as(sql).fetch_all(&self.read).await?;
        let hole = |(name, first_ms, last_ms, found_ms)| Hole { name, first_ms, last_ms, found_ms };
        Ok(rows.into_iter().map(hole).collect())
    }
}

/// Acknowledged commits that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) first_seq: i64,
    pub(super) last_seq: i64,
    pub(super) samples: u64,
    pub(super) first_ms: TimeMs,
    pub(super) last_ms: TimeMs,
}

/// No commit gets a sequence number up to this one.
pub(super) async fn raise_seq(connection: &mut SqliteConnection, seq: i64) -> sqlx::Result<()> {
    let sql = "UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = 'write_ahead'";
    if sqlx::query(sql).bind(seq).execute(&mut *connection).await?.rows_affected() == 0 {
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('write_ahead', $1)";
        sqlx::query(sql).bind(seq).execute(connection).await?;
    }
    Ok(())
}

/// Its file may be removed from now on.
pub(super) async fn retire(connection: &mut SqliteConnection, id: i64) -> sqlx::Result<()> {
    let sql = "INSERT INTO retired (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
    sqlx::query(sql).bind(id).execute(connection).await.map(drop)
}

/// Its file is a segment's again.
pub(super) async fn unretire(connection: &mut SqliteConnection, id: i64) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM retired WHERE id = $1").bind(id).execute(connection).await.map(drop)
}

/// Removes the write-ahead rows after the first and up to the last of these that are in a segment now.
pub(super) async fn delete_write_ahead(
    connection: &mut SqliteConnection,
    after: i64,
    last: i64,
    keep: &[i64],
) -> sqlx::Result<()> {
    let mut delete = QueryBuilder::<Sqlite>::new("DELETE FROM write_ahead WHERE seq > ");
    delete.push_bind(after).push(" AND seq <= ").push_bind(last);
    for seq in keep {
        delete.push(" AND seq <> ").push_bind(*seq);
    }
    delete.build().execute(connection).await.map(drop)
}

/// The segment index.
pub(super) async fn segments(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Segment>> {
    let sql = "SELECT id, seq, bytes, checksum, first_ms, last_ms, format, entry_checksum FROM segments ORDER BY id";
    let rows = sqlx::query(sql).fetch_all(&mut *connection).await?;
    let mut segments = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.try_get("id")?;
        let mut segment = Segment {
            id,
            seq: row.try_get("seq")?,
            bytes: row.try_get::<i64, _>("bytes")?.cast_unsigned(),
            checksum: row.try_get("checksum")?,
            first_ms: row.try_get("first_ms")?,
            last_ms: row.try_get("last_ms")?,
            format: row.try_get("format")?,
            is_sound: true,
            groups: row_groups(connection, id).await?,
            retired: OnceLock::new(),
            held: OnceLock::new(),
        };
        // Entries of earlier releases have none.
        let written: Option<i64> = row.try_get("entry_checksum")?;
        segment.is_sound = written.is_none_or(|written| written == i64::from(segment.entry_checksum()));
        segments.push(segment);
    }
    Ok(segments)
}

async fn row_groups(connection: &mut SqliteConnection, segment: i64) -> sqlx::Result<Vec<RowGroup>> {
    let sql = "SELECT first_row, rows, first_series, last_series, first_ms, last_ms
        FROM row_groups WHERE segment = $1 ORDER BY first_row";
    let rows = sqlx::query(sql).bind(segment).fetch_all(connection).await?;
    let decode = |row: &SqliteRow| {
        Ok(RowGroup {
            first_row: row.try_get::<u32, _>("first_row")? as usize,
            rows: row.try_get::<u32, _>("rows")? as usize,
            first_series: SeriesId(row.try_get("first_series")?),
            last_series: SeriesId(row.try_get("last_series")?),
            first_ms: row.try_get("first_ms")?,
            last_ms: row.try_get("last_ms")?,
        })
    };
    rows.iter().map(decode).collect()
}

pub(super) async fn insert_segment(transaction: &mut SqliteConnection, segment: &Segment) -> sqlx::Result<()> {
    let sql = "INSERT INTO segments (id, seq, rows, bytes, checksum, first_ms, last_ms, format, entry_checksum)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    sqlx::query(sql)
        .bind(segment.id)
        .bind(segment.seq)
        .bind(segment.rows() as i64)
        .bind(segment.bytes.cast_signed())
        .bind(segment.checksum)
        .bind(segment.first_ms)
        .bind(segment.last_ms)
        .bind(segment.format)
        .bind(segment.entry_checksum())
        .execute(&mut *transaction)
        .await?;
    let sql = "INSERT INTO row_groups (segment, first_row, rows, first_series, last_series, first_ms, last_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    for group in &segment.groups {
        sqlx::query(sql)
            .bind(segment.id)
            .bind(group.first_row as i64)
            .bind(group.rows as i64)
            .bind(group.first_series.0)
            .bind(group.last_series.0)
            .bind(group.first_ms)
            .bind(group.last_ms)
            .execute(&mut *transaction)
            .await?;
    }
    let sql = "UPDATE upkeep SET last_segment = max(last_segment, $1)";
    sqlx::query(sql).bind(segment.id).execute(transaction).await?;
    Ok(())
}

/// What holds samples that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Segment,
    WriteAhead,
}

/// Something to quarantine.
pub(super) struct Bad<'a> {
    pub(super) kind: Kind,
    pub(super) id: i64,
    /// Its file's name in `quarantine/`.
    pub(super) name: &'a str,
    pub(super) reason: &'a str,
    /// Time range of its samples, where that is known.
    pub(super) times: Option<(TimeMs, TimeMs)>,
}
