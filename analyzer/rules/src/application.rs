//! What jobs say of their own progress: configured counters (steps, samples, tokens), joined to the owners of GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::frame::{growth, union_ms};
use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_verdict::owner::owners_named;
use goodput_verdict::{Achieved, Interval};

/// A configured counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The metric's name.
    pub metric: String,
    /// What it counts.
    pub unit: String,
    /// The label that names the owner of the GPUs; see [`owners_named`].
    pub owner_label: String,
    /// What one GPU could do per second, where that is known.
    pub ideal: Option<f64>,
    /// What several series of one owner are to each other.
    pub combine: Combine,
}

/// What several series of one owner are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Each process counts its own part.
    Sum,
    /// Each process counts the whole.
    Max,
}

/// The growth of one series within the window.
#[derive(Clone)]
pub(crate) struct Growth {
    pub(crate) amount: f64,
    pub(crate) spans: Vec<Range<TimeMs>>,
}

/// What was achieved in the window. `series` reaches beyond it by the longest gap that is bridged; `intervals` are the
/// window's verdicts: who holds no GPU in it is not joined.
#[must_use]
pub fn measure(
    counters: &[Counter],
    series: &[Series],
    intervals: &[Interval],
    window: &Range<TimeMs>,
) -> Vec<Achieved> {
    let holders = holders(intervals);
    let mut all = Vec::new();
    for counter in counters {
        let mut groups: BTreeMap<Who, Vec<Growth>> = BTreeMap::new();
        for Series { labels, samples } in series.iter().filter(|s| s.labels.metric() == counter.metric) {
            let Some(growth) = within(samples, window) else { continue };
            let names = owners_named(labels, &counter.owner_label);
            let subject = labels.get(&counter.owner_label).unwrap_or_default();
            groups.entry(Who::of(labels, &names, subject, &holders)).or_default().push(growth);
        }
        all.extend(groups.into_iter().map(|(who, growths)| counter.achieved(who, &growths, window)));
    }
    all
}

/// The cluster and name of an owner that holds GPUs.
pub(crate) type Holder<'a> = (Option<&'a str>, &'a str);

/// Who holds GPUs in these verdicts.
pub(crate) fn holders(intervals: &[Interval]) -> BTreeSet<Holder<'_>> {
    intervals.iter().filter_map(|i| Some((i.cluster.as_deref(), i.owner.as_deref()?))).collect()
}

/// Whose progress a series counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) cluster: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) subject: String,
}

impl Who {
    /// Its owner is the one holder of these names that the series may be of: one of its cluster, where it names one.
    pub(crate) fn of(labels: &Labels, names: &[String], subject: &str, holders: &BTreeSet<Holder<'_>>) -> Self {
        let own = labels.get("cluster").filter(|cluster| !cluster.is_empty());
        let may_be = |(cluster, owner): &&Holder<'_>| {
            names.iter().any(|name| name == owner) && (own.is_none() || cluster.is_none() || own == *cluster)
        };
        let mut known = holders.iter().filter(may_be);
        let holder = known.next().filter(|_| known.next().is_none());
        Self {
            cluster: holder.map_or(own, |(cluster, _)| *cluster).map(str::to_owned),
            owner: holder.map(|(_, owner)| (*owner).to_owned()),
            subject: subject.to_owned(),
        }
    }
}

pub(crate) fn within(samples: &[Sample], window: &Range<TimeMs>) -> Option<Growth> {
    let mut sum = Growth { amount: 0.0, spans: Vec::new() };
    for piece in growth(samples) {
        let span = piece.span.start.max(window.start)..piece.span.end.min(window.end);
        if !span.is_empty() {
            sum.amount += piece.value * (span.end - span.start) as f64 / 1000.0;
            sum.spans.push(span);
        }
    }
    (!sum.spans.is_empty()).then_some(sum)
}

