//! Time in which a GPU worked slower than it could.

use super::{ClassInfo, FALLS, Group, Remedy};

pub(super) const THERMAL_THROTTLE: ClassInfo = ClassInfo {
    name: "thermal_throttle",
    title: "Slowed by heat",
    group: Group::Derate,
    version: 1,
    meaning: "The GPU ran at reduced clocks because of heat.",
    light: "#ac4b00",
    dark: "#be5231",
    key: "1",
    check: FALLS,
    gain: None,
    remedies: &[
        Remedy {
            action: "See which of the two it is: the hardware's slowdown is a board or a server that is too hot, the \
                     software's a GPU above its working temperature; then compare intake air, fans and the neighbouring \
                     slots.",
            command: Some("nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),
            who: "any user on the node",
            source: "nvidia-smi(1)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "Until it is fixed, keep jobs off the node whose other ranks would wait for it.",
            command: Some(
                "scontrol update nodename=NODE state=drain reason=thermal   # in Kubernetes: kubectl cordon NODE",
            ),
            restarts: "nothing that runs",
            who: "an administrator of the scheduler",
            risk: "the node's other GPUs are out of use too",
            source: "scontrol(1); Kubernetes documentation, kubectl cordon",
        },
    ],
};

pub(super) const POWER_THROTTLE: ClassInfo = ClassInfo {
    name: "power_throttle",
    title: "Slowed by a power limit",
    group: Group::Derate,
    version: 1,
    meaning: "The GPU ran at reduced clocks because of a lowered power limit or the power brake.",
    light: "#bd7f6a",
    dark: "#e08466",
    key: "2",
    check: FALLS,
    gain: None,
    remedies: &[
        Remedy {
            action: "If the limit was not lowered on purpose, set it back to the stock one.",
            command: Some(
                "nvidia-smi --id=GPU --power-limit=$(nvidia-smi --id=GPU --query-gpu=power.default_limit --format=csv,noheader,nounits)",
            ),
            risk: "more heat, and more power than the rack may have been planned for",
            source: "nvidia-smi(1)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "The power brake comes from the server: look at its power supplies and their limit.",
            command: Some("ipmitool sdr type 'Power Supply'"),
            source: "NVML API reference, clocks event reasons; ipmitool(1)",
            ..Remedy::LIVE
        },
    ],
};

pub(super) const CLOCK_LOCKED: ClassInfo = ClassInfo {
    name: "clock_locked",
    title: "Clock locked low",
    group: Group::Derate,
    version: 1,
    meaning: "The GPU ran at a clock that was locked below that of similar GPUs.",
    light: "#6e2714",
    dark: "#ffb896",
    key: "3",
    check: "sm_clock is that of the neighbours while the GPU works.",
    gain: None,
    remedies: &[
        Remedy {
            action: "See whether clocks are locked and for whom: such a lock is left over from a benchmark, or there to save \
                     power on purpose.",
            command: Some("nvidia-smi -q -d CLOCK,PERFORMANCE"),
            who: "any user on the node",
            source: "nvidia-smi(1)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "If the lock is not intended, lift it; application clocks are lifted by --reset-applications-clocks.",
            command: Some("nvidia-smi --id=GPU --reset-gpu-clocks"),
            risk: "more heat and power; results of benchmarks are no longer comparable with those at the lock",
            source: "nvidia-smi(1)",
            ..Remedy::LIVE
        },
    ],
};

pub(super) const PCIE_DEGRADED: ClassInfo = ClassInfo {
    name: "pcie_degraded",
    title: "Slow PCIe link",
    group: Group::Derate,
    version: 2,
    meaning: "Copies to the GPU took longer, because its PCIe link was below what GPU and slot can do.",
    light: "#d26334",
    dark: "#b77662",
    key: "4",
    check: "goodput_gpu_pcie_link_degraded is 0 under load, and gpu_busy rises.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Compare the link at load with what both ends can do, and with the neighbours; errors of the link point at \
                     its seating, a riser or a cable.",
            command: Some(
                "lspci -vv -s $(nvidia-smi --id=GPU --query-gpu=pci.bus_id --format=csv,noheader | cut -c5-) | grep -E 'LnkCap|LnkSta'",
            ),
            source: "lspci(8)",
            ..Remedy::LIVE
        },
        Remedy {
            action: "Reset the GPU once it is free, which trains the link anew; if that does not help, have it reseated or \
                     put into another slot, and look for firmware of board and server.",
            command: Some("nvidia-smi --gpu-reset --id=GPU"),
            restarts: "everything on the GPU",
            who: "root, and who may touch the hardware",
            risk: "fails while a process has the GPU open",
            source: "nvidia-smi(1)",
        },
    ],
};
