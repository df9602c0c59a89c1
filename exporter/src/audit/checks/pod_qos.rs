//! The quality-of-service class of pods on GPUs.

use super::*;
use crate::attribute::Owner;

pub(super) static QOS: Check = Check {
    id: "pod_qos",
    title: "QoS class of the pods on GPUs",
    reads: "/proc/PID/cgroup of every GPU process: the class is a folder of the kubelet's",
    families: &[],
    expected: Expected::always("Guaranteed"),
    why: "Only pods whose every container asks for as much CPU and memory as its limit are given CPUs of their own and memory \
          near their GPUs by the kubelet's managers. When memory runs out, the others are evicted and killed first.",
    fixes: &[Fix {
        command: "pod, every container: resources.limits.cpu and .memory equal to resources.requests, whole CPUs",
        restarts: "the pod",
        who: Who::User,
        risk: "a memory limit below what the job peaks at kills it: measure a checkpoint first",
        ..Fix::USUAL
    }],
    sources: &[
        vendor(
            "Kubernetes, Pod Quality of Service Classes",
            "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/",
        ),
        own("a warning: Burstable can be wanted where nodes are shared"),
    ],
    run: |context, _| judge(jobs::owners(context)?.into_iter().map(|owner| &**owner)),
};

/// The class that the kubelet's folders tell, which are `kubepods/burstable/podUID` or
/// `kubepods-burstable.slice/kubepods-burstable-podUID.slice`; Guaranteed pods are in none but the first.
fn class(cgroup: &str) -> &'static str {
    let is = |class: &str| {
        let slice = format!("-{class}.slice");
        cgroup.split('/').any(|folder| folder == class || folder.ends_with(&slice))
    };
    match (is("besteffort"), is("burstable")) {
        (true, _) => "BestEffort",
        (false, true) => "Burstable",
        (false, false) => "Guaranteed",
    }
}

fn judge<'a>(owners: impl Iterator<Item = &'a Owner>) -> Result<Verdict, Unread> {
    let pods: Vec<(&str, &str)> =
        owners.filter(|owner| owner.pod_uid.is_some()).map(|owner| (&*owner.id, class(&owner.cgroup))).collect();
    Unread::unless(!pods.is_empty(), "no pod holds a GPU")?;
    let others = pods.iter().filter(|(_, class)| *class != "Guaranteed");
    let others = others.map(|(pod, class)| format!("{pod} is {class}"));
    Ok(Verdict::listing(Status::Warn, others.collect(), format!("Guaranteed: {}", count(pods.len(), "pod"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_by_folder() {
        for (cgroup, expected) in [
            ("/kubepods.slice/kubepods-pod7a96.slice/cri-containerd-1d3d.scope", "Guaranteed"),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7a96.slice/cri-containerd-1d3d.scope",
                "Burstable",
            ),
            ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/x.slice", "BestEffort"),
            ("/kubepods/pod7a96/1d3d", "Guaranteed"),
            ("/kubepods/burstable/pod7a96/1d3d", "Burstable"),
            ("/kubepods/besteffort/pod7a96/1d3d", "BestEffort"),
        ] {
            assert_eq!(class(cgroup), expected, "{cgroup}");
        }
    }
}
