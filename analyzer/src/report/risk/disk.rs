//! Disks that fill up: what it means and what to do.

use goodput_verdict::{Remedy, Room};

pub(super) fn meaning(room: Room) -> &'static str {
    match room {
        Room::Bytes => {
            "Writes to it fail: a checkpoint is torn, a log ends, and a job that waits for its save ends too."
        }
        Room::Inodes => {
            "No file can be made on it any more, whatever space is left; a checkpoint or a cache ends there."
        }
    }
}

pub(super) fn remedies(room: Room) -> &'static [Remedy] {
    match room {
        Room::Bytes => BYTES,
        Room::Inodes => INODES,
    }
}

const BYTES: &[Remedy] = &[
    Remedy {
        action: "Find what grows: checkpoints that are never removed, core files, logs, images.",
        command: Some("du -xh --max-depth=2 MOUNTPOINT | sort -h | tail"),
        restarts: "nothing",
        who: "root, to see all of it",
        risk: "reading many files takes I/O from the jobs",
        source: "du(1)",
    },
    Remedy {
        action: "Have the job keep its last few checkpoints only, or write them where there is room.",
        restarts: "the job, from its last checkpoint, to take the change up",
        risk: "none of the checkpoints that are removed can be gone back to",
        source: "PyTorch Lightning documentation, ModelCheckpoint: save_top_k",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "See whether what was removed is still open: space comes back when the last process closes it.",
        command: Some("lsof +L1 MOUNTPOINT"),
        source: "lsof(8)",
        ..Remedy::LIVE
    },
];

const INODES: &[Remedy] = &[
    Remedy {
        action: "Find where the files are: data sets of small files, caches of compilers and package managers.",
        command: Some("du -x --inodes --max-depth=2 MOUNTPOINT | sort -n | tail"),
        restarts: "nothing",
        who: "root, to see all of it",
        risk: "reading many directories takes I/O from the jobs",
        source: "du(1)",
    },
    Remedy {
        action: "Pack small files into shards; a file system made with too few inodes has to be made again.",
        command: Some("tar -cf shard-0001.tar samples/"),
        restarts: "the job, to read the shards",
        who: "the job's owner",
        risk: "the loader has to read archives",
        source: "WebDataset documentation; mke2fs(8), -N",
    },
];
