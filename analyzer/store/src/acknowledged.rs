//! The commits that were acknowledged, noted outside SQLite: damage of its journal takes commits away without a word, and
//! is noticed by this file at the next start.
//!
//! A record of 36 bytes per commit, appended after it without an fsync of its own, so the file never names a commit that
//! the journal does not hold durably. Fields, little endian: sequence number (u64), samples (u64), first and last time
//! (i64), CRC-32 of the fields. A flush empties the file, and leaves one record without samples.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use goodput_exposition::sample::TimeMs;

const LENGTH: usize = 36;

/// One commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) seq: i64,
    pub(super) samples: u64,
    pub(super) first_ms: TimeMs,
    pub(super) last_ms: TimeMs,
}

impl Record {
    fn bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.samples.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_ms.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.last_ms.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |place: usize| Some(i64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?));
        let sum = u32::from_le_bytes(bytes.get(32..LENGTH)?.try_into().ok()?);
        if crc32fast::hash(&bytes[..32]) != sum {
            return None;
        }
        Some(Self { seq: field(0)?, samples: field(8)?.cast_unsigned(), first_ms: field(16)?, last_ms: field(24)? })
    }
}

/// The records of a file, and how many others are torn or bad.
pub(super) fn read(path: &Path) -> io::Result<(Vec<Record>, usize)> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    let records: Vec<Record> = bytes.chunks(LENGTH).filter_map(Record::parse).collect();
    let bad = bytes.chunks(LENGTH).count() - records.len();
    Ok((records, bad))
}

/// The file, open for the one writer.
pub(super) struct Acknowledged {
    path: PathBuf,
    file: Option<File>,
}

impl Acknowledged {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Notes a commit that is on disk.
    pub(super) fn note(&mut self, record: Record) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => File::options().append(true).create(true).open(&self.path)?,
        };
        // After an error the next commit opens the file again: a record that is torn is noted as such at the start.
        file.write_all(&record.bytes())?;
        self.file = Some(file);
        Ok(())
    }

    /// All commits up to this one are in segments. A crash in between leaves the old records or the new one, and the
    /// index holds what either names.
    pub(super) fn restart(&mut self, seq: i64) -> io::Result<()> {
        self.file = None;
        let temporary = self.path.with_extension("tmp");
        let record = Record { seq, samples: 0, first_ms: 0, last_ms: 0 };
        fs::write(&temporary, record.bytes())?;
        fs::rename(&temporary, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_bad_ones_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acknowledged");
        assert_eq!(read(&path).unwrap(), (vec![], 0), "there is no file yet");
        let mut file = Acknowledged::new(path.clone());
        let record = |seq| Record { seq, samples: 3, first_ms: -5, last_ms: 1_700_000_000_000 };
        (1..=3).for_each(|seq| file.note(record(seq)).unwrap());
        assert_eq!(read(&path).unwrap(), (vec![record(1), record(2), record(3)], 0));
        let good = fs::read(&path).unwrap();
        for place in 0..good.len() {
            let mut flipped = good.clone();
            flipped[place] ^= 1;
            fs::write(&path, flipped).unwrap();
            let (records, bad) = read(&path).unwrap();
            assert_eq!((records.len(), bad), (2, 1), "byte {place}");
        }
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        assert_eq!(read(&path).unwrap(), (vec![record(1), record(2)], 1));
        file.restart(9).unwrap();
        file.note(record(10)).unwrap();
        let emptied = Record { seq: 9, samples: 0, first_ms: 0, last_ms: 0 };
        assert_eq!(read(&path).unwrap(), (vec![emptied, record(10)], 0));
    }
}
