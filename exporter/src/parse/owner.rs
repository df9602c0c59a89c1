//! What a cgroup path says about who lives there.
//!
//! More than 400 lines: more than half are tables of paths.
//!
//! Runtimes and resource managers encode their ids in the path: the kubelet `…pod<uid>…`, containerd, CRI-O, docker
//! and podman a container id of 64 hexadecimal digits behind a prefix of their own, Slurm `job_<id>` or from 26.05 on the
//! SLUID, systemd a unit. A service that runs jobs delegates cgroups to them: each job is an owner, the service is none.

/// Who lives in a cgroup, as far as its path tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The owner's own cgroup: the path up to the container, pod, job or unit.
    pub cgroup: String,
    /// Kubernetes pod UID, with dashes (a static pod's has none).
    pub pod_uid: Option<String>,
    /// Container id, 64 hexadecimal digits.
    pub container_id: Option<String>,
    /// Slurm job id.
    pub slurm_job: Option<String>,
    /// A job of Slurm by its SLUID, or of another scheduler, as `SCHEDULER-JOB`.
    pub other_job: Option<String>,
    /// systemd unit; below a user's service manager, `user@1000.service/` and the unit, and in a system container its name.
    pub unit: Option<String>,
}

/// How much an identity says; more is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The hierarchy's root, which has no owner.
    Root,
    /// A path without a known form.
    Path,
    /// A systemd unit.
    Unit,
    /// A pod, container or both.
    Container,
    /// A scheduler's job.
    Job,
}

/// Digits of a container id, in every runtime.
const CONTAINER_ID: usize = 64;
/// Digits of a container id that tell it from all others of a node, as runtimes print it.
const SHORT_CONTAINER_ID: usize = 12;
/// Longest owner id; a longer one is replaced by its hash, since it is repeated on every series.
const LONGEST_ID: usize = 64;

impl Identity {
    /// Reads a cgroup path, from the hierarchy's root.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let mut found = Self::default();
        let (mut end, mut unit_end) = (0, 0);
        let mut at = 0;
        // The folder above, and the one above that.
        let mut parent = ("", "");
        for folder in path.split('/') {
            at += folder.len();
            if found.read(folder, parent.0) || found.is_lsf(folder, parent) {
                end = at;
            } else if is_unit(folder) {
                let manager = found.unit.as_deref().and_then(manager);
                found.unit = Some(manager.map_or_else(|| folder.to_owned(), |manager| format!("{manager}/{folder}")));
                unit_end = at;
            } else if let Some(name) = lxc(folder, parent) {
                found.unit = Some(format!("lxc-{name}"));
                unit_end = at;
            }
            at += 1;
            parent = (folder, parent.0);
        }
        if end > 0 {
            found.unit = None;
        } else {
            end = if unit_end > 0 { unit_end } else { path.len() };
        }
        path[..end].clone_into(&mut found.cgroup);
        found
    }

    /// Takes what one folder says; false when that is nothing.
    fn read(&mut self, folder: &str, parent: &str) -> bool {
        if let Some(job) = slurm_job(folder, parent) {
            self.slurm_job = Some(job.to_owned());
            return true;
        }
        // Below a job, a scheduler's folders are its steps and tasks.
        if self.other_job.is_none()
            && let Some(job) = other_job(folder, parent, self.unit.is_some())
        {
            self.other_job = Some(job);
            return true;
        }
        let pod = pod_uid(folder);
        let is_pod = pod.is_some();
        if is_pod {
            self.pod_uid = pod;
            self.container_id = None;
        }
        // A container inside a pod's container is the pod's business.
        let nested = self.pod_uid.is_some() && self.container_id.is_some();
        match container_id(folder) {
            Some(id) if !nested => {
                self.container_id = Some(id.to_owned());
                true
            }
            _ => is_pod,
        }
    }

    /// LSF: `lsf/CLUSTER/job.ID.PID.TIME`.
    fn is_lsf(&mut self, folder: &str, (_, above): (&str, &str)) -> bool {
        let job = folder.strip_prefix("job.").filter(|_| above == "lsf" && self.other_job.is_none());
        let Some(id) = job.and_then(|job| job.split('.').next()).filter(|id| begins_with_digit(id)) else {
            return false;
        };
        self.other_job = Some(format!("lsf-{id}"));
        true
    }

    /// How much is known.
    #[must_use]
    pub fn rank(&self) -> Rank {
        if self.slurm_job.is_some() || self.other_job.is_some() {
            Rank::Job
        } else if self.pod_uid.is_some() || self.container_id.is_some() {
            Rank::Container
        } else if self.unit.is_some() {
            Rank::Unit
        } else if self.cgroup != "/" {
            Rank::Path
        } else {
            Rank::Root
        }
    }

    /// A short id, the same for every process of the owner and as long as the owner lives.
    #[must_use]
    pub fn id(&self) -> String {
        let id = match self {
            Self { slurm_job: Some(job), .. } => format!("slurm-{job}"),
            Self { other_job: Some(job), .. } => job.clone(),
            Self { container_id: Some(id), .. } => format!("container-{}", &id[..SHORT_CONTAINER_ID]),
            Self { pod_uid: Some(uid), .. } => format!("pod-{uid}"),
            Self { unit: Some(unit), .. } => unit.clone(),
            Self { cgroup, .. } => cgroup.clone(),
        };
        if id.len() <= LONGEST_ID { id } else { format!("cgroup-{:016x}", fnv1a(self.cgroup.as_bytes())) }
    }
}

