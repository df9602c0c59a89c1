//! Kernel files below injected roots.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use super::left_out;
use crate::parse::{ByLine, LeftOut, Outcome, ParseError};

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
    /// The folder of the programs that the exporter may start, `--path.programs`; `None` where it may start none.
    pub programs: Option<PathBuf>,
}

/// Why a kernel file gave no value.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The kernel has no such file, no longer has it, or says that its feature is off: not a fault.
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
        error: ParseError,
    },
}

impl FileError {
    /// Is the file simply not there?
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, FileError::Missing { .. })
    }
}

/// Most kernel files fit, so that one read gives the content and the next the end.
const FIRST_READ: usize = 8 * 1024;

/// How much of a file that is parsed by line is read at a time: small for the exporter, large for a line.
const PIECE: usize = 64 * 1024;

/// Reads a whole kernel file as text. Bytes that are not UTF-8 are replaced: kernel files carry device-supplied names.
pub fn read(path: &Path) -> Result<String, FileError> {
    let bytes = read_start(path, u64::MAX)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The first bytes of a file, no more than `limit`; all of a shorter one.
pub fn read_start(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    read_bytes(path, limit).map_err(|error| classify(path, error))
}

/// `std::fs::read` asks for the size first, which kernel files do not know, and then starts with tiny reads; the kernel
/// generates the file again for each of them.
fn read_bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?.take(limit);
    let mut buffer = vec![0; FIRST_READ];
    let mut filled = 0;
    loop {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

fn classify(path: &Path, error: io::Error) -> FileError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::Missing { path },
        io::ErrorKind::PermissionDenied => FileError::Denied { path },
        _ if error.raw_os_error().is_some_and(|errno| is_gone(&path, errno)) => FileError::Missing { path },
        _ => FileError::Io { path, error },
    }
}

/// What a file that was opened says once its cgroup is removed (ENODEV), its process has ended (ESRCH), or its
/// feature is off, such as PSI (EOPNOTSUPP). EINVAL says so of two files: `mountinfo` of a process that has ended and is
/// not waited for yet, as it has no mount namespace any more (fs/proc_namespace.c, mounts_open_common), and `speed` of a
/// network interface that is down or whose driver has none.
fn is_gone(path: &Path, errno: i32) -> bool {
    matches!(errno, libc::ENODEV | libc::ESRCH | libc::EOPNOTSUPP)
        || errno == libc::EINVAL && (path.ends_with("mountinfo") || path.ends_with("speed"))
}

