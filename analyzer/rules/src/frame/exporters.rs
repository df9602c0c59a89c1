//! Pods that export metrics of GPUs, told from those that hold them, whatever they are called.

use std::collections::{HashMap, HashSet};

use super::Source;
use super::identity::Target;
use crate::signal::{Scope, Signal};

/// Notes which GPU series name the pod that was scraped in their label `pod`. That is so where Prometheus renamed the pod
/// of another series of the same job, which it does for all or none; and where `up`, which is about the target, names the
/// same pod.
pub(super) fn note(sources: &mut [Source<'_>]) {
    let is_of_gpu = |s: &&Source<'_>| s.meaning.signal.scope() == Scope::Gpu;
    let renamed = sources.iter().filter(is_of_gpu).filter(|s| s.labels.get("exported_pod").is_some());
    let renamed: HashSet<(&str, &str)> = renamed.map(|s| (s.target.cluster, s.target.job)).collect();
    let scraped = sources.iter().filter(|s| s.meaning.signal == Signal::Up);
    let scraped: HashMap<Target<'_>, &str> = scraped.filter_map(|s| Some((s.target, s.labels.get("pod")?))).collect();
    for source in sources.iter_mut().filter(|s| is_of_gpu(&&**s)) {
        let pod = source.labels.get("pod");
        let is_scraped = pod.is_some() && scraped.get(&source.target).copied() == pod;
        source.names_exporter = is_scraped || renamed.contains(&(source.target.cluster, source.target.job));
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Labels, Sample, Series};

    /// The owner of each series.
    fn owners(series: &[&[(&str, &str)]]) -> Vec<Option<String>> {
        let of = |labels: &&[(&str, &str)]| Series {
            labels: Labels::new(labels.iter().copied()),
            samples: vec![Sample { time_ms: 0, value: 1.0 }],
        };
        let series: Vec<Series> = series.iter().map(of).collect();
        let mut sources = sources(&series);
        note(&mut sources);
        sources.iter().map(Source::owner).collect()
    }

    const UTIL: (&str, &str) = ("__name__", "DCGM_FI_DEV_GPU_UTIL");

    #[test]
    fn a_pod_that_prometheus_did_not_rename_is_the_exporter() {
        let held = [UTIL, ("UUID", "1"), ("job", "gpu"), ("pod", "metrics-x"), ("exported_pod", "train-0")];
        let free = [UTIL, ("UUID", "2"), ("job", "gpu"), ("pod", "metrics-y"), ("instance", "b")];
        let other = [UTIL, ("UUID", "3"), ("job", "other"), ("pod", "train-1")];
        assert_eq!(owners(&[&held, &free, &other]), [Some("train-0".into()), None, Some("train-1".into())]);
    }

    #[test]
    fn the_pod_of_the_target_is_the_exporter() {
        let up = [("__name__", "up"), ("job", "gpu"), ("instance", "a"), ("pod", "metrics-x")];
        let free = [UTIL, ("UUID", "1"), ("job", "gpu"), ("instance", "a"), ("pod", "metrics-x")];
        let held = [UTIL, ("UUID", "2"), ("job", "gpu"), ("instance", "a"), ("pod", "train-0")];
        assert_eq!(owners(&[&up, &free, &held])[1..], [None, Some("train-0".into())]);
    }
}
