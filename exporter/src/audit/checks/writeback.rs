//! How much written data may wait in memory.

use super::*;
use crate::context::Context;
use crate::parse::{meminfo, number};
use crate::source::files;

/// What one data-centre NVMe drive writes in about two seconds, at 2 GB/s.
const MOST_BACKGROUND: u64 = 4 << 30;

pub(super) static DIRTY_LIMITS: Check = Check {
    id: "dirty_limits",
    title: "Where writing back begins",
    reads: "/proc/sys/vm/dirty_{background_bytes,background_ratio,bytes,ratio}, /proc/meminfo MemAvailable",
    families: &[&catalog::reclaim::MEMORY_DIRTY_LIMIT, &catalog::host::NODE_MEMORY_AVAILABLE],
    expected: Expected {
        training: "background writing begins at 4 GiB of written data or less",
        inference: "not judged: servers write little",
        mixed: "background writing begins at 4 GiB of written data or less",
    },
    why: "The default of 10 % of available memory was made for small machines. On one with 2 TiB a checkpoint piles up \
          200 GiB before the disk begins to write; then fsync, or the next checkpoint, waits for all of it at once.",
    fixes: &[Fix {
        command: "sysctl -w vm.dirty_background_bytes=1073741824",
        lasting: Some("echo 'vm.dirty_background_bytes = 1073741824' > /etc/sysctl.d/90-gpu-writeback.conf"),
        risk: "short-lived files are written to disk that would have been deleted before. This lowers where writing \
               begins, not where writers are held up (dirty_ratio): raising that one delays the stall and enlarges it, \
               lowering it slows buffered checkpoints down to the disk's speed",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("sysctl/vm: dirty_background_bytes", SYSCTL_VM),
        vendor(
            "SUSE, Low write performance on Linux servers with large RAM (000017857), which goes down to 300 MB",
            "https://www.suse.com/support/kb/doc/?id=000017857",
        ),
        own("the limit of 4 GiB: measure Dirty in /proc/meminfo and the disk's rate during a checkpoint"),
    ],
    run: |context, profile| {
        let limits = limits(context)?;
        let memory = files::parse(&context.roots.proc.join("meminfo"), meminfo::parse)?;
        let available =
            memory.available.ok_or_else(|| Unread::Absent("no MemAvailable in /proc/meminfo".to_owned()))?;
        Ok(judge(&limits, available, profile))
    },
};

/// The four settings. Of each pair the kernel uses the bytes, when they are not 0.
struct Limits {
    background_bytes: u64,
    background_ratio: u64,
    bytes: u64,
    ratio: u64,
}

fn limits(context: &Context) -> Result<Limits, Unread> {
    let read = |name: &str| files::parse(&context.roots.proc.join("sys/vm").join(name), number::<u64>);
    Ok(Limits {
        background_bytes: read("dirty_background_bytes")?,
        background_ratio: read("dirty_background_ratio")?,
        bytes: read("dirty_bytes")?,
        ratio: read("dirty_ratio")?,
    })
}

impl Limits {
    /// Where writing begins and where writers are held up, in bytes. A beginning behind the end counts as half of it
    /// (`domain_dirty_limits` in mm/page-writeback.c).
    fn of(&self, available: u64) -> (u64, u64) {
        let share = |bytes: u64, ratio: u64| if bytes > 0 { bytes } else { available.saturating_mul(ratio) / 100 };
        let end = share(self.bytes, self.ratio);
        let begin = share(self.background_bytes, self.background_ratio);
        (if begin >= end { end / 2 } else { begin }, end)
    }
}

fn judge(limits: &Limits, available: u64, profile: Profile) -> Verdict {
    let (begin, end) = limits.of(available);
    let status = match (profile, begin) {
        (Profile::Inference, _) => Status::NotApplicable,
        (_, 0..=MOST_BACKGROUND) => Status::Pass,
        _ => Status::Warn,
    };
    Verdict::new(status, format!("writing begins at {}, writers wait at {}", bytes(begin), bytes(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Profile::{Inference, Mixed, Training};
    use Status::{NotApplicable, Pass, Warn};

    const GIB: u64 = 1 << 30;

    #[test]
    fn limits_in_bytes_and_percent() {
        let limits = |background_bytes, background_ratio, bytes, ratio| Limits {
            background_bytes,
            background_ratio,
            bytes,
            ratio,
        };
        for (limits, available, status, read) in [
            (limits(0, 10, 0, 20), 2000 * GIB, Warn, "writing begins at 200 GiB, writers wait at 400 GiB"),
            (limits(0, 10, 0, 20), 20 * GIB, Pass, "writing begins at 2 GiB, writers wait at 4 GiB"),
            (limits(GIB, 0, 0, 20), 2000 * GIB, Pass, "writing begins at 1 GiB, writers wait at 400 GiB"),
            (limits(0, 10, 2 * GIB, 0), 2000 * GIB, Pass, "writing begins at 1 GiB, writers wait at 2 GiB"),
            (limits(4 * GIB, 0, 5 * GIB, 0), 2000 * GIB, Pass, "writing begins at 4 GiB, writers wait at 5 GiB"),
            (limits(4 * GIB + 1, 0, 5 * GIB, 0), 2000 * GIB, Warn, "writing begins at 4.0 GiB, writers wait at 5 GiB"),
        ] {
            let verdicts = [Training, Mixed].map(|profile| judge(&limits, available, profile));
            for verdict in verdicts {
                assert_eq!((verdict.status, verdict.read.as_str()), (status, read));
            }
            assert_eq!(judge(&limits, available, Inference).status, NotApplicable);
        }
    }
}
