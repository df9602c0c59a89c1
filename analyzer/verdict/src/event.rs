//! What jobs say of themselves: that an attempt of a run began, how far it is, what it saved, when it evaluated, what it
//! went on from, and how it ended. Pure.

mod attempt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::owner::owners_named;
use goodput_exposition::sample::{Labels, TimeMs};

pub use attempt::{Attempt, Checkpoint, Ending, Loss, attempts, losses, unjudged_from};

/// What is run, however often it has to restart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// Empty where the events name none.
    pub cluster: String,
    /// As its job calls it.
    pub name: String,
}

/// Something that a job did.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The sender's; the same id is the same event.
    pub id: String,
    /// When it was over.
    pub time_ms: TimeMs,
    /// Its run.
    pub run: RunId,
    /// Which attempt at it: a restart is a new one. In their order, not necessarily one by one.
    pub attempt: u32,
    /// Which of its processes; `None` speaks for all of them.
    pub rank: Option<u32>,
    /// What it did.
    pub what: What,
    /// Where its GPUs are.
    pub place: Place,
}

/// What a job did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The attempt began.
    Start {
        /// When it began to wait for its GPUs, where that is known.
        submitted_ms: Option<TimeMs>,
    },
    /// It is done with a step.
    Step {
        /// Which one.
        step: u64,
    },
    /// What it has achieved so far is saved.
    Checkpoint {
        /// The last step that is in it.
        step: u64,
        /// How long training stood still for it, where the job measures that.
        seconds: Option<f64>,
    },
    /// It has evaluated what it has trained so far.
    Evaluation {
        /// How long that took.
        seconds: f64,
    },
    /// The attempt goes on from a checkpoint.
    Restore {
        /// The last step that is in it.
        step: u64,
    },
    /// It is over.
    End {
        /// How it went.
        status: Status,
    },
}

impl What {
    /// The name in requests and in the database.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Step { .. } => "step",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Evaluation { .. } => "evaluation",
            Self::Restore { .. } => "restore",
            Self::End { .. } => "end",
        }
    }

    /// The step that it names.
    #[must_use]
    pub fn step(self) -> Option<u64> {
        match self {
            Self::Step { step } | Self::Checkpoint { step, .. } | Self::Restore { step } => Some(step),
            Self::Start { .. } | Self::Evaluation { .. } | Self::End { .. } => None,
        }
    }
}

goodput_catalog::named! {
    /// How an attempt ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Status {
        /// It was done.
        Completed = "completed",
        /// It was ended on purpose.
        Cancelled = "cancelled",
        /// It crashed.
        Failed = "failed",
        /// It was driven off its GPUs.
        Preempted = "preempted",
    }
}

impl Status {
    /// Did the attempt end against its will, so that what it had not saved is lost?
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Preempted)
    }
}

/// Which GPUs an event is about: those of a holder, on a node if it names one; else all of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The node's name.
    pub node: Option<String>,
    /// The namespace of the pod.
    pub namespace: Option<String>,
    /// The pod.
    pub pod: Option<String>,
    /// The Slurm job's id.
    pub slurm_job: Option<String>,
}

impl Place {
    /// The names under which GPU series may know the holder; none where the place is a node.
    #[must_use]
    pub fn holders(&self) -> Vec<String> {
        let pairs = [("namespace", &self.namespace), ("pod", &self.pod), ("slurm_job", &self.slurm_job)];
        let labels = Labels::new(pairs.iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
        ["pod", "slurm_job"].into_iter().flat_map(|label| owners_named(&labels, label)).collect()
    }

    /// Is GPU time that this owner has on this node the place's? The containers of a pod are.
    #[must_use]
    pub fn is_of(&self, node: &str, owner: Option<&str>) -> bool {
        let holders = self.holders();
        let of_holder = |owner: &str| {
            let is_container =
                |pod: &String| owner.strip_prefix(pod.as_str()).is_some_and(|rest| rest.starts_with('/'));
            holders.iter().any(|holder| holder == owner || self.pod.is_some() && is_container(holder))
        };
        let on_node = self.node.as_deref().is_none_or(|name| name == node);
        on_node && (holders.is_empty() || owner.is_some_and(of_holder))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An event of the attempt of the run `r` in the pod `ml/a`.
    pub(crate) fn event(time_ms: TimeMs, attempt: u32, what: What) -> Event {
        Event {
            id: format!("{attempt}-{}-{time_ms}", what.kind()),
            time_ms,
            run: RunId { cluster: String::new(), name: "r".into() },
            attempt,
            rank: None,
            what,
            place: Place { namespace: Some("ml".into()), pod: Some("a".into()), ..Place::default() },
        }
    }

    pub(crate) const START: What = What::Start { submitted_ms: None };

    pub(crate) fn saved(step: u64) -> What {
        What::Checkpoint { step, seconds: None }
    }

    pub(crate) fn ended(status: Status) -> What {
        What::End { status }
    }

    #[test]
    fn a_place_is_a_holder_or_a_node() {
        let text = |value: &str| Some(value.to_owned());
        let pod = Place { namespace: text("ml"), pod: text("a"), ..Place::default() };
        let job = Place { slurm_job: text("7"), ..Place::default() };
        let node = Place { node: text("n1"), ..Place::default() };
        let on_node = Place { node: text("n1"), ..job.clone() };
        for (place, node, owner, expected) in [
            (&pod, "n1", Some("ml/a"), true),
            (&pod, "n2", Some("ml/a/main"), true),
            (&pod, "n1", Some("ml/ab"), false),
            (&pod, "n1", None, false),
            (&job, "n1", Some("slurm-7"), true),
            (&job, "n1", Some("job/7"), true),
            (&job, "n1", Some("job/7/0"), false),
            (&node, "n1", None, true),
            (&node, "n1", Some("anyone"), true),
            (&node, "n2", Some("anyone"), false),
            (&on_node, "n1", Some("slurm-7"), true),
            (&on_node, "n2", Some("slurm-7"), false),
        ] {
            assert_eq!(place.is_of(node, owner), expected, "{place:?} {node} {owner:?}");
        }
    }
}
