//! Time in which a GPU waited for its input.

use super::{Basis, ClassInfo, Gain, Grade, Group, Remedy};

/// Doubling the workers took utilisation from 70 to 85 %: half of what was lost. Removing stalls took it from 70 to
/// above 95 %: 25 of 30 points.
const MORE_INPUT: Gain = Gain {
    low: 0.5,
    high: 0.83,
    basis: Basis::Loss,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 4 (more loader workers) and chapter 12 (I/O \
             stalls removed)",
};

/// Copies from pinned memory are two to three times as fast as from pageable memory.
const PINNED_COPIES: Gain = Gain {
    low: 0.5,
    high: 0.67,
    basis: Basis::Loss,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 3: copies from pinned memory, where they are from \
             pageable memory now",
};

const PINNING: Gain = Gain {
    low: 0.05,
    high: 0.10,
    basis: Basis::Throughput,
    grade: Grade::Book,
    source: "AI Systems Performance Engineering (early release), chapter 3: NUMA awareness and CPU pinning",
};

pub(super) const DATALOADER_CPU: ClassInfo = ClassInfo {
    name: "dataloader_cpu",
    title: "Late input from CPU workers",
    group: Group::Feeding,
    version: 6,
    meaning: "The GPU waited for input that CPU workers were late to prepare.",
    light: "#4551b0",
    dark: "#899fff",
    key: "D",
    check: "gpu_busy rises; CPU use and CPU pressure of the job fall below their thresholds.",
    gain: Some(&MORE_INPUT),
    remedies: &[
        Remedy {
            action: "Use more loader workers, up to the CPUs that the job may use, and keep them between epochs.",
            command: Some("DataLoader(..., num_workers=16, persistent_workers=True, prefetch_factor=4)"),
            risk: "each worker takes host memory and shared memory; more workers than CPUs slow each other down",
            source: "PyTorch documentation, torch.utils.data",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "If the workers already use all CPUs of the job, ask for more CPUs per GPU.",
            command: Some("sbatch --cpus-per-gpu=16 ..."),
            risk: "a larger request may wait longer in the queue",
            source: "sbatch(1)",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const DATALOADER_STORAGE: ClassInfo = ClassInfo {
    name: "dataloader_storage",
    title: "Late input from storage",
    group: Group::Feeding,
    version: 7,
    meaning: "The GPU waited for input that storage was late to deliver.",
    light: "#6684d1",
    dark: "#a7cbe6",
    key: "S",
    check: "gpu_busy rises; job_io_pressure falls below its threshold.",
    gain: Some(&MORE_INPUT),
    remedies: &[
        Remedy {
            action: "See whether an I/O limit is set on the job's cgroup by mistake.",
            command: Some("cd CGROUP && grep -H . io.max io.pressure"),
            who: "any user on the node",
            source: "Linux kernel documentation, admin-guide/cgroup-v2, IO interface files",
            ..Remedy::LIVE
        },
        Remedy {
            action: "Stage the data set on the node's own disk before training, or pack small files into large ones that \
                 are read in sequence.",
            risk: "staging takes disk space and time at the start of the job",
            source: "WebDataset documentation",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "Read further ahead, so that a late read is hidden behind computation.",
            command: Some("DataLoader(..., prefetch_factor=8)"),
            risk: "prefetched batches take host memory",
            source: "PyTorch documentation, torch.utils.data",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const HOST_NOISE: ClassInfo = ClassInfo {
    name: "host_noise",
    title: "CPUs taken by other work",
    group: Group::Feeding,
    version: 2,
    meaning: "The GPU waited while other work, or the hypervisor, had the CPUs that the job may use.",
    light: "#436aad",
    dark: "#7785bc",
    key: "H",
    check: "job_cpu_pressure falls below its threshold while the job works.",
    gain: Some(&PINNING),
    remedies: &[
        Remedy {
            action: "Give the job CPUs of its own: on Kubernetes whole CPUs, requests equal to limits, under the kubelet's \
                 static CPU manager.",
            command: None,
            restarts: "a change of policy drains the node; the pod is replaced",
            who: "the administrator of the kubelets",
            risk: "CPUs that the job leaves idle serve no other pod",
            source: "Kubernetes documentation, Control CPU Management Policies on the Node",
        },
        Remedy {
            action: "Keep a noisy service of systemd off the job's CPUs.",
            command: Some("systemctl set-property UNIT AllowedCPUs=0-31"),
            risk: "the service has fewer CPUs",
            source: "systemd.resource-control(5)",
            ..Remedy::LIVE
        },
    ],
};

pub(super) const IRQ_PLACEMENT: ClassInfo = ClassInfo {
    name: "irq_placement",
    title: "CPUs taken by interrupts",
    group: Group::Feeding,
    version: 2,
    meaning: "The GPU waited while interrupts of devices had the CPUs of the job's loaders.",
    light: "#1e9ae5",
    dark: "#cadcfe",
    key: "Q",
    check: "job_interrupts falls, and with it the CPU pressure of the job.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Have irqbalance leave the job's CPUs alone.",
            command: Some(
                "IRQBALANCE_BANNED_CPULIST=0-31   # in irqbalance's environment file; then: systemctl restart irqbalance",
            ),
            restarts: "irqbalance",
            who: "root",
            risk: "the CPUs that are left serve all interrupts",
            source: "irqbalance(1)",
        },
        Remedy {
            action: "Without irqbalance, move an interrupt to CPUs of its device's NUMA node that the job does not use.",
            command: Some(
                "grep -H . /proc/irq/*/smp_affinity_list   # then, of interrupt 120: echo 32-47 > /proc/irq/120/smp_affinity_list",
            ),
            risk: "is lost when the driver is loaded again; interrupts that the kernel manages refuse it",
            source: "Linux documentation, SMP IRQ affinity",
            ..Remedy::LIVE
        },
    ],
};

pub(super) const MEMORY_PRESSURE: ClassInfo = ClassInfo {
    name: "memory_pressure",
    title: "Job waited for memory",
    group: Group::Feeding,
    version: 2,
    meaning: "The GPU waited while the job waited for memory.",
    light: "#2a3493",
    dark: "#9db5ff",
    key: "R",
    check: "job_memory_pressure falls below its threshold.",
    gain: None,
    remedies: &[Remedy {
        action: "Give the job its measured peak and headroom, request and limit alike; or fewer loader workers and less \
             prefetch.",
        command: Some("cd CGROUP && grep -H . memory.peak memory.events"),
        restarts: "the job, from its last checkpoint, when its limit is part of its definition",
        who: "the job's owner",
        risk: "a larger request may not fit on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, memory interface files",
    }],
};

pub(super) const THP_COMPACTION: ClassInfo = ClassInfo {
    name: "thp_compaction",
    title: "Kernel compacted memory",
    group: Group::Feeding,
    version: 1,
    meaning: "The GPU waited while the job waited for the kernel to compact memory for huge pages.",
    light: "#435f81",
    dark: "#719eca",
    key: "Y",
    check: "node_compaction_stalls and the memory pressure of the job fall below their thresholds.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Let page faults take small pages at once, and huge ones be made in the background; programs that ask for \
                     huge pages still wait for them.",
            command: Some("echo defer+madvise > /sys/kernel/mm/transparent_hugepage/defrag"),
            risk: "less memory in huge pages at first; is lost at the next boot",
            source: "Linux documentation, Transparent Hugepage Support",
            ..Remedy::LIVE
        },
        Remedy {
            action: "Let only programs that ask for them have huge pages.",
            command: Some("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
            restarts: "nothing; pages that are huge stay so",
            who: "root",
            risk: "programs that gained from huge pages without asking lose that",
            source: "Linux documentation, Transparent Hugepage Support",
        },
    ],
};

pub(super) const CROSS_NUMA: ClassInfo = ClassInfo {
    name: "cross_numa",
    title: "Fed from another NUMA node",
    group: Group::Feeding,
    version: 3,
    meaning: "The job fed the GPU from another NUMA node, and fell behind a GPU that is fed from its own.",
    light: "#8791be",
    dark: "#587f9a",
    key: "B",
    check: "The advisory is gone, and the GPU works as much as its neighbours.",
    gain: Some(&PINNING),
    remedies: &[Remedy {
        action: "Bind each process to the NUMA node of its GPU; goodput_gpu_numa_info names it.",
        command: Some("numactl --cpunodebind=0 --membind=0 python train.py   # the GPU's node: nvidia-smi topo -m"),
        restarts: "the job: memory in use stays where it is",
        who: "the job's owner",
        risk: "memory of one node alone must suffice",
        source: "numactl(8)",
    }],
};

pub(super) const HOST_TO_DEVICE: ClassInfo = ClassInfo {
    name: "host_to_device",
    title: "Late copies over PCIe",
    group: Group::Feeding,
    version: 3,
    meaning: "The GPU waited for batches on their way to it over PCIe.",
    light: "#1f7dce",
    dark: "#5e73d6",
    key: "V",
    check: "gpu_busy rises, and with it pcie_receive: the same bytes take less of each minute.",
    gain: Some(&PINNED_COPIES),
    remedies: &[
        Remedy {
            action: "Load batches into pinned memory and copy them while the batch before is computed.",
            command: Some("DataLoader(..., pin_memory=True)   # and: batch.to(device, non_blocking=True)"),
            risk: "pinned memory cannot be swapped or reclaimed; without a sufficient locked-memory limit pinning fails",
            source: "PyTorch documentation, CUDA semantics, Use pinned memory buffers",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "See whether the link runs at the generation and width that it can.",
            command: Some("nvidia-smi -q -d PCIE   # Link Info: Max and Current, while it works"),
            who: "any user on the node",
            source: "nvidia-smi(1)",
            ..Remedy::LIVE
        },
    ],
};

pub(super) const LAUNCH_BOUND: ClassInfo = ClassInfo {
    name: "launch_bound",
    title: "Small kernels, launched late",
    group: Group::Feeding,
    version: 5,
    meaning: "The GPU's kernels were over before the job's thread had launched the next one.",
    light: "#0b5493",
    dark: "#85b3d2",
    key: "L",
    check: "sm_active and power rise towards what the same job reaches in other minutes.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Launch many kernels at once: capture the step in a CUDA graph, or let the compiler fuse and capture it.",
            command: Some("torch.compile(model, mode=\"reduce-overhead\")"),
            risk: "shapes that change are compiled again; graphs keep their memory",
            source: "PyTorch documentation, torch.compile",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "See what the launching thread is busy with: loops over small tensors, logging, waiting for results.",
            command: Some(
                "py-spy top --pid $(nvidia-smi --id=GPU --query-compute-apps=pid --format=csv,noheader | head -n1)",
            ),
            restarts: "nothing",
            who: "the job's owner or root",
            risk: "sampling costs the process a little time",
            source: "py-spy documentation",
        },
        Remedy {
            action: "Larger batches make larger kernels, where device memory allows.",
            risk: "convergence may depend on the size of the batch",
            source: "PyTorch documentation, Performance Tuning Guide",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const FEEDING_UNSPLIT: ClassInfo = ClassInfo {
    name: "feeding_unsplit",
    title: "Late input, cause unknown",
    group: Group::Feeding,
    version: 4,
    meaning: "The GPU worked on and off, as one that waits for its input, and nothing that was stored tells for what.",
    light: "#5d7393",
    dark: "#6690e8",
    key: "F",
    check: "The time has a class of its own in the next report.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Run goodput-exporter on the node: with the CPU time, the pressure and the I/O of the node and its jobs, \
                     this time gets the class that it belongs to.",
            who: "the administrator of the node",
            risk: "none known",
            source: "docs/use/exporter.md",
            ..Remedy::LIVE
        },
        Remedy {
            action: "Where that cannot be, node_exporter with its pressure collector tells late reads from slow preparation \
                     for the node as a whole.",
            command: Some("node_exporter --collector.pressure"),
            restarts: "node_exporter",
            who: "the administrator of the node",
            risk: "none",
            source: "node_exporter's README, collectors",
        },
    ],
};
