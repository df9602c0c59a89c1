//! Segment files: written so that a crash leaves the old state or the new one, and read with suspicion.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tracing::warn;

use super::StoreError;
use super::catalogue::SeriesId;
use super::segment::{self, Encoder, RowGroup};
use crate::sample::{Sample, TimeMs};

/// What a segment is called, and how far it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// Never given twice.
    pub(super) id: i64,
    /// The last write-ahead sequence number it holds.
    pub(super) seq: i64,
}

/// The index entry of one segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: i64,
    /// The last write-ahead sequence number it holds.
    pub(super) seq: i64,
    pub(super) bytes: u64,
    /// CRC-32 of the whole file.
    pub(super) checksum: u32,
    pub(super) first_ms: TimeMs,
    pub(super) last_ms: TimeMs,
    pub(super) groups: Vec<RowGroup>,
    /// Its file, once it is out of the index.
    pub(super) retired: OnceLock<PathBuf>,
    /// Its file, open, so that it can be read when another process has removed it.
    pub(super) held: OnceLock<File>,
}

/// The file goes when the last read of it is over.
impl Drop for Segment {
    fn drop(&mut self) {
        let Some(path) = self.retired.get() else { return };
        if let Err(error) = fs::remove_file(path) {
            warn!(path = %path.display(), %error, "cannot remove a segment that is not in use any more; the next start tries again");
        }
    }
}

impl Segment {
    /// It is out of the index: its file is to go.
    pub(super) fn retire(&self, dir: &Path) {
        self.retired.get_or_init(|| dir.join(self.file_name()));
    }

