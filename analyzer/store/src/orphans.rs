//! Files in `segments/` that the index does not know: what may be removed, what can be indexed again, and what is kept for
//! a person to look at. Decides only; `start` acts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::segment::about::{self, About, Described};
use super::segments::{Segment, id_of};

/// A file that the index does not know, and what it is.
pub(super) struct Orphan {
    pub(super) path: PathBuf,
    pub(super) what: What,
}

pub(super) enum What {
    /// The store wrote it off itself, or all that is in it is elsewhere.
    Superfluous(&'static str),
    /// A segment of this directory that the index has lost, or that a flush wrote and could not enter any more.
    Lost(Box<Described>, Segment),
    /// A segment of this directory, written after the database was copied.
    Later,
    /// Something else, and why.
    Unknown(String),
    /// It cannot be read.
    Unreadable(io::Error),
}

/// What the index knows.
pub(super) struct Known<'a> {
    pub(super) dir: &'a Path,
    pub(super) directory: &'a str,
    /// Of the database, before it was opened this time.
    pub(super) generation: i64,
    pub(super) segments: BTreeMap<i64, &'a Segment>,
    pub(super) retired: &'a [i64],
}

impl Known<'_> {
    /// Looks at every file that is not in the index. Blocks.
    pub(super) fn orphans(&self) -> io::Result<Vec<Orphan>> {
        let mut orphans = Vec::new();
        for entry in fs::read_dir(self.dir)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let what = if name.strip_suffix(".tmp").is_some_and(|stem| id_of(&format!("{stem}.parquet")).is_some()) {
                What::Superfluous("an unfinished file")
            } else if !name.ends_with(".parquet") {
                continue;
            } else {
                match id_of(&name) {
                    None => What::Unknown("its name is none that the store gives".to_owned()),
                    Some(id) if self.segments.contains_key(&id) => continue,
                    Some(id) if self.retired.contains(&id) => What::Superfluous("merged or removed before"),
                    Some(id) => self.look_into(&path, id),
                }
            };
            orphans.push(Orphan { path, what });
        }
        orphans.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(orphans)
    }

    fn look_into(&self, path: &Path, id: i64) -> What {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => return What::Unreadable(error),
        };
        let described = match about::describe(&bytes) {
            Ok(described) => described,
            Err(reason) => return What::Unknown(reason),
        };
        let about = &described.about;
        if about.directory != self.directory {
            return What::Unknown(format!("it is of another data directory ({})", about.directory));
        }
        if about.id != id {
            return What::Unknown(format!("it was written as segment {}", about.id));
        }
        if about.generation > self.generation {
            return What::Later;
        }
        if self.has_all_inputs(about) {
            return What::Superfluous("of an interrupted merge, whose inputs are all there");
        }
        let Some(segment) = Segment::entry(about, described.groups.clone(), &bytes) else {
            return What::Unknown("it holds no samples".to_owned());
        };
        What::Lost(Box::new(described), segment)
    }

    fn has_all_inputs(&self, about: &About) -> bool {
        let is_there = |id: &i64| self.segments.get(id).is_some_and(|input| input.load(self.dir).is_ok());
        !about.inputs.is_empty() && about.inputs.iter().all(is_there)
    }
}

impl Orphan {
    /// Segments whose samples are in it, if it is to be indexed again.
    pub(super) fn replaces(&self) -> &[i64] {
        match &self.what {
            What::Lost(described, _) => &described.about.replaces,
            _ => &[],
        }
    }
}
