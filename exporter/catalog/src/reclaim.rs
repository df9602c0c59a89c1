//! Rows of the `memory` collector: what the node's memory is used for, and what the kernel does to get some back.
//! How much there is, swap and huge pages are rows of `node`, `swap` and `thp`.

crate::metric_rows! {
    MEMORY_CACHED = Gauge Bytes "goodput_memory_cached_bytes" [] {
        "Page cache of files, shared memory included.",
        from "/proc/meminfo Cached", by "memory", series "1", since "0.1.0",
        for "memory that free calls cached, to compare with usage"
    }
    MEMORY_SHMEM = Gauge Bytes "goodput_memory_shmem_bytes" [] {
        "Shared memory and tmpfs, such as /dev/shm; only swap can free it.",
        from "/proc/meminfo Shmem", by "memory", series "1", since "0.1.0",
        for "to find memory in /dev/shm and tmpfs that belongs to no process any more"
    }
    MEMORY_ANON = Gauge Bytes "goodput_memory_anon_bytes" [] {
        "Anonymous memory of processes.",
        from "/proc/meminfo AnonPages", by "memory", series "1", since "0.1.0",
        for "a picture of what memory is used for, with the other parts of it"
    }
    MEMORY_DIRTY = Gauge Bytes "goodput_memory_dirty_bytes" [] {
        "Page cache that waits to be written to storage.",
        from "/proc/meminfo Dirty", by "memory", series "1", since "0.1.0"
    }
    MEMORY_WRITEBACK = Gauge Bytes "goodput_memory_writeback_bytes" [] {
        "Page cache that is being written to storage.",
        from "/proc/meminfo Writeback", by "memory", series "1", since "0.1.0"
    }
    MEMORY_DIRTY_LIMIT = Gauge Bytes "goodput_memory_dirty_limit_bytes" ["kind"] {
        "Dirty page cache at which writing begins in the background, and at which writers must wait for it (throttle).",
        from "/proc/vmstat nr_dirty_background_threshold, nr_dirty_threshold, pages", by "memory", series "2", since "0.1.0"
    }
    MEMORY_SLAB = Gauge Bytes "goodput_memory_slab_bytes" ["kind"] {
        "Memory of the kernel's own objects; reclaimable is caches of names and inodes.",
        from "/proc/meminfo SReclaimable, SUnreclaim", by "memory", series "2", since "0.1.0",
        for "to find memory that the kernel itself uses, after a kill by the OOM killer"
    }
    MEMORY_PAGE_TABLES = Gauge Bytes "goodput_memory_page_tables_bytes" [] {
        "Page tables of processes.",
        from "/proc/meminfo PageTables", by "memory", series "1", since "0.1.0",
        for "to find memory that belongs to no job: huge mappings without huge pages have large tables"
    }
    MEMORY_MLOCKED = Gauge Bytes "goodput_memory_mlocked_bytes" [] {
        "Memory that programs locked; what CUDA and RDMA pin is not known to be among it.",
        from "/proc/meminfo Mlocked", by "memory", series "1", since "0.1.0",
        for "to find memory that reclaim cannot free, after a kill by the OOM killer"
    }
    MEMORY_UNEVICTABLE = Gauge Bytes "goodput_memory_unevictable_bytes" [] {
        "Memory that reclaim must leave alone, locked memory included.",
        from "/proc/meminfo Unevictable", by "memory", series "1", since "0.1.0",
        for "to find memory that reclaim cannot free, after a kill by the OOM killer"
    }
    MEMORY_PINNED = Gauge Bytes "goodput_memory_pinned_bytes" [] {
        "Memory that drivers hold in place for devices; a page that is pinned twice counts twice.",
        from "/proc/vmstat nr_foll_pin_acquired - nr_foll_pin_released, pages", by "memory", series "1", since "0.1.0",
        for "to find memory that drivers hold for GPUs and NICs, which reclaim cannot free"
    }
    MEMORY_COMMITTED = Gauge Bytes "goodput_memory_committed_bytes" [] {
        "Memory that processes were promised; more than there is means that not all can have it at once.",
        from "/proc/meminfo Committed_AS", by "memory", series "1", since "0.1.0",
        for "to see why an allocation fails under vm.overcommit_memory 2, against goodput_memory_commit_limit_bytes"
    }
    MEMORY_COMMIT_LIMIT = Gauge Bytes "goodput_memory_commit_limit_bytes" [] {
        "Most memory that is promised, which only holds with vm.overcommit_memory 2.",
        from "/proc/meminfo CommitLimit", by "memory", series "1", since "0.1.0",
        for "to see why an allocation fails under vm.overcommit_memory 2, against goodput_memory_committed_bytes"
    }
    MEMORY_CORRUPTED = Gauge Bytes "goodput_memory_hardware_corrupted_bytes" [] {
        "Memory taken out of use for hardware errors.",
        from "/proc/meminfo HardwareCorrupted", by "memory", series "1", since "0.1.0"
    }
    MEMORY_SCANNED = Counter None "goodput_memory_reclaim_scanned_pages_total" ["by"] {
        "Pages looked at to free memory: direct is by the tasks that need it, which wait meanwhile; kswapd is in the background.",
        from "/proc/vmstat pgscan_{direct,kswapd}*, summed over zones", by "memory", series "2", since "0.1.0",
        for "to see who reclaims, tasks or kswapd, and how well: against the pages freed"
    }
    MEMORY_RECLAIMED = Counter None "goodput_memory_reclaim_freed_pages_total" ["by"] {
        "Pages freed so; few of those looked at means that little is left to free.",
        from "/proc/vmstat pgsteal_{direct,kswapd}*, summed over zones", by "memory", series "2", since "0.1.0",
        for "to see how well reclaim works: pages freed of those looked at"
    }
    MEMORY_THROTTLES = Counter None "goodput_memory_reclaim_throttles_total" [] {
        "Times that a task in direct reclaim was put to sleep until kswapd had freed some.",
        from "/proc/vmstat pgscan_direct_throttle", by "memory", series "1", since "0.1.0",
        for "to see tasks that sleep until kswapd has freed memory: the node is out of it at times"
    }
    MEMORY_REFAULTS = Counter None "goodput_memory_refault_pages_total" ["kind"] {
        "Pages that came back soon after they were reclaimed: the memory is too small for the work.",
        from "/proc/vmstat workingset_refault_{anon,file}; older kernels count files alone", by "memory", series "2", since "0.1.0",
        for "to see that the whole node has too little page cache, where no cgroup tells it"
    }
    MEMORY_MAJOR_FAULTS = Counter None "goodput_memory_major_faults_total" [] {
        "Page faults that had to read from storage.",
        from "/proc/vmstat pgmajfault", by "memory", series "1", since "0.1.0",
        for "to see waiting for pages of programs and mapped files on the whole node, where no cgroup tells it"
    }
    MEMORY_OOM_KILLS = Counter None "goodput_memory_oom_kills_total" [] {
        "Processes killed because memory ran out, of the node or of a cgroup.",
        from "/proc/vmstat oom_kill", by "memory", series "1", since "0.1.0",
        for "to see all kills of the node, those of cgroups without a GPU and where the kernel log may not be read included"
    }
}
