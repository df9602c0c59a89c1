//! Work that was thrown away.

use super::{ClassInfo, FALLS, Group, Remedy};

pub(super) const LOST_WORK: ClassInfo = ClassInfo {
    name: "lost_work",
    title: "Work lost in a crash",
    group: Group::Loss,
    version: 6,
    meaning: "The job crashed or was pre-empted: what it did since its last save is lost, and it had to start again.",
    light: "#8a3a47",
    dark: "#fe979e",
    key: "0",
    check: FALLS,
    gain: None,
    remedies: &[
        Remedy {
            action: "Save before memory runs out, and more often: the root of twice the time of a save times the mean time \
                 between failures.",
            risk: "each save takes time, unless it is asynchronous",
            source: "Young 1974, Daly 2006",
            ..Remedy::BY_OWNER
        },
        Remedy {
            action: "Where memory ran out, find what grows: tensors kept for a log, batches of growing length; then smaller batches or activation \
                 checkpointing.",
            command: Some("torch.cuda.memory._record_memory_history()"),
            risk: "recording takes memory of its own",
            source: "PyTorch documentation, Understanding CUDA Memory Usage; PyTorch FAQ",
            ..Remedy::BY_OWNER
        },
    ],
};

pub(super) const RECOMPUTE: ClassInfo = ClassInfo {
    name: "recompute",
    title: "Tokens computed again",
    group: Group::Loss,
    version: 1,
    meaning: "The server ran out of memory for keys and values, and computed tokens again of requests that had lost their place.",
    light: "#c94557",
    dark: "#bf3d53",
    key: "7",
    check: "The server's count of retracted or preempted requests stands still.",
    gain: None,
    remedies: &[
        Remedy {
            action: "Give keys and values more memory, or let fewer requests run at once.",
            command: Some(
                "--mem-fraction-static 0.9 --max-running-requests 64   # vLLM: --gpu-memory-utilization, --max-num-seqs",
            ),
            restarts: "the server",
            who: "the server's owner",
            risk: "too much memory for keys and values leaves too little for steps; fewer requests at once wait longer",
            source: "SGLang documentation, Hyperparameter Tuning; vLLM documentation, Optimization and Tuning, Preemption",
        },
        Remedy {
            action: "Keep evicted keys and values in host memory.",
            command: Some("--enable-hierarchical-cache   # vLLM: --kv-offloading-size"),
            restarts: "the server",
            who: "the server's owner",
            risk: "copies over PCIe take time of their own, and host memory is taken",
            source: "SGLang documentation, Hierarchical KV Caching; vLLM documentation, KV offloading",
        },
    ],
};
