//! Owners at one moment: processes, the kubelet's answer and the job mapping, put together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::accounts::Accounts;
use super::claims::{self, Claims};
use super::life::Signs;
use super::mps::Clients;
use super::slurm_gpus::JobGpus;
use super::{Owners, resolve};
use crate::parse::container_log::ContainerName;
use crate::source::container_logs::Logs;
use crate::source::files::Roots;
use crate::source::nvml::Snapshot;
use crate::source::pod_resources::proto::Pod;
use crate::source::pod_resources::{Answer, PodResources, State};
use crate::source::{job_map, slurm};

/// How long a resolution waits for the kubelet's answer: the first one, so that the first scrape has pods, and one that
/// meets a container for the first time while the kubelet answers, so that it is called by its pod from the start. No
/// other waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// The resources of NVIDIA's device plugin (whole GPUs, shared GPUs and MIG instances), which HAMi's uses too, and of Volcano's.
const RESOURCES: [&str; 4] = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "volcano.sh/vgpu-number"];

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
    /// Does a scheduler share out GPUs itself, that it has reserved? Then who was promised a share is not told.
    pub reserved: bool,
}

/// What a resolver reads in addition to the processes on GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The kubelet's pod-resources socket; `None` when the kubelet is not asked.
    pub kubelet: Option<PathBuf>,
    /// Further resources whose devices are GPUs or MIG instances.
    pub resources: Vec<String>,
    /// The folder of the job mapping.
    pub job_map: Option<PathBuf>,
    /// Cgroups to read besides those that hold a GPU.
    pub cgroup_patterns: Vec<String>,
    /// The Slurm accounts of jobs, from the environments of their processes.
    pub slurm_accounts: bool,
    /// The limits of MPS clients, from their environments.
    pub mps_limits: bool,
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
    /// As above.
    job_gpus: Option<Mutex<JobGpus>>,
    /// As above.
    mps: Option<Mutex<Clients>>,
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
    /// Pods in the kubelet's answer of that time without a sign of life, by namespace and name.
    finished: Option<(Instant, BTreeSet<(String, String)>)>,
}

impl Resolver {
    /// Reads these. Without a thread to ask the kubelet from, pods are not named.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let kubelet = settings.kubelet.and_then(|socket| {
            let started = PodResources::start(socket);
            started.inspect_err(|error| tracing::warn!("no pods are named: cannot start a thread: {error}")).ok()
        });
        Self {
            kubelet,
            resources: RESOURCES.iter().map(|name| (*name).to_owned()).chain(settings.resources).collect(),
            job_map: settings.job_map,
            cgroup_patterns: settings.cgroup_patterns,
            accounts: settings.slurm_accounts.then(|| reading("accounts", Accounts::start)).flatten(),
            job_gpus: settings.slurm_accounts.then(|| reading("GPUs of idle jobs", JobGpus::start)).flatten(),
            mps: settings.mps_limits.then(|| reading("limits of MPS clients", Clients::start)).flatten(),
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
        seen.learn(roots, &owners);
        let finished = answer.as_ref().map(|answer| seen.finished(roots, answer, &self.resources)).unwrap_or_default();
        let (mut claims, schedulers) = self.claims(answer.as_ref(), gpus, &finished);
        claims::add_allowed(&mut claims, &slurm::allowed(roots), &gpus.gpus);
        if let Some(accounts) = &self.accounts {
            owners.accounts = accounts.lock().resolve(roots, &owners.all);
            let ids = owners.accounts.ids.clone();
            owners.number(&ids);
        }
        if let Some(job_gpus) = &self.job_gpus {
            let (jobs, unread) = job_gpus.lock().resolve(roots);
            owners.accounts.unread = owners.accounts.unread.take().or(unread);
            claims::add_numbered(&mut claims, &jobs, &gpus.gpus, &owners.used_by_jobs());
        }
        if let Some(mps) = &self.mps {
            let (limits, unread) = mps.lock().resolve(roots, gpus);
            owners.limit_mps(limits);
            owners.accounts.unread = owners.accounts.unread.take().or(unread);
        }
        owners.join(&seen.names, &claims, schedulers);
        owners.add_matching(roots, &self.cgroup_patterns);
        owners
    }

    /// Every claim, and how asking went.
    fn claims(
        &self,
        answer: Option<&Answer>,
        gpus: &Snapshot,
        finished: &BTreeSet<(String, String)>,
    ) -> (Claims, Schedulers) {
        let jobs = self.job_map.as_deref().map(job_map::read);
        let pods = answer.and_then(Answer::pods);
        let told = pods.is_some() || matches!(jobs, Some(Ok(_)));
        let pods = pods.unwrap_or_default();
        let holds = |pod: &&Pod| !claims::is_reservation(pod) && !finished.contains(&key(pod));
        let (mut claims, mut unmapped) = claims::of_pods(pods.iter().filter(holds), &self.resources, &gpus.gpus);
        let reserved = pods.iter().any(claims::is_reservation);
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
        (claims, Schedulers { kubelet, job_map_error, told, unmapped, reserved })
    }
}

/// Without a thread to read environments from, what they say is not known.
fn reading<T>(what: &str, start: fn() -> std::io::Result<T>) -> Option<Mutex<T>> {
    let started = start().inspect_err(|error| tracing::warn!("no {what} are known: cannot start a thread: {error}"));
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
        if ids.iter().all(|id| self.names.contains_key(*id)) {
            return;
        }
        let Some(logs) = Logs::read(roots) else { return };
        for owner in owners.all() {
            let Some(id) = owner.container_id.as_ref().filter(|id| ids.contains(id)) else { continue };
            if !self.names.contains_key(id) {
                let name = logs.name(roots, id, owner.pod_uid.as_deref());
                self.names.extend(name.map(|name| (id.clone(), name)));
            }
        }
    }

    /// The pods of the answer that claim GPUs and show no sign of life; the search is made once per answer. A pod whose
    /// container works on a GPU lives.
    fn finished(&mut self, roots: &Roots, answer: &Answer, resources: &[String]) -> BTreeSet<(String, String)> {
        let (Some(taken), Some(pods)) = (answer.taken, answer.pods()) else { return BTreeSet::new() };
        if let Some((_, finished)) = self.finished.as_ref().filter(|(then, _)| *then == taken) {
            return finished.clone();
        }
        let works = |pod: &Pod| self.names.values().any(|name| name.namespace == pod.namespace && name.pod == pod.name);
        let idle: Vec<&Pod> = pods.iter().filter(|pod| !works(pod) && claims::claims_any(pod, resources)).collect();
        let signs = (!idle.is_empty()).then(|| Signs::look(roots)).flatten();
        let gone = |pod: &&&Pod| signs.as_ref().is_some_and(|signs| !signs.lives(&pod.namespace, &pod.name));
        let finished: BTreeSet<_> = idle.iter().filter(gone).map(|pod| key(pod)).collect();
        self.finished = Some((taken, finished.clone()));
        finished
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace.clone(), pod.name.clone())
}

/// Ids of the containers of pods that hold GPUs.
fn containers(owners: &Owners) -> impl Iterator<Item = &String> {
    owners.all().iter().filter(|owner| owner.pod_uid.is_some()).filter_map(|owner| owner.container_id.as_ref())
}
