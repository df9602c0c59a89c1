//! The exporter as a plain user: it starts, serves, says what it may not read, and each capability gives what the
//! documentation says. A file of the kubelet's is made below a root of its own, as no kubelet runs here.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command};

use goodput_lab::process::until;
use goodput_tests::scrape::Scrape;

use crate::exporter::{Exporter, Folder, PATIENCE};

/// A process of root that holds the GPU; ended on drop.
struct Holder(Child);

impl Holder {
    fn start(folder: &Folder) -> Self {
        let child = Command::new("sleep").arg("600").env("SLURM_JOB_ACCOUNT", "physics").spawn().unwrap();
        folder.gpus.process(0, child.id(), 1 << 20).unwrap();
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node with what only root may read.
struct Node {
    holder: Holder,
    folder: Folder,
}

impl Node {
    fn new() -> Self {
        let folder = Folder::new();
        let state = folder.path("var/lib/kubelet/cpu_manager_state");
        fs::create_dir_all(state.parent().unwrap()).unwrap();
        fs::write(&state, r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o600)).unwrap();
        // The kernel log of this machine, below that root.
        fs::create_dir(folder.path("dev")).unwrap();
        std::os::unix::fs::symlink("/dev/kmsg", folder.path("dev/kmsg")).unwrap();
        Self { holder: Holder::start(&folder), folder }
    }

    /// As the user `nobody` with these capabilities.
    fn with(&self, capabilities: &[&str]) -> (Exporter, Scrape) {
        self.start(&as_nobody(capabilities))
    }

    fn start(&self, before: &[String]) -> (Exporter, Scrape) {
        let mut exporter = self.folder.start(before, &[format!("--path.rootfs={}", self.folder.path("").display())]);
        let scrape = exporter.until("the GPU has an owner", |scrape| scrape.count("goodput_process_count", &[]) == 1);
        (exporter, scrape)
    }
}

/// How a command line begins that runs as the user `nobody` with these capabilities.
fn as_nobody(capabilities: &[&str]) -> Vec<String> {
    let given: Vec<_> = ["-all".to_owned()].into_iter().chain(capabilities.iter().map(|c| format!("+{c}"))).collect();
    let given = given.join(",");
    let before =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps", &given, "--ambient-caps", &given];
    before.map(str::to_owned).to_vec()
}

const IO: &str = "goodput_process_storage_read_bytes_total";

/// What may be denied, as the exporter tells it.
#[derive(Debug, PartialEq)]
struct Told {
    denied: Vec<String>,
    processes: Option<f64>,
    io: usize,
    log: bool,
}

fn told(scrape: &Scrape) -> Told {
    let of_log = |state| scrape.get("goodput_gpu_xid_channel_state", &[("channel", "kmsg"), ("state", state)]);
    Told {
        denied: scrape.collectors("denied"),
        processes: scrape.get("goodput_process_io_denied", &[]),
        io: scrape.count(IO, &[]),
        log: of_log("ok") == Some(1.0),
    }
}

#[test]
fn a_plain_user_is_told_what_is_denied_and_each_capability_gives_it() {
    let node = Node::new();
    // Where the kernel lets everybody read its log, there is nothing to be given.
    let log_is_free = fs::read_to_string("/proc/sys/kernel/dmesg_restrict").is_ok_and(|text| text.trim() == "0");
    let denied = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();

    let (mut exporter, _) = node.with(&[]);
    let expected = Told { denied: denied(&["storage", "kubelet"]), processes: Some(1.0), io: 0, log: log_is_free };
    exporter.until("a plain user is told what is denied, and nothing fails", |scrape| {
        let none = |state| scrape.collectors(state).is_empty();
        told(scrape) == expected && none("failed") && none("timed_out")
    });
    for file in ["cpu_manager_state", "mountstats"] {
        assert!(exporter.log().contains(&format!("{file}: permission denied")), "{}", exporter.log());
    }
    drop(exporter);

    let (mut exporter, _) = node.with(&["dac_read_search"]);
    exporter.until("files of root are read, not those of its tasks", |scrape| {
        told(scrape).denied.is_empty() && told(scrape).processes == Some(1.0)
    });
    drop(exporter);
    let (mut exporter, _) = node.with(&["dac_read_search", "sys_ptrace"]);
    exporter.until("tasks are read too", |scrape| told(scrape).processes == Some(0.0) && told(scrape).io == 1);
    drop(exporter);
    let (mut exporter, _) = node.with(&["syslog"]);
    exporter.until("the kernel log is followed", |scrape| told(scrape).log);
    drop(exporter);

    // Both run at once: what a neighbouring test makes and removes on this node is then in both or in none.
    let (mut root, _) = node.start(&["env".to_owned()]);
    let (mut exporter, _) = node.with(&["dac_read_search", "sys_ptrace", "syslog"]);
    let mut lacked = Vec::new();
    let found = until("the three capabilities give all that root has", PATIENCE, || {
        lacked = missing(&root.scrape(), &exporter.scrape());
        Ok(lacked.is_empty().then_some(()))
    });
    found.unwrap_or_else(|error| panic!("{error:#}; root alone has {lacked:?}\n{}", exporter.log()));
}

/// Series of root that this scrape does not have. A process that the OOM killer ended in a neighbouring test is counted
/// by the exporter that followed the log then.
fn missing(root: &Scrape, scrape: &Scrape) -> Vec<String> {
    let known = BTreeSet::from_iter(scrape.names());
    let lacks = |name: &&str| !known.contains(name) && !name.starts_with("goodput_owner_oom_kills_total{");
    root.names().into_iter().filter(lacks).map(str::to_owned).collect()
}

#[test]
fn the_account_of_a_job_takes_both_capabilities() {
    let node = Node::new();
    let pid = node.holder.0.id().to_string();
    // The holder's own environment, and a cgroup as Slurm makes it.
    let folder = node.folder.path("proc").join(&pid);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cgroup"), "0::/system.slice/slurmstepd.scope/job_42/step_0\n").unwrap();
    std::os::unix::fs::symlink(format!("/proc/{pid}/environ"), folder.join("environ")).unwrap();
    let arguments = [
        format!("--path.procfs={}", node.folder.path("proc").display()),
        "--collector.disable-defaults".to_owned(),
        "--collector.owner".to_owned(),
        "--collector.owner.slurm-account".to_owned(),
    ];
    let jobs = |scrape: &Scrape, labels: &[(&str, &str)]| scrape.count("goodput_owner_info", labels);
    for capabilities in [&[][..], &["dac_read_search"], &["sys_ptrace"]] {
        let mut exporter = node.folder.start(&as_nobody(capabilities), &arguments);
        exporter.until("the job is told, and that its account is denied", |scrape| {
            jobs(scrape, &[("slurm_job", "42")]) == 1
                && jobs(scrape, &[("account", "physics")]) == 0
                && scrape.collectors("denied") == ["owner"]
        });
        assert!(exporter.log().contains(&format!("{pid}/environ: permission denied")), "{}", exporter.log());
    }
    let mut exporter = node.folder.start(&as_nobody(&["dac_read_search", "sys_ptrace"]), &arguments);
    exporter.until("the account is told", |scrape| {
        jobs(scrape, &[("slurm_job", "42"), ("account", "physics")]) == 1 && scrape.collectors("denied").is_empty()
    });
}
