//! Transparent huge pages and reserved ones.

use super::*;
use crate::context::Context;
use crate::parse::{choice, number};
use crate::source::files;

const DOC: &str = "https://docs.kernel.org/admin-guide/mm/transhuge.html";

pub(super) static THP_ENABLED: Check = Check {
    id: "thp_enabled",
    title: "Transparent huge pages",
    reads: "/sys/kernel/mm/transparent_hugepage/enabled",
    families: &[&catalog::memory::THP],
    expected: Expected { training: "madvise or always", inference: "madvise or never", mixed: "madvise" },
    why: "Huge pages save page faults and TLB misses in large host buffers, but with `always` every program pays for \
          zeroing and compacting them, at moments it does not choose. With `madvise` only those that ask do.",
    fixes: &[Fix {
        command: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        lasting: Some("kernel parameter transparent_hugepage=madvise"),
        restarts: "nothing; memory that is mapped already stays as it is",
        who: Who::Root,
        risk: "programs that gained from `always` without asking lose it",
        gain: Some("a few percent at most for training (book, not measured)"),
    }],
    sources: &[
        kernel("Transparent Hugepage Support", DOC),
        book(
            "AI Systems Performance Engineering (early release), chapter 3: on for training, off where latency counts",
        ),
    ],
    run: |context, profile| Ok(judge_enabled(&active(context, "enabled")?, profile)),
};

fn judge_enabled(mode: &str, profile: Profile) -> Verdict {
    let fine = match profile {
        Profile::Training => ["madvise", "always"].contains(&mode),
        Profile::Inference => ["madvise", "never"].contains(&mode),
        Profile::Mixed => mode == "madvise",
    };
    Verdict::new(if fine { Status::Pass } else { Status::Warn }, mode)
}

pub(super) static THP_DEFRAG: Check = Check {
    id: "thp_defrag",
    title: "Compaction on page faults",
    reads: "/sys/kernel/mm/transparent_hugepage/{enabled,defrag}",
    families: &[&catalog::memory::THP],
    expected: Expected::always("anything but always, or huge pages off"),
    why: "With `always` a page fault that finds no free huge page stops the program until the kernel has reclaimed and \
          compacted memory. On a node whose memory is full of page cache, as after reading a data set, loaders and \
          servers stall so for milliseconds at a time.",
    fixes: &[Fix {
        command: "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        lasting: Some("a systemd-tmpfiles line: w /sys/kernel/mm/transparent_hugepage/defrag - - - - madvise"),
        risk: "fewer huge pages on a fragmented node",
        ..Fix::USUAL
    }],
    sources: &[kernel("Transparent Hugepage Support: defrag", DOC)],
    run: |context, profile| Ok(judge_defrag(&active(context, "enabled")?, &active(context, "defrag")?, profile)),
};

fn judge_defrag(enabled: &str, defrag: &str, profile: Profile) -> Verdict {
    let status = match (enabled, defrag, profile) {
        ("never", ..) => Status::NotApplicable,
        (_, "always", Profile::Inference) => Status::Fail,
        (_, "always", _) => Status::Warn,
        _ => Status::Pass,
    };
    Verdict::new(status, format!("{defrag}, with huge pages {enabled}"))
}

fn active(context: &Context, file: &str) -> Result<String, Unread> {
    let path = context.roots.sys.join("kernel/mm/transparent_hugepage").join(file);
    Ok(files::parse(&path, |text| choice::active(text).map(str::to_owned))?)
}

