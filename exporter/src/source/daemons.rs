//! Daemons among the node's processes.

use std::collections::BTreeMap;

use super::files::{self, FileError, Roots};

/// The kernel keeps this much of a process's name (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 15;

/// Which of these daemons run, with the pid of one of each; `None` when this is not the node's own list of processes, in
/// which the second is the father of the kernel's threads. Reads a file of every process.
pub fn running(roots: &Roots, daemons: &[&'static str]) -> Result<Option<BTreeMap<&'static str, u32>>, FileError> {
    if name(roots, 2)?.as_deref() != Some("kthreadd") {
        return Ok(None);
    }
    let mut running = BTreeMap::new();
    for entry in files::list(&roots.proc)?.unwrap_or_default() {
        let Ok(pid) = entry.parse::<u32>() else { continue };
        let Some(name) = name(roots, pid)? else { continue };
        running.extend(daemons.iter().filter(|daemon| is(daemon, &name)).map(|daemon| (*daemon, pid)));
    }
    Ok(Some(running))
}

/// Is the process this daemon? One that has ended is none.
pub fn is_running(roots: &Roots, pid: u32, daemon: &str) -> Result<bool, FileError> {
    Ok(name(roots, pid)?.is_some_and(|name| is(daemon, &name)))
}

fn name(roots: &Roots, pid: u32) -> Result<Option<String>, FileError> {
    files::parse_optional(&roots.proc.join(pid.to_string()).join("comm"), |text| Ok(text.trim().to_owned()))
}

fn is(daemon: &str, name: &str) -> bool {
    daemon.get(..NAME_BYTES).unwrap_or(daemon) == name
}
