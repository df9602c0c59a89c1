//! Pods that the kubelet evicts: it does so before memory or a disk runs out, at thresholds of its own.

use super::course::Course;
use super::disk::FileSystem;
use super::{Eviction, Forecast, Kind, Room, exhaustion};
use crate::classify::Thresholds;
use crate::frame::Levels;
use crate::signal::{Entity, Signal};
use goodput_exposition::sample::Sample;

/// What the kubelet goes by, in addition to what [`super::disk`] looks at.
pub(super) const SIGNALS: &[Signal] =
    &[Signal::NodeMemoryTotal, Signal::NodeMemoryFree, Signal::NodeMemoryInactiveFile, Signal::GpuOwner];

/// The kubelet's `--root-dir` as it is by default.
const KUBELET: &str = "/var/lib/kubelet";
/// Where container runtimes keep images by default: containerd, CRI-O, Docker with cri-dockerd.
const RUNTIMES: [&str; 3] = ["/var/lib/containerd", "/var/lib/containers", "/var/lib/docker"];

/// Of every node where pods hold GPUs: other nodes are not known to run a kubelet.
pub(super) fn courses<'a>(levels: &'a [Levels<'a>], disks: &'a [FileSystem], t: &Thresholds) -> Vec<Course<'a>> {
    let nodes = levels.iter().filter(|l| l.entity == Entity::Node);
    let of_node = |node: &'a Levels<'a>| {
        let place = (&node.cluster, &node.node);
        let is_here = |l: &&Levels<'a>| (&l.cluster, &l.node) == place;
        let gpus: Vec<&Levels<'a>> = levels.iter().filter(is_here).filter(|l| is_gpu(l)).collect();
        let disks: Vec<&FileSystem> = disks.iter().filter(|d| (&d.cluster, &d.node) == place).collect();
        if !gpus.iter().any(|gpu| gpu.is_held_by_pod) {
            return Vec::new();
        }
        let of = |signal: &Eviction| {
            let (used, limit) = used_and_limit(*signal, node, &disks, t)?;
            let look =
                move |now, t: &Thresholds| Some(Forecast::Exhaustion(exhaustion(&used, limit, now, t)?.or_reached()));
            let (kind, entity) = (Kind::Eviction(*signal), node.node.clone());
            Some(Course {
                kind,
                cluster: &node.cluster,
                node: &node.node,
                entity,
                gpus: gpus.clone(),
                look: Box::new(look),
            })
        };
        Eviction::ALL.iter().filter_map(of).collect()
    };
    nodes.flat_map(of_node).collect()
}

fn is_gpu(levels: &Levels<'_>) -> bool {
    matches!(levels.entity, Entity::Gpu(_) | Entity::MigInstance(..))
}

/// What is in use, and where the kubelet begins to evict. `None` where it does not, or where too little is told.
fn used_and_limit(
    signal: Eviction,
    node: &Levels<'_>,
    disks: &[&FileSystem],
    t: &Thresholds,
) -> Option<(Vec<Sample>, f64)> {
    let of_disk = |disk: Option<&FileSystem>, room, ratio: f64| {
        let (used, size) = disk?.used(room)?;
        (ratio > 0.0).then_some((used, size * (1.0 - ratio)))
    };
    match signal {
        Eviction::Memory => {
            let (working_set, total) = working_set(node)?;
            (t.eviction_memory_bytes > 0.0).then_some((working_set, total - t.eviction_memory_bytes))
        }
        Eviction::Nodefs => of_disk(holding(disks, KUBELET), Room::Bytes, t.eviction_nodefs_ratio),
        Eviction::NodefsInodes => of_disk(holding(disks, KUBELET), Room::Inodes, t.eviction_inodes_ratio),
        Eviction::Imagefs => {
            let own = RUNTIMES.iter().filter_map(|path| holding(disks, path));
            of_disk(own.max_by_key(|disk| disk.mountpoint.len()), Room::Bytes, t.eviction_imagefs_ratio)
        }
    }
}

/// What the node uses without its inactive file pages, as the kubelet reckons from the root cgroup: on cgroup v2 that is
/// the node's memory less what is free.
fn working_set(node: &Levels<'_>) -> Option<(Vec<Sample>, f64)> {
    let total = node.samples(Signal::NodeMemoryTotal).last()?.value;
    let inactive = node.samples(Signal::NodeMemoryInactiveFile);
    let free = node.samples(Signal::NodeMemoryFree);
    let used = |s: &Sample| {
        let at = inactive.binary_search_by_key(&s.time_ms, |other| other.time_ms).ok()?;
        Some(Sample { value: total - s.value - inactive[at].value, ..*s })
    };
    let used: Vec<Sample> = free.iter().filter_map(used).collect();
    (!used.is_empty()).then_some((used, total))
}

