//! Processes that hold GPUs, and those that they started.

use std::path::{Path, PathBuf};

use super::common::Common;
use super::files::{self, FileError, Roots};
use super::nodes::Ranges;
use crate::parse::{self, Outcome, ParseError, cpus, status};

/// Most threads of one process that are asked for the processes they started: those with the lowest ids, of which the
/// first thread is one.
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

/// Parses a file of the node's first process, whose mounts and network are the host's; where that is not there, the one
/// that is this process's own, and likewise where that may not be read and the root is the host's: in a container the own
/// one is somebody else's. `None` without either.
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
    let comm = files::read(&roots.proc.join(pid.to_string()).join("comm"));
    comm.is_ok_and(|comm| comm.trim_end() == MPS_SERVER)
}
