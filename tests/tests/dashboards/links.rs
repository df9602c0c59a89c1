//! Ports, interfaces and network storage of the machine: those of the collectors' fixtures, with counters that grow. Limits on the
//! I/O of its jobs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use goodput_tests::rules::root;

/// More than the collectors' own machines count, so that rates are not lost in rounding.
const STEP: u64 = 1000;
/// Full counters stay full.
const FULL: &str = "65535";

/// Files that count, as they were at first.
pub(super) struct Links {
    counting: Vec<(PathBuf, String)>,
    steps: u64,
}

impl Links {
    /// Adds them to a machine whose `proc` and `sys` are in the folder.
    pub(super) fn add_to(folder: &Path) -> Result<Links> {
        let mut counting = Vec::new();
        for collector in ["network", "storage", "lustre"] {
            let tree = root().join("exporter/tests/fixtures/collectors").join(collector).join("tree.txt");
            let text = fs::read_to_string(&tree).with_context(|| tree.display().to_string())?;
            for entry in text.split("==> ").skip(1) {
                let (path, content) = entry.split_once('\n').context("a file without a name")?;
                counting.extend(write(folder, path, content)?);
            }
        }
        limit(folder)?;
        Ok(Links { counting, steps: 0 })
    }

    /// Every count goes on.
    pub(super) fn grow(&mut self) -> Result<()> {
        self.steps += 1;
        let more = self.steps * STEP;
        for (file, first) in &self.counting {
            let grown = |word: &str| match word.trim().parse::<u64>() {
                Ok(count) if word.trim() != FULL => word.replace(word.trim(), &(count + more).to_string()),
                _ => word.to_owned(),
            };
            fs::write(file, first.split_inclusive([' ', '\t', '\n']).map(grown).collect::<String>())?;
        }
        Ok(())
    }
}

/// Every job is in a cgroup with a limit of each kind on the disk.
fn limit(folder: &Path) -> Result<()> {
    for group in fs::read_dir(folder.join("cgroup"))? {
        let group = group?.path();
        if group.is_dir() {
            fs::write(group.join("io.max"), "259:0 rbps=2000000000 wbps=1000000000 riops=20000 wiops=10000\n")?;
        }
    }
    let disk = folder.join("sys/dev/block/259:0");
    fs::create_dir_all(&disk)?;
    Ok(fs::write(disk.join("uevent"), "MAJOR=259\nMINOR=0\nDEVNAME=nvme0n1\nDEVTYPE=disk\n")?)
}

/// A file that the machine has already stays its own. What counts is returned.
fn write(folder: &Path, path: &str, content: &str) -> Result<Option<(PathBuf, String)>> {
    let (path, target) = path.split_once(" -> ").map_or((path, None), |(path, target)| (path, Some(target)));
    let file = folder.join(path);
    if file.try_exists()? {
        return Ok(None);
    }
    if path.ends_with('/') {
        fs::create_dir_all(&file)?;
        return Ok(None);
    }
    fs::create_dir_all(file.parent().context("a file without a folder")?)?;
    if let Some(target) = target {
        symlink(target, &file)?;
        return Ok(None);
    }
    fs::write(&file, content)?;
    let counts = path.contains("counters/") || path.starts_with("proc/1/") || path.ends_with("/stats");
    Ok(counts.then(|| (file, content.to_owned())))
}
