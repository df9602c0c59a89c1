//! What each class means and what to do about it. Only what is true: each remedy names its source, what restarts and
//! who may do it. What a source says of the gain is in `gain`; the loss in the report is the most that a remedy can return.

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
        Class::PartialAllocation => "The job worked on its other GPUs and never on this one.",
        Class::ColdStart => "The job held the GPU and had not begun sustained work.",
        Class::CrossNuma => {
            "The job fed the GPU from another NUMA node, and fell behind a GPU that is fed from its own."
        }
        Class::HostNoise => "The GPU waited while other work, or the hypervisor, had the CPUs that the job may use.",
        Class::MemoryPressure => "The GPU waited while the job waited for memory.",
        Class::Checkpoint => "The GPU waited while the job saved its state.",
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
        Class::PartialAllocation => PARTIAL_ALLOCATION,
        Class::ColdStart => COLD_START,
        Class::CrossNuma => CROSS_NUMA,
        Class::HostNoise => HOST_NOISE,
        Class::MemoryPressure => MEMORY_PRESSURE,
        Class::Checkpoint => CHECKPOINT,
        Class::DataloaderCpu => DATALOADER_CPU,
        Class::DataloaderStorage => DATALOADER_STORAGE,
        Class::CpuThrottled => CPU_THROTTLED,
        Class::Unexplained => UNEXPLAINED,
    }
}

const NO_DATA: &[Remedy] = &[Remedy {
    action: "See whether the exporter runs and is scraped: in Prometheus, up of its target is 1; on the node, the \
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

const PARTIAL_ALLOCATION: &[Remedy] = &[
    Remedy {
        action: "Start one process per GPU, if the program is meant to use all of them.",
        command: Some("torchrun --nproc-per-node=gpu SCRIPT"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "the batch grows with the number of processes",
        source: "PyTorch documentation, torchrun",
    },
    Remedy {
        action: "Otherwise ask for as many GPUs as the program uses.",
        command: Some("sbatch --gpus=N ...   # or: resources: {limits: {nvidia.com/gpu: N}}"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "none",
        source: "sbatch(1); Kubernetes documentation, Schedule GPUs",
    },
];

const COLD_START: &[Remedy] = &[
    Remedy {
        action: "Keep compiled kernels beyond the life of the job's container.",
        command: Some("CUDA_CACHE_PATH=DIR TORCHINDUCTOR_CACHE_DIR=DIR"),
        restarts: "nothing; the next start is the faster one",
        who: "the job's owner",
        risk: "the caches take disk space",
        source: "CUDA C++ Programming Guide, environment variables; PyTorch documentation, compile-time caching",
    },
    Remedy {
        action: "Keep the driver loaded between jobs.",
        command: Some("systemctl enable --now nvidia-persistenced"),
        restarts: "nothing",
        who: "root",
        risk: "idle GPUs draw a little more power",
        source: "NVIDIA Driver Persistence",
    },
];

const CROSS_NUMA: &[Remedy] = &[Remedy {
    action: "Bind each process to the NUMA node of its GPU; goodput_gpu_numa_info names it.",
    command: Some("numactl --cpunodebind=N --membind=N COMMAND"),
    restarts: "the job: memory in use stays where it is",
    who: "the job's owner",
    risk: "memory of one node alone must suffice",
    source: "numactl(8)",
}];

const HOST_NOISE: &[Remedy] = &[
    Remedy {
        action: "Give the job CPUs of its own: on Kubernetes whole CPUs, requests equal to limits, under the kubelet's \
                 static CPU manager.",
        command: None,
        restarts: "a change of policy drains the node; the pod is replaced",
        who: "whoever administers kubelets",
        risk: "CPUs that the job leaves idle are nobody's",
        source: "Kubernetes documentation, Control CPU Management Policies on the Node",
    },
    Remedy {
        action: "Keep a noisy service of systemd off the job's CPUs.",
        command: Some("systemctl set-property UNIT AllowedCPUs=LIST"),
        restarts: "nothing",
        who: "root",
        risk: "the service has fewer CPUs",
        source: "systemd.resource-control(5)",
    },
];

const MEMORY_PRESSURE: &[Remedy] = &[Remedy {
    action: "Give the job its measured peak and headroom, request and limit alike; or fewer loader workers and less \
             prefetch.",
    command: Some("cat /sys/fs/cgroup/PATH/memory.peak /sys/fs/cgroup/PATH/memory.events"),
    restarts: "the job, from its last checkpoint, when its limit is part of its definition",
    who: "the job's owner",
    risk: "a larger request may not fit on the node",
    source: "Linux kernel documentation, admin-guide/cgroup-v2, memory interface files",
}];

const CHECKPOINT: &[Remedy] = &[
    Remedy {
        action: "Save asynchronously: the job goes on from a copy in host memory while that is written.",
        command: Some("torch.distributed.checkpoint.async_save(...)"),
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "the copy takes host memory of the size of the state",
        source: "PyTorch documentation, torch.distributed.checkpoint",
    },
    Remedy {
        action: "Save as often as failures warrant: the root of twice the time of a save times the mean time between \
                 failures.",
        command: None,
        restarts: "the job, from its last checkpoint",
        who: "the job's owner",
        risk: "a failure costs the work since the last save",
        source: "Young 1974, Daly 2006",
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
