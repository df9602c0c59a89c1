//! Time in which a GPU worked slower than it could.

use super::{About, Remedy};

pub(super) const THERMAL_THROTTLE: About = About {
    meaning: "The GPU ran at reduced clocks because of heat.",
    light: "#a8442a",
    dark: "#cf7a5e",
    remedies: &[
        Remedy {
            action: "See which of the two it is: the hardware's slowdown is a board or a server that is too hot, the \
                     software's a GPU above its working temperature; then compare intake air, fans and the neighbouring \
                     slots.",
            command: Some("nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),
            restarts: "nothing",
            who: "any user on the node",
            risk: "none",
            source: "nvidia-smi(1)",
        },
        Remedy {
            action: "Until it is fixed, keep jobs off the node whose other ranks would wait for it.",
            command: Some("scontrol update nodename=NODE state=drain reason=thermal   # or: kubectl cordon NODE"),
            restarts: "nothing that runs",
            who: "an administrator of the scheduler",
            risk: "the node's other GPUs are out of use too",
            source: "scontrol(1); Kubernetes documentation, kubectl cordon",
        },
    ],
};

pub(super) const POWER_THROTTLE: About = About {
    meaning: "The GPU ran at reduced clocks because of a lowered power limit or the power brake.",
    light: "#8c5a2b",
    dark: "#b98957",
    remedies: &[
        Remedy {
            action: "If the limit was not lowered on purpose, set it back to the stock one.",
            command: Some("nvidia-smi --id=GPU --power-limit=WATTS   # Default Power Limit of: nvidia-smi -q -d POWER"),
            restarts: "nothing",
            who: "root",
            risk: "more heat, and more power than the rack may have been planned for",
            source: "nvidia-smi(1)",
        },
        Remedy {
            action: "The power brake comes from the server: look at its power supplies and their limit.",
            command: Some("ipmitool sdr type 'Power Supply'"),
            restarts: "nothing",
            who: "root",
            risk: "none",
            source: "NVML API reference, clocks event reasons; ipmitool(1)",
        },
    ],
};

pub(super) const CLOCK_LOCKED: About = About {
    meaning: "The GPU ran at a clock that was locked below that of similar GPUs.",
    light: "#6e6a2a",
    dark: "#a5a155",
    remedies: &[
        Remedy {
            action: "See whether clocks are locked and for whom: such a lock is left over from a benchmark, or there to save \
                     power on purpose.",
            command: Some("nvidia-smi -q -d CLOCK,PERFORMANCE"),
            restarts: "nothing",
            who: "any user on the node",
            risk: "none",
            source: "nvidia-smi(1)",
        },
        Remedy {
            action: "If the lock is not intended, lift it; application clocks are lifted by --reset-applications-clocks.",
            command: Some("nvidia-smi --id=GPU --reset-gpu-clocks"),
            restarts: "nothing",
            who: "root",
            risk: "more heat and power; results of benchmarks are no longer comparable with those at the lock",
            source: "nvidia-smi(1)",
        },
    ],
};

pub(super) const PCIE_DEGRADED: About = About {
    meaning: "Copies to the GPU took longer, because its PCIe link was below what GPU and slot can do.",
    light: "#b06a54",
    dark: "#c98d79",
    remedies: &[
        Remedy {
            action: "Compare the link at load with what both ends can do, and with the neighbours; errors of the link point at \
                     its seating, a riser or a cable.",
            command: Some("lspci -vv -s ADDRESS | grep -E 'LnkCap|LnkSta'"),
            restarts: "nothing",
            who: "root",
            risk: "none",
            source: "lspci(8)",
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
