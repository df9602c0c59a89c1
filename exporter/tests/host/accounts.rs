//! Slurm accounts of owners, from the environments of processes.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};

use goodput_exporter::attribute::accounts::Unread;
use goodput_exporter::attribute::{Owners, Resolver};
use goodput_exporter::collect::CollectError;
use goodput_exporter::source::files::FileError;
use goodput_exporter::source::nvml::Snapshot;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};

use crate::attribution;
use crate::support::{Collected, Machine, collector};

const PHYSICS: &str = "HOME=/home/ada\0SLURM_JOB_ACCOUNT=physics\0API_TOKEN=secret\0";
const BIOLOGY: &str = "SLURM_JOB_ACCOUNT=biology\0";
const NONE: &str = "HOME=/home/ada\0API_TOKEN=secret\0";

/// Job 42 with the processes 1 and 2, job 43 with the process 3, and a service.
fn machine() -> Machine {
    let mut machine = Machine::empty();
    for (pid, cgroup) in [
        (1, "slurmstepd.scope/job_42/step_0/user/task_0"),
        (2, "slurmstepd.scope/job_42/step_0/user/task_1"),
        (3, "slurmstepd.scope/job_43/step_0"),
        (4, "train.service"),
    ] {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/system.slice/{cgroup}\n"));
    }
    machine.gpu("00000000:1A:00.0", &[1, 2, 4]);
    machine.gpu("00000000:1B:00.0", &[3]);
    machine
}

fn resolver(machine: &Machine, args: &[&str]) -> Resolver {
    attribution::resolver(machine, &[&["--kubernetes.pod-resources-socket=off"], args].concat())
}

const ON: &[&str] = &["--collector.owner.slurm-account"];

/// The account of each owner.
fn accounts(owners: &Owners) -> Vec<(&str, Option<&str>)> {
    owners.all().iter().map(|owner| (owner.id.as_str(), owners.accounts().of(owner))).collect()
}

/// Scrapes until `done`. The first scrape usually does; on a busy machine an environment may be read for the next one.
#[track_caller]
fn until(machine: &Machine, resolver: &Resolver, done: impl Fn(&Owners) -> bool) -> Owners {
    let scrape = || resolver.resolve(&machine.roots(), &machine.snapshot());
    let found = (0..100_000).map(|_| scrape()).find(done);
    found.unwrap_or_else(|| panic!("never, now {:?} {:?}", accounts(&scrape()), scrape().accounts().unread))
}

/// How often to scrape where nothing is to change.
const SCRAPES: usize = 20;

fn collect(machine: &Machine, owners: Owners) -> Collected {
    machine.collect_of(collector("owner").as_mut(), owners, machine.snapshot())
}

fn block(machine: &Machine, path: &str) {
    mkfifoat(CWD, machine.path(path), Mode::RUSR | Mode::WUSR).unwrap();
}

/// Does a thread read the pipe, or wait for that?
fn is_read(machine: &Machine, path: &str) -> bool {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    OpenOptions::new().write(true).custom_flags(nonblocking).open(machine.path(path)).is_ok()
}

#[test]
fn an_account_is_a_label_of_the_job_and_nothing_else_of_the_environment_is() {
    let machine = machine();
    for (pid, environ) in [(1, PHYSICS), (2, PHYSICS), (3, NONE)] {
        machine.write(&format!("proc/{pid}/environ"), environ);
    }
    block(&machine, "proc/4/environ");
    let owners = until(&machine, &resolver(&machine, ON), |owners| owners.accounts().of(&owners.all()[0]).is_some());
    assert_eq!(accounts(&owners), [("slurm-42", Some("physics")), ("slurm-43", None), ("train.service", None)]);
    assert!(!format!("{owners:?}").contains("secret"));
    assert!(!is_read(&machine, "proc/4/environ"), "a service is no Slurm job");
    collect(&machine, owners).ok().golden("owner/slurm-account");
}

#[test]
fn no_environment_is_read_unless_it_is_asked_for() {
    let machine = machine();
    (1..=4).for_each(|pid| block(&machine, &format!("proc/{pid}/environ")));
    for args in [&[][..], &["--no-collector.owner.slurm-account"], &[ON[0], "--no-collector.owner"]] {
        let resolver = resolver(&machine, args);
        for _ in 0..SCRAPES {
            let owners = resolver.resolve(&machine.roots(), &machine.snapshot());
            assert_eq!(owners.accounts().unread, None);
            assert!((1..=4).all(|pid| !is_read(&machine, &format!("proc/{pid}/environ"))), "{args:?}");
            let collected = collect(&machine, owners).ok();
            assert!(collected.samples().keys().all(|series| !series.contains("account")));
        }
    }
}

