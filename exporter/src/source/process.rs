//! Processes that hold GPUs, and those that they started.

use std::path::{Path, PathBuf};

use super::common::Common;
use super::files::{self, FileError, Roots};
use super::nodes::Ranges;
use crate::parse::{self, Outcome, ParseError, cpus, status};

/// Most threads of one process that are asked for the processes they started: those with the lowest ids, including the
/// first thread.
const MAX_THREADS: usize = 1024;

/// The CPUs that at least one of the processes may run on; `None` when none of them can be seen.
pub fn allowed_cpus(roots: &Roots, common: &Common, pids: impl IntoIterator<Item = u32>) -> Option<Ranges> {
    allowed(roots, common, pids, status::cpus_allowed)
}

/// The NUMA nodes whose memory at least one of the processes may use; `None` when none of them can be seen.
pub fn allowed_nodes(roots: &Roots, common: &Common, pids: impl IntoIterator<Item = u32>) -> Option<Ranges> {
    allowed(roots, common, pids, status::mems_allowed)
}

fn allowed(
    roots: &Roots,
    common: &Common,
    pids: impl IntoIterator<Item = u32>,
    parse: fn(&str) -> Result<Option<Ranges>, ParseError>,
) -> Option<Ranges> {
    let mut all: Option<Ranges> = None;
    for pid in pids {
        let path = roots.proc.join(pid.to_string()).join("status");
        if let Some(ranges) = common.get(&path, parse).flatten() {
            all.get_or_insert_default().extend(ranges);
        }
    }
    all.map(cpus::union)
}

/// The processes that a process started, in order of id; `None` when the kernel does not say (`CONFIG_PROC_CHILDREN`)
/// or the process has ended.
#[must_use]
pub fn children(roots: &Roots, pid: u32) -> Option<Vec<u32>> {
    let folder = roots.proc.join(pid.to_string()).join("task");
    let names = files::names(&folder).unwrap_or_default();
    let mut threads: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    threads.sort_unstable();
    let mut children: Option<Vec<u32>> = None;
    for thread in threads.into_iter().take(MAX_THREADS) {
        let path = folder.join(thread.to_string()).join("children");
        if let Some(pids) = files::get(&path, parse::process::pids) {
            children.get_or_insert_default().extend(pids);
        }
    }
    if let Some(pids) = &mut children {
        pids.sort_unstable();
    }
    children
}

/// Parses a file of the node's first process, whose mounts and network are the host's. Where that is not there, parses
/// this process's own; so too where it may not be read and the root is the host's, as a container's own file is not the
/// host's. `None` without either.
pub fn of_first<R: Outcome>(
    roots: &Roots,
    file: &str,
    own: &str,
    mut parser: impl FnMut(&str) -> R,
) -> Option<R::Value> {
    let path: PathBuf = roots.proc.join("1").join(file);
    match files::parse(&path, &mut parser) {
        Err(FileError::Missing { .. }) => files::get(&roots.proc.join(own), parser),
        Err(FileError::Denied { .. }) if roots.root == Path::new("/") => files::get(&roots.proc.join(own), parser),
        read => files::absent(read),
    }
}

/// What the kernel calls `nvidia-cuda-mps-server`: 15 characters of a name are kept.
const MPS_SERVER: &str = "nvidia-cuda-mps";

/// Is it an MPS server? One that has ended, or cannot be seen, is none.
pub fn is_mps_server(roots: &Roots, pid: u32) -> bool {
    let comm = roots.proc.join(pid.to_string()).join("comm");
    files::get(&comm, |text| Ok(text.trim_end() == MPS_SERVER)).unwrap_or_default()
}

/// The first pid namespace of every kernel (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether the pids that the driver gives are those of this `/proc`.
///
/// Older drivers give every caller the pids of the first namespace. To an exporter in a namespace of its own such a number is
/// no process, or a stranger: only one that has a device file of the driver open is believed there.
pub struct PidNamespace<'a> {
    roots: &'a Roots,
    in_doubt: bool,
}

impl<'a> PidNamespace<'a> {
    /// That of the exporter. Without the driver's device files, as on a Jetson, there is nothing to tell strangers by.
    #[must_use]
    pub fn of(roots: &'a Roots) -> Self {
        let own = files::target(&roots.proc.join("self/ns/pid"));
        let nested = own.is_some_and(|own| own != FIRST_NAMESPACE);
        let driver = roots.root.join("dev/nvidiactl").try_exists().unwrap_or(false);
        Self { roots, in_doubt: nested && driver }
    }

    /// Is the driver's pid one of a process here, as far as can be told?
    #[must_use]
    pub fn has(&self, pid: u32) -> bool {
        !self.in_doubt || self.has_device(pid)
    }

    fn has_device(&self, pid: u32) -> bool {
        let folder = self.roots.proc.join(pid.to_string()).join("fd");
        let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| {
            std::fs::read_link(file.path()).is_ok_and(|path| path.to_string_lossy().starts_with("/dev/nvidia"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_stranger_of_another_pid_namespace_has_no_device_open() {
        for (namespace, device, believed) in [
            (Some(FIRST_NAMESPACE), true, [true, true, true]),
            (Some("pid:[4026532777]"), true, [true, false, false]),
            (Some("pid:[4026532777]"), false, [true, true, true]),
            (None, true, [true, true, true]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let [proc, root] = ["proc", "root"].map(|name| folder.path().join(name));
            for (pid, target) in [("7", "/dev/nvidia0"), ("8", "/dev/null")] {
                std::fs::create_dir_all(proc.join(pid).join("fd")).unwrap();
                symlink(target, proc.join(pid).join("fd/3")).unwrap();
            }
            std::fs::create_dir_all(proc.join("self/ns")).unwrap();
            if let Some(name) = namespace {
                symlink(name, proc.join("self/ns/pid")).unwrap();
            }
            std::fs::create_dir_all(root.join("dev")).unwrap();
            if device {
                std::fs::write(root.join("dev/nvidiactl"), "").unwrap();
            }
            let roots = Roots { proc, root, sys: folder.path().into(), cgroup: folder.path().into(), programs: None };
            let namespace = PidNamespace::of(&roots);
            assert_eq!([7, 8, 9].map(|pid| namespace.has(pid)), believed);
        }
    }
}
