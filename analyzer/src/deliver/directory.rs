//! Report files in a directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Why a file is not there.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct NotWritten {
    path: PathBuf,
    error: std::io::Error,
}

/// Writes `STEM.ENDING` for every form. A file is whole, and on disk, or not there: it is written under another name,
/// synced and renamed. The directory is made if it is missing.
pub fn write(directory: &Path, stem: &str, forms: &[(&str, String)]) -> Result<(), NotWritten> {
    at(directory, fs::create_dir_all(directory))?;
    for (ending, text) in forms {
        let (part, path) =
            (directory.join(format!(".{stem}.{ending}.part")), directory.join(format!("{stem}.{ending}")));
        let mut file = at(&part, File::create(&part))?;
        at(&part, file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))?;
        at(&path, fs::rename(&part, &path))?;
    }
    at(directory, File::open(directory).and_then(|directory| directory.sync_all()))
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, NotWritten> {
    result.map_err(|error| NotWritten { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let reports = dir.path().join("a/reports");
        for text in ["one", "two"] {
            write(&reports, "2026-W47", &[("md", text.to_owned()), ("html", text.to_owned())]).unwrap();
            assert_eq!(fs::read_to_string(reports.join("2026-W47.md")).unwrap(), text);
        }
        assert_eq!(fs::read_dir(&reports).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = write(&file.join("reports"), "2026-W47", &[]).unwrap_err().to_string();
        assert!(error.starts_with(&file.display().to_string()), "{error}");
    }
}
