//! Time before the first work.

use super::{About, Remedy};

pub(super) const COLD_START: About = About {
    meaning: "The job held the GPU and had not begun sustained work.",
    light: "#4aa3b8",
    dark: "#6cc0d3",
    remedies: &[
        Remedy {
            action: "Keep compiled kernels beyond the life of the job's container.",
            command: Some("CUDA_CACHE_PATH=DIR TORCHINDUCTOR_CACHE_DIR=DIR"),
            restarts: "nothing; the next start is the faster one",
            who: "the job's owner",
            risk: "the caches take disk space",
            source: "CUDA C++ Programming Guide, environment variables; PyTorch documentation, compile-time caching",
        },
        Remedy {
            action: "Keep the driver loaded between jobs.",
            command: Some("systemctl enable --now nvidia-persistenced"),
            restarts: "nothing",
            who: "root",
            risk: "idle GPUs draw a little more power",
            source: "NVIDIA Driver Persistence",
        },
    ],
};
