//! What can be done about a loss.

use schemars::JsonSchema;
use serde::Serialize;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remedy {
    /// In words.
    pub action: &'static str,
    /// The command or setting, where there is one; `NODE`, `GPU`, `JOBID`, `NAMESPACE`, `OBJECT`, `CGROUP`, `UNIT`,
    /// `CONTAINER` and `MOUNTPOINT` stand for what it is about.
    pub command: Option<&'static str>,
    /// What it restarts or interrupts.
    pub restarts: &'static str,
    /// Who is allowed to.
    pub who: &'static str,
    /// What may go wrong.
    pub risk: &'static str,
    /// Where this is documented.
    pub source: &'static str,
}

impl Remedy {
    /// What root does while everything goes on.
    pub const LIVE: Self =
        Self { action: "", command: None, restarts: "nothing", who: "root", risk: "none", source: "" };

    /// What the job's owner does, for which the job starts again.
    pub const BY_OWNER: Self =
        Self { restarts: "the job, from its last checkpoint", who: "the job's owner", ..Self::LIVE };
}
