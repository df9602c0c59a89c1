//! A data directory copied while it is in use, and back. A snapshot of the database says which segments belong to it;
//! these never change once they are in the index.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sqlx::Connection as _;
use tracing::warn;

use super::database::{self, Database};
use super::embedded::lock;
use super::inspect::{Tell, verify};
use super::options::{database_path, segments_path};
use super::segments::Segment;
use super::{StoreError, Verified, index};

/// A server may merge or remove a segment before it is copied; then a newer snapshot names its successor. What has been
/// copied stays, so that each attempt has less to do.
const ATTEMPTS: usize = 10;

/// In the data directory while it is being restored.
const PARTIAL: &str = "restore.partial";

/// In the data directory while what was restored is put in place.
const MARKER: &str = "restoring";

/// What was copied.
#[derive(Clone, Copy, Debug)]
pub struct BackedUp {
    /// Segments.
    pub segments: u64,
    /// Bytes of segments and database.
    pub bytes: u64,
}

/// Copies the data directory, which another process may have open, to a new one, as it is at one instant; everything
/// acknowledged before the call is in it. `link`: segments are hard links, which costs no space but is no second copy.
pub async fn backup(dir: &Path, to: &Path, link: bool, tell: Tell<'_>) -> Result<BackedUp, StoreError> {
    empty(to, &[])?;
    let partial = beside(to);
    clear(&partial)?;
    let segments_dir = segments_path(&partial);
    at(&segments_dir, fs::create_dir_all(&segments_dir))?;
    let (mut copied, mut absent) = (BTreeSet::new(), None);
    for _ in 0..ATTEMPTS {
        let segments = snapshot(dir, &partial).await?;
        let gone = copy_segments(dir, &partial, &segments, &mut copied, link, tell)?;
        let Some(name) = gone else { return finish(&partial, to, &segments, &copied) };
        if absent.as_ref() == Some(&name) {
            // A newer index names it too, so it was not merged or removed.
            return Err(StoreError::Io { path: segments_path(dir).join(name), error: ErrorKind::NotFound.into() });
        }
        absent = Some(name);
    }
    let reason = "segments were merged or removed faster than they were copied; try --link, or when less comes in";
    Err(StoreError::NotStored { reason: reason.to_owned() })
}

/// The database as it is now, and the segments in its index.
async fn snapshot(dir: &Path, partial: &Path) -> Result<Vec<Segment>, StoreError> {
    let (from, to) = (database_path(dir), database_path(partial));
    match fs::remove_file(&to) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::Io { path: to, error }),
        _ => {}
    }
    let mut connection = database::look_into(&from).await?;
    let copied = sqlx::query("VACUUM INTO $1").bind(to.to_string_lossy().into_owned()).execute(&mut connection).await;
    copied.map_err(|error| database::failed(&from, error))?;
    at(&to, sync(&to))?;
    let mut copy = database::look_into(&to).await?;
    let segments = index::segments(&mut copy).await;
    copy.close().await.map_err(|error| database::failed(&to, error))?;
    segments.map_err(|error| database::failed(&to, error))
}

/// The first one that is not there any more, if any.
fn copy_segments(
    dir: &Path,
    partial: &Path,
    segments: &[Segment],
    copied: &mut BTreeSet<String>,
    link: bool,
    tell: Tell<'_>,
) -> Result<Option<String>, StoreError> {
    let all = segments.iter().map(|segment| segment.bytes).sum();
    let mut done = 0;
    for segment in segments {
        tell(done, all);
        done += segment.bytes;
        let name = segment.file_name();
        if copied.contains(&name) {
            continue;
        }
        let (from, to) = (segments_path(dir).join(&name), segments_path(partial).join(&name));
        match if link { fs::hard_link(&from, &to) } else { copy(&from, &to) } {
            Ok(()) => copied.insert(name),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(name)),
            Err(error) => return Err(StoreError::Io { path: from, error }),
        };
    }
    Ok(None)
}

/// What earlier snapshots named and this one does not goes; the rest gets its name.
fn finish(partial: &Path, to: &Path, segments: &[Segment], copied: &BTreeSet<String>) -> Result<BackedUp, StoreError> {
    let wanted: BTreeSet<String> = segments.iter().map(Segment::file_name).collect();
    for name in copied.difference(&wanted) {
        let path = segments_path(partial).join(name);
        at(&path, fs::remove_file(&path))?;
    }
    let database = at(partial, fs::metadata(database_path(partial)))?.len();
    for dir in [&segments_path(partial), partial] {
        at(dir, sync(dir))?;
    }
    at(to, fs::rename(partial, to))?;
    if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        at(parent, sync(parent))?;
    }
    let bytes = segments.iter().map(|segment| segment.bytes).sum::<u64>() + database;
    Ok(BackedUp { segments: segments.len() as u64, bytes })
}

