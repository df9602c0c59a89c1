//! Work that was thrown away.

use super::{About, Remedy};

pub(super) const LOST_WORK: About = About {
    meaning: "The job crashed or was pre-empted: what it did since its last save is lost, and it had to start again.",
    light: "#7a2e3a",
    dark: "#b0505f",
    remedies: &[
        Remedy {
            action: "Save before memory runs out, and more often: the root of twice the time of a save times the mean time \
                 between failures.",
            command: None,
            restarts: "the job, from its last checkpoint",
            who: "the job's owner",
            risk: "each save takes time, unless it is asynchronous",
            source: "Young 1974, Daly 2006",
        },
        Remedy {
            action: "Where memory ran out, find what grows: tensors kept for a log, batches of growing length; then smaller batches or activation \
                 checkpointing.",
            command: Some("torch.cuda.memory._record_memory_history()"),
            restarts: "the job, from its last checkpoint",
            who: "the job's owner",
            risk: "recording takes memory of its own",
            source: "PyTorch documentation, Understanding CUDA Memory Usage; PyTorch FAQ",
        },
    ],
};
