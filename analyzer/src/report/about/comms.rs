//! Time in which a GPU waited for other GPUs.

use super::{About, Remedy};

pub(super) const COLLECTIVE_WAIT: About = About {
    meaning: "The GPU's kernels spun, at hardly any power, until the other GPUs of its job were there.",
    light: "#3b6ea5",
    dark: "#79a7d8",
    remedies: &[
        Remedy {
            action: "Find the rank that the others wait for: the GPU of the job that works, loads or saves while the \
                     others spin, on this page's timeline; its own row says what it did.",
            command: Some("py-spy dump --pid PID   # of each rank: who is not in the collective"),
            restarts: "nothing",
            who: "the job's owner or root",
            risk: "the process stands still for the moment of the dump",
            source: "py-spy documentation",
        },
        Remedy {
            action: "If no rank is late, the exchange itself is long: let it overlap with the backward pass in larger \
                     buckets, or exchange less often.",
            command: Some("DistributedDataParallel(..., bucket_cap_mb=N, gradient_as_bucket_view=True)"),
            restarts: "the job, from its last checkpoint",
            who: "the job's owner",
            risk: "larger buckets begin later and take device memory",
            source: "PyTorch documentation, DistributedDataParallel",
        },
    ],
};
