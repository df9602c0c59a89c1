//! Who holds a GPU, read from the labels of a series about it.

use crate::sample::Labels;

/// The owner that a GPU series names: our exporter's `owner` id, else dcgm-exporter's HPC job, else its pod.
///
/// Prometheus without `honor_labels` renames the GPU's pod to `exported_pod`, for the scraped pod has the name `pod`;
/// with it, GPUs that nobody holds keep the pod of the exporter itself. Neither may count as a holder.
#[must_use]
pub fn owner_of(labels: &Labels) -> Option<String> {
    if let Some(owner) = labels.get("owner") {
        return Some(owner.to_owned());
    }
    if let Some(job) = labels.get("hpc_job") {
        return Some(format!("job/{job}"));
    }
    let exported = labels.get("exported_pod").map(|pod| (labels.get("exported_namespace"), pod));
    let (namespace, pod) = exported.or_else(|| labels.get("pod").map(|pod| (labels.get("namespace"), pod)))?;
    let is_exporter = EXPORTERS.iter().any(|name| pod.contains(name));
    (!is_exporter).then(|| namespace.map_or_else(|| pod.to_owned(), |namespace| format!("{namespace}/{pod}")))
}

/// Pods that export GPU metrics have these in their names, in every chart known.
const EXPORTERS: [&str; 2] = ["dcgm-exporter", "goodput-exporter"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exporters_own_pod_holds_nothing() {
        let owner = |pairs: &[(&str, &str)]| owner_of(&Labels::new(pairs.iter().copied()));
        assert_eq!(owner(&[("pod", "vllm-0"), ("namespace", "ml")]).as_deref(), Some("ml/vllm-0"));
        assert_eq!(owner(&[("pod", "nvidia-dcgm-exporter-wqqqn"), ("namespace", "gpu-operator")]), None);
        let renamed = [("pod", "dcgm-exporter-x"), ("exported_pod", "vllm-0"), ("exported_namespace", "ml")];
        assert_eq!(owner(&renamed).as_deref(), Some("ml/vllm-0"));
        assert_eq!(owner(&[("hpc_job", "4711")]).as_deref(), Some("job/4711"));
        assert_eq!(owner(&[("owner", "job_7"), ("pod", "vllm-0")]).as_deref(), Some("job_7"));
        assert_eq!(owner(&[("gpu", "0")]), None);
    }
}
