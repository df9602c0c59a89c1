//! Files that leave the segments' directory without being removed: damaged ones go to `quarantine/`, unknown ones to
//! `unknown/`. Both directories are on disk before a caller takes a row out of the index. No file replaces another.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Moves a file into a directory, which is created when absent, and returns its new path. After an error the file is where
/// it was.
pub(super) fn move_into(from: &Path, dir: &Path) -> io::Result<PathBuf> {
    create(dir)?;
    let name = from.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "no file name"))?;
    let to = free(dir, name)?;
    let parent = from.parent().unwrap_or(Path::new(""));
    match fs::rename(from, &to) {
        // `segments/` is a file system of its own.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            copy(from, &to)?;
            fs::remove_file(from)?;
        }
        renamed => renamed?,
    }
    sync(dir).and_then(|()| sync(parent)).inspect_err(|_| {
        // The move may not survive a power cut, so it is undone and tried again later.
        let _ = fs::rename(&to, from);
    })?;
    Ok(to)
}

/// Writes a new file into a directory, and returns its path. After an error there is none.
pub(super) fn write_into(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    create(dir)?;
    let path = free(dir, name.as_ref())?;
    put(&path, bytes)?;
    sync(dir)?;
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    put(to, &fs::read(from)?)
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // Half a file is worth nothing, and the original is still there.
        let _ = fs::remove_file(path);
    })
}

fn create(dir: &Path) -> io::Result<()> {
    if dir.try_exists()? {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync)
}

/// The name, or the name with the first number that makes it free.
fn free(dir: &Path, name: &std::ffi::OsStr) -> io::Result<PathBuf> {
    let mut path = dir.join(name);
    for number in 1.. {
        if !path.try_exists()? {
            break;
        }
        let mut other = OsString::from(name);
        other.push(format!(".{number}"));
        path = dir.join(other);
    }
    Ok(path)
}

/// A file's bytes, or a directory's names, are on disk when this returns.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// How many files are in a directory; none when it is absent.
pub(super) fn count(dir: &Path) -> io::Result<u64> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.count() as u64),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_file_replaces_none_and_a_failed_move_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.parquet"), dir.path().join("quarantine"));
        for (content, name) in [("one", "a.parquet"), ("two", "a.parquet.1"), ("three", "a.parquet.2")] {
            fs::write(&from, content).unwrap();
            assert_eq!(move_into(&from, &to).unwrap(), to.join(name));
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), content);
        }
        assert_eq!(count(&to).unwrap(), 3);
        fs::write(&from, "four").unwrap();
        let blocked = dir.path().join("file");
        fs::write(&blocked, "not a directory").unwrap();
        move_into(&from, &blocked).unwrap_err();
        assert_eq!(fs::read_to_string(&from).unwrap(), "four");
    }
}
