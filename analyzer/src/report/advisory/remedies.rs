//! What to do about advice that no class of time stands for. How much it gains, nothing here can tell: measure the job's
//! own throughput before and after.

use goodput_verdict::Remedy;

const JOB: &str = "the job, which goes on from its last checkpoint";
const OWNER: &str = "the job's owner";

pub(super) const TENSOR_UNUSED: &[Remedy] = &[
    Remedy {
        action: "Compute in BF16 or FP16 where the model allows it.",
        command: Some("with torch.autocast(\"cuda\", dtype=torch.bfloat16): ..."),
        restarts: JOB,
        who: OWNER,
        risk: "less precise: compare the loss; FP16 needs a gradient scaler",
        source: "PyTorch documentation, Automatic Mixed Precision",
    },
    Remedy {
        action: "Where it has to be FP32, let matrix products use TF32.",
        command: Some("torch.set_float32_matmul_precision(\"high\")"),
        restarts: JOB,
        who: OWNER,
        risk: "mantissas of 10 bits in products: compare the loss",
        source: "PyTorch documentation, torch.set_float32_matmul_precision",
    },
];

pub(super) const MEMORY_BOUND: &[Remedy] = &[
    Remedy {
        action: "Fuse kernels that each read and write all of a tensor, and use an attention that keeps its scores on the \
                 chip.",
        command: Some("model = torch.compile(model)   # attention: torch.nn.functional.scaled_dot_product_attention"),
        restarts: JOB,
        who: OWNER,
        risk: "compiling takes minutes at each start",
        source: "PyTorch documentation, torch.compile and scaled_dot_product_attention",
    },
    Remedy {
        action: "A server that generates text is bound by memory by nature: answer more requests at once, or quantise its \
                 weights.",
        command: None,
        restarts: "the server",
        who: OWNER,
        risk: "each request takes longer in a larger batch; quantised weights answer differently",
        source: "vLLM documentation, Optimization and Tuning; Quantization",
    },
];

pub(super) const ENERGY_INEFFICIENT: &[Remedy] = &[Remedy {
    action: "Try lower clocks, step by step, while the job's throughput stays as it is; the same power then does more.",
    command: Some("nvidia-smi --id=GPU --lock-gpu-clocks=0,1400   # back: nvidia-smi --id=GPU --reset-gpu-clocks"),
    risk: "phases that compute become slower, and the next job on the GPU too if it is not set back",
    source: "nvidia-smi(1); how much it saves depends on the job",
    ..Remedy::LIVE
}];

pub(super) const LOW_OCCUPANCY: &[Remedy] = &[Remedy {
    action: "Profile the kernels that take the most time: what limits their warps, registers, shared memory or the size of \
             the grid?",
    command: Some("ncu --section Occupancy --section LaunchStats --launch-skip 100 --launch-count 50 python train.py"),
    restarts: "a run of its own; kernels run many times slower under the profiler",
    who: "the job's owner, where the driver lets users profile",
    risk: "more warps are not always faster",
    source: "NVIDIA Nsight Compute documentation, Profiling Guide, Occupancy",
}];

pub(super) const SMALL_BATCH: &[Remedy] = &[
    Remedy {
        action: "Make the batch of each GPU larger, as far as memory and the model's convergence allow.",
        command: None,
        restarts: JOB,
        who: OWNER,
        risk: "learning rate and schedule go with the batch; a peak may run out of memory",
        source: "Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024",
    },
    Remedy {
        action: "Where the batch is what it is, launch its kernels as one graph.",
        command: Some("torch.compile(model, mode=\"reduce-overhead\")"),
        restarts: JOB,
        who: OWNER,
        risk: "shapes must not change; graphs take memory of their own",
        source: "PyTorch documentation, torch.compile and CUDA Graphs",
    },
];

pub(super) const OVERSIZED_GPU: &[Remedy] = &[Remedy {
    action: "Give such jobs a MIG instance, and the rest of the GPU to others; on Kubernetes another resource, under Slurm \
             another type.",
    command: Some("resources: {limits: {nvidia.com/mig-1g.10gb: 1}}   # Slurm: --gres=gpu:1g.10gb:1"),
    restarts: "the job; a GPU that is to be cut up is drained first",
    who: "an administrator cuts the GPU up, the job's owner asks for the instance",
    risk: "an instance has its share of memory and multiprocessors and no more; no copies from instance to instance",
    source: "NVIDIA Multi-Instance GPU User Guide; jobstats documentation",
}];

const SERVER: &str = "the server";

