//! Who holds a GPU: the owners of its processes and the claims on it, as one list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Owner;
use super::claims::{Claimant, Claims};
use crate::parse::container_log::ContainerName;
use crate::parse::device_id::Part;

/// One holder of a GPU, or of a part of it. It uses the GPU, was promised it, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The `owner` label: that of the [`Ids`] where the container is known, else that of the processes' owner or
    /// `slurm-JOB` of the claim.
    pub owner: String,
    /// The owner of its processes, if it has any.
    pub of_processes: Option<Arc<Owner>>,
    /// The container, by name.
    pub container: Option<ContainerName>,
    /// Slurm job id.
    pub job: Option<String>,
    /// What it holds.
    pub part: Part,
    /// Its processes on the GPU; `None` when the driver does not tell, or not for which of its parts.
    pub processes: Option<usize>,
    /// Devices that a scheduler has promised it; `None` when no scheduler tells.
    pub allocated: Option<usize>,
}

/// Holders by UUID. A GPU whose processes are not known is left out until something claims it.
pub type Holders = BTreeMap<String, Vec<Holder>>;

impl Holder {
    pub(super) fn of_processes(owner: Arc<Owner>, part: Part, processes: usize) -> Self {
        Self {
            owner: owner.id.clone(),
            job: owner.slurm_job.clone(),
            of_processes: Some(owner),
            container: None,
            part,
            processes: Some(processes),
            allocated: None,
        }
    }

    fn of_claim(claimant: &Claimant, ids: &Ids, processes_known: bool) -> Self {
        let (owner, container, job) = match claimant {
            Claimant::Container(name) => (ids.of(name), Some(name.clone()), None),
            Claimant::Job(job) => (format!("slurm-{job}"), None, Some(job.clone())),
        };
        let processes = processes_known.then_some(0);
        Self { owner, of_processes: None, container, job, part: Part::Whole, processes, allocated: None }
    }

    fn is(&self, claimant: &Claimant) -> bool {
        match claimant {
            Claimant::Container(name) => self.container.as_ref() == Some(name),
            Claimant::Job(job) => self.job.as_ref() == Some(job),
        }
    }

    /// Is it a container of Kubernetes with only its id known?
    fn is_nameless_pod(&self) -> bool {
        self.container.is_none() && self.of_processes.as_ref().is_some_and(|owner| owner.pod_uid.is_some())
    }
}

/// How containers whose names are known are called, whether they were promised a GPU or work on it: `NAMESPACE/POD`, and
/// the container behind it where several of a pod hold GPUs. A pod's promises are all made before it starts, so its
/// containers are called the same from then on.
struct Ids(BTreeMap<(String, String), BTreeSet<String>>);

impl Ids {
    fn new(holders: &Holders, claims: &Claims) -> Self {
        let claimed = claims.values().flat_map(BTreeMap::keys).filter_map(|(claimant, _)| container(claimant));
        let mut ids = Self(BTreeMap::new());
        claimed.for_each(|name| ids.add(name));
        let mut working: Vec<_> = holders.values().flatten().filter_map(|holder| holder.container.as_ref()).collect();
        working.retain(|name| !ids.0.contains_key(&pod(name)));
        working.into_iter().for_each(|name| ids.add(name));
        ids
    }

    fn add(&mut self, name: &ContainerName) {
        self.0.entry(pod(name)).or_default().insert(name.container.clone());
    }

    fn of(&self, name: &ContainerName) -> String {
        let ContainerName { namespace, pod: of_pod, container } = name;
        let alone = self.0.get(&pod(name)).is_none_or(|all| all.len() == 1 && all.contains(container));
        if alone { format!("{namespace}/{of_pod}") } else { format!("{namespace}/{of_pod}/{container}") }
    }
}

fn pod(name: &ContainerName) -> (String, String) {
    (name.namespace.clone(), name.pod.clone())
}

/// Names the containers that hold GPUs, by their ids where `names` has them, else by exclusion, and joins the claims.
/// Where all claims are known, who has none is known to have none. Gives the new ids of owners that have one now.
pub(super) fn join(
    holders: &mut Holders,
    names: &BTreeMap<String, ContainerName>,
    claims: &Claims,
    all_claims_known: bool,
) -> BTreeMap<String, String> {
    for holder in holders.values_mut().flatten() {
        let id = holder.of_processes.as_ref().and_then(|owner| owner.container_id.as_ref());
        holder.container = id.and_then(|id| names.get(id)).cloned();
    }
    let excluded = by_exclusion(holders, claims);
    for holder in holders.values_mut().flatten().filter(|holder| holder.is_nameless_pod()) {
        holder.container = excluded.get(&holder.owner).cloned();
    }
    let ids = Ids::new(holders, claims);
    let renamed = rename(holders, &ids);
    for (uuid, claims) in claims {
        let processes_known = holders.contains_key(uuid);
        add(holders.entry(uuid.clone()).or_default(), claims, &ids, processes_known);
    }
    for holder in holders.values_mut().flatten().filter(|_| all_claims_known) {
        holder.allocated.get_or_insert(0);
    }
    for holders in holders.values_mut() {
        holders.sort_by(|a, b| (&a.owner, &a.container, a.part).cmp(&(&b.owner, &b.container, b.part)));
    }
    renamed
}

