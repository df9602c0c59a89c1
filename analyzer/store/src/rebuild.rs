//! The index made again from segments alone, and single files put back into it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sqlx::{Connection as _, SqliteConnection};

use super::adopt::{Named, insert};
use super::catalogue::SeriesId;
use super::database::{self, Database};
use super::embedded::lock;
use super::index::{self, delete_write_ahead, raise_seq};
use super::inspect::Tell;
use super::options::{database_path, quarantine_path, segments_path, unknown_path};
use super::segment::about::{self, Described};
use super::segments::{Segment, id_of};
use super::series_rows::{self, SeriesRows};
use super::{Problem, StoreError, aside, legacy};
use goodput_exposition::sample::Labels;

/// What a rebuilt index holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Segments in it.
    pub segments: u64,
    /// Samples in these.
    pub samples: u64,
    /// Series.
    pub series: u64,
    /// Was the old database sound, so that verdicts and the write-ahead were kept?
    pub kept_verdicts: bool,
    /// Where the old database is now, if there was one.
    pub old: Option<PathBuf>,
    /// Files that could not be indexed: where they are now, and why.
    pub unknown: Vec<Problem>,
}

/// Makes `goodput.db` again from the segments: a new file, put in place at the end; the old one is moved aside. A sound
/// database keeps its verdicts, events and write-ahead.
pub async fn rebuild(dir: &Path, tell: Tell<'_>) -> Result<Rebuilt, StoreError> {
    let _held = lock(dir)?;
    let new = dir.join("goodput.db.rebuild");
    for path in with_journal(&new) {
        remove(&path)?;
    }
    let mut rebuilt = Rebuilt { kept_verdicts: salvage(&database_path(dir), &new).await?, ..Rebuilt::default() };
    let database = Database::open(new.clone()).await?;
    let filled = fill(dir, &database, &mut rebuilt, tell).await;
    database.close().await;
    filled?;
    at(&new, aside::sync(&new))?;
    rebuilt.old = put_in_place(dir, &new)?;
    Ok(rebuilt)
}

/// Copies a database that is sound to another file; false when there is none.
async fn salvage(from: &Path, to: &Path) -> Result<bool, StoreError> {
    let is_new = match database::is_new(from).await {
        Ok(is_new) => is_new,
        Err(StoreError::DamagedDatabase { .. }) => true,
        Err(error) => return Err(error),
    };
    if is_new {
        return Ok(false);
    }
    // Not only for reading: what is in its journal is put into it first.
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(from);
    let mut connection =
        SqliteConnection::connect_with(&options).await.map_err(|error| database::failed(from, error))?;
    let copied = async {
        let lines: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_all(&mut connection).await?;
        if lines != ["ok"] {
            return Ok(false);
        }
        let sql = "VACUUM INTO $1";
        sqlx::query(sql).bind(to.to_string_lossy().into_owned()).execute(&mut connection).await?;
        sqlx::Result::Ok(true)
    };
    let copied = copied.await.map_err(|error| database::failed(from, error));
    connection.close().await.map_err(|error| database::failed(from, error))?;
    match copied {
        Err(StoreError::DamagedDatabase { .. }) => remove(to).map(|()| false),
        copied => copied,
    }
}

/// What is indexed so far.
struct Index {
    named: Named,
    /// Name of the data directory; none until the first segment says it.
    directory: Option<String>,
    generation: i64,
    /// The entries of the old index.
    old: Vec<Segment>,
}

async fn fill(dir: &Path, database: &Database, rebuilt: &mut Rebuilt, tell: Tell<'_>) -> Result<(), StoreError> {
    let failed = |error| database.failed(error);
    let mut index = Index {
        named: Named::default(),
        directory: rebuilt.kept_verdicts.then(|| database.directory.clone()),
        generation: database.generation(),
        old: database.segments().await.map_err(failed)?,
    };
    // One transaction: a new index is whole or not there.
    let mut transaction = database.begin().await.map_err(failed)?;
    for sql in ["DELETE FROM segments", "DELETE FROM row_groups"] {
        sqlx::query(sql).execute(&mut *transaction).await.map_err(failed)?;
    }
    let files = segment_files(&segments_path(dir))?;
    let all = files.iter().map(|(_, bytes)| bytes).sum();
    let mut done = 0;
    for (path, bytes) in files {
        tell(done, all);
        done += bytes;
        let entry = index.entry(&path)?;
        match entry {
            Ok((described, segment)) => {
                let added = add(&mut transaction, &described, &segment).await;
                added.map_err(failed)?;
                rebuilt.segments += 1;
                rebuilt.samples += segment.rows() as u64;
                described.series.into_iter().for_each(|(id, labels)| index.named.insert(id, labels));
            }
            Err(reason) => {
                let path = at(&path, aside::move_into(&path, &unknown_path(dir)))?;
                rebuilt.unknown.push(Problem { path, reason });
            }
        }
    }
    let named = index.directory.unwrap_or_else(|| database.directory.clone());
    let sql = "UPDATE directory SET id = $1, generation = $2";
    let noted = sqlx::query(sql).bind(named).bind(index.generation).execute(&mut *transaction).await;
    noted.map_err(failed)?;
    let series = check_catalogue(&mut transaction, &index.named).await;
    rebuilt.series = series.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(())
}

