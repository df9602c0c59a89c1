//! The account that the time of an owner counts to: the namespace of a pod, the account of a Slurm job.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Source;
use crate::signal::Signal;
use goodput_exposition::sample::Labels;
use goodput_verdict::owner::{namespace_in, namespace_of, owner_of_uid, owners_named};

/// The accounts of one cluster, of owners whose name does not say.
#[derive(Debug, Default)]
pub(crate) struct Accounts(HashMap<String, Arc<str>>);

impl Accounts {
    /// Those of each cluster.
    pub(crate) fn of<'s, 'a: 's>(sources: impl Iterator<Item = &'s Source<'a>>) -> BTreeMap<&'a str, Arc<Accounts>> {
        let mut accounts: BTreeMap<&str, Accounts> = BTreeMap::new();
        for source in sources {
            let Some((owners, account)) = told(source.meaning.signal, source.labels) else { continue };
            let account: Arc<str> = account.into();
            let known = &mut accounts.entry(source.target.cluster).or_default().0;
            known.extend(owners.into_iter().map(|owner| (owner, Arc::clone(&account))));
        }
        accounts.into_iter().map(|(cluster, accounts)| (cluster, Arc::new(accounts))).collect()
    }

    /// The account of an owner; `None` where neither its name nor anybody else tells.
    pub(crate) fn name<'r>(&'r self, owner: &'r str) -> Option<&'r str> {
        self.0.get(owner).map(|account| &**account).or_else(|| namespace_in(owner))
    }
}

/// The names of an owner, and its account.
fn told(signal: Signal, labels: &Labels) -> Option<(Vec<String>, &str)> {
    let account = || labels.get("account").filter(|account| !account.is_empty());
    match signal {
        Signal::PodController => Some((vec![owner_of_uid(labels.get("uid")?)], namespace_of(labels)?)),
        Signal::JobAccount => Some((owners_named(labels, "slurmjobid"), account()?)),
        Signal::JobInfo => Some((vec![labels.get("owner")?.to_owned()], account()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;
    use goodput_exposition::sample::{Sample, Series};

    fn account(labels: &[(&str, &str)], owner: &str) -> Option<String> {
        let samples = vec![Sample { time_ms: 0, value: 1.0 }];
        let series = [Series { labels: Labels::new(labels.iter().copied()), samples }];
        let sources = sources(&series);
        let accounts = Accounts::of(sources.iter()).remove("").unwrap_or_default();
        accounts.name(owner).map(str::to_owned)
    }

    #[test]
    fn a_pod_counts_to_its_namespace() {
        for owner in ["vision/train-0", "vision/train-0/main"] {
            assert_eq!(account(&[], owner).as_deref(), Some("vision"), "{owner}");
        }
        let pod = [("__name__", "kube_pod_owner"), ("namespace", "vision"), ("pod", "a"), ("uid", "4f1c")];
        let renamed = [("__name__", "kube_pod_owner"), ("namespace", "monitoring"), ("uid", "4f1c")];
        let renamed: Vec<_> = renamed.into_iter().chain([("exported_namespace", "vision")]).collect();
        for labels in [&pod[..], &renamed] {
            assert_eq!(account(labels, "pod-4f1c").as_deref(), Some("vision"));
        }
    }

    #[test]
    fn a_slurm_job_counts_to_its_account() {
        let job = [("__name__", "slurm_job_memory_usage"), ("slurmjobid", "4711"), ("account", "physics")];
        for owner in ["slurm-4711", "job/4711"] {
            assert_eq!(account(&job, owner).as_deref(), Some("physics"), "{owner}");
        }
        let ours = [("__name__", "goodput_owner_info"), ("owner", "slurm-4711"), ("account", "physics")];
        assert_eq!(account(&ours, "slurm-4711").as_deref(), Some("physics"));
        assert_eq!(account(&ours, "slurm-471"), None);
        let unset = [("__name__", "slurm_job_memory_usage"), ("slurmjobid", "4711"), ("account", "")];
        assert_eq!(account(&unset, "slurm-4711"), None);
    }

    #[test]
    fn units_and_cgroups_count_to_nobody() {
        for owner in ["slurm-4711", "job/4711", "jupyter.service", "/user.slice/x", "cgroup-5b", "train-0", "pod-4f1c"]
        {
            assert_eq!(account(&[], owner), None, "{owner}");
        }
    }
}
