//! Who holds a GPU, read from the labels of a series about it.

use goodput_exposition::sample::Labels;

/// The owner that a GPU series names: our exporter's `owner` id, else dcgm-exporter's HPC job, else its pod.
///
/// Prometheus without `honor_labels` renames the GPU's pod to `exported_pod`, because the scraped pod has the name
/// `pod`; with it, GPUs without a holder keep the pod of the exporter itself. Neither may count as a holder.
/// `is_exporter`: the target is known to be the pod that is not renamed.
#[must_use]
pub fn owner_of(labels: &Labels, is_exporter: bool) -> Option<String> {
    if let Some(owner) = labels.get("owner") {
        return Some(owner.to_owned());
    }
    if let Some(job) = labels.get("hpc_job") {
        return Some(format!("{HPC_JOB}/{job}"));
    }
    let pod = pod_of(labels, is_exporter)?;
    let namespace = labels.get(if labels.get("exported_pod").is_some() { "exported_namespace" } else { "namespace" });
    Some(namespace.map_or_else(|| pod.to_owned(), |namespace| format!("{namespace}/{pod}")))
}

/// Does a GPU series name a pod that holds it, so that a kubelet runs on the node?
#[must_use]
pub fn names_pod(labels: &Labels, is_exporter: bool) -> bool {
    pod_of(labels, is_exporter).is_some()
}

fn pod_of(labels: &Labels, is_exporter: bool) -> Option<&str> {
    let is_known = |name: &str| EXPORTERS.iter().any(|exporter| name.contains(exporter));
    let other = || {
        let pod = labels.get("pod").filter(|_| !is_exporter)?;
        (!labels.get("container").is_some_and(is_known)).then_some(pod)
    };
    labels.get("exported_pod").or_else(other).filter(|pod| !is_known(pod))
}

/// Is an owner of this name on another node a different owner? systemd units and cgroup paths, as our exporter names
/// them, are the same on every node.
#[must_use]
pub fn is_of_one_node(owner: &str) -> bool {
    let is_path = owner.starts_with('/') || owner.starts_with("cgroup-");
    is_path || owner.ends_with(".service") || owner.ends_with(".scope")
}

/// The namespace of the pod that an owner is, by its name (`namespace/pod`, `namespace/pod/container`).
#[must_use]
pub fn namespace_in(owner: &str) -> Option<&str> {
    let (namespace, _) = owner.split_once('/').filter(|_| !is_of_one_node(owner))?;
    (namespace != HPC_JOB).then_some(namespace)
}

/// The namespace that a series is about: where the target has one of its own, Prometheus renames the series'.
#[must_use]
pub fn namespace_of(labels: &Labels) -> Option<&str> {
    labels.get("exported_namespace").or_else(|| labels.get("namespace"))
}

/// What stands before the id of a job that dcgm-exporter names (`hpc_job`).
const HPC_JOB: &str = "job";

/// Pods that export GPU metrics have these in their names or their containers', unless they were renamed.
const EXPORTERS: [&str; 2] = ["dcgm-exporter", "goodput-exporter"];

/// The names under which GPU series may know the owner that this series is of, told by one of its labels. Names of one
/// kind of label are not tried for another, so that a pod called 4711 is not the Slurm job 4711.
#[must_use]
pub fn owners_named(labels: &Labels, owner_label: &str) -> Vec<String> {
    let Some(value) = labels.get(owner_label) else { return Vec::new() };
    match owner_label.strip_prefix("exported_").unwrap_or(owner_label) {
        "pod" => {
            let namespace = labels.get(&owner_label.replace("pod", "namespace"));
            let pod = namespace.map_or_else(|| value.to_owned(), |namespace| format!("{namespace}/{value}"));
            // Where several containers of a pod hold GPUs, our exporter tells them apart.
            let container = labels.get(&owner_label.replace("pod", "container")).map(|name| format!("{pod}/{name}"));
            [pod].into_iter().chain(container).collect()
        }
        "pod_uid" => vec![owner_of_uid(value)],
        // The kubelet and cAdvisor put the runtime before the id: `containerd://4f1c…`.
        "container_id" => {
            let id = value.rsplit('/').next().unwrap_or(value);
            vec![format!("container-{}", id.get(..SHORT_CONTAINER_ID).unwrap_or(id))]
        }
        "hpc_job" | "slurm_job" | "slurm_job_id" | "slurmjobid" => {
            vec![format!("slurm-{value}"), format!("{HPC_JOB}/{value}")]
        }
        _ => vec![value.to_owned()],
    }
}