#[test]
fn an_account_is_read_once_and_forgotten_with_its_job() {
    let machine = machine();
    machine.write("proc/1/environ", PHYSICS);
    machine.write("proc/2/environ", PHYSICS);
    let resolver = resolver(&machine, ON);
    let is = |account| move |owners: &Owners| owners.accounts().of(&owners.all()[0]) == Some(account);
    until(&machine, &resolver, is("physics"));
    machine.write("proc/1/environ", BIOLOGY);
    machine.write("proc/2/environ", BIOLOGY);
    for _ in 0..SCRAPES {
        assert!(is("physics")(&resolver.resolve(&machine.roots(), &machine.snapshot())), "it was read again");
    }
    let _ = resolver.resolve(&machine.roots(), &Snapshot::default());
    until(&machine, &resolver, is("biology"));
}

#[test]
fn a_process_without_it_is_not_asked_again_and_the_next_one_is() {
    let machine = machine();
    machine.write("proc/1/environ", NONE);
    machine.write("proc/2/environ", NONE);
    let resolver = resolver(&machine, ON);
    let nobody = |owners: &Owners| owners.accounts().of(&owners.all()[0]).is_none();
    for _ in 0..SCRAPES {
        assert!(nobody(&until(&machine, &resolver, |owners| owners.accounts().unread.is_none())));
    }
    machine.write("proc/1/environ", PHYSICS);
    for _ in 0..SCRAPES {
        assert!(nobody(&resolver.resolve(&machine.roots(), &machine.snapshot())), "it was asked again");
    }
    let machine = self::machine();
    machine.write("proc/1/environ", NONE);
    machine.write("proc/2/environ", PHYSICS);
    until(&machine, &self::resolver(&machine, ON), |owners| !nobody(owners));
}

#[test]
fn a_process_that_is_being_started_is_asked_again() {
    let machine = machine();
    machine.write("proc/1/environ", "");
    let resolver = resolver(&machine, ON);
    for _ in 0..SCRAPES {
        let owners = until(&machine, &resolver, |owners| owners.accounts().unread.is_none());
        assert_eq!(owners.accounts().of(&owners.all()[0]), None);
    }
    machine.write("proc/1/environ", PHYSICS);
    until(&machine, &resolver, |owners| owners.accounts().of(&owners.all()[0]) == Some("physics"));
}

#[test]
fn what_may_not_be_read_is_denied_and_costs_no_other_account() {
    let machine = machine();
    machine.deny("proc/1/environ");
    machine.deny("proc/2/environ");
    machine.write("proc/3/environ", BIOLOGY);
    let resolver = resolver(&machine, ON);
    let denied = |owners: &Owners| matches!(owners.accounts().unread, Some(Unread::Denied(_)));
    let owners =
        until(&machine, &resolver, |owners| denied(owners) && owners.accounts().of(&owners.all()[1]).is_some());
    assert_eq!(accounts(&owners)[..2], [("slurm-42", None), ("slurm-43", Some("biology"))]);
    let collected = collect(&machine, owners);
    let Err(CollectError::File(FileError::Denied { path })) = &collected.result else {
        panic!("{:?}", collected.result);
    };
    assert!(path.ends_with("environ") && path.starts_with(machine.path("proc")), "{}", path.display());
    assert_eq!(collected.count("goodput_owner_info"), 3, "owners are told all the same");
    assert_eq!(collected.count("goodput_gpu_owner_info"), 3);

    std::fs::remove_file(machine.path("proc/2/environ")).unwrap();
    machine.write("proc/2/environ", PHYSICS);
    let owners = until(&machine, &resolver, |owners| owners.accounts().of(&owners.all()[0]).is_some());
    assert_eq!(owners.accounts().unread, None, "one process of the job is enough");
    collect(&machine, owners).ok();
}

#[test]
fn a_process_that_has_ended_is_no_fault() {
    let machine = machine();
    let owners = until(&machine, &resolver(&machine, ON), |owners| owners.accounts().unread.is_none());
    assert!(accounts(&owners).iter().all(|(_, account)| account.is_none()));
    collect(&machine, owners).ok();
}