    /// Keeps the file readable whatever becomes of its name. False when it is not there any more.
    pub(super) fn hold(&self, dir: &Path) -> io::Result<bool> {
        match File::open(dir.join(self.file_name())) {
            Ok(file) => {
                self.held.get_or_init(|| file);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn bytes_of(&self, dir: &Path) -> io::Result<Vec<u8>> {
        let Some(mut file) = self.held.get() else { return fs::read(dir.join(self.file_name())) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// An entry without rows.
    #[cfg(test)]
    pub(super) fn of(id: i64, bytes: u64, times: Range<TimeMs>) -> Self {
        let (first_ms, last_ms, retired, held) = (times.start, times.end - 1, OnceLock::new(), OnceLock::new());
        Self { id, seq: id, bytes, checksum: 0, first_ms, last_ms, groups: Vec::new(), retired, held }
    }

    pub(super) fn rows(&self) -> usize {
        self.groups.iter().map(|group| group.rows).sum()
    }

    pub(super) fn file_name(&self) -> String {
        format!("{:012}.parquet", self.id)
    }

    /// Are some of its samples within the range?
    pub(super) fn overlaps(&self, range: &Range<TimeMs>) -> bool {
        self.first_ms < range.end && range.start <= self.last_ms
    }

    /// Is the file there, and as long as it was? Reads nothing: the checksum is for [`read`].
    pub(super) fn check(&self, dir: &Path) -> Result<(), String> {
        let found = fs::metadata(dir.join(self.file_name())).map_err(|error| error.to_string())?.len();
        if found == self.bytes { Ok(()) } else { Err(format!("{found} bytes long, {} were written", self.bytes)) }
    }

    /// The file's bytes, if they are those that were written.
    pub(super) fn load(&self, dir: &Path) -> Result<Vec<u8>, String> {
        let bytes = self.bytes_of(dir).map_err(|error| error.to_string())?;
        let found = crc32fast::hash(&bytes);
        if found == self.checksum {
            Ok(bytes)
        } else {
            Err(format!(
                "checksum {found:08x} of {} bytes, {:08x} of {} were written",
                bytes.len(),
                self.checksum,
                self.bytes
            ))
        }
    }
}

/// Writes what was encoded to a new file: temporary name, fsync, rename, fsync of the directory. It counts only once it is
/// in the index. `None` when there are no samples.
pub(super) fn write(dir: &Path, Name { id, seq }: Name, encoder: Encoder) -> Result<Option<Segment>, StoreError> {
    let (bytes, groups) = encoder
        .finish()
        .map_err(|reason| StoreError::Segment { path: dir.join(format!("{id:012}.parquet")), reason })?;
    let times = (groups.iter().map(|g| g.first_ms).min(), groups.iter().map(|g| g.last_ms).max());
    let (Some(first_ms), Some(last_ms)) = times else { return Ok(None) };
    let (length, checksum) = (bytes.len() as u64, crc32fast::hash(&bytes));
    let (retired, held) = (OnceLock::new(), OnceLock::new());
    let segment = Segment { id, seq, bytes: length, checksum, first_ms, last_ms, groups, retired, held };
    let path = dir.join(segment.file_name());
    put(dir, &path, &bytes).map_err(|error| StoreError::Io { path, error })?;
    Ok(Some(segment))
}

/// After an error there is no file: a disk that is full does not fill up with halves.
fn put(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let put = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(dir)?.sync_all()
    };
    put().inspect_err(|_| {
        // What cannot be removed is an orphan, which the next start removes.
        let _ = fs::remove_file(&temporary);
        let _ = fs::remove_file(path);
    })
}

/// What [`read`] found: one list of samples per id, and the segments that could not be read, with the reason.
pub(super) struct Found {
    pub(super) samples: Vec<Vec<Sample>>,
    pub(super) bad: Vec<(Arc<Segment>, String)>,
}

/// Reads series (in order of id) from all segments that may hold them. Blocks.
pub(super) fn read(dir: &Path, segments: &[Arc<Segment>], ids: &[SeriesId], range: &Range<TimeMs>) -> Found {
    let mut found = Found { samples: vec![Vec::new(); ids.len()], bad: Vec::new() };
    for segment in segments {
        if !segment.groups.iter().any(|group| group.may_hold(ids, range)) {
            continue;
        }
        let read = segment
            .load(dir)
            .and_then(|bytes| segment::decode(&bytes, &segment.groups, ids, range, &mut found.samples));
        if let Err(reason) = read {
            found.bad.push((Arc::clone(segment), reason));
        }
    }
    for samples in &mut found.samples {
        settle(samples);
    }
    found
}

/// Brings samples from several sources in order of time; of several at one time the first stays.
pub(super) fn settle(samples: &mut Vec<Sample>) {
    samples.sort_by_key(|sample| sample.time_ms);
    samples.dedup_by_key(|sample| sample.time_ms);
}

/// Removes what an interrupted flush, merge or removal left: temporary files, and segments that are not in the index:
/// their samples are in the write-ahead or in other segments, or were to be removed. Returns what was removed.
pub(super) fn collect_orphans(dir: &Path, segments: &[Segment]) -> io::Result<Vec<PathBuf>> {
    let known: Vec<String> = segments.iter().map(Segment::file_name).collect();
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".tmp") || name.ends_with(".parquet") && !known.iter().any(|known| **known == *name) {
            fs::remove_file(&path)?;
            removed.push(path);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_length_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let mut encoder = Encoder::new().unwrap();
        encoder.push(SeriesId(1), &(0..100).map(|t| Sample { time_ms: t, value: 0.5 }).collect::<Vec<_>>()).unwrap();
        let segment = Arc::new(write(dir.path(), Name { id: 1, seq: 1 }, encoder).unwrap().unwrap());
        let path = dir.path().join(segment.file_name());
        let good = fs::read(&path).unwrap();
        let all = std::slice::from_ref(&segment);
        let found = || read(dir.path(), all, &[SeriesId(1)], &(0..100));
        assert!(found().bad.is_empty() && found().samples[0].len() == 100);
        for place in 0..good.len() {
            let mut flipped = good.clone();
            flipped[place] ^= 0x10;
            fs::write(&path, flipped).unwrap();
            let found = found();
            assert!(found.bad.len() == 1 && found.samples[0].is_empty(), "byte {place} of {}", good.len());
            fs::write(&path, &good[..place]).unwrap();
            assert!(segment.check(dir.path()).is_err(), "{place} bytes of {}", good.len());
        }
    }
}
