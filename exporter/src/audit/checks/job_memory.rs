//! Limits of a job's memory that slow it down: what is freed at once, and what is swapped out.

use super::*;
use crate::parse::{cgroup, keyed};
use crate::source::files;

pub(super) static HIGH: Check = Check {
    id: "memory_high",
    title: "Jobs that are slowed down at their memory limit",
    reads: "memory.high, memory.events high of every v2 cgroup with GPU processes and of those above it",
    families: &[&catalog::host::CGROUP_MEMORY_HIGH_EVENTS],
    expected: Expected::always("no memory.high that is ever passed"),
    why: "Above memory.high every allocation of the job has to free pages first, and is delayed besides. Nothing fails and \
          nothing is logged: the loaders get slow, and the GPU waits.",
    fixes: &[Fix {
        command: "systemctl set-property --runtime UNIT MemoryHigh=infinity",
        lasting: Some("the same without --runtime; in Kubernetes it comes from the feature MemoryQoS"),
        risk: "the job reaches its hard limit instead, and is killed there: raise that to the measured peak",
        ..Fix::USUAL
    }],
    sources: &[kernel("Control Group v2: memory.high", CGROUP_V2), own("a warning")],
    run: |context, _| {
        let mut passed = Vec::new();
        for (path, folder) in jobs::folders(context, "")? {
            let limit = files::parse_optional(&folder.join("memory.high"), cgroup::limit)?.flatten();
            let mut times = 0;
            files::parse_optional(&folder.join("memory.events"), |text| {
                keyed::each(text, |key, value| times = if key == "high" { value } else { times })
            })?;
            passed.extend(limit.map(|limit| (path, limit, times)));
        }
        Ok(judge_high(&passed))
    },
};

/// Every cgroup with such a limit, and how often it was passed.
fn judge_high(groups: &[(String, u64, u64)]) -> Verdict {
    let passed = groups.iter().filter(|(.., times)| *times > 0);
    let spell = |(path, limit, times): &(String, u64, u64)| format!("{path}: {} passed {times} times", bytes(*limit));
    Verdict::listing(Status::Warn, passed.map(spell).collect(), "none passed")
}

pub(super) static SWAP: Check = Check {
    id: "job_swap",
    title: "Jobs that may be swapped out",
    reads: "memory.swap.max of every v2 cgroup with GPU processes, /proc/swaps",
    families: &[&catalog::memory::SWAP_DEVICE_SIZE],
    expected: Expected::always("0, or no swap device"),
    why: "A limit of memory alone does not keep a job in memory: at the limit the kernel swaps it out where there is room, \
          and the job runs on, at the speed of a disk.",
    fixes: &[Fix {
        command: "systemctl set-property --runtime UNIT MemorySwapMax=0",
        lasting: Some("the same without --runtime; kubelet: memorySwap.swapBehavior: NoSwap"),
        risk: "a job at its memory limit is killed instead of slowed down",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Control Group v2: memory.swap.max", CGROUP_V2),
        own("a warning: swap_use tells whether it happens"),
    ],
    run: |context, _| {
        Unread::unless(!swap::devices(context)?.is_empty(), "no swap device")?;
        let mut limits = Vec::new();
        for owner in jobs::owners(context)? {
            for folder in owner.places.iter().filter_map(|place| jobs::folder(context, place, "")) {
                let limit = files::parse_optional(&folder.join("memory.swap.max"), cgroup::limit)?;
                limits.extend(limit.map(|limit| (owner.id.clone(), limit)));
            }
        }
        judge_swap(&limits)
    },
};

fn judge_swap(limits: &[(String, Option<u64>)]) -> Result<Verdict, Unread> {
    Unread::unless(!limits.is_empty(), "no job with a cgroup of version 2 that counts swap holds a GPU")?;
    let spell = |(owner, limit): &(String, Option<u64>)| match limit {
        None => format!("{owner} without limit"),
        Some(limit) => format!("{owner} up to {}", bytes(*limit)),
    };
    let may = limits.iter().filter(|(_, limit)| *limit != Some(0));
    Ok(Verdict::listing(Status::Warn, may.map(spell).collect(), format!("none of {}", count(limits.len(), "job"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    fn said(verdict: &Verdict) -> (Status, &str) {
        (verdict.status, &verdict.read)
    }

    #[test]
    fn memory() {
        let high = |times| [("/a".to_owned(), 1 << 30, times)];
        assert_eq!(said(&judge_high(&high(3))), (Warn, "/a: 1 GiB passed 3 times"));
        assert_eq!((judge_high(&high(0)).status, judge_high(&[]).status), (Pass, Pass));
        let swap = |limit| judge_swap(&[("a".to_owned(), limit)]).unwrap();
        assert_eq!(said(&swap(None)), (Warn, "a without limit"));
        assert_eq!(said(&swap(Some(1 << 30))), (Warn, "a up to 1 GiB"));
        assert_eq!(said(&swap(Some(0))), (Pass, "none of 1 job"));
        assert!(judge_swap(&[]).is_err());
    }
}
