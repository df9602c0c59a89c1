//! The GPU models: what a driver reports about each, as data.
//!
//! - H100: `nvidia-smi -q` idle and under gpu-burn (driver 590.48.01) and the XML of an eight-GPU node (580.105.08); PCI
//!   addresses and NUMA nodes from the `lspci` of a Dell XE9680, CPU lists from the `topo -m` of an eight-H100 node.
//! - H200: `nvidia-smi -q` (590.48.01). Its load was not recorded: the H100's busy power and temperatures stand in.
//! - A100: `nvidia-smi -q -x` (535.54.03) and the data sheet's power limits; addresses of a DGX A100.
//! - A100 of 40 GB: dcgm-exporter scrapes without MIG and with three instances (520.56.06), the data sheet's power limits, and
//!   the board's other figures from the A100 of 80 GB.
//! - L4: a dcgm-exporter scrape (580.105.08) and the data sheet.
//! - T4: `nvidia-smi -q -x` (595.91.07); busy power and temperature from its limits.
//!
//! - MIG: sizes of H200 instances from `nvidia-smi` (590.48.01), of an A100's 20 GB from the XML and an A100's 5 GB and
//!   10 GB (of 40 GB) from the scrape; the others lie in between.
//!
//! Made up: VBIOS, part and InfoROM strings of the L4 and the A100 of 40 GB, the latter's subsystem id, and the row-remapper banks of H200, A100 and L4.

/// One GPU model. Absence (`None`) is what makes the calls answer `NOT_SUPPORTED`.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The name as `nvmlDeviceGetName` gives it; also the key of the `node` line.
    pub name: &'static str,
    pub architecture: Architecture,
    pub compute_capability: (i32, i32),
    /// Device id and subsystem id, vendor in the low 16 bits, as in `nvmlPciInfo_t`.
    pub pci_id: (u32, u32),
    pub vbios: &'static str,
    pub board_part: &'static str,
    /// InfoROM image, OEM object, ECC object.
    pub inforom: (&'static str, &'static str, &'static str),
    pub cores: u32,
    pub bus_width_bits: u32,
    pub memory_mib: u64,
    pub reserved_mib: u64,
    pub bar1_mib: u64,
    pub power: Power,
    pub clocks: Clocks,
    pub idle_pstate: u32,
    pub core_temperature: Range,
    pub memory_temperature: Option<Range>,
    pub thresholds: Option<Thresholds>,
    pub pcie: Pcie,
    pub nvlink: Option<NvLink>,
    /// An NVSwitch fabric the GPU registers with.
    pub fabric: bool,
    pub mig: Option<MigSizes>,
    /// Banks of the row remapper; without one, pages are retired instead.
    pub remap_banks: Option<u32>,
    /// `(PCI address, NUMA node)` of the GPUs of a usual node, in NVML order.
    pub slots: &'static [(&'static str, u32)],
    /// CPUs of each NUMA node of that node, as kernel lists.
    pub cpus: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    Turing = 6,
    Ampere = 7,
    Ada = 8,
    Hopper = 9,
}

/// Values without work and under full work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub idle: u32,
    pub busy: u32,
}

/// Milliwatts.
#[derive(Debug)]
pub(crate) struct Power {
    pub draw: Range,
    pub min_limit: u32,
    pub max_limit: u32,
    pub default_limit: u32,
    /// `nvmlDeviceGetPowerUsage` is a one-second average (NVML reference: Ampere and newer except GA100), else instantaneous.
    pub averaged: bool,
}

/// MHz.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub sm: Range,
    pub memory: Range,
    pub video: Range,
}

/// Degrees Celsius, absolute.
#[derive(Debug)]
pub(crate) struct Thresholds {
    pub shutdown: u32,
    pub slowdown: u32,
    pub gpu_max: u32,
    pub memory_max: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Pcie {
    pub generation: Range,
    pub max_width: u32,
    pub width: u32,
}

/// How the GPU can be cut up.
#[derive(Debug)]
pub(crate) struct MigSizes {
    pub multiprocessors_per_slice: u32,
    /// Memory of an instance: as profiles name it in gigabytes, and in MiB.
    pub memory: &'static [(&'static str, u64)],
}

#[derive(Debug)]
pub(crate) struct NvLink {
    pub links: u32,
    /// Per link and direction, MB/s.
    pub speed_mbps: u32,
}

const XE9680: &[(&str, u32)] = &[
    ("0000:19:00.0", 0),
    ("0000:3b:00.0", 0),
    ("0000:4c:00.0", 0),
    ("0000:5d:00.0", 0),
    ("0000:9b:00.0", 1),
    ("0000:bb:00.0", 1),
    ("0000:cb:00.0", 1),
    ("0000:db:00.0", 1),
];

const DGX_A100: &[(&str, u32)] = &[
    ("0000:07:00.0", 0),
    ("0000:0f:00.0", 0),
    ("0000:47:00.0", 0),
    ("0000:4e:00.0", 0),
    ("0000:87:00.0", 1),
    ("0000:90:00.0", 1),
    ("0000:b7:00.0", 1),
    ("0000:bd:00.0", 1),
];

