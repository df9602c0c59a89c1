//! How much memory GPU processes may lock.

use super::*;
use crate::parse::limits::{self, Limit};
use crate::source::files;

/// The kernel's default since 5.16 (`MLOCK_LIMIT` in include/uapi/linux/resource.h), and systemd's: at or below it no
/// administrator has raised the limit.
const DEFAULT: u64 = 8 << 20;

pub(super) static MEMLOCK: Check = Check {
    id: "memlock",
    title: "Locked-memory limit of GPU processes",
    reads: "/proc/PID/limits \"Max locked memory\" of every GPU process, /sys/class/infiniband",
    families: &[&catalog::process::PROCESS_MEMLOCK, &catalog::network::RDMA_PORTS],
    expected: Expected::always("unlimited where there are RDMA devices"),
    why: "RDMA devices register buffers by locking them. Below what NCCL or UCX registers, that fails: the job ends, or \
          falls back to TCP. Buffers that CUDA itself allocates are not known to count, so that a low limit says \
          nothing about pageable copies, and without RDMA devices the check does not apply.",
    fixes: &[
        Fix {
            command: "systemd unit of the job, the container runtime or slurmd: [Service] LimitMEMLOCK=infinity",
            restarts: "that service and the job",
            risk: "a job may lock all memory: give it a memory limit",
            ..Fix::USUAL
        },
        Fix {
            command: "docker run --ulimit memlock=-1",
            restarts: "the container",
            who: Who::User,
            risk: "as above",
            ..Fix::USUAL
        },
    ],
    sources: &[
        vendor(
            "Red Hat, Configuring InfiniBand and RDMA networks: memory that users may pin",
            "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/configuring_infiniband_and_rdma_networks/increasing-the-amount-of-memory-that-users-are-allowed-to-pin-in-the-system_configuring-infiniband-and-rdma-networks",
        ),
        book("AI Systems Performance Engineering (early release), chapter 3: ulimit -l unlimited"),
        own("a failure at or below the kernel's default of 8 MiB, a warning above it"),
    ],
    run: |context, _| {
        let folder = context.roots.sys.join("class/infiniband");
        let rdma = files::list(&folder)?.unwrap_or_default().len();
        Unread::unless(rdma > 0, "no RDMA device")?;
        let processes = jobs::read(context, "limits", limits::max_locked_memory)?;
        Ok(judge(&processes.iter().map(|process| (process.pid, process.value)).collect::<Vec<_>>()))
    },
};

fn judge(limits: &[(u32, Limit)]) -> Verdict {
    let limited: Vec<(u32, u64)> = limits.iter().filter_map(|(pid, limit)| Some((*pid, limit.bytes()?))).collect();
    let status = match limited.iter().map(|(_, limit)| *limit).min() {
        None => return Verdict::new(Status::Pass, "unlimited"),
        Some(0..=DEFAULT) => Status::Fail,
        Some(_) => Status::Warn,
    };
    let limited: Vec<String> = limited.iter().map(|(pid, limit)| format!("{} for pid {pid}", bytes(*limit))).collect();
    Verdict::new(status, list(&limited))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Limit::{Bytes, Unlimited};

    #[test]
    fn limits() {
        for (limits, status, read) in [
            (vec![(7, Unlimited), (8, Unlimited)], Status::Pass, "unlimited"),
            (vec![(7, Unlimited), (8, Bytes(1 << 34))], Status::Warn, "16 GiB for pid 8"),
            (vec![(7, Bytes(8 << 20)), (8, Bytes(1 << 34))], Status::Fail, "8 MiB for pid 7, 16 GiB for pid 8"),
            (vec![(7, Bytes(0))], Status::Fail, "0 bytes for pid 7"),
        ] {
            let verdict = judge(&limits);
            assert_eq!((verdict.status, verdict.read.as_str()), (status, read));
        }
    }
}
