use crate::support::Machine;

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
fn unseen_processes_are_counted_once() {
    assert_eq!(machine().owners().unattributed(), 2);
}

#[test]
fn owners_are_published_with_their_gpus() {
    machine().collect("owner").ok().golden("owner-two-owners-three-gpus");
}