/// What runs units of its own, each named as the same unit elsewhere: a user's service manager, a system container.
fn manager(unit: &str) -> Option<&str> {
    let is_manager = |part: &&str| {
        let begins = |start: &str| part.starts_with(start);
        begins("user@") || begins("systemd-nspawn@") || begins("lxc-") || begins("machine-") && part.ends_with(".scope")
    };
    let end: usize = unit.split('/').take_while(is_manager).map(|part| part.len() + 1).sum();
    unit.get(..end.checked_sub(1)?)
}

/// Containers of LXC from 4.0 on: `lxc.payload.NAME`; before: `lxc/NAME`.
fn lxc<'a>(folder: &'a str, parent: (&str, &str)) -> Option<&'a str> {
    folder.strip_prefix("lxc.payload.").or_else(|| (parent == ("lxc", "")).then_some(folder))
}

fn is_unit(folder: &str) -> bool {
    folder.ends_with(".service") || folder.ends_with(".scope")
}

/// v1: `slurm/uid_1000/job_42`; v2: `system.slice/slurmstepd.scope/job_42`, with the node's name before `slurmstepd`
/// where several daemons run on one host.
fn slurm_job<'a>(folder: &'a str, parent: &str) -> Option<&'a str> {
    let below_slurm = parent.starts_with("uid_") || parent.ends_with("slurmstepd.scope");
    let job = folder.strip_prefix("job_").filter(|_| below_slurm)?;
    (!job.is_empty() && job.bytes().all(|b| b.is_ascii_digit())).then_some(job)
}

