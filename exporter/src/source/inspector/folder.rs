//! Which files there are. Below the folder that the administrator named, each name is opened from the descriptor of the folder
//! that has it, never as a link and never on another file system: so nothing leads out of that folder.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use rustix::fs::{Dir, FileType, Mode, OFlags, Statx};

use super::beneath;
pub use super::beneath::Key;
use crate::source::cgroupfs::matches;
use crate::source::files::FileError;

/// Levels of folders below the one that is named.
const LEVELS: usize = 3;
/// Folders of one user that are listed in a round: own choice, some for each job of a node.
const FOLDERS: usize = 128;
/// Entries of a folder that are looked at; a folder with more costs what is in it.
pub const ENTRIES: usize = 4096;
/// Entries that are looked at in a round, in all folders of one user.
const ALL_ENTRIES: usize = 16_384;
/// Files that are read in a round.
pub const FILES: usize = 64;
/// Files that are named when they are refused, in a round.
const NAMED: usize = 4;

/// What a file is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON, a record per collective: `HOST-pidPID.log`.
    Records,
    /// Text, means of one GPU: `nccl_inspector_metrics_UUID.prom`. The UUID is in lower case and without `GPU-`.
    Means(String),
}

impl Kind {
    /// `None` where the plug-in writes no file of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if let Some(uuid) = name.strip_prefix("nccl_inspector_metrics_").and_then(|rest| rest.strip_suffix(".prom")) {
            return Some(Self::Means(uuid.to_owned()));
        }
        let (_, pid) = name.strip_suffix(".log")?.rsplit_once("-pid")?;
        (!pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())).then_some(Self::Records)
    }
}

/// A file that may be read.
#[derive(Debug)]
pub struct Candidate {
    folder: Rc<OwnedFd>,
    name: String,
    /// For messages.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Which it is.
    pub key: Key,
    /// The user it belongs to.
    pub uid: u32,
    /// Its size in bytes.
    pub size: u64,
    /// When its content was changed last.
    pub changed: SystemTime,
}

impl Candidate {
    /// One of this user that was changed then, and cannot be opened.
    #[cfg(test)]
    pub(super) fn of(uid: u32, changed: SystemTime) -> Self {
        let folder = Rc::new(File::open("/").unwrap().into());
        let (name, path) = (String::new(), PathBuf::new());
        Self { folder, name, path, kind: Kind::Records, key: (1, 1), uid, size: 1, changed }
    }

    /// Opens it, unless another file has taken its place.
    ///
    /// # Errors
    /// When it has, or cannot be opened.
    pub fn open(&self) -> io::Result<File> {
        let file = File::from(beneath::open(&self.folder, &self.name, OFlags::RDONLY)?);
        let now = file.metadata()?;
        let is_same = (now.dev(), now.ino()) == self.key && now.is_file() && now.nlink() == 1 && now.uid() == self.uid;
        is_same.then_some(file).ok_or_else(|| io::Error::other("it was replaced by another file"))
    }
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// At most [`FILES`], of each user the newest.
    pub files: Vec<Candidate>,
    /// Files whose user has no process on a GPU: those of jobs that have ended, mostly.
    pub strangers: u64,
    /// Links, pipes and what else is no plain file of one name.
    pub refused: u64,
    /// Files beyond the limits, and folders that were not read to their end.
    pub beyond: u64,
    /// The first that were refused, and folders that cannot be read.
    pub errors: Vec<FileError>,
}

/// Looks for files of these users below the folders that match the patterns, in which `*` stands for any characters of one
/// folder's name.
#[must_use]
pub fn find(patterns: &[String], uids: &BTreeSet<u32>) -> Found {
    let mut search = Search { uids, budgets: BTreeMap::new(), files: BTreeMap::new(), found: Found::default() };
    for pattern in patterns {
        let (base, rest) = split(pattern);
        match rustix::fs::open(&base, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(folder) => search.walk(&Rc::new(folder), &base, &rest, LEVELS),
            Err(error) => search.fail(&base, error.into()),
        }
    }
    let Search { mut found, mut files, .. } = search;
    files.values_mut().for_each(|files| found.beyond += prune(files, FILES));
    let all: usize = files.values().map(Vec::len).sum();
    found.files = choose(files);
    found.beyond += (all - found.files.len()) as u64;
    found
}

/// The folder that the administrator named, whose links are his own, and the patterns of folders below it.
fn split(pattern: &str) -> (PathBuf, Vec<&str>) {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let at = parts.iter().position(|part| part.contains('*')).unwrap_or(parts.len());
    let (base, rest) = parts.split_at(at);
    (Path::new("/").join(base.join("/")), rest.to_vec())
}