/// On Hopper `nvidia-smi` shows distances to these (`T.Limit` 58 C at 29 C, slowdown -2, shutdown -8).
const HOPPER_THRESHOLDS: Thresholds = Thresholds { shutdown: 95, slowdown: 89, gpu_max: 87, memory_max: Some(95) };

/// Every model the `node` line may name.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "NVIDIA H100 80GB HBM3",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        pci_id: (0x2330_10de, 0x16c1_10de),
        vbios: "96.00.99.00.01",
        board_part: "692-2G520-0200-000",
        inforom: ("G520.0200.00.05", "2.1", "7.16"),
        cores: 16896,
        bus_width_bits: 5120,
        memory_mib: 81559,
        reserved_mib: 480,
        bar1_mib: 131_072,
        power: Power {
            draw: Range { idle: 68_920, busy: 634_000 },
            min_limit: 200_000,
            max_limit: 700_000,
            default_limit: 700_000,
            averaged: true,
        },
        clocks: Clocks {
            sm: Range { idle: 345, busy: 1980 },
            memory: Range { idle: 2619, busy: 2619 },
            video: Range { idle: 765, busy: 1545 },
        },
        idle_pstate: 0,
        core_temperature: Range { idle: 29, busy: 64 },
        memory_temperature: Some(Range { idle: 37, busy: 59 }),
        thresholds: Some(HOPPER_THRESHOLDS),
        pcie: Pcie { generation: Range { idle: 5, busy: 5 }, max_width: 16, width: 16 },
        nvlink: Some(NvLink { links: 18, speed_mbps: 26_562 }),
        fabric: true,
        mig: Some(MigSizes {
            multiprocessors_per_slice: 16,
            memory: &[("10", 9984), ("20", 20_096), ("40", 40_320), ("80", 81_024)],
        }),
        remap_banks: Some(2560),
        slots: XE9680,
        cpus: &["0-51", "52-103"],
    },
    Profile {
        name: "NVIDIA H200",
        architecture: Architecture::Hopper,
        compute_capability: (9, 0),
        pci_id: (0x2335_10de, 0x18be_10de),
        vbios: "96.00.A5.00.03",
        board_part: "695-2G520-0280-001",
        inforom: ("G520.0280.02.02", "2.1", "7.16"),
        cores: 16896,
        bus_width_bits: 6144,
        memory_mib: 143_771,
        reserved_mib: 614,
        bar1_mib: 262_144,
        power: Power {
            draw: Range { idle: 77_880, busy: 634_000 },
            min_limit: 200_000,
            max_limit: 700_000,
            default_limit: 700_000,
            averaged: true,
        },
        clocks: Clocks {
            sm: Range { idle: 345, busy: 1980 },
            memory: Range { idle: 3201, busy: 3201 },
            video: Range { idle: 765, busy: 1545 },
        },
        idle_pstate: 0,
        core_temperature: Range { idle: 28, busy: 64 },
        memory_temperature: Some(Range { idle: 33, busy: 59 }),
        thresholds: Some(HOPPER_THRESHOLDS),
        pcie: Pcie { generation: Range { idle: 5, busy: 5 }, max_width: 16, width: 16 },
        nvlink: Some(NvLink { links: 18, speed_mbps: 26_562 }),
        fabric: true,
        mig: Some(MigSizes {
            multiprocessors_per_slice: 16,
            memory: &[("18", 16_384), ("35", 33_280), ("71", 71_424), ("141", 143_104)],
        }),
        remap_banks: Some(3072),
        slots: XE9680,
        cpus: &["0-51", "52-103"],
    },
    Profile {
        name: "NVIDIA A100-SXM4-80GB",
        architecture: Architecture::Ampere,
        compute_capability: (8, 0),
        pci_id: (0x20b2_10de, 0x147f_10de),
        vbios: "92.00.36.00.02",
        board_part: "692-2G506-0212-002",
        inforom: ("G506.0212.00.01", "2.0", "6.16"),
        cores: 6912,
        bus_width_bits: 5120,
        memory_mib: 81920,
        reserved_mib: 869,
        bar1_mib: 131_072,
        power: Power {
            draw: Range { idle: 67_030, busy: 390_000 },
            min_limit: 100_000,
            max_limit: 400_000,
            default_limit: 400_000,
            averaged: false,
        },
        clocks: Clocks {
            sm: Range { idle: 210, busy: 1410 },
            memory: Range { idle: 1593, busy: 1593 },
            video: Range { idle: 585, busy: 1290 },
        },
        idle_pstate: 0,
        core_temperature: Range { idle: 27, busy: 62 },
        memory_temperature: Some(Range { idle: 44, busy: 70 }),
        thresholds: Some(Thresholds { shutdown: 92, slowdown: 89, gpu_max: 85, memory_max: Some(95) }),
        pcie: Pcie { generation: Range { idle: 4, busy: 4 }, max_width: 16, width: 16 },
        nvlink: Some(NvLink { links: 12, speed_mbps: 25_000 }),
        fabric: false,
        mig: Some(MigSizes {
            multiprocessors_per_slice: 14,
            memory: &[("10", 9728), ("20", 19_968), ("40", 40_448), ("80", 81_152)],
        }),
        remap_banks: Some(640),
        slots: DGX_A100,
        cpus: &["0-23", "24-47"],
    },
    Profile {
        name: "NVIDIA A100-SXM4-40GB",
        architecture: Architecture::Ampere,
        compute_capability: (8, 0),
        pci_id: (0x20b0_10de, 0x134f_10de),
        vbios: "92.00.36.00.01",
        board_part: "692-2G506-0200-002",
        inforom: ("G506.0200.00.04", "2.0", "6.16"),
        cores: 6912,
        bus_width_bits: 5120,
        memory_mib: 40960,
        reserved_mib: 576,
        bar1_mib: 65536,
        power: Power {
            draw: Range { idle: 45_999, busy: 390_000 },
            min_limit: 100_000,
            max_limit: 400_000,
            default_limit: 400_000,
            averaged: false,
        },
        clocks: Clocks {
            sm: Range { idle: 210, busy: 1410 },
            memory: Range { idle: 1215, busy: 1215 },
            video: Range { idle: 585, busy: 1275 },
        },
        idle_pstate: 0,
        core_temperature: Range { idle: 29, busy: 62 },
        memory_temperature: Some(Range { idle: 28, busy: 70 }),
        thresholds: Some(Thresholds { shutdown: 92, slowdown: 89, gpu_max: 85, memory_max: Some(95) }),
        pcie: Pcie { generation: Range { idle: 4, busy: 4 }, max_width: 16, width: 16 },
        nvlink: Some(NvLink { links: 12, speed_mbps: 25_000 }),
        fabric: false,
        mig: Some(MigSizes {
            multiprocessors_per_slice: 14,
            memory: &[("5", 4864), ("10", 9856), ("20", 19_968), ("40", 40_192)],
        }),
        remap_banks: Some(640),
        slots: DGX_A100,
        cpus: &["0-23", "24-47"],
    },
    Profile {
        name: "NVIDIA L4",
        architecture: Architecture::Ada,
        compute_capability: (8, 9),
        pci_id: (0x27b8_10de, 0x16ca_10de),
        vbios: "95.04.29.00.06",
        board_part: "900-2G193-0000-001",
        inforom: ("G193.0200.00.01", "2.1", "6.16"),
        cores: 7424,
        bus_width_bits: 192,
        memory_mib: 23034,
        reserved_mib: 470,
        bar1_mib: 32768,
        power: Power {
            draw: Range { idle: 16_365, busy: 71_500 },
            min_limit: 40_000,
            max_limit: 72_000,
            default_limit: 72_000,
            averaged: true,
        },
        clocks: Clocks {
            sm: Range { idle: 210, busy: 2040 },
            memory: Range { idle: 405, busy: 6251 },
            video: Range { idle: 795, busy: 1770 },
        },
        idle_pstate: 8,
        core_temperature: Range { idle: 31, busy: 70 },
        memory_temperature: None,
        thresholds: None,
        pcie: Pcie { generation: Range { idle: 1, busy: 4 }, max_width: 16, width: 16 },
        nvlink: None,
        fabric: false,
        mig: None,
        remap_banks: Some(96),
        slots: &[("0000:31:00.0", 0)],
        cpus: &["0-3"],
    },
    Profile {
        name: "Tesla T4",
        architecture: Architecture::Turing,
        compute_capability: (7, 5),
        pci_id: (0x1eb8_10de, 0x12a2_10de),
        vbios: "90.04.96.00.02",
        board_part: "900-2G183-A800-001",
        inforom: ("G183.0200.00.02", "1.1", "5.0"),
        cores: 2560,
        bus_width_bits: 256,
        memory_mib: 15360,
        reserved_mib: 448,
        bar1_mib: 256,
        power: Power {
            draw: Range { idle: 33_510, busy: 70_000 },
            min_limit: 60_000,
            max_limit: 70_000,
            default_limit: 70_000,
            averaged: false,
        },
        clocks: Clocks {
            sm: Range { idle: 1590, busy: 1590 },
            memory: Range { idle: 5000, busy: 5000 },
            video: Range { idle: 1470, busy: 1470 },
        },
        idle_pstate: 0,
        core_temperature: Range { idle: 33, busy: 75 },
        memory_temperature: None,
        thresholds: Some(Thresholds { shutdown: 96, slowdown: 93, gpu_max: 85, memory_max: None }),
        pcie: Pcie { generation: Range { idle: 3, busy: 3 }, max_width: 16, width: 8 },
        nvlink: None,
        fabric: false,
        mig: None,
        remap_banks: None,
        slots: &[("0000:00:1e.0", 0)],
        cpus: &["0-3"],
    },
];

/// The model of that NVML name.
pub(crate) fn find(name: &str) -> Result<&'static Profile, String> {
    PROFILES.iter().find(|p| p.name == name).ok_or_else(|| {
        let known: Vec<_> = PROFILES.iter().map(|p| p.name).collect();
        format!("unknown model {name:?}, expected one of {known:?}")
    })
}