/// The file system that the path lies on: of those that it is below, the one mounted deepest.
fn holding<'a>(disks: &[&'a FileSystem], path: &str) -> Option<&'a FileSystem> {
    let is_above = |disk: &&&FileSystem| {
        let below = path.strip_prefix(disk.mountpoint.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    disks.iter().filter(is_above).max_by_key(|disk| disk.mountpoint.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Told;
    use super::super::{Prospect, prospects};
    use super::*;
    use goodput_exposition::sample::Series;

    const MINUTE: i64 = 60_000;
    const GIB: f64 = 1_073_741_824.0;

    /// A node whose free memory and available space shrink so that each is at its end six hours after the first sample,
    /// with a GPU that has a holder.
    fn node(holder: [(&'static str, &str); 2]) -> Vec<Series> {
        node_of("", holder)
    }

    fn node_of(cluster: &str, holder: [(&'static str, &str); 2]) -> Vec<Series> {
        let (uuid, told) = (format!("GPU-1{cluster}"), Told::new("n1").and([("cluster", cluster)]));
        let left = |minute: f64| (1.0 - minute / 360.0).max(0.0);
        let root = told.and([("device", "/dev/sda1"), ("fstype", "ext4"), ("mountpoint", "/")]);
        let images = told.and([("device", "/dev/sdb"), ("fstype", "xfs"), ("mountpoint", "/var/lib/containerd")]);
        let mut all = vec![
            told.series("node_memory_MemTotal_bytes", &|_| 100.0 * GIB),
            told.series("node_memory_MemAvailable_bytes", &|_| 80.0 * GIB),
            told.series("node_memory_MemFree_bytes", &|minute| 30.0 * GIB * left(minute)),
            told.series("node_memory_Inactive_file_bytes", &|minute| 20.0 * GIB * left(minute)),
            told.and([("UUID", &uuid)]).and(holder).series("DCGM_FI_DEV_FB_USED", &|_| 1000.0),
        ];
        for disk in [root, images] {
            all.push(disk.series("node_filesystem_size_bytes", &|_| 1e12));
            all.push(disk.series("node_filesystem_avail_bytes", &|minute| 5e11 * left(minute)));
        }
        all
    }

    fn evictions(series: &[Series], t: &Thresholds) -> Vec<Prospect> {
        let all = prospects(series, 180 * MINUTE, t).into_iter();
        all.filter(|p| matches!(p.kind, Kind::Eviction(_)) && p.is_risk()).collect()
    }

    /// Minutes after the first sample at which each is expected.
    fn expected(all: &[Prospect]) -> Vec<(&'static str, i64)> {
        all.iter().map(|p| (p.kind.which(), (p.expected_ms().unwrap() + MINUTE / 2) / MINUTE)).collect()
    }

    const POD: [(&str, &str); 2] = [("pod", "train-0"), ("namespace", "ml")];

    #[test]
    fn the_kubelets_thresholds_are_crossed_before_the_end_and_the_holders_of_gpus_are_named() {
        let all = evictions(&node(POD), &Thresholds::default());
        // 100 MiB of 50 GiB, a tenth and 15 % of the size; half of each was left at first.
        assert_eq!(expected(&all), [("memory.available", 359), ("nodefs.available", 288), ("imagefs.available", 252)]);
        assert!(all.iter().all(|p| p.owners == ["ml/train-0"] && p.entity == "n1"), "{all:?}");
    }

    #[test]
    fn thresholds_are_configured_and_nought_is_none() {
        let own = Thresholds { eviction_nodefs_ratio: 0.2, eviction_imagefs_ratio: 0.0, ..Thresholds::default() };
        let all = evictions(&node(POD), &own);
        assert_eq!(expected(&all), [("memory.available", 359), ("nodefs.available", 216)]);
    }

    #[test]
    fn pods_of_another_clusters_node_of_the_name_are_not_evicted_here() {
        let series = [node_of("east", POD), node_of("west", [("hpc_job", "7"), ("job", "gpus")])].concat();
        let all = evictions(&series, &Thresholds::default());
        assert_eq!(expected(&all), expected(&evictions(&node(POD), &Thresholds::default())));
        assert!(all.iter().all(|p| p.cluster.as_deref() == Some("east") && p.owners == ["ml/train-0"]), "{all:?}");
    }

    #[test]
    fn a_node_whose_gpus_no_pod_holds_has_no_kubelet_that_is_known_of() {
        let t = Thresholds::default();
        assert_eq!(evictions(&node([("hpc_job", "7"), ("job", "gpus")]), &t), []);
        assert_eq!(evictions(&node([("pod", "dcgm-exporter-x7"), ("namespace", "gpus")]), &t), []);
    }

    #[test]
    fn what_is_below_its_threshold_is_evicted_now() {
        let mut series = node(POD);
        let told = Told::new("n1").and([("device", "/dev/sda1"), ("fstype", "ext4"), ("mountpoint", "/")]);
        series[6] = told.series("node_filesystem_avail_bytes", &|_| 9e10);
        let all = evictions(&series, &Thresholds::default());
        let nodefs = all.iter().find(|p| p.kind == Kind::Eviction(Eviction::Nodefs)).unwrap();
        assert_eq!(nodefs.at_risk().unwrap().likely_seconds, 0.0);
    }
}
