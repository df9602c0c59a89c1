//! Swap: the kernel's swappiness, and whether swap is used.

use super::*;
use crate::context::Context;
use crate::parse::{number, status, swaps};
use crate::source::files;

/// TuneD's profile for machines with accelerators sets this value. The kernel weighs anonymous memory by the setting
/// and files by 200 minus it, so that at 10 it takes files 19 times as readily.
const MOST_SWAPPINESS: u32 = 10;

pub(super) static SWAPPINESS: Check = Check {
    id: "swappiness",
    title: "vm.swappiness",
    reads: "/proc/sys/vm/swappiness, /proc/swaps",
    families: &[&catalog::memory::SWAPPINESS, &catalog::memory::SWAP_DEVICE_SIZE],
    expected: Expected::always("at most 10, or no swap device"),
    why: "Reading a data set fills the page cache. With the default of 60 the kernel makes room by swapping out idle \
          parts of the job as well, and the GPU waits when they are needed again.",
    fixes: &[Fix {
        command: "sysctl -w vm.swappiness=10",
        lasting: Some("echo 'vm.swappiness = 10' > /etc/sysctl.d/90-gpu-swap.conf"),
        restarts: "nothing; pages that are swapped out stay there until they are used",
        risk: "less page cache under memory pressure",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("sysctl/vm: swappiness", SYSCTL_VM),
        TUNED_ACCELERATOR,
        book("AI Systems Performance Engineering (early release), chapter 3, which sets 0"),
    ],
    run: |context, _| {
        let devices = devices(context)?;
        let value = files::parse(&context.roots.proc.join("sys/vm/swappiness"), number::<u32>)?;
        Ok(judge_swappiness(value, devices.len()))
    },
};

fn judge_swappiness(value: u32, devices: usize) -> Verdict {
    let status = match (devices, value) {
        (0, _) => Status::NotApplicable,
        (_, 0..=MOST_SWAPPINESS) => Status::Pass,
        _ => Status::Warn,
    };
    Verdict::new(status, format!("{value}, with {}", count(devices, "swap device")))
}

pub(super) static USE: Check = Check {
    id: "swap_use",
    title: "Memory swapped out",
    reads: "/proc/swaps, /proc/PID/status VmSwap of every GPU process",
    families: &[&catalog::memory::SWAP_DEVICE_USED],
    expected: Expected::always("nothing of a GPU process, and best nothing at all"),
    why: "A GPU process that touches a swapped page waits for a disk, and with it every GPU of a synchronous job. Used \
          swap without a swapped GPU process may be old: the rate is in goodput_swap_in_bytes_total.",
    fixes: &[Fix {
        command: "swapoff -a",
        lasting: Some("remove swap from /etc/fstab, mask its systemd units"),
        restarts: "nothing, but reads everything back from disk first",
        risk: "the OOM killer runs when MemAvailable is less than what is swapped out: check it first, and give every \
               job a memory limit",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("filesystems/proc: VmSwap", "https://docs.kernel.org/filesystems/proc.html"),
        book("AI Systems Performance Engineering (early release), chapter 3: swap is no safety net for a GPU node"),
        own("swap in use without a swapped GPU process is a warning"),
    ],
    run: |context, _| {
        let devices = devices(context)?;
        let swapped = match jobs::read(context, "status", status::swapped) {
            Ok(processes) => processes.iter().map(|process| (process.pid, process.value)).collect(),
            Err(Unread::Absent(_)) => Vec::new(),
            Err(why) => return Err(why),
        };
        Ok(judge_use(&devices, &swapped))
    },
};

fn judge_use(devices: &[u64], swapped: &[(u32, u64)]) -> Verdict {
    let jobs: Vec<String> = swapped
        .iter()
        .filter(|(_, size)| *size > 0)
        .map(|(pid, size)| format!("{} of GPU process {pid}", bytes(*size)))
        .collect();
    let used = devices.iter().sum::<u64>();
    match (devices, jobs.is_empty(), used) {
        ([], ..) => Verdict::new(Status::Pass, "no swap device"),
        (_, false, _) => Verdict::new(Status::Fail, list(&jobs)),
        (_, true, 0) => Verdict::new(Status::Pass, "nothing"),
        (_, true, used) => Verdict::new(Status::Warn, format!("{}, none of a GPU process", bytes(used))),
    }
}

/// Bytes used on every swap device.
pub(super) fn devices(context: &Context) -> Result<Vec<u64>, Unread> {
    let used = |text: &str| swaps::parse(text).map(|swaps| swaps.iter().map(|swap| swap.used).collect());
    Ok(files::parse(&context.roots.proc.join("swaps"), used)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, NotApplicable, Pass, Warn};

    #[test]
    fn readiness() {
        for (value, devices, status) in
            [(0, 1, Pass), (10, 1, Pass), (11, 1, Warn), (60, 2, Warn), (60, 0, NotApplicable)]
        {
            assert_eq!(judge_swappiness(value, devices).status, status, "{value} {devices}");
        }
    }

    #[test]
    fn use_of_swap() {
        for (devices, swapped, status, read) in [
            (&[][..], &[][..], Pass, "no swap device"),
            (&[0], &[(7, 0)], Pass, "nothing"),
            (&[1 << 20, 0], &[(7, 0)], Warn, "1 MiB, none of a GPU process"),
            (&[1 << 20], &[(7, 0), (8, 1 << 19)], Fail, "512 KiB of GPU process 8"),
        ] {
            let verdict = judge_use(devices, swapped);
            assert_eq!((verdict.status, verdict.read.as_str()), (status, read));
        }
    }
}