/// Series of the old catalogue stay, but where segments name them otherwise or they cannot be read. Returns how many
/// there are.
async fn check_catalogue(connection: &mut SqliteConnection, named: &Named) -> sqlx::Result<u64> {
    let SeriesRows { good, bad } = series_rows::read(connection).await?;
    let mut count = good.len() as u64;
    let differs = |(id, found): (SeriesId, Labels)| {
        named.labels(id).filter(|known| **known != found).map(|known| (id, known.clone()))
    };
    let mut changed: Vec<(SeriesId, Labels)> = good.into_iter().filter_map(differs).collect();
    for row in bad {
        let id = u32::try_from(row.id).ok().map(SeriesId);
        if let Some((id, known)) = id.and_then(|id| Some((id, named.labels(id)?))) {
            changed.push((id, known.clone()));
            count += 1;
        } else {
            sqlx::query("DELETE FROM series WHERE id = $1").bind(row.id).execute(&mut *connection).await?;
        }
    }
    series_rows::replace(connection, &changed).await?;
    Ok(count)
}

async fn add(connection: &mut SqliteConnection, described: &Described, segment: &Segment) -> sqlx::Result<()> {
    insert(connection, &described.series, segment).await?;
    if let Some(after) = described.about.after {
        delete_write_ahead(connection, after, segment.seq, &[]).await?;
    }
    raise_seq(connection, segment.seq).await
}

impl Index {
    /// The entry of a file; or why it has none. An error of the file system ends it.
    fn entry(&mut self, path: &Path) -> Result<Result<(Described, Segment), String>, StoreError> {
        let bytes = at(path, fs::read(path))?;
        let described = match about::describe(&bytes) {
            Ok(described) => described,
            Err(reason) => return Ok(self.old_entry(path, &bytes).ok_or(reason)),
        };
        let about = &described.about;
        let directory = self.directory.get_or_insert_with(|| about.directory.clone());
        if about.directory != *directory {
            return Ok(Err(format!("it is of another data directory ({})", about.directory)));
        }
        if path.file_name().is_none_or(|name| name.to_str().and_then(id_of) != Some(about.id)) {
            return Ok(Err(format!("it was written as segment {}", about.id)));
        }
        if let Some(reason) = self.named.contradiction(&described.series) {
            return Ok(Err(reason));
        }
        self.generation = self.generation.max(about.generation);
        let Some(segment) = Segment::entry(about, described.groups.clone(), &bytes) else {
            return Ok(Err("it holds no samples".to_owned()));
        };
        Ok(Ok((described, segment)))
    }

    /// Of an earlier format, which the old index knows: its series are in the catalogue.
    fn old_entry(&mut self, path: &Path, bytes: &[u8]) -> Option<(Described, Segment)> {
        let id = path.file_name()?.to_str().and_then(id_of)?;
        let place = self.old.iter().position(|segment| segment.id == id)?;
        let known = &self.old[place];
        let is_sound = known.bytes == bytes.len() as u64 && known.checksum == crc32fast::hash(bytes);
        let described = Described { about: about::About::default(), groups: Vec::new(), series: Vec::new() };
        is_sound.then(|| (described, self.old.swap_remove(place)))
    }
}

/// Segment files and their sizes, the newest first: it says which directory this is.
fn segment_files(dir: &Path) -> Result<Vec<(PathBuf, u64)>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => at(dir, entries)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = at(dir, entry)?;
        if entry.file_name().to_string_lossy().ends_with(".parquet") {
            files.push((entry.path(), at(&entry.path(), entry.metadata())?.len()));
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    Ok(files)
}

/// The old database gets another name first, so that no crash leaves neither.
fn put_in_place(dir: &Path, new: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = database_path(dir);
    let old = match at(&path, path.try_exists())? {
        false => None,
        true => {
            let old = free(&dir.join("goodput.db.before-rebuild"))?;
            if fs::hard_link(&path, &old).is_err() {
                at(&path, fs::copy(&path, &old))?;
            }
            // A journal belongs to its file: the new one must not find it.
            for (from, to) in with_journal(&path).into_iter().zip(with_journal(&old)).skip(1) {
                if at(&from, from.try_exists())? {
                    at(&from, fs::rename(&from, &to))?;
                }
            }
            Some(old)
        }
    };
    at(new, fs::rename(new, &path))?;
    at(dir, aside::sync(dir))?;
    Ok(old)
}

