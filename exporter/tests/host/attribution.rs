use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use goodput_exporter::attribute::{self, Owners, Resolver};
use goodput_exporter::collect::CollectError;
use goodput_exporter::config::Config;
use goodput_exporter::parse::device_id::Part;
use goodput_exporter::parse::oom::Kill;
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::source::files::FileError;
use goodput_exporter::source::nvml::{Driver, Gpu, Instance, Process, Snapshot, Values};
use goodput_exporter::source::pod_resources::State;
use goodput_exporter::source::xid::Journal;

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
    machine().collect("owner").ok().golden("owner/two-owners-three-gpus");
}

/// What finds owners in the exporter with these arguments.
pub(crate) fn resolver(machine: &Machine, args: &[&str]) -> Resolver {
    let root = format!("--path.rootfs={}", machine.path("").display());
    let args = ["goodput-exporter", &root].into_iter().chain(args.iter().copied()).map(OsString::from);
    Resolver::start(Config::read(REGISTRY, args, &|_| None).unwrap().owner_settings())
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
    machine.collect_of(collector("owner").as_mut(), owners, gpus).ok().golden("owner/jobs-of-three-gpus");
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

/// The kernel's lines name cgroups alone, and the victim is often gone when they are shown.
#[test]
fn victims_of_the_oom_killer_keep_the_name_that_they_had() {
    let mut machine = Machine::empty();
    let id = "1d3d308a7d4800c1".repeat(4);
    let pod = "/kubepods/pod7a96c459-d529-44ae-9f99-90d3798d6426";
    machine.write("proc/1/cgroup", &format!("0::{pod}/{id}\n"));
    machine.write(&format!("var/log/containers/train-0_ml_main-{id}.log"), "");
    machine.gpu("00000000:1A:00.0", &[1]);
    let args = ["--kubernetes.pod-resources-socket=off"];
    let mut owner = collector("owner");
    let named = resolve(&machine, &args).0.all()[0].id.clone();
    let mut xids = Journal::default();
    let mut scrape = |lives: bool, lines: &[String]| {
        lines.iter().for_each(|line| xids.ooms.hear(&Kill::parse(line).unwrap()));
        let owners = if lives { resolve(&machine, &args).0 } else { Owners::default() };
        let gpus = Snapshot { xids: xids.clone(), ..machine.snapshot() };
        machine.collect_of(owner.as_mut(), owners, gpus).ok()
    };
    let line = |limit: &str, cgroup: &str| {
        let constraint = if limit.starts_with(",oom_memcg") { "MEMCG" } else { "NONE" };
        format!(
            "oom-kill:constraint=CONSTRAINT_{constraint},nodemask=(null){limit},task_memcg={cgroup},task=python,pid=1,uid=0"
        )
    };
    assert_eq!(scrape(true, &[]).count("goodput_owner_oom_kills_total"), 0);
    let own = line(&format!(",oom_memcg={pod}/{id}"), &format!("{pod}/{id}"));
    let above = line(",oom_memcg=/kubepods", &format!("{pod}/{id}"));
    let stranger = line(",global_oom", "/system.slice/backup.service");
    for scraped in [scrape(false, &[own.clone(), own, above, stranger]), scrape(false, &[])] {
        let kills = |labels: &str| scraped.value(&format!("goodput_owner_oom_kills_total{{{labels}}}"));
        assert_eq!(kills(&format!("owner=\"{named}\",reason=\"own_limit\"")), 2.0);
        assert_eq!(kills(&format!("owner=\"{named}\",reason=\"limit_above\",limit=\"/kubepods\"")), 1.0);
        assert_eq!(kills("owner=\"backup.service\",reason=\"node\""), 1.0);
    }
    assert!(named.contains("train-0"), "{named}");
}

/// Two clients of one job and one of another; the server, which has the same variables, is none.
#[test]
fn limits_of_mps_clients_are_told_where_environments_may_be_read() {
    let mut machine = Machine::empty();
    for (pid, job, environ) in [
        (1, 42, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\0CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8G\0API_TOKEN=secret\0"),
        (2, 42, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\0CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=16G,1=4G\0"),
        (3, 43, "HOME=/root\0"),
        (4, 44, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10\0"),
    ] {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/system.slice/slurmstepd.scope/job_{job}/step_0\n"));
        machine.write(&format!("proc/{pid}/environ"), environ);
    }
    machine.gpu("00000000:1A:00.0", &[1, 2, 3, 4]);
    let snapshot = || {
        let mut snapshot = machine.snapshot();
        let processes = snapshot.gpus[0].processes.as_mut().unwrap();
        processes.iter_mut().filter(|process| process.pid != 4).for_each(|process| process.mps = true);
        snapshot
    };
    let scrape = |flag: &[&str]| {
        let resolver = resolver(&machine, &[&["--kubernetes.pod-resources-socket=off"], flag].concat());
        // On a machine that is busy an environment may be read for a later one.
        let all_read = |owners: &Owners| flag.is_empty() || owners.mps().len() == 3;
        let owners = (0..100_000).map(|_| resolver.resolve(&machine.roots(), &snapshot())).find(all_read).unwrap();
        machine.collect_of(collector("owner").as_mut(), owners, snapshot()).ok()
    };
    let on = scrape(&["--collector.owner.mps-limits"]);
    assert_eq!(on.value("goodput_owner_mps_active_thread_limit_ratio{owner=\"slurm-42\"}"), 0.25);
    let memory = |device| {
        on.value(&format!("goodput_owner_mps_pinned_memory_limit_bytes{{owner=\"slurm-42\",device=\"{device}\"}}"))
    };
    assert_eq!((memory(0), memory(1)), (8_589_934_592.0, 4_294_967_296.0));
    assert_eq!(on.count("goodput_owner_mps_active_thread_limit_ratio"), 1, "neither without a limit nor of no client");
    assert!(!format!("{:?}", on.samples()).contains("secret"));
    let off = scrape(&[]);
    assert_eq!(off.count("goodput_owner_mps_active_thread_limit_ratio"), 0);
    machine.deny("proc/1/environ");
    let denied = resolver(&machine, &["--kubernetes.pod-resources-socket=off", "--collector.owner.mps-limits"]);
    let unread = |owners: &Owners| owners.accounts().unread.is_some();
    let owners = (0..100_000).map(|_| denied.resolve(&machine.roots(), &snapshot())).find(unread).unwrap();
    let collected = machine.collect_of(collector("owner").as_mut(), owners, snapshot());
    assert!(matches!(&collected.result, Err(CollectError::File(FileError::Denied { .. }))), "{:?}", collected.result);
}
