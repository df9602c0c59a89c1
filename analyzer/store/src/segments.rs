//! Segment files: written so that a crash leaves the old state or the new one, and read with suspicion.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use tracing::warn;

use super::StoreError;
use super::catalogue::SeriesId;
use super::segment::about::About;
use super::segment::{self, Encoder, FORMAT_NUMBER, RowGroup};
use goodput_exposition::sample::{Labels, Sample, TimeMs};

/// Pauses before a read that failed is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// Why a segment's samples are not there.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The file system failed, which says nothing about the file's bytes.
    Io(io::Error),
    /// The bytes that were read are not those that were written.
    Damaged(String),
}

impl Unreadable {
    /// The same as an error of the read.
    pub(super) fn at(self, path: PathBuf) -> StoreError {
        match self {
            Self::Io(error) => StoreError::Io { path, error },
            Self::Damaged(reason) => StoreError::Segment { path, reason },
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damaged(reason) => reason.fmt(f),
        }
    }
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
    /// Of the file; 2 stands for formats that do not name their series.
    pub(super) format: i64,
    /// Is the entry as it was written to the index?
    pub(super) is_sound: bool,
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

    /// Tries again a little while the machine lacks something that may come back.
    fn bytes_of(&self, dir: &Path) -> io::Result<Vec<u8>> {
        for pause in PAUSES {
            match self.try_bytes_of(dir) {
                Err(error) if may_pass(&error) => thread::sleep(pause),
                read => return read,
            }
        }
        self.try_bytes_of(dir)
    }

    fn try_bytes_of(&self, dir: &Path) -> io::Result<Vec<u8>> {
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
        let (format, groups) = (FORMAT_NUMBER, Vec::new());
        Self { id, seq: id, bytes, checksum: 0, first_ms, last_ms, format, is_sound: true, groups, retired, held }
    }

    pub(super) fn rows(&self) -> usize {
        self.groups.iter().map(|group| group.rows).sum()
    }

    pub(super) fn file_name(&self) -> String {
        file_name(self.id)
    }

    /// Are some of its samples within the range?
    pub(super) fn overlaps(&self, range: &Range<TimeMs>) -> bool {
        self.first_ms < range.end && range.start <= self.last_ms
    }

    /// CRC-32 of the entry's numbers, kept with it in the index.
    pub(super) fn entry_checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let whole = [self.id, self.seq, self.bytes.cast_signed(), self.checksum.into()];
        let of_group = |group: &RowGroup| {
            let series = [group.first_series, group.last_series].map(|id| i64::from(id.0));
            [group.first_row as i64, group.rows as i64, group.first_ms, group.last_ms].into_iter().chain(series)
        };
        let times = [self.first_ms, self.last_ms, self.format];
        let numbers = whole.into_iter().chain(times).chain(self.groups.iter().flat_map(of_group));
        numbers.for_each(|number| hasher.update(&number.to_le_bytes()));
        hasher.finalize()
    }

    /// Does the directory say that there is no such file?
    pub(super) fn is_absent(&self, dir: &Path) -> bool {
        fs::metadata(dir.join(self.file_name())).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Is the file there, and as long as it was? Reads it only when its length is another: the checksum is for [`read`].
    pub(super) fn check(&self, dir: &Path) -> Result<(), Unreadable> {
        let found = fs::metadata(dir.join(self.file_name())).map_err(Unreadable::Io)?.len();
        if found == self.bytes { Ok(()) } else { self.load(dir).map(drop) }
    }

    /// The file's bytes, if they are those that were written.
    pub(super) fn load(&self, dir: &Path) -> Result<Vec<u8>, Unreadable> {
        let bytes = self.bytes_of(dir).map_err(Unreadable::Io)?;
        if bytes.len() as u64 != self.bytes {
            return Err(Unreadable::Damaged(format!("{} bytes long, {} were written", bytes.len(), self.bytes)));
        }
        let (found, written) = (crc32fast::hash(&bytes), self.checksum);
        if found != written {
            return Err(Unreadable::Damaged(format!("checksum {found:08x}, {written:08x} was written")));
        }
        Ok(bytes)
    }

    /// The entry of a file of these bytes that says itself what it holds; none when it holds no samples.
    pub(super) fn entry(about: &About, groups: Vec<RowGroup>, bytes: &[u8]) -> Option<Self> {
        Some(Self {
            id: about.id,
            seq: about.seq,
            bytes: bytes.len() as u64,
            checksum: crc32fast::hash(bytes),
            first_ms: groups.iter().map(|group| group.first_ms).min()?,
            last_ms: groups.iter().map(|group| group.last_ms).max()?,
            format: FORMAT_NUMBER,
            is_sound: true,
            groups,
            retired: OnceLock::new(),
            held: OnceLock::new(),
        })
    }
}

