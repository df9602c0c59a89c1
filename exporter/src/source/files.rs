//! Kernel files below injected roots.

use std::io;
use std::path::{Path, PathBuf};

/// Where this node's kernel file systems are mounted, as seen by this process.
#[derive(Clone, Debug)]
pub struct Roots {
    /// procfs, `--path.procfs`.
    pub proc: PathBuf,
    /// sysfs, `--path.sysfs`.
    pub sys: PathBuf,
    /// The cgroup mount: a v2 tree, or the folder of v1 hierarchies. `--path.cgroup`.
    pub cgroup: PathBuf,
    /// The host's root file system, `--path.rootfs`.
    pub root: PathBuf,
}

/// Why a kernel file gave no value.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The kernel has no such file: usually a feature that is off, not a fault.
    #[error("{path}: not there")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// This process may not read it.
    #[error("{path}: permission denied")]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// Any other failure of the read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// It was read and makes no sense.
    #[error("{path}: {error}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what was expected.
        error: crate::parse::ParseError,
    },
}

impl FileError {
    /// Is the file simply not there?
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, FileError::Missing { .. })
    }
}

/// Reads a whole kernel file as text. Bytes that are not UTF-8 are replaced: kernel files carry device-supplied names.
pub fn read(path: &Path) -> Result<String, FileError> {
    match std::fs::read(path) {
        Ok(bytes) => {
            Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
        }
        Err(error) => {
            let path = path.to_owned();
            Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::Missing { path },
                io::ErrorKind::PermissionDenied => FileError::Denied { path },
                _ => FileError::Io { path, error },
            })
        }
    }
}

/// Reads and parses one file.
pub fn parse<T>(path: &Path, parser: impl FnOnce(&str) -> Result<T, crate::parse::ParseError>) -> Result<T, FileError> {
    parser(&read(path)?).map_err(|error| FileError::Malformed { path: path.to_owned(), error })
}

/// As [`parse`], with a missing file as `None`.
pub fn parse_optional<T>(
    path: &Path,
    parser: impl FnOnce(&str) -> Result<T, crate::parse::ParseError>,
) -> Result<Option<T>, FileError> {
    match parse(path, parser) {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e),
    }
}
