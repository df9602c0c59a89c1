//! Time before the first work.

use super::{Basis, ClassInfo, Gain, Grade, Group, Remedy};

const PERSISTENCE: Gain = Gain {
    low: 1.0,
    high: 3.0,
    basis: Basis::Start,
    grade: Grade::Vendor,
    source: "NVIDIA Driver Persistence, where neither the daemon nor a running client keeps the driver loaded",
};

pub(super) const COLD_START: ClassInfo = ClassInfo {
    name: "cold_start",
    title: "Starting up",
    group: Group::StartUp,
    version: 6,
    meaning: "The job held the GPU and had not begun sustained work.",
    light: "#1b9da2",
    dark: "#2dfafa",
    key: "C",
    check: "The next start of the same job is shorter.",
    gain: Some(&PERSISTENCE),
    remedies: &[
        Remedy {
            action: "Keep compiled kernels beyond the life of the job's container.",
            command: Some("CUDA_CACHE_PATH=/scratch/cuda TORCHINDUCTOR_CACHE_DIR=/scratch/inductor"),
            restarts: "nothing; the next start is the faster one",
            who: "the job's owner",
            risk: "the caches take disk space",
            source: "CUDA C++ Programming Guide, environment variables; PyTorch documentation, compile-time caching",
        },
        Remedy {
            action: "Keep the driver loaded between jobs.",
            command: Some("systemctl enable --now nvidia-persistenced"),
            risk: "idle GPUs draw a little more power",
            source: "NVIDIA Driver Persistence",
            ..Remedy::LIVE
        },
    ],
};
