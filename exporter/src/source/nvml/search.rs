//! Where the library is found: by the dynamic loader, or with a driver below another root, as a container sees its
//! host.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

/// The library's name.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Folders below a root in which drivers have it: of distributions, of NVIDIA's GPU operator, of Google's
/// Container-Optimized OS, Talos and Flatcar. ARCH is the machine's, `*` any folder.
const FOLDERS: [&str; 10] = [
    "usr/lib/ARCH-linux-gnu",
    "usr/lib/ARCH-linux-gnu/nvidia/current",
    "usr/lib64",
    "usr/local/nvidia/lib64",
    "run/nvidia/driver/usr/lib64",
    "run/nvidia/driver/usr/lib/ARCH-linux-gnu",
    "home/kubernetes/bin/nvidia/lib64",
    "usr/local/glibc/lib",
    "usr/local/glibc/usr/lib",
    "opt/nvidia/*/*/usr/lib64",
];

/// Which library is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// This file, or what the dynamic loader finds under this name.
    File(PathBuf),
    /// What the dynamic loader finds, else that of a driver below this root.
    Auto(PathBuf),
}

impl Search {
    /// What is there to be tried, in this order.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        match self {
            Self::File(path) => vec![path.clone()],
            Self::Auto(root) => {
                let below = folders().flat_map(|folder| expand(root, &folder)).map(|folder| folder.join(LIBRARY));
                let below = below.filter(|path| path.try_exists().unwrap_or(false));
                std::iter::once(LIBRARY.into()).chain(below).collect()
            }
        }
    }

    /// Why none of them was loaded, and what to do; `failed` is what the dynamic loader said of each.
    pub(super) fn nothing_loaded(&self, failed: &[String]) -> String {
        let failed = failed.join("; ");
        match self {
            Self::File(path) => format!(
                "cannot load {}, given as --nvml.library: {failed}; correct the path, or leave the flag out to search for \
                 {LIBRARY}",
                path.display()
            ),
            Self::Auto(root) => format!(
                "no nvidia driver: the dynamic loader found no usable {LIBRARY} ({failed}), and neither did a search below \
                 {} in {}; install the driver, or name the library with --nvml.library",
                root.display(),
                folders().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

fn folders() -> impl Iterator<Item = String> {
    FOLDERS.iter().map(|folder| folder.replace("ARCH", ARCH))
}

/// The folders that a pattern stands for.
fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![root.to_owned()], |folders, name| {
        let entries = |folder: PathBuf| match name {
            "*" => sorted(&folder),
            name => vec![folder.join(name)],
        };
        folders.into_iter().flat_map(entries).collect()
    })
}

/// The newest of several versions comes first.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_by(|a, b| b.cmp(a));
    paths
}

/// The file of a library that was loaded under this name.
pub(super) fn file(name: &Path) -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).map(Path::new);
    let is_it =
        |path: &&Path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("libnvidia-ml.so"));
    let found = if name.is_absolute() { None } else { mapped.into_iter().find(is_it) };
    found.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_below_another_root_is_found_wherever_systems_put_it() {
        let root = tempfile::tempdir().unwrap();
        let search = Search::Auto(root.path().to_owned());
        assert_eq!(search.candidates(), [Path::new(LIBRARY)]);
        let arch = format!("usr/lib/{ARCH}-linux-gnu");
        let folders = [
            arch.as_str(),
            "home/kubernetes/bin/nvidia/lib64",
            "opt/nvidia/1/6.6/usr/lib64",
            "opt/nvidia/2/6.6/usr/lib64",
        ];
        for folder in folders {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(LIBRARY), "").unwrap();
        }
        let found = search.candidates();
        let found: Vec<_> =
            found[1..].iter().map(|path| path.strip_prefix(root.path()).unwrap().parent().unwrap()).collect();
        assert_eq!(found, [folders[0], folders[1], folders[3], folders[2]].map(Path::new));
        let reason = search.nothing_loaded(&["a: no".to_owned(), "b: no".to_owned()]);
        assert!(reason.contains("(a: no; b: no)") && reason.contains("opt/nvidia/*/*/usr/lib64"), "{reason}");
        assert!(reason.contains(&root.path().display().to_string()), "{reason}");
    }
}
