//! Rows of the host collectors.
//!
//! The counters of `numastat` are pages by the kernel's documentation (admin-guide/numastat.rst); the page allocator
//! counts one per allocation, so that a huge page may count once. Disk sectors are 512 bytes whatever the disk
//! (block/stat.rst). cgroup v1 and v2 fill the same rows, so that no consumer needs to know the version.

crate::metric_rows! {
    NUMA_MEMORY_TOTAL = Gauge Bytes "goodput_numa_memory_total_bytes" ["node"] {
        "Memory of the NUMA node.",
        from "/sys/devices/system/node/node*/meminfo MemTotal", by "numa", series "1 per NUMA node", since "0.1.0"
    }
    NUMA_MEMORY_FREE = Gauge Bytes "goodput_numa_memory_free_bytes" ["node"] {
        "Memory of the NUMA node that nothing uses.",
        from "/sys/devices/system/node/node*/meminfo MemFree", by "numa", series "1 per NUMA node", since "0.1.0"
    }
    NUMA_MEMORY_USED = Gauge Bytes "goodput_numa_memory_used_bytes" ["node"] {
        "Memory of the NUMA node in use, page cache included.",
        from "/sys/devices/system/node/node*/meminfo MemUsed", by "numa", series "1 per NUMA node", since "0.1.0",
        for "to see on which NUMA node memory is used up"
    }
    NUMA_HIT = Counter None "goodput_numa_hit_pages_total" ["node"] {
        "Pages allocated on this node as wanted; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat numa_hit", by "numa", series "1 per NUMA node", since "0.1.0",
        for "to compare misses with, as numastat does"
    }
    NUMA_MISS = Counter None "goodput_numa_miss_pages_total" ["node"] {
        "Pages allocated on this node though another was wanted; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat numa_miss", by "numa", series "1 per NUMA node", since "0.1.0"
    }
    NUMA_FOREIGN = Counter None "goodput_numa_foreign_pages_total" ["node"] {
        "Pages wanted on this node but allocated on another; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat numa_foreign", by "numa", series "1 per NUMA node", since "0.1.0",
        for "to find the NUMA node that ran out of memory, as numastat does"
    }
    NUMA_INTERLEAVE = Counter None "goodput_numa_interleave_pages_total" ["node"] {
        "Pages allocated on this node as an interleave policy wanted; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat interleave_hit", by "numa", series "1 per NUMA node", since "0.1.0",
        for "to see that an interleave policy is in use, as numastat does"
    }
    NUMA_LOCAL = Counter None "goodput_numa_local_pages_total" ["node"] {
        "Pages allocated on this node by a process running on it; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat local_node", by "numa", series "1 per NUMA node", since "0.1.0",
        for "the share of allocations that were local, as numastat does"
    }
    NUMA_OTHER = Counter None "goodput_numa_other_pages_total" ["node"] {
        "Pages allocated on this node by a process running on another; a huge page may count once.",
        from "/sys/devices/system/node/node*/numastat other_node", by "numa", series "1 per NUMA node", since "0.1.0",
        for "the share of allocations that were not local, as numastat does"
    }
    NUMA_CPUS = Gauge None "goodput_numa_cpus" ["node"] {
        "Online CPUs of the NUMA node; 0 is a node of memory alone.",
        from "/sys/devices/system/node/node*/cpulist, else cpumap", by "numa", series "1 per NUMA node", since "0.1.0"
    }
    NUMA_DISTANCE = Gauge None "goodput_numa_distance" ["node", "to"] {
        "Relative cost of reaching memory of the other node; 10 is local.",
        from "/sys/devices/system/node/node*/distance", by "numa", series "NUMA nodes x NUMA nodes", since "0.1.0",
        for "to see how far NUMA nodes are from each other when jobs are placed"
    }
    GPU_NUMA = Info None "goodput_gpu_numa_info" ["gpu", "UUID", "node"] {
        "NUMA node that the GPU's PCI slot hangs on; no series when the firmware does not say.",
        from "/sys/bus/pci/devices/*/numa_node", by "numa", series "1 per GPU", since "0.1.0"
    }
    GPU_LOCAL_CPUS = Gauge None "goodput_gpu_local_cpus" ["gpu", "UUID"] {
        "CPUs near the GPU's PCI slot.",
        from "/sys/bus/pci/devices/*/local_cpulist, else local_cpus", by "numa", series "1 per GPU", since "0.1.0"
    }
    GPU_ALLOWED_CPUS = Gauge None "goodput_gpu_numa_allowed_cpus" ["gpu", "UUID", "node"] {
        "CPUs of the NUMA node that the GPU's processes may run on, by the affinity of their first threads.",
        from "/proc/PID/status Cpus_allowed_list, /sys/devices/system/node/node*/cpulist", by "numa", series "1 per GPU in use and NUMA node with CPUs", since "0.1.0"
    }
    NUMA_BALANCING = Gauge None "goodput_numa_balancing_mode" [] {
        "Automatic NUMA balancing: 0 is off, 1 moves pages to the node that uses them, 2 is memory tiering, 3 is both.",
        from "/proc/sys/kernel/numa_balancing", by "numa", series "1", since "0.1.0"
    }
    NUMA_PTE_UPDATES = Counter None "goodput_numa_balancing_pte_updates_total" [] {
        "Page table entries that NUMA balancing unmapped to see who uses the page.",
        from "/proc/vmstat numa_pte_updates", by "numa", series "1", since "0.1.0",
        for "to see what automatic NUMA balancing costs, before it is switched off"
    }
    NUMA_HINT_FAULTS = Counter None "goodput_numa_balancing_hint_faults_total" [] {
        "Page faults on such entries.",
        from "/proc/vmstat numa_hint_faults", by "numa", series "1", since "0.1.0",
        for "to see what automatic NUMA balancing costs, before it is switched off"
    }
    NUMA_HINT_FAULTS_LOCAL = Counter None "goodput_numa_balancing_local_hint_faults_total" [] {
        "Page faults on such entries by a CPU of the page's own node.",
        from "/proc/vmstat numa_hint_faults_local", by "numa", series "1", since "0.1.0",
        for "to see whether automatic NUMA balancing has brought memory near: its share of all hint faults"
    }
    NUMA_MIGRATED = Counter None "goodput_numa_balancing_migrated_pages_total" [] {
        "Pages that NUMA balancing moved to another node.",
        from "/proc/vmstat numa_pages_migrated", by "numa", series "1", since "0.1.0",
        for "to see whether automatic NUMA balancing moves the memory of a job, and how much"
    }
    PRESSURE_WAITING = Counter Seconds "goodput_pressure_waiting_seconds_total" ["resource"] {
        "Time in which at least one task of the node waited for the resource (PSI some).",
        from "/proc/pressure/{cpu,memory,io} some total", by "pressure", series "3", since "0.1.0"
    }
    PRESSURE_STALLED = Counter Seconds "goodput_pressure_stalled_seconds_total" ["resource"] {
        "Time in which every non-idle task of the node waited for the resource at once (PSI full).",
        from "/proc/pressure/{cpu,memory,io,irq} full total", by "pressure", series "4", since "0.1.0"
    }
    NODE_INFO = Info None "goodput_node_info" ["nodename", "hostname"] + ["kernel"] {
        "Names of the node; hostname is the value of the GPU series' host label, which joins them to the host's.",
        from "/proc/sys/kernel/{hostname,osrelease}; /etc/hostname of another root than /", by "node", series "1", since "0.1.0"
    }
    NODE_BOOT_TIME = Gauge Seconds "goodput_node_boot_time_seconds" [] {
        "When the kernel started, in seconds since the epoch.",
        from "/proc/stat btime", by "node", series "1", since "0.1.0"
    }
    NODE_CPUS = Gauge None "goodput_node_cpus" [] {
        "Online CPUs.",
        from "/proc/stat cpuN lines", by "node", series "1", since "0.1.0"
    }
    NODE_CPU_SECONDS = Counter Seconds "goodput_node_cpu_seconds_total" ["mode"] {
        "CPU time by mode, summed over all CPUs; user includes guests.",
        from "/proc/stat cpu", by "node", series "8", since "0.1.0"
    }
    NODE_MEMORY_TOTAL = Gauge Bytes "goodput_node_memory_total_bytes" [] {
        "Memory of the node.",
        from "/proc/meminfo MemTotal", by "node", series "1", since "0.1.0"
    }
    NODE_MEMORY_AVAILABLE = Gauge Bytes "goodput_node_memory_available_bytes" [] {
        "Memory that new work can have without swapping, as the kernel estimates it.",
        from "/proc/meminfo MemAvailable", by "node", series "1", since "0.1.0"
    }
    NODE_DISKS = Gauge None "goodput_node_disks" [] {
        "Whole disks of the node; series are made for the first 64.",
        from "/proc/diskstats, /sys/block", by "node", series "1", since "0.1.0"
    }
    DISK_READ_BYTES = Counter Bytes "goodput_disk_read_bytes_total" ["device"] {
        "Bytes read from the disk.",
        from "/proc/diskstats field 6, sectors of 512 bytes", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    DISK_WRITTEN_BYTES = Counter Bytes "goodput_disk_written_bytes_total" ["device"] {
        "Bytes written to the disk.",
        from "/proc/diskstats field 10, sectors of 512 bytes", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    DISK_READS = Counter None "goodput_disk_reads_completed_total" ["device"] {
        "Reads completed by the disk.",
        from "/proc/diskstats field 4", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    DISK_WRITES = Counter None "goodput_disk_writes_completed_total" ["device"] {
        "Writes completed by the disk.",
        from "/proc/diskstats field 8", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    DISK_READ_TIME = Counter Seconds "goodput_disk_read_time_seconds_total" ["device"] {
        "Time that all reads took together.",
        from "/proc/diskstats field 7", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    DISK_WRITE_TIME = Counter Seconds "goodput_disk_write_time_seconds_total" ["device"] {
        "Time that all writes took together.",
        from "/proc/diskstats field 11", by "node", series "1 per whole disk, at most 64", since "0.1.0",
        for "the mean time of a write, as w_await of iostat is"
    }
    DISK_IO_TIME = Counter Seconds "goodput_disk_io_time_seconds_total" ["device"] {
        "Time in which the disk had at least one request.",
        from "/proc/diskstats field 13", by "node", series "1 per whole disk, at most 64", since "0.1.0"
    }
    OWNER = Info None "goodput_owner_info" ["owner", "cgroup"] + ["pod_uid", "container_id", "slurm_job", "unit", "namespace", "pod", "container", "account"] {
        "Who an owner is: a container, pod, job, unit or plain cgroup that holds a GPU or matches a configured pattern.",
        from "/proc/PID/cgroup; account: SLURM_JOB_ACCOUNT in /proc/PID/environ, with --collector.owner.slurm-account", by "owner", series "1 per owner", since "0.1.0"
    }
    GPU_PROCESSES_UNATTRIBUTED = Gauge None "goodput_gpu_processes_unattributed" [] {
        "Processes on GPUs whose cgroup could not be read: ended, or invisible from the exporter's pid namespace.",
        from "/proc/PID/cgroup", by "owner", series "1", since "0.1.0"
    }
    CGROUP_SKIPPED = Gauge None "goodput_cgroup_skipped" [] {
        "Owners whose cgroup was not read because there are more than 64.",
        from "own bookkeeping", by "cgroup", series "1", since "0.1.0"
    }
    CGROUP_INCLUDE_SKIPPED = Gauge None "goodput_cgroup_include_skipped" [] {
        "Cgroups that match --collector.cgroup.include and were not read because more than 16 do.",
        from "own bookkeeping", by "cgroup", series "1", since "0.1.0"
    }
    CGROUP_CPU_USAGE = Counter Seconds "goodput_cgroup_cpu_usage_seconds_total" ["owner"] {
        "CPU time used by the owner.",
        from "v2 cpu.stat usage_usec; v1 cpuacct.usage", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_CPU_LIMIT = Gauge None "goodput_cgroup_cpu_limit_cores" ["owner"] {
        "CPU quota divided by its period; no series when unlimited.",
        from "v2 cpu.max; v1 cpu.cfs_quota_us, cpu.cfs_period_us", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_CPU_PERIODS = Counter None "goodput_cgroup_cpu_periods_total" ["owner"] {
        "Quota periods in which the owner was runnable.",
        from "cpu.stat nr_periods", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_CPU_THROTTLED_PERIODS = Counter None "goodput_cgroup_cpu_throttled_periods_total" ["owner"] {
        "Quota periods in which the owner was throttled.",
        from "cpu.stat nr_throttled", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_CPU_THROTTLED = Counter Seconds "goodput_cgroup_cpu_throttled_seconds_total" ["owner"] {
        "Time for which the owner's run queues were throttled, summed over CPUs.",
        from "v2 cpu.stat throttled_usec; v1 cpu.stat throttled_time", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_ALLOWED_CPUS = Gauge None "goodput_cgroup_allowed_cpus" ["owner"] {
        "CPUs that the owner may run on.",
        from "v2 cpuset.cpus.effective; v1 cpuset.effective_cpus; without: as goodput_gpu_numa_allowed_cpus", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_NUMA_ALLOWED_CPUS = Gauge None "goodput_cgroup_numa_allowed_cpus" ["owner", "node"] {
        "CPUs of the NUMA node that the owner may run on.",
        from "as goodput_cgroup_allowed_cpus, /sys/devices/system/node/node*/cpulist", by "cgroup", series "1 per owner and NUMA node with CPUs", since "0.1.0"
    }
    CGROUP_ALLOWED_MEMORY = Info None "goodput_cgroup_allowed_memory_info" ["owner", "nodes"] {
        "The NUMA nodes, as a list such as 0-1, whose memory the owner may use.",
        from "v2 cpuset.mems.effective; v1 cpuset.effective_mems; without: /proc/PID/status Mems_allowed_list", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_CURRENT = Gauge Bytes "goodput_cgroup_memory_current_bytes" ["owner"] {
        "Memory charged to the owner, page cache included.",
        from "v2 memory.current; v1 memory.usage_in_bytes", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_MAX = Gauge Bytes "goodput_cgroup_memory_max_bytes" ["owner"] {
        "Memory limit; no series when unlimited.",
        from "v2 memory.max; v1 memory.limit_in_bytes", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_WORKING_SET = Gauge Bytes "goodput_cgroup_memory_working_set_bytes" ["owner"] {
        "Memory charged less inactive page cache: what the limit really presses on.",
        from "current - memory.stat inactive_file", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_ANON = Gauge Bytes "goodput_cgroup_memory_anon_bytes" ["owner"] {
        "Anonymous memory.",
        from "memory.stat v2 anon; v1 total_rss", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_ANON_THP = Gauge Bytes "goodput_cgroup_memory_anon_thp_bytes" ["owner"] {
        "Anonymous memory in transparent huge pages.",
        from "memory.stat v2 anon_thp; v1 total_rss_huge", by "cgroup", series "1 per owner", since "0.1.0",
        for "to see whether a job that asks for huge pages gets them"
    }
    CGROUP_SWAP = Gauge Bytes "goodput_cgroup_swap_current_bytes" ["owner"] {
        "Memory of the owner that is in swap.",
        from "v2 memory.swap.current; v1 memory.stat total_swap", by "cgroup", series "1 per owner", since "0.1.0",
        for "to find the job whose memory is in swap, after an alert on swap"
    }
    CGROUP_MEMORY_FILE = Gauge Bytes "goodput_cgroup_memory_file_bytes" ["owner"] {
        "Page cache, shared memory included.",
        from "memory.stat v2 file; v1 total_cache", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_SHMEM = Gauge Bytes "goodput_cgroup_memory_shmem_bytes" ["owner"] {
        "Shared memory and tmpfs, such as /dev/shm.",
        from "memory.stat v2 shmem; v1 total_shmem", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_HIGH_EVENTS = Counter None "goodput_cgroup_memory_high_events_total" ["owner"] {
        "Times the owner was slowed and made to reclaim for being over memory.high.",
        from "v2 memory.events high", by "cgroup", series "1 per owner (v2)", since "0.1.0"
    }
    CGROUP_MEMORY_MAX_EVENTS = Counter None "goodput_cgroup_memory_max_events_total" ["owner"] {
        "Times the owner ran into its memory limit.",
        from "v2 memory.events max; v1 memory.failcnt", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MEMORY_OOM_EVENTS = Counter None "goodput_cgroup_memory_oom_events_total" ["owner"] {
        "Times an allocation was about to fail at the limit; no series before the first.",
        from "v2 memory.events oom", by "cgroup", series "1 per owner with such events (v2)", since "0.1.0",
        for "to see allocations that failed at the limit where no process was killed for it"
    }
    CGROUP_MEMORY_OOM_KILLS = Counter None "goodput_cgroup_memory_oom_kills_total" ["owner"] {
        "Processes of the owner killed by the OOM killer.",
        from "v2 memory.events oom_kill; v1 memory.oom_control oom_kill", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_MAJOR_FAULTS = Counter None "goodput_cgroup_major_faults_total" ["owner"] {
        "Page faults that had to read from storage.",
        from "memory.stat v2 pgmajfault; v1 total_pgmajfault", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_REFAULTS = Counter None "goodput_cgroup_refault_pages_total" ["owner", "kind"] {
        "Pages that came back soon after they were reclaimed: the memory is too small for the work.",
        from "memory.stat [v1 total_]workingset_refault_{anon,file}", by "cgroup", series "2 per owner", since "0.1.0"
    }
    CGROUP_NUMA_ANON_SHMEM = Gauge Bytes "goodput_cgroup_numa_anon_shmem_bytes" ["owner", "node"] {
        "Anonymous and shared memory of the owner on the NUMA node; v1 leaves out locked memory.",
        from "memory.numa_stat v2 anon + shmem; v1 hierarchical_anon", by "cgroup", series "1 per owner and NUMA node", since "0.1.0"
    }
    CGROUP_NUMA_FILE = Gauge Bytes "goodput_cgroup_numa_file_bytes" ["owner", "node"] {
        "Page cache of files of the owner on the NUMA node; v1 leaves out locked memory.",
        from "memory.numa_stat v2 file - shmem; v1 hierarchical_file", by "cgroup", series "1 per owner and NUMA node", since "0.1.0"
    }
    CGROUP_PRESSURE_WAITING = Counter Seconds "goodput_cgroup_pressure_waiting_seconds_total" ["owner", "resource"] {
        "Time in which at least one task of the owner waited for the resource (PSI some).",
        from "v2 {cpu,memory,io}.pressure some total", by "cgroup", series "3 per owner (v2 and hybrid)", since "0.1.0"
    }
    CGROUP_PRESSURE_STALLED = Counter Seconds "goodput_cgroup_pressure_stalled_seconds_total" ["owner", "resource"] {
        "Time in which every non-idle task of the owner waited for the resource at once (PSI full).",
        from "v2 {cpu,memory,io,irq}.pressure full total", by "cgroup", series "4 per owner (v2 and hybrid)", since "0.1.0"
    }
    CGROUP_READ_BYTES = Counter Bytes "goodput_cgroup_io_read_bytes_total" ["owner"] {
        "Bytes read from block devices, summed over devices, stacked ones included.",
        from "v2 io.stat rbytes; v1 blkio.throttle.io_service_bytes_recursive Read", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_WRITTEN_BYTES = Counter Bytes "goodput_cgroup_io_written_bytes_total" ["owner"] {
        "Bytes written to block devices, summed over devices, stacked ones included.",
        from "v2 io.stat wbytes; v1 blkio.throttle.io_service_bytes_recursive Write", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_READS = Counter None "goodput_cgroup_io_reads_total" ["owner"] {
        "Reads from block devices, summed over devices, stacked ones included.",
        from "v2 io.stat rios; v1 blkio.throttle.io_serviced_recursive Read", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_WRITES = Counter None "goodput_cgroup_io_writes_total" ["owner"] {
        "Writes to block devices, summed over devices, stacked ones included.",
        from "v2 io.stat wios; v1 blkio.throttle.io_serviced_recursive Write", by "cgroup", series "1 per owner", since "0.1.0"
    }
    CGROUP_IO_LIMIT_BYTES = Gauge Bytes "goodput_cgroup_io_limit_bytes" ["owner", "device", "direction"] {
        "Limit on the bytes per second that the owner may read from or write to the block device: in v2 the lowest of its cgroup and those above, in v1 that of its own cgroup. No series without a limit; at most 8 devices per owner.",
        from "v2 io.max rbps, wbps; v1 blkio.throttle.{read,write}_bps_device; /sys/dev/block/*/uevent", by "cgroup", series "1 per owner, device and direction with a limit", since "0.3.0"
    }
    CGROUP_IO_LIMIT_OPERATIONS = Gauge None "goodput_cgroup_io_limit_operations" ["owner", "device", "direction"] {
        "Limit on the reads or writes per second that the owner may make on the block device: in v2 the lowest of its cgroup and those above, in v1 that of its own cgroup. No series without a limit; at most 8 devices per owner.",
        from "v2 io.max riops, wiops; v1 blkio.throttle.{read,write}_iops_device; /sys/dev/block/*/uevent", by "cgroup", series "1 per owner, device and direction with a limit", since "0.3.0"
    }
    CGROUP_IO_WEIGHT = Gauge None "goodput_cgroup_io_weight" ["owner"] {
        "Weight of the owner's block I/O against that of other cgroups: the lowest other than 100, the default, of its cgroup and those above. No series where all have 100; weights of single devices are left out.",
        from "v2 io.weight default", by "cgroup", series "1 per owner with another weight", since "0.3.0"
    }
    CGROUP_IO_LATENCY_TARGET = Gauge Seconds "goodput_cgroup_io_latency_target_seconds" ["owner", "device"] {
        "Target for the latency of the owner's I/O on the block device: the lowest of its cgroup and those above. The kernel holds back I/O of cgroups with a higher target to meet a lower one. No series without a target; at most 8 devices per owner.",
        from "v2 io.latency target; /sys/dev/block/*/uevent", by "cgroup", series "1 per owner and device with a target", since "0.3.0"
    }
    CGROUP_TASKS = Gauge None "goodput_cgroup_tasks" ["owner"] {
        "Tasks (processes and threads) of the owner.",
        from "pids.current", by "cgroup", series "1 per owner", since "0.1.0"
    }
    AUDIT_STATUS = Gauge None "goodput_audit_status" ["check", "status"] {
        "1 for how the check of the node's tuning ended within the last 5 minutes, 0 for how it ended before since the exporter's start: fail, warn, no_permission, error or pass; no series for what a check never was.",
        from "the files that docs/reference/audit.md lists", by "audit", series "1 per check that applies, and 1 for every other status that it had", since "0.1.0"
    }
}
