//! Rows of the `irq` collector.
//!
//! The `node` of a count is that of the CPU that took the interrupt, and is left out where the kernel does not say; the
//! `node` of `goodput_irq_device_info` is the device's own. Counts on other nodes than its own are taken off-node, unless
//! the device's interrupts are managed by the kernel, which spreads those over all CPUs by design.
//!
//! Softirqs are counts by kind, because the kernel keeps no time of each kind; the time of all kinds together is
//! `goodput_cpu_seconds_total{mode="softirq"}`, and that of the busiest CPU `goodput_cpu_busiest_softirq_seconds_total`.
//!
//! The kernel's own counts wrap at 32 bits and vanish with an interrupt; these go on.

crate::metric_rows! {
    IRQ_DEVICE = Info None "goodput_irq_device_info" ["device", "class", "managed"] + ["node", "gpu", "UUID"] {
        "A PCI device (gpu, nic, nvme, or other storage and accelerators) with interrupts, and its NUMA node; managed: the kernel places them, one queue per CPU.",
        from "/sys/bus/pci/devices/*/{class,vendor,numa_node}", by "irq", series "1 per device, at most 64", since "0.1.0"
    }
    IRQ_DEVICES = Gauge None "goodput_irq_devices" [] {
        "PCI devices of interest that have interrupts; series are made for the first 64.",
        from "/proc/interrupts", by "irq", series "1", since "0.1.0"
    }
    IRQ_INTERRUPTS = Counter None "goodput_irq_interrupts_total" ["device", "class"] + ["node"] {
        "Message-signalled interrupts of the PCI device, by the NUMA node of the CPU that took them.",
        from "/proc/interrupts", by "irq", series "1 per device (at most 64) and NUMA node with CPUs", since "0.1.0"
    }
    IRQ_BUSIEST_CPU = Counter None "goodput_irq_busiest_cpu_interrupts_total" ["device", "class"] {
        "Interrupts of the PCI device taken by whichever CPU took most of them between two scrapes; only with managed=\"false\".",
        from "/proc/interrupts", by "irq", series "1 per device, at most 64", since "0.1.0",
        for "to see whether one CPU takes all interrupts of a device"
    }
    IRQ_MOVABLE = Counter None "goodput_irq_movable_interrupts_total" [] {
        "Interrupts of the devices with managed=\"false\", on all CPUs, since the exporter's start.",
        from "/proc/interrupts", by "irq", series "1", since "0.1.0"
    }
    IRQ_OWNER_CPUS = Counter None "goodput_irq_owner_cpus_interrupts_total" ["owner"] {
        "Interrupts of goodput_irq_movable_interrupts_total taken by CPUs that the owner may run on, since the owner was first seen; owners may share CPUs.",
        from "/proc/interrupts, as goodput_cgroup_allowed_cpus", by "irq", series "1 per owner of a GPU, at most 64", since "0.1.0"
    }
    SOFTIRQS = Counter None "goodput_irq_softirqs_total" ["kind"] + ["node"] {
        "Softirqs of the kind run by the CPUs of the NUMA node.",
        from "/proc/softirqs", by "irq", series "10 per NUMA node with CPUs", since "0.1.0",
        for "to see which kind of softirq takes the time that a verdict of irq_placement names"
    }
    SOFTNET_PROCESSED = Counter None "goodput_softnet_processed_packets_total" [] {
        "Packets that the network stack took from its queues.",
        from "/proc/net/softnet_stat word 1", by "irq", series "1", since "0.1.0",
        for "to see the packets per second of the node, against squeezes and drops"
    }
    SOFTNET_DROPPED = Counter None "goodput_softnet_dropped_packets_total" [] {
        "Packets dropped because a CPU's backlog was full.",
        from "/proc/net/softnet_stat word 2", by "irq", series "1", since "0.1.0"
    }
    SOFTNET_SQUEEZED = Counter None "goodput_softnet_squeezes_total" [] {
        "Times that a CPU stopped receiving with packets left, for having used up its budget or time.",
        from "/proc/net/softnet_stat word 3", by "irq", series "1", since "0.1.0",
        for "to see that CPUs do not keep up with packets before any are dropped"
    }
    IRQBALANCE_RUNNING = Gauge None "goodput_irqbalance_running" [] {
        "1 when irqbalance, which moves interrupts between CPUs, is among the node's processes; no series where those cannot be seen; looked for every 60 s.",
        from "/proc/*/comm", by "irq", series "1", since "0.1.0"
    }
    IRQBALANCE_INFO = Info None "goodput_irqbalance_info" ["mode", "policy_script"] + ["hint_policy"] {
        "Settings of irqbalance: to go on (daemon) or to balance once (oneshot), whether scripts decide for single interrupts, and what becomes of the kernel's affinity hints (exact, subset, ignore); read every 60 s.",
        from "/etc/{default,sysconfig}/irqbalance", by "irq", series "1 where irqbalance has settings", since "0.1.0"
    }
    IRQBALANCE_BANNED_CPUS = Gauge None "goodput_irqbalance_banned_cpus" [] {
        "CPUs to which irqbalance is told to move no interrupts; no series where it is told nothing: then it spares the isolated and the tickless ones; read every 60 s.",
        from "/etc/{default,sysconfig}/irqbalance IRQBALANCE_BANNED_{CPULIST,CPUS}", by "irq", series "1 when set", since "0.1.0"
    }
}
