//! Rows of the `gpu` collector: dcgm-exporter's names first, then our own.

crate::metric_rows! {
    DCGM_GPU_UTIL = Gauge Percent "DCGM_FI_DEV_GPU_UTIL"
        ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"] + ["container", "namespace", "pod"] {
        "GPU utilization (in %).",
        from "nvmlDeviceGetUtilizationRates", by "gpu", series "1 per GPU", since "0.1.0"
    }
}
