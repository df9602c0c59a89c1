//! What several collectors read, read once per scrape.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::files::{self, FileError, Roots};
use super::nodes::Nodes;
use crate::parse::Outcome;

/// Texts of files by path, and the NUMA nodes, as they were when the first collector of a scrape asked for them.
#[derive(Default)]
pub struct Common {
    texts: Mutex<BTreeMap<PathBuf, Arc<str>>>,
    nodes: OnceLock<Nodes>,
}

impl Common {
    /// As [`files::parse`].
    ///
    /// # Errors
    /// Those of the read, which the next one to ask tries again, and of the parser.
    pub fn parse<R: Outcome>(&self, path: &Path, parser: impl FnOnce(&str) -> R) -> Result<R::Value, FileError> {
        files::outcome(path, parser(&self.read(path)?))
    }

    /// As [`files::parse_optional`].
    ///
    /// # Errors
    /// Those of [`Common::parse`], but for a missing file.
    pub fn parse_optional<R: Outcome>(
        &self,
        path: &Path,
        parser: impl FnOnce(&str) -> R,
    ) -> Result<Option<R::Value>, FileError> {
        files::optional(self.parse(path, parser))
    }

    /// As [`files::get`].
    pub fn get<R: Outcome>(&self, path: &Path, parser: impl FnOnce(&str) -> R) -> Option<R::Value> {
        files::absent(self.parse(path, parser))
    }

    /// As [`files::read`].
    ///
    /// # Errors
    /// Those of the read, which the next one to ask tries again.
    pub fn read(&self, path: &Path) -> Result<Arc<str>, FileError> {
        if let Some(text) = self.texts.lock().get(path) {
            return Ok(Arc::clone(text));
        }
        // Unlocked: a read that hangs blocks no other reader.
        let text: Arc<str> = files::read(path)?.into();
        self.texts.lock().insert(path.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// As [`Nodes::read`].
    pub fn nodes(&self, roots: &Roots) -> &Nodes {
        self.nodes.get_or_init(|| Nodes::read(roots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::ParseError;

    #[test]
    fn a_file_is_read_once_and_looked_for_again_where_it_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, common) = (folder.path().join("vmstat"), Common::default());
        assert!(common.read(&path).unwrap_err().is_missing());
        std::fs::write(&path, "pswpin 1\n").unwrap();
        assert_eq!(&*common.read(&path).unwrap(), "pswpin 1\n");
        std::fs::write(&path, "pswpin 2\n").unwrap();
        assert_eq!(&*common.read(&path).unwrap(), "pswpin 1\n");
        assert_eq!(&*Common::default().read(&path).unwrap(), "pswpin 2\n");
        let error = common.parse(&path, |text| Err::<(), _>(ParseError::new(1, "a word", text))).unwrap_err();
        assert!(error.to_string().contains("vmstat: line 1: expected a word"), "{error}");
    }
}
