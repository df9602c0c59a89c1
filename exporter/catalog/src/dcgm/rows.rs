//! The rows.
//!
//! More than 400 lines: one table, in the order of DCGM's ids.

use super::entry::{current, fields, how, labels, made, metric, now, said, texts};
use super::links::LINKS;
use super::{Call, Event, Field, HOST_LABEL, Kind, Metric, Read, Row, Scope, Text, Unit};

texts! {
    1 DRIVER_VERSION = "DCGM_FI_DRIVER_VERSION" => "DCGM_FI_SYSTEM_DRIVER_VERSION" { on, DriverVersion, "Version of the driver" }
    2 NVML_VERSION = "DCGM_FI_NVML_VERSION" => "DCGM_FI_SYSTEM_NVML_VERSION" { opt, NvmlVersion, "Version of NVML" }
    51 BRAND = "DCGM_FI_DEV_BRAND" => "DCGM_FI_DEV_GPU_BRAND" { opt, Brand, "Brand of the GPU" }
    53 SERIAL = "DCGM_FI_DEV_SERIAL" => "DCGM_FI_DEV_BOARD_SERIAL" { opt, Serial, "Serial number of the board" }
    56 OEM_INFOROM = "DCGM_FI_DEV_OEM_INFOROM_VER" => "DCGM_FI_DEV_INFOROM_OEM_VERSION" { opt, OemInforom, "Version of the inforom's OEM object" }
    80 ECC_INFOROM = "DCGM_FI_DEV_ECC_INFOROM_VER" => "DCGM_FI_DEV_INFOROM_ECC_VERSION" { opt, EccInforom, "Version of the inforom's ECC object" }
    81 POWER_INFOROM = "DCGM_FI_DEV_POWER_INFOROM_VER" => "DCGM_FI_DEV_INFOROM_POWER_VERSION" { opt, PowerInforom, "Version of the inforom's power object" }
    82 INFOROM_IMAGE = "DCGM_FI_DEV_INFOROM_IMAGE_VER" => "DCGM_FI_DEV_INFOROM_IMAGE_VERSION" { opt, InforomImage, "Version of the inforom's image" }
    85 VBIOS = "DCGM_FI_DEV_VBIOS_VERSION" => "DCGM_FI_DEV_VBIOS_VERSION" { opt, Vbios, "Version of the VBIOS" }
}

made! {
    9001 XID_ERRORS_COUNT = Gauge "DCGM_EXP_XID_ERRORS_COUNT" ["xid", "window_size_in_ms"] {
        opt, XidWindow, "Number of XID errors in the window, by code",
        from "nvmlEventSetWait_v2 and /dev/kmsg", series "1 per GPU and XID code seen, at most 64"
    }
    9002 XID_ERRORS_TOTAL = Counter "DCGM_EXP_XID_ERRORS_TOTAL" ["xid"] {
        on, XidTotal, "Total number of XID errors since the exporter started, by code",
        from "nvmlEventSetWait_v2 and /dev/kmsg", series "1 per GPU and XID code seen, at most 64"
    }
    9003 CLOCK_EVENTS_COUNT = Gauge "DCGM_EXP_CLOCK_EVENTS_COUNT" ["clock_event", "window_size_in_ms"] {
        opt, ClockWindow, "Number of samples in the window that had the reason for the clocks, one sample every 5 s",
        from "nvmlDeviceGetCurrentClocksEventReasons", series "9 per GPU"
    }
    9004 CLOCK_EVENTS_TOTAL = Counter "DCGM_EXP_CLOCK_EVENTS_TOTAL" ["clock_event"] {
        opt, ClockTotal, "Number of times that the reason for the clocks set in, from one sample to the next",
        from "nvmlDeviceGetCurrentClocksEventReasons", series "9 per GPU"
    }
    9005 GPU_HEALTH_STATUS = Gauge "DCGM_EXP_GPU_HEALTH_STATUS" ["health_watch", "health_error_code"] {
        opt, Health, "Health by subsystem, by DCGM's published limits: 0 pass, 10 warning, 20 failure",
        from "readings of the last minute, XID events", series "at most 6 per GPU"
    }
    9006 P2P_STATUS = Gauge "DCGM_EXP_P2P_STATUS" ["peer_gpu", "link_status"] {
        opt, PeerToPeer, "Whether two GPUs can reach each other over NVLink: 0 yes, else why not",
        from "nvmlDeviceGetP2PStatus NVLINK", series "1 per pair of GPUs"
    }
}

