//! What to do about a loss by its cause, where its class has several: one list per row of `CauseKind`.

mod free;

use super::{Remedy, saving};
pub(crate) use free::{FREE, FREE_FIT_UNKNOWN, FREE_UNFIT, FREE_WHILE_WAITING};

pub(crate) const NVLINK_DOWN: &[Remedy] = &[
    Remedy {
        action: "See which links are down, and whether the fabric manager runs on systems with NVSwitches. NCCL uses PCIe until \
                 the links are up again.",
        command: Some("nvidia-smi nvlink -s -i GPU; systemctl status nvidia-fabricmanager"),
        who: "any user on the node",
        source: "NVIDIA Fabric Manager User Guide",
        ..Remedy::LIVE
    },
    Remedy::DRAIN,
    Remedy::RESET_GPU,
    Remedy::DIAGNOSE,
];

pub(crate) const LINK: &[Remedy] = &[Remedy::LOOK_AT_PORT, Remedy::DRAIN, Remedy::OTHER_END];

pub(crate) const RDMA_UNUSED: &[Remedy] = &[
    Remedy {
        action: "See what NCCL uses: its log says NET/Socket where it should say NET/IB, or the name of the provider's plug-in.",
        command: Some("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ..."),
        source: "NCCL documentation, environment variables",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "Give the container the devices under /dev/infiniband (by a device plug-in for RDMA, or the host's network) and an \
                 unlimited memlock; on AWS its plug-in for EFA.",
        command: Some("ls /dev/infiniband; ulimit -l   # in the container"),
        who: "the job's owner and the administrator of the cluster",
        source: "NCCL documentation, troubleshooting; NVIDIA Network Operator documentation; aws-ofi-nccl documentation",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "Correct NCCL_IB_HCA and NCCL_IB_DISABLE where they are left from another machine, and on RoCE NCCL_IB_GID_INDEX.",
        command: NCCL_VARIABLES,
        source: "NCCL documentation, environment variables",
        ..Remedy::BY_OWNER
    },
];

pub(crate) const RAIL_UNUSED: &[Remedy] = &[
    Remedy {
        action: "Let the job use every port: NCCL_IB_HCA may be left from another machine. NCCL_CROSS_NIC says whether a ring may \
                 change rails between nodes.",
        command: NCCL_VARIABLES,
        source: "NCCL documentation, NCCL_IB_HCA and NCCL_CROSS_NIC",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "See which NIC is near which GPU. NCCL leaves out a NIC that is near none of the job's GPUs.",
        command: Some("nvidia-smi topo -m"),
        who: "any user on the node",
        source: "nvidia-smi(1); NCCL documentation, NCCL_TOPO_FILE",
        ..Remedy::LIVE
    },
];

pub(crate) const ERRORS: &[Remedy] = &[
    Remedy::LOOK_AT_PORT,
    Remedy {
        action: "On RoCE, check that the MTU is the same on the whole path, and that PFC or ECN is set on the job's priority at NICs \
                 and switches alike. A longer NCCL_IB_TIMEOUT only keeps a job alive while a link is away.",
        command: Some("ibv_devinfo -d DEVICE   # state, active_mtu"),
        who: "the administrators of nodes and switches",
        source: "ibv_devinfo(1); NCCL documentation, NCCL_IB_TIMEOUT",
        ..Remedy::LIVE
    },
    Remedy::OTHER_END,
];

pub(crate) const CONGESTED: &[Remedy] = &[
    Remedy {
        action: "Spread the job's connections over more paths. The switches' hash has to take in the queue pair.",
        command: Some("NCCL_IB_QPS_PER_CONNECTION=4"),
        risk: "more queue pairs take memory of the NIC",
        source: "NCCL documentation, NCCL_IB_QPS_PER_CONNECTION; Gangidi et al., SIGCOMM 2024",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "Place the job on nodes under fewer leaf switches.",
        command: Some("sbatch --switches=1@30:00 ...   # waits up to 30 min for nodes under one switch"),
        risk: "the job may wait longer in the queue",
        source: "sbatch(1), --switches",
        ..Remedy::BY_OWNER
    },
    FEWER_BYTES,
];

const FEWER_BYTES: Remedy = Remedy {
    action: "Exchange fewer bytes between nodes: accumulate gradients over more steps, or shard the model within a node.",
    command: Some("FullyShardedDataParallel(..., sharding_strategy=ShardingStrategy.HYBRID_SHARD)"),
    risk: "each node then holds the whole model in its GPUs' memory; more accumulation is a larger batch",
    source: "PyTorch documentation, FullyShardedDataParallel",
    ..Remedy::BY_OWNER
};

pub(crate) const SATURATED: &[Remedy] = &[
    FEWER_BYTES,
    Remedy {
        action: "Where one port is full and others are not, let the job use every port: see NCCL_IB_HCA, and which NIC is near \
                 which GPU.",
        command: Some("nvidia-smi topo -m"),
        who: "any user on the node",
        source: "NCCL documentation, NCCL_IB_HCA; nvidia-smi(1)",
        ..Remedy::LIVE
    },
];

