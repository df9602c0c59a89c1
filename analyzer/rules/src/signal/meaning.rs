//! What a series means: its labels compared with the rows of `table`.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::storage::Mounted;
use super::table::{self, Row, Split};
use super::{Scope, Signal};
use goodput_exposition::sample::Labels;

/// Who a series is about, as far as its own labels tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity<'a> {
    /// The GPU with this UUID.
    Gpu(&'a str),
    /// The GPU instance of this id, of the GPU with this UUID. Its readings are not the GPU's.
    MigInstance(&'a str, u32),
    /// The node that the series came from.
    Node,
    /// The owner with this id, on the node that the series came from.
    Job(&'a str),
    /// An owner wherever it holds GPUs: one of [`servers_named`]; or a rank of a communicator, which its labels name.
    Server,
}

/// What a series means.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning<'a> {
    /// The signal.
    pub signal: Signal,
    /// Who it is about.
    pub entity: Entity<'a>,
    /// Values of the labels (CPU, disk) over which series of one metric and target are summed. Series that agree in
    /// the part too tell the same thing, and one of them is taken.
    pub part: Vec<&'a str>,
    /// The NUMA node, RDMA port (`device/port`), network interface, mount or disk that it is about, where the signal is one
    /// per part. These are never summed.
    pub split: Option<Cow<'a, str>>,
    /// The name of the node that it is from, where a label says so.
    pub node: Option<&'a str>,
    /// Factor from the sample's value to base units.
    pub scale: f64,
    /// Place of the metric in the table: of two metrics that cover a cell equally well, the one of lower rank is taken.
    pub rank: usize,
}

/// The rows of each metric, and the place of the first of them.
static BY_METRIC: LazyLock<HashMap<&'static str, (usize, Vec<&'static Row>)>> = LazyLock::new(|| {
    let mut rows = HashMap::new();
    for (place, row) in table::ALL.iter().enumerate() {
        rows.entry(row.metric).or_insert((place, Vec::new())).1.push(row);
    }
    rows
});

/// The meaning of a series; `None` where no signal uses it.
#[must_use]
pub fn resolve(labels: &Labels) -> Option<Meaning<'_>> {
    let (place, rows) = BY_METRIC.get(labels.metric())?;
    let row = rows.iter().find(|row| row.applies(labels))?;
    let entity = match row.signal.scope() {
        Scope::Gpu => gpu_of(labels, row.signal)?,
        Scope::Node => Entity::Node,
        Scope::Job if row.of_server => Entity::Server,
        Scope::Job => Entity::Job(labels.get("owner")?),
    };
    let mut part: Vec<&str> = row.sum_over.iter().filter_map(|name| labels.get(name)).collect();
    part.extend(row.summed_with.map(|_| labels.metric()));
    let rank = row.summed_with.and_then(|metric| BY_METRIC.get(metric)).map_or(*place, |(place, _)| *place);
    let (split, node) = match row.split {
        Split::NumaNode => numa_labels(labels)?,
        // A target that reports all nodes runs on one of them, whose name the target may have.
        Split::Whole if row.of_any_node => (None, labels.get("exported_node").or_else(|| labels.get("node"))),
        Split::Whole => (None, labels.get("node")),
        Split::Port => (Some(format!("{}/{}", labels.get("device")?, labels.get("port")?).into()), labels.get("node")),
        Split::Interface => (Some(labels.get("device")?.into()), labels.get("node")),
        Split::Priority => {
            (Some(format!("{}/{}", labels.get("device")?, priority(labels)?).into()), labels.get("node"))
        }
        Split::Mount => {
            let name = ["mount", "export", "filesystem"].into_iter().find_map(|name| labels.get(name))?;
            (Some(name.into()), labels.get("node"))
        }
        // As Lustre's own tools name it.
        Split::Target => {
            (Some(format!("{}-{}", labels.get("filesystem")?, labels.get("target")?).into()), labels.get("node"))
        }
        Split::MountPoint => (Some(Mounted::text(labels)?.into()), labels.get("node")),
        Split::Disk => (Some(labels.get("device")?.into()), labels.get("node")),
    };
    Some(Meaning { signal: row.signal, entity, part, split, node, scale: row.scale, rank })
}

/// NUMA node and node name of a series per NUMA node. Its label `node` is the former, but where Prometheus gives the
/// target a label of that name, it renames the series' own to `exported_node`.
fn numa_labels(labels: &Labels) -> Option<(Option<Cow<'_, str>>, Option<&str>)> {
    let node = labels.get("node")?;
    Some(labels.get("exported_node").map_or((Some(node.into()), None), |own| (Some(own.into()), Some(node))))
}

/// The priority that a series of pauses is about: a label, or the digit behind `prio` in the metric's name.
fn priority(labels: &Labels) -> Option<&str> {
    let in_name = || labels.metric().split_once("prio").and_then(|(_, behind)| behind.get(..1));
    labels.get("priority").or_else(in_name)
}

