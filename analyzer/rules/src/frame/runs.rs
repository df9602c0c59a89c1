//! Which owners of GPUs are one run: the pods that one controller of a distributed job made, as kube-state-metrics tells.
//!
//! Each rank of a distributed job is a pod with a name of its own. What they have in common is who made them: a
//! training operator's job (`PyTorchJob`, `MPIJob` and similar), or a `JobSet` by jobs of its own. Pods of other
//! controllers do not wait for each other: replicas serve alone, and a plain `Job` may well be many that have nothing
//! to do with each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Source;
use crate::signal::Signal;
use goodput_exposition::sample::Labels;
use goodput_verdict::owner::{namespace_of, owner_of_uid, servers_named};

/// The runs of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Runs(HashMap<String, Arc<str>>);

impl Runs {
    /// Those of each cluster.
    pub(crate) fn of<'s, 'a: 's>(sources: impl Iterator<Item = &'s Source<'a>>) -> BTreeMap<&'a str, Arc<Runs>> {
        let (mut pods, mut jobs) = (Vec::new(), HashMap::new());
        for source in sources {
            let cluster = source.target.cluster;
            match source.meaning.signal {
                Signal::PodController => pods.push((cluster, source.labels)),
                Signal::JobController => {
                    let name = namespace_of(source.labels).zip(source.labels.get("job_name"));
                    let controller = Controller::of(source.labels).filter(|c| c.is_of_ranks());
                    jobs.extend(name.zip(controller).map(|(name, controller)| ((cluster, name), controller)));
                }
                _ => {}
            }
        }
        let mut runs: BTreeMap<&str, Runs> = BTreeMap::new();
        for (cluster, labels) in pods {
            let Some((namespace, own)) = namespace_of(labels).zip(Controller::of(labels)) else { continue };
            let above = jobs.get(&(cluster, (namespace, own.name))).filter(|_| own.kind == "Job");
            let controller = *above.unwrap_or(&own);
            if controller.is_of_ranks() {
                let run: Arc<str> = format!("{namespace}/{}/{}", controller.kind, controller.name).into();
                let uid = labels.get("uid").map(owner_of_uid);
                let names = servers_named(labels).into_iter().chain(uid);
                runs.entry(cluster).or_default().0.extend(names.map(|name| (name, Arc::clone(&run))));
            }
        }
        runs.into_iter().map(|(cluster, runs)| (cluster, Arc::new(runs))).collect()
    }

    /// The run of an owner; an owner without a known run is a run by itself.
    pub(crate) fn name<'r>(&'r self, owner: &'r str) -> &'r str {
        if self.0.is_empty() {
            return owner;
        }
        // Where several containers of a pod hold GPUs, the last part of the name tells them apart.
        let pod = || owner.rsplit_once('/').and_then(|(pod, _)| self.0.get(pod));
        self.0.get(owner).or_else(pod).map_or(owner, |run| run)
    }
}

/// Who made a pod or a job.
#[derive(Clone, Copy)]
struct Controller<'a> {
    kind: &'a str,
    name: &'a str,
}

impl<'a> Controller<'a> {
    fn of(labels: &'a Labels) -> Option<Self> {
        let is_controller = labels.get("owner_is_controller").is_none_or(|is| is == "true");
        Some(Self { kind: labels.get("owner_kind")?, name: labels.get("owner_name")? }).filter(|_| is_controller)
    }

    /// Does it make ranks that work together?
    fn is_of_ranks(self) -> bool {
        let is_plain = matches!(self.kind, "Job" | "CronJob");
        self.kind == "JobSet" || self.kind.ends_with("Job") && !is_plain
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Sample, Series};

    fn told(series: &[&[(&str, &str)]], owner: &str) -> String {
        let of = |labels: &&[(&str, &str)]| Series {
            labels: Labels::new(labels.iter().copied()),
            samples: vec![Sample { time_ms: 0, value: 1.0 }],
        };
        let series: Vec<Series> = series.iter().map(of).collect();
        let sources = sources(&series);
        Runs::of(sources.iter()).get("").map_or(owner, |runs| runs.name(owner)).to_owned()
    }

    fn pod<'a>(name: &'a str, kind: &'a str, made_by: &'a str) -> Vec<(&'a str, &'a str)> {
        let owner = [("owner_kind", kind), ("owner_name", made_by), ("owner_is_controller", "true")];
        let own = [("__name__", "kube_pod_owner"), ("namespace", "ml"), ("pod", name), ("uid", "4f1c")];
        own.into_iter().chain(owner).collect()
    }

    #[test]
    fn ranks_of_a_training_job_are_one_run() {
        let pods = [pod("llm-worker-0", "PyTorchJob", "llm"), pod("llm-worker-1", "PyTorchJob", "llm")];
        let pods: Vec<&[(&str, &str)]> = pods.iter().map(Vec::as_slice).collect();
        for owner in ["ml/llm-worker-0", "ml/llm-worker-1", "ml/llm-worker-1/trainer", "pod-4f1c"] {
            assert_eq!(told(&pods, owner), "ml/PyTorchJob/llm", "{owner}");
        }
        for owner in ["ml/llm", "other/llm-worker-0", "slurm-12", "ml/llm-worker-10"] {
            assert_eq!(told(&pods, owner), owner);
        }
    }

    #[test]
    fn who_works_alone_is_a_run_by_itself() {
        for kind in ["Job", "CronJob", "ReplicaSet", "StatefulSet", "DaemonSet", "<none>"] {
            assert_eq!(told(&[&pod("p-0", kind, "p")], "ml/p-0"), "ml/p-0", "{kind}");
        }
        let mut adopted = pod("p-0", "PyTorchJob", "p");
        adopted.retain(|(name, _)| *name != "owner_is_controller");
        adopted.push(("owner_is_controller", "false"));
        assert_eq!(told(&[&adopted], "ml/p-0"), "ml/p-0");
    }

    #[test]
    fn a_job_that_another_controller_made_is_a_part_of_its_run() {
        let job = |kind| {
            let own = [("__name__", "kube_job_owner"), ("namespace", "ml"), ("job_name", "llm-workers-0")];
            let owner = [("owner_kind", kind), ("owner_name", "llm"), ("owner_is_controller", "true")];
            own.into_iter().chain(owner).collect::<Vec<_>>()
        };
        let pod = pod("llm-workers-0-3-x7k2p", "Job", "llm-workers-0");
        assert_eq!(told(&[&pod, &job("JobSet")], "ml/llm-workers-0-3-x7k2p"), "ml/JobSet/llm");
        assert_eq!(told(&[&job("MPIJob"), &pod], "ml/llm-workers-0-3-x7k2p"), "ml/MPIJob/llm");
        assert_eq!(told(&[&pod, &job("CronJob")], "ml/llm-workers-0-3-x7k2p"), "ml/llm-workers-0-3-x7k2p");
    }

    #[test]
    fn the_pod_of_kube_state_metrics_itself_is_not_meant() {
        let owner = [("owner_kind", "MPIJob"), ("owner_name", "llm"), ("owner_is_controller", "true")];
        let names = [("exported_namespace", "ml"), ("exported_pod", "llm-0")];
        let target = [("__name__", "kube_pod_owner"), ("namespace", "monitoring"), ("pod", "kube-state-metrics-0")];
        let renamed: Vec<_> = target.into_iter().chain(names).chain(owner).collect();
        assert_eq!(told(&[&renamed], "ml/llm-0"), "ml/MPIJob/llm");
        assert_eq!(told(&[&renamed], "monitoring/kube-state-metrics-0"), "monitoring/kube-state-metrics-0");
    }
}
