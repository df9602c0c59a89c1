//! The files of the machine: the recorded tree, and what changes in it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::layout;

/// What does not change, and what the kernel's own files look like where only some figures do.
const RECORDED: &str = include_str!("../../../fixtures/demo-node/tree.txt");

/// The text of a file of the recorded tree.
pub(super) fn recorded(path: &str) -> &'static str {
    files().find(|(name, _)| *name == path).map_or("", |(_, text)| text)
}

/// Path and text of every file.
fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    RECORDED.split("==> ").filter_map(|file| file.split_once('\n'))
}

/// The files below one folder. Readers find each old or new, never half of it.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    written: HashMap<String, String>,
}

impl Files {
    /// Writes the recorded tree.
    pub(super) fn unpack(root: &Path) -> Result<Files> {
        let mut made = Files { root: root.to_owned(), written: HashMap::new() };
        for (path, text) in files() {
            for path in expand(path) {
                made.write(&path, text.to_owned())?;
            }
        }
        for (irq, cpu) in layout::rows().iter().map(|row| (row.number, row.cpu)) {
            made.write(&format!("proc/irq/{irq}/smp_affinity_list"), format!("{cpu}\n"))?;
        }
        Ok(made)
    }

    /// Replaces a file, if its text is another.
    pub(super) fn write(&mut self, path: &str, text: String) -> Result<()> {
        if self.written.get(path) == Some(&text) {
            return Ok(());
        }
        let (file, beside) = (self.root.join(path), self.root.join(".new"));
        let known = self.written.insert(path.to_owned(), text);
        let write = || {
            if let (None, Some(folder)) = (&known, file.parent()) {
                fs::create_dir_all(folder)?;
            }
            fs::write(&beside, &self.written[path])?;
            fs::rename(&beside, &file)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    /// Removes a folder and all below it.
    pub(super) fn remove(&mut self, folder: &str) -> Result<()> {
        let below = format!("{folder}/");
        self.written.retain(|path, _| !path.starts_with(&below));
        let path = self.root.join(folder);
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// `cpu{0-3}` stands for `cpu0` to `cpu3`.
fn expand(path: &str) -> Vec<String> {
    let range = || {
        let (before, rest) = path.split_once('{')?;
        let (range, behind) = rest.split_once('}')?;
        let (first, last) = range.split_once('-')?;
        let numbers = first.parse::<u32>().ok()?..=last.parse().ok()?;
        Some(numbers.map(|n| format!("{before}{n}{behind}")).collect())
    };
    range().unwrap_or_else(|| vec![path.to_owned()])
}

/// The recorded text with these figures in place of its own. A key is what stands before the colon or, without one, the
/// first word; a key that the text lacks is passed over.
pub(super) fn with_figures(recorded: &str, figures: &[(&str, u64)]) -> String {
    let replaced = |line: &str| {
        let (before, old) = line.rsplit_once(|c: char| c == ' ' && !line.ends_with(" kB")).or_else(|| {
            let (before, _) = line.strip_suffix(" kB")?.rsplit_once(' ')?;
            Some((before, ""))
        })?;
        let key = before.split(':').next()?.trim().rsplit(' ').next()?;
        let (_, value) = figures.iter().find(|(name, _)| *name == key)?;
        let unit = if old.is_empty() { " kB" } else { "" };
        Some(format!("{before} {value}{unit}"))
    };
    recorded.lines().map(|line| replaced(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_expand() {
        assert_eq!(expand("a/cpu{0-2}/b"), ["a/cpu0/b", "a/cpu1/b", "a/cpu2/b"]);
        assert_eq!(expand("a/b"), ["a/b"]);
    }

    #[test]
    fn figures_are_replaced_by_their_keys() {
        let figures = [("MemFree", 7), ("pswpin", 8), ("Active", 9)];
        for (old, new) in [
            ("MemFree:       187781108 kB", "MemFree:       7 kB"),
            ("Node 0 MemFree:        86049608 kB", "Node 0 MemFree:        7 kB"),
            ("Active(anon):   15323896 kB", "Active(anon):   15323896 kB"),
            ("HugePages_Total:       0", "HugePages_Total:       0"),
            ("pswpin 0", "pswpin 8"),
        ] {
            assert_eq!(with_figures(old, &figures), format!("{new}\n"));
        }
    }
}
