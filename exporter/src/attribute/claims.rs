//! The GPUs that a scheduler has promised, and to which owner: allocations of the kubelet and jobs of the job mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::slurm_gpus::Numbered;
use crate::parse::container_log::ContainerName;
use crate::parse::device_id::{DeviceId, Part};
use crate::source::cgroupfs::matches;
use crate::source::job_map::Jobs;
use crate::source::nvml::{Gpu, Instance};
use crate::source::pod_resources::proto::{ClaimResource, Container, Pod};
use crate::source::slurm::Allowed;

/// NVIDIA's DRA driver for GPUs.
const DRA_DRIVER: &str = "gpu.nvidia.com";

/// Namespaces of the pods that Run:ai and KAI reserve whole GPUs with, for other pods to share: none of these pods uses one.
const RESERVATIONS: [&str; 2] = ["runai-reservation", "kai-resource-reservation"];

/// Does the pod only keep a GPU for others?
pub(super) fn is_reservation(pod: &Pod) -> bool {
    RESERVATIONS.contains(&pod.namespace.as_str())
}

/// Who was promised a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimant {
    /// A container of a pod.
    Container(ContainerName),
    /// A job of the workload manager.
    Job(String),
}

/// Promises by GPU (UUID), holder and part of the GPU: how many devices, which is more than one where replicas of a
/// shared GPU are.
pub type Claims = BTreeMap<String, BTreeMap<(Claimant, Part), usize>>;

/// Does the pod claim any GPU device?
pub(super) fn claims_any(pod: &Pod, resources: &[String]) -> bool {
    pod.containers.iter().any(|container| devices(container, resources).next().is_some())
}

/// The claims of the pods on these resources, and the number of devices that are of no GPU known.
#[must_use]
pub fn of_pods<'a>(pods: impl IntoIterator<Item = &'a Pod>, resources: &[String], gpus: &[Gpu]) -> (Claims, usize) {
    let (mut claims, mut unmapped) = (Claims::new(), 0);
    for pod in pods {
        for container in &pod.containers {
            let name = ContainerName {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
            };
            for device in devices(container, resources) {
                match device.and_then(|device| locate(&device, gpus)) {
                    Some(place) => add(&mut claims, place, Claimant::Container(name.clone())),
                    None => unmapped += 1,
                }
            }
        }
    }
    (claims, unmapped)
}

/// The claims of jobs, and the number of files that are about no GPU known.
#[must_use]
pub fn of_jobs(jobs: &[Jobs], gpus: &[Gpu]) -> (Claims, usize) {
    let (mut claims, mut unmapped) = (Claims::new(), 0);
    for Jobs { gpu, instance, jobs } in jobs {
        let part = instance.map_or(Part::Whole, Part::Instance);
        match locate(&DeviceId::Index(*gpu), gpus) {
            Some((uuid, _)) => {
                for job in jobs {
                    add(&mut claims, (uuid, part), Claimant::Job(job.clone()));
                }
            }
            None => unmapped += 1,
        }
    }
    (claims, unmapped)
}

/// Adds the GPUs that Slurm lets its jobs use, where no other source has reported the job.
pub(super) fn add_allowed(claims: &mut Claims, jobs: &[Allowed], gpus: &[Gpu]) {
    for Allowed { job, minors } in jobs {
        for gpu in gpus.iter().filter(|gpu| gpu.minor.is_ok_and(|minor| minors.contains(&minor))) {
            let key = (Claimant::Job(job.clone()), Part::Whole);
            claims.entry(gpu.uuid.clone()).or_default().entry(key).or_insert(1);
        }
    }
}

