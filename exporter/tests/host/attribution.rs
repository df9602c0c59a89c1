use std::sync::Arc;
use std::time::Instant;

use goodput_exporter::attribute::resolve;
use goodput_exporter::collect::Context;
use goodput_exporter::encode::{Format, encode};
use goodput_exporter::family::Families;
use goodput_exporter::source::nvml::{Driver, Gpu, Instance, Process, Snapshot, Values};

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
    let owners = resolve(&machine.roots(), &snapshot);
    let ids = |instance| owners.of_instance("GPU-0", instance).iter().map(|owner| owner.id.clone()).collect::<Vec<_>>();
    assert_eq!(
        (ids(9), ids(2), ids(7)),
        (vec!["slurm-42".to_owned()], vec!["slurm-42".to_owned(), "train.service".to_owned()], vec![])
    );
    let context = Context { gpus: Arc::new(snapshot), owners: Arc::new(owners), ..machine.context() };
    let mut families = Families::default();
    collector("gpu").collect(&context, &mut families).unwrap();
    let text = encode(&families, Format::Text);
    let shown: Vec<_> = text.lines().filter(|line| line.starts_with("goodput_gpu_mig_owner_info{")).collect();
    let line = |id, owner| {
        format!(
            "goodput_gpu_mig_owner_info{{gpu=\"0\",UUID=\"GPU-0\",GPU_I_ID=\"{id}\",owner=\"{owner}\",GPU_I_PROFILE=\"1g.10gb\"}} 1"
        )
    };
    assert_eq!(shown, [line(2, "slurm-42"), line(2, "train.service"), line(9, "slurm-42")]);
}

#[test]
fn unseen_processes_are_counted_once() {
    assert_eq!(machine().owners().unattributed(), 2);
}

#[test]
fn owners_are_published_with_their_gpus() {
    machine().collect("owner").ok().golden("owner-two-owners-three-gpus");
}