/// Does the machine lack something that may be there again in a moment?
fn may_pass(error: &io::Error) -> bool {
    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::IO, Errno::STALE, Errno::TIMEDOUT];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

pub(super) fn file_name(id: i64) -> String {
    format!("{id:012}.parquet")
}

/// The id of a file of that name; none for names that the store does not give.
pub(super) fn id_of(name: &str) -> Option<i64> {
    let id = name.strip_suffix(".parquet")?.parse().ok()?;
    (file_name(id) == name).then_some(id)
}

/// Writes what was encoded to a new file: temporary name, fsync, rename, fsync of the directory. It counts only once it is
/// in the index. `None` when there are no samples.
pub(super) fn write(
    dir: &Path,
    about: &About,
    encoder: Encoder,
    labels: impl Fn(SeriesId) -> Option<Labels>,
) -> Result<Option<Segment>, StoreError> {
    let path = dir.join(file_name(about.id));
    let encoded = encoder.finish(about, labels);
    let (bytes, groups) = encoded.map_err(|reason| StoreError::Segment { path: path.clone(), reason })?;
    let Some(segment) = Segment::entry(about, groups, &bytes) else { return Ok(None) };
    put(dir, &path, &bytes).map_err(|error| StoreError::Io { path, error })?;
    Ok(Some(segment))
}

/// After an error there is no file of it: a disk that is full does not fill up with halves. A file that is there already
/// is another process's, and stays.
fn put(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.try_exists()? {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let temporary = path.with_extension("tmp");
    let mut file = File::create_new(&temporary)?;
    let mut put = || {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(dir)?.sync_all()
    };
    put().inspect_err(|_| {
        // What cannot be removed is an orphan, which the next start looks at.
        let _ = fs::remove_file(&temporary);
        let _ = fs::remove_file(path);
    })
}

/// What [`read`] found: one list of samples per id, and the segments that are damaged, with the reason.
pub(super) struct Found {
    pub(super) samples: Vec<Vec<Sample>>,
    pub(super) bad: Vec<(Arc<Segment>, String)>,
}

/// Reads series (in order of id) from all segments that may hold them; an error of the file system ends it. Blocks.
pub(super) fn read(
    dir: &Path,
    segments: &[Arc<Segment>],
    ids: &[SeriesId],
    range: &Range<TimeMs>,
) -> Result<Found, StoreError> {
    let mut found = Found { samples: vec![Vec::new(); ids.len()], bad: Vec::new() };
    for segment in segments {
        if !segment.groups.iter().any(|group| group.may_hold(ids, range)) {
            continue;
        }
        let decode = |bytes: Vec<u8>| {
            let decoded = segment::decode(&bytes, &segment.groups, ids, range, &mut found.samples);
            decoded.map_err(Unreadable::Damaged)
        };
        match segment.load(dir).and_then(decode) {
            Ok(()) => {}
            Err(Unreadable::Damaged(reason)) => found.bad.push((Arc::clone(segment), reason)),
            Err(error) => return Err(error.at(dir.join(segment.file_name()))),
        }
    }
    for samples in &mut found.samples {
        settle(samples);
    }
    Ok(found)
}

/// Brings samples from several sources in order of time; of several at one time the first stays.
pub(super) fn settle(samples: &mut Vec<Sample>) {
    samples.sort_by_key(|sample| sample.time_ms);
    samples.dedup_by_key(|sample| sample.time_ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_and_every_length_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let mut encoder = Encoder::new().unwrap();
        let about = About { id: 1, seq: 1, ..About::default() };
        encoder.push(SeriesId(1), &(0..100).map(|t| Sample { time_ms: t, value: 0.5 }).collect::<Vec<_>>()).unwrap();
        let segment = Arc::new(write(dir.path(), &about, encoder, |_| None).unwrap().unwrap());
        let path = dir.path().join(segment.file_name());
        let good = fs::read(&path).unwrap();
        let all = std::slice::from_ref(&segment);
        let found = || read(dir.path(), all, &[SeriesId(1)], &(0..100)).unwrap();
        assert!(found().bad.is_empty() && found().samples[0].len() == 100);
        for place in 0..good.len() {
            let mut flipped = good.clone();
            flipped[place] ^= 0x10;
            fs::write(&path, flipped).unwrap();
            let found = found();
            assert!(found.bad.len() == 1 && found.samples[0].is_empty(), "byte {place} of {}", good.len());
            fs::write(&path, &good[..place]).unwrap();
            let checked = segment.check(dir.path());
            assert!(matches!(checked, Err(Unreadable::Damaged(_))), "{place} bytes of {}: {checked:?}", good.len());
        }
    }
}
