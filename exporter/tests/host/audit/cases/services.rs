//! Daemons and the kubelet.

use goodput_exporter::audit::Status;

use super::{Case, Odd, case};

/// One NVSwitch with its fabric manager, a kubelet, and a container's writable layer.
pub(super) const TUNED: &[(&str, &str)] = &[
    ("sys/bus/pci/devices/0000:c5:00.0/class", "0x068000\n"),
    ("sys/bus/pci/devices/0000:c5:00.0/vendor", "0x10de\n"),
    ("run/nvidia-fabricmanager/nv-fabricmanager.pid", "60\n"),
    ("proc/60/comm", "nv-fabricmanage\n"),
    ("proc/100/mountinfo", "90 80 0:55 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/u/1,workdir=/w\n"),
    ("proc/1/mountinfo", "24 1 259:9 / / rw shared:1 - xfs /dev/nvme9n1 rw\n"),
    ("sys/dev/block/259:9/uevent", "DEVNAME=nvme9n1\n"),
    ("sys/dev/block/259:9/queue/rotational", "0\n"),
    (
        "var/lib/kubelet/config.yaml",
        "kind: KubeletConfiguration\ncpuManagerPolicy: static\ntopologyManagerPolicy: restricted\n\
         memoryManagerPolicy: Static\n",
    ),
    ("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\n"),
    (CPU_STATE, "{\"policyName\":\"static\",\"defaultCpuSet\":\"0-7\"}\n"),
];

const CPU_STATE: &str = "var/lib/kubelet/cpu_manager_state";
const KUBELET: &str = "var/lib/kubelet/config.yaml";

pub(super) const WRONG: &[Case] = &[
    case(
        "nouveau",
        "proc/modules",
        "nouveau 1 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n",
        Status::Fail,
        "loaded",
        "blacklist",
    ),
    case(
        "fabric_manager",
        "proc/60/comm",
        "bash\n",
        Status::Warn,
        "no sign of it, with 1 NVSwitches",
        "systemctl enable",
    ),
    case(
        "irqbalance",
        "proc/irq/31/effective_affinity_list",
        "0\n",
        Status::Warn,
        "cannot be seen: 2 interrupts on CPU 0",
        "systemctl enable --now irqbalance",
    ),
    case(
        "cuda_driver",
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Release Build\n",
        Status::Warn,
        "470.256.02 runs CUDA 11",
        "driver",
    ),
    case(
        "overlay_layer",
        "sys/dev/block/259:9/queue/rotational",
        "1\n",
        Status::Warn,
        "on nvme9n1, which rotates",
        "NVMe",
    ),
    case(
        "kubelet_cpu_manager",
        KUBELET,
        "kind: KubeletConfiguration\ncpuManagerPolicy: Static\n",
        Status::Warn,
        "\"Static\", which is none of the known names: none, static",
        "cpuManagerPolicy: static",
    ),
    case(
        "kubelet_memory_manager",
        KUBELET,
        "kind: KubeletConfiguration\nmemoryManagerPolicy: static\n",
        Status::Warn,
        "\"static\", which is none of the known names: None, Static",
        "memoryManagerPolicy: Static",
    ),
    case(
        "kubelet_topology_manager",
        KUBELET,
        "kind: KubeletConfiguration\ntopologyManagerPolicy: single-numa-node\n",
        Status::Warn,
        "single-numa-node, with GPUs on 2 NUMA nodes",
        "best-effort",
    ),
];

pub(super) const ODD: &[Odd] = &[
    ("nouveau", "proc/modules", None, Status::NotApplicable),
    ("fabric_manager", "sys/bus/pci/devices/0000:c5:00.0", None, Status::NotApplicable),
    ("fabric_manager", "run/nvidia-fabricmanager", None, Status::Warn),
    ("fabric_manager", "run/nvidia-fabricmanager/nv-fabricmanager.pid", Some("me\n"), Status::Error),
    ("irqbalance", "proc/interrupts", None, Status::NotApplicable),
    ("irqbalance", "etc/default/irqbalance", Some("IRQBALANCE_BANNED_CPULIST=all\n"), Status::Error),
    ("cuda_driver", "proc/driver", None, Status::NotApplicable),
    ("cuda_driver", "proc/driver/nvidia/version", Some("unknown\n"), Status::Error),
    ("overlay_layer", "proc/100/mountinfo", None, Status::NotApplicable),
    ("overlay_layer", "proc/100/mountinfo", Some("90 80 0:55 /\n"), Status::Error),
    ("overlay_layer", "proc/1/mountinfo", Some("24 1 0:40 / / rw - nfs4 nas:/ rw\n"), Status::Warn),
    ("overlay_layer", "sys/dev/block", None, Status::NotApplicable),
    ("kubelet_cpu_manager", "var", None, Status::NotApplicable),
    ("kubelet_cpu_manager", KUBELET, Some("cpuManagerPolicy: [static]\n"), Status::Error),
    ("kubelet_cpu_manager", CPU_STATE, Some("static\n"), Status::Error),
    ("kubelet_cpu_manager", CPU_STATE, Some("{\"policyName\":\"none\"}\n"), Status::Warn),
    ("kubelet_cpu_manager", CPU_STATE, None, Status::Pass),
    ("kubelet_cpu_manager", KUBELET, Some("kind: KubeletConfiguration\n"), Status::Pass),
    ("kubelet_topology_manager", KUBELET, Some("topologyManagerPolicy: {}\n"), Status::Error),
    ("kubelet_topology_manager", KUBELET, Some("topologyManagerScope: node\n"), Status::Warn),
    ("kubelet_topology_manager", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("kubelet_memory_manager", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("kubelet_memory_manager", "var/lib", None, Status::NotApplicable),
];