/// A hang ends by a restart. Nothing that makes an exchange faster helps.
pub(crate) const HANG: &[Remedy] = &[
    Remedy {
        action: "Before the job is ended, find the rank that is not in the collective, or is in another one: its stack is the \
                 evidence, and is lost with the process.",
        command: Some(
            "nvidia-smi --query-compute-apps=pid --format=csv,noheader | xargs -n1 py-spy dump --pid   # on each node of the run",
        ),
        who: "the job's owner or root",
        risk: "the process stands still for the moment of the dump",
        source: "py-spy documentation",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Read PyTorch's flight recorder, which says which rank is in which collective, where the job keeps a trace buffer and \
                 dumps it on timeout.",
        command: Some("torchfrtrace --prefix rank_ /tmp/trace"),
        who: "the job's owner",
        source: "PyTorch documentation, torch.distributed, Flight Recorder",
        ..Remedy::LIVE
    },
    Remedy {
        action: "End the job and start it again: a hang does not end by itself before its timeout. A shorter timeout of the process \
                 group makes the next hang cost less.",
        command: Some("torch.distributed.init_process_group(timeout=datetime.timedelta(minutes=10))"),
        risk: "work since the last checkpoint is lost; a timeout below the longest save or evaluation ends sound jobs",
        source: "PyTorch documentation, torch.distributed.init_process_group",
        ..Remedy::BY_OWNER
    },
];

/// Ranks that have more to do by turns: what differs is the work, or what disturbs it.
pub(crate) const LATE_RANKS: &[Remedy] = &[
    Remedy {
        action: "Even the work of a step out between ranks: sort or pack samples by their length, and balance experts and pipeline \
                 stages.",
        command: Some("torch.utils.data.DataLoader(..., batch_sampler=by_length)"),
        risk: "batches by length are less random",
        source: "PyTorch documentation, torch.utils.data",
        ..Remedy::BY_OWNER
    },
    Remedy {
        action: "See what holds ranks up now and then: garbage collection, a validation or logging on one rank, loaders that run dry. A \
                 profile of some steps of all ranks shows who comes late.",
        command: Some("torch.profiler.profile(schedule=torch.profiler.schedule(wait=10, warmup=2, active=5))"),
        risk: "the profiler slows the steps that it records",
        source: "PyTorch documentation, torch.profiler",
        ..Remedy::BY_OWNER
    },
];

/// Late ranks are excluded: what is left is how much is exchanged, how fast, and what goes on at the same time.
pub(crate) const EXCHANGE: &[Remedy] = &[
    Remedy {
        action: "Let the exchange and computing overlap: larger or smaller buckets, prefetching of shards.",
        command: Some(
            "DistributedDataParallel(..., bucket_cap_mb=100); FullyShardedDataParallel(..., forward_prefetch=True)",
        ),
        risk: "buckets and shards that are fetched ahead take device memory",
        source: "PyTorch documentation, DistributedDataParallel and FullyShardedDataParallel",
        ..Remedy::BY_OWNER
    },
    FEWER_BYTES,
    Remedy {
        action: "Measure what the network gives without the job, and compare: a sound one reaches its line rate less a tenth or two.",
        command: Some("mpirun -np 16 all_reduce_perf -b 1G -e 8G -f 2"),
        who: "the job's owner, on nodes without a job",
        source: "NVIDIA nccl-tests",
        ..Remedy::LIVE
    },
];

const NFSIOSTAT: Remedy = Remedy {
    action: "See what takes the time of the mount's requests: waiting at this node (avg queue), or the network and the server (avg \
             RTT).",
    command: Some("nfsiostat 5 3 MOUNTPOINT"),
    who: "any user on the node",
    source: "nfsiostat(8)",
    ..Remedy::LIVE
};

const STAGE: Remedy = Remedy {
    action: "Stage the data set on the node's own disk before training.",
    risk: "staging takes disk space and time at the start of the job",
    source: "WebDataset documentation",
    ..Remedy::BY_OWNER
};

const PACK: Remedy = Remedy {
    action: "Pack small files into large ones that are read in sequence.",
    risk: "the data set has to be written again, and shuffles within parts",
    source: "WebDataset documentation",
    ..Remedy::BY_OWNER
};

pub(crate) const SLOW_MOUNT: &[Remedy] = &[
    NFSIOSTAT,
    Remedy {
        action: "Where requests wait at this node, mount the file system with more connections (nconnect). Where they wait for the \
                 server, look at its load, its disks and its network.",
        command: Some("nfsstat -m"),
        restarts: "nothing; a mount with other options restarts what uses it",
        who: "the administrators of the nodes and of the server",
        source: "nfs(5), nfsstat(8)",
        ..Remedy::LIVE
    },
    STAGE,
];

