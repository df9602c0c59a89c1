//! Disks, arrays and network file systems.

use super::*;
use crate::context::Context;
use crate::parse::{choice, mounts, number};
use crate::source::files;

/// TuneD's profile for machines with accelerators raises read-ahead to this, KiB.
const READ_AHEAD_KIB: u64 = 4096;

/// The most that a Linux client asks for in one message (nfs(5)), and what it agrees on by default.
const NFS_MESSAGE: u64 = 1 << 20;

pub(super) static SCHEDULER: Check = Check {
    id: "io_scheduler",
    title: "I/O scheduler of NVMe drives",
    reads: "/sys/block/nvme*/queue/scheduler",
    families: &[],
    expected: Expected::always("none or mq-deadline"),
    why: "A drive that takes a hundred thousand requests a second orders them itself. Schedulers that are fair between \
          programs take locks and time for each request.",
    fixes: &[Fix {
        command: "echo none > /sys/block/DEVICE/queue/scheduler",
        lasting: Some(
            "ACTION==\"add|change\", KERNEL==\"nvme[0-9]*n[0-9]*\", ATTR{queue/scheduler}=\"none\" in /etc/udev/rules.d",
        ),
        risk: "limits on cgroups' I/O by weight (io.weight with bfq) end",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("Switching Scheduler", "https://docs.kernel.org/block/switching-sched.html"),
        book("AI Systems Performance Engineering (early release), chapter 4: NVMe settings"),
        own("a warning"),
    ],
    run: |context, _| {
        let mut schedulers = Vec::new();
        for (disk, folder) in disks(context, &["nvme"])? {
            let active = |text: &str| choice::active(text).map(str::to_owned);
            schedulers.extend(files::parse_optional(&folder.join("scheduler"), active)?.map(|name| (disk, name)));
        }
        Unread::unless(!schedulers.is_empty(), "no NVMe drive")?;
        Ok(judge_schedulers(&schedulers))
    },
};

/// The disks whose name begins so, with the folder of their queue's settings.
fn disks(context: &Context, prefixes: &[&str]) -> Result<Vec<(String, std::path::PathBuf)>, Unread> {
    let folder = context.roots.sys.join("block");
    let mut names = files::list(&folder)?.unwrap_or_default();
    names.retain(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    names.sort_unstable();
    Ok(names.into_iter().map(|name| (name.clone(), folder.join(name).join("queue"))).collect())
}

fn judge_schedulers(disks: &[(String, String)]) -> Verdict {
    let others: Vec<_> = disks.iter().filter(|(_, name)| !["none", "mq-deadline"].contains(&name.as_str())).collect();
    if others.is_empty() {
        return Verdict::new(Status::Pass, format!("right on {}", count(disks.len(), "drive")));
    }
    let read = others.iter().map(|(disk, name)| format!("{name} on {disk}")).collect::<Vec<_>>();
    let commands = others.iter().map(|(disk, _)| format!("echo none > /sys/block/{disk}/queue/scheduler"));
    Verdict::new(Status::Warn, list(&read)).with(commands.collect())
}

pub(super) static READ_AHEAD: Check = Check {
    id: "read_ahead",
    title: "Read-ahead of disks",
    reads: "/sys/block/{nvme,md,dm-,sd,vd}*/queue/read_ahead_kb",
    families: &[],
    expected: Expected {
        training: "at least 4096 KiB",
        inference: "not judged: servers read their model once",
        mixed: "at least 4096 KiB",
    },
    why: "A data set is read from front to back. With the default of 128 KiB a reader waits for the disk 32 times as often \
          as with 4 MiB.",
    fixes: &[Fix {
        command: "echo 4096 > /sys/block/DEVICE/queue/read_ahead_kb",
        lasting: Some("tuned-adm profile accelerator-performance"),
        restarts: "nothing; files that are open keep theirs",
        risk: "programs that read small pieces here and there read what they do not need",
        ..Fix::USUAL
    }],
    sources: &[
        TUNED_ACCELERATOR,
        book("AI Systems Performance Engineering (early release), chapter 4: sequential reads"),
        own(
            "a warning: data sets on network file systems have read-ahead of their own, and formats of many small records \
             profit less",
        ),
    ],
    run: |context, profile| {
        let mut sizes = Vec::new();
        for (disk, folder) in disks(context, &["nvme", "md", "dm-", "sd", "vd"])? {
            sizes.extend(files::parse_optional(&folder.join("read_ahead_kb"), number::<u64>)?.map(|kib| (disk, kib)));
        }
        Unread::unless(!sizes.is_empty(), "no disk")?;
        Ok(judge_read_ahead(&sizes, profile))
    },
};

fn judge_read_ahead(disks: &[(String, u64)], profile: Profile) -> Verdict {
    let low: Vec<_> = disks.iter().filter(|(_, kib)| *kib < READ_AHEAD_KIB).collect();
    let read = low.iter().map(|(disk, kib)| format!("{kib} KiB on {disk}")).collect::<Vec<_>>();
    let commands = low.iter().map(|(disk, _)| format!("echo {READ_AHEAD_KIB} > /sys/block/{disk}/queue/read_ahead_kb"));
    match (profile, low.is_empty()) {
        (Profile::Inference, _) => Verdict::new(Status::NotApplicable, "servers read their model once"),
        (_, true) => {
            Verdict::new(Status::Pass, format!("at least {READ_AHEAD_KIB} KiB on {}", count(disks.len(), "disk")))
        }
        (_, false) => Verdict::new(Status::Warn, list(&read)).with(commands.collect()),
    }
}

pub(super) static NFS: Check = Check {
    id: "nfs_transfer_size",
    title: "Size of messages to NFS servers",
    reads: "/proc/1/mounts: rsize and wsize of NFS",
    families: &[],
    expected: Expected::always("1 MiB, which is the client's most"),
    why: "Every message costs a round trip and work on both sides. A mount with 64 KiB, copied from an old manual, needs \
          sixteen times as many for the same data set.",
    fixes: &[Fix {
        command: "remove rsize= and wsize= from the mount's options: client and server then agree on the most",
        lasting: Some("in /etc/fstab, the automounter's map or the PersistentVolume"),
        restarts: "the mount, and every process that uses it",
        risk: "an old server over a bad network was given small messages on purpose",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("nfs(5): rsize and wsize", "https://man7.org/linux/man-pages/man5/nfs.5.html"),
        own("a warning: a server may offer no more"),
    ],
    run: |context, _| {
        files::parse(&context.roots.proc.join("1/mounts"), |text| mounts::parse(text).map(|mounts| judge_nfs(&mounts)))?
    },
};

fn judge_nfs(mounts: &[mounts::Mount<'_>]) -> Result<Verdict, Unread> {
    let nfs: Vec<_> = mounts.iter().filter(|mount| ["nfs", "nfs4"].contains(&mount.kind)).collect();
    Unread::unless(!nfs.is_empty(), "no NFS mount")?;
    let least = |mount: &mounts::Mount<'_>| {
        let sizes = ["rsize", "wsize"].map(|name| mount.option(name).and_then(|size| size.parse::<u64>().ok()));
        sizes.into_iter().flatten().min().filter(|size| *size < NFS_MESSAGE)
    };
    let small = nfs.iter().filter_map(|mount| Some(format!("{} at {}", bytes(least(mount)?), mount.point)));
    Ok(Verdict::listing(Status::Warn, small.collect(), format!("1 MiB or more of {}", count(nfs.len(), "mount"))))
}

pub(super) static RAID: Check = Check {
    id: "raid_degraded",
    title: "Arrays that lack a disk",
    reads: "/sys/block/md*/md/degraded",
    families: &[],
    expected: Expected::always("none"),
    why: "An array without one of its disks reads several for each that is missing, and more while it is rebuilt: \
          checkpoints and data sets on it come slowly, and the next failure loses them.",
    fixes: &[Fix {
        command: "mdadm --detail /dev/DEVICE, replace the disk, then: mdadm --manage /dev/DEVICE --add DISK",
        who: Who::Hardware,
        risk: "rebuilding takes bandwidth from the jobs: see sync_speed_max",
        ..Fix::USUAL
    }],
    sources: &[kernel("RAID arrays: degraded", "https://docs.kernel.org/admin-guide/md.html")],
    run: |context, _| {
        let mut arrays = Vec::new();
        for (array, folder) in disks(context, &["md"])? {
            let path = folder.with_file_name("md").join("degraded");
            arrays.extend(files::parse_optional(&path, number::<u32>)?.map(|missing| (array, missing)));
        }
        Unread::unless(!arrays.is_empty(), "no array that can lack a disk")?;
        Ok(judge_arrays(&arrays))
    },
};

fn judge_arrays(arrays: &[(String, u32)]) -> Verdict {
    let degraded = arrays.iter().filter(|(_, missing)| *missing > 0);
    let degraded = degraded.map(|(array, missing)| format!("{array} lacks {}", count(*missing as usize, "disk")));
    Verdict::listing(Status::Fail, degraded.collect(), format!("none of {}", count(arrays.len(), "array")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, NotApplicable, Pass, Warn};

    fn disk<T>(name: &str, value: T) -> (String, T) {
        (name.to_owned(), value)
    }

    #[test]
    fn schedulers() {
        let disk = |scheduler: &str| disk("nvme0n1", scheduler.to_owned());
        assert_eq!(judge_schedulers(&[disk("none"), disk("mq-deadline")]).read, "right on 2 drives");
        let verdict = judge_schedulers(&[disk("none"), disk("bfq")]);
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "bfq on nvme0n1"));
        assert_eq!(verdict.commands, ["echo none > /sys/block/nvme0n1/queue/scheduler"]);
    }

    #[test]
    fn read_ahead() {
        let disks = [disk("nvme0n1", 4096), disk("md0", 128)];
        assert_eq!(judge_read_ahead(&disks, Profile::Training).read, "128 KiB on md0");
        assert_eq!(judge_read_ahead(&disks, Profile::Inference).status, NotApplicable);
        assert_eq!(judge_read_ahead(&disks[..1], Profile::Mixed).status, Pass);
    }

    #[test]
    fn messages() {
        let judge = |text: &str| judge_nfs(&mounts::parse(text).value);
        assert_eq!(judge("nas:/a /data nfs4 rw,rsize=1048576,wsize=1048576 0 0").unwrap().status, Pass);
        let verdict = judge("nas:/a /data nfs rw,rsize=1048576,wsize=65536 0 0").unwrap();
        assert_eq!((verdict.status, verdict.read.as_str()), (Warn, "64 KiB at /data"));
        assert!(judge("/dev/sda1 / ext4 rw 0 0").is_err());
    }

    #[test]
    fn arrays() {
        assert_eq!(judge_arrays(&[disk("md0", 0)]).status, Pass);
        let verdict = judge_arrays(&[disk("md0", 0), disk("md1", 1)]);
        assert_eq!((verdict.status, verdict.read.as_str()), (Fail, "md1 lacks 1 disk"));
    }
}