fields! {
    // Clocks
    100 SM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_SM_CLOCK" => Hertz "DCGM_FI_DEV_SM_CLOCK_HERTZ"
        { on, call SmClock in Megahertz, "SM clock frequency" }
    101 MEM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_MEM_CLOCK" => Hertz "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ"
        { on, call MemoryClock in Megahertz, "Memory clock frequency" }
    102 VIDEO_CLOCK = Gauge Megahertz "DCGM_FI_DEV_VIDEO_CLOCK" => Hertz "DCGM_FI_DEV_VIDEO_CLOCK_HERTZ"
        { opt, call VideoClock in Megahertz, "Video encoder and decoder clock frequency" }
    110 APP_SM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_APP_SM_CLOCK" => Hertz "DCGM_FI_DEV_SM_APP_CLOCK_HERTZ"
        { opt, call SmApplicationClock in Megahertz, "SM application clock that was asked for" }
    111 APP_MEM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_APP_MEM_CLOCK" => Hertz "DCGM_FI_DEV_MEMORY_APP_CLOCK_HERTZ"
        { opt, call MemoryApplicationClock in Megahertz, "Memory application clock that was asked for" }
    112 CLOCKS_EVENT_REASONS = Gauge None "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
        { on, call ClockEventReasons in None, "Bit mask of the reasons for the current clocks" }
    113 MAX_SM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_MAX_SM_CLOCK" => Hertz "DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ"
        { on, call SmClockMax in Megahertz, "Highest SM clock frequency" }
    114 MAX_MEM_CLOCK = Gauge Megahertz "DCGM_FI_DEV_MAX_MEM_CLOCK" => Hertz "DCGM_FI_DEV_MEMORY_MAX_CLOCK_HERTZ"
        { opt, call MemoryClockMax in Megahertz, "Highest memory clock frequency" }
    115 MAX_VIDEO_CLOCK = Gauge Megahertz "DCGM_FI_DEV_MAX_VIDEO_CLOCK" => Hertz "DCGM_FI_DEV_VIDEO_MAX_CLOCK_HERTZ"
        { opt, call VideoClockMax in Megahertz, "Highest video clock frequency" }
    1420 SW_POWER_CAP_NS = Counter Nanoseconds "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"
        { opt, field 74 in Nanoseconds, "Time with clocks held down by the software power cap" }
    1421 SYNC_BOOST_NS = Counter Nanoseconds "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS"
        { opt, field 76 in Nanoseconds, "Time with clocks held down by sync boost" }
    1422 SW_THERMAL_NS = Counter Nanoseconds "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"
        { opt, field 269 in Nanoseconds, "Time with clocks held down by the software thermal slowdown" }
    1423 HW_THERMAL_NS = Counter Nanoseconds "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"
        { opt, field 270 in Nanoseconds, "Time with clocks held down by the hardware thermal slowdown" }
    1424 HW_POWER_BRAKE_NS = Counter Nanoseconds "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"
        { opt, field 271 in Nanoseconds, "Time with clocks held down by the hardware power brake" }

    // Temperature
    140 MEMORY_TEMP = Gauge Celsius "DCGM_FI_DEV_MEMORY_TEMP" => Celsius "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"
        { on, call MemoryTemperature in Celsius, "Memory temperature" }
    150 GPU_TEMP = Gauge Celsius "DCGM_FI_DEV_GPU_TEMP" => Celsius "DCGM_FI_DEV_GPU_TEMP_CELSIUS"
        { on, call Temperature in Celsius, "GPU temperature" }
    151 MEM_MAX_OP_TEMP = Gauge Celsius "DCGM_FI_DEV_MEM_MAX_OP_TEMP" => Celsius "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS"
        { opt, call MemoryTemperatureMax in Celsius, "Memory temperature above which software slows the memory down" }
    152 GPU_MAX_OP_TEMP = Gauge Celsius "DCGM_FI_DEV_GPU_MAX_OP_TEMP" => Celsius "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS"
        { opt, call TemperatureMax in Celsius, "GPU temperature above which clocks may fall below their base" }
    153 GPU_TEMP_LIMIT = Gauge Celsius "DCGM_FI_DEV_GPU_TEMP_LIMIT" => Celsius "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS"
        { opt, call TemperatureMargin in Celsius, "Distance of the GPU temperature to the nearest slowdown" }
    158 SLOWDOWN_TEMP = Gauge Celsius "DCGM_FI_DEV_SLOWDOWN_TEMP" => Celsius "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"
        { opt, call TemperatureSlowdown in Celsius, "GPU temperature at which hardware slows the clocks down" }
    159 SHUTDOWN_TEMP = Gauge Celsius "DCGM_FI_DEV_SHUTDOWN_TEMP" => Celsius "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS"
        { opt, call TemperatureShutdown in Celsius, "GPU temperature at which the GPU shuts down" }

    // Power
    155 POWER_USAGE = Gauge Watts "DCGM_FI_DEV_POWER_USAGE" => Watts "DCGM_FI_DEV_BOARD_POWER_WATTS"
        { on, call Power in Milliwatts, "Power draw" }
    156 TOTAL_ENERGY = Counter Millijoules "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" => Joules "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"
        { on, field 83 in Millijoules, "Total energy consumption since the driver was loaded" }
    157 POWER_USAGE_INSTANT = Gauge Watts "DCGM_FI_DEV_POWER_USAGE_INSTANT" => Watts "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"
        { on, field 186 in Milliwatts, "Power draw at this instant" }
    160 POWER_LIMIT = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT" => Watts "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS"
        { on, field 192 in Milliwatts, "Power limit that was asked for" }
    161 POWER_LIMIT_MIN = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN" => Watts "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS"
        { on, field 187 in Milliwatts, "Lowest power limit that can be set" }
    162 POWER_LIMIT_MAX = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX" => Watts "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS"
        { on, field 188 in Milliwatts, "Highest power limit that can be set" }
    163 POWER_LIMIT_DEFAULT = Gauge Watts "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF" => Watts "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS"
        { on, field 189 in Milliwatts, "Power limit that the board starts with" }
    164 ENFORCED_POWER_LIMIT = Gauge Watts "DCGM_FI_DEV_ENFORCED_POWER_LIMIT" => Watts "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"
        { on, field 190 in Milliwatts, "Power limit in force" }
    190 PSTATE = Gauge None "DCGM_FI_DEV_PSTATE" => None "DCGM_FI_DEV_GPU_PSTATE"
        { opt, call PerformanceState in None, "Performance state, 0 the highest to 15" }
    191 FAN_SPEED = Gauge Percent "DCGM_FI_DEV_FAN_SPEED" => Ratio "DCGM_FI_DEV_FAN_SPEED_RATIO"
        { opt, call FanSpeed in Percent, "Speed of the first fan, as a share of its greatest" }

    // PCIe
    202 PCIE_REPLAY = Counter None "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" => None "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"
        { on, field 94 in None, "Total number of PCIe retries" }
    237 PCIE_LINK_GEN = Gauge None "DCGM_FI_DEV_PCIE_LINK_GEN"
        { on, call PcieGeneration in None, "Current PCIe link generation" }
    238 PCIE_LINK_WIDTH = Gauge None "DCGM_FI_DEV_PCIE_LINK_WIDTH"
        { on, call PcieWidth in None, "Current PCIe link width (in lanes)" }
    235 PCIE_MAX_LINK_GEN = Gauge None "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"
        { on, call PcieGenerationMax in None, "Highest PCIe link generation of GPU and slot" }
    236 PCIE_MAX_LINK_WIDTH = Gauge None "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
        { on, call PcieWidthMax in None, "Greatest PCIe link width of GPU and slot (in lanes)" }
    1501 PCIE_CORRECTABLE = Counter None "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS" => None "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL"
        { opt, field 173 in None, "Total number of correctable PCIe errors" }

    // Utilisation
    203 GPU_UTIL = Gauge Percent "DCGM_FI_DEV_GPU_UTIL" => Ratio "DCGM_FI_DEV_GPU_UTIL_RATIO"
        { on, call GpuUtilization in Percent, "GPU utilization" }
    204 MEM_COPY_UTIL = Gauge Percent "DCGM_FI_DEV_MEM_COPY_UTIL" => Ratio "DCGM_FI_DEV_MEMORY_UTIL_RATIO"
        { on, call MemoryUtilization in Percent, "Memory utilization" }
    206 ENC_UTIL = Gauge Percent "DCGM_FI_DEV_ENC_UTIL" => Ratio "DCGM_FI_DEV_ENC_UTIL_RATIO"
        { on, call EncoderUtilization in Percent, "Encoder utilization" }
    207 DEC_UTIL = Gauge Percent "DCGM_FI_DEV_DEC_UTIL" => Ratio "DCGM_FI_DEV_DEC_UTIL_RATIO"
        { on, call DecoderUtilization in Percent, "Decoder utilization" }

    // Errors and violations
    230 XID_ERRORS = Gauge None "DCGM_FI_DEV_XID_ERRORS" => None "DCGM_FI_DEV_XID_ERROR"
        { on, event Xid in None, "Value of the last XID error encountered" }
    240 POWER_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_POWER_VIOLATION" => Seconds "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL"
        { on, field 74 in Nanoseconds, "Throttling duration due to power constraints" }
    241 THERMAL_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_THERMAL_VIOLATION"
        { on, field 75 in Nanoseconds, "Throttling duration due to thermal constraints" }
    242 SYNC_BOOST_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_SYNC_BOOST_VIOLATION"
        { on, field 76 in Nanoseconds, "Throttling duration due to sync-boost constraints" }
    243 BOARD_LIMIT_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION"
        { on, field 77 in Nanoseconds, "Throttling duration due to board limit constraints" }
    244 LOW_UTIL_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_LOW_UTIL_VIOLATION"
        { on, field 78 in Nanoseconds, "Throttling duration due to low utilization" }
    245 RELIABILITY_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_RELIABILITY_VIOLATION"
        { on, field 79 in Nanoseconds, "Throttling duration due to reliability constraints" }
    246 TOTAL_APP_CLOCKS_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION"
        { opt, field 80 in Nanoseconds, "Throttling duration due to application clocks" }
    247 TOTAL_BASE_CLOCKS_VIOLATION = Counter Nanoseconds "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION"
        { opt, field 81 in Nanoseconds, "Throttling duration due to base clocks" }
    1523 RECOVERY_ACTION = Gauge None "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION" => None "DCGM_FI_DEV_GPU_RECOVERY_ACTION"
        { opt, field 230 in None, "Recovery action that the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset" }

    // Memory
    250 FB_TOTAL = Gauge Mebibytes "DCGM_FI_DEV_FB_TOTAL" => Bytes "DCGM_FI_DEV_FB_CAPACITY_BYTES"
        { on, call MemoryTotal in Bytes, "Framebuffer memory of the GPU" }
    251 FB_FREE = Gauge Mebibytes "DCGM_FI_DEV_FB_FREE" => Bytes "DCGM_FI_DEV_FB_FREE_BYTES"
        { on, call MemoryFree in Bytes, "Framebuffer memory free" }
    252 FB_USED = Gauge Mebibytes "DCGM_FI_DEV_FB_USED" => Bytes "DCGM_FI_DEV_FB_USED_BYTES"
        { on, call MemoryUsed in Bytes, "Framebuffer memory used" }
    253 FB_RESERVED = Gauge Mebibytes "DCGM_FI_DEV_FB_RESERVED" => Bytes "DCGM_FI_DEV_FB_RESERVED_BYTES"
        { on, call MemoryReserved in Bytes, "Framebuffer memory reserved" }
    254 FB_USED_PERCENT = Gauge Ratio "DCGM_FI_DEV_FB_USED_PERCENT" => Ratio "DCGM_FI_DEV_FB_USED_RATIO"
        { on, call MemoryUsedShare in Ratio, "Framebuffer memory used, as a share of what is not reserved" }
    90 BAR1_TOTAL = Gauge Mebibytes "DCGM_FI_DEV_BAR1_TOTAL" => Bytes "DCGM_FI_DEV_BAR1_CAPACITY_BYTES"
        { opt, call Bar1Total in Bytes, "BAR1 memory of the GPU" }
    92 BAR1_USED = Gauge Mebibytes "DCGM_FI_DEV_BAR1_USED" => Bytes "DCGM_FI_DEV_BAR1_USED_BYTES"
        { opt, call Bar1Used in Bytes, "BAR1 memory used" }
    93 BAR1_FREE = Gauge Mebibytes "DCGM_FI_DEV_BAR1_FREE" => Bytes "DCGM_FI_DEV_BAR1_FREE_BYTES"
        { opt, call Bar1Free in Bytes, "BAR1 memory free" }

    // vGPU
    526 VGPU_LICENSE = Gauge None "DCGM_FI_DEV_VGPU_LICENSE_STATUS"
        { on, call VgpuLicense in None, "Whether the vGPU is licensed; without a license the driver slows it down after a while" }

    // ECC, retired pages, remapped rows
    300 ECC_CURRENT = Gauge None "DCGM_FI_DEV_ECC_CURRENT" => None "DCGM_FI_DEV_ECC_MODE"
        { opt, field 1 in None, "Whether ECC is on" }
    301 ECC_PENDING = Gauge None "DCGM_FI_DEV_ECC_PENDING"
        { opt, field 2 in None, "Whether ECC will be on after the next reboot" }
    310 ECC_SBE_VOL = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"
        { on, field 3 in None, "Total number of single-bit volatile ECC errors" }
    311 ECC_DBE_VOL = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
        { on, field 4 in None, "Total number of double-bit volatile ECC errors" }
    312 ECC_SBE_AGG = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"
        { on, field 5 in None, "Total number of single-bit persistent ECC errors" }
    313 ECC_DBE_AGG = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
        { on, field 6 in None, "Total number of double-bit persistent ECC errors" }
    314 ECC_SBE_VOL_L1 = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_L1"
        { opt, field 7 in None, "Single-bit volatile ECC errors in the L1 cache" }
    315 ECC_DBE_VOL_L1 = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_L1"
        { opt, field 8 in None, "Double-bit volatile ECC errors in the L1 cache" }
    316 ECC_SBE_VOL_L2 = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_L2"
        { opt, field 9 in None, "Single-bit volatile ECC errors in the L2 cache" }
    317 ECC_DBE_VOL_L2 = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_L2"
        { opt, field 10 in None, "Double-bit volatile ECC errors in the L2 cache" }
    318 ECC_SBE_VOL_DEV = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_DEV"
        { opt, field 11 in None, "Single-bit volatile ECC errors in device memory" }
    319 ECC_DBE_VOL_DEV = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_DEV"
        { opt, field 12 in None, "Double-bit volatile ECC errors in device memory" }
    320 ECC_SBE_VOL_REG = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_REG"
        { opt, field 13 in None, "Single-bit volatile ECC errors in the register file" }
    321 ECC_DBE_VOL_REG = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_REG"
        { opt, field 14 in None, "Double-bit volatile ECC errors in the register file" }
    322 ECC_SBE_VOL_TEX = Counter None "DCGM_FI_DEV_ECC_SBE_VOL_TEX"
        { opt, field 15 in None, "Single-bit volatile ECC errors in texture memory" }
    323 ECC_DBE_VOL_TEX = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_TEX"
        { opt, field 16 in None, "Double-bit volatile ECC errors in texture memory" }
    337 ECC_DBE_VOL_CBU = Counter None "DCGM_FI_DEV_ECC_DBE_VOL_CBU"
        { opt, field 17 in None, "Double-bit volatile ECC errors in the convergence barrier unit" }
    324 ECC_SBE_AGG_L1 = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_L1"
        { opt, field 18 in None, "Single-bit persistent ECC errors in the L1 cache" }
    325 ECC_DBE_AGG_L1 = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_L1"
        { opt, field 19 in None, "Double-bit persistent ECC errors in the L1 cache" }
    326 ECC_SBE_AGG_L2 = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_L2"
        { opt, field 20 in None, "Single-bit persistent ECC errors in the L2 cache" }
    327 ECC_DBE_AGG_L2 = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_L2"
        { opt, field 21 in None, "Double-bit persistent ECC errors in the L2 cache" }
    328 ECC_SBE_AGG_DEV = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_DEV"
        { opt, field 22 in None, "Single-bit persistent ECC errors in device memory" }
    329 ECC_DBE_AGG_DEV = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_DEV"
        { opt, field 23 in None, "Double-bit persistent ECC errors in device memory" }
    330 ECC_SBE_AGG_REG = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_REG"
        { opt, field 24 in None, "Single-bit persistent ECC errors in the register file" }
    331 ECC_DBE_AGG_REG = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_REG"
        { opt, field 25 in None, "Double-bit persistent ECC errors in the register file" }
    332 ECC_SBE_AGG_TEX = Counter None "DCGM_FI_DEV_ECC_SBE_AGG_TEX"
        { opt, field 26 in None, "Single-bit persistent ECC errors in texture memory" }
    333 ECC_DBE_AGG_TEX = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_TEX"
        { opt, field 27 in None, "Double-bit persistent ECC errors in texture memory" }
    341 ECC_DBE_AGG_CBU = Counter None "DCGM_FI_DEV_ECC_DBE_AGG_CBU"
        { opt, field 28 in None, "Double-bit persistent ECC errors in the convergence barrier unit" }
    385 REMAP_MAX = Gauge None "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX" => None "DCGM_FI_DEV_BANK_REMAP_AVAIL_MAX"
        { opt, call RemapMax in None, "Memory banks with all spare rows left" }
    386 REMAP_HIGH = Gauge None "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH" => None "DCGM_FI_DEV_BANK_REMAP_AVAIL_HIGH"
        { opt, call RemapHigh in None, "Memory banks with most of their spare rows left" }
    387 REMAP_PARTIAL = Gauge None "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL" => None "DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL"
        { opt, call RemapPartial in None, "Memory banks with part of their spare rows left" }
    388 REMAP_LOW = Gauge None "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW" => None "DCGM_FI_DEV_BANK_REMAP_AVAIL_LOW"
        { opt, call RemapLow in None, "Memory banks with few spare rows left" }
    389 REMAP_NONE = Gauge None "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE" => None "DCGM_FI_DEV_BANK_REMAP_AVAIL_NONE"
        { opt, call RemapNone in None, "Memory banks with no spare row left" }
    390 RETIRED_SBE = Counter None "DCGM_FI_DEV_RETIRED_SBE" => None "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL"
        { on, field 29 in None, "Total number of retired pages due to single-bit errors" }
    391 RETIRED_DBE = Counter None "DCGM_FI_DEV_RETIRED_DBE" => None "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL"
        { on, field 30 in None, "Total number of retired pages due to double-bit errors" }
    392 RETIRED_PENDING = Counter None "DCGM_FI_DEV_RETIRED_PENDING" => None "DCGM_FI_DEV_PAGE_RETIRED_PENDING"
        { on, field 31 in None, "Total number of pages pending retirement" }
    393 UNCORRECTABLE_REMAPPED_ROWS = Counter None "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" => None "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"
        { on, field 143 in None, "Number of remapped rows for uncorrectable errors" }
    394 CORRECTABLE_REMAPPED_ROWS = Counter None "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS" => None "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"
        { on, field 142 in None, "Number of remapped rows for correctable errors" }
    395 ROW_REMAP_FAILURE = Gauge None "DCGM_FI_DEV_ROW_REMAP_FAILURE" => None "DCGM_FI_DEV_ROW_REMAP_FAILED"
        { on, field 145 in None, "Whether remapping of rows has failed" }
    396 ROW_REMAP_PENDING = Gauge None "DCGM_FI_DEV_ROW_REMAP_PENDING"
        { on, field 144 in None, "Whether remapping of rows waits for a GPU reset" }

    // NVLink, up to the fourth generation
    409 NVLINK_CRC_FLIT = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"
        { on, field 38 in None, "Total number of NVLink flow-control CRC errors" }
    419 NVLINK_CRC_DATA = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL"
        { on, field 45 in None, "Total number of NVLink data CRC errors" }
    429 NVLINK_REPLAY = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"
        { on, field 52 in None, "Total number of NVLink retries" }
    439 NVLINK_RECOVERY = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL"
        { on, field 59 in None, "Total number of NVLink recovery errors" }
    497 NVLINK_DL_CRC = Counter None "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC" => None "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL"
        { opt, field 163 of EachLink in None, "Total number of NVLink data-link CRC errors" }
    498 NVLINK_DL_RECOVERY = Counter None "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY" => None "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL"
        { opt, field 162 of EachLink in None, "Total number of NVLink data-link recoveries" }
    499 NVLINK_DL_REPLAY = Counter None "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY" => None "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL"
        { opt, field 161 of EachLink in None, "Total number of NVLink data-link replays" }
    1220 NVLINK_ECC = Counter None "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL" => None "DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL"
        { opt, field 160 in None, "Total number of NVLink data ECC errors" }
    449 NVLINK_BANDWIDTH = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND"
        { on, rate AllLinks in BytesPerSecond, "NVLink payload of all links, both directions" }

    // NVLink 5, summed over the links
    1200 NVLINK5_TX_PACKETS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS" => None "DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL"
        { opt, field 201 of EachLink in None, "Total number of NVLink packets sent" }
    1201 NVLINK5_TX_BYTES = Counter Bytes "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES" => Bytes "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL"
        { opt, field 202 of EachLink in Bytes, "NVLink bytes sent" }
    1202 NVLINK5_RX_PACKETS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS" => None "DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL"
        { opt, field 203 of EachLink in None, "Total number of NVLink packets received" }
    1203 NVLINK5_RX_BYTES = Counter Bytes "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES" => Bytes "DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL"
        { opt, field 204 of EachLink in Bytes, "NVLink bytes received" }
    1204 NVLINK5_RX_MALFORMED_PACKET_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL"
        { opt, field 206 of EachLink in None, "Total number of NVLink malformed packets received" }
    1205 NVLINK5_RX_BUFFER_OVERRUN_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL"
        { opt, field 207 of EachLink in None, "Total number of NVLink packets dropped for lack of buffers" }
    1206 NVLINK5_RX_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL"
        { opt, field 208 of EachLink in None, "Total number of NVLink packets received with an error" }
    1207 NVLINK5_RX_REMOTE_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL"
        { opt, field 209 of EachLink in None, "Total number of NVLink packets received with a mark of an error at the other end" }
    1208 NVLINK5_RX_GENERAL_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL"
        { opt, field 210 of EachLink in None, "Total number of NVLink packets received with another error" }
    1209 NVLINK5_LOCAL_LINK_INTEGRITY_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS" => None "DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL"
        { opt, field 211 of EachLink in None, "Total number of NVLink local integrity errors" }
    1210 NVLINK5_TX_DISCARDS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS" => None "DCGM_FI_DEV_NVLINK_TX_DISCARD_TOTAL"
        { opt, field 212 of EachLink in None, "Total number of NVLink packets discarded before sending" }
    1211 NVLINK5_LINK_RECOVERY_SUCCESSFUL_EVENTS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS" => None "DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL"
        { opt, field 213 of EachLink in None, "Total number of NVLink link recoveries that succeeded" }
    1212 NVLINK5_LINK_RECOVERY_FAILED_EVENTS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS" => None "DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL"
        { opt, field 214 of EachLink in None, "Total number of NVLink link recoveries that failed" }
    1213 NVLINK5_LINK_RECOVERY_EVENTS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS" => None "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL"
        { opt, field 215 of EachLink in None, "Total number of NVLink link recoveries" }
    1214 NVLINK5_RX_SYMBOL_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS" => None "DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL"
        { opt, field 221 of EachLink in None, "Total number of NVLink symbol errors" }
    1219 NVLINK5_EFFECTIVE_ERRORS = Counter None "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS" => None "DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL"
        { opt, field 219 of EachLink in None, "Total number of NVLink effective errors" }
    1404 NVLINK_FEC_HISTORY_0 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_0_TOTAL"
        { opt, field 235 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 0" }
    1405 NVLINK_FEC_HISTORY_1 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_1" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_1_TOTAL"
        { opt, field 236 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 1" }
    1406 NVLINK_FEC_HISTORY_2 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_2" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_2_TOTAL"
        { opt, field 237 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 2" }
    1407 NVLINK_FEC_HISTORY_3 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_3" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_3_TOTAL"
        { opt, field 238 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 3" }
    1408 NVLINK_FEC_HISTORY_4 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_4" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_4_TOTAL"
        { opt, field 239 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 4" }
    1409 NVLINK_FEC_HISTORY_5 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_5" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_5_TOTAL"
        { opt, field 240 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 5" }
    1410 NVLINK_FEC_HISTORY_6 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_6" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_6_TOTAL"
        { opt, field 241 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 6" }
    1411 NVLINK_FEC_HISTORY_7 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_7" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_7_TOTAL"
        { opt, field 242 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 7" }
    1412 NVLINK_FEC_HISTORY_8 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_8" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_8_TOTAL"
        { opt, field 243 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 8" }
    1413 NVLINK_FEC_HISTORY_9 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_9" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_9_TOTAL"
        { opt, field 244 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 9" }
    1414 NVLINK_FEC_HISTORY_10 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_10" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_10_TOTAL"
        { opt, field 245 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 10" }
    1415 NVLINK_FEC_HISTORY_11 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_11" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_11_TOTAL"
        { opt, field 246 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 11" }
    1416 NVLINK_FEC_HISTORY_12 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_12" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_12_TOTAL"
        { opt, field 247 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 12" }
    1417 NVLINK_FEC_HISTORY_13 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_13" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_13_TOTAL"
        { opt, field 248 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 13" }
    1418 NVLINK_FEC_HISTORY_14 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_14" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_14_TOTAL"
        { opt, field 249 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 14" }
    1419 NVLINK_FEC_HISTORY_15 = Counter None "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15" => None "DCGM_FI_DEV_NVLINK_FEC_HISTORY_15_TOTAL"
        { opt, field 250 of EachLink in None, "Total number of corrected NVLink symbol errors, bin 15" }

    // C2C
    285 C2C_LINK_COUNT = Gauge None "DCGM_FI_DEV_C2C_LINK_COUNT" => None "DCGM_FI_DEV_C2C_LINK_QUANTITY"
        { opt, field 170 in None, "Number of C2C links" }
    286 C2C_LINK_STATUS = Gauge None "DCGM_FI_DEV_C2C_LINK_STATUS"
        { opt, field 171 in None, "Whether the first C2C link is active" }
    287 C2C_MAX_BANDWIDTH = Gauge MegabytesPerSecond "DCGM_FI_DEV_C2C_MAX_BANDWIDTH" => BytesPerSecond "DCGM_FI_DEV_C2C_MAX_BANDWIDTH_BYTES_PER_SECOND"
        { opt, field 172 in MegabytesPerSecond, "Greatest bandwidth of the first C2C link" }
    1400 C2C_ERROR_INTR = Counter None "DCGM_FI_DEV_C2C_LINK_ERROR_INTR" => None "DCGM_FI_DEV_C2C_LINK_ERROR_TOTAL"
        { opt, field 231 in None, "Total number of C2C link errors" }
    1401 C2C_ERROR_REPLAY = Counter None "DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY" => None "DCGM_FI_DEV_C2C_LINK_REPLAY_ERROR_TOTAL"
        { opt, field 232 in None, "Total number of C2C link replays" }
    1402 C2C_ERROR_REPLAY_B2B = Counter None "DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B" => None "DCGM_FI_DEV_C2C_LINK_REPLAY_ERROR_B2B_TOTAL"
        { opt, field 233 in None, "Total number of C2C link replays back to back" }
    1403 C2C_POWER_STATE = Gauge None "DCGM_FI_DEV_C2C_LINK_POWER_STATE" => None "DCGM_FI_DEV_C2C_LINK_POWER_STATUS"
        { opt, field 234 in None, "Power state of the first C2C link" }

    // Fabric
    170 FABRIC_STATUS = Gauge None "DCGM_FI_DEV_FABRIC_MANAGER_STATUS"
        { opt, call FabricStatus in None, "Registration with the fabric: 0 not supported, 1 not started, 2 in progress, 3 success, 4 failure" }
    171 FABRIC_ERROR = Gauge None "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE" => None "DCGM_FI_DEV_FABRIC_MANAGER_ERROR"
        { opt, call FabricError in None, "NVML code with which the registration with the fabric ended, 0 for success" }
    173 FABRIC_CLIQUE = Gauge None "DCGM_FI_DEV_FABRIC_CLIQUE_ID"
        { opt, call FabricClique in None, "Clique of the fabric that the GPU belongs to" }
    174 FABRIC_HEALTH_MASK = Gauge None "DCGM_FI_DEV_FABRIC_HEALTH_MASK"
        { opt, call FabricHealthMask in None, "Bit mask of the health of the fabric" }
    175 FABRIC_HEALTH_SUMMARY = Gauge None "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"
        { opt, call FabricHealthSummary in None, "Health of the fabric: 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity" }

    // Profiling: Hopper and later
    1001 PROF_GR_ENGINE_ACTIVE = Gauge Ratio "DCGM_FI_PROF_GR_ENGINE_ACTIVE" => Ratio "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"
        { on, gpm 1 in Percent, "Ratio of time the graphics engine is active" }
    1002 PROF_SM_ACTIVE = Gauge Ratio "DCGM_FI_PROF_SM_ACTIVE" => Ratio "DCGM_FI_PROF_SM_UTIL_RATIO"
        { on, gpm 2 in Percent, "Ratio of cycles an SM has at least 1 warp assigned" }
    1003 PROF_SM_OCCUPANCY = Gauge Ratio "DCGM_FI_PROF_SM_OCCUPANCY" => Ratio "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"
        { on, gpm 3 in Percent, "Ratio of the number of warps resident on an SM" }
    1004 PROF_TENSOR_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" => Ratio "DCGM_FI_PROF_TENSOR_UTIL_RATIO"
        { on, gpm 5 in Percent, "Ratio of cycles the tensor (HMMA) pipe is active" }
    1005 PROF_DRAM_ACTIVE = Gauge Ratio "DCGM_FI_PROF_DRAM_ACTIVE" => Ratio "DCGM_FI_PROF_DRAM_UTIL_RATIO"
        { on, gpm 10 in Percent, "Ratio of cycles the device memory interface is active sending or receiving data" }
    1006 PROF_FP64_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP64_ACTIVE" => Ratio "DCGM_FI_PROF_FP64_UTIL_RATIO"
        { on, gpm 11 in Percent, "Ratio of cycles the fp64 pipes are active" }
    1007 PROF_FP32_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP32_ACTIVE" => Ratio "DCGM_FI_PROF_FP32_UTIL_RATIO"
        { on, gpm 12 in Percent, "Ratio of cycles the fp32 pipes are active" }
    1008 PROF_FP16_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_FP16_ACTIVE" => Ratio "DCGM_FI_PROF_FP16_UTIL_RATIO"
        { on, gpm 13 in Percent, "Ratio of cycles the fp16 pipes are active" }
    1009 PROF_PCIE_TX = Gauge BytesPerSecond "DCGM_FI_PROF_PCIE_TX_BYTES"
        { on, gpm 20 in MebibytesPerSecond, "Rate of data transmitted over the PCIe bus, headers and payload" }
    1010 PROF_PCIE_RX = Gauge BytesPerSecond "DCGM_FI_PROF_PCIE_RX_BYTES"
        { on, gpm 21 in MebibytesPerSecond, "Rate of data received over the PCIe bus, headers and payload" }
    1011 PROF_NVLINK_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_TX_BYTES"
        { on, gpm 61 in MebibytesPerSecond, "Rate of data transmitted over NVLink, without headers" }
    1012 PROF_NVLINK_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_RX_BYTES"
        { on, gpm 60 in MebibytesPerSecond, "Rate of data received over NVLink, without headers" }
    1013 PROF_IMMA_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE" => Ratio "DCGM_FI_PROF_IMMA_UTIL_RATIO"
        { opt, gpm 9 in Percent, "Ratio of cycles the integer tensor (IMMA) pipe is active" }
    1014 PROF_HMMA_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE" => Ratio "DCGM_FI_PROF_HMMA_UTIL_RATIO"
        { opt, gpm 7 in Percent, "Ratio of cycles the half-precision tensor (HMMA) pipe is active" }
    1015 PROF_DFMA_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE" => Ratio "DCGM_FI_PROF_DFMA_UTIL_RATIO"
        { opt, gpm 6 in Percent, "Ratio of cycles the double-precision tensor (DFMA) pipe is active" }
    1016 PROF_INT_ACTIVE = Gauge Ratio "DCGM_FI_PROF_PIPE_INT_ACTIVE" => Ratio "DCGM_FI_PROF_INT_UTIL_RATIO"
        { opt, gpm 4 in Percent, "Ratio of cycles the integer pipe is active" }
    1017 PROF_NVDEC0_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC0_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_0_RATIO"
        { opt, gpm 30 in Percent, "Ratio of time video decoder 0 is active" }
    1018 PROF_NVDEC1_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC1_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_1_RATIO"
        { opt, gpm 31 in Percent, "Ratio of time video decoder 1 is active" }
    1019 PROF_NVDEC2_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC2_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_2_RATIO"
        { opt, gpm 32 in Percent, "Ratio of time video decoder 2 is active" }
    1020 PROF_NVDEC3_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC3_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_3_RATIO"
        { opt, gpm 33 in Percent, "Ratio of time video decoder 3 is active" }
    1021 PROF_NVDEC4_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC4_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_4_RATIO"
        { opt, gpm 34 in Percent, "Ratio of time video decoder 4 is active" }
    1022 PROF_NVDEC5_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC5_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_5_RATIO"
        { opt, gpm 35 in Percent, "Ratio of time video decoder 5 is active" }
    1023 PROF_NVDEC6_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC6_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_6_RATIO"
        { opt, gpm 36 in Percent, "Ratio of time video decoder 6 is active" }
    1024 PROF_NVDEC7_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVDEC7_ACTIVE" => Ratio "DCGM_FI_PROF_NVDEC_UTIL_7_RATIO"
        { opt, gpm 37 in Percent, "Ratio of time video decoder 7 is active" }
    1025 PROF_NVJPG0_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG0_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_0_RATIO"
        { opt, gpm 40 in Percent, "Ratio of time JPEG decoder 0 is active" }
    1026 PROF_NVJPG1_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG1_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_1_RATIO"
        { opt, gpm 41 in Percent, "Ratio of time JPEG decoder 1 is active" }
    1027 PROF_NVJPG2_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG2_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_2_RATIO"
        { opt, gpm 42 in Percent, "Ratio of time JPEG decoder 2 is active" }
    1028 PROF_NVJPG3_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG3_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_3_RATIO"
        { opt, gpm 43 in Percent, "Ratio of time JPEG decoder 3 is active" }
    1029 PROF_NVJPG4_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG4_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_4_RATIO"
        { opt, gpm 44 in Percent, "Ratio of time JPEG decoder 4 is active" }
    1030 PROF_NVJPG5_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG5_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_5_RATIO"
        { opt, gpm 45 in Percent, "Ratio of time JPEG decoder 5 is active" }
    1031 PROF_NVJPG6_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG6_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_6_RATIO"
        { opt, gpm 46 in Percent, "Ratio of time JPEG decoder 6 is active" }
    1032 PROF_NVJPG7_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVJPG7_ACTIVE" => Ratio "DCGM_FI_PROF_NVJPG_UTIL_7_RATIO"
        { opt, gpm 47 in Percent, "Ratio of time JPEG decoder 7 is active" }
    1033 PROF_NVOFA0_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVOFA0_ACTIVE" => Ratio "DCGM_FI_PROF_NVOFA_UTIL_0_RATIO"
        { opt, gpm 50 in Percent, "Ratio of time optical-flow accelerator 0 is active" }
    1034 PROF_NVOFA1_ACTIVE = Gauge Ratio "DCGM_FI_PROF_NVOFA1_ACTIVE" => Ratio "DCGM_FI_PROF_NVOFA_UTIL_1_RATIO"
        { opt, gpm 51 in Percent, "Ratio of time optical-flow accelerator 1 is active" }
    1040 PROF_NVLINK_L0_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L0_TX_BYTES"
        { opt, gpm 63 in MebibytesPerSecond, "Rate of data transmitted over NVLink 0, without headers" }
    1041 PROF_NVLINK_L0_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L0_RX_BYTES"
        { opt, gpm 62 in MebibytesPerSecond, "Rate of data received over NVLink 0, without headers" }
    1042 PROF_NVLINK_L1_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L1_TX_BYTES"
        { opt, gpm 65 in MebibytesPerSecond, "Rate of data transmitted over NVLink 1, without headers" }
    1043 PROF_NVLINK_L1_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L1_RX_BYTES"
        { opt, gpm 64 in MebibytesPerSecond, "Rate of data received over NVLink 1, without headers" }
    1044 PROF_NVLINK_L2_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L2_TX_BYTES"
        { opt, gpm 67 in MebibytesPerSecond, "Rate of data transmitted over NVLink 2, without headers" }
    1045 PROF_NVLINK_L2_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L2_RX_BYTES"
        { opt, gpm 66 in MebibytesPerSecond, "Rate of data received over NVLink 2, without headers" }
    1046 PROF_NVLINK_L3_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L3_TX_BYTES"
        { opt, gpm 69 in MebibytesPerSecond, "Rate of data transmitted over NVLink 3, without headers" }
    1047 PROF_NVLINK_L3_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L3_RX_BYTES"
        { opt, gpm 68 in MebibytesPerSecond, "Rate of data received over NVLink 3, without headers" }
    1048 PROF_NVLINK_L4_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L4_TX_BYTES"
        { opt, gpm 71 in MebibytesPerSecond, "Rate of data transmitted over NVLink 4, without headers" }
    1049 PROF_NVLINK_L4_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L4_RX_BYTES"
        { opt, gpm 70 in MebibytesPerSecond, "Rate of data received over NVLink 4, without headers" }
    1050 PROF_NVLINK_L5_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L5_TX_BYTES"
        { opt, gpm 73 in MebibytesPerSecond, "Rate of data transmitted over NVLink 5, without headers" }
    1051 PROF_NVLINK_L5_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L5_RX_BYTES"
        { opt, gpm 72 in MebibytesPerSecond, "Rate of data received over NVLink 5, without headers" }
    1052 PROF_NVLINK_L6_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L6_TX_BYTES"
        { opt, gpm 75 in MebibytesPerSecond, "Rate of data transmitted over NVLink 6, without headers" }
    1053 PROF_NVLINK_L6_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L6_RX_BYTES"
        { opt, gpm 74 in MebibytesPerSecond, "Rate of data received over NVLink 6, without headers" }
    1054 PROF_NVLINK_L7_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L7_TX_BYTES"
        { opt, gpm 77 in MebibytesPerSecond, "Rate of data transmitted over NVLink 7, without headers" }
    1055 PROF_NVLINK_L7_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L7_RX_BYTES"
        { opt, gpm 76 in MebibytesPerSecond, "Rate of data received over NVLink 7, without headers" }
    1056 PROF_NVLINK_L8_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L8_TX_BYTES"
        { opt, gpm 79 in MebibytesPerSecond, "Rate of data transmitted over NVLink 8, without headers" }
    1057 PROF_NVLINK_L8_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L8_RX_BYTES"
        { opt, gpm 78 in MebibytesPerSecond, "Rate of data received over NVLink 8, without headers" }
    1058 PROF_NVLINK_L9_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L9_TX_BYTES"
        { opt, gpm 81 in MebibytesPerSecond, "Rate of data transmitted over NVLink 9, without headers" }
    1059 PROF_NVLINK_L9_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L9_RX_BYTES"
        { opt, gpm 80 in MebibytesPerSecond, "Rate of data received over NVLink 9, without headers" }
    1060 PROF_NVLINK_L10_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L10_TX_BYTES"
        { opt, gpm 83 in MebibytesPerSecond, "Rate of data transmitted over NVLink 10, without headers" }
    1061 PROF_NVLINK_L10_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L10_RX_BYTES"
        { opt, gpm 82 in MebibytesPerSecond, "Rate of data received over NVLink 10, without headers" }
    1062 PROF_NVLINK_L11_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L11_TX_BYTES"
        { opt, gpm 85 in MebibytesPerSecond, "Rate of data transmitted over NVLink 11, without headers" }
    1063 PROF_NVLINK_L11_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L11_RX_BYTES"
        { opt, gpm 84 in MebibytesPerSecond, "Rate of data received over NVLink 11, without headers" }
    1064 PROF_NVLINK_L12_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L12_TX_BYTES"
        { opt, gpm 87 in MebibytesPerSecond, "Rate of data transmitted over NVLink 12, without headers" }
    1065 PROF_NVLINK_L12_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L12_RX_BYTES"
        { opt, gpm 86 in MebibytesPerSecond, "Rate of data received over NVLink 12, without headers" }
    1066 PROF_NVLINK_L13_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L13_TX_BYTES"
        { opt, gpm 89 in MebibytesPerSecond, "Rate of data transmitted over NVLink 13, without headers" }
    1067 PROF_NVLINK_L13_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L13_RX_BYTES"
        { opt, gpm 88 in MebibytesPerSecond, "Rate of data received over NVLink 13, without headers" }
    1068 PROF_NVLINK_L14_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L14_TX_BYTES"
        { opt, gpm 91 in MebibytesPerSecond, "Rate of data transmitted over NVLink 14, without headers" }
    1069 PROF_NVLINK_L14_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L14_RX_BYTES"
        { opt, gpm 90 in MebibytesPerSecond, "Rate of data received over NVLink 14, without headers" }
    1070 PROF_NVLINK_L15_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L15_TX_BYTES"
        { opt, gpm 93 in MebibytesPerSecond, "Rate of data transmitted over NVLink 15, without headers" }
    1071 PROF_NVLINK_L15_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L15_RX_BYTES"
        { opt, gpm 92 in MebibytesPerSecond, "Rate of data received over NVLink 15, without headers" }
    1072 PROF_NVLINK_L16_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L16_TX_BYTES"
        { opt, gpm 95 in MebibytesPerSecond, "Rate of data transmitted over NVLink 16, without headers" }
    1073 PROF_NVLINK_L16_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L16_RX_BYTES"
        { opt, gpm 94 in MebibytesPerSecond, "Rate of data received over NVLink 16, without headers" }
    1074 PROF_NVLINK_L17_TX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L17_TX_BYTES"
        { opt, gpm 97 in MebibytesPerSecond, "Rate of data transmitted over NVLink 17, without headers" }
    1075 PROF_NVLINK_L17_RX = Gauge BytesPerSecond "DCGM_FI_PROF_NVLINK_L17_RX_BYTES"
        { opt, gpm 96 in MebibytesPerSecond, "Rate of data received over NVLink 17, without headers" }
    1076 PROF_C2C_TX_ALL = Gauge BytesPerSecond "DCGM_FI_PROF_C2C_TX_ALL_BYTES"
        { opt, gpm 100 in MebibytesPerSecond, "Rate of data transmitted over C2C, headers and payload" }
    1077 PROF_C2C_TX_DATA = Gauge BytesPerSecond "DCGM_FI_PROF_C2C_TX_DATA_BYTES"
        { opt, gpm 102 in MebibytesPerSecond, "Rate of data transmitted over C2C, without headers" }
    1078 PROF_C2C_RX_ALL = Gauge BytesPerSecond "DCGM_FI_PROF_C2C_RX_ALL_BYTES"
        { opt, gpm 101 in MebibytesPerSecond, "Rate of data received over C2C, headers and payload" }
    1079 PROF_C2C_RX_DATA = Gauge BytesPerSecond "DCGM_FI_PROF_C2C_RX_DATA_BYTES"
        { opt, gpm 103 in MebibytesPerSecond, "Rate of data received over C2C, without headers" }
    1084 PROF_SM_CYCLES_ELAPSED_TOTAL = Counter None "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL"
        { opt, total 248 in None, "SM cycles since the node started" }
    1085 PROF_SM_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"
        { opt, total 249 in None, "SM cycles with at least 1 warp assigned" }
    1086 PROF_MMA_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL"
        { opt, total 250 in None, "SM cycles with any tensor pipe active" }
    1087 PROF_DMMA_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_DMMA_CYCLES_ACTIVE_TOTAL"
        { opt, total 251 in None, "SM cycles with the DMMA pipe active" }
    1088 PROF_HMMA_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_HMMA_CYCLES_ACTIVE_TOTAL"
        { opt, total 252 in None, "SM cycles with the HMMA pipe active" }
    1089 PROF_IMMA_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_IMMA_CYCLES_ACTIVE_TOTAL"
        { opt, total 253 in None, "SM cycles with the IMMA pipe active" }
    1090 PROF_DFMA_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_DFMA_CYCLES_ACTIVE_TOTAL"
        { opt, total 254 in None, "SM cycles with the DFMA pipe active" }
    1091 PROF_PCIE_TX_BYTES_TOTAL = Counter Bytes "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL"
        { opt, total 255 in Bytes, "Data transmitted over the PCIe bus since the node started" }
    1092 PROF_PCIE_RX_BYTES_TOTAL = Counter Bytes "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL"
        { opt, total 256 in Bytes, "Data received over the PCIe bus since the node started" }
    1093 PROF_INT_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_INT_CYCLES_ACTIVE_TOTAL"
        { opt, total 257 in None, "SM cycles with the integer pipe active" }
    1094 PROF_FP64_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_FP64_CYCLES_ACTIVE_TOTAL"
        { opt, total 258 in None, "SM cycles with the fp64 pipes active" }
    1095 PROF_FP32_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_FP32_CYCLES_ACTIVE_TOTAL"
        { opt, total 259 in None, "SM cycles with the fp32 pipes active" }
    1096 PROF_FP16_CYCLES_ACTIVE_TOTAL = Counter None "DCGM_FI_PROF_FP16_CYCLES_ACTIVE_TOTAL"
        { opt, total 260 in None, "SM cycles with the fp16 pipes active" }
}

/// Every row.
pub static ROWS: &[&Row] = &ALL;

const LISTS: [&[&Row]; 4] = [TEXTS, FIELDS, LINKS, MADE];

static ALL: [&Row; TEXTS.len() + FIELDS.len() + LINKS.len() + MADE.len()] = {
    let mut all = [FIELDS[0]; TEXTS.len() + FIELDS.len() + LINKS.len() + MADE.len()];
    let (mut list, mut row, mut i) = (0, 0, 0);
    while i < all.len() {
        if row < LISTS[list].len() {
            all[i] = LISTS[list][row];
            (row, i) = (row + 1, i + 1);
        } else {
            (list, row) = (list + 1, 0);
        }
    }
    all
};