pub(crate) const SLOW_TARGET: &[Remedy] = &[
    Remedy {
        action: "Compare the storage targets, and see whether the client lost its connection to the slow one: its state, its \
                 time-outs and its average wait.",
        command: Some("lctl get_param -n osc.*.import | grep -E 'target:|state:|timeouts:|avg_waittime:'"),
        who: "root",
        source: "Lustre Operations Manual, Lustre Parameters; lctl(8)",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Look at the server of the target: a rebuild of its RAID, a disk that fails, its network, or a job that uses this \
                 target alone.",
        command: Some("lctl get_param obdfilter.*.brw_stats obdfilter.*.job_stats"),
        who: "the administrators of the file system, on its server",
        source: "Lustre Operations Manual, Monitoring Lustre Performance",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Until it is sound, let no new files be made on it (max_create_count of its osp device, on the metadata server), and move the data set off it (lfs find --ost, lfs migrate).",
        who: "the administrators of the file system",
        risk: "moving files loads the slow target and the others",
        source: "Lustre Operations Manual, Removing an OST from the File System; lfs-migrate(1)",
        ..Remedy::LIVE
    },
    STAGE,
];

pub(crate) const NOT_ANSWERING: &[Remedy] = &[
    Remedy {
        action: "Look at the server and the network to it. The kernel's log says when the server did not answer, and when it did \
                 again.",
        command: Some("dmesg --ctime | grep 'nfs: server'; nfsstat -rc"),
        who: "the administrators of the nodes and of the server",
        source: "nfs(5), timeo; nfsstat(8)",
        ..Remedy::LIVE
    },
    STAGE,
];

pub(crate) const SLOW_DISK: &[Remedy] = &[
    Remedy {
        action: "See whether an I/O limit is set on the job's cgroup. node_exporter does not show limits.",
        command: Some("cd CGROUP && grep -H . io.max io.pressure"),
        who: "any user on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, IO interface files",
        ..Remedy::LIVE
    },
    Remedy {
        action: "See what else uses the disk, and how long its queue is.",
        command: Some("iostat -x 5 3; pidstat -d 5 3"),
        who: "any user on the node",
        source: "iostat(1), pidstat(1)",
        ..Remedy::LIVE
    },
    Remedy {
        action: "See whether the disk is worn, hot or failing.",
        command: Some("smartctl -x /dev/DISK"),
        who: "root",
        source: "smartctl(8)",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Read from a disk that is sound and has fewer users: stage the data set there.",
        risk: "staging takes disk space and time at the start of the job",
        source: "WebDataset documentation",
        ..Remedy::BY_OWNER
    },
];

pub(crate) const SMALL_READS: &[Remedy] = &[PACK, STAGE];

pub(crate) const METADATA: &[Remedy] = &[
    Remedy {
        action: "See which requests the mount has: LOOKUP, GETATTR, ACCESS and OPEN are no reads.",
        command: Some("mountstats MOUNTPOINT"),
        who: "any user on the node",
        source: "mountstats(8)",
        ..Remedy::LIVE
    },
    PACK,
    Remedy {
        action: "Where nothing changes the data set while jobs run, let the node keep attributes for longer (actimeo, nocto).",
        restarts: "what uses the mount",
        who: "an administrator",
        risk: "files that change on the server are seen late",
        source: "nfs(5)",
        ..Remedy::LIVE
    },
    STAGE,
];

pub(crate) const NETWORK_MOUNT: &[Remedy] = &[
    saving::ASYNC_SAVE,
    Remedy {
        action: "Save to the node's own disk, and copy to the network file system afterwards.",
        risk: "until the copy is done, a node that is lost takes the checkpoint with it",
        source: "PyTorch documentation, torch.distributed.checkpoint",
        ..Remedy::BY_OWNER
    },
    NFSIOSTAT,
];

pub(crate) const IO_LIMIT: &[Remedy] = &[
    Remedy {
        action: "See the limit: io.max of the job's cgroup and of those above it. The one who set it may have others to protect.",
        command: Some("grep -H . CGROUP/io.max"),
        who: "any user on the node",
        source: "Linux kernel documentation, admin-guide/cgroup-v2, IO interface files",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Raise the limit, or take it away, where it is not meant: by the unit's properties, or by the policy that sets it for \
                 pods.",
        command: Some("systemctl set-property --runtime UNIT IOReadBandwidthMax= IOWriteBandwidthMax="),
        risk: "others that use the same disk may wait longer",
        source: "systemd.resource-control(5)",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Read less in each step: smaller or compressed samples, or a copy of the data set that another disk has.",
        risk: "compressed samples take CPU time to unpack",
        source: "PyTorch documentation, torch.utils.data",
        ..Remedy::BY_OWNER
    },
];

/// In the job.
const NCCL_VARIABLES: Option<&str> = Some("env | grep NCCL_");
