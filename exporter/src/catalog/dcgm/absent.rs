//! What DCGM knows and this exporter does not serve, and why.

use std::ops::RangeInclusive;

/// Fields of DCGM that are not served.
#[derive(Debug)]
pub struct Absent {
    /// Their ids in DCGM.
    pub ids: &'static [RangeInclusive<u16>],
    /// Their legacy names; `*` stands for what differs between them.
    pub names: &'static str,
    /// One sentence for whoever looks for them.
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

const TOTALS: &str = "One series per link and counter; the total of all links is served.";
const MODULE: &str = "DCGM's own modules tell it; NVML does not.";
const VGPU: &str = "It is about virtual machines with a share of a GPU, which this exporter does not look into.";
const ERROR_RATE: &str = "NVML codes an error rate per link, and how DCGM joins the links' rates is not published.";
const BLACKWELL: &str =
    "NVML's ids of it changed their meaning with driver 580.82, and no GPU to check them on was at hand.";
const MEMORY_PART: &str = "NVML has no field id for this part of the memory; the totals are served.";

/// In the order of their ids.
pub static ABSENT: &[Absent] = &[
    absent(&[3..=4], "DCGM_FI_PROCESS_NAME, DCGM_FI_DEV_COUNT", MODULE),
    absent(&[50..=50], "DCGM_FI_DEV_NAME", "It is the label modelName of every series."),
    absent(&[54..=54], "DCGM_FI_DEV_UUID", "It is the label UUID of every series."),
    absent(&[57..=57], "DCGM_FI_DEV_PCI_BUSID", "It is the label pci_bus_id of every series."),
    absent(
        &[60..=62],
        "DCGM_FI_GPU_TOPOLOGY_*",
        "It is a table and no number; goodput_gpu_numa_info tells where a GPU is.",
    ),
    absent(&[70..=73], "DCGM_FI_DEV_CPU_AFFINITY_*", "It is a mask of CPUs; goodput_gpu_local_cpus counts them."),
    absent(
        &[83..=84],
        "DCGM_FI_DEV_INFOROM_CONFIG_*",
        "Reading it makes the driver verify the inforom, which is no work for a scrape.",
    ),
    absent(&[165..=167], "DCGM_FI_DEV_*_POWER_PROFILE_MASK", BLACKWELL),
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
    absent(&[400..=408, 410..=418, 420..=428, 430..=438], "DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_L*", TOTALS),
    absent(&[450..=474, 481..=493], "DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_L*", TOTALS),
    absent(&[500..=513], "DCGM_FI_DEV_*_VGPU_*", VGPU),
    absent(&[520..=534], "DCGM_FI_DEV_VGPU_*", VGPU),
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
];
