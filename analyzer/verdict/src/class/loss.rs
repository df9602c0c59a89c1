//! Work that was thrown away.

use super::{ClassInfo, FALLS, Group, Remedy};

pub(super) const LOST_WORK: ClassInfo = ClassInfo {
    name: "lost_work",
    title: "Work lost in a crash",
    group: Group::Loss,
    version: 4,
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
