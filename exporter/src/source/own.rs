//! What this process costs, from `/proc/self`: always the own procfs, wherever `--path.procfs` points.

use procfs::WithCurrentSystemInfo as _;
use procfs::process::Process;

/// Resources of this process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system CPU time since start.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Start, since the Unix epoch.
    pub start_seconds: f64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// Threads.
    pub threads: u64,
}

/// Reads them; `None` when procfs is not mounted or hidden.
#[must_use]
pub fn usage() -> Option<Usage> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
    let booted = procfs::boot_time_secs().ok()? as f64;
    Some(Usage {
        cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        start_seconds: booted + stat.starttime as f64 / ticks,
        open_fds: process.fd_count().ok()? as u64,
        threads: u64::try_from(stat.num_threads).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn this_process_is_seen() {
        let usage = usage().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(usage.threads >= 1 && usage.open_fds >= 3, "{usage:?}");
        assert!(usage.resident_bytes > 100 * 1024 && usage.resident_bytes < usage.virtual_bytes, "{usage:?}");
        assert!(usage.start_seconds <= now + 1.0 && usage.start_seconds > now - 3600.0, "{usage:?} {now}");
    }
}
