use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use goodput_exporter::attribute::{self, Owners, Resolver};
use goodput_exporter::collect::REGISTRY;
use goodput_exporter::config::Config;
use goodput_exporter::parse::device_id::Part;
use goodput_exporter::source::nvml::{Driver, Gpu, Instance, Process, Snapshot, Values};
use goodput_exporter::source::pod_resources::State;

use crate::support::{Machine, collector};

fn machine() -> Machine {
    let mut machine = Machine::empty();
    machine.write("proc/1/cgroup", "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n");
    machine.write("proc/2/cgroup", "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_1\n");
    machine.write("proc/3/cgroup", "0::/system.slice/train.service\n");
    machine.write("proc/4/cgroup", "no such line\n");
    machine.gpu("00000000:1A:00.0", &[1, 3]);
    machine.gpu("00000000:1B:00.0", &[2, 1, 99]);
    machine.gpu("00000000:1C:00.0", &[4, 99]);
    machine
}

#[test]
fn processes_of_one_job_are_one_owner() {
    let owners = machine().owners();
    let ids = |gpu: &str| owners.of_gpu(gpu).iter().map(|owner| owner.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids("GPU-0"), ["slurm-42", "train.service"]);
    assert_eq!(ids("GPU-1"), ["slurm-42"]);
    assert_eq!(ids("GPU-2"), [""; 0]);
    assert_eq!(owners.of_gpu("GPU-0")[0].pids, [1, 2]);
    assert_eq!(owners.all().len(), 2);
}

#[test]
fn a_process_on_a_mig_instance_owns_that_instance() {
    let machine = machine();
    let process = |pid, instance| Process { pid, instance: Some(instance), ..Process::default() };
    let instance = |id| Arc::new(Instance { id, profile: Some("1g.10gb".to_owned()), ..Instance::default() });
    let mut values = Values::default();
    values.instances = vec![instance(2), instance(7), instance(9)];
    let gpu = Gpu {
        uuid: "GPU-0".to_owned(),
        taken: Some(Instant::now()),
        processes: Ok(vec![process(1, 9), process(2, 2), process(3, 2)]),
        values: Arc::new(values),
        ..Gpu::default()
    };
    let driver = Driver::Loaded { version: "580.105.08".to_owned() };
    let snapshot = Snapshot { driver, gpus: vec![gpu], ..Snapshot::default() };
    let owners = attribute::resolve(&machine.roots(), &snapshot);
    let ids = |instance| owners.of_instance("GPU-0", instance).map(|owner| owner.id.clone()).collect::<Vec<_>>();
    assert_eq!(
        (ids(9), ids(2), ids(7)),
        (vec!["slurm-42".to_owned()], vec!["slurm-42".to_owned(), "train.service".to_owned()], vec![])
    );
    let collected = machine.collect_of(collector("owner").as_mut(), owners, snapshot).ok();
    for (id, owner, processes) in [(2, "slurm-42", 1.0), (2, "train.service", 1.0), (9, "slurm-42", 1.0)] {
        let job = if owner == "slurm-42" { ",slurm_job=\"42\"" } else { "" };
        let labels = format!("{{gpu=\"0\",UUID=\"GPU-0\",owner=\"{owner}\",GPU_I_ID=\"{id}\"{job}}}");
        assert_eq!(collected.value(&format!("goodput_gpu_owner_processes{labels}")), processes);
    }
    assert_eq!(collected.count("goodput_gpu_owner_info"), 3);
}

#[test]
fn unseen_processes_are_counted_once() {
    assert_eq!(machine().owners().unattributed(), 2);
}

#[test]
fn owners_are_published_with_their_gpus() {
    machine().collect("owner").ok().golden("owner-two-owners-three-gpus");
}

/// What finds owners in the exporter with these arguments.
pub(crate) fn resolver(machine: &Machine, args: &[&str]) -> Resolver {
    let root = format!("--path.rootfs={}", machine.path("").display());
    let args = ["goodput-exporter", &root].into_iter().chain(args.iter().copied()).map(OsString::from);
    Resolver::start(&Config::read(REGISTRY, args, &|_| None).unwrap())
}

