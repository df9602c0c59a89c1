//! Processes that hold GPUs.

use super::files::{self, FileError, Roots};
use super::nodes::Ranges;
use crate::parse::{cpus, status};

/// The CPUs that at least one of the processes may run on; `None` when none of them can be seen.
pub fn allowed_cpus(roots: &Roots, pids: impl IntoIterator<Item = u32>) -> Result<Option<Ranges>, FileError> {
    let mut all: Option<Ranges> = None;
    for pid in pids {
        let path = roots.proc.join(pid.to_string()).join("status");
        if let Some(cpus) = files::parse_optional(&path, status::cpus_allowed)?.flatten() {
            all.get_or_insert_default().extend(cpus);
        }
    }
    Ok(all.map(cpus::union))
}

/// What the kernel calls `nvidia-cuda-mps-server`: 15 characters of a name are kept.
const MPS_SERVER: &str = "nvidia-cuda-mps";

/// Is it an MPS server? One that has ended, or cannot be seen, is none.
pub fn is_mps_server(roots: &Roots, pid: u32) -> bool {
    let comm = files::read(&roots.proc.join(pid.to_string()).join("comm"));
    comm.is_ok_and(|comm| comm.trim_end() == MPS_SERVER)
}