/// What an instance has no reading of its own of is the GPU's, which dcgm-exporter repeats for every instance.
fn gpu_of(labels: &Labels, signal: Signal) -> Option<Entity<'_>> {
    let uuid = labels.get("UUID").or_else(|| labels.get("uuid"))?;
    match labels.get("GPU_I_ID").filter(|_| signal.is_of_instances()) {
        Some(id) => Some(Entity::MigInstance(uuid, id.parse().ok()?)),
        None => Some(Entity::Gpu(uuid)),
    }
}

/// Does any signal use series of this name?
#[must_use]
pub fn is_known(metric: &str) -> bool {
    BY_METRIC.contains_key(metric)
}

/// Are series of this name about all pods of a cluster or their containers, whether these hold GPUs or not?
#[must_use]
pub fn is_of_containers(metric: &str) -> bool {
    let is = |row: &&Row| row.of_container || row.signal.is_of_demand();
    BY_METRIC.get(metric).is_some_and(|(_, rows)| rows.iter().any(is))
}

/// Which series of this name to ask a server for, as a matcher of PromQL; `None` is all of them.
#[must_use]
pub fn matcher_of(metric: &str) -> Option<&'static str> {
    BY_METRIC.get(metric)?.1.iter().find_map(|row| row.matcher)
}

