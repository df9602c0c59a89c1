//! What each class means and what to do about it. Only what is true: each remedy names its source, what restarts and
//! who may do it. No gain is promised; the loss in the report is the most that a remedy can return.

use serde::Serialize;

use crate::classify::Class;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// In words.
    pub action: &'static str,
    /// The command or setting, where there is one; upper-case words are to be replaced.
    pub command: Option<&'static str>,
    /// What it restarts or interrupts.
    pub restarts: &'static str,
    /// Who is allowed to.
    pub who: &'static str,
    /// What may go wrong.
    pub risk: &'static str,
    /// Where this is documented.
    pub source: &'static str,
}

/// The class in one sentence.
#[must_use]
pub fn meaning(class: Class) -> &'static str {
    match class {
        Class::Productive => "The GPU was busy.",
        Class::NoData => "No samples arrived, so nothing is known about this time.",
        Class::Unallocated => "Nobody held the GPU.",
        Class::IdleHeld => "A process held the GPU and gave it no work.",
        Class::DataloaderCpu => "The GPU waited for input that CPU workers were late to prepare.",
        Class::DataloaderStorage => "The GPU waited for input that storage was late to deliver.",
        Class::CpuThrottled => "The GPU waited while the job's CPU quota was used up.",
        Class::Unexplained => "The GPU was held and not busy, and no rule had sufficient evidence of why.",
    }
}

/// What to do about a class, most promising first. Empty for productive time.
#[must_use]
pub fn remedies(class: Class) -> &'static [Remedy] {
    match class {
        Class::Productive => &[],
        Class::NoData => NO_DATA,
        Class::Unallocated => UNALLOCATED,
        Class::IdleHeld => IDLE_HELD,
        Class::DataloaderCpu => DATALOADER_CPU,
        Class::DataloaderStorage => DATALOADER_STORAGE,
        Class::CpuThrottled => CPU_THROTTLED,
        Class::Unexplained => UNEXPLAINED,
    }
}

const NO_DATA: &[Remedy] = &[Remedy {
    action: "See whether the exporter runs and is scraped: in Prometheus, `up` of its target is 1; on the node, the \
             service is active and its log is quiet.",
    command: Some("systemctl status goodput-exporter"),
    restarts: "nothing",
    who: "any user on the node",
    risk: "none",
    source: "Prometheus documentation, Jobs and instances",
}];

const UNALLOCATED: &[Remedy] = &[
    Remedy {
        action: "See whether jobs wait while these GPUs are free, and for what reason: often the request asks for \
                 more CPUs or memory per GPU than the node has left.",
        command: Some("squeue --state=PENDING --format='%i %u %b %r'"),
        restarts: "nothing",
        who: "any Slurm user",
        risk: "none",
        source: "squeue(1)",
    },
    Remedy {
        action: "The same question on Kubernetes: the events of pending pods name the resource that is missing.",
        command: Some("kubectl get pods --all-namespaces --field-selector=status.phase=Pending"),
        restarts: "nothing",
        who: "any user who may list pods",
        risk: "none",
        source: "Kubernetes documentation, Field Selectors",
    },
];

const IDLE_HELD: &[Remedy] = &[
    Remedy {
        action: "Ask the owner; if the work is over, end the holder. Only the end of its processes frees the GPU.",
        command: Some("scancel JOBID   # or: kubectl delete pod --namespace NAMESPACE POD"),
        restarts: "ends the job",
        who: "the job's owner or an administrator",
        risk: "state that was not saved is lost",
        source: "scancel(1); Kubernetes documentation, kubectl delete",
    },
    Remedy {
        action: "Let notebooks stop by themselves: shut idle kernels down, then the idle server.",
        command: Some("MappingKernelManager.cull_idle_timeout=3600 ServerApp.shutdown_no_activity_timeout=7200"),
        restarts: "the notebook server, to take the setting up",
        who: "whoever runs the notebook server",
        risk: "variables of a kernel that was shut down are lost",
        source: "Jupyter Server documentation, config file and command line options",
    },
];

const DATALOADER_CPU: &[Remedy] = &[
    Remedy {
        action: "Use more loader workers, up to the CPUs that the job may use, and keep them between epochs.",
        command: Some("DataLoader(..., num_workers=N, persistent_workers=True, prefetch_factor=4)"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "each worker takes host memory and shared memory; more workers than CPUs slow each other down",
        source: "PyTorch documentation, torch.utils.data",
    },
    Remedy {
        action: "If the workers already use all CPUs of the job, ask for more CPUs per GPU.",
        command: Some("sbatch --cpus-per-gpu=N ..."),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "a larger request may wait longer in the queue",
        source: "sbatch(1)",
    },
];

const DATALOADER_STORAGE: &[Remedy] = &[
    Remedy {
        action: "See whether an I/O limit is set on the job's cgroup by mistake.",
        command: Some("cat /sys/fs/cgroup/PATH/io.max /sys/fs/cgroup/PATH/io.pressure"),
        restarts: "nothing",
        who: "any user on the node",
        risk: "none",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, IO interface files",
    },
    Remedy {
        action: "Stage the data set on the node's own disk before training, or pack small files into large ones that \
                 are read in sequence.",
        command: None,
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "staging takes disk space and time at the start of the job",
        source: "WebDataset documentation",
    },
    Remedy {
        action: "Read further ahead, so that a late read is hidden behind computation.",
        command: Some("DataLoader(..., prefetch_factor=N)"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "prefetched batches take host memory",
        source: "PyTorch documentation, torch.utils.data",
    },
];

const CPU_THROTTLED: &[Remedy] = &[
    Remedy {
        action: "On Kubernetes, raise the container's CPU limit and its request to the same value, so that a pod of \
                 class Guaranteed stays one.",
        command: Some("resources: {requests: {cpu: \"N\"}, limits: {cpu: \"N\"}}"),
        restarts: "the pod is replaced; the job restarts from its last checkpoint",
        who: "the job's owner, within the namespace's quota",
        risk: "a larger request may not fit on the node",
        source: "Kubernetes documentation, Pod Quality of Service Classes",
    },
    Remedy {
        action: "For a service or scope of systemd, raise its quota; 100% is one CPU.",
        command: Some("systemctl set-property UNIT CPUQuota=800%"),
        restarts: "nothing",
        who: "root",
        risk: "takes CPU time from others on the node",
        source: "systemd.resource-control(5)",
    },
    Remedy {
        action: "For a container of Docker, raise its quota.",
        command: Some("docker update --cpus N CONTAINER"),
        restarts: "nothing",
        who: "whoever may use the Docker socket",
        risk: "takes CPU time from others on the node",
        source: "Docker documentation, docker container update",
    },
];

const UNEXPLAINED: &[Remedy] = &[Remedy {
    action: "Look closer while it happens: a minute of scraping each second shows more than the stored samples, and \
             names the signals that are missing.",
    command: Some("goodput-analyzer why --target NODE:9400 --for 60s"),
    restarts: "nothing",
    who: "anyone who can reach the exporter",
    risk: "none",
    source: "goodput-analyzer why --help",
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_has_a_remedy_and_none_that_is_known_to_be_wrong() {
        for class in Class::ALL.iter().filter(|c| **c != Class::Productive) {
            assert!(!remedies(*class).is_empty(), "{}", class.name());
            for remedy in remedies(*class) {
                let text = format!("{remedy:?}").to_lowercase();
                for wrong in ["device:mem_limit", "noop", "-ac ", "reboot", "nccl_", "single-numa-node", "memlock"] {
                    assert!(!text.contains(wrong), "{}: {wrong}", class.name());
                }
            }
        }
    }
}