/// Names of the entries of a directory, in no order; `None` when it is not there.
pub fn list(path: &Path) -> Result<Option<Vec<String>>, FileError> {
    let names = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned())).collect());
    match names.map_err(|error| classify(path, error)) {
        Ok(names) => Ok(Some(names)),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Last part of where a link leads; `None` when it is not there.
pub fn link(path: &Path) -> Result<Option<String>, FileError> {
    match std::fs::read_link(path).map_err(|error| classify(path, error)) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Where a path leads in the end; nothing where that is not there.
#[must_use]
pub fn real(path: &Path) -> Option<PathBuf> {
    absent(std::fs::canonicalize(path).map_err(|error| classify(path, error)))
}

/// Names of the folders in a folder; none where it cannot be listed.
#[must_use]
pub fn folders(path: &Path) -> Vec<String> {
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(is_folder).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// As [`link`], with one that cannot be read as one that is not there.
#[must_use]
pub fn target(path: &Path) -> Option<String> {
    absent(link(path)).flatten()
}

/// Reads and parses one file. Lines that make no sense are left out where the parser can do without them.
pub fn parse<R: Outcome>(path: &Path, parser: impl FnOnce(&str) -> R) -> Result<R::Value, FileError> {
    outcome(path, parser(&read(path)?))
}

/// What became of a file's text.
pub(super) fn outcome<R: Outcome>(path: &Path, parsed: R) -> Result<R::Value, FileError> {
    let malformed = |error| FileError::Malformed { path: path.to_owned(), error };
    let (value, left) = parsed.split().map_err(malformed)?;
    if let Some(error) = left.first {
        left_out::note(malformed(error), left.count);
    }
    Ok(value)
}

/// As [`parse`], with a missing file as `None`.
pub fn parse_optional<R: Outcome>(path: &Path, parser: impl FnOnce(&str) -> R) -> Result<Option<R::Value>, FileError> {
    optional(parse(path, parser))
}

/// As [`parse`], with whatever cannot be read as absent: a file that is not there, one whose read fails (EBUSY of an offline
/// CPU, EINVAL of a counter that the firmware does not know, ENODATA, EIO), one that this process may not read, and one that
/// makes no sense. All but the first are left out, and named once.
pub fn get<R: Outcome>(path: &Path, parser: impl FnOnce(&str) -> R) -> Option<R::Value> {
    absent(parse(path, parser))
}

/// The value, or nothing: what is not simply not there is left out.
pub(super) fn absent<T>(read: Result<T, FileError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            if !error.is_missing() {
                left_out::note(error, 1);
            }
            None
        }
    }
}

/// A read whose failure is looked into first, with what is left of it as [`get`] has it.
pub fn found<T>(read: Result<Option<T>, FileError>) -> Option<T> {
    absent(read).flatten()
}

/// As [`found`], with a file that this process may not read counted instead of named.
pub fn found_or_denied<T>(read: Result<Option<T>, FileError>, denied: &mut u64) -> Option<T> {
    if let Err(FileError::Denied { .. }) = read {
        *denied += 1;
        return None;
    }
    found(read)
}

/// As [`list`], with a folder that cannot be listed as one that is not there.
#[must_use]
pub fn names(path: &Path) -> Option<Vec<String>> {
    absent(list(path)).flatten()
}

/// A missing file as `None`.
pub(super) fn optional<T>(parsed: Result<T, FileError>) -> Result<Option<T>, FileError> {
    match parsed {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads and parses one file, and holds no more than a piece of it at a time; `None` when it is not there. Lines that
/// make no sense are left out.
pub fn parse_by_line<P: ByLine>(path: &Path, mut parser: P) -> Result<Option<P::Whole>, FileError> {
    let whole = match each_line(path, |number, line| parser.line(number, line)) {
        Ok(()) => parser.end().map_err(|error| FileError::Malformed { path: path.to_owned(), error }),
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => Err(error),
    };
    whole.map(Some)
}

fn each_line(path: &Path, mut each: impl FnMut(usize, &str) -> Result<(), ParseError>) -> Result<(), FileError> {
    let file = File::open(path).map_err(|error| classify(path, error))?;
    let mut pieces = BufReader::with_capacity(PIECE, file);
    let (mut number, mut bytes) = (0, Vec::new());
    let mut left = LeftOut::default();
    while pieces.read_until(b'\n', &mut bytes).map_err(|error| classify(path, error))? > 0 {
        number += 1;
        let line = String::from_utf8_lossy(&bytes);
        left.keep(each(number, line.strip_suffix('\n').unwrap_or(&line)));
        bytes.clear();
    }
    outcome(path, left.with(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_answer_has_its_class() {
        for (errno, expected) in [
            (libc::ENOENT, "missing"),
            (libc::ENOTDIR, "missing"),
            (libc::ENODEV, "missing"),
            (libc::ESRCH, "missing"),
            (libc::EOPNOTSUPP, "missing"),
            (libc::EACCES, "denied"),
            (libc::EPERM, "denied"),
            (libc::EIO, "io"),
            (libc::EINVAL, "io"),
            (libc::EBUSY, "io"),
            (libc::ENODATA, "io"),
        ] {
            let class = match classify(Path::new("/proc/x"), io::Error::from_raw_os_error(errno)) {
                FileError::Missing { .. } => "missing",
                FileError::Denied { .. } => "denied",
                FileError::Io { .. } => "io",
                FileError::Malformed { .. } => "malformed",
            };
            assert_eq!(class, expected, "errno {errno}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a process that ends is needed")]
    fn a_process_that_has_ended_and_is_not_waited_for_has_no_mounts() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let folder = PathBuf::from(format!("/proc/{}", child.id()));
        while !read(&folder.join("stat")).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(read(&folder.join("mountinfo")).unwrap_err().is_missing());
        child.wait().unwrap();
    }

    #[test]
    fn files_longer_than_one_read_are_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 1, FIRST_READ - 1, FIRST_READ, FIRST_READ + 1, 5 * FIRST_READ] {
            std::fs::write(file.path(), "x".repeat(length)).unwrap();
            assert_eq!(read(file.path()).unwrap().len(), length);
        }
    }

    #[test]
    fn no_more_is_read_than_asked_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x".repeat(3 * FIRST_READ)).unwrap();
        for limit in [0, 1, FIRST_READ, FIRST_READ + 1, 3 * FIRST_READ] {
            assert_eq!(read_start(file.path(), limit as u64).unwrap().len(), limit);
        }
        assert_eq!(read_start(file.path(), u64::MAX).unwrap().len(), 3 * FIRST_READ);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"a\xffb").unwrap();
        assert_eq!(read(file.path()).unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn lines_come_one_by_one_whatever_their_length() {
        struct Lengths(Vec<(usize, usize)>);
        impl ByLine for Lengths {
            type Whole = Vec<(usize, usize)>;
            fn line(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
                self.0.push((number, line.len()));
                if line == "bad" { Err(ParseError::new(number, "good", line)) } else { Ok(()) }
            }
            fn end(self) -> Result<Self::Whole, ParseError> {
                Ok(self.0)
            }
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(3 * PIECE);
        std::fs::write(file.path(), format!("a\n\n{long}\nlast")).unwrap();
        let read = parse_by_line(file.path(), Lengths(Vec::new())).unwrap().unwrap();
        assert_eq!(read, [(1, 1), (2, 0), (3, long.len()), (4, 4)]);
        assert!(parse_by_line(Path::new("/proc/none"), Lengths(Vec::new())).unwrap().is_none());
        std::fs::write(file.path(), "a\nbad\nbad\nb\n").unwrap();
        assert_eq!(parse_by_line(file.path(), Lengths(Vec::new())).unwrap().unwrap().len(), 4);
        let left = left_out::take();
        assert!(left.errors[0].to_string().ends_with("line 2: expected good, found \"bad\""), "{left:?}");
        assert_eq!((left.errors.len(), left.count), (1, 2));
    }

    #[test]
    fn what_cannot_be_read_is_absent_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("speed");
        assert_eq!(get(&path, crate::parse::number::<u32>), None);
        assert_eq!(left_out::take().count, 0, "not there is no fault");
        std::fs::write(&path, "fast\n").unwrap();
        assert_eq!(get(&path, crate::parse::number::<u32>), None);
        assert_eq!(get(folder.path(), crate::parse::number::<u32>), None, "EISDIR, as any other failure of a read");
        let left = left_out::take();
        assert!(matches!(left.errors[..], [FileError::Malformed { .. }, FileError::Io { .. }]), "{left:?}");
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(get(&path, crate::parse::number::<u32>), Some(7));
        assert_eq!(left_out::take().count, 0);
    }
}