/// Calls the owners of processes as their containers are called. Of several with one name, as a container that was
/// started again has while the old one still ends, one is: an id is one owner's.
fn rename(holders: &mut Holders, ids: &Ids) -> BTreeMap<String, String> {
    let named =
        holders.values().flatten().filter_map(|holder| Some((ids.of(holder.container.as_ref()?), &holder.owner)));
    let by_id: BTreeMap<String, String> = named.map(|(id, owner)| (id, owner.clone())).collect();
    let renamed: BTreeMap<String, String> = by_id.into_iter().map(|(id, owner)| (owner, id)).collect();
    for holder in holders.values_mut().flatten() {
        if let Some(id) = renamed.get(&holder.owner) {
            holder.owner.clone_from(id);
            holder.of_processes = holder.of_processes.take().map(|owner| Arc::new(owner.called(id)));
        }
    }
    renamed
}

/// Names by owner: where one container was promised a GPU and one container without a name has processes on it, they are
/// the same, unless another GPU says otherwise.
fn by_exclusion(holders: &Holders, claims: &Claims) -> BTreeMap<String, ContainerName> {
    let mut names: BTreeMap<&str, BTreeSet<&ContainerName>> = BTreeMap::new();
    let mut owners: BTreeMap<&ContainerName, BTreeSet<&str>> = BTreeMap::new();
    for (uuid, claims) in claims {
        let claimants: BTreeSet<_> = claims.keys().filter_map(|(claimant, _)| container(claimant)).collect();
        let here = holders.get(uuid).map_or(&[][..], Vec::as_slice);
        let nameless: Vec<_> = here.iter().filter(|holder| holder.is_nameless_pod()).collect();
        let taken = |name: &ContainerName| here.iter().any(|holder| holder.container.as_ref() == Some(name));
        if let ([owner], Some(name), 1) = (nameless.as_slice(), claimants.first(), claimants.len())
            && !taken(name)
        {
            names.entry(&owner.owner).or_default().insert(name);
            owners.entry(name).or_default().insert(&owner.owner);
        }
    }
    let one_to_one = names.into_iter().filter_map(|(owner, names)| {
        let name = names.first().filter(|_| names.len() == 1)?;
        (owners.get(name)?.len() == 1).then(|| (owner.to_owned(), (*name).clone()))
    });
    one_to_one.collect()
}

fn container(claimant: &Claimant) -> Option<&ContainerName> {
    match claimant {
        Claimant::Container(name) => Some(name),
        Claimant::Job(_) => None,
    }
}

/// Adds the claims on one GPU to its holders. A claim on several parts makes one holder of each; which of them the
/// processes are on is only known where the driver tells.
fn add(holders: &mut Vec<Holder>, claims: &BTreeMap<(Claimant, Part), usize>, ids: &Ids, processes_known: bool) {
    let claimants: BTreeSet<&Claimant> = claims.keys().map(|(claimant, _)| claimant).collect();
    for claimant in claimants {
        let (mut known, others): (Vec<_>, Vec<_>) = holders.drain(..).partition(|holder| holder.is(claimant));
        *holders = others;
        let whole = known.iter().position(|holder| holder.part == Part::Whole).map(|at| known.swap_remove(at));
        let unused = known.first().map(|holder| Holder { processes: Some(0), ..holder.clone() });
        let spread = whole.or(unused).unwrap_or_else(|| Holder::of_claim(claimant, ids, processes_known));
        let parts: Vec<_> = claims.iter().filter(|((by, _), _)| by == claimant).collect();
        let processes = spread.processes.filter(|count| parts.len() == 1 || *count == 0);
        for ((_, part), devices) in parts {
            let here = known.iter().position(|holder| holder.part == *part).map(|at| known.swap_remove(at));
            let holder = here.unwrap_or_else(|| Holder { part: *part, processes, ..spread.clone() });
            holders.push(Holder { allocated: Some(*devices), ..holder });
        }
        holders.append(&mut known);
    }
}

/// The labels of dcgm-exporter that say whose a device is; empty where it has no owner, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLabels<'a> {
    /// Name of the container.
    pub container: &'a str,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// Job id of the job mapping.
    pub hpc_job: &'a str,
}

impl<'a> DeviceLabels<'a> {
    /// The labels of a GPU (`Part::Whole`) or an instance of it. A scheduler's claim goes before the use of a GPU; who
    /// holds a part of it does not own the whole.
    #[must_use]
    pub fn of(holders: &'a [Holder], device: Part) -> Self {
        let concerned: Vec<&Holder> =
            holders.iter().filter(|holder| device == Part::Whole || holder.part == device).collect();
        let is_claimed = |holder: &&&Holder| holder.allocated.is_some_and(|devices| devices > 0);
        let claimed = |is: fn(&Holder) -> bool| -> Vec<&Holder> {
            concerned.iter().filter(is_claimed).filter(|holder| is(holder)).copied().collect()
        };
        let pods = claimed(|holder| holder.container.is_some());
        let owner = sole(if pods.is_empty() { &concerned } else { &pods }, device);
        let job = sole(&claimed(|holder| holder.container.is_none()), device);
        let mut labels = Self::default();
        if let Some(ContainerName { namespace, pod, container }) = owner.and_then(|holder| holder.container.as_ref()) {
            (labels.container, labels.namespace, labels.pod) = (container, namespace, pod);
        }
        if let Some(job) = job.and_then(|holder| holder.job.as_deref()) {
            labels.hpc_job = job;
        }
        labels
    }
}

impl<'a> DeviceLabels<'a> {
    /// The values in the order of the catalog's rows.
    #[must_use]
    pub fn values(self) -> [&'a str; 4] {
        [self.container, self.namespace, self.pod, self.hpc_job]
    }
}

fn sole<'a>(holders: &[&'a Holder], device: Part) -> Option<&'a Holder> {
    match holders {
        [holder] if holder.part == device => Some(holder),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
