//! What deserves attention though no GPU-time can be charged to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::fill::{About, filled};
use super::risk::{Stretch, stretches};
use super::{Proof, text};

mod remedies;
use goodput_exposition::sample::TimeMs;
use goodput_verdict::{Advice, Advisory, Cause, Class, Remedy};

/// One advice about the GPUs of one run; where no holder is known, of one node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdvisoryRow {
    /// The cluster of the run or node; null where series name none.
    pub cluster: Option<String>,
    /// What is advised.
    pub advice: Advice,
    /// One sentence of what it means.
    pub meaning: &'static str,
    /// Of a network what its ports show, and the port of the node that shows it; null of other advice.
    pub cause: Option<Cause>,
    /// Of `scattered_gpus` the GPUs that were free and are closer together, by node; null of other advice.
    pub free: Option<String>,
    /// Which run held the GPUs; null where unknown.
    pub owner: Option<String>,
    /// Where, in order of node and UUID.
    pub places: Vec<AdvisedGpu>,
    /// When: stretches without a pause, in order of time.
    pub stretches: Vec<Stretch>,
    /// 0 to 1, weighted by time.
    pub confidence: f64,
    /// The numbers behind it, weighted by time.
    pub evidence: Vec<Proof>,
    /// What to do.
    pub remedies: &'static [Remedy],
    /// The commands of `remedies`, in their order, as they are typed; null where there is none, or what it is about is not
    /// known.
    pub commands: Vec<Option<String>>,
}

/// A GPU within an advisory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct AdvisedGpu {
    /// The node.
    pub node: String,
    /// The GPU's UUID.
    pub gpu: String,
    /// Its model, where known.
    pub model: Option<String>,
}

const GDS_FELL_BACK: &str = "The job has GPUDirect Storage open and reads a network file system, and none of it goes straight to the \
     GPU: the library copies by host memory instead, without an error.";

const SCATTERED_GPUS: &str = "The GPUs of the run are on more nodes or NUMA nodes than they need to be, though GPUs that are closer \
     together were free when it began: its exchange goes over slower links.";

/// What the advice means, in one sentence.
#[must_use]
pub fn advice_meaning(advice: Advice) -> &'static str {
    match advice {
        Advice::CrossNuma => {
            "The GPU's processes, or their memory, are on another NUMA node than the GPU; whether that costs time \
             could not be seen."
        }
        Advice::ClockLocked => {
            "The GPU's clock was fixed below the highest that it can do, on purpose as it seems; nothing of its kind was \
             faster."
        }
        Advice::PowerCapped => {
            "The GPU was at its stock power limit most of the time, as it is meant to be under full load: nothing is lost \
             against others of its kind."
        }
        Advice::TensorUnused => {
            "Kernels kept the GPU busy and made little use of its tensor cores, which do most of what such a GPU can compute."
        }
        Advice::MemoryBound => {
            "Kernels waited for device memory, which moved about as much as it can: they would not be faster on faster \
             multiprocessors."
        }
        Advice::EnergyInefficient => {
            "Kernels waited for device memory while the multiprocessors ran at full clock, which takes power and makes \
             nothing faster."
        }
        Advice::LowOccupancy => {
            "Multiprocessors had few warps to choose from while these waited, though neither tensor cores nor device \
             memory were busy."
        }
        Advice::SmallBatch => {
            "Kernels had no work for most multiprocessors, and most of the device memory was free: batches are too small \
             for the GPU."
        }
        Advice::OversizedGpu => {
            "For an hour the job made little use of its only GPU and its memory: a MIG instance would have been enough."
        }
        Advice::Queueing => {
            "Requests waited for the server to begin with them while its KV cache had room: it takes in too few at once, or \
             prompts take all of its steps."
        }
        Advice::KvFull => {
            "The server's KV cache was full: requests waited for room in it, or lost their place and were computed again."
        }
        Advice::NetworkConstant => {
            "Ports of the run showed a fault nearly all the time. There is no sound time to compare with, so that the time lost \
             to it is not known and not charged."
        }
        Advice::NetworkEvidence => {
            "Ports of the run showed a fault. Its GPUs waited little for the exchange, or nothing tells how long they waited \
             for it, so that no time is charged."
        }
        Advice::GdsFellBack => GDS_FELL_BACK,
        Advice::ScatteredGpus => SCATTERED_GPUS,
        Advice::ExchangeTooLarge => {
            "The run's GPUs waited in collectives for a fifth of the time or more, on one node. On more nodes the same exchange \
             takes longer."
        }
    }
}