pub(super) const QUEUEING: &[Remedy] = &[
    Remedy {
        action: "Where running requests stand at the server's limit, raise it.",
        command: Some("--max-num-seqs=512   # of vLLM; of SGLang --max-running-requests=512"),
        restarts: SERVER,
        who: OWNER,
        risk: "each token takes longer in a larger batch: compare the latency; SGLang retracts requests where it admits too many",
        source: "vLLM documentation, Optimization and Tuning; SGLang documentation, Hyperparameter Tuning",
    },
    Remedy {
        action: "Where prompts take all of its steps, or it works on as many requests as latency allows, share them among more \
                 replicas.",
        command: None,
        restarts: "nothing",
        who: OWNER,
        risk: "each replica holds its GPUs all the time",
        source: "llm-d documentation, Workload Variant Autoscaler",
    },
];

pub(super) const KV_FULL: &[Remedy] = &[
    Remedy {
        action: "Give the server more memory for keys and values, or take less for each token.",
        command: Some(
            "--gpu-memory-utilization=0.95 --kv-cache-dtype=fp8   # of vLLM; of SGLang --mem-fraction-static=0.9",
        ),
        restarts: SERVER,
        who: OWNER,
        risk: "with too little memory left the server fails; keys and values of 8 bits answer differently: compare the answers",
        source: "vLLM documentation, Conserving Memory; SGLang documentation, Hyperparameter Tuning",
    },
    Remedy {
        action: "Let fewer requests in at once, so that those that are in keep their place.",
        command: Some("--max-num-seqs=64   # of vLLM; of SGLang --schedule-conservativeness=1.3"),
        restarts: SERVER,
        who: OWNER,
        risk: "more requests wait before they begin",
        source: "vLLM documentation, Optimization and Tuning: preemption; SGLang documentation, Hyperparameter Tuning",
    },
];

pub(super) const EXCHANGE_TOO_LARGE: &[Remedy] = &[
    Remedy {
        action: "Before the job gets more nodes, let the exchange overlap with the backward pass, in larger buckets.",
        command: Some("DistributedDataParallel(..., bucket_cap_mb=100, gradient_as_bucket_view=True)"),
        restarts: JOB,
        who: OWNER,
        risk: "larger buckets begin later and take device memory",
        source: "PyTorch documentation, DistributedDataParallel",
    },
    Remedy {
        action: "Exchange less often: accumulate gradients over several steps.",
        command: Some("with model.no_sync(): ...   # in all steps but the last of each round"),
        restarts: JOB,
        who: OWNER,
        risk: "learning rate and schedule go with the batch, which is larger",
        source: "PyTorch documentation, DistributedDataParallel.no_sync",
    },
];

pub(super) const GDS_FELL_BACK: &[Remedy] = &[
    Remedy {
        action: "See which file systems GPUDirect Storage supports on the node, and whether IOMMU, driver and its configuration let it.",
        command: Some("/usr/local/cuda/gds/tools/gdscheck -p"),
        who: "any user on the node",
        source: "NVIDIA GPUDirect Storage Installation and Troubleshooting Guide",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Read why the library fell back: set the log level to TRACE or INFO in cufile.json, and look for the path it chose for the file.",
        command: Some("grep -iE 'compat|posix|fall' cufile.log | tail"),
        restarts: JOB,
        who: OWNER,
        risk: "the log grows with every read",
        source: "NVIDIA GPUDirect Storage Installation and Troubleshooting Guide",
    },
    Remedy {
        action: "Where the file system cannot be read directly, set allow_compat_mode to false, so that the job fails at its start and does not read slowly.",
        command: Some("\"properties\": {\"allow_compat_mode\": false}   # in cufile.json"),
        restarts: JOB,
        who: OWNER,
        risk: "jobs that run now by host memory do not start",
        source: "NVIDIA GPUDirect Storage Benchmarking and Configuration Guide",
    },
];

pub(super) const SCATTERED_GPUS: &[Remedy] = &[
    Remedy {
        action: "Have the scheduler place jobs on as few nodes as they fit on, and, within a node, let it know which GPUs are close.",
        command: Some("scontrol show config | grep -E 'SelectType|TopologyPlugin'; nvidia-smi topo -m"),
        who: "the administrators of the scheduler",
        source: "Slurm documentation, topology.conf and gres.conf; Kubernetes documentation, Topology Manager",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Ask for the nodes and for GPUs of one socket in the job itself.",
        command: Some("sbatch --nodes=1 --gpus-per-node=8   # or --gpus-per-socket"),
        restarts: JOB,
        who: OWNER,
        risk: "the job may wait longer for its place",
        source: "sbatch(1)",
    },
];