/// Adds the GPUs that the environments of jobs name, of jobs that no prolog and no cgroup has named. `used` are the GPUs that
/// a job's processes are on.
///
/// Slurm numbers GPUs by their device files, or as NVML does: a list counts where both are the same GPUs, or where one of
/// them fits what is used and the other does not. On a node with MIG the numbers are of something else.
pub(super) fn add_numbered(claims: &mut Claims, jobs: &[Numbered], gpus: &[Gpu], used: &BTreeMap<String, Uuids>) {
    if gpus.iter().any(|gpu| gpu.values.mig_mode.is_ok_and(|mode| mode.current)) {
        return;
    }
    for Numbered { job, gpus: numbers } in jobs {
        let claimant = Claimant::Job(job.clone());
        if claims.values().any(|by| by.keys().any(|(by, _)| *by == claimant)) {
            continue;
        }
        let none = Uuids::new();
        let uuids = meant(numbers, gpus, used.get(job).unwrap_or(&none)).unwrap_or_default();
        for uuid in uuids {
            claims.entry(uuid).or_default().entry((claimant.clone(), Part::Whole)).or_insert(1);
        }
    }
}

/// UUIDs of GPUs.
pub(super) type Uuids = BTreeSet<String>;

/// The GPUs that the numbers mean; `None` where that cannot be told.
fn meant(numbers: &BTreeSet<u32>, gpus: &[Gpu], used: &Uuids) -> Option<Uuids> {
    let find = |of: &dyn Fn(&Gpu) -> Option<u32>| -> Option<Uuids> {
        let one = |number: &u32| Some(gpus.iter().find(|gpu| of(gpu) == Some(*number))?.uuid.clone());
        numbers.iter().map(one).collect()
    };
    let fits = |found: &Uuids| used.is_subset(found);
    let by_minor = find(&|gpu| gpu.minor.ok()).filter(fits);
    let by_index = find(&|gpu| Some(gpu.index)).filter(fits);
    let minors_known = gpus.iter().all(|gpu| gpu.minor.is_ok());
    match (by_minor, by_index) {
        (Some(minor), Some(index)) => (minor == index).then_some(minor),
        (Some(minor), None) => Some(minor),
        (None, index) => index.filter(|_| minors_known || !used.is_empty()),
    }
}

fn add(claims: &mut Claims, (uuid, part): (&str, Part), claimant: Claimant) {
    *claims.entry(uuid.to_owned()).or_default().entry((claimant, part)).or_default() += 1;
}

/// The GPU devices of a container; `None` for one whose name has no known form.
fn devices<'a>(container: &'a Container, resources: &'a [String]) -> impl Iterator<Item = Option<DeviceId>> + 'a {
    let wanted = |name: &str| resources.iter().any(|pattern| matches(pattern, name));
    let plugins = container.devices.iter().filter(move |devices| wanted(&devices.resource_name));
    let plugins = plugins.flat_map(|devices| &devices.device_ids).map(|id| DeviceId::of_plugin(id));
    let claims = container.dynamic_resources.iter().flat_map(|resource| &resource.claim_resources);
    plugins.chain(claims.filter_map(dra_device))
}

/// The GPU behind a device of a claim; `None` for another driver's.
fn dra_device(claim: &ClaimResource) -> Option<Option<DeviceId>> {
    match claim.driver_name.as_str() {
        DRA_DRIVER => Some(DeviceId::of_dra(&claim.device_name)),
        // Before Kubernetes 1.31 only the CDI devices are told. The first that is a GPU is the device.
        "" => claim.cdi_devices.iter().find_map(|device| DeviceId::of_cdi(&device.name)).map(Some),
        _ => None,
    }
}