/// Jobs of Slurm by their SLUID, and of other schedulers.
///
/// | scheduler | path |
/// |---|---|
/// | Slurm from 26.05 on | `slurmstepd.scope/s5K1KKYAYG5D00/step_0`: `s` and 13 digits and capitals |
/// | OpenPBS, PBS Pro | `pbs_jobs.service/jobid/123.pbs`, `pbspro.slice/pbspro-123.pbs.slice`, v1 `pbspro/123.pbs` |
/// | Torque | `torque/123.server` |
/// | HTCondor | `htcondor/condor_var_lib_condor_execute_slot1_1@node`: a slot, which runs one job at a time |
/// | Flux | `imp-shell-0-f2Xy.service` |
/// | Grid Engine | `UGE/123.1`: job and task |
fn other_job(folder: &str, parent: &str, in_unit: bool) -> Option<String> {
    let named = |scheduler: &str, job: &str| Some(format!("{scheduler}-{job}"));
    if let Some(id) =
        folder.strip_prefix('s').filter(|_| parent.ends_with("slurmstepd.scope") || parent.starts_with("uid_"))
    {
        let is_sluid = id.len() >= 10 && id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        return is_sluid.then(|| format!("slurm-s{id}"));
    }
    let unescaped = folder.replace("\\x2e", ".").replace("\\x2d", "-");
    let of_slice = || unescaped.strip_suffix(".slice")?.split_once('-').map(|(_, id)| id.to_owned());
    match parent.split('.').next().unwrap_or_default() {
        "jobid" if begins_with_digit(folder) => return named("pbs", folder),
        "pbs_jobs" | "pbspro" if begins_with_digit(folder) => return named("pbs", folder),
        "pbs_jobs" | "pbspro" => return of_slice().filter(|id| begins_with_digit(id)).and_then(|id| named("pbs", &id)),
        "torque" if begins_with_digit(folder) => return named("torque", folder),
        "UGE" | "AGE" | "SGE" | "OCS" | "GCS" | "sge" | "gridengine" if begins_with_digit(folder) => {
            return named("sge", folder);
        }
        _ => {}
    }
    if parent == "htcondor" || parent.starts_with("condor") || folder.starts_with("condor_") {
        let slot = folder.find("slot").map(|at| &folder[at..]).filter(|slot| begins_with_digit(&slot["slot".len()..]));
        return slot.and_then(|slot| named("htcondor", slot.split('@').next().unwrap_or(slot)));
    }
    let shell = folder.strip_suffix(".service").map(|unit| unit.strip_prefix("imp-").unwrap_or(unit));
    if let Some((rank, job)) = shell.and_then(|unit| unit.strip_prefix("shell-")?.split_once('-')) {
        return (begins_with_digit(rank) && !job.is_empty()).then(|| format!("flux-{job}"));
    }
    // Any other service that calls the folders of its jobs so.
    let id = folder.strip_prefix("job")?.trim_start_matches(['_', '-', '.']);
    let service = parent.strip_suffix(".service").or_else(|| parent.strip_suffix(".scope"));
    let job = service.filter(|_| in_unit && begins_with_digit(id))?;
    Some(format!("{job}-job-{id}"))
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// `kubepods-burstable-pod7a96c459_d529_….slice` (systemd driver) or `pod7a96c459-d529-…` (cgroupfs driver). A static
/// pod's UID is a hash of 32 digits without dashes.
fn pod_uid(folder: &str) -> Option<String> {
    folder.match_indices("pod").find_map(|(at, pod)| {
        let rest = &folder[at + pod.len()..];
        let end = rest.find(['.', ':']).unwrap_or(rest.len());
        let uid = rest[..end].replace('_', "-");
        let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
        let dashes = uid.bytes().filter(|b| *b == b'-').count();
        (digits == 32 && digits + dashes == uid.len() && matches!(dashes, 0 | 4)).then_some(uid)
    })
}

/// `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope`, `libpod-<id>.scope`, `…:cri-containerd:<id>`,
/// or the bare id (cgroupfs drivers). The monitors next to them (`crio-conmon-<id>.scope`) are not the container.
fn container_id(folder: &str) -> Option<&str> {
    let name = folder.strip_suffix(".scope").unwrap_or(folder);
    let id = name.rsplit(['-', ':']).next()?;
    let plain = id.len() == CONTAINER_ID && id.bytes().all(|b| b.is_ascii_hexdigit());
    (plain && !name.contains("conmon")).then_some(id)
}

/// FNV-1a, 64 bits: stable across releases, which the standard hashers do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "7a96c459-d529-44ae-9f99-90d3798d6426";
    const SLICE_UID: &str = "7a96c459_d529_44ae_9f99_90d3798d6426";
    const CID: &str = "1d3d308a7d48a27814a68bf33a44acf4441c9c02463ca0bc1cdfdc8c0b4a8496";
    const OTHER: &str = "aaaaaaaaaaaaa27814a68bf33a44acf4441c9c02463ca0bc1cdfdc8c0b4a8496";

    /// One path form: its template, the folders of the owner's own cgroup (from the left; `None` for all), and what
    /// it names: pod, container, job, unit.
    type Case = (&'static str, Option<usize>, [&'static str; 4]);

    const CASES: &[Case] = &[
        // Kubernetes, systemd driver: containerd, CRI-O (v2 adds a folder below), docker; guaranteed has no QoS level.
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{CID}.scope",
            None,
            ["{UID}", "{CID}", "", ""],
        ),
        ("/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{CID}.scope/container", Some(3), ["{UID}", "{CID}", "", ""]),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE}.slice/docker-{CID}.scope",
            None,
            ["{UID}", "{CID}", "", ""],
        ),
        ("/kubepods.slice/kubepods-pod{SLICE}.slice", None, ["{UID}", "", "", ""]),
        ("/kubepods.slice/kubepods-pod{SLICE}.slice/crio-conmon-{CID}.scope", Some(2), ["{UID}", "", "", ""]),
        (
            "/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{CID}",
            None,
            ["{UID}", "{CID}", "", ""],
        ),
        // Kubernetes, cgroupfs driver; a static pod; a nested cluster; a container in a pod's container.
        ("/kubepods/burstable/pod{UID}/{CID}", None, ["{UID}", "{CID}", "", ""]),
        ("/kubepods/pod{UID}/{CID}", None, ["{UID}", "{CID}", "", ""]),
        (
            "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/{CID}",
            None,
            ["0123456789abcdef0123456789abcdef", "{CID}", "", ""],
        ),
        ("/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{CID}", None, ["{UID}", "{CID}", "", ""]),
        ("/kubepods/pod{UID}/{CID}/docker/{OTHER}", Some(3), ["{UID}", "{CID}", "", ""]),
        // Containers without Kubernetes.
        ("/system.slice/docker-{CID}.scope", None, ["", "{CID}", "", ""]),
        ("/docker/{CID}", None, ["", "{CID}", "", ""]),
        ("/system.slice/nerdctl-{CID}.scope", None, ["", "{CID}", "", ""]),
        ("/default/{CID}", None, ["", "{CID}", "", ""]),
        ("/machine.slice/libpod-{CID}.scope/container", Some(2), ["", "{CID}", "", ""]),
        ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{CID}.scope", None, ["", "{CID}", "", ""]),
        ("/machine.slice/libpod-conmon-{CID}.scope", None, ["", "", "", "libpod-conmon-{CID}.scope"]),
        // Slurm, v1 and v2, several daemons on a host, and inside a pod.
        ("/slurm/uid_1000/job_42/step_0/task_1", Some(3), ["", "", "42", ""]),
        ("/uid_2008/job_15389/step_0", Some(2), ["", "", "15389", ""]),
        ("/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0", Some(3), ["", "", "42", ""]),
        ("/system.slice/node1_slurmstepd.scope/job_7", None, ["", "", "7", ""]),
        ("/kubepods/pod{UID}/{CID}/system.slice/slurmstepd.scope/job_9/step_0", Some(6), ["{UID}", "{CID}", "9", ""]),
        ("/slurm/uid_1000/job_x", None, ["", "", "", ""]),
        // systemd.
        ("/system.slice/train.service/workers", Some(2), ["", "", "", "train.service"]),
        ("/user.slice/user-1000.slice/session-3.scope", None, ["", "", "", "session-3.scope"]),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
            None,
            ["", "", "", "user@1000.service/jupyter.service"],
        ),
        ("/init.scope", None, ["", "", "", "init.scope"]),
        // Neither.
        ("/lab/job_42", None, ["", "", "", ""]),
        ("/podium/pods", None, ["", "", "", ""]),
        ("/", None, ["", "", "", ""]),
    ];

    /// Paths of schedulers' jobs: the folders of the job's own cgroup, and its id.
    const JOBS: &[(&str, usize, &str)] = &[
        ("/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0", 3, "slurm-s5K1KKYAYG5D00"),
        ("/system.slice/node1_slurmstepd.scope/s5K1KKZ0M2ZX00/step_batch", 3, "slurm-s5K1KKZ0M2ZX00"),
        ("/system.slice/slurmstepd.scope/system", 2, "slurmstepd.scope"),
        ("/pbs_jobs.service/jobid/123.pbs", 3, "pbs-123.pbs"),
        ("/pbs_jobs.service/jobid/1234[7].pbs/x", 3, "pbs-1234[7].pbs"),
        ("/pbspro.slice/pbspro-123.pbs.slice", 2, "pbs-123.pbs"),
        ("/pbspro/124.pbs", 2, "pbs-124.pbs"),
        ("/torque/9.server", 2, "torque-9.server"),
        ("/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_2@node", 4, "htcondor-slot1_2"),
        ("/htcondor/condor_var_lib_condor_execute_slot1_1", 2, "htcondor-slot1_1"),
        ("/user.slice/user-500.slice/user@500.service/app.slice/imp-shell-0-f2Xy.service", 5, "flux-f2Xy"),
        ("/lsf/cluster1/job.123.4567.1650000000", 3, "lsf-123"),
        ("/lsf/cluster1/job.124[3].4568.1650000000/tasks", 3, "lsf-124[3]"),
        ("/UGE/123.1", 2, "sge-123.1"),
        ("/system.slice/runner.service/job-17/step", 3, "runner-job-17"),
        ("/system.slice/train.service/workers", 2, "train.service"),
        ("/lxc.payload.a/system.slice/train.service", 3, "lxc-a/train.service"),
        ("/lxc.payload.a/user.slice/user@7.service/app.slice/x.service", 5, "lxc-a/user@7.service/x.service"),
        ("/lxc.payload.a/work", 1, "lxc-a"),
        ("/lxc/b/system.slice/train.service", 4, "lxc-b/train.service"),
        ("/machine.slice/systemd-nspawn@c.service/payload/train.service", 4, "systemd-nspawn@c.service/train.service"),
    ];

    #[test]
    fn jobs_of_every_scheduler_are_owners_below_the_service_that_runs_them() {
        for (path, folders, id) in JOBS {
            let identity = Identity::of(path);
            let cgroup = path.split('/').take(folders + 1).collect::<Vec<_>>().join("/");
            assert_eq!((identity.id().as_str(), identity.cgroup.as_str()), (*id, cgroup.as_str()), "{path}");
        }
    }

    fn fill(template: &str) -> String {
        let names = [("{SLICE}", SLICE_UID), ("{UID}", UID), ("{CID}", CID), ("{OTHER}", OTHER)];
        names.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    #[test]
    fn every_known_form_of_path() {
        for (template, folders, fields) in CASES {
            let path = fill(template);
            let cgroup = match folders {
                Some(n) => path.split('/').take(n + 1).collect::<Vec<_>>().join("/"),
                None => path.clone(),
            };
            let [pod_uid, container_id, slurm_job, unit] =
                fields.map(|field| Some(fill(field)).filter(|value| !value.is_empty()));
            assert_eq!(
                Identity::of(&path),
                Identity { cgroup, pod_uid, container_id, slurm_job, other_job: None, unit },
                "{path}"
            );
        }
    }

    #[test]
    fn ids_are_short_and_ranked() {
        for (template, id, rank) in [
            ("/kubepods/pod{UID}/{CID}", "container-1d3d308a7d48", Rank::Container),
            ("/kubepods/pod{UID}", "pod-7a96c459-d529-44ae-9f99-90d3798d6426", Rank::Container),
            ("/slurm/uid_1/job_42/step_1", "slurm-42", Rank::Job),
            ("/system.slice/train.service", "train.service", Rank::Unit),
            ("/lab/x", "/lab/x", Rank::Path),
            ("/", "/", Rank::Root),
            ("/machine.slice/libpod-conmon-{CID}.scope", "cgroup-808b8bf203c85e48", Rank::Unit),
        ] {
            let identity = Identity::of(&fill(template));
            assert_eq!((identity.id().as_str(), identity.rank()), (id, rank));
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_only_cuts(path in "(/|pod|job_|uid_|[0-9a-f_-]{32,64}|\\.scope|\\.slice|:|\\PC)*") {
            let identity = Identity::of(&path);
            prop_assert!(path.starts_with(&identity.cgroup));
            prop_assert!(identity.id().len() <= LONGEST_ID);
        }
    }
}
