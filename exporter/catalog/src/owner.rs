//! Rows of the `owner` collector: who holds which GPU, and how asking the schedulers goes.

crate::metric_rows! {
    GPU_OWNER = Info None "goodput_gpu_owner_info" ["gpu", "UUID", "owner"] + ["GPU_I_ID", "namespace", "pod", "container", "slurm_job"] {
        "The owner has a process on the GPU, or was allocated it or a MIG instance of it; at most 64 owners per GPU.",
        from "NVML process lists, /proc/PID/cgroup, kubelet pod-resources, job mapping", by "owner", series "1 per GPU and owner", since "0.1.0"
    }
    GPU_OWNER_PROCESSES = Gauge None "goodput_gpu_owner_processes" ["gpu", "UUID", "owner"] + ["GPU_I_ID", "namespace", "pod", "container", "slurm_job"] {
        "Processes of the owner on the GPU; 0 means that it was allocated the GPU and does not use it.",
        from "NVML process lists, /proc/PID/cgroup", by "owner", series "1 per GPU and owner", since "0.1.0"
    }
    GPU_OWNER_ALLOCATED = Gauge None "goodput_gpu_owner_allocated_devices" ["gpu", "UUID", "owner"] + ["GPU_I_ID", "namespace", "pod", "container", "slurm_job"] {
        "Devices of the GPU that a scheduler allocated to the owner, counting replicas of a shared GPU; 0 means that it uses the GPU without.",
        from "kubelet pod-resources, job mapping", by "owner", series "1 per GPU and owner, where a scheduler is asked", since "0.1.0"
    }
    GPU_OWNERS = Gauge None "goodput_gpu_owners" ["gpu", "UUID"] {
        "Owners of the GPU, those beyond 64 included.",
        from "own count", by "owner", series "1 per GPU", since "0.1.0"
    }
    POD_RESOURCES_STATE = Gauge None "goodput_pod_resources_state" ["state"] {
        "1 for how asking the kubelet for allocations goes, 0 for the others: starting, ok, absent, denied, timed_out, too_large, failed.",
        from "kubelet pod-resources v1 List", by "owner", series "7", since "0.1.0"
    }
    POD_RESOURCES_AGE = Gauge Seconds "goodput_pod_resources_age_seconds" [] {
        "Time since the kubelet's last good answer, which is used for 60 s.",
        from "own clock", by "owner", series "1 where the kubelet has answered", since "0.1.0"
    }
    OOM_KILLS = Counter None "goodput_owner_oom_kills_total" ["owner", "reason"] + ["limit"] {
        "Processes that the kernel's OOM killer chose since the exporter started, of any owner of the node, by what ran out: own_limit, limit_above (of the cgroup that limit names), node, cpuset or memory_policy.",
        from "oom-kill: lines of /dev/kmsg", by "owner", series "1 per owner, reason and limit seen, at most 64 and one for all others", since "0.1.0"
    }
    MPS_THREADS = Gauge Ratio "goodput_owner_mps_active_thread_limit_ratio" ["owner"] {
        "Lowest share of a GPU's threads that an MPS client of the owner was started with; no series where none has such a limit. Limits of the MPS control daemon are not seen.",
        from "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in /proc/PID/environ, with --collector.owner.mps-limits", by "owner", series "1 per owner with MPS clients", since "0.1.0",
        for "to see the share of the GPU that an MPS client may use"
    }
    MPS_MEMORY = Gauge Bytes "goodput_owner_mps_pinned_memory_limit_bytes" ["owner", "device"] {
        "Lowest limit of device memory that an MPS client of the owner was started with, by the number that the client's CUDA has for the device; at most 16 devices per owner.",
        from "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT in /proc/PID/environ, with --collector.owner.mps-limits", by "owner", series "1 per owner with MPS clients and device", since "0.1.0",
        for "to see the device memory that an MPS client may use"
    }
    UNMAPPED_DEVICES = Gauge None "goodput_gpu_allocated_devices_unmapped" [] {
        "Allocated GPU devices whose name leads to none of the GPUs known.",
        from "kubelet pod-resources, job mapping", by "owner", series "1", since "0.1.0"
    }
}