/// Which GPU, and which part of it.
fn locate<'a>(device: &DeviceId, gpus: &'a [Gpu]) -> Option<(&'a str, Part)> {
    let find = |is: &dyn Fn(&Gpu) -> bool| gpus.iter().find(|gpu| is(gpu)).map(|gpu| gpu.uuid.as_str());
    match device {
        DeviceId::Uuid(uuid) => Some((find(&|gpu| gpu.uuid == *uuid)?, Part::Whole)),
        DeviceId::MigOf(uuid, instance) => Some((find(&|gpu| gpu.uuid == *uuid)?, Part::Instance(*instance))),
        DeviceId::Index(index) => Some((find(&|gpu| gpu.index == *index)?, Part::Whole)),
        DeviceId::Minor(minor, part) => Some((find(&|gpu| gpu.minor == Ok(*minor))?, *part)),
        DeviceId::Mig(uuid) => gpus.iter().find_map(|gpu| {
            let is = |instance: &&Arc<Instance>| instance.devices.iter().any(|device| device.uuid == *uuid);
            Some((gpu.uuid.as_str(), Part::Instance(gpu.values.instances.iter().find(is)?.id)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::pod_resources::proto::{CdiDevice, Devices, DynamicResource};

    fn gpus() -> Vec<Gpu> {
        let gpu = |index: u32| Gpu { index, uuid: format!("GPU-{index}"), minor: Ok(index + 4), ..Gpu::default() };
        (0..3).map(gpu).chain([Gpu { index: 9, uuid: LONG.to_owned(), ..Gpu::default() }]).collect()
    }

    const LONG: &str = "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005";

    fn pod(container: Container) -> Pod {
        Pod { name: "train-0".into(), namespace: "ml".into(), containers: vec![container] }
    }

    fn plugin(resource: &str, ids: &[&str]) -> Pod {
        let device_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let devices = vec![Devices { resource_name: resource.into(), device_ids }];
        pod(Container { name: "main".into(), devices, ..Container::default() })
    }

    fn claim(driver: &str, device: &str, cdi: &[&str]) -> Pod {
        let cdi_devices = cdi.iter().map(|name| CdiDevice { name: (*name).to_owned() }).collect();
        let claim = ClaimResource { driver_name: driver.into(), device_name: device.into(), cdi_devices };
        let dynamic_resources = vec![DynamicResource { claim_resources: vec![claim] }];
        pod(Container { name: "main".into(), dynamic_resources, ..Container::default() })
    }

    #[test]
    fn every_kind_of_allocation_finds_its_gpu() {
        let one = |gpu: &str, part| vec![(gpu.to_owned(), part, 1)];
        for (pod, expected, unmapped) in [
            (plugin("nvidia.com/gpu", &["GPU-1"]), one("GPU-1", Part::Whole), 0),
            (plugin("nvidia.com/gpu", &["GPU-1::0", "GPU-1::7"]), vec![("GPU-1".into(), Part::Whole, 2)], 0),
            (plugin("nvidia.com/gpu", &[&format!("{LONG}-3")]), one(LONG, Part::Whole), 0),
            (plugin("nvidia.com/gpu", &["2"]), one("GPU-2", Part::Whole), 0),
            (plugin("nvidia.com/gpu", &["nvidia4/vgpu1"]), one("GPU-0", Part::Whole), 0),
            (plugin("nvidia.com/mig-1g.10gb", &["MIG-GPU-0/7/0"]), one("GPU-0", Part::Instance(7)), 0),
            (plugin("nvidia.com/mig-1g.10gb", &["MIG-1"]), vec![], 1),
            (plugin("nvidia.com/gpu", &["GPU-9", "pci-1"]), vec![], 2),
            (plugin("example.com/fpga", &["GPU-1"]), vec![], 0),
            (claim("gpu.nvidia.com", "gpu-5", &[]), one("GPU-1", Part::Whole), 0),
            (claim("gpu.nvidia.com", "gpu-4-mig-19-0-1", &[]), one("GPU-0", Part::SomeInstance), 0),
            (claim("gpu.nvidia.com", "gpu-9", &[]), vec![], 1),
            (claim("nic.example.com", "gpu-5", &["k8s.gpu.nvidia.com/device=gpu-5"]), vec![], 0),
            (claim("", "", &["x.com/y=z", "k8s.gpu.nvidia.com/claim=0f-gpu-6"]), one("GPU-2", Part::Whole), 0),
        ] {
            let resources = ["nvidia.com/gpu".to_owned(), "nvidia.com/mig-*".to_owned()];
            let (claims, missed) = of_pods([&pod], &resources, &gpus());
            let found: Vec<_> = claims
                .iter()
                .flat_map(|(gpu, by)| by.iter().map(|((_, part), count)| (gpu.clone(), *part, *count)))
                .collect();
            assert_eq!((found, missed), (expected, unmapped), "{pod:?}");
        }
    }

    #[test]
    fn jobs_by_the_devices_that_they_may_open() {
        let mut claims = Claims::new();
        let allowed = |job: &str, minors: &[u32]| Allowed { job: job.into(), minors: minors.iter().copied().collect() };
        add_allowed(&mut claims, &[allowed("42", &[4, 5]), allowed("43", &[6, 60])], &gpus());
        let found: Vec<_> =
            claims.iter().map(|(gpu, by)| (gpu.as_str(), by.keys().next().unwrap().0.clone())).collect();
        let job = |id: &str| Claimant::Job(id.to_owned());
        assert_eq!(found, [("GPU-0", job("42")), ("GPU-1", job("42")), ("GPU-2", job("43"))]);
    }

    #[test]
    fn jobs_by_the_numbers_that_their_environments_name() {
        let same: Vec<Gpu> =
            (0..3).map(|i| Gpu { index: i, uuid: format!("GPU-{i}"), minor: Ok(i), ..Gpu::default() }).collect();
        let swapped = |i: u32| Gpu { index: i, uuid: format!("GPU-{i}"), minor: Ok(2 - i), ..Gpu::default() };
        let swapped: Vec<Gpu> = (0..3).map(swapped).collect();
        let nameless = |i: u32| Gpu { index: i, uuid: format!("GPU-{i}"), ..Gpu::default() };
        let nameless: Vec<Gpu> = (0..3).map(nameless).collect();
        for (gpus, numbers, used, expected) in [
            (&same, vec![0, 2], vec![], Some(vec!["GPU-0", "GPU-2"])),
            (&same, vec![0], vec!["GPU-0"], Some(vec!["GPU-0"])),
            (&same, vec![0], vec!["GPU-1"], None),
            (&same, vec![0, 7], vec![], None),
            (&swapped, vec![0, 2], vec![], Some(vec!["GPU-0", "GPU-2"])),
            (&swapped, vec![0], vec![], None),
            (&swapped, vec![0], vec!["GPU-2"], Some(vec!["GPU-2"])),
            (&swapped, vec![0], vec!["GPU-0"], Some(vec!["GPU-0"])),
            (&nameless, vec![1], vec![], None),
            (&nameless, vec![1], vec!["GPU-1"], Some(vec!["GPU-1"])),
        ] {
            let numbers = numbers.into_iter().collect();
            let used: Uuids = used.into_iter().map(str::to_owned).collect();
            let expected: Option<Uuids> = expected.map(|uuids| uuids.into_iter().map(str::to_owned).collect());
            assert_eq!(meant(&numbers, gpus, &used), expected, "{numbers:?} {used:?}");
        }
    }

    #[test]
    fn a_prolog_or_a_cgroup_goes_before_the_environment() {
        let same: Vec<Gpu> =
            (0..3).map(|i| Gpu { index: i, uuid: format!("GPU-{i}"), minor: Ok(i), ..Gpu::default() }).collect();
        let mut claims = Claims::new();
        add(&mut claims, ("GPU-1", Part::Whole), Claimant::Job("42".into()));
        let jobs = ["42", "43"].map(|job| Numbered { job: job.into(), gpus: [0].into() });
        add_numbered(&mut claims, &jobs, &same, &BTreeMap::new());
        let found: Vec<_> =
            claims.iter().map(|(gpu, by)| (gpu.as_str(), by.keys().next().unwrap().0.clone())).collect();
        assert_eq!(found, [("GPU-0", Claimant::Job("43".into())), ("GPU-1", Claimant::Job("42".into()))]);
    }

    #[test]
    fn jobs_by_index() {
        let jobs = |gpu, instance| Jobs { gpu, instance, jobs: vec!["42".into(), "43".into()] };
        let (claims, unmapped) = of_jobs(&[jobs(1, None), jobs(2, Some(3)), jobs(8, None)], &gpus());
        let parts: Vec<_> = claims.values().flat_map(|by| by.keys().map(|(_, part)| *part)).collect();
        assert_eq!(claims.keys().collect::<Vec<_>>(), ["GPU-1", "GPU-2"]);
        assert_eq!(parts, [Part::Whole, Part::Whole, Part::Instance(3), Part::Instance(3)]);
        assert_eq!(unmapped, 1);
    }
}
