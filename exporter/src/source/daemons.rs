//! Daemons among the node's processes.

use std::collections::BTreeMap;

use super::files::{self, Roots};

/// The kernel keeps this much of a process's name (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 15;

/// Which of these daemons run, with the pid of one of each; `None` when this is not the node's own list of processes, in
/// which the second is the father of the kernel's threads. Reads a file of every process.
#[must_use]
pub fn running(roots: &Roots, daemons: &[&'static str]) -> Option<BTreeMap<&'static str, u32>> {
    if name(roots, 2).as_deref() != Some("kthreadd") {
        return None;
    }
    let mut running = BTreeMap::new();
    for entry in files::names(&roots.proc).unwrap_or_default() {
        let Ok(pid) = entry.parse::<u32>() else { continue };
        let Some(name) = name(roots, pid) else { continue };
        running.extend(daemons.iter().filter(|daemon| is(daemon, &name)).map(|daemon| (*daemon, pid)));
    }
    Some(running)
}

/// Is the process this daemon? One that has ended is none.
#[must_use]
pub fn is_running(roots: &Roots, pid: u32, daemon: &str) -> bool {
    name(roots, pid).is_some_and(|name| is(daemon, &name))
}

fn name(roots: &Roots, pid: u32) -> Option<String> {
    files::get(&roots.proc.join(pid.to_string()).join("comm"), |text| Ok(text.trim().to_owned()))
}

fn is(daemon: &str, name: &str) -> bool {
    daemon.get(..NAME_BYTES).unwrap_or(daemon) == name
}