pub(super) static POOLS: Check = Check {
    id: "hugetlb_pools",
    title: "Reserved huge pages",
    reads: "/sys/kernel/mm/hugepages/hugepages-*/{nr,free,resv}_hugepages",
    families: &[&catalog::memory::HUGETLB_TOTAL, &catalog::memory::HUGETLB_FREE, &catalog::memory::HUGETLB_RESERVED],
    expected: Expected::always("no pool that nothing uses"),
    why: "Pages in a hugetlb pool are taken from everything else: jobs, page cache, pinned buffers. A pool that \
          nothing has mapped or reserved is memory lost, and brings the node's out-of-memory point nearer.",
    fixes: &[Fix {
        command: "echo 0 > /sys/kernel/mm/hugepages/hugepages-SIZE/nr_hugepages",
        lasting: Some(
            "remove hugepages= and hugepagesz= from the kernel parameters, vm.nr_hugepages from /etc/sysctl.d",
        ),
        risk: "a program that wants the pool later does not start, as a DPDK or SPDK service may",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("HugeTLB Pages", "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"),
        own("the pool may wait for a service that is not started yet: a warning, never a failure"),
    ],
    run: |context, _| Ok(judge_pools(&pools(context)?)),
};

/// A pool of one page size.
struct Pool {
    /// As its folder spells it, such as `2048kB`.
    size: String,
    page_bytes: u64,
    pages: u64,
    free: u64,
    reserved: u64,
}

fn pools(context: &Context) -> Result<Vec<Pool>, Unread> {
    let folder = context.roots.sys.join("kernel/mm/hugepages");
    let Some(mut names) = files::list(&folder)? else {
        return Err(Unread::Absent(format!("{}: not there", folder.display())));
    };
    names.sort_unstable();
    let mut pools = Vec::new();
    for name in names {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        let Some(kibibytes) = size.strip_suffix("kB").and_then(|n| n.parse::<u64>().ok()) else { continue };
        let count = |file: &str| files::parse(&folder.join(&name).join(file), number::<u64>);
        pools.push(Pool {
            size: size.to_owned(),
            page_bytes: kibibytes.saturating_mul(1024),
            pages: count("nr_hugepages")?,
            free: count("free_hugepages")?,
            reserved: count("resv_hugepages")?,
        });
    }
    Ok(pools)
}

fn judge_pools(pools: &[Pool]) -> Verdict {
    let unused: Vec<&Pool> = pools.iter().filter(|p| p.pages > 0 && p.free == p.pages && p.reserved == 0).collect();
    let held =
        |pool: &&Pool| format!("{} in pages of {}", bytes(pool.pages.saturating_mul(pool.page_bytes)), pool.size);
    if !unused.is_empty() {
        let commands =
            unused.iter().map(|p| format!("echo 0 > /sys/kernel/mm/hugepages/hugepages-{}/nr_hugepages", p.size));
        let read = format!("unused: {}", list(&unused.iter().map(held).collect::<Vec<_>>()));
        return Verdict::new(Status::Warn, read).with(commands.collect());
    }
    let used: Vec<String> = pools.iter().filter(|pool| pool.pages > 0).map(|pool| held(&pool)).collect();
    Verdict::new(Status::Pass, if used.is_empty() { "none".to_owned() } else { format!("in use: {}", list(&used)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Profile::{Inference, Mixed, Training};
    use Status::{Fail, NotApplicable, Pass, Warn};

    #[test]
    fn modes() {
        for (mode, training, inference, mixed) in
            [("always", Pass, Warn, Warn), ("madvise", Pass, Pass, Pass), ("never", Warn, Pass, Warn)]
        {
            let found = [Training, Inference, Mixed].map(|profile| judge_enabled(mode, profile).status);
            assert_eq!(found, [training, inference, mixed], "{mode}");
        }
    }

    #[test]
    fn defragmentation() {
        for (enabled, defrag, training, inference) in [
            ("madvise", "always", Warn, Fail),
            ("always", "always", Warn, Fail),
            ("always", "defer+madvise", Pass, Pass),
            ("madvise", "never", Pass, Pass),
            ("never", "always", NotApplicable, NotApplicable),
        ] {
            let found = [Training, Inference].map(|profile| judge_defrag(enabled, defrag, profile).status);
            assert_eq!(found, [training, inference], "{enabled} {defrag}");
        }
    }

    #[test]
    fn reserved_pages() {
        let pool =
            |pages, free, reserved| Pool { size: "1048576kB".to_owned(), page_bytes: 1 << 30, pages, free, reserved };
        for (pools, status, read) in [
            (vec![], Pass, "none"),
            (vec![pool(0, 0, 0)], Pass, "none"),
            (vec![pool(8, 3, 0)], Pass, "in use: 8 GiB in pages of 1048576kB"),
            (vec![pool(8, 8, 2)], Pass, "in use: 8 GiB in pages of 1048576kB"),
            (vec![pool(8, 8, 0)], Warn, "unused: 8 GiB in pages of 1048576kB"),
        ] {
            let verdict = judge_pools(&pools);
            assert_eq!((verdict.status, verdict.read.as_str()), (status, read));
            let command = "echo 0 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
            assert_eq!(verdict.commands, if status == Warn { vec![command] } else { vec![] });
        }
    }
}
