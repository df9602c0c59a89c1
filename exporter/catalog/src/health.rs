//! Rows of the `gpu` collector about health: what DCGM's names lack, or say in a way that misleads.

crate::metric_rows! {
    CLOCK_EVENT = Counter Seconds "goodput_gpu_clock_event_seconds_total" ["gpu", "UUID", "reason"] {
        "Time at lowered clocks since the driver was loaded: power_cap, sync_boost, sw_thermal, hw_thermal, hw_power_brake; other reasons have no counter in the driver and are left out.",
        from "NVML fields 74, 76 and 269 to 271, 251 to 253 before driver 580.82", by "gpu", series "5 per GPU", since "0.1.0"
    }
    CLOCK_VIOLATION = Counter Seconds "goodput_gpu_clock_violation_seconds_total" ["gpu", "UUID", "policy"] {
        "Time below the clocks asked for since the driver was loaded, by the policy that held them: thermal, board_limit, low_utilization, reliability, application_clocks, base_clocks.",
        from "NVML fields 75 and 77 to 81", by "gpu", series "6 per GPU", since "0.1.0",
        for "to see which policy holds clocks down, finer than goodput_gpu_clock_event_seconds_total"
    }
    ROW_REMAP_BANKS = Gauge None "goodput_gpu_row_remap_banks" ["gpu", "UUID", "spare"] {
        "Memory banks by how many of their spare rows are left: max (all), high, partial, low, none.",
        from "nvmlDeviceGetRowRemapperHistogram", by "gpu", series "5 per GPU from Ampere on", since "0.1.0"
    }
    RETIRED_PENDING = Gauge None "goodput_gpu_retired_pages_pending" ["gpu", "UUID"] {
        "1 while pages wait for a reboot to be retired.",
        from "NVML field 31", by "gpu", series "1 per GPU before Ampere", since "0.1.0"
    }
    RESET_REQUIRED = Gauge None "goodput_gpu_reset_required" ["gpu", "UUID", "kind"] {
        "1 while the driver says that the GPU has to be reset (reset), or drained and reset (drain_and_reset).",
        from "NVML fields 226 and 227", by "gpu", series "2 per GPU", since "0.1.0"
    }
    PCIE_DEGRADED = Gauge None "goodput_gpu_pcie_link_degraded" ["gpu", "UUID", "aspect", "against"] {
        "1 when the PCIe link was below what GPU and slot can do (against max), or below the best of the node's GPUs of its model (against peers), when it was last seen at least half busy; an idle GPU lowers its link on purpose.",
        from "nvmlDeviceGetCurrPcieLinkGeneration, Width, UtilizationRates in one cycle", by "gpu", series "4 per GPU that was busy", since "0.1.0"
    }
    NVLINK_ERRORS = Counter None "goodput_gpu_nvlink_errors_total" ["gpu", "UUID", "kind"] {
        "NVLink errors of all links since the driver was loaded: crc_flit, crc_data, replay, recovery.",
        from "NVML fields 38, 45, 52, 59", by "gpu", series "4 per GPU up to NVLink 4", since "0.1.0"
    }
    NVLINK_LINKS = Gauge None "goodput_gpu_nvlink_links" ["gpu", "UUID", "state"] {
        "NVLinks of the GPU that are up, and that are down.",
        from "NVML fields 91 and 165", by "gpu", series "2 per GPU", since "0.1.0"
    }
    FABRIC_STATE = Gauge None "goodput_gpu_fabric_state" ["gpu", "UUID", "state"] {
        "1 for how the GPU's registration with the NVLink fabric stands, 0 for the others: not_started, in_progress, completed, failed.",
        from "nvmlDeviceGetGpuFabricInfoV", by "gpu", series "4 per GPU of an NVSwitch system", since "0.1.0"
    }
    FABRIC_PROBLEM = Gauge None "goodput_gpu_fabric_problem" ["gpu", "UUID", "problem"] {
        "1 while the fabric reports the problem: degraded_bandwidth, route_recovery, route_unhealthy, access_timeout_recovery, incorrect_configuration.",
        from "nvmlDeviceGetGpuFabricInfoV health mask", by "gpu", series "up to 5 per GPU of an NVSwitch system", since "0.1.0"
    }
}
