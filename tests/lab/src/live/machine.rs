//! The job in its cgroup, its neighbours and the exporter next to it: started, changed, and removed.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::scenario::{Act, DATA_BYTES};
use crate::cgroup::JobCgroup;
use crate::gpu::{FakeNode, NodeSpec};
use crate::loader;
use crate::process::{Running, free_address};

/// The programs that take part.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `goodput-exporter`.
    pub exporter: PathBuf,
    /// The fake `libnvidia-ml.so.1`.
    pub library: PathBuf,
    /// `goodput-lab-job`.
    pub job: PathBuf,
}

impl Programs {
    /// The exporter and the fake library of one folder, the job of the folder that this program is in.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn find(folder: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find the folder of this program")?;
        let own = own.parent().context("this program has no folder")?;
        let folder = folder.unwrap_or(own);
        let (exporter, library) = (folder.join("goodput-exporter"), folder.join("libfake_nvml.so"));
        let programs = Self { exporter, library, job: own.join("goodput-lab-job") };
        for file in [&programs.exporter, &programs.library, &programs.job] {
            ensure!(file.is_file(), "{} is missing: build the whole workspace", file.display());
        }
        Ok(programs)
    }
}

/// All that runs. Fields are dropped in this order: what is in the cgroup, and what reads it, ends before it goes.
pub struct Machine {
    job: Running,
    neighbours: Vec<Running>,
    exporter: Running,
    address: SocketAddr,
    swap: Option<Swap>,
    group: JobCgroup,
    programs: Programs,
    folder: TempDir,
}

impl Machine {
    /// Starts an exporter over a fake GPU, and a job without orders in a cgroup of its own. Its files are in a temporary
    /// folder below `dir`, which must be on a disk.
    ///
    /// # Errors
    /// When this user may not, or a program does not start.
    pub fn start(programs: &Programs, dir: &Path) -> Result<Self> {
        let group = JobCgroup::create()?;
        let folder = tempfile::tempdir_in(dir).with_context(|| format!("cannot make a folder in {}", dir.display()))?;
        let path = folder.path();
        loader::write_direct(&path.join("data"), DATA_BYTES)?;
        let node = FakeNode::new(path, &NodeSpec::h100(1))?;
        let address = free_address()?;
        let mut command = program(&programs.exporter);
        command.arg("serve").arg(format!("--web.listen-address={address}"));
        command.arg(format!("--nvml.library={}", programs.library.display())).envs([node.env()]);
        let mut exporter = Running::start(&mut command, &path.join("exporter.log"))?;
        exporter.until_listens(address)?;
        let mut command = program(&programs.job);
        command.arg("train").arg(node.env().1).arg("0").args([path.join("data"), path.join("edges")]);
        let job = Running::start(&mut command, &path.join("job.log"))?;
        group.add(job.pid())?;
        let (neighbours, programs) = (Vec::new(), programs.clone());
        Ok(Self { job, neighbours, exporter, address, swap: None, group, programs, folder })
    }

    /// Does what the schedule says.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn carry_out(&mut self, act: &Act) -> Result<()> {
        match act {
            Act::Tell(order) => self.job.tell(&serde_json::to_string(order)?),
            Act::Quota(millicpu) => self.group.limit_cpu(*millicpu),
            Act::Weight(shares) => self.group.weigh(*shares),
            Act::Cpus(list) => self.group.limit_cpus(list),
            Act::Memory(bytes) => self.group.limit_memory(*bytes),
            Act::Reads(bytes) => self.group.limit_reads(self.folder.path(), *bytes),
            Act::Neighbours { spin, read } => self.invite(*spin, *read),
            Act::Swap(bytes) => {
                self.swap = Some(Swap::on(&self.folder.path().join("swap"), *bytes)?);
                Ok(())
            }
        }
    }

    /// Neighbours outside the group, in place of those that were there.
    fn invite(&mut self, spin: usize, read: usize) -> Result<()> {
        self.neighbours.clear();
        for n in 0..spin + read {
            let mut command = program(Path::new("taskset"));
            command.args(["--cpu-list", "1"]).arg(&self.programs.job);
            match n < spin {
                true => command.arg("spin"),
                false => command.arg("read").arg(self.folder.path().join("data")),
            };
            let log = self.folder.path().join(format!("neighbour{n}.log"));
            self.neighbours.push(Running::start(&mut command, &log)?);
        }
        Ok(())
    }

    /// What the exporter answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn scrape(&mut self) -> Result<String> {
        let asked = ureq::get(format!("http://{}/metrics", self.address)).call();
        Ok(asked.with_context(|| self.exporter.log_text())?.body_mut().read_to_string()?)
    }

    /// An error where one of the programs has ended.
    ///
    /// # Errors
    /// With its last words.
    pub fn goes_on(&mut self) -> Result<()> {
        let all = [&mut self.job, &mut self.exporter].into_iter().chain(&mut self.neighbours);
        all.into_iter().try_for_each(Running::goes_on)
    }

    /// What the job wrote down so far.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn edges(&self) -> Result<String> {
        let path = self.folder.path().join("edges");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// A file that is swapped to, until it is dropped.
struct Swap(PathBuf);

impl Swap {
    fn on(file: &Path, bytes: u64) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        loader::write_direct(file, bytes)?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
        run("mkswap", file)?;
        run("swapon", file)?;
        Ok(Self(file.to_owned()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        // Processes that have pages there get them back first.
        let _ = run("swapoff", &self.0);
    }
}

fn run(name: &str, file: &Path) -> Result<()> {
    let output = program(Path::new(name)).arg(file).output().with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} {}: {}", file.display(), said.trim());
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "starts the lab's programs")]
fn program(path: &Path) -> Command {
    Command::new(path)
}

/// Which cgroups this kernel has mounted, in words.
#[must_use]
pub fn cgroups() -> &'static str {
    match Path::new("/sys/fs/cgroup/cgroup.controllers").try_exists() {
        Ok(true) => "cgroup v2",
        _ => "cgroup v1 with the unified hierarchy beside it, which has pressure alone",
    }
}
