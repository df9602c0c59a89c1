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
