//! Owners at one moment: processes, the kubelet's answer and the job mapping, put together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;

use super::accounts::Accounts;
use super::claims::{self, Claims};
use super::{Owners, resolve};
use crate::config::Config;
use crate::parse::container_log::ContainerName;
use crate::source::files::Roots;
use crate::source::nvml::Snapshot;
use crate::source::pod_resources::{Answer, PodResources, State};
use crate::source::{container_logs, job_map};

/// How long a resolution waits for the kubelet's answer: the first one, so that the first scrape has pods, and one that
/// meets a container for the first time while the kubelet answers, so that it is called by its pod from the start. No
/// other waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// The resources of NVIDIA's device plugin: whole GPUs, shared GPUs and MIG instances.
const RESOURCES: [&str; 3] = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"];

/// What came of asking the schedulers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedulers {
    /// How asking the kubelet goes, and how old its last good answer is; `None` when it is not asked.
    pub kubelet: Option<(State, Option<Duration>)>,
    /// Why the job mapping could not be read.
    pub job_map_error: Option<String>,
    /// Has any of them told its claims?
    pub told: bool,
    /// Claimed devices that are none of the GPUs known.
    pub unmapped: usize,
}

/// Finds owners, and remembers what need not be found again.
#[derive(Default)]
pub struct Resolver {
    kubelet: Option<PodResources>,
    resources: Vec<String>,
    job_map: Option<PathBuf>,
    cgroup_patterns: Vec<String>,
    /// `None` when no environment is to be read.
    accounts: Option<Mutex<Accounts>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Names of the containers that hold GPUs, by id; they never change.
    names: BTreeMap<String, ContainerName>,
    /// The processes on GPUs.
    pids: Vec<Vec<u32>>,
    /// Ids of the containers that the last resolution met.
    containers: BTreeSet<String>,
    /// Has the kubelet's first answer been waited for?
    waited: bool,
}

impl Resolver {
    /// As configured. Without a thread to ask the kubelet from, pods are not named.
    #[must_use]
    pub fn start(config: &Config) -> Self {
        let kubelet = config.pod_resources_socket().and_then(|socket| {
            let started = PodResources::start(socket);
            started.inspect_err(|error| tracing::warn!("no pods are named: cannot start a thread: {error}")).ok()
        });
        Self {
            kubelet,
            resources: RESOURCES.iter().map(|name| (*name).to_owned()).chain(config.resource_names.clone()).collect(),
            job_map: config.job_mapping.clone(),
            cgroup_patterns: config.cgroup_patterns.clone(),
            accounts: config.tells_slurm_accounts().then(accounts).flatten(),
            seen: Mutex::default(),
        }
    }

    /// The owners of the GPUs now.
    #[must_use]
    pub fn resolve(&self, roots: &Roots, gpus: &Snapshot) -> Owners {
        let mut owners = resolve(roots, gpus);
        let mut seen = self.seen.lock();
        if let Some(kubelet) = self.kubelet.as_ref().filter(|_| seen.have_changed(gpus)) {
            kubelet.poke();
        }
        let first = !std::mem::replace(&mut seen.waited, true);
        let answer = self.kubelet.as_ref().map(|kubelet| match seen.meets_new(&owners) && !first {
            true => kubelet.newer_answer(PATIENCE),
            false => kubelet.answer(if first { PATIENCE } else { Duration::ZERO }),
        });
        let (claims, schedulers) = self.claims(answer.as_ref(), gpus);
        seen.learn(roots, &owners);
        owners.join(&seen.names, &claims, schedulers);
        if let Some(accounts) = &self.accounts {
            owners.accounts = accounts.lock().resolve(roots, &owners.all);
        }
        owners.add_matching(roots, &self.cgroup_patterns);
        owners
    }

    /// Every claim, and how asking went.
    fn claims(&self, answer: Option<&Answer>, gpus: &Snapshot) -> (Claims, Schedulers) {
        let jobs = self.job_map.as_deref().map(job_map::read);
        let pods = answer.and_then(Answer::pods);
        let told = pods.is_some() || matches!(jobs, Some(Ok(_)));
        let (mut claims, mut unmapped) = claims::of_pods(pods.unwrap_or_default(), &self.resources, &gpus.gpus);
        let mut job_map_error = None;
        match jobs {
            Some(Ok(jobs)) => {
                let (of_jobs, missed) = claims::of_jobs(&jobs, &gpus.gpus);
                unmapped += missed;
                for (uuid, by) in of_jobs {
                    claims.entry(uuid).or_default().extend(by);
                }
            }
            Some(Err(error)) => job_map_error = Some(format!("the job mapping: {error}")),
            None => {}
        }
        let kubelet = answer.map(|answer| (answer.state, answer.taken.map(|taken| taken.elapsed())));
        (claims, Schedulers { kubelet, job_map_error, told, unmapped })
    }
}

/// Without a thread to read environments from, no accounts are told.
fn accounts() -> Option<Mutex<Accounts>> {
    let started = Accounts::start();
    let started = started.inspect_err(|error| tracing::warn!("no accounts are told: cannot start a thread: {error}"));
    started.ok().map(Mutex::new)
}

impl Seen {
    fn have_changed(&mut self, gpus: &Snapshot) -> bool {
        let pids = |gpu: &crate::source::nvml::Gpu| {
            gpu.processes.iter().flatten().map(|process| process.pid).collect::<Vec<_>>()
        };
        let now: Vec<_> = gpus.gpus.iter().map(pids).collect();
        let changed = now != self.pids;
        self.pids = now;
        changed
    }

    /// Is there a container of a pod that the last resolution has not met?
    fn meets_new(&mut self, owners: &Owners) -> bool {
        let now: BTreeSet<_> = containers(owners).cloned().collect();
        let new = !now.is_subset(&self.containers);
        self.containers = now;
        new
    }

    /// Looks for the names of containers that are new. Folders that cannot be read leave them without.
    fn learn(&mut self, roots: &Roots, owners: &Owners) {
        let ids: Vec<&String> = containers(owners).collect();
        self.names.retain(|id, _| ids.contains(&id));
        if ids.iter().any(|id| !self.names.contains_key(*id)) {
            let names = container_logs::names(roots).unwrap_or_default();
            self.names.extend(names.into_iter().filter(|(id, _)| ids.contains(&id)));
        }
    }
}

/// Ids of the containers of pods that hold GPUs.
fn containers(owners: &Owners) -> impl Iterator<Item = &String> {
    owners.all().iter().filter(|owner| owner.pod_uid.is_some()).filter_map(|owner| owner.container_id.as_ref())
}
