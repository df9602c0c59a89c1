//! The process that writes a file: the one on a GPU that has it open, else the only one whose id in its own namespace the file
//! names. A file belongs to its user's processes alone, whatever is written in it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use super::beneath;
use super::folder::{Candidate, Key, Kind};
use crate::parse::stat::TICKS_PER_SECOND;
use crate::parse::{process, status};
use crate::source::files::{self, FileError, Roots};
use crate::source::left_out;

/// Processes on GPUs that are looked at: own choice, several for each GPU of the largest node.
const PROCESSES: usize = 256;
/// Descriptors of a process that are looked at: own choice, data loaders have some hundreds.
const DESCRIPTORS: usize = 4096;
/// How much earlier than its process a file may seem to be written, by the clocks of two file systems: own choice.
const CLOCKS: Duration = Duration::from_secs(2);

/// A process that holds GPUs, as attribution has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Its owner.
    pub owner: String,
    /// Index and UUID of each GPU.
    pub gpus: Vec<(String, String)>,
}

/// What `/proc` says of it.
#[derive(Clone, Debug)]
pub struct Process {
    /// The process.
    pub holder: Holder,
    /// When it began, in ticks since boot: with the id, which process it is.
    pub start_ticks: u64,
    /// Its effective user, by `/proc/PID/status`, else the owner of `/proc/PID`. That is root where the process is not dumpable,
    /// which a process can choose.
    pub uid: u32,
    /// Its id in its own pid namespace.
    inner_pid: Option<u32>,
    /// How long it has run.
    pub age: Duration,
}

/// Looks the holders up. One that has ended is missing.
#[must_use]
pub fn processes(roots: &Roots, holders: Vec<Holder>) -> Vec<Process> {
    let Some(uptime) = files::get(&roots.proc.join("uptime"), process::uptime) else { return Vec::new() };
    let look = |holder: Holder| {
        let folder = roots.proc.join(holder.pid.to_string());
        let stat = files::get(&folder.join("stat"), process::stat)?;
        let age = Duration::try_from_secs_f64(uptime - stat.start_ticks as f64 / TICKS_PER_SECOND).ok()?;
        let inner_pid = files::get(&folder.join("status"), status::innermost_pid).flatten();
        let told = files::get(&folder.join("status"), status::effective_user).flatten();
        let uid = told.or_else(|| Some(std::fs::metadata(&folder).ok()?.uid()))?;
        Some(Process { holder, start_ticks: stat.start_ticks, uid, inner_pid, age })
    };
    holders.into_iter().take(PROCESSES).filter_map(look).collect()
}

/// The users of the processes.
#[must_use]
pub fn users(processes: &[Process]) -> BTreeSet<u32> {
    processes.iter().map(|process| process.uid).collect()
}

/// Which of the processes has which of Inspector's files open, by place in the list.
#[must_use]
pub fn open_files(roots: &Roots, processes: &[Process]) -> BTreeMap<Key, Vec<usize>> {
    let mut open: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (at, process) in processes.iter().enumerate() {
        let folder = roots.proc.join(process.holder.pid.to_string()).join("fd");
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    left_out::note(FileError::Denied { path: folder }, 1);
                }
                continue;
            }
        };
        let paths = entries.take(DESCRIPTORS).flatten().map(|entry| entry.path());
        // By name first: asking for the state of any other file may wait for a server that is gone.
        let is_named = |path: &std::path::PathBuf| {
            let target = std::fs::read_link(path).ok();
            target.as_deref().and_then(|path| path.file_name()?.to_str()).and_then(Kind::of) == Some(Kind::Records)
        };
        let keys = paths.filter(is_named).filter_map(|path| beneath::linked(&path).ok());
        for key in keys.collect::<BTreeSet<_>>() {
            open.entry(key).or_default().push(at);
        }
    }
    open
}