/// The name of a pod that is known by its UID alone.
#[must_use]
pub fn owner_of_uid(uid: &str) -> String {
    format!("pod-{uid}")
}

/// The names under which GPU series may know the server that reports its requests: by its pod, else by its owner.
#[must_use]
pub fn servers_named(labels: &Labels) -> Vec<String> {
    let told = ["exported_pod", "pod", "owner"].into_iter().find(|name| labels.get(name).is_some());
    told.map_or_else(Vec::new, |name| owners_named(labels, name))
}

/// Digits of a container id in our exporter's owner ids.
const SHORT_CONTAINER_ID: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_kind_of_label() {
        let id = "4f1c".repeat(16);
        let container = format!("containerd://{id}");
        for (pairs, label, names) in [
            (&[("pod", "train-0"), ("namespace", "ml")][..], "pod", &["ml/train-0"][..]),
            (&[("pod", "train-0")], "pod", &["train-0"]),
            (&[("pod", "a"), ("namespace", "ml"), ("container", "main")], "pod", &["ml/a", "ml/a/main"]),
            (
                &[("pod", "scraped"), ("exported_pod", "train-0"), ("exported_namespace", "ml"), ("namespace", "x")],
                "exported_pod",
                &["ml/train-0"],
            ),
            (&[("slurm_job_id", "4711")], "slurm_job_id", &["slurm-4711", "job/4711"]),
            (&[("container_id", container.as_str())], "container_id", &["container-4f1c4f1c4f1c"]),
            (&[("pod_uid", "7a96c459")], "pod_uid", &["pod-7a96c459"]),
            (&[("run", "slurm-4711")], "run", &["slurm-4711"]),
            (&[("pod", "train-0")], "run", &[]),
        ] {
            assert_eq!(owners_named(&Labels::new(pairs.iter().copied()), label), names, "{pairs:?}");
        }
    }

    #[test]
    fn a_server_goes_by_its_pod_else_by_its_owner() {
        let named = |pairs: &[(&str, &str)]| servers_named(&Labels::new(pairs.iter().copied()));
        let pod = [("pod", "vllm-0"), ("namespace", "ml"), ("owner", "someone")];
        assert_eq!(named(&pod), ["ml/vllm-0"]);
        assert_eq!(named(&[("owner", "slurm-7")]), ["slurm-7"]);
        assert_eq!(named(&[("instance", "10.0.0.7:8000")]), [] as [&str; 0]);
    }

    #[test]
    fn the_exporters_own_pod_holds_nothing() {
        let owner = |pairs: &[(&str, &str)]| owner_of(&Labels::new(pairs.iter().copied()), false);
        assert_eq!(owner(&[("pod", "vllm-0"), ("namespace", "ml")]).as_deref(), Some("ml/vllm-0"));
        assert_eq!(owner(&[("pod", "nvidia-dcgm-exporter-wqqqn"), ("namespace", "gpu-operator")]), None);
        let renamed = [("pod", "dcgm-exporter-x"), ("exported_pod", "vllm-0"), ("exported_namespace", "ml")];
        assert_eq!(owner(&renamed).as_deref(), Some("ml/vllm-0"));
        assert_eq!(owner(&[("hpc_job", "4711")]).as_deref(), Some("job/4711"));
        assert_eq!(owner(&[("owner", "job_7"), ("pod", "vllm-0")]).as_deref(), Some("job_7"));
        assert_eq!(owner(&[("gpu", "0")]), None);
        let contained = [("pod", "gpu-metrics-x"), ("namespace", "gpu"), ("container", "nvidia-dcgm-exporter")];
        assert_eq!((owner(&contained), owner(&contained[..2]).as_deref()), (None, Some("gpu/gpu-metrics-x")));
        let own = |pairs: &[(&str, &str)]| owner_of(&Labels::new(pairs.iter().copied()), true);
        assert_eq!(own(&contained[..2]), None);
        assert_eq!(own(&[("pod", "gpu-metrics-x"), ("exported_pod", "vllm-0")]).as_deref(), Some("vllm-0"));
    }
}
