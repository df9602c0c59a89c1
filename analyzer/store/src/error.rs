//! Why the store could not do something.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Problem;
use goodput_exposition::sample::TimeMs;

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data directory was written by a newer release.
    #[error(
        "{path}: written by a newer goodput-analyzer (schema {found}, this one knows {known}); upgrade, or use another --data.dir"
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Schema version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// An earlier release wrote the data directory, and nothing may be changed here.
    #[error(
        "{path}: written by an older goodput-analyzer (schema {found}, this one knows {known}); start serve once, which upgrades it"
    )]
    Older {
        /// The database file.
        path: PathBuf,
        /// Schema version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// Another process has the data directory.
    #[error("{path}: in use by another goodput-analyzer; stop it, or use another --data.dir")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The file system is nearly full; samples are taken again when there is room.
    #[error(
        "{path}: {free} bytes are free on its file system, fewer than store.min_free_disk_space_bytes ({minimum}); no samples are taken until there is room"
    )]
    NoSpace {
        /// The data directory.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// The limit.
        minimum: u64,
    },
    /// Another process has opened the directory since; this one writes no more.
    #[error("{path}: opened by another goodput-analyzer since, so this one writes no more; stop one of them")]
    Superseded {
        /// The database file.
        path: PathBuf,
    },
    /// There are segments and no index of them.
    #[error(
        "{path}: absent or empty, but {segments} segment files are there; put it back, or make a new one with `goodput-analyzer store rebuild --data.dir {}`",
        .dir.display()
    )]
    NoIndex {
        /// The database file.
        path: PathBuf,
        /// The data directory.
        dir: PathBuf,
        /// Segment files.
        segments: usize,
    },
    /// The segments are of a later state of the directory than the database.
    #[error(
        "{path}: does not know {segments} segment files, {reason}; put the newest goodput.db back, or make a new one with `goodput-analyzer store rebuild --data.dir {}`",
        .dir.display()
    )]
    OldDatabase {
        /// The database file.
        path: PathBuf,
        /// The data directory.
        dir: PathBuf,
        /// Segment files that it does not know.
        segments: usize,
        /// How that is known.
        reason: String,
    },
    /// Most segment files are absent.
    #[error(
        "{path}: {missing} of {all} segment files are absent; is its volume mounted? start again when they are back, or go on without them with `goodput-analyzer store rebuild --data.dir {}`",
        .dir.display()
    )]
    SegmentsAbsent {
        /// The segments' directory.
        path: PathBuf,
        /// The data directory.
        dir: PathBuf,
        /// Segment files that are absent.
        missing: usize,
        /// Segments in the index.
        all: usize,
    },
    /// A restore was cut short.
    #[error("{path}: a restore was interrupted; run `goodput-analyzer store restore` again")]
    HalfRestored {
        /// What the restore left.
        path: PathBuf,
    },
    /// The clock of this machine stepped, or several senders contradict it, and most of the batch lies ahead of it.
    #[error(
        "the clock of this machine is in doubt, and most of these samples lie ahead of it; samples are taken when the clock is right"
    )]
    ClockInDoubt,
    /// The batch is not on disk; a later attempt may succeed.
    #[error("not stored: {reason}")]
    NotStored {
        /// What failed.
        reason: String,
    },
    /// What does not belong to the node and window it is stored for, so that a second run would double it.
    #[error("{what} is not of {node} in {window:?}")]
    OutsideWindow {
        /// The interval, risk or advisory.
        what: String,
        /// The node.
        node: String,
        /// The window.
        window: Range<TimeMs>,
    },
    /// An event that is there already, and not the same; nothing of the request is stored.
    #[error("event {id:?} is there already, with another content")]
    Contradicted {
        /// Its id.
        id: String,
    },
    /// A backup or a restored directory would be mixed with what is there.
    #[error("{path}: not empty; expected a directory that is empty or does not exist")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The backup is not as it was written.
    #[error("not restored, {} of its files are bad; the first: {}: {}", .problems.len(), .problems[0].path.display(), .problems[0].reason)]
    BadBackup {
        /// Everything that is wrong; at least one.
        problems: Vec<Problem>,
    },
    /// The file system.
    #[error("{path}: {error}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The database.
    #[error("{path}: {error}")]
    Database {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        error: sqlx::Error,
    },
    /// PostgreSQL.
    #[error("{server}: {error}")]
    Server {
        /// The database and its host.
        server: String,
        /// What it said.
        error: sqlx::Error,
    },
    /// PostgreSQL did not answer.
    #[error("{server}: no answer within {seconds} s")]
    Silent {
        /// The database and its host.
        server: String,
        /// How long it had.
        seconds: u64,
    },
    /// PostgreSQL has no tables of ours.
    #[error(
        "{server}: no tables of goodput-analyzer; `goodput-analyzer migrate --database.url URL`, as their owner, makes them"
    )]
    NoSchema {
        /// The database and its host.
        server: String,
    },
    /// An earlier release made the tables.
    #[error(
        "{server}: its schema is {found}, this goodput-analyzer needs {known}; `goodput-analyzer migrate --database.url URL`, as the owner of the tables, upgrades it"
    )]
    OlderSchema {
        /// The database and its host.
        server: String,
        /// Schema version found.
        found: i64,
        /// The version of this release.
        known: i64,
    },
    /// A later release made the tables.
    #[error("{server}: its schema is {found}, this goodput-analyzer knows {known}; upgrade goodput-analyzer")]
    NewerSchema {
        /// The database and its host.
        server: String,
        /// Schema version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// A role that is to be granted something is not there.
    #[error(
        "{server}: there is no role {role}; an administrator makes it with `CREATE ROLE {role} LOGIN PASSWORD '…'`, or name another with --database.worker-role and --database.reader-role"
    )]
    NoRole {
        /// The database and its host.
        server: String,
        /// The role.
        role: String,
    },
    /// A read of more results than may be read at once.
    #[error("more than {max_rows} rows of verdicts, which is the limit reads.max_rows; choose a shorter period")]
    TooMuch {
        /// The limit.
        max_rows: usize,
    },
    /// The database is not as SQLite wrote it.
    #[error(
        "{path}: {error}; `goodput-analyzer store verify` names what is damaged; put a copy back, or make a new one from the segments with `goodput-analyzer store rebuild --data.dir {}`",
        .path.parent().unwrap_or(Path::new("")).display()
    )]
    DamagedDatabase {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        error: sqlx::Error,
    },
    /// A read that ended without an answer; a later attempt may succeed.
    #[error("reading segments failed: {reason}")]
    ReadFailed {
        /// What failed.
        reason: String,
    },
    /// A write-ahead row that cannot be read, found by a reader that changes nothing; `serve` quarantines it at its start.
    #[error("{path}: bad write-ahead row {seq}: {reason}")]
    WriteAhead {
        /// The database file.
        path: PathBuf,
        /// Its sequence number.
        seq: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// A segment that cannot be read. It is quarantined; everything else is served.
    #[error("{path}: bad segment: {reason}")]
    Segment {
        /// The segment file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// What a batch that was refused so is counted as.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::NoSpace { .. } => "no_space",
            Self::ClockInDoubt => "clock_in_doubt",
            _ => "not_stored",
        }
    }
}
