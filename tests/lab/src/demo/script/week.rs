//! The week, as a table.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use super::{Fault, Job, Needs, NodeTurn, SLOT_SECONDS, Script, Second, Turn};
use crate::demo::machine::noise::hash;

const GB: f64 = 1e9;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Hours of the week as seconds, in whole slots.
fn hours(span: Range<f64>) -> Range<Second> {
    let seconds = |hours: f64| (hours * 3600.0 / SLOT_SECONDS as f64).round() as Second * SLOT_SECONDS;
    seconds(span.start)..seconds(span.end)
}

pub(super) fn week(end: SystemTime) -> Script {
    let mut script = Script { start: end - WEEK, end, jobs: Vec::new(), node: Vec::new(), faults: Vec::new() };
    first_days(&mut script);
    middle_days(&mut script);
    last_days(&mut script);
    script
}

/// Slow storage, slow loaders, an unused GPU, a night without jobs, a limit that is too small, a job that does not start.
fn first_days(script: &mut Script) {
    slurm(script, 4711, &[0, 1], 0.5..46.0, [24..48, 0..0]).fault("dataloader_storage", 20.0..23.0, |job| {
        Turn::Storage { bytes_per_second: 0.3 * job.needs.read_bytes_per_second }
    });
    slurm(script, 4712, &[2, 3], 1.0..44.0, [0..24, 0..0])
        .fault("dataloader_cpu", 26.0..29.0, |_| Turn::Batches { factor: 4.0 });
    slurm(script, 4713, &[4, 5, 6, 7], 3.0..17.0, [0..0, 0..40]).turn(3.0..17.0, |_| Turn::Unused { gpu: 7 }).named(
        "partial_allocation",
        &[7],
        4.0..16.5,
    );
    nobody(script, &[4, 5, 6, 7], 17.0..30.0);
    pod(script, "vision", &[5, 6], 30.0..80.0, Some([0..0, 0..32])).fault("memory_pressure", 48.0..52.0, |job| {
        Turn::Limit { bytes: 0.85 * (job.needs.anon_bytes + job.needs.file_bytes) }
    });
    for attempt in 0..4 {
        let from = 34.0 + 0.45 * f64::from(attempt);
        let new = slurm(script, 4722, &[7], from..from + 0.38, [0..0, 32..44]);
        new.job.start_seconds = 18 * 60;
        new.job.xid = Some(31);
    }
    // What a job does until it crashes is lost, and so is every start after that.
    script.fault("cold_start", &[7], 34.0..34.3, Some("slurm-4722"));
    script.fault("lost_work", &[7], 34.3..35.73, Some("slurm-4722"));
    nobody(script, &[0, 1], 46.0..54.0);
    nobody(script, &[2, 3], 44.0..56.0);
}

/// Processes on the wrong socket, saving too often, an unused notebook.
fn middle_days(script: &mut Script) {
    pod(script, "speech", &[7], 40.0..96.0, Some([0..0, 32..44]));
    pod(script, "ranking", &[0, 1], 54.0..102.0, Some([0..24, 0..0]))
        .fault("checkpoint", 70.0..76.0, |_| Turn::Saves { every_seconds: 900, for_seconds: 180 });
    slurm(script, 4720, &[3, 4], 56.0..92.0, [24..36, 44..56]).turn(56.0..66.0, |_| Turn::Bound { node: 1 }).named(
        "cross_numa",
        &[3],
        57.0..66.0,
    );
    notebook(script, 2, 58.0..100.0).fault("idle_held", 73.0..90.0, |_| Turn::Rest);
    nobody(script, &[4, 5, 6, 7], 97.0..108.0);
    nobody(script, &[0, 1], 102.0..110.0);
}

/// A quota, neighbours, memory that runs out, slow storage that lasts.
fn last_days(script: &mut Script) {
    slurm(script, 4731, &[2, 3], 104.0..150.0, [24..48, 0..0])
        .fault("cpu_throttled", 120.0..124.0, |_| Turn::Quota { cores: 6.0 });
    pod(script, "pretrain", &[4, 5, 6, 7], 108.0..192.0, None).named("host_noise", &[4, 5, 6, 7], 140.0..143.0);
    script.node.push((hours(140.0..143.0), NodeTurn::Neighbours { cores: 120.0 }));
    script.node.push((hours(146.0..148.0), NodeTurn::Storm { device: "0000:1a:00.0", per_second: 90_000.0 }));
    script.node.push((hours(151.0..152.5), NodeTurn::Swapping { bytes_per_second: 8e6 }));
    pod(script, "tuning", &[0, 1], 110.0..170.2, Some([0..24, 0..0]))
        .turn(163.0..170.2, |_| Turn::Leak { bytes_per_second: 5.5 * GB / 3600.0 });
    slurm(script, 4744, &[2, 3], 158.0..171.0, [24..48, 0..0])
        .turn(164.0..171.0, |_| Turn::DeviceLeak { bytes_per_second: 6.0 * GB / 3600.0 })
        .turn(166.5..171.0, |job| Turn::Storage { bytes_per_second: 0.35 * job.needs.read_bytes_per_second })
        .named("dataloader_storage", &[2, 3], 166.5..168.0);
}

