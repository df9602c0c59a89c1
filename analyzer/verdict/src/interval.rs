//! Verdicts: which class the time of a GPU went to, and why.

use goodput_exposition::sample::TimeMs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cause, Class, Instance};

/// One number that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The signal's name, or a formula over such names.
    pub signal: String,
    /// Its value in the window.
    pub value: f64,
    /// Unit of the value and the threshold, e.g. `ratio`, `seconds per second`.
    pub unit: String,
    /// What it was compared with.
    pub threshold: f64,
}

/// Names of evidence that the values of a GPU are no readings.
pub const DOUBTED: [&str; 2] = ["values that stand still", "row of zeros"];

impl Evidence {
    /// Does it contradict other signals, or say that they are no readings?
    #[must_use]
    pub fn contradicts(&self) -> bool {
        self.signal.ends_with(" contradicts") || DOUBTED.contains(&self.signal.as_str())
    }
}

/// Energy that a GPU drew, and how much of its time that is known for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// Millijoules, exact: those of a cell's classes sum to the cell's.
    pub mj: i64,
    /// GPU-milliseconds that it is known for.
    pub ms: i64,
    /// Of these milliseconds, those by the board's energy counter; the rest by power at each scrape.
    pub counted_ms: i64,
}

impl Energy {
    /// The sum of both, where either is known.
    #[must_use]
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(a), Some(b)) => {
                // Sums of sound rows are far below the end of the range; a damaged row must not turn a sum around.
                let sum = i64::saturating_add;
                Some(Self { mj: sum(a.mj, b.mj), ms: sum(a.ms, b.ms), counted_ms: sum(a.counted_ms, b.counted_ms) })
            }
            (one, other) => one.or(other),
        }
    }
}

/// The GPU that others waited for, or the node whose port they waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// Its node.
    pub node: String,
    /// Its UUID; null where it is no GPU.
    pub gpu: Option<String>,
}

/// By which rules a verdict was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Of the rules of its class.
    pub rule: u32,
    /// Of all rules together: the sum of their versions, which grows with each that is raised or new.
    pub rules: u32,
}

impl Version {
    /// Of a verdict that this release gives.
    #[must_use]
    pub fn of(class: Class) -> Self {
        Self { rule: class.version(), rules: Class::VERSIONS }
    }
}

/// Consecutive cells of one GPU in which one class has milliseconds: what is stored and what reports sum.
/// The `ms` of all intervals of a GPU, with those of its instances, over a window sum to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The GPU's UUID.
    pub gpu: String,
    /// The MIG instance of the GPU that the time is of, which is then its share of the GPU's; null of the GPU itself.
    #[serde(default)]
    pub gpu_instance: Option<Instance>,
    /// The cluster of its node; null where its series name none, and in verdicts of earlier releases.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Its node.
    pub node: String,
    /// Its model; null where unknown.
    pub model: Option<String>,
    /// Who held it (pod, job or unit); null where unknown.
    pub owner: Option<String>,
    /// The run that the owner is: its own name, or that of the job whose ranks are owners of their own, as pods are.
    /// Null where the owner is unknown, and in verdicts of earlier releases.
    #[serde(default)]
    pub run: Option<String>,
    /// The account that the time counts to: the namespace of a pod, the account of a Slurm job. Null where unknown.
    #[serde(default)]
    pub account: Option<String>,
    /// What the time went into.
    pub class: Class,
    /// Who caused it, where that is another GPU or a port of a node: the time stays on this GPU's row and is only said to be
    /// caused there. Null where no other did.
    #[serde(default)]
    pub charged_to: Option<Culprit>,
    /// Why, where the class has several causes. Null elsewhere, and in verdicts of earlier releases.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// Start of the first cell, Unix milliseconds, UTC.
    pub start_ms: TimeMs,
    /// End of the last cell, Unix milliseconds, UTC.
    pub end_ms: TimeMs,
    /// GPU-milliseconds of this class within.
    pub ms: i64,
    /// 0 to 1: how sure the rule is, weighted over the cells.
    pub confidence: f64,
    /// Which signal told busy from not busy: `gpu_busy`, `gr_engine_active`, `gpu_utilization_and_power`,
    /// `gpu_utilization` or `sm_active`, from best to worst. Null where none did.
    pub busy_signal: Option<String>,
    /// The numbers behind the verdict, averaged over the cells.
    pub evidence: Vec<Evidence>,
    /// Signals whose absence kept rules from judging this time; with them the class might be another.
    pub missing: Vec<String>,
    /// What the GPU drew in this time; null where neither energy nor power was measured.
    pub energy: Option<Energy>,
    /// What sampling leaves unknown of `ms`: its variance, in square milliseconds. Of one class it adds up over
    /// intervals, and the 90 % interval of a total is 1.645 times the root of the sum to either side. Null in verdicts
    /// of earlier releases.
    #[serde(default)]
    pub variance_ms2: Option<i64>,
    /// By which rules it was judged; null in verdicts of earlier releases.
    #[serde(default)]
    pub version: Option<Version>,
}

impl Interval {
    /// One without any time yet, of no GPU: its span holds nothing, and grows with what is added.
    #[must_use]
    pub fn untimed(class: Class) -> Self {
        Self {
            gpu: String::new(),
            gpu_instance: None,
            cluster: None,
            node: String::new(),
            model: None,
            owner: None,
            run: None,
            account: None,
            class,
            charged_to: None,
            cause: None,
            start_ms: TimeMs::MAX,
            end_ms: TimeMs::MIN,
            ms: 0,
            confidence: 0.0,
            busy_signal: None,
            evidence: Vec::new(),
            missing: Vec::new(),
            energy: None,
            variance_ms2: Some(0),
            version: None,
        }
    }

    /// Who is to be shown as its holder: the run, which verdicts of releases that did not tell it have by the owner
    /// alone.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.run.as_deref().or(self.owner.as_deref())
    }
}
