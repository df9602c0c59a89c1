//! Targets that job and instance do not tell apart: an agent on every node scrapes `localhost`, and another label says
//! which node it is. The series of one target have every label that Prometheus or the agent gave its node info.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Source;
use super::identity::Target;
use crate::signal::Signal;

/// Labels of the node info itself, of node_exporter's and of ours: they say what the machine is, not where it is scraped.
const OWN: [&str; 10] = [
    "__name__",
    "domainname",
    "hostname",
    "kernel",
    "machine",
    "nodename",
    "release",
    "sysname",
    "version",
    "exported_instance",
];

/// Label names and values, in order of name.
type Given<'a> = BTreeMap<&'a str, &'a str>;

/// Gives the series of each of several nodes behind one job and instance a target of their own. What matches the labels of
/// no node info, or of several, stays with none.
pub(super) fn tell(sources: &mut [Source<'_>]) {
    let mut known: HashMap<Target<'_>, Infos<'_>> = HashMap::new();
    for source in sources.iter().filter(|s| s.meaning.signal == Signal::NodeInfo) {
        known.entry(source.target).or_default().add(source);
    }
    let several: HashMap<Target<'_>, Vec<Given<'_>>> =
        known.into_iter().filter_map(|(target, infos)| Some((target, infos.told_apart()?))).collect();
    if several.is_empty() {
        return;
    }
    for source in sources.iter_mut() {
        let Some(nodes) = several.get(&source.target) else { continue };
        let is_its = |given: &Given<'_>| given.iter().all(|(name, value)| source.labels.get(name) == Some(*value));
        let mut its = (1_u32..).zip(nodes).filter(|(_, given)| is_its(given)).map(|(part, _)| part);
        if let (Some(part), None) = (its.next(), its.next()) {
            source.target.part = part;
        }
    }
}

/// The node infos of one target.
#[derive(Default)]
struct Infos<'a> {
    nodenames: BTreeSet<&'a str>,
    given: BTreeSet<Given<'a>>,
}

impl<'a> Infos<'a> {
    fn add(&mut self, source: &Source<'a>) {
        let labels: &'a goodput_exposition::sample::Labels = source.labels;
        self.nodenames.extend(labels.get("nodename"));
        self.given.insert(labels.iter().filter(|(name, _)| !OWN.contains(name)).collect());
    }

    /// The labels that differ between several nodes, for each of them; `None` where there is one node, or no such label.
    fn told_apart(self) -> Option<Vec<Given<'a>>> {
        if self.nodenames.len() < 2 || self.given.len() < 2 {
            return None;
        }
        let first = self.given.first()?.clone();
        let is_same = |name: &str, value: &str| self.given.iter().all(|given| given.get(name) == Some(&value));
        let same: BTreeSet<&str> = first.iter().filter(|(name, value)| is_same(name, value)).map(|(n, _)| *n).collect();
        let differing =
            |given: &Given<'a>| given.iter().filter(|(n, _)| !same.contains(*n)).map(|(n, v)| (*n, *v)).collect();
        Some(self.given.iter().map(differing).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use goodput_exposition::sample::{Labels, Sample, Series};

    /// The parts that the series are told apart by.
    fn parts(series: &[&[(&str, &str)]]) -> Vec<u32> {
        let of = |labels: &&[(&str, &str)]| {
            let all = labels.iter().copied().chain([("job", "node"), ("instance", "localhost:9100")]);
            Series { labels: Labels::new(all), samples: vec![Sample { time_ms: 0, value: 1.0 }] }
        };
        let series: Vec<Series> = series.iter().map(of).collect();
        sources(&series).iter().map(|s| s.target.part).collect()
    }

    const UNAME: (&str, &str) = ("__name__", "node_uname_info");
    const IO: (&str, &str) = ("__name__", "node_pressure_io_waiting_seconds_total");

    #[test]
    fn nodes_behind_one_instance_are_told_apart_by_another_label() {
        let (a, b) = (("agent_hostname", "n0"), ("agent_hostname", "n1"));
        let got = parts(&[
            &[UNAME, ("nodename", "n0"), ("release", "6.8"), a],
            &[UNAME, ("nodename", "n1"), ("release", "6.9"), b],
            &[IO, a],
            &[IO, b],
            &[IO],
        ]);
        assert_eq!(got, [1, 2, 1, 2, 0]);
    }

    #[test]
    fn one_node_is_one_target_whatever_changes_on_it() {
        let renamed = parts(&[&[UNAME, ("nodename", "n0")], &[UNAME, ("nodename", "n1")], &[IO]]);
        assert_eq!(renamed, [0, 0, 0], "which of them is meant is told by time alone");
        let upgraded = [[UNAME, ("nodename", "n0"), ("release", "1")], [UNAME, ("nodename", "n0"), ("release", "2")]];
        assert_eq!(parts(&[&upgraded[0], &upgraded[1], &[IO]]), [0, 0, 0]);
    }
}