/// The metric names that these signals use, each once.
#[must_use]
pub fn metrics_of(signals: &[Signal]) -> Vec<String> {
    let rows = table::ALL.iter().filter(|row| signals.contains(&row.signal));
    rows.map(|row| row.metric.to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Does any signal of this scope use series of this name?
#[must_use]
pub fn is_of(metric: &str, scope: Scope) -> bool {
    BY_METRIC.get(metric).is_some_and(|(_, rows)| rows.iter().any(|row| row.signal.scope() == scope))
}

/// Every metric name that a signal uses which rules speak about, each once; those of settings, of forecasts alone and of what
/// is counted alone are not.
pub fn metric_names() -> impl Iterator<Item = &'static str> {
    let is_aside =
        |row: &&Row| row.signal.is_of_forecasts_alone() || row.signal.is_a_setting() || row.signal.is_counted_alone();
    BY_METRIC.iter().filter(move |(_, (_, rows))| !rows.iter().all(is_aside)).map(|(name, _)| *name)
}
/// The GPU's model, where the series names it.
#[must_use]
pub fn model_of(labels: &Labels) -> Option<&str> {
    labels.get("modelName").or_else(|| labels.get("model_name"))
}

/// The host name that a GPU series carries (dcgm-exporter 4.8.3 renamed the label).
#[must_use]
pub fn hostname_of(labels: &Labels) -> Option<&str> {
    labels.get("Hostname").or_else(|| labels.get("hostname"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::new(pairs.iter().copied())
    }

    #[test]
    fn one_signal_from_either_exporter() {
        let ours = labels(&[("__name__", "goodput_pressure_waiting_seconds_total"), ("resource", "io")]);
        let theirs = labels(&[("__name__", "node_pressure_io_waiting_seconds_total")]);
        assert_eq!(resolve(&ours).map(|m| m.signal), Some(Signal::NodeIoPressure));
        assert_eq!(resolve(&theirs).map(|m| m.signal), Some(Signal::NodeIoPressure));
        assert!(resolve(&ours).map(|m| m.rank) < resolve(&theirs).map(|m| m.rank), "our own comes first");
    }

    #[test]
    fn scale_brings_base_units() {
        let fb = labels(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("UUID", "GPU-1")]);
        let meaning = resolve(&fb).unwrap();
        assert_eq!((meaning.entity, meaning.scale), (Entity::Gpu("GPU-1"), 1_048_576.0));
    }

    #[test]
    fn counters_of_dcgm_are_known_as_opentelemetry_names_them() {
        for name in [
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "DCGM_FI_DEV_POWER_VIOLATION",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        ] {
            let total = format!("{name}_total");
            let [plain, renamed] = [name, &total].map(|name| labels(&[("__name__", name), ("UUID", "GPU-1")]));
            let (plain, renamed) = (resolve(&plain).unwrap(), resolve(&renamed).unwrap_or_else(|| panic!("{total}")));
            assert_eq!((plain.signal, plain.scale), (renamed.signal, renamed.scale));
            assert!(metrics_of(&[plain.signal]).contains(&total) && plain.rank < renamed.rank, "{total}");
            assert_eq!(
                metric_names().any(|known| known == total),
                metric_names().any(|known| known == name),
                "{total}"
            );
        }
        for gauge in ["DCGM_FI_DEV_GPU_UTIL_total", "DCGM_FI_DEV_POWER_USAGE_total", "up_total"] {
            assert!(!is_known(gauge), "{gauge}");
        }
    }

    #[test]
    fn both_spellings_of_dcgm_exporter_bring_the_same_reading() {
        for (legacy, value, current, other, signal) in [
            ("DCGM_FI_DEV_GPU_UTIL", 57.0, "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.57, Signal::GpuUtilization),
            ("DCGM_FI_DEV_MEM_COPY_UTIL", 8.0, "DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.08, Signal::MemoryCopyUtilization),
            (
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                5e6,
                "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
                5e3,
                Signal::GpuEnergy,
            ),
            ("DCGM_FI_DEV_FB_USED", 2.0, "DCGM_FI_DEV_FB_USED_BYTES", 2_097_152.0, Signal::FbUsed),
            ("DCGM_FI_DEV_FB_TOTAL", 2.0, "DCGM_FI_DEV_FB_CAPACITY_BYTES", 2_097_152.0, Signal::FbTotal),
            ("DCGM_FI_DEV_POWER_USAGE", 312.5, "DCGM_FI_DEV_BOARD_POWER_WATTS", 312.5, Signal::GpuPower),
            ("DCGM_FI_PROF_SM_ACTIVE", 0.4, "DCGM_FI_PROF_SM_UTIL_RATIO", 0.4, Signal::SmActive),
        ] {
            let readings = [(legacy, value), (current, other)].map(|(name, value)| {
                let labels = labels(&[("__name__", name), ("UUID", "GPU-1")]);
                let meaning = resolve(&labels).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(meaning.signal, signal, "{name}");
                value * meaning.scale
            });
            assert!((readings[0] - readings[1]).abs() <= 1e-9 * readings[1], "{legacy}: {readings:?}");
        }
    }

    #[test]
    fn an_instance_is_not_its_gpu() {
        let mig = labels(&[("__name__", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), ("UUID", "GPU-1"), ("GPU_I_ID", "9")]);
        assert_eq!(resolve(&mig).map(|m| m.entity), Some(Entity::MigInstance("GPU-1", 9)));
        let power = labels(&[("__name__", "DCGM_FI_DEV_POWER_USAGE"), ("UUID", "GPU-1"), ("GPU_I_ID", "9")]);
        assert_eq!(resolve(&power).map(|m| m.entity), Some(Entity::Gpu("GPU-1")), "the board's, repeated");
        let odd = labels(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("UUID", "GPU-1"), ("GPU_I_ID", "first")]);
        assert_eq!(resolve(&odd), None);
    }

    #[test]
    fn a_series_without_its_entity_means_nothing() {
        assert_eq!(resolve(&labels(&[("__name__", "DCGM_FI_DEV_GPU_UTIL"), ("gpu", "0")])), None);
        assert_eq!(resolve(&labels(&[("__name__", "go_goroutines")])), None);
        assert!(!is_known("go_goroutines") && is_known("DCGM_FI_DEV_GPU_UTIL"));
    }

    #[test]
    fn a_numa_node_is_not_the_nodes_name() {
        let numa = [("__name__", "goodput_gpu_numa_info"), ("UUID", "GPU-1")];
        let told = |more: &[(&str, &str)]| {
            let labels = labels(&[&numa, more].concat());
            resolve(&labels).map(|m| (m.split.map(Cow::into_owned), m.node.map(str::to_owned)))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(&[("node", "1")]), Some((some("1"), None)));
        assert_eq!(told(&[("node", "n1"), ("exported_node", "1")]), Some((some("1"), some("n1"))));
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn who_tells_of_all_nodes_is_not_believed_to_be_on_each() {
        let kube = [("__name__", "kube_node_spec_unschedulable"), ("node", "n1")];
        let node = |more: &[(&str, &str)]| {
            let labels = labels(&[&kube, more].concat());
            resolve(&labels).and_then(|m| m.node.map(str::to_owned))
        };
        assert_eq!(node(&[]).as_deref(), Some("n1"));
        assert_eq!(node(&[("exported_node", "n2")]).as_deref(), Some("n2"), "n1 is where kube-state-metrics runs");
    }

    #[test]
    fn a_pod_is_its_containers_and_not_the_cgroups_around_them() {
        let usage = [("__name__", "container_cpu_usage_seconds_total"), ("namespace", "ml"), ("pod", "train-0")];
        let part = |more: &[(&str, &str)]| {
            let labels = labels(&[&usage, more].concat());
            resolve(&labels).map(|m| (m.entity == Entity::Server, m.part.join(" ")))
        };
        assert_eq!(part(&[("container", "main")]), Some((true, "main".to_owned())));
        assert_eq!(part(&[("container", "POD")]), None);
        assert_eq!(part(&[]), None);
        let renamed = [("container", "cadvisor"), ("exported_pod", "train-0"), ("exported_namespace", "ml")];
        assert_eq!(part(&renamed), None, "the container is that of cAdvisor itself");
        let whole = [&renamed[..], &[("exported_container", "main")]].concat();
        assert_eq!(part(&whole), Some((true, "cadvisor main".to_owned())));
        assert!(is_of_containers("container_oom_events_total") && !is_of_containers("kube_node_spec_unschedulable"));
        assert!(
            is_of_containers("kube_pod_container_resource_limits") && !is_of_containers("vllm:num_requests_running")
        );
    }
}