/// What to do: the same as about time that is charged to it, where there is such a class or a cause.
#[must_use]
pub fn advice_remedies(advice: Advice, cause: Option<&Cause>) -> &'static [Remedy] {
    match advice {
        Advice::NetworkConstant | Advice::NetworkEvidence => Class::NetworkSlow.remedies(cause.map(|cause| cause.kind)),
        Advice::ExchangeTooLarge => remedies::EXCHANGE_TOO_LARGE,
        Advice::GdsFellBack => remedies::GDS_FELL_BACK,
        Advice::ScatteredGpus => remedies::SCATTERED_GPUS,
        Advice::CrossNuma => Class::CrossNuma.info().remedies,
        Advice::ClockLocked => Class::ClockLocked.info().remedies,
        Advice::PowerCapped => &[],
        Advice::TensorUnused => remedies::TENSOR_UNUSED,
        Advice::MemoryBound => remedies::MEMORY_BOUND,
        Advice::EnergyInefficient => remedies::ENERGY_INEFFICIENT,
        Advice::LowOccupancy => remedies::LOW_OCCUPANCY,
        Advice::SmallBatch => remedies::SMALL_BATCH,
        Advice::OversizedGpu => remedies::OVERSIZED_GPU,
        Advice::Queueing => remedies::QUEUEING,
        Advice::KvFull => remedies::KV_FULL,
    }
}

/// What belongs to one row: an advice and its cause, its cluster and run; where no run is known, or one port is named, the node.
type Key<'a> = (Advice, (Option<&'a Cause>, Option<&'a str>), Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// One row per advice and run, the one that lasted longest first.
pub(super) fn rows(advisories: &[Advisory]) -> Vec<AdvisoryRow> {
    let mut groups: BTreeMap<Key<'_>, Vec<&Advisory>> = BTreeMap::new();
    for a in advisories {
        let is_of_node = a.owner.is_none() || a.cause.as_ref().is_some_and(|cause| cause.which.is_some());
        let node = is_of_node.then_some(a.node.as_str());
        let run = a.run.as_deref().or(a.owner.as_deref());
        let named = (a.cause.as_ref(), a.free.as_deref());
        groups.entry((a.advice, named, a.cluster.as_deref(), run, node)).or_default().push(a);
    }
    let mut rows: Vec<AdvisoryRow> = groups.into_iter().map(|(key, group)| row(key, group)).collect();
    let lasted = |row: &AdvisoryRow| row.stretches.iter().map(|s| s.end_ms - s.start_ms).sum::<i64>();
    rows.sort_by_key(|row| std::cmp::Reverse(lasted(row)));
    rows
}

fn row((advice, (cause, free), cluster, run, _): Key<'_>, mut group: Vec<&Advisory>) -> AdvisoryRow {
    group.sort_by_key(|a| (a.start_ms, a.end_ms));
    let place = |a: &&Advisory| AdvisedGpu { node: a.node.clone(), gpu: a.gpu.clone(), model: a.model.clone() };
    let mut places: Vec<AdvisedGpu> = group.iter().map(place).collect();
    places.sort();
    places.dedup();
    let whole: f64 = group.iter().map(|a| weight(a)).sum();
    let place = places.first();
    let about = About {
        node: place.map(|p| p.node.as_str()),
        gpu: place.map(|p| p.gpu.as_str()),
        owner: run,
        port: cause.and_then(|cause| cause.which.as_deref()),
        ..About::default()
    };
    let remedies = advice_remedies(advice, cause);
    AdvisoryRow {
        commands: filled(remedies, &about),
        cluster: cluster.map(str::to_owned),
        advice,
        meaning: advice_meaning(advice),
        cause: cause.cloned(),
        free: free.map(str::to_owned),
        owner: run.map(str::to_owned),
        places,
        stretches: stretches(group.iter().map(|a| Stretch { start_ms: a.start_ms, end_ms: a.end_ms })),
        confidence: group.iter().map(|a| a.confidence * weight(a)).sum::<f64>() / whole,
        evidence: super::finding::evidence(group.iter().map(|a| (a.evidence.as_slice(), weight(a)))),
        remedies,
    }
}

