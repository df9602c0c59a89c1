//! What DCGM knows and this exporter does not serve, and why.

use std::ops::RangeInclusive;

/// Fields of DCGM that are not served.
#[derive(Debug)]
pub struct Absent {
    /// Their ids in DCGM.
    pub ids: &'static [RangeInclusive<u16>],
    /// Their legacy names; `*` stands for what differs between them.
    pub names: &'static str,
    /// One sentence for the user who looks for them.
    pub why: &'static str,
}

impl Absent {
    /// Is the field among them?
    #[must_use]
    pub fn has(&self, id: u16) -> bool {
        self.ids.iter().any(|range| range.contains(&id))
    }
}

const fn absent(ids: &'static [RangeInclusive<u16>], names: &'static str, why: &'static str) -> Absent {
    Absent { ids, names, why }
}

const MODULE: &str = "DCGM's own modules tell it; NVML does not.";
const VGPU: &str = "It is about the vGPUs of a hypervisor, which this exporter does not look into.";
const ERROR_RATE: &str = "NVML codes an error rate per link, and how DCGM joins the links' rates is not published.";
const BLACKWELL: &str =
    "NVML's ids of it changed their meaning with driver 580.82, and none was checked on a GPU that has it.";
const MEMORY_PART: &str = "NVML has no field id for this part of the memory; the totals are served.";

