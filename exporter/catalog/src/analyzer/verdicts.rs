//! What is said of GPUs and nodes: shares of time by class, and what is to be expected.

crate::metric_rows! {
    GPU_CLASS = Gauge Ratio "goodput_gpu_class_ratio" ["node", "gpu", "class", "window"] + ["cluster"] {
        "Share of the GPU's time in the class; productive always, others when they have any. Window hour: the last one that is over; 5m: the last five minutes that are judged.",
        by "verdicts", series "1 per GPU, window and class with time in it", since "0.1.0"
    }
    GPU_OWNER_CLASS = Gauge Ratio "goodput_gpu_owner_class_ratio" ["node", "gpu", "owner", "class"] + ["cluster", "account"] {
        "Share of the GPU's time in the class while the owner held it, in the last hour that is over. Account: the owner's namespace or Slurm account. Time without an owner is not in it.",
        by "verdicts", series "1 per GPU, owner and class with time in the hour", since "0.2.0"
    }
    GPU_HOURLY_COST = Gauge None "goodput_gpu_hourly_cost" ["node", "gpu", "currency"] + ["cluster"] {
        "Price of an hour of the GPU, as prices of the configuration say at the last hour that is over; without electricity where that has a price of its own. Absent where no price matches.",
        by "verdicts", series "1 per GPU with a price", since "0.2.0"
    }
    FREE_GPUS = Gauge None "goodput_free_gpus" ["reason"] {
        "GPUs that no job holds, in the mean of the last five minutes that are judged; an instance of a GPU counts by its share. Reason free_while_waiting: a pod or job waits and would fit; free_unfit: one waits and something else keeps it out; free_fit_unknown: jobs wait, and it is not known whether they would fit; free: none waits; unknown: no source tells who waits.",
        by "verdicts", series "1 per reason with free GPUs", since "0.3.0"
    }
    DEMAND = Gauge None "goodput_demand_gpus" ["model", "state"] + ["cluster"] {
        "GPUs that pods and jobs wait for, in the mean of the last five minutes that are judged. Model: the profile of MIG instances, or any. State fits: they are free and would fit; unfit: GPUs are free and something keeps who waits out; short: none are free.",
        by "verdicts", series "1 per cluster, model and state with GPUs waited for", since "0.3.0"
    }
    FLEET = Gauge Ratio "goodput_fleet_ratio" ["window"] {
        "Productive GPU time over all GPU time; absent while none has data.",
        by "verdicts", series "1 per window with data", since "0.1.0"
    }
    MEMORY_USED = Gauge Ratio "goodput_memory_used_ratio" ["node", "memory", "entity"] + ["cluster"] {
        "Memory in use of its limit at the latest peak of five minutes. Memory gpu: of what the driver does not reserve; cgroup: the working set of memory.max; host: what is not available of the node's.",
        by "forecasts", series "1 per memory with a limit", since "0.1.0"
    }
    OOM_LIKELY = Gauge Seconds "goodput_oom_risk_seconds" ["node", "memory", "entity"] + ["cluster"] {
        "Time until memory reaches its limit if it goes on growing as it does; absent where it is not at risk.",
        by "forecasts", series "1 per memory at risk", since "0.1.0"
    }
    OOM_SOONEST = Gauge Seconds "goodput_oom_risk_soonest_seconds" ["node", "memory", "entity"] + ["cluster"] {
        "Predicted time until the limit, at the steepest slope of the 90 % interval.",
        by "forecasts", series "1 per memory at risk", since "0.1.0"
    }
    OOM_LATEST = Gauge Seconds "goodput_oom_risk_latest_seconds" ["node", "memory", "entity"] + ["cluster"] {
        "Predicted time until the limit, at the flattest slope of the 90 % interval; absent beyond the horizon.",
        by "forecasts", series "1 per memory at risk", since "0.1.0"
    }
    DISK_USED = Gauge Ratio "goodput_disk_used_ratio" ["node", "room", "mountpoint"] + ["cluster"] {
        "Space (room bytes) or inodes of a file system in use at the latest peak of five minutes, root's reserve with them.",
        by "forecasts", series "1 per file system and room", since "0.1.0"
    }
    DISK_LIKELY = Gauge Seconds "goodput_disk_full_risk_seconds" ["node", "room", "mountpoint"] + ["cluster"] {
        "Time until a file system is full if it goes on growing as it does; absent where it is not at risk.",
        by "forecasts", series "1 per file system and room at risk", since "0.1.0"
    }
    DISK_SOONEST = Gauge Seconds "goodput_disk_full_risk_soonest_seconds" ["node", "room", "mountpoint"] + ["cluster"] {
        "Predicted time until the limit, at the steepest slope of the 90 % interval.",
        by "forecasts", series "1 per file system and room at risk", since "0.1.0"
    }
    DISK_LATEST = Gauge Seconds "goodput_disk_full_risk_latest_seconds" ["node", "room", "mountpoint"] + ["cluster"] {
        "Predicted time until the limit, at the flattest slope of the 90 % interval; absent beyond the horizon.",
        by "forecasts", series "1 per file system and room at risk", since "0.1.0"
    }
    EVICTION_USED = Gauge Ratio "goodput_eviction_used_ratio" ["node", "signal"] + ["cluster"] {
        "Share in use, at the latest peak of five minutes, of what may be before the kubelet evicts pods by the signal; of nodes where pods hold GPUs.",
        by "forecasts", series "1 per node and signal", since "0.1.0"
    }
    EVICTION_LIKELY = Gauge Seconds "goodput_eviction_risk_seconds" ["node", "signal"] + ["cluster"] {
        "Time until the kubelet evicts pods if it goes on growing as it does; absent where it is not at risk.",
        by "forecasts", series "1 per node and signal at risk", since "0.1.0"
    }
    EVICTION_SOONEST = Gauge Seconds "goodput_eviction_risk_soonest_seconds" ["node", "signal"] + ["cluster"] {
        "Predicted time until the limit, at the steepest slope of the 90 % interval.",
        by "forecasts", series "1 per node and signal at risk", since "0.1.0"
    }
    EVICTION_LATEST = Gauge Seconds "goodput_eviction_risk_latest_seconds" ["node", "signal"] + ["cluster"] {
        "Predicted time until the limit, at the flattest slope of the 90 % interval; absent beyond the horizon.",
        by "forecasts", series "1 per node and signal at risk", since "0.1.0"
    }
    HARDWARE = Gauge None "goodput_hardware_risk" ["node", "fault", "level"] + ["cluster", "gpu", "device"] {
        "1 for what tells that a GPU may fail, or the part that device names: an RDMA port (device/port), a network interface or an NVSwitch. Level watch: nothing has failed; act: something is to be done before the next job.",
        by "forecasts", series "1 per GPU, port or switch and fault", since "0.1.0"
    }
}
