//! Rows of the `swap` and `thp` collectors.

crate::metric_rows! {
    SWAP_IN = Counter Bytes "goodput_swap_in_bytes_total" [] {
        "Memory read back from swap devices.",
        from "/proc/vmstat pswpin, pages", by "swap", series "1", since "0.1.0"
    }
    SWAP_OUT = Counter Bytes "goodput_swap_out_bytes_total" [] {
        "Memory written to swap devices.",
        from "/proc/vmstat pswpout, pages", by "swap", series "1", since "0.1.0"
    }
    SWAP_TOTAL = Gauge Bytes "goodput_swap_total_bytes" [] {
        "Size of all swap.",
        from "/proc/meminfo SwapTotal", by "swap", series "1", since "0.1.0"
    }
    SWAP_FREE = Gauge Bytes "goodput_swap_free_bytes" [] {
        "Swap that holds nothing; less than the total may be old news, so look at swap out.",
        from "/proc/meminfo SwapFree", by "swap", series "1", since "0.1.0"
    }
    SWAP_DEVICE_SIZE = Gauge Bytes "goodput_swap_device_size_bytes" ["device", "kind"] {
        "Size of the swap partition or file.",
        from "/proc/swaps", by "swap", series "1 per swap device", since "0.1.0"
    }
    SWAP_DEVICE_USED = Gauge Bytes "goodput_swap_device_used_bytes" ["device", "kind"] {
        "Bytes that the swap partition or file holds.",
        from "/proc/swaps", by "swap", series "1 per swap device", since "0.1.0"
    }
    SWAPPINESS = Gauge None "goodput_swap_swappiness" [] {
        "vm.swappiness: 0 avoids swapping, 100 weighs swap and page cache equally, 200 prefers swapping.",
        from "/proc/sys/vm/swappiness", by "swap", series "1", since "0.1.0"
    }
    ZSWAP_ENABLED = Gauge None "goodput_swap_zswap_enabled" [] {
        "1 when zswap compresses pages in memory before they reach a swap device.",
        from "/sys/module/zswap/parameters/enabled", by "swap", series "1", since "0.1.0"
    }
    ZSWAP_POOL = Gauge Bytes "goodput_swap_zswap_pool_bytes" [] {
        "Memory that zswap's compressed pages take.",
        from "/proc/meminfo Zswap", by "swap", series "1", since "0.1.0",
        for "to see how well zswap compresses: against goodput_swap_zswap_stored_bytes"
    }
    ZSWAP_STORED = Gauge Bytes "goodput_swap_zswap_stored_bytes" [] {
        "Memory that zswap's pages took before they were compressed.",
        from "/proc/meminfo Zswapped", by "swap", series "1", since "0.1.0",
        for "to see how well zswap compresses: against goodput_swap_zswap_pool_bytes"
    }
    ZSWAP_IN = Counter Bytes "goodput_swap_zswap_in_bytes_total" [] {
        "Memory taken back from zswap.",
        from "/proc/vmstat zswpin, pages", by "swap", series "1", since "0.1.0",
        for "to see how much is read back from zswap, at the cost of CPU time"
    }
    ZSWAP_OUT = Counter Bytes "goodput_swap_zswap_out_bytes_total" [] {
        "Memory put into zswap.",
        from "/proc/vmstat zswpout, pages", by "swap", series "1", since "0.1.0",
        for "to see how much zswap takes in the place of a swap device"
    }
    THP = Info None "goodput_thp_info" ["enabled"] + ["defrag", "shmem"] {
        "Who gets transparent huge pages, who waits for compaction to get one, and which shared memory gets them.",
        from "/sys/kernel/mm/transparent_hugepage/{enabled,defrag,shmem_enabled}", by "thp", series "1", since "0.1.0"
    }
    THP_ANON = Gauge Bytes "goodput_thp_anon_bytes" [] {
        "Anonymous memory in transparent huge pages.",
        from "/proc/meminfo AnonHugePages", by "thp", series "1", since "0.1.0",
        for "to see whether programs get huge pages at all, after a change of thp_enabled"
    }
    THP_FAULT_ALLOC = Counter None "goodput_thp_fault_alloc_total" [] {
        "Huge pages given on a page fault.",
        from "/proc/vmstat thp_fault_alloc", by "thp", series "1", since "0.1.0"
    }
    THP_FAULT_FALLBACK = Counter None "goodput_thp_fault_fallback_total" [] {
        "Page faults that wanted a huge page and got small ones.",
        from "/proc/vmstat thp_fault_fallback", by "thp", series "1", since "0.1.0"
    }
    THP_COLLAPSE_ALLOC = Counter None "goodput_thp_collapse_alloc_total" [] {
        "Huge pages that khugepaged allocated to replace small ones.",
        from "/proc/vmstat thp_collapse_alloc", by "thp", series "1", since "0.1.0",
        for "to see whether khugepaged brings huge pages to programs that run for long"
    }
    THP_COLLAPSE_ALLOC_FAILED = Counter None "goodput_thp_collapse_alloc_failed_total" [] {
        "Huge pages that khugepaged wanted and did not get.",
        from "/proc/vmstat thp_collapse_alloc_failed", by "thp", series "1", since "0.1.0",
        for "to see whether khugepaged finds free huge pages at all"
    }
    THP_SPLIT = Counter None "goodput_thp_split_total" [] {
        "Huge pages split into small ones.",
        from "/proc/vmstat thp_split_page", by "thp", series "1", since "0.1.0",
        for "to see huge pages that reclaim and unmapping break up again"
    }
    KHUGEPAGED_DEFRAG = Gauge None "goodput_thp_khugepaged_defrag" [] {
        "1 when khugepaged compacts memory to get huge pages.",
        from "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", by "thp", series "1", since "0.1.0"
    }
    KHUGEPAGED_SCAN_PAGES = Gauge None "goodput_thp_khugepaged_scan_pages" [] {
        "Pages that khugepaged looks at before it sleeps.",
        from "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", by "thp", series "1", since "0.1.0"
    }
    KHUGEPAGED_SLEEP = Gauge Seconds "goodput_thp_khugepaged_sleep_seconds" [] {
        "How long khugepaged sleeps in between.",
        from "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", by "thp", series "1", since "0.1.0"
    }
    COMPACTION_PROACTIVENESS = Gauge None "goodput_compaction_proactiveness" [] {
        "How hard the kernel compacts memory in advance, from 0 for not at all to 100.",
        from "/proc/sys/vm/compaction_proactiveness", by "thp", series "1", since "0.1.0"
    }
    COMPACTION_STALLS = Counter None "goodput_compaction_stalls_total" [] {
        "Allocations that had to compact memory themselves and waited for it.",
        from "/proc/vmstat compact_stall", by "thp", series "1", since "0.1.0"
    }
    COMPACTION_FAILURES = Counter None "goodput_compaction_failures_total" [] {
        "Direct compactions that failed to produce a page of the requested size.",
        from "/proc/vmstat compact_fail", by "thp", series "1", since "0.1.0",
        for "to see whether waiting for compaction gives a huge page at all: against the successes"
    }
    COMPACTION_SUCCESSES = Counter None "goodput_compaction_successes_total" [] {
        "Direct compactions that produced a page of the requested size.",
        from "/proc/vmstat compact_success", by "thp", series "1", since "0.1.0",
        for "to see whether waiting for compaction gives a huge page at all: against the failures"
    }
    COMPACTION_WAKES = Counter None "goodput_compaction_daemon_wakes_total" [] {
        "Times that kcompactd was woken to compact in the background.",
        from "/proc/vmstat compact_daemon_wake", by "thp", series "1", since "0.1.0",
        for "to see how often the kernel compacts in the background, which a higher compaction_proactiveness does sooner"
    }
    RECLAIM_STALLS = Counter None "goodput_memory_reclaim_stalls_total" [] {
        "Allocations that had to reclaim memory themselves and waited for it.",
        from "/proc/vmstat allocstall*, summed over zones", by "thp", series "1", since "0.1.0"
    }
    HUGETLB_TOTAL = Gauge Bytes "goodput_hugetlb_total_bytes" ["size"] {
        "Memory set aside as huge pages of the size, used or not.",
        from "/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages", by "thp", series "1 per size", since "0.1.0"
    }
    HUGETLB_FREE = Gauge Bytes "goodput_hugetlb_free_bytes" ["size"] {
        "Huge pages of the size that hold nothing.",
        from "/sys/kernel/mm/hugepages/hugepages-*/free_hugepages", by "thp", series "1 per size", since "0.1.0"
    }
    HUGETLB_RESERVED = Gauge Bytes "goodput_hugetlb_reserved_bytes" ["size"] {
        "Free huge pages of the size that are promised to a process.",
        from "/sys/kernel/mm/hugepages/hugepages-*/resv_hugepages", by "thp", series "1 per size", since "0.1.0"
    }
}