/// In the order of their ids.
pub static ABSENT: &[Absent] = &[
    absent(&[3..=4], "DCGM_FI_PROCESS_NAME, DCGM_FI_DEV_COUNT", MODULE),
    absent(
        &[5..=6],
        "DCGM_FI_CUDA_DRIVER_VERSION, DCGM_FI_BIND_UNBIND_EVENT",
        "goodput_gpu_driver_info has the driver's version; GPUs that come and go are found by themselves.",
    ),
    absent(&[50..=50], "DCGM_FI_DEV_NAME", "It is the label modelName of every series."),
    absent(
        &[52..=52, 55..=55],
        "DCGM_FI_DEV_NVML_INDEX, DCGM_FI_DEV_MINOR_NUMBER",
        "They are the labels gpu and device of every series.",
    ),
    absent(&[54..=54], "DCGM_FI_DEV_UUID", "It is the label UUID of every series."),
    absent(&[57..=57], "DCGM_FI_DEV_PCI_BUSID", "It is the label pci_bus_id of every series."),
    absent(
        &[58..=59, 63..=63],
        "DCGM_FI_DEV_PCI_COMBINED_ID, DCGM_FI_DEV_PCI_SUBSYS_ID, DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY",
        "The model says them, and the label modelName says the model.",
    ),
    absent(
        &[60..=62],
        "DCGM_FI_GPU_TOPOLOGY_*",
        "It is a table and no number; goodput_gpu_numa_info tells where a GPU is.",
    ),
    absent(
        &[64..=64],
        "DCGM_FI_DEV_P2P_NVLINK_STATUS",
        "It is a mask of all peers in one number; DCGM_EXP_P2P_STATUS has a series per peer.",
    ),
    absent(
        &[65..=66, 74..=74, 120..=120],
        "DCGM_FI_DEV_COMPUTE_MODE, DCGM_FI_DEV_PERSISTENCE_MODE, DCGM_FI_DEV_CC_MODE, DCGM_FI_DEV_AUTOBOOST",
        "It is a setting; goodput_audit_status judges those that matter.",
    ),
    absent(
        &[67..=69, 75..=77],
        "DCGM_FI_DEV_MIG_*, DCGM_FI_DEV_CUDA_VISIBLE_DEVICES_STR",
        "It describes MIG and is no reading.",
    ),
    absent(&[70..=73], "DCGM_FI_DEV_CPU_AFFINITY_*", "It is a mask of CPUs; goodput_gpu_local_cpus counts them."),
    absent(
        &[83..=84],
        "DCGM_FI_DEV_INFOROM_CONFIG_*",
        "Reading it makes the driver verify the inforom, which is no work for a scrape.",
    ),
    absent(
        &[86..=89],
        "DCGM_FI_DEV_MEM_AFFINITY_*",
        "It is a mask of NUMA nodes; goodput_gpu_numa_info names the node.",
    ),
    absent(&[91..=91], "DCGM_FI_SYNC_BOOST", "DCGM itself gave it up."),
    absent(&[94..=94], "DCGM_FI_DEV_GPM_SUPPORT", "Where DCGM_FI_PROF_* are, there is GPM."),
    absent(&[130..=130], "DCGM_FI_DEV_SUPPORTED_CLOCKS", "It is a list and no number."),
    absent(&[165..=167], "DCGM_FI_DEV_*_POWER_PROFILE_MASK", "It is a mask of 255 bits and no number."),
    absent(
        &[172..=172],
        "DCGM_FI_DEV_FABRIC_CLUSTER_UUID",
        "It is a text that NVML gives as bytes, the same on all GPUs of a cluster.",
    ),
    absent(
        &[200..=201],
        "DCGM_FI_DEV_PCIE_*_THROUGHPUT",
        "NVML measures it for 20 ms while the caller waits, and DCGM itself gave it up; DCGM_FI_PROF_PCIE_*_BYTES say the same.",
    ),
    absent(&[205..=205], "DCGM_FI_DEV_ACCOUNTING_DATA", "It is a record per process and no number."),
    absent(
        &[334..=336, 338..=340, 342..=345],
        "DCGM_FI_DEV_ECC_*_SHM, DCGM_FI_DEV_ECC_SBE_*_CBU, DCGM_FI_DEV_ECC_*_SRM",
        MEMORY_PART,
    ),
    absent(&[346..=346], "DCGM_FI_DEV_THRESHOLD_SRM", "NVML tells it to root alone."),
    absent(
        &[350..=363],
        "DCGM_FI_DEV_DIAG_*",
        "They are results of DCGM's diagnostics, which take the GPU from its users.",
    ),
    absent(
        &[406..=408, 416..=418, 426..=428, 436..=438, 481..=493],
        "DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_L*",
        "NVML has a field per link for the first twelve links; the total of all links is served.",
    ),
    absent(&[450..=450], "DCGM_FI_DEV_GPU_NVLINK_ERRORS", "It is a notification of DCGM's; the errors are counted."),
    absent(&[500..=513], "DCGM_FI_DEV_*_VGPU_*", VGPU),
    absent(&[520..=525, 527..=534], "DCGM_FI_DEV_VGPU_*", VGPU),
    absent(
        &[571..=592],
        "DCGM_FI_DEV_PLATFORM_*, DCGM_FI_DEV_NVLINK_PPCNT_*",
        "NVML reads these registers for privileged callers, on Blackwell.",
    ),
    absent(
        &[700..=878],
        "DCGM_FI_DEV_NVSWITCH_*",
        "NVSwitches answer to libraries of their own (NSCQ, NVSDM), not to NVML.",
    ),
    absent(
        &[879..=897],
        "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_*",
        "DCGM_FI_PROF_NVLINK_RX_BYTES says it, and goodput_gpu_nvlink_bytes_total counts both directions.",
    ),
    absent(&[1080..=1083], "DCGM_FI_PROF_*MEM_CACHE_*", "NVML does not say the unit of these GPM metrics."),
    absent(
        &[1100..=1199],
        "DCGM_FI_DEV_CPU_*",
        "It is about Grace CPUs; the host collectors read those from the kernel.",
    ),
    absent(&[1215..=1218], "DCGM_FI_DEV_NVLINK_COUNT_*_BER*", ERROR_RATE),
    absent(&[1300..=1399], "DCGM_FI_DEV_CONNECTX_*", "It is about network cards, which NVML does not know."),
    absent(&[1425..=1442], "DCGM_FI_DEV_PWR_SMOOTHING_*", BLACKWELL),
    absent(&[1502..=1503], "DCGM_FI_IMEX_*", "A service of its own (nvidia-imex) tells it, not NVML."),
    absent(
        &[1507..=1507],
        "DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG",
        "The call is newer than the bindings that this exporter is made with.",
    ),
    absent(
        &[1508..=1509],
        "DCGM_FI_DEV_NVLINK_GET_STATE, DCGM_FI_DEV_NVLINK_PPCNT_IBPC_PORT_XMIT_WAIT",
        "DCGM shows it of links only, one series per link.",
    ),
    absent(
        &[1524..=1524],
        "DCGM_FI_DEV_NVSWITCH_FIRMWARE_VERSION",
        "NVSwitches answer to libraries of their own (NSCQ, NVSDM), not to NVML.",
    ),
    absent(
        &[1525..=1533],
        "DCGM_FI_*_PER_LINK*",
        "DCGM shows it of links only, one series per link; per link there are DCGM_FI_DEV_NVLINK_BANDWIDTH_L*.",
    ),
];
