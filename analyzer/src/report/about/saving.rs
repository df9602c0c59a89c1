//! Time in which a GPU waited for the state of its job to be saved.

use super::{About, Remedy};

pub(super) const CHECKPOINT: About = About {
    meaning: "The GPU waited while the job saved its state.",
    light: "#6f8f3a",
    dark: "#93b55c",
    remedies: &[
        Remedy {
            action: "Save asynchronously: the job goes on from a copy in host memory while that is written.",
            command: Some("torch.distributed.checkpoint.async_save(...)"),
            restarts: "the job, from its last checkpoint",
            who: "the job's owner",
            risk: "the copy takes host memory of the size of the state",
            source: "PyTorch documentation, torch.distributed.checkpoint",
        },
        Remedy {
            action: "Save as often as failures warrant: the root of twice the time of a save times the mean time between \
                 failures.",
            command: None,
            restarts: "the job, from its last checkpoint",
            who: "the job's owner",
            risk: "a failure costs the work since the last save",
            source: "Young 1974, Daly 2006",
        },
    ],
};
