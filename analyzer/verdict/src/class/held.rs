//! Time in which a GPU was held without work.

use super::{Basis, ClassInfo, FALLS, Gain, Grade, Group, Remedy};

/// How much of it returns depends on whether someone else needs the GPU.
const RELEASE: Gain = Gain {
    low: 0.0,
    high: 1.0,
    basis: Basis::Loss,
    grade: Grade::Definition,
    source: "the GPU is free for another job as soon as this one gives it back",
};

pub(super) const IDLE_HELD: ClassInfo = ClassInfo {
    name: "idle_held",
    title: "Held without work",
    group: Group::Held,
    version: 3,
    meaning: "A process held the GPU and gave it no work.",
    light: "#a08526",
    dark: "#b39e55",
    key: "I",
    check: "The GPU has another holder, or none, within minutes; idle_held of this owner is gone.",
    gain: Some(&RELEASE),
    remedies: &[
        Remedy {
            action: "Ask the owner; if the work is over, end the holder. Only the end of its processes frees the GPU.",
            command: Some("scancel JOBID   # or: kubectl delete --namespace NAMESPACE OBJECT"),
            restarts: "ends the job",
            who: "the job's owner or an administrator",
            risk: "state that was not saved is lost",
            source: "scancel(1); Kubernetes documentation, kubectl delete",
        },
        Remedy {
            action: "Let notebooks stop by themselves: shut idle kernels down, then the idle server.",
            command: Some("MappingKernelManager.cull_idle_timeout=3600 ServerApp.shutdown_no_activity_timeout=7200"),
            restarts: "the notebook server, to take the setting up",
            who: "the administrator of the notebook server",
            risk: "variables of a kernel that was shut down are lost",
            source: "Jupyter Server documentation, config file and command line options",
        },
    ],
};

pub(super) const NO_DEMAND: ClassInfo = ClassInfo {
    name: "no_demand",
    title: "Server without requests",
    group: Group::Held,
    version: 2,
    meaning: "A server held the GPU and had no request open.",
    light: "#814d04",
    dark: "#8c773d",
    key: "Z",
    check: "Fewer replicas hold GPUs while there are no requests.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Scale the server down with its requests, to zero where it may start again for the first one.",
            command: Some(
                "kind: ScaledObject   # KEDA: trigger prometheus on vllm:num_requests_running, minReplicaCount: 0",
            ),
            restarts: "replicas come and go",
            who: "the server's owner; KEDA is the cluster administrator's to install",
            risk: "the first request after a pause waits for the server's start",
            source: "KEDA documentation, Prometheus scaler",
        },
        Remedy {
            action: "Serve several small models from one GPU, each in an instance of its own.",
            command: Some(
                "nvidia-smi mig -i GPU -lgip   # the profiles; then, of the one with id 9: nvidia-smi mig -i GPU -cgi 9,9 -C",
            ),
            restarts: "everything on the GPU, once, to switch MIG on",
            who: "root",
            risk: "an instance has only its share of memory and multiprocessors",
            source: "NVIDIA Multi-Instance GPU User Guide",
        },
    ],
};

pub(super) const PARTIAL_ALLOCATION: ClassInfo = ClassInfo {
    name: "partial_allocation",
    title: "GPU that its job never used",
    group: Group::Held,
    version: 2,
    meaning: "The job worked on its other GPUs and never on this one.",
    light: "#cc8002",
    dark: "#e6982e",
    key: "A",
    check: "Every GPU of the job is busy, or the job holds fewer.",
    gain: Some(&RELEASE),
    remedies: &[
        Remedy {
            action: "Start one process per GPU, if the program is meant to use all of them.",
            command: Some("torchrun --nproc-per-node=gpu train.py"),
            risk: "the batch grows with the number of processes",
            source: "PyTorch documentation, torchrun",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "Otherwise ask for as many GPUs as the program uses.",
            command: Some("sbatch --gpus=4 ...   # in Kubernetes: resources: {limits: {nvidia.com/gpu: 4}}"),
            source: "sbatch(1); Kubernetes documentation, Schedule GPUs",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const GANG_WAIT: ClassInfo = ClassInfo {
    name: "gang_wait",
    title: "Waiting for the job's other GPUs",
    group: Group::Held,
    version: 6,
    meaning: "The job held the GPU and waited until its other GPUs were its own too.",
    light: "#7f670a",
    dark: "#f8cd47",
    key: "G",
    check: FALLS,
    gain: None,
    remedies: &[Remedy {
        action: "Admit the job as a whole, so that it gets all its GPUs at once or none.",
        command: Some(
            "kueue: waitForPodsReady: {enable: true}   # otherwise a PodGroup of the scheduler with minMember",
        ),
        restarts: "nothing that runs now",
        who: "the administrator of the scheduler",
        risk: "large jobs wait longer in the queue",
        source: "Kueue documentation, All-or-nothing with ready Pods; Kubernetes scheduler-plugins, Coscheduling",
    }],
};

pub(super) const KEEP_ALIVE: ClassInfo = ClassInfo {
    name: "keep_alive",
    title: "Kept from looking idle",
    group: Group::Held,
    version: 3,
    meaning: "Short bursts without work only kept the GPU from looking idle.",
    light: "#624200",
    dark: "#c27d11",
    key: "K",
    check: "The GPU has another holder, or none, within minutes; keep_alive of this owner is gone.",
    gain: Some(&RELEASE),
    remedies: &[
        Remedy {
            action: "Ask the owner what the GPU is kept for; end the holder, or give it a reservation that ends by itself.",
            command: Some("scancel JOBID   # or: kubectl delete --namespace NAMESPACE OBJECT"),
            restarts: "ends the job",
            who: "the job's owner or an administrator",
            risk: "state that was not saved is lost",
            source: "scancel(1); Kubernetes documentation, kubectl delete",
        },
        Remedy {
            action: "Reap idle GPUs by power as well as utilisation, and give every interactive job a time limit.",
            command: Some("sbatch --time=08:00:00 ...   # in Kubernetes: activeDeadlineSeconds: 28800 of the Job"),
            restarts: "nothing that runs now",
            who: "the administrator of the queue",
            risk: "a job that works is ended at its limit",
            source: "sbatch(1); Kubernetes documentation, Jobs, Job termination and cleanup",
        },
    ],
};

pub(super) const STRANDED_MIG: ClassInfo = ClassInfo {
    name: "stranded_mig",
    title: "MIG slices that no profile fits",
    group: Group::Held,
    version: 1,
    meaning: "The GPU was cut up so that no MIG profile fits into the slices that were left.",
    light: "#9d7040",
    dark: "#f0de9c",
    key: "E",
    check: "The slices of all instances add up to the GPU's (goodput_gpu_mig_capacity_slices).",
    gain: None,
    remedies: &[Remedy {
        action: "Cut the GPU into profiles that take all of its slices, such as 4g and 3g for 3g twice: free one instance, \
                 take it away, make another.",
        command: Some(
            "nvidia-smi mig -i GPU -lgi -lgip   # then, of the instance 3: nvidia-smi mig -i GPU -gi 3 -dci; the same with -dgi; -cgi 9 -C makes another",
        ),
        restarts: "what runs in that instance",
        who: "root",
        risk: "a profile fits at some places only, so that other instances may have to go too; the MIG manager of the GPU \
               operator makes its own layout again",
        source: "NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles",
    }],
};