/// Owners as the exporter finds them with these arguments.
fn resolve(machine: &Machine, args: &[&str]) -> (Owners, Snapshot) {
    let snapshot = machine.snapshot();
    (resolver(machine, args).resolve(&machine.roots(), &snapshot), snapshot)
}

#[test]
fn the_mps_server_owns_nothing_beside_its_clients() {
    let mut machine = Machine::empty();
    for (pid, unit, comm) in [(1, "mps", "nvidia-cuda-mps"), (2, "train", "python")] {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/system.slice/{unit}.service\n"));
        machine.write(&format!("proc/{pid}/comm"), &format!("{comm}\n"));
    }
    machine.gpu("00000000:1A:00.0", &[1, 2]);
    machine.gpu("00000000:1B:00.0", &[1]);
    let owners = machine.owners();
    let ids = |gpu: &str| owners.of_gpu(gpu).iter().map(|owner| owner.id.clone()).collect::<Vec<_>>();
    assert_eq!((ids("GPU-0"), ids("GPU-1")), (vec!["train.service".to_owned()], vec!["mps.service".to_owned()]));
}

#[test]
fn containers_have_the_names_of_their_logs() {
    let mut machine = Machine::empty();
    let ids = ["1d3d308a7d4800c1".repeat(4), "2d3d308a7d4800c1".repeat(4)];
    for (pid, id) in (1..).zip(&ids) {
        machine.write(
            &format!("proc/{pid}/cgroup"),
            &format!("0::/kubepods/pod7a96c459-d529-44ae-9f99-90d3798d6426/{id}\n"),
        );
    }
    machine.write(&format!("var/log/containers/train-0_ml_main-{}.log", ids[0]), "");
    machine.gpu("00000000:1A:00.0", &[1]);
    machine.gpu("00000000:1B:00.0", &[2]);
    let (owners, _) = resolve(&machine, &["--kubernetes.pod-resources-socket=off"]);
    let pod = |gpu: &str| owners.device_labels(gpu, Part::Whole).pod.to_owned();
    assert_eq!((pod("GPU-0").as_str(), pod("GPU-1").as_str()), ("train-0", ""));
    assert_eq!(owners.holders("GPU-0")[0].allocated, None, "no scheduler told");
    assert_eq!(owners.schedulers().unwrap().kubelet, None);
}

#[test]
fn a_node_without_a_kubelet_says_so() {
    let (owners, _) = resolve(&machine(), &[]);
    assert_eq!(owners.schedulers().unwrap().kubelet, Some((State::Absent, None)));
}

#[test]
fn claims_are_published_beside_processes() {
    let machine = machine();
    for (file, jobs) in [("jobs/0", "42\n"), ("jobs/1", "42\n43\n"), ("jobs/9", "44\n")] {
        machine.write(file, jobs);
    }
    let jobs = format!("--slurm.job-mapping-dir={}", machine.path("jobs").display());
    let (owners, gpus) = resolve(&machine, &["--kubernetes.pod-resources-socket=off", &jobs]);
    machine.collect_of(collector("owner").as_mut(), owners, gpus).ok().golden("owner-jobs-of-three-gpus");
}

#[test]
fn a_job_mapping_that_cannot_be_read_fails_the_collector_and_names_the_folder() {
    let machine = machine();
    let (owners, gpus) = resolve(&machine, &["--slurm.job-mapping-dir=/nowhere/jobs"]);
    let collected = machine.collect_of(collector("owner").as_mut(), owners, gpus);
    let error = collected.result.as_ref().unwrap_err().to_string();
    assert_eq!(error, "the job mapping: /nowhere/jobs: not there");
    assert_eq!(collected.count("goodput_gpu_owner_info"), 3, "processes are attributed all the same");
}
