//! Rows of the `driver` collector. They come from files alone, so that they are there when NVML does not answer.

crate::metric_rows! {
    DRIVER_INFO = Info None "goodput_driver_info" ["version", "module"] {
        "Version of NVIDIA's kernel module that is loaded, and whether it is the open or the proprietary one.",
        from "/proc/driver/nvidia/version", by "driver", series "1", since "0.1.0"
    }
    DRIVER_MODULE = Gauge None "goodput_driver_module_loaded" ["module"] {
        "1 when the kernel module is loaded: nvidia, unified memory, RDMA to GPU memory, GPUDirect Storage, gdrcopy.",
        from "/proc/modules", by "driver", series "5", since "0.1.0"
    }
    DRIVER_PARAMETER = Gauge None "goodput_driver_parameter" ["name"] {
        "Parameter of the nvidia module, as NVIDIA's documentation numbers its values.",
        from "/proc/driver/nvidia/params", by "driver", series "up to 5", since "0.1.0"
    }
    DRIVER_FIRMWARE = Gauge None "goodput_driver_firmware_gpus" ["firmware"] {
        "GPUs that run this version of the firmware (GSP); N/A is none.",
        from "/proc/driver/nvidia/gpus/*/information GPU Firmware", by "driver", series "1 per version, at most 8", since "0.1.0"
    }
    DRIVER_EXCLUDED = Gauge None "goodput_driver_excluded_gpus" [] {
        "GPUs that the driver was told to keep from use.",
        from "/proc/driver/nvidia/gpus/*/information GPU Excluded", by "driver", series "1", since "0.1.0"
    }
    DRIVER_DAEMON = Gauge None "goodput_driver_daemon_running" ["daemon"] {
        "1 when a process of this name runs on the node, looked for every 60 s; no series when the exporter sees only its own container's processes.",
        from "/proc/*/comm", by "driver", series "5", since "0.1.0"
    }
}