/// Leaves the newest files of a user, each once, and says how many fall away.
fn prune(files: &mut Vec<Candidate>, most: usize) -> u64 {
    files.sort_by_key(|file| (Reverse(file.changed), file.key));
    files.dedup_by_key(|file| file.key);
    let beyond = files.len().saturating_sub(most);
    files.truncate(most);
    beyond as u64
}

/// Takes turns among users, the newest files first: no user keeps another's from being read.
fn choose(mut by_user: BTreeMap<u32, Vec<Candidate>>) -> Vec<Candidate> {
    by_user.values_mut().for_each(|files| files.reverse());
    let mut chosen = Vec::new();
    while chosen.len() < FILES && by_user.values().any(|files| !files.is_empty()) {
        let room = FILES - chosen.len();
        chosen.extend(by_user.values_mut().filter_map(Vec::pop).take(room));
    }
    chosen
}

/// What may still be looked at.
struct Budget {
    folders: usize,
    entries: usize,
}

struct Search<'a> {
    uids: &'a BTreeSet<u32>,
    /// By the user whose folders they are, so that none hides another's; all users without a process on a GPU share one.
    budgets: BTreeMap<Option<u32>, Budget>,
    files: BTreeMap<u32, Vec<Candidate>>,
    found: Found,
}

impl Search<'_> {
    /// Looks into a folder; `rest` are the patterns that its folders still have to match, `levels` how deep it goes then.
    fn walk(&mut self, folder: &Rc<OwnedFd>, path: &Path, rest: &[&str], levels: usize) {
        let (next, rest) = match rest.split_first() {
            Some((next, rest)) if !next.contains('*') => return self.enter(folder, path, next, rest, levels),
            Some((next, rest)) => (Some(*next), rest),
            None => (None, rest),
        };
        let user = match beneath::stat(folder, "") {
            Ok(stat) => Some(stat.stx_uid).filter(|uid| self.uids.contains(uid)),
            Err(error) => return self.fail(path, error),
        };
        let budget = self.budgets.entry(user).or_insert(Budget { folders: FOLDERS, entries: ALL_ENTRIES });
        if budget.folders == 0 {
            self.found.beyond += 1;
            return;
        }
        budget.folders -= 1;
        let entries = match Dir::read_from(&**folder) {
            Ok(entries) => entries,
            Err(error) => return self.fail(path, error.into()),
        };
        for (looked, entry) in entries.enumerate() {
            let Ok(entry) = entry else { return };
            let budget = self.budgets.entry(user).or_insert(Budget { folders: 0, entries: 0 });
            if looked == ENTRIES || budget.entries == 0 {
                self.found.beyond += 1;
                return;
            }
            budget.entries -= 1;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if [".", ".."].contains(&name) {
                continue;
            }
            let may_be_folder = [FileType::Directory, FileType::Unknown].contains(&entry.file_type());
            match (next, Kind::of(name)) {
                (Some(next), _) if matches(next, name) => self.enter(folder, path, name, rest, levels),
                (None, Some(kind)) => self.look(folder, path, name, kind),
                (None, None) if may_be_folder && levels > 0 => self.enter(folder, path, name, rest, levels - 1),
                _ => {}
            }
        }
    }

    fn enter(&mut self, folder: &Rc<OwnedFd>, path: &Path, name: &str, rest: &[&str], levels: usize) {
        let path = path.join(name);
        match beneath::open(folder, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(below) => self.walk(&Rc::new(below), &path, rest, levels),
            Err(error) => self.fail(&path, error),
        }
    }

    /// Notes a file of the plug-in's name.
    fn look(&mut self, folder: &Rc<OwnedFd>, path: &Path, name: &str, kind: Kind) {
        let path = path.join(name);
        let stat = match beneath::stat(folder, name) {
            Ok(stat) => stat,
            Err(error) => return self.fail(&path, error),
        };
        let is_plain = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
        if !is_plain || stat.stx_nlink != 1 {
            self.found.refused += 1;
            return self
                .note(path, io::Error::other("expected a plain file with one name, found a link, a pipe or another"));
        }
        if !self.uids.contains(&stat.stx_uid) {
            self.found.strangers += 1;
            return;
        }
        let files = self.files.entry(stat.stx_uid).or_default();
        files.push(candidate(folder, path, name, kind, &stat));
        // Names take memory while folders are listed.
        if files.len() > 2 * FILES {
            self.found.beyond += prune(files, FILES);
        }
    }

    /// A folder or a file that cannot be read; one that is not there is no fault.
    fn fail(&mut self, path: &Path, error: io::Error) {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
            io::ErrorKind::PermissionDenied => self.found.errors.push(FileError::Denied { path: path.to_owned() }),
            _ => self.note(path.to_owned(), error),
        }
    }

    fn note(&mut self, path: PathBuf, error: io::Error) {
        if self.found.errors.len() < NAMED {
            self.found.errors.push(FileError::Io { path, error });
        }
    }
}

