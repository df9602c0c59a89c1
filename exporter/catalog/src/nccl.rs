//! Rows of the `nccl` collector: what NCCL's Inspector plug-in wrote of collectives.
//!
//! A process that holds one GPU has its index and UUID in the labels `gpu` and `UUID`; both are empty for a process that holds
//! several. `comm` is NCCL's 64-bit id of a communicator, which is the same on all of its ranks.

crate::metric_rows! {
    NCCL_SECONDS = Counter Seconds "goodput_nccl_collective_seconds_total" ["gpu", "UUID", "owner", "comm", "operation"] {
        "Time that collectives took on the GPU of this rank, waiting for late ranks included. It may overlap computing, and several communicators may run at once. Collectives that were not timed on the GPU are not in it.",
        from "NCCL Inspector JSON, coll_exec_time_us", by "nccl", series "1 per pair of communicator and operation, at most 12 per GPU and owner", since "0.3.0"
    }
    NCCL_COLLECTIVES = Counter None "goodput_nccl_collectives_total" ["gpu", "UUID", "owner", "comm", "operation"] {
        "Collectives that this rank has completed and NCCL Inspector has written. Those below NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8,192 by default) are not written, and transfers between two ranks are not counted.",
        from "NCCL Inspector JSON, records of coll_perf", by "nccl", series "1 per pair of communicator and operation, at most 12 per GPU and owner", since "0.3.0"
    }
    NCCL_BUS_BYTES = Counter Bytes "goodput_nccl_bus_bytes_total" ["gpu", "UUID", "owner", "comm", "operation"] {
        "Bytes that collectives moved over the bus, as NCCL counts bus bandwidth: size of the message times 2(n-1)/n for AllReduce, n-1 for ReduceScatter and AllGather, 1 for all others, with n ranks. Collectives that were not timed on the GPU are not in it.",
        from "NCCL Inspector JSON, coll_msg_size_bytes and n_ranks", by "nccl", series "1 per pair of communicator and operation, at most 12 per GPU and owner", since "0.3.0"
    }
    NCCL_LAST = Counter None "goodput_nccl_last_total" ["gpu", "UUID", "owner", "comm", "operation"] {
        "Collectives in which this rank came last among the ranks of its owner on this node: it needed at least 10 % less time than the next one, because the others had been waiting for it. Only AllReduce, ReduceScatter, AllGather and AllToAll.",
        from "NCCL Inspector JSON, coll_exec_time_us by coll_sn", by "nccl", series "1 per pair of communicator and operation, at most 11 per GPU and owner", since "0.3.0"
    }
    NCCL_TRANSFER = Counter Seconds "goodput_nccl_transfer_seconds_total" ["owner", "comm", "operation"] {
        "Time that collectives took on the rank of this node that needed least, which waited least for others. Only collectives that all ranks of the owner on this node have written. On a communicator of several nodes it still has the waiting for ranks of other nodes in it.",
        from "NCCL Inspector JSON, coll_exec_time_us by coll_sn", by "nccl", series "1 per pair of communicator and operation, at most 11 per GPU", since "0.3.0"
    }
    NCCL_SEQUENCE = Gauge None "goodput_nccl_sequence" ["gpu", "UUID", "owner", "comm", "operation"] {
        "Number of the last collective that this rank completed, among those of its communicator and operation. NCCL numbers them alike on all ranks; where it stands still, the rank with the lowest number did not enter the next one.",
        from "NCCL Inspector JSON, coll_sn", by "nccl", series "1 per pair of communicator and operation, at most 11 per GPU and owner", since "0.3.0"
    }
    NCCL_SAMPLED_SEQUENCE = Gauge None "goodput_nccl_sampled_sequence" ["gpu", "UUID", "owner", "comm", "operation", "slot"] {
        "Number of the last collective whose number is 16 times the slot, modulo 128: every rank keeps the same ones, so that their times can be compared across nodes. Of the two pairs of communicator and operation that moved most bytes.",
        from "NCCL Inspector JSON, coll_sn", by "nccl", series "8 for each of 2 pairs of communicator and operation, per GPU and owner", since "0.3.0"
    }
    NCCL_SAMPLED_SECONDS = Gauge Seconds "goodput_nccl_sampled_seconds" ["gpu", "UUID", "owner", "comm", "operation", "slot"] {
        "Time that the collective of goodput_nccl_sampled_sequence with the same labels took on this rank. The rank that needed least came last, and the difference to it is waiting.",
        from "NCCL Inspector JSON, coll_exec_time_us", by "nccl", series "8 for each of 2 pairs of communicator and operation, per GPU and owner", since "0.3.0"
    }
    NCCL_COMMUNICATOR = Info None "goodput_nccl_communicator_info" ["gpu", "UUID", "owner", "comm", "ranks", "nodes", "rank"] + ["name"] {
        "Communicator of NCCL: its ranks, its nodes, and the rank of this GPU in it. The name that the program gave it is shown with --nccl.comm-names only.",
        from "NCCL Inspector JSON, header", by "nccl", series "1 per communicator, at most 4 per GPU and owner", since "0.3.0"
    }
    NCCL_LOST = Counter None "goodput_nccl_lost_records_total" ["owner", "reason"] {
        "Records of NCCL Inspector that are missing from the counters of this owner. overwritten: the plug-in's buffer was full. gap: numbers that were never written, those of small collectives included. behind: passed over because the file grows faster than it is read. rejected: lines that make no sense or have an unknown version. implausible: times or bandwidths that cannot be.",
        from "NCCL Inspector JSON, dump_stats and coll_sn; own count", by "nccl", series "5 per owner with files", since "0.3.0"
    }
    NCCL_BUS_BANDWIDTH = Gauge Bytes "goodput_nccl_bus_bandwidth_bytes" ["gpu", "UUID", "owner", "operation", "size", "nodes"] {
        "Bus bandwidth in bytes per second, by operation, size of the message and nodes of the communicator: mean of what NCCL Inspector wrote last in its text form, without weights. Not shown where the process writes JSON.",
        from "NCCL Inspector text, nccl_bus_bandwidth_gbs", by "nccl", series "1 per operation, size and number of nodes, at most 48 per GPU", since "0.3.0",
        for "to see the bus bandwidth of a job whose Inspector writes text"
    }
    NCCL_MEAN_SECONDS = Gauge Seconds "goodput_nccl_mean_seconds" ["gpu", "UUID", "owner", "operation", "size", "nodes"] {
        "Time that a collective took, by operation, size of the message and nodes of the communicator: mean of what NCCL Inspector wrote last in its text form, without weights. It has no count, so it cannot be summed. Not shown where the process writes JSON.",
        from "NCCL Inspector text, nccl_collective_exec_time_microseconds", by "nccl", series "1 per operation, size and number of nodes, at most 48 per GPU", since "0.3.0",
        for "to see how long collectives take in a job whose Inspector writes text"
    }
    NCCL_FILES = Gauge None "goodput_nccl_files" ["state"] {
        "Files of NCCL Inspector in the folders of --nccl.inspector-dir. read: read and shown. unowned: no process on a GPU was found that writes it, as after the end of a job. refused: a link, a pipe, a file with two names, or one that cannot be read. beyond: more files or folders than are looked at.",
        from "own count", by "nccl", series "4", since "0.3.0",
        for "to see why a job has no series of collectives"
    }
}