impl Counter {
    fn achieved(&self, who: Who, growths: &[Growth], window: &Range<TimeMs>) -> Achieved {
        let amounts = growths.iter().map(|growth| growth.amount);
        let spans = growths.iter().flat_map(|growth| growth.spans.iter().cloned()).collect();
        Achieved {
            cluster: who.cluster,
            metric: self.metric.clone(),
            unit: self.unit.clone(),
            start_ms: window.start,
            end_ms: window.end,
            owner: who.owner,
            subject: who.subject,
            amount: match self.combine {
                Combine::Sum => amounts.sum(),
                Combine::Max => amounts.fold(0.0, f64::max),
            },
            covered_ms: union_ms(spans, std::slice::from_ref(window)).iter().sum(),
            ideal: self.ideal,
            served: None,
            model: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_testing::bare;
    use goodput_verdict::Class;

    const MINUTE: i64 = 60_000;
    const WINDOW: Range<TimeMs> = 0..60 * MINUTE;

    fn counter(combine: Combine) -> Counter {
        let (metric, unit) = ("steps_total".to_owned(), "steps".to_owned());
        Counter { metric, unit, owner_label: "slurm_job".into(), ideal: Some(2.0), combine }
    }

    fn held_by(owner: &str) -> Interval {
        Interval { owner: Some(owner.into()), ..bare(Class::Productive, WINDOW) }
    }

    /// A sample a minute, from minute `from` on.
    fn series(job: &str, rank: &str, from: i64, values: impl IntoIterator<Item = f64>) -> Series {
        let labels = Labels::new([("__name__", "steps_total"), ("slurm_job", job), ("rank", rank)]);
        let sample = |(n, value)| Sample { time_ms: (from + n) * MINUTE, value };
        Series { labels, samples: (0..).zip(values).map(sample).collect() }
    }

    fn one(combine: Combine, series: &[Series], owner: &str) -> Achieved {
        let all = measure(&[counter(combine)], series, &[held_by(owner)], &WINDOW);
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    #[test]
    fn growth_is_cut_at_the_window_and_a_reset_counts_from_zero() {
        // Ten a minute from five minutes before the window on; reset after 20 minutes, to 4; then ten a minute.
        let values = (0..25).map(|n| 1000.0 + 10.0 * f64::from(n)).chain((0..10).map(|n| 4.0 + 10.0 * f64::from(n)));
        let got = one(Combine::Sum, &[series("7", "0", -5, values)], "slurm-7");
        assert_eq!((got.owner.as_deref(), got.subject.as_str(), got.ideal), (Some("slurm-7"), "7", Some(2.0)));
        assert!((got.amount - (190.0 + 4.0 + 90.0)).abs() < 1e-9, "{got:?}");
        assert_eq!(got.covered_ms, 29 * MINUTE);
    }

    #[test]
    fn ranks_count_their_part_or_the_whole() {
        let ranks = [series("7", "0", 0, [0.0, 10.0, 20.0]), series("7", "1", 1, [0.0, 10.0, 30.0])];
        let sum = one(Combine::Sum, &ranks, "slurm-7");
        assert_eq!((sum.amount, sum.covered_ms), (50.0, 3 * MINUTE));
        assert_eq!(one(Combine::Max, &ranks, "slurm-7").amount, 30.0);
    }

    #[test]
    fn who_holds_no_gpu_is_not_joined() {
        let got = one(Combine::Sum, &[series("8", "0", 0, [0.0, 10.0])], "slurm-7");
        assert_eq!((got.owner, got.subject.as_str(), got.amount), (None, "8", 10.0));
    }

    #[test]
    fn two_holders_that_fit_are_none() {
        let holders = [held_by("slurm-7"), held_by("job/7")];
        let all = measure(&[counter(Combine::Sum)], &[series("7", "0", 0, [0.0, 10.0])], &holders, &WINDOW);
        assert_eq!(all.iter().map(|a| a.owner.as_deref()).collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn a_holder_is_one_of_the_cluster_that_the_series_names() {
        let of = |cluster: &str| Interval { cluster: Some(cluster.into()), ..held_by("slurm-7") };
        let told = |cluster: Option<&str>| {
            let plain = series("7", "0", 0, [0.0, 10.0]);
            let labels = plain.labels.iter().chain(cluster.map(|cluster| ("cluster", cluster)));
            Series { labels: Labels::new(labels), ..plain }
        };
        let joined = |series: Series, holders: &[Interval]| {
            let all = measure(&[counter(Combine::Sum)], &[series], holders, &WINDOW);
            let [one] = &all[..] else { panic!("{all:?}") };
            (one.cluster.clone(), one.owner.clone())
        };
        let (east, seven) = (Some("east".to_owned()), Some("slurm-7".to_owned()));
        let both = [of("east"), of("west")];
        assert_eq!(joined(told(Some("east")), &both), (east.clone(), seven.clone()));
        assert_eq!(joined(told(Some("north")), &both), (Some("north".into()), None));
        assert_eq!(joined(told(None), &both), (None, None), "it may be of either");
        assert_eq!(joined(told(None), &both[..1]), (east, seven));
    }

    #[test]
    fn a_counter_that_is_not_there_achieves_nothing_and_not_zero() {
        let single = [series("7", "0", 0, [5.0])];
        assert_eq!(measure(&[counter(Combine::Sum)], &single, &[held_by("slurm-7")], &WINDOW), []);
    }
}
