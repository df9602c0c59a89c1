//! What the ranks of one node did in collectives, by its exporter's counters: how much of the time they waited for the one that came
//! last. Ranks of other nodes are not seen.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::text::percent;
use goodput_catalog::{Metric, nccl};
use goodput_exposition::sample::{Sample, Series};

/// What the ranks of an owner did in collectives while they were watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectivesAnswer {
    /// Who holds the GPUs.
    pub owner: String,
    /// Time of all its ranks on this node in collectives, in seconds. The GPUs may have computed at the same time.
    pub seconds: f64,
    /// Of that, waiting for the rank of this node that came last; null where it has one rank here.
    pub late_seconds: Option<f64>,
    /// The rank of this node that came last most often; null where none came last by a tenth.
    pub last: Option<LastAnswer>,
}

/// A rank that came last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastAnswer {
    /// The index of its GPU on the node.
    pub gpu: String,
    /// Share of the collectives of its GPU.
    pub share: f64,
}

/// Time and counts of one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    seconds: f64,
    collectives: f64,
    last: f64,
}

/// The ranks of an owner on the node in one communicator and operation.
#[derive(Debug, Default)]
struct Together<'a> {
    ranks: BTreeMap<&'a str, Rank>,
    transfer: Option<f64>,
}

/// By owner, those that were in any collective.
pub(super) fn collectives(series: &[Series]) -> Vec<CollectivesAnswer> {
    let mut all: BTreeMap<&str, BTreeMap<(&str, &str), Together<'_>>> = BTreeMap::new();
    for series in series {
        let of = |row: &Metric| series.labels.metric() == row.name;
        let Some(grown) = grown(&series.samples) else { continue };
        let label = |name| series.labels.get(name);
        let Some(((owner, comm), operation)) = label("owner").zip(label("comm")).zip(label("operation")) else {
            continue;
        };
        let field: Option<fn(&mut Rank) -> &mut f64> = match () {
            () if of(&nccl::NCCL_SECONDS) => Some(|rank| &mut rank.seconds),
            () if of(&nccl::NCCL_COLLECTIVES) => Some(|rank| &mut rank.collectives),
            () if of(&nccl::NCCL_LAST) => Some(|rank| &mut rank.last),
            () => None,
        };
        let is_transfer = of(&nccl::NCCL_TRANSFER);
        if !is_transfer && field.is_none() {
            continue;
        }
        let together = all.entry(owner).or_default().entry((comm, operation)).or_default();
        if is_transfer {
            together.transfer = Some(grown);
        } else if let Some((field, gpu)) = field.zip(label("gpu")) {
            *field(together.ranks.entry(gpu).or_default()) += grown;
        }
    }
    let answers = all.into_iter().map(|(owner, together)| answer(owner, together.into_values().collect()));
    answers.filter(|answer| answer.seconds > 0.0).collect()
}

/// By how much a counter grew; `None` where it was told less than twice, or began again from zero.
fn grown(samples: &[Sample]) -> Option<f64> {
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).filter(|value| value.is_finite()).collect();
    let (first, last) = values.first().zip(values.last())?;
    let is_whole = values.len() > 1 && values.is_sorted();
    is_whole.then_some(last - first)
}

fn answer(owner: &str, all: Vec<Together<'_>>) -> CollectivesAnswer {
    let (mut seconds, mut late) = (0.0, None);
    let mut ranks: BTreeMap<&str, Rank> = BTreeMap::new();
    for Together { ranks: own, transfer } in all {
        let spent: f64 = own.values().map(|rank| rank.seconds).sum();
        seconds += spent;
        if let Some(transfer) = transfer.filter(|_| own.len() > 1) {
            let waited = (spent - transfer * own.len() as f64).clamp(0.0, spent);
            late = Some(late.unwrap_or(0.0) + waited);
        }
        for (gpu, rank) in own {
            let sum = ranks.entry(gpu).or_default();
            (sum.collectives, sum.last) = (sum.collectives + rank.collectives, sum.last + rank.last);
        }
    }
    let most = ranks.into_iter().max_by(|(_, a), (_, b)| a.last.total_cmp(&b.last));
    let last = most.filter(|(_, rank)| rank.last > 0.0 && rank.collectives > 0.0);
    let last =
        last.map(|(gpu, rank)| LastAnswer { gpu: gpu.to_owned(), share: (rank.last / rank.collectives).min(1.0) });
    CollectivesAnswer { owner: owner.to_owned(), seconds, late_seconds: late, last }
}

impl CollectivesAnswer {
    /// In a line.
    pub(super) fn line(&self) -> String {
        let Some(late) = self.late_seconds else {
            return format!("{}: one rank on this node; whether others come late is not seen here", self.owner);
        };
        let last = self
            .last
            .as_ref()
            .map(|last| format!("; last most often: GPU {}, in {}", last.gpu, percent(Some(last.share))));
        let (share, last) = (percent(Some(late / self.seconds)), last.unwrap_or_default());
        format!("{}: {share} of the time in collectives waits for late ranks of this node{last}", self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_exposition::sample::Labels;

    fn counter(row: &Metric, labels: &[(&str, &str)], values: &[f64]) -> Series {
        let all = [("__name__", row.name), ("owner", "llm"), ("comm", "1"), ("operation", "AllReduce")];
        let samples = values.iter().enumerate().map(|(n, value)| Sample { time_ms: 1000 * n as i64, value: *value });
        Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples: samples.collect() }
    }

    /// Rank 1 needs 10 s, the others 40 s of a minute, as they wait for it.
    fn node(ranks: usize) -> Vec<Series> {
        let gpus = ["0", "1", "2", "3"];
        let of = |gpu: usize| {
            let at = [("gpu", gpus[gpu])];
            let (seconds, last) = if gpu == 1 { (10.0, 90.0) } else { (40.0, 2.0) };
            vec![
                counter(&nccl::NCCL_SECONDS, &at, &[100.0, 100.0 + seconds]),
                counter(&nccl::NCCL_COLLECTIVES, &at, &[1000.0, 1100.0]),
                counter(&nccl::NCCL_LAST, &at, &[0.0, last]),
            ]
        };
        let transfer = counter(&nccl::NCCL_TRANSFER, &[], &[50.0, 60.0]);
        (0..ranks).flat_map(of).chain([transfer]).collect()
    }

    #[test]
    fn the_rank_that_comes_last_is_named_with_what_the_others_waited() {
        let told = collectives(&node(4));
        assert_eq!((told.len(), told[0].seconds, told[0].late_seconds), (1, 130.0, Some(90.0)));
        let line = "llm: 69.2 % of the time in collectives waits for late ranks of this node; last most often: GPU 1, in 90.0 %";
        assert_eq!(told[0].line().replace('\u{a0}', " "), line);
    }

    #[test]
    fn one_rank_says_nothing_of_others() {
        let told = collectives(&node(1));
        assert_eq!((told[0].seconds, told[0].late_seconds), (40.0, None));
        assert!(told[0].line().contains("one rank on this node"));
    }

    #[test]
    fn what_does_not_grow_has_no_line() {
        let at = [("gpu", "0")];
        for values in [&[5.0, 5.0][..], &[5.0], &[5.0, 1.0], &[f64::NAN, f64::NAN]] {
            assert_eq!(collectives(&[counter(&nccl::NCCL_SECONDS, &at, values)]), [], "{values:?}");
        }
    }
}
