//! Rows about MIG: GPUs that are cut up into GPU instances.
//!
//! `GPU_I_ID` and `GPU_I_PROFILE` are dcgm-exporter's labels of an instance, whose memory and profiling series stand under
//! its names; `goodput_gpu_mig_info` joins the UUIDs that CUDA and Kubernetes know.

crate::metric_rows! {
    MODE = Gauge None "goodput_gpu_mig_mode" ["gpu", "UUID", "mode"] {
        "Whether MIG is enabled: mode is current, or pending for the one from the next reset of the GPU on.",
        from "nvmlDeviceGetMigMode", by "gpu", series "2 per GPU that can be cut up", since "0.1.0"
    }
    MIG_INFO = Info None "goodput_gpu_mig_info" ["gpu", "UUID", "GPU_I_ID", "mig_uuid", "compute_instance"] + ["GPU_I_PROFILE"] {
        "The MIG device: a compute instance in a GPU instance.",
        from "nvmlDeviceGetMigDeviceHandleByIndex, GetUUID, GetName, GetGpuInstanceId, GetComputeInstanceId", by "gpu", series "1 per MIG device", since "0.1.0"
    }
    SLICES = Gauge None "goodput_gpu_mig_slices" ["gpu", "UUID", "GPU_I_ID"] + ["GPU_I_PROFILE"] {
        "Slices of the GPU that the GPU instance has; most GPUs have 7.",
        from "nvmlDeviceGetAttributes_v2", by "gpu", series "1 per GPU instance", since "0.1.0"
    }
    CAPACITY = Gauge None "goodput_gpu_mig_capacity_slices" ["gpu", "UUID"] {
        "MIG slices that the GPU can be cut into; a slice without a GPU instance serves no workload.",
        from "nvmlDeviceGetMaxMigDeviceCount: one MIG device per slice", by "gpu", series "1 per GPU that is cut up", since "0.1.0"
    }
    MIG_BUSY = Counter Seconds "goodput_gpu_mig_busy_seconds_total" ["gpu", "UUID", "GPU_I_ID"] + ["GPU_I_PROFILE"] {
        "Integral of the GPU instance's graphics activity over time since the exporter started; absent before Hopper.",
        from "GPM metric 1 of nvmlGpmMigSampleGet", by "gpu", series "1 per GPU instance", since "0.1.0"
    }
    MIG_OBSERVED = Counter Seconds "goodput_gpu_mig_observed_seconds_total" ["gpu", "UUID", "GPU_I_ID"] + ["GPU_I_PROFILE"] {
        "Time covered by the samples that the GPU instance's busy time is integrated from.",
        from "nvmlGpmMigSampleGet, own clock", by "gpu", series "1 per GPU instance", since "0.1.0"
    }
    MIG_PROCESSES = Gauge None "goodput_gpu_mig_processes" ["gpu", "UUID", "GPU_I_ID"] + ["GPU_I_PROFILE"] {
        "Processes with a context on the GPU instance.",
        from "nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses_v3", by "gpu", series "1 per GPU instance", since "0.1.0"
    }
}
