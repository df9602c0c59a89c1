//! Where the cgroup hierarchies are: v2 alone, v1 controllers, or v1 controllers with v2 next to them (hybrid).

use std::iter::successors;
use std::path::{Path, PathBuf};

use super::files::{self, FileError, Roots};

/// One mounted hierarchy.
pub struct Hierarchy {
    /// v1 controllers, as the folder is named; empty for v2.
    pub controllers: String,
    /// Its root folder.
    pub root: PathBuf,
}

/// The root of the v2 hierarchy: the cgroup mount itself, or the folder `unified` next to v1 hierarchies (systemd's
/// hybrid layout).
#[must_use]
pub fn v2_root(roots: &Roots) -> PathBuf {
    if is_v2(roots) { roots.cgroup.clone() } else { roots.cgroup.join("unified") }
}

/// Only v2 has this file, in every group.
fn is_v2(roots: &Roots) -> bool {
    roots.cgroup.join("cgroup.controllers").try_exists().unwrap_or(false)
}

/// A group's folder for one of the controllers mounted together as `controllers`. The mount carries the joint name,
/// and usually one link per controller.
#[must_use]
pub fn v1_group(roots: &Roots, controllers: &str, controller: &str, path: &str) -> Option<PathBuf> {
    let folders = [controllers, controller].map(|name| group(&roots.cgroup.join(name), path));
    folders.into_iter().find(|folder| folder.is_dir())
}

/// A group's folder below its hierarchy's root.
#[must_use]
pub fn group(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// A group's path and those above it, from below; the hierarchy's root, which has no limits, is left out.
pub fn upwards(path: &str) -> impl Iterator<Item = String> {
    successors(Some(path.to_owned()), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent.to_owned()).filter(|parent| !parent.is_empty())
    })
}

/// Every hierarchy mounted here.
pub fn hierarchies(roots: &Roots) -> Result<Vec<Hierarchy>, FileError> {
    if is_v2(roots) {
        return Ok(vec![Hierarchy { controllers: String::new(), root: roots.cgroup.clone() }]);
    }
    let names = files::list(&roots.cgroup)?.unwrap_or_default().into_iter();
    let hierarchy = |name: String| {
        let root = roots.cgroup.join(&name);
        let controllers = if name == "unified" { String::new() } else { name };
        Hierarchy { controllers, root }
    };
    Ok(names.map(hierarchy).filter(|h| h.root.is_dir() && !h.root.is_symlink()).collect())
}

/// Paths of the cgroups below the kubelet's, in the first hierarchy that has any, no more than `most`.
#[must_use]
pub fn of_pods(roots: &Roots, depth: usize, most: usize) -> Vec<String> {
    let is_kubelets = |name: &String| name.contains("kubepods") || name.contains("kubelet");
    for hierarchy in hierarchies(roots).unwrap_or_default() {
        let tops = files::folders(&hierarchy.root).into_iter().filter(is_kubelets);
        let mut all: Vec<String> = tops.map(|name| format!("/{name}")).collect();
        let mut level = all.clone();
        for _ in 1..depth {
            let below = |path: &String| {
                let names = files::folders(&group(&hierarchy.root, path)).into_iter();
                names.map(|name| format!("{path}/{name}")).collect::<Vec<_>>()
            };
            level = level.iter().flat_map(below).take(most.saturating_sub(all.len())).collect();
            all.extend_from_slice(&level);
        }
        if !all.is_empty() {
            return all;
        }
    }
    Vec::new()
}

/// Paths of the groups that match one of the patterns, in which `*` stands for any characters of one folder's name.
/// A folder that cannot be listed costs what is below it; the first is put into `failed`.
pub fn matching(root: &Path, patterns: &[String], failed: &mut Option<FileError>) -> Vec<String> {
    let mut all = Vec::new();
    for pattern in patterns {
        let mut paths = vec![String::new()];
        for folder in pattern.split('/').filter(|folder| !folder.is_empty()) {
            paths = paths.iter().flat_map(|path| expand(root, path, folder, failed)).collect();
        }
        all.extend(paths.into_iter().filter(|path| group(root, path).is_dir()));
    }
    all
}

fn expand(root: &Path, path: &str, folder: &str, failed: &mut Option<FileError>) -> Vec<String> {
    if !folder.contains('*') {
        return vec![format!("{path}/{folder}")];
    }
    let names = files::list(&group(root, path)).unwrap_or_else(|error| {
        failed.get_or_insert(error);
        None
    });
    let names = names.unwrap_or_default().into_iter().filter(|name| matches(folder, name));
    names.map(|name| format!("{path}/{name}")).collect()
}

/// Does the name match? `*` in the pattern stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_those_above_it() {
        let paths = |path: &str| upwards(path).collect::<Vec<_>>();
        assert_eq!(paths("/a.slice/b.scope/c"), ["/a.slice/b.scope/c", "/a.slice/b.scope", "/a.slice"]);
        assert_eq!(paths("/a"), ["/a"]);
    }

    #[test]
    fn stars() {
        for (pattern, name, expected) in [
            ("*", "x", true),
            ("job_*", "job_1", true),
            ("job_*", "ajob_1", false),
            ("*.service", "a.service", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("é*", "é", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
