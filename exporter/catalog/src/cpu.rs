//! Rows of the `cpu` collector.
//!
//! Sums over the CPUs of a NUMA node, never single CPUs; `node` is left out where the kernel knows no nodes. The files
//! in sysfs about each CPU's power are read once a minute: they are many, and reading them wakes the CPUs.

crate::metric_rows! {
    CPU_SECONDS = Counter Seconds "goodput_cpu_seconds_total" ["mode"] + ["node"] {
        "CPU time of the NUMA node's CPUs by mode; user includes guests, steal is what a hypervisor gave to others.",
        from "/proc/stat cpuN", by "cpu", series "8 per NUMA node with CPUs", since "0.1.0"
    }
    CPU_BUSIEST_SOFTIRQ = Counter Seconds "goodput_cpu_busiest_softirq_seconds_total" [] {
        "CPU time in softirqs of whichever CPU spent most in them between two scrapes; the kernel keeps no time by kind.",
        from "/proc/stat cpuN softirq", by "cpu", series "1", since "0.1.0"
    }
    CPU_RUN_DELAY = Counter Seconds "goodput_cpu_run_delay_seconds_total" [] + ["node"] {
        "Time for which tasks were ready to run on the NUMA node's CPUs and waited.",
        from "/proc/schedstat cpuN field 8", by "cpu", series "1 per NUMA node with CPUs", since "0.1.0",
        for "to see on which NUMA node tasks wait for a CPU, where the kernel has no PSI"
    }
    CPU_CONTEXT_SWITCHES = Counter None "goodput_cpu_context_switches_total" [] {
        "Times that a CPU went from one task to another.",
        from "/proc/stat ctxt", by "cpu", series "1", since "0.1.0",
        for "to compare a node that is slow for no visible reason with others of its kind"
    }
    CPU_FORKS = Counter None "goodput_cpu_forks_total" [] {
        "Processes and threads made.",
        from "/proc/stat processes", by "cpu", series "1", since "0.1.0",
        for "to find a node on which something starts processes all the time, such as a health check that forks"
    }
    CPU_RUNNING = Gauge None "goodput_cpu_tasks_running" [] {
        "Tasks that run or wait for a CPU at this moment.",
        from "/proc/stat procs_running", by "cpu", series "1", since "0.1.0",
        for "to compare with the column r of vmstat"
    }
    CPU_BLOCKED = Gauge None "goodput_cpu_tasks_blocked" [] {
        "Tasks that wait for I/O at this moment.",
        from "/proc/stat procs_blocked", by "cpu", series "1", since "0.1.0",
        for "to compare with the column b of vmstat"
    }
    CPU_LOAD = Gauge None "goodput_cpu_load" ["minutes"] {
        "Mean number of tasks that run, wait for a CPU or sleep uninterruptibly, over 1, 5 and 15 minutes.",
        from "/proc/loadavg", by "cpu", series "3", since "0.1.0",
        for "to compare with what uptime and other monitoring show"
    }
    CPU_GOVERNOR = Gauge None "goodput_cpu_governor_policies" ["governor"] {
        "CPU frequency policies that use the governor, usually one per CPU; read every 60 s.",
        from "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", by "cpu", series "1 per governor in use", since "0.1.0"
    }
    CPU_FREQUENCY = Gauge Ratio "goodput_cpu_frequency_ratio" ["statistic"] + ["node"] {
        "Lowest, mean and highest clock of the NUMA node's CPUs, each as a share of the highest that the CPU can do; of idle CPUs kernels tell the last or the nominal clock; read every 60 s, x86 only.",
        from "/proc/cpuinfo cpu MHz, /sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq", by "cpu", series "3 per NUMA node with CPUs", since "0.1.0",
        for "to see CPUs that run below their clock, from a power limit or heat"
    }
    CPU_MAX_FREQUENCY = Gauge Hertz "goodput_cpu_max_frequency_hertz" [] + ["node"] {
        "Highest clock that a CPU of the NUMA node can do.",
        from "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq", by "cpu", series "1 per NUMA node with CPUs", since "0.1.0"
    }
    CPU_IDLE_STATE = Counter Seconds "goodput_cpu_idle_state_seconds_total" ["state"] + ["node"] {
        "Time that the NUMA node's CPUs spent in the idle state; deep ones take long to leave; read every 60 s.",
        from "/sys/devices/system/cpu/cpu*/cpuidle/state*/{name,time}", by "cpu", series "1 per idle state (at most 10) and NUMA node with CPUs", since "0.1.0",
        for "to see whether CPUs use the deep idle states that the check cpu_idle_states warns of"
    }
    CPU_ISOLATED = Gauge None "goodput_cpu_isolated_cpus" [] {
        "CPUs that the scheduler does not balance (isolcpus=); read every 60 s.",
        from "/sys/devices/system/cpu/isolated", by "cpu", series "1", since "0.1.0"
    }
    CPU_TICKLESS = Gauge None "goodput_cpu_tickless_cpus" [] {
        "CPUs without a timer tick while one task has them (nohz_full=); read every 60 s.",
        from "/sys/devices/system/cpu/nohz_full", by "cpu", series "1", since "0.1.0"
    }
    CPU_SMT = Gauge None "goodput_cpu_smt_active" [] {
        "1 when cores run two threads or more (hyper-threading); read every 60 s.",
        from "/sys/devices/system/cpu/smt/active", by "cpu", series "1", since "0.1.0"
    }
}