fn candidate(folder: &Rc<OwnedFd>, path: PathBuf, name: &str, kind: Kind, stat: &Statx) -> Candidate {
    let since = Duration::new(u64::try_from(stat.stx_mtime.tv_sec).unwrap_or_default(), stat.stx_mtime.tv_nsec);
    Candidate {
        folder: Rc::clone(folder),
        name: name.to_owned(),
        path,
        kind,
        key: beneath::key(stat),
        uid: stat.stx_uid,
        size: stat.stx_size,
        changed: SystemTime::UNIX_EPOCH + since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn find_below(folder: &Path, pattern: &str, uids: &[u32]) -> Found {
        find(&[format!("{}{pattern}", folder.display())], &uids.iter().copied().collect())
    }

    #[test]
    fn names_of_the_plug_in() {
        for (name, expected) in [
            ("node-1-pid7.log", Some(Kind::Records)),
            ("a-pidx-pid12.log", Some(Kind::Records)),
            ("node-1-pid.log", None),
            ("node-1-pid7x.log", None),
            ("node-1-pid7.log.1", None),
            ("nccl_inspector_metrics_0a.prom", Some(Kind::Means("0a".to_owned()))),
            ("metrics_0a.prom", None),
        ] {
            assert_eq!(Kind::of(name), expected, "{name}");
        }
    }

    #[test]
    fn patterns_and_levels() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for path in
            ["a/x-pid1.log", "a/1/2/3/x-pid2.log", "a/1/2/3/4/x-pid3.log", "b/x-pid4.log", "x-pid5.log", "a/y.log"]
        {
            std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            std::fs::write(folder.join(path), "").unwrap();
        }
        let names = |pattern: &str| {
            let mut names: Vec<_> =
                find_below(folder, pattern, &[own_uid()]).files.into_iter().map(|file| file.name).collect();
            names.sort();
            names
        };
        assert_eq!(names("/a"), ["x-pid1.log", "x-pid2.log"]);
        assert_eq!(names("/*"), ["x-pid1.log", "x-pid2.log", "x-pid4.log"]);
        assert_eq!(names("/*/1"), ["x-pid2.log", "x-pid3.log"]);
        assert!(names("/c").is_empty() && names("/a*/none").is_empty());
        assert!(find_below(folder, "/c", &[own_uid()]).errors.is_empty(), "a folder that is not there yet is no fault");
    }

    #[test]
    fn files_of_users_without_a_process_are_counted_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x-pid1.log"), "").unwrap();
        let found = find_below(folder.path(), "", &[own_uid() + 1]);
        assert_eq!((found.strangers, found.files.len()), (1, 0));
    }

    #[test]
    fn a_file_that_has_taken_the_place_of_another_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x-pid1.log");
        std::fs::write(&path, "").unwrap();
        let found = find_below(folder.path(), "", &[own_uid()]);
        let [file] = &found.files[..] else { panic!("{found:?}") };
        assert!(file.open().is_ok());
        std::fs::rename(&path, folder.path().join("was")).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(file.open().is_err(), "another file");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("was"), &path).unwrap();
        assert!(file.open().is_err(), "a link, though to the same file");
    }

    #[test]
    fn users_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..FILES + 10 {
            std::fs::write(folder.path().join(format!("x-pid{at}.log")), "").unwrap();
        }
        let files = find_below(folder.path(), "", &[own_uid()]).files;
        assert_eq!(files.len(), FILES);
        // As if another user had the oldest.
        let mut more = find_below(folder.path(), "", &[own_uid()]).files;
        let mut other = more.swap_remove(0);
        (other.uid, other.changed) = (own_uid() + 1, SystemTime::UNIX_EPOCH);
        let chosen = choose(BTreeMap::from([(own_uid(), files), (own_uid() + 1, vec![other])]));
        assert_eq!((chosen.len(), chosen.iter().filter(|file| file.uid != own_uid()).count()), (FILES, 1));
    }
}
