//! The series of demand, cluster by cluster.
//!
//! What one scrape of a target says is whole: a pod that it does not show is gone, though an earlier one showed it. Where a target
//! is silent for a while its last scrape stands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::demand::{Demand, Said, Says};
use crate::frame::{Source, Target};
use crate::signal::Signal;
use goodput_exposition::sample::{Labels, Sample, TimeMs, is_stale};

/// What a cluster's targets say.
#[derive(Default)]
pub(super) struct Cluster<'s, 'a> {
    targets: Vec<Scraped>,
    /// The series of each pod, by namespace and name; in order of what they say.
    pods: BTreeMap<(&'a str, &'a str), Vec<(Said<'a>, Told<'s>)>>,
    others: Vec<(&'a Labels, Option<&'a str>, Told<'s>)>,
}

/// A target.
#[derive(Default)]
struct Scraped {
    /// When it was, in order.
    times: BTreeSet<TimeMs>,
    /// Does Prometheus rename the label `node` of its series, because the target has one of its own?
    is_renamed: bool,
}

/// A series of a target.
struct Told<'s> {
    signal: Signal,
    samples: &'s [Sample],
    target: usize,
}

/// The clusters that tell anything about demand in some time, or for as long as `bridge_ms` before it.
pub(super) fn by_cluster<'s, 'a>(
    sources: &'s [Source<'a>],
    time: &Range<TimeMs>,
    bridge_ms: i64,
) -> BTreeMap<&'a str, Cluster<'s, 'a>> {
    let mut clusters: BTreeMap<&'a str, Cluster<'s, 'a>> = BTreeMap::new();
    let mut places: HashMap<Target<'a>, usize> = HashMap::new();
    let mut told: Vec<(&'s Source<'a>, Told<'s>)> = Vec::new();
    for source in sources.iter().filter(|source| source.meaning.signal.is_of_demand()) {
        let at = |time| source.samples.partition_point(|s| s.time_ms < time);
        let samples = &source.samples[at(time.start - bridge_ms)..at(time.end)];
        if samples.iter().all(|s| is_stale(s.value)) {
            continue;
        }
        let cluster = clusters.entry(source.target.cluster).or_default();
        let target = *places.entry(source.target).or_insert_with(|| {
            cluster.targets.push(Scraped::default());
            cluster.targets.len() - 1
        });
        let scraped = &mut cluster.targets[target];
        scraped.times.extend(samples.iter().filter(|s| !is_stale(s.value)).map(|s| s.time_ms));
        scraped.is_renamed |= source.labels.get("exported_node").is_some();
        told.push((source, Told { signal: source.meaning.signal, samples, target }));
    }
    for (source, told) in told {
        clusters.entry(source.target.cluster).or_default().add(source.labels, told);
    }
    for said in clusters.values_mut().flat_map(|cluster| cluster.pods.values_mut()) {
        said.sort_by(|(a, _), (b, _)| a.says.cmp(&b.says));
    }
    clusters
}

impl<'s, 'a> Cluster<'s, 'a> {
    fn add(&mut self, labels: &'a Labels, told: Told<'s>) {
        let own = || labels.get("node").filter(|_| !self.targets[told.target].is_renamed);
        let node = labels.get("exported_node").or_else(own).filter(|name| !name.is_empty());
        match Says::of(told.signal, labels) {
            Some((pod, says)) => self.pods.entry(pod).or_default().push((Said { says, node }, told)),
            None => self.others.push((labels, node, told)),
        }
    }

    /// What it says at a moment: of each target the last scrape, if that is not longer ago than `bridge_ms`.
    pub(super) fn at<'c>(&'c self, time: TimeMs, bridge_ms: i64) -> Demand<'c> {
        let last = |target: &Scraped| target.times.range(time - bridge_ms..=time).next_back().copied();
        let last: Vec<Option<TimeMs>> = self.targets.iter().map(last).collect();
        let mut demand = Demand::default();
        for (pod, said) in &self.pods {
            let values = said.iter().filter_map(|(said, told)| Some((said, told.value(&last)?)));
            demand.add_pod(*pod, values);
        }
        for (labels, node, told) in &self.others {
            if let Some(value) = told.value(&last) {
                demand.add(told.signal, labels, *node, value);
            }
        }
        demand
    }
}

impl Told<'_> {
    /// The value of a sample of this very scrape.
    fn value(&self, last: &[Option<TimeMs>]) -> Option<f64> {
        let time = last[self.target]?;
        let at = self.samples.partition_point(|s| s.time_ms < time);
        let value = self.samples.get(at).filter(|s| s.time_ms == time).map(|s| s.value);
        value.filter(|value| self.signal.admits(*value))
    }
}