/// The job that is being written down, and the script for its faults.
struct New<'a> {
    job: &'a mut Job,
    start: SystemTime,
    faults: &'a mut Vec<Fault>,
}

impl New<'_> {
    fn turn(self, span: Range<f64>, turn: impl Fn(&Job) -> Turn) -> Self {
        let turn = turn(self.job);
        self.job.turns.push((hours(span), turn));
        self
    }

    /// The analyzer should name it so, on all GPUs of the job.
    fn fault(self, class: &'static str, span: Range<f64>, turn: impl Fn(&Job) -> Turn) -> Self {
        let gpus = self.job.gpus.clone();
        self.turn(span.clone(), turn).named(class, &gpus, span)
    }

    fn named(self, class: &'static str, gpus: &[usize], span: Range<f64>) -> Self {
        let owner = Some(self.job.owner.clone());
        self.faults.push(fault(self.start, class, gpus, span, owner));
        self
    }
}

fn fault(start: SystemTime, class: &'static str, gpus: &[usize], span: Range<f64>, owner: Option<String>) -> Fault {
    let span = hours(span);
    let [from, to] = [span.start, span.end].map(|second| start + Duration::from_secs(second));
    Fault { class, gpus: gpus.to_vec(), from, to, owner }
}

impl Script {
    fn fault(&mut self, class: &'static str, gpus: &[usize], span: Range<f64>, owner: Option<&str>) {
        self.faults.push(fault(self.start, class, gpus, span, owner.map(str::to_owned)));
    }

    fn add(&mut self, job: Job) -> New<'_> {
        let at = self.jobs.len();
        self.jobs.push(Job { pid: 20_000 + 100 * at as u32, ..job });
        New { job: &mut self.jobs[at], start: self.start, faults: &mut self.faults }
    }
}

fn nobody(script: &mut Script, gpus: &[usize], span: Range<f64>) {
    script.fault("unallocated", gpus, span, None);
}

fn slurm<'a>(script: &'a mut Script, id: u32, gpus: &[usize], span: Range<f64>, cores: [Range<u32>; 2]) -> New<'a> {
    let cgroup = format!("/system.slice/slurmstepd.scope/job_{id}");
    script.add(Job { leaf: "/step_0/user/task_0", ..job(cgroup, format!("slurm-{id}"), gpus, span, Some(cores)) })
}

fn pod<'a>(
    script: &'a mut Script,
    name: &str,
    gpus: &[usize],
    span: Range<f64>,
    cores: Option<[Range<u32>; 2]>,
) -> New<'a> {
    let hex = |part: &str| (0..4).map(|i| format!("{:016x}", hash(&format!("{name} {part}"), i))).collect::<String>();
    let (uid, container) = (hex("pod"), hex("container"));
    let uid = [&uid[..8], &uid[8..12], &uid[12..16], &uid[16..20], &uid[20..32]].join("_");
    // Whole cores of one's own are for guaranteed pods alone (kubelet, static CPU manager).
    let pod = if cores.is_some() {
        format!("kubepods-pod{uid}.slice")
    } else {
        format!("kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice")
    };
    let cgroup = format!("/kubepods.slice/{pod}/cri-containerd-{container}.scope");
    script.add(job(cgroup, format!("container-{}", &container[..12]), gpus, span, cores))
}

fn notebook(script: &mut Script, gpu: usize, span: Range<f64>) -> New<'_> {
    let cgroup = "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service".to_owned();
    script.add(job(cgroup, "user@1000.service/jupyter.service".to_owned(), &[gpu], span, None))
}

/// A job that trains, with what a GPU usually takes.
fn job(cgroup: String, owner: String, gpus: &[usize], span: Range<f64>, cores: Option<[Range<u32>; 2]>) -> Job {
    let count = gpus.len() as f64;
    let needs = Needs {
        cores: 7.0 * count,
        read_bytes_per_second: 0.25 * GB * count,
        anon_bytes: 9.0 * GB * count,
        file_bytes: 3.0 * GB * count,
        limit_bytes: 32.0 * GB * count,
        device_bytes: 42.0 * GB,
    };
    let (leaf, start_seconds, turns, xid) = ("", 360, Vec::new(), None);
    Job { cgroup, leaf, owner, pid: 0, gpus: gpus.to_vec(), span: hours(span), cores, start_seconds, needs, turns, xid }
}