/// Copies a backup into an empty data directory, brings it up to this release's schema and verifies it; only then it is
/// the data directory's.
pub async fn restore(from: &Path, dir: &Path, tell: Tell<'_>) -> Result<Verified, StoreError> {
    let source = database_path(from);
    at(&source, fs::metadata(&source))?;
    if check_restored(dir).is_err() {
        // A restore was cut short when all of it was copied and verified.
        let _held = lock(dir)?;
        put_in_place(dir)?;
        return verify(dir, tell).await;
    }
    empty(dir, &["lock", "lost+found", PARTIAL])?;
    at(dir, fs::create_dir_all(dir))?;
    let _held = lock(dir)?;
    let partial = dir.join(PARTIAL);
    clear(&partial)?;
    let restored = async {
        copy_all(from, &partial, tell)?;
        let database = Database::open(database_path(&partial)).await?;
        database.close().await;
        let verified = verify(&partial, tell).await?;
        for row in &verified.bad_rows {
            warn!(reason = row.reason, "bad row restored as it is in the backup; serve sets it aside");
        }
        if verified.problems.is_empty() {
            Ok(verified)
        } else {
            Err(StoreError::BadBackup { problems: verified.problems })
        }
    };
    let verified = match restored.await {
        Ok(verified) => verified,
        Err(error) => {
            clear(&partial)?;
            return Err(error);
        }
    };
    let marker = dir.join(MARKER);
    at(&marker, fs::write(&marker, "goodput-analyzer store restore\n").and_then(|()| sync(&marker)))?;
    at(dir, sync(dir))?;
    put_in_place(dir)?;
    Ok(verified)
}

/// Puts a restored directory in place, which a crash may have begun. Until the marker is gone no store opens it.
fn put_in_place(dir: &Path) -> Result<(), StoreError> {
    let partial = dir.join(PARTIAL);
    for name in [segments_path(Path::new("")), database_path(Path::new(""))] {
        let from = partial.join(&name);
        if at(&from, from.try_exists())? {
            at(&from, fs::rename(&from, dir.join(&name)))?;
        }
    }
    at(dir, sync(dir))?;
    clear(&partial)?;
    let marker = dir.join(MARKER);
    at(&marker, fs::remove_file(&marker))?;
    at(dir, sync(dir))
}

/// Refuses a data directory in which a restore was cut short.
pub(super) fn check_restored(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(MARKER);
    match at(&path, path.try_exists())? {
        true => Err(StoreError::HalfRestored { path }),
        false => Ok(()),
    }
}

fn copy_all(from: &Path, partial: &Path, tell: Tell<'_>) -> Result<(), StoreError> {
    let (here, there) = (segments_path(from), segments_path(partial));
    at(&there, fs::create_dir_all(&there))?;
    let entries = at(&here, fs::read_dir(&here))?.collect::<io::Result<Vec<_>>>();
    let mut files = vec![(database_path(from), database_path(partial))];
    files.extend(at(&here, entries)?.into_iter().map(|entry| (entry.path(), there.join(entry.file_name()))));
    let all = files.iter().filter_map(|(from, _)| fs::metadata(from).ok()).map(|file| file.len()).sum();
    let mut done = 0;
    for (from, to) in files {
        tell(done, all);
        at(&from, copy(&from, &to))?;
        done += at(&to, fs::metadata(&to))?.len();
    }
    at(&there, sync(&there))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    sync(to)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Where a backup is made until it is whole.
fn beside(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    to.with_file_name(name)
}

/// An error when there is anything but these.
fn empty(dir: &Path, but: &[&str]) -> Result<(), StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::Io { path: dir.to_owned(), error }),
    };
    for entry in entries {
        let name = at(dir, entry)?.file_name();
        if !but.iter().any(|but| name == *but) {
            return Err(StoreError::NotEmpty { path: dir.to_owned() });
        }
    }
    Ok(())
}

/// Removes what an interrupted attempt left.
fn clear(partial: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::Io { path: partial.to_owned(), error }),
        _ => Ok(()),
    }
}

fn at<T>(path: &Path, outcome: io::Result<T>) -> Result<T, StoreError> {
    outcome.map_err(|error| StoreError::Io { path: path.to_owned(), error })
}