/// The process that writes a file of records; `pid` reads the id that the file names.
///
/// A process that has the file open counts only if it is of the file's user: others may have opened it to be taken for the
/// writer. Without one, an id alone is believed where exactly one process of the user has it, has no other such file open, and
/// began before the file was written last: ids are given again, and in two containers both processes may be 1.
#[must_use]
pub fn of_records<'a>(
    processes: &'a [Process],
    open: &BTreeMap<Key, Vec<usize>>,
    file: &Candidate,
    pid: impl FnOnce() -> Option<u32>,
) -> Option<&'a Process> {
    let of_user = |process: &&Process| process.uid == file.uid;
    let openers = open.get(&file.key).into_iter().flatten().filter_map(|at| processes.get(*at));
    let openers: Vec<&Process> = openers.filter(of_user).collect();
    if let [only] = openers[..] {
        return Some(only);
    }
    let pid = pid()?;
    let now = SystemTime::now();
    // The time of a file is its user's choice: nothing is added to it.
    let began = |process: &Process| now.checked_sub(process.age)?.checked_sub(CLOCKS);
    let lived = |process: &Process| began(process).is_none_or(|began| file.changed >= began);
    let writes: BTreeSet<usize> = open.values().flatten().copied().collect();
    let free = processes.iter().enumerate().filter(|(at, process)| !writes.contains(at) && lived(process));
    let all: Vec<&Process> = match openers.is_empty() {
        true => free.map(|(_, process)| process).filter(of_user).collect(),
        false => openers,
    };
    let mut named = all.into_iter().filter(|process| process.inner_pid == Some(pid));
    named.next().filter(|_| named.next().is_none())
}

/// A process whose GPU the name of a file of means has, if that GPU is held by processes of one owner among the file's user's.
#[must_use]
pub fn of_means<'a>(processes: &'a [Process], file: &Candidate, uuid: &str) -> Option<(&'a Process, (String, String))> {
    let gpu = |process: &Process| {
        let is_it =
            |gpu: &&(String, String)| gpu.1.strip_prefix("GPU-").is_some_and(|id| id.eq_ignore_ascii_case(uuid));
        process.holder.gpus.iter().find(is_it).cloned()
    };
    let of_user = processes.iter().filter(|process| process.uid == file.uid);
    let mut found = of_user.filter_map(|process| Some((process, gpu(process)?)));
    let (first, gpu) = found.next()?;
    let is_same = found.all(|(process, _)| process.holder.owner == first.holder.owner);
    is_same.then_some((first, gpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, uid: u32, inner_pid: u32) -> Process {
        let holder = Holder { pid, owner: format!("job-{pid}"), gpus: Vec::new() };
        Process { holder, start_ticks: 1, uid, inner_pid: Some(inner_pid), age: Duration::from_secs(100) }
    }

    fn found(processes: &[Process], open: &[(Key, &[usize])], file: &Candidate) -> Option<u32> {
        let open = open.iter().map(|(key, at)| (*key, at.to_vec())).collect();
        of_records(processes, &open, file, || Some(7)).map(|process| process.holder.pid)
    }

    #[test]
    fn a_file_is_led_to_a_process_of_its_user_alone() {
        let (now, all) = (SystemTime::now(), [process(100, 1000, 7), process(200, 1001, 7)]);
        assert_eq!(found(&all, &[], &Candidate::of(1000, now)), Some(100));
        assert_eq!(found(&all, &[], &Candidate::of(1001, now)), Some(200));
        assert_eq!(found(&all, &[], &Candidate::of(1002, now)), None);
        assert_eq!(found(&all, &[((1, 1), &[0])], &Candidate::of(1001, now)), Some(200), "another user has opened it");
    }

    #[test]
    fn a_process_that_writes_a_file_of_its_own_is_not_taken_by_its_id() {
        let (now, all) = (SystemTime::now(), [process(100, 1000, 7)]);
        assert_eq!(found(&all, &[((1, 2), &[0])], &Candidate::of(1000, now)), None);
        assert_eq!(found(&all, &[((1, 1), &[0])], &Candidate::of(1000, now)), Some(100), "this one");
        let alike = [process(100, 1000, 7), process(200, 1000, 7)];
        assert_eq!(found(&alike, &[], &Candidate::of(1000, now)), None, "either may have written it");
    }

    #[test]
    fn the_time_of_a_file_may_be_any() {
        let (all, latest) = ([process(100, 1000, 7)], Duration::from_secs(i64::MAX as u64));
        let last = SystemTime::UNIX_EPOCH.checked_add(latest).unwrap();
        assert_eq!(found(&all, &[], &Candidate::of(1000, last)), Some(100));
        assert_eq!(found(&all, &[], &Candidate::of(1000, SystemTime::UNIX_EPOCH)), None, "older than the process");
    }
}
