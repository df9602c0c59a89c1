//! Time in which a GPU waited for the state of its job to be saved.

use super::{ClassInfo, Group, Remedy};

pub(super) const ASYNC_SAVE: Remedy = Remedy {
    action: "Save asynchronously: the job goes on from a copy in host memory while that is written.",
    command: Some("torch.distributed.checkpoint.async_save(...)"),
    risk: "the copy takes host memory of the size of the state",
    source: "PyTorch documentation, torch.distributed.checkpoint",
    ..Remedy::BY_OWNER
};

pub(super) const CHECKPOINT: ClassInfo = ClassInfo {
    name: "checkpoint",
    title: "Saving checkpoints",
    group: Group::Saving,
    version: 7,
    meaning: "The GPU waited while the job saved its state.",
    light: "#739618",
    dark: "#acca4f",
    key: "O",
    check: "The GPU works while the job writes; saves cost less of each hour.",
    gain: None,
    remedies: &[
        ASYNC_SAVE,
        Remedy {
            action: "Save as often as failures warrant: the root of twice the time of a save times the mean time between \
                 failures.",
            risk: "a failure costs the work since the last save",
            source: "Young 1974, Daly 2006",
            ..Remedy::BY_OWNER
        },
    ],
};