/// How long it lasted.
fn weight(advisory: &Advisory) -> f64 {
    (advisory.end_ms - advisory.start_ms) as f64
}

impl AdvisoryRow {
    /// The run, else the node: what tells it from others of its kind.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.owner.as_deref().or(self.places.first().map(|p| p.node.as_str())).unwrap_or_default()
    }

    /// What ports of a network show, to be read, with the port where one is named; or the GPUs that were free.
    #[must_use]
    pub fn shown_cause(&self) -> Option<String> {
        let Some(cause) = &self.cause else {
            return self.free.as_ref().map(|free| format!("Free when it began: {free}."));
        };
        let node = self.places.first().map(|place| place.node.as_str());
        let port = cause.which.as_deref().zip(node).map(|(which, node)| format!(" {}", text::port(node, Some(which))));
        Some(text::cause(cause.kind) + &port.map(|port| format!("{port}.")).unwrap_or_default())
    }

    /// When it began.
    #[must_use]
    pub fn first_ms(&self) -> TimeMs {
        self.stretches.first().map_or(0, |s| s.start_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_verdict::CauseKind;

    #[test]
    fn ranks_of_a_run_are_one_row() {
        let advisory = |gpu: &str, owner: &str, run: Option<&str>| Advisory {
            cluster: None,
            gpu: gpu.to_owned(),
            node: "n1".to_owned(),
            model: None,
            owner: Some(owner.to_owned()),
            run: run.map(str::to_owned),
            advice: Advice::LowOccupancy,
            cause: None,
            free: None,
            start_ms: 0,
            end_ms: 60_000,
            confidence: 0.9,
            evidence: Vec::new(),
        };
        let run = Some("ml/MPIJob/llm");
        // Of a release that told no runs.
        let before = advisory("GPU-3", "ml/llm-0", None);
        let rows = rows(&[advisory("GPU-1", "ml/llm-0", run), advisory("GPU-2", "ml/llm-1", run), before]);
        let told: Vec<(Option<&str>, usize)> = rows.iter().map(|r| (r.owner.as_deref(), r.places.len())).collect();
        assert_eq!(told, [(run, 2), (Some("ml/llm-0"), 1)]);
    }

    #[test]
    fn a_port_is_named_with_what_is_done_about_it() {
        let shows = |node: &str, kind, which: Option<&str>| Advisory {
            owner: Some("ml/llm-0".to_owned()),
            advice: Advice::NetworkConstant,
            cause: Some(Cause { kind, which: which.map(str::to_owned) }),
            ..goodput_testing::advisory(node, 1)
        };
        let [errors, tcp, link] = [CauseKind::Errors, CauseKind::RdmaUnused, CauseKind::Link];
        let rows = rows(&[
            shows("n1", errors, Some("mlx5_0/1")),
            shows("n2", errors, Some("mlx5_0/1")),
            shows("n1", tcp, None),
            shows("n2", tcp, None),
            shows("n1", link, Some("mlx5_3/1")),
        ]);
        let mut told: Vec<_> = rows.iter().map(|row| (row.shown_cause().unwrap(), row.places.len())).collect();
        told.sort();
        let expected = [
            (format!("{} port mlx5_0/1 of n1.", text::cause(errors)), 1),
            (format!("{} port mlx5_0/1 of n2.", text::cause(errors)), 1),
            (format!("{} port mlx5_3/1 of n1.", text::cause(link)), 1),
            (text::cause(tcp), 2),
        ];
        assert_eq!(told, expected);
        let of_link = rows.iter().find(|row| row.cause.as_ref().unwrap().kind == link).unwrap();
        assert_eq!(of_link.remedies, link.remedies());
        assert_eq!(of_link.commands[0].as_deref(), Some("mlxlink -d mlx5_3 -m -c"));
    }
}