fn free(path: &Path) -> Result<PathBuf, StoreError> {
    let mut name = path.to_owned();
    for number in 1.. {
        if !at(&name, name.try_exists())? {
            break;
        }
        name = path.with_extension(format!("before-rebuild.{number}"));
    }
    Ok(name)
}

fn with_journal(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::Io { path: path.to_owned(), error }),
        _ => Ok(()),
    }
}

/// Checks a file of `quarantine/` or `unknown/` and puts it back into the index; its name, or its segment's id, says which.
/// Returns its path and how many samples it holds.
pub async fn unquarantine(dir: &Path, name: &str) -> Result<(PathBuf, u64), StoreError> {
    let _held = lock(dir)?;
    let path = find(dir, name)?;
    let refused = |reason: String| StoreError::Segment { path: path.clone(), reason };
    let bytes = at(&path, fs::read(&path))?;
    if path.to_string_lossy().contains(".write-ahead") {
        return Err(refused("a write-ahead row has no checksum of its own, so it cannot be checked".to_owned()));
    }
    let described = about::describe(&bytes);
    let is_old = about::is_old(&bytes);
    let described = if is_old { None } else { Some(described.map_err(&refused)?) };
    database::look_into(&database_path(dir)).await?.close().await.map_err(|error| database::failed(&path, error))?;
    let database = Database::open(database_path(dir)).await?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let put = match &described {
        Some(described) => put_back(dir, &database, &path, described, &bytes).await,
        None => legacy::put_back(dir, &database, &name, &bytes).await,
    };
    database.close().await;
    match put? {
        Ok(segment) if is_old => {
            // All of it is in the new segment, which is in the index.
            remove(&path)?;
            Ok((segments_path(dir).join(segment.file_name()), segment.rows() as u64))
        }
        Ok(segment) => Ok((segments_path(dir).join(segment.file_name()), segment.rows() as u64)),
        Err(reason) => Err(refused(reason)),
    }
}

fn find(dir: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let plain = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_id = plain.parse().ok().map(super::segments::file_name);
    for name in of_id.iter().chain([&plain]) {
        for folder in [quarantine_path(dir), unknown_path(dir)] {
            let path = folder.join(name);
            if !name.is_empty() && at(&path, path.try_exists())? {
                return Ok(path);
            }
        }
    }
    let error = std::io::Error::new(ErrorKind::NotFound, format!("no file {name:?} in quarantine/ or unknown/"));
    Err(StoreError::Io { path: dir.to_owned(), error })
}

async fn put_back(
    dir: &Path,
    database: &Database,
    path: &Path,
    described: &Described,
    bytes: &[u8],
) -> Result<Result<Segment, String>, StoreError> {
    let failed = |error| database.failed(error);
    let about = &described.about;
    if about.directory != database.directory {
        return Ok(Err(format!("it is of another data directory ({})", about.directory)));
    }
    if database.segments().await.map_err(failed)?.iter().any(|segment| segment.id == about.id) {
        return Ok(Err(format!("segment {} is in the index", about.id)));
    }
    let mut named = Named::default();
    for (id, labels) in database.series().await.map_err(failed)? {
        named.insert(id, labels);
    }
    if let Some(reason) = named.contradiction(&described.series) {
        return Ok(Err(reason));
    }
    let Some(segment) = Segment::entry(about, described.groups.clone(), bytes) else {
        return Ok(Err("it holds no samples".to_owned()));
    };
    let to = segments_path(dir).join(segment.file_name());
    if at(&to, to.try_exists())? {
        return Ok(Err(format!("{} is there already", to.display())));
    }
    // First the file, then its row: a crash in between leaves a file that the next start indexes.
    at(path, fs::rename(path, &to))?;
    for folder in [path.parent(), to.parent()].into_iter().flatten() {
        at(folder, aside::sync(folder))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    database.put_back(described, &segment, &name).await.map_err(failed)?;
    Ok(Ok(segment))
}

impl Database {
    async fn put_back(&self, described: &Described, segment: &Segment, name: &str) -> sqlx::Result<()> {
        let mut transaction = self.begin().await?;
        add(&mut transaction, described, segment).await?;
        sqlx::query("DELETE FROM quarantine WHERE name = $1").bind(name).execute(&mut *transaction).await?;
        index::unretire(&mut transaction, segment.id).await?;
        transaction.commit().await
    }
}

fn at<T>(path: &Path, outcome: std::io::Result<T>) -> Result<T, StoreError> {
    outcome.map_err(|error| StoreError::Io { path: path.to_owned(), error })
}
