//! Rows of the `gpu` collector under dcgm-exporter's names, as its releases up to 4.8 spell them.
//!
//! Names, kinds, units and labels are the interface that dashboards and alerts of its users rest on. Of its default
//! list, `DCGM_FI_DEV_VGPU_LICENSE_STATUS` is left out: it only means something inside a virtual machine.

/// Rows with the labels of a dcgm-exporter GPU series, of which `GPU_I_PROFILE` and `GPU_I_ID` are those of a MIG instance.
/// The name of the host label is chosen here and nowhere else.
macro_rules! dcgm_rows {
    ($($id:ident = $kind:ident $unit:ident $name:literal [$($label:literal),*] { $help:literal, from $source:literal, series $series:literal })*) => {
        $crate::metric_rows! {
            $($id = $kind $unit $name
                ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION" $(, $label)*]
                + ["container", "namespace", "pod", "hpc_job", "GPU_I_PROFILE", "GPU_I_ID"] {
                $help,
                from $source, by "gpu", series $series, since "0.1.0"
            })*
        }
    };
}

dcgm_rows! {
    // Clocks
    SM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_SM_CLOCK" [] {
        "SM clock frequency (in MHz).",
        from "nvmlDeviceGetClockInfo SM", series "1 per GPU"
    }
    MEM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_MEM_CLOCK" [] {
        "Memory clock frequency (in MHz).",
        from "nvmlDeviceGetClockInfo MEM", series "1 per GPU"
    }
    CLOCKS_EVENT_REASONS = Gauge None "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" [] {
        "Bit mask of the reasons for the current clocks.",
        from "nvmlDeviceGetCurrentClocksEventReasons", series "1 per GPU"
    }

    // Temperature
    MEMORY_TEMP = Gauge Celsius "DCGM_FI_DEV_MEMORY_TEMP" [] {
        "Memory temperature (in C).",
        from "NVML field 82", series "1 per GPU"
    }
    GPU_TEMP = Gauge Celsius "DCGM_FI_DEV_GPU_TEMP" [] {
        "GPU temperature (in C).",
        from "nvmlDeviceGetTemperature", series "1 per GPU"
    }

    // Power
    POWER_USAGE = Gauge Watts "DCGM_FI_DEV_POWER_USAGE" [] {
        "Power draw (in W).",
        from "NVML field 185, else 186, else nvmlDeviceGetPowerUsage", series "1 per GPU"
    }
    POWER_USAGE_INSTANT = Gauge Watts "DCGM_FI_DEV_POWER_USAGE_INSTANT" [] {
        "Power draw at this instant (in W).",
        from "NVML field 186", series "1 per GPU"
    }
    TOTAL_ENERGY = Counter Millijoules "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" [] {
        "Total energy consumption since the driver was loaded (in mJ).",
        from "NVML field 83", series "1 per GPU"
    }
    POWER_LIMIT = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT" [] {
        "Power limit that was asked for (in W).",
        from "NVML field 192", series "1 per GPU"
    }
    POWER_LIMIT_MIN = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN" [] {
        "Lowest power limit that can be set (in W).",
        from "NVML field 187", series "1 per GPU"
    }
    POWER_LIMIT_MAX = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX" [] {
        "Highest power limit that can be set (in W).",
        from "NVML field 188", series "1 per GPU"
    }
    POWER_LIMIT_DEFAULT = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF" [] {
        "Power limit that the board starts with (in W).",
        from "NVML field 189", series "1 per GPU"
    }
    ENFORCED_POWER_LIMIT = Gauge Watts "DCGM_FI_DEV_ENFORCED_POWER_LIMIT" [] {
        "Power limit in force (in W).",
        from "NVML field 190", series "1 per GPU"
    }

    // PCIe
    PCIE_REPLAY = Counter None "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" [] {
        "Total number of PCIe retries.",
        from "NVML field 94", series "1 per GPU"
    }
    PCIE_LINK_GEN = Gauge None "DCGM_FI_DEV_PCIE_LINK_GEN" [] {
        "Current PCIe link generation.",
        from "nvmlDeviceGetCurrPcieLinkGeneration", series "1 per GPU"
    }
    PCIE_LINK_WIDTH = Gauge None "DCGM_FI_DEV_PCIE_LINK_WIDTH" [] {
        "Current PCIe link width (in lanes).",
        from "nvmlDeviceGetCurrPcieLinkWidth", series "1 per GPU"
    }
    PCIE_MAX_LINK_GEN = Gauge None "DCGM_FI_DEV_PCIE_MAX_LINK_GEN" [] {
        "Highest PCIe link generation of GPU and slot.",
        from "nvmlDeviceGetMaxPcieLinkGeneration", series "1 per GPU"
    }
    PCIE_MAX_LINK_WIDTH = Gauge None "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH" [] {
        "Greatest PCIe link width of GPU and slot (in lanes).",
        from "nvmlDeviceGetMaxPcieLinkWidth", series "1 per GPU"
    }

    // Utilisation
    GPU_UTIL = Gauge Percent "DCGM_FI_DEV_GPU_UTIL" [] {
        "GPU utilization (in %).",
        from "nvmlDeviceGetUtilizationRates", series "1 per GPU"
    }
    MEM_COPY_UTIL = Gauge Percent "DCGM_FI_DEV_MEM_COPY_UTIL" [] {
        "Memory utilization (in %).",
        from "nvmlDeviceGetUtilizationRates", series "1 per GPU"
    }
    ENC_UTIL = Gauge Percent "DCGM_FI_DEV_ENC_UTIL" [] {
        "Encoder utilization (in %).",
        from "nvmlDeviceGetEncoderUtilization", series "1 per GPU"
    }
    DEC_UTIL = Gauge Percent "DCGM_FI_DEV_DEC_UTIL" [] {
        "Decoder utilization (in %).",
        from "nvmlDeviceGetDecoderUtilization", series "1 per GPU"
    }

    // Errors and violations
    XID_ERRORS = Gauge None "DCGM_FI_DEV_XID_ERRORS" [] {
        "Value of the last XID error encountered.",
        from "nvmlEventSetWait_v2, XID events", series "1 per GPU"
    }
    XID_ERRORS_TOTAL = Counter None "DCGM_EXP_XID_ERRORS_TOTAL" ["xid"] {
        "Total number of XID errors since the exporter started, by code.",
        from "nvmlEventSetWait_v2, XID events", series "1 per GPU and XID code seen, at most 64"
    }
    POWER_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_POWER_VIOLATION" [] {
        "Throttling duration due to power constraints (in ns).",
        from "NVML field 74", series "1 per GPU"
    }
    THERMAL_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_THERMAL_VIOLATION" [] {
        "Throttling duration due to thermal constraints (in ns).",
        from "NVML field 75", series "1 per GPU"
    }
    SYNC_BOOST_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_SYNC_BOOST_VIOLATION" [] {
        "Throttling duration due to sync-boost constraints (in ns).",
        from "NVML field 76", series "1 per GPU"
    }
    BOARD_LIMIT_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION" [] {
        "Throttling duration due to board limit constraints (in ns).",
        from "NVML field 77", series "1 per GPU"
    }
    LOW_UTIL_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_LOW_UTIL_VIOLATION" [] {
        "Throttling duration due to low utilization (in ns).",
        from "NVML field 78", series "1 per GPU"
    }
    RELIABILITY_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_RELIABILITY_VIOLATION" [] {
        "Throttling duration due to reliability constraints (in ns).",
        from "NVML field 79", series "1 per GPU"
    }

    // Memory
    FB_TOTAL = Gauge Mebibytes "DCGM_FI_DEV_FB_TOTAL" [] {
        "Framebuffer memory of the GPU (in MiB).",
        from "nvmlDeviceGetMemoryInfo_v2", series "1 per GPU"
    }
    FB_FREE = Gauge Mebibytes "DCGM_FI_DEV_FB_FREE" [] {
        "Framebuffer memory free (in MiB).",
        from "nvmlDeviceGetMemoryInfo_v2", series "1 per GPU"
    }
    FB_USED = Gauge Mebibytes "DCGM_FI_DEV_FB_USED" [] {
        "Framebuffer memory used (in MiB).",
        from "nvmlDeviceGetMemoryInfo_v2", series "1 per GPU"
    }
    FB_RESERVED = Gauge Mebibytes "DCGM_FI_DEV_FB_RESERVED" [] {
        "Framebuffer memory reserved (in MiB).",
        from "nvmlDeviceGetMemoryInfo_v2", series "1 per GPU"
    }
    FB_USED_PERCENT = Gauge Ratio "DCGM_FI_DEV_FB_USED_PERCENT" [] {
        "Framebuffer memory used, as a share of what is not reserved (0 to 1).",
        from "nvmlDeviceGetMemoryInfo_v2", series "1 per GPU"
    }

    // ECC, retired pages, remapped rows
    ECC_SBE_VOL = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL" [] {
        "Total number of single-bit volatile ECC errors.",
        from "NVML field 3", series "1 per GPU"
    }
    ECC_DBE_VOL = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" [] {
        "Total number of double-bit volatile ECC errors.",
        from "NVML field 4", series "1 per GPU"
    }
    ECC_SBE_AGG = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL" [] {
        "Total number of single-bit persistent ECC errors.",
        from "NVML field 5", series "1 per GPU"
    }
    ECC_DBE_AGG = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL" [] {
        "Total number of double-bit persistent ECC errors.",
        from "NVML field 6", series "1 per GPU"
    }
    RETIRED_SBE = Counter None "DCGM_FI_DEV_RETIRED_SBE" [] {
        "Total number of retired pages due to single-bit errors.",
        from "NVML field 29", series "1 per GPU"
    }
    RETIRED_DBE = Counter None "DCGM_FI_DEV_RETIRED_DBE" [] {
        "Total number of retired pages due to double-bit errors.",
        from "NVML field 30", series "1 per GPU"
    }
    RETIRED_PENDING = Counter None "DCGM_FI_DEV_RETIRED_PENDING" [] {
        "Total number of pages pending retirement.",
        from "NVML field 31", series "1 per GPU"
    }
    UNCORRECTABLE_REMAPPED_ROWS = Counter None "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" [] {
        "Number of remapped rows for uncorrectable errors.",
        from "NVML field 143", series "1 per GPU"
    }
    CORRECTABLE_REMAPPED_ROWS = Counter None "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS" [] {
        "Number of remapped rows for correctable errors.",
        from "NVML field 142", series "1 per GPU"
    }
    ROW_REMAP_FAILURE = Gauge None "DCGM_FI_DEV_ROW_REMAP_FAILURE" [] {
        "Whether remapping of rows has failed.",
        from "NVML field 145", series "1 per GPU"
    }
    ROW_REMAP_PENDING = Gauge None "DCGM_FI_DEV_ROW_REMAP_PENDING" [] {
        "Whether remapping of rows waits for a GPU reset.",
        from "NVML field 144", series "1 per GPU"
    }

    // NVLink
    NVLINK_CRC_FLIT = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL" [] {
        "Total number of NVLink flow-control CRC errors.",
        from "NVML field 38", series "1 per GPU"
    }
    NVLINK_CRC_DATA = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL" [] {
        "Total number of NVLink data CRC errors.",
        from "NVML field 45", series "1 per GPU"
    }
    NVLINK_REPLAY = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL" [] {
        "Total number of NVLink retries.",
        from "NVML field 52", series "1 per GPU"
    }
    NVLINK_RECOVERY = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL" [] {
        "Total number of NVLink recovery errors.",
        from "NVML field 59", series "1 per GPU"
    }
    NVLINK_BANDWIDTH = Gauge None "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" [] {
        "NVLink payload of all links, both directions (in MB/s).",
        from "NVML fields 138 and 139, difference over 5 s", series "1 per GPU"
    }

    // Profiling: Hopper and later
    PROF_GR_ENGINE_ACTIVE = Gauge Ratio "DCGM_FI_PROF_GR_ENGINE_ACTIVE" [] {
        "Ratio of time the graphics engine is active.",
        from "GPM metric 1, over 5 s", series "1 per GPU"
    }
    PROF_SM_ACTIVE = Gauge Ratio "DCGM_FI_PROF_SM_ACTIVE" [] {
        "Ratio of cycles an SM has at least 1 warp assigned.",
        from "GPM metric 2, over 5 s", series "1 per GPU"
    }
    PROF_SM_OCCUPANCY = Gauge Ratio "DCGM_FI_PROF_SM_OCCUPANCY" [] {
        "Ratio of the number of warps resident on an SM.",
        from "GPM metric 3, over 5 s", series "1 per GPU"
    }
    PROF_TENSOR_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" [] {
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        from "GPM metric 5, over 5 s", series "1 per GPU"
    }
    PROF_DRAM_ACTIVE = Gauge Ratio "DCGM_FI_PROF_DRAM_ACTIVE" [] {
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        from "GPM metric 10, over 5 s", series "1 per GPU"
    }
    PROF_FP64_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP64_ACTIVE" [] {
        "Ratio of cycles the fp64 pipes are active.",
        from "GPM metric 11, over 5 s", series "1 per GPU"
    }
    PROF_FP32_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP32_ACTIVE" [] {
        "Ratio of cycles the fp32 pipes are active.",
        from "GPM metric 12, over 5 s", series "1 per GPU"
    }
    PROF_FP16_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP16_ACTIVE" [] {
        "Ratio of cycles the fp16 pipes are active.",
        from "GPM metric 13, over 5 s", series "1 per GPU"
    }
    PROF_PCIE_TX = Gauge BytesPerSecond "DCGM_FI_PROF_PCIE_TX_BYTES" [] {
        "Rate of data transmitted over the PCIe bus, headers and payload (in bytes per second).",
        from "GPM metric 20, over 5 s", series "1 per GPU"
    }
    PROF_PCIE_RX = Gauge BytesPerSecond "DCGM_FI_PROF_PCIE_RX_BYTES" [] {
        "Rate of data received over the PCIe bus, headers and payload (in bytes per second).",
        from "GPM metric 21, over 5 s", series "1 per GPU"
    }
    PROF_NVLINK_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_TX_BYTES" [] {
        "Rate of data transmitted over NVLink, without headers (in bytes per second).",
        from "GPM metric 61, over 5 s", series "1 per GPU"
    }
    PROF_NVLINK_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_RX_BYTES" [] {
        "Rate of data received over NVLink, without headers (in bytes per second).",
        from "GPM metric 60, over 5 s", series "1 per GPU"
    }
}