#[test]
fn a_read_that_blocks_costs_accounts_and_heals() {
    let machine = machine();
    block(&machine, "proc/1/environ");
    block(&machine, "proc/2/environ");
    machine.write("proc/3/environ", BIOLOGY);
    let resolver = resolver(&machine, ON);
    for _ in 0..SCRAPES {
        let owners = resolver.resolve(&machine.roots(), &machine.snapshot());
        let Some(Unread::Failed(error)) = owners.accounts().unread.clone() else { panic!("{:?}", owners.accounts()) };
        assert!(error.ends_with("proc/1/environ: no answer yet"), "{error}");
        assert!(!is_read(&machine, "proc/2/environ"), "one process of a job at a time");
        let collected = collect(&machine, owners);
        assert_eq!(collected.result.as_ref().unwrap_err().to_string(), error);
        assert_eq!(collected.count("goodput_gpu_owner_info"), 3, "owners are told all the same");
    }
    // Opening the pipe for writing ends the wait of the thread that opened it for reading.
    let pipe = OpenOptions::new().write(true).open(machine.path("proc/1/environ")).unwrap();
    for pid in [1, 2] {
        std::fs::remove_file(machine.path(&format!("proc/{pid}/environ"))).unwrap();
        machine.write(&format!("proc/{pid}/environ"), PHYSICS);
    }
    drop(pipe);
    let all = [("slurm-42", Some("physics")), ("slurm-43", Some("biology")), ("train.service", None)];
    until(&machine, &resolver, |owners| accounts(owners) == all && owners.accounts().unread.is_none());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests may run programs")]
fn the_environment_that_this_kernel_shows() {
    let machine = machine();
    let child = std::process::Command::new("sleep").arg("60").env("SLURM_JOB_ACCOUNT", "physics").spawn();
    let mut child = child.unwrap();
    symlink(format!("/proc/{}/environ", child.id()), machine.path("proc/1/environ")).unwrap();
    let resolver = resolver(&machine, ON);
    // The program that starts it goes on before the kernel shows its environment.
    until(&machine, &resolver, |owners| owners.accounts().of(&owners.all()[0]) == Some("physics"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn jobs_that_slurm_names_by_sluids_get_their_ids_where_environments_are_read() {
    let mut machine = Machine::empty();
    for (pid, sluid) in [(1, "s5K1KKYAYG5D00"), (2, "s5K1KKZ0M2ZX00"), (3, "s5K1KKZ0M2ZX11")] {
        machine.write(&format!("proc/{pid}/cgroup"), &format!("0::/system.slice/slurmstepd.scope/{sluid}/step_0\n"));
    }
    machine.write("proc/1/environ", "SLURM_JOB_ID=42\0SLURM_JOB_ACCOUNT=physics\0");
    machine.write("proc/2/environ", "SLURM_JOB_ID=43\0");
    // Its user says that it is another's.
    machine.write("proc/3/environ", "SLURM_JOB_ID=42\0");
    machine.gpu("00000000:1A:00.0", &[1, 2, 3]);
    let ids = |owners: &Owners| owners.all().iter().map(|owner| owner.id.clone()).collect::<Vec<_>>();
    let off = resolver(&machine, &[]).resolve(&machine.roots(), &machine.snapshot());
    assert_eq!(ids(&off), ["slurm-s5K1KKYAYG5D00", "slurm-s5K1KKZ0M2ZX00", "slurm-s5K1KKZ0M2ZX11"]);
    let owners = until(&machine, &resolver(&machine, ON), |owners| ids(owners).contains(&"slurm-43".to_owned()));
    assert_eq!(ids(&owners), ["slurm-42", "slurm-43", "slurm-s5K1KKZ0M2ZX11"]);
    let jobs: Vec<_> = owners.all().iter().map(|owner| owner.slurm_job.as_deref()).collect();
    assert_eq!(jobs, [Some("42"), Some("43"), None]);
    assert_eq!(accounts(&owners)[0].1, Some("physics"));
}

/// Every GPU with the number of its device file.
fn numbered(machine: &Machine) -> Snapshot {
    let mut snapshot = machine.snapshot();
    snapshot.gpus.iter_mut().for_each(|gpu| gpu.minor = Ok(gpu.index));
    snapshot
}

/// The owners that each GPU was promised to.
fn promised(owners: &Owners, snapshot: &Snapshot) -> Vec<Vec<String>> {
    let of = |uuid: &str| {
        let promised = owners.holders(uuid).iter().filter(|holder| holder.allocated == Some(1));
        promised.map(|holder| holder.owner.clone()).collect()
    };
    snapshot.gpus.iter().map(|gpu| of(&gpu.uuid)).collect()
}

#[test]
fn a_slurm_job_holds_its_gpus_before_it_works_on_them_where_environments_may_be_read() {
    let mut machine = Machine::empty();
    let slurm = "sys/fs/cgroup/system.slice/slurmstepd.scope";
    for (job, step, pid, environ) in [
        ("job_42", "step_batch/user/task_special", 5, "SLURM_JOB_ID=42\0SLURM_JOB_GPUS=0\0SECRET=x\0"),
        ("s5K1KKYAYG5D00", "step_0/user/task_0", 6, "SLURM_JOB_ID=43\0SLURM_JOB_GPUS=0\0SLURM_STEP_GPUS=1\0"),
    ] {
        machine.write(&format!("{slurm}/{job}/{step}/cgroup.procs"), &format!("{pid}\n"));
        machine.write(&format!("proc/{pid}/environ"), environ);
    }
    machine.gpu("00000000:1A:00.0", &[]);
    machine.gpu("00000000:1B:00.0", &[]);
    let snapshot = numbered(&machine);
    let asking = resolver(&machine, ON);
    let found = (0..100_000).map(|_| asking.resolve(&machine.roots(), &snapshot));
    let owners = found.into_iter().find(|owners| promised(owners, &snapshot) == [["slurm-42"], ["slurm-43"]]).unwrap();
    assert!(!format!("{owners:?}").contains("SECRET"));
    let silent = resolver(&machine, &[]).resolve(&machine.roots(), &snapshot);
    assert_eq!(promised(&silent, &snapshot), [[""; 0]; 2], "environments are read on request alone");
}
