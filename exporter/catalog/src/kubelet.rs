//! Rows of the `kubelet` collector. Its files are read below `--path.rootfs`; no API of the kubelet is asked.

crate::metric_rows! {
    KUBELET_INFO = Info None "goodput_kubelet_info" [] + ["topology_policy", "topology_scope", "cpu_policy", "memory_policy", "cpu_policy_in_force", "memory_policy_in_force"] {
        "How the kubelet places containers on CPUs, memory and devices; a label that is left out is the kubelet's default, or a state that may not be read.",
        from "/var/lib/kubelet/{config.yaml,cpu_manager_state,memory_manager_state}", by "kubelet", series "1 on a Kubernetes node", since "0.1.0"
    }
    KUBELET_UNKNOWN = Gauge None "goodput_kubelet_unknown_policies" [] {
        "Labels of goodput_kubelet_info whose value is no name that Kubernetes 1.34 has for it on Linux: spelled wrong, so that the kubelet does not start with it, or newer than this exporter.",
        from "/var/lib/kubelet/{config.yaml,cpu_manager_state,memory_manager_state}", by "kubelet", series "1 on a Kubernetes node", since "0.1.0"
    }
    KUBELET_RESERVED_CPUS = Gauge None "goodput_kubelet_reserved_cpus" [] {
        "CPUs that no pod gets (reservedSystemCPUs).",
        from "/var/lib/kubelet/config.yaml", by "kubelet", series "1 when set", since "0.1.0"
    }
    KUBELET_SHARED_CPUS = Gauge None "goodput_kubelet_shared_cpus" [] {
        "CPUs that containers without CPUs of their own share; no series without the static policy.",
        from "/var/lib/kubelet/cpu_manager_state defaultCpuSet", by "kubelet", series "1 with the static policy", since "0.1.0",
        for "to see how many CPUs all other pods share under the static policy"
    }
    KUBELET_EXCLUSIVE_CPUS = Gauge None "goodput_kubelet_exclusive_cpus" [] {
        "CPUs that belong to single containers.",
        from "/var/lib/kubelet/cpu_manager_state entries", by "kubelet", series "1 on a Kubernetes node", since "0.1.0",
        for "to see how many CPUs are left for pods that want some of their own"
    }
    KUBELET_PINNED_CONTAINERS = Gauge None "goodput_kubelet_exclusive_cpu_containers" [] {
        "Containers with CPUs of their own.",
        from "/var/lib/kubelet/cpu_manager_state entries", by "kubelet", series "1 on a Kubernetes node", since "0.1.0",
        for "to see how many containers have CPUs of their own under the static policy"
    }
    KUBELET_PINNED_MEMORY = Gauge Bytes "goodput_kubelet_exclusive_memory_bytes" ["nodes"] {
        "Memory that belongs to single containers, by the NUMA nodes on which it is.",
        from "/var/lib/kubelet/memory_manager_state entries", by "kubelet", series "1 per set of NUMA nodes in use, at most 16", since "0.1.0",
        for "to see on which NUMA node memory is left for pods that want some of their own"
    }
}
