//! Which of the pods that the kubelet lists live. One that has finished may stay on the list for as long as the pod object is
//! kept (before Kubernetes 1.34), and its devices are given to others meanwhile.

use std::collections::BTreeSet;

use crate::parse::owner::Identity;
use crate::source::cgroupfs;
use crate::source::container_logs::Logs;
use crate::source::files::Roots;

/// Folders of cgroups that are looked at most: a node has up to 110 pods, and as many containers for each as it likes.
const MOST: usize = 20_000;

/// Levels below the root: slices of the kubelet, of the class, of the pod, and the containers.
const DEPTH: usize = 6;

/// Signs that pods live: their logs give their ids, and their cgroups have these ids while any part of the pod is
/// there.
pub(super) struct Signs {
    logs: Logs,
    /// UIDs of pods and ids of containers that have a cgroup.
    ids: BTreeSet<String>,
}

impl Signs {
    /// Looks for them; `None` where logs or cgroups of pods are out of sight, so that nothing can be told.
    pub(super) fn look(roots: &Roots) -> Option<Self> {
        let logs = Logs::read(roots)?;
        let mut ids = BTreeSet::new();
        for path in cgroupfs::of_pods(roots, DEPTH, MOST) {
            let Identity { pod_uid, container_id, .. } = Identity::of(&path);
            ids.extend(pod_uid.into_iter().chain(container_id));
        }
        (!ids.is_empty()).then_some(Self { logs, ids })
    }

    /// Is there anything of the pod?
    pub(super) fn lives(&self, namespace: &str, pod: &str) -> bool {
        // The beginning of an id is enough.
        let is_there = |id: &str| self.ids.range(id.to_owned()..).next().is_some_and(|first| first.starts_with(id));
        self.logs.of_pod(namespace, pod).any(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(folder: &std::path::Path) -> Roots {
        let [proc, sys] = ["proc", "sys"].map(|name| folder.join(name));
        Roots { proc, sys, cgroup: folder.join("cgroup"), root: folder.to_owned(), programs: None }
    }

    #[test]
    fn a_pod_lives_while_a_cgroup_has_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(folder.path().join(path)).unwrap();
        let (id, gone) = ("4f1c".repeat(16), "aaaa".repeat(16));
        assert!(Signs::look(&roots(folder.path())).is_none(), "no logs");
        make("var/log/containers");
        assert!(Signs::look(&roots(folder.path())).is_none(), "no cgroups");
        let uid = "7a96c459-d529-4e21-9d3a-5a0a3a0e0a11";
        make(&format!("cgroup/kubepods/burstable/pod{uid}/{id}"));
        make("cgroup/kubepods/pod00000000-d529-4e21-9d3a-5a0a3a0e0a11");
        std::fs::write(folder.path().join("cgroup/cgroup.controllers"), "cpu\n").unwrap();
        for (pod, container) in [("new", &id), ("old", &gone)] {
            std::fs::write(folder.path().join(format!("var/log/containers/{pod}_ml_main-{container}.log")), "")
                .unwrap();
        }
        make("var/log/pods/ml_starting_00000000-d529-4e21-9d3a-5a0a3a0e0a11/main");
        let signs = Signs::look(&roots(folder.path())).unwrap();
        let lives = ["new", "old", "starting", "unknown"].map(|pod| signs.lives("ml", pod));
        assert_eq!(lives, [true, false, true, false]);
    }
}
