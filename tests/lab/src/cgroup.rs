//! A real cgroup for a test's job, on cgroup v2 and on v1 with the unified tree next to it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

const MOUNT: &str = "/sys/fs/cgroup";

/// A cgroup named like a container's, so that attribution finds an owner. Removed on drop.
pub struct JobCgroup {
    version: Version,
    /// Path below the hierarchies' roots.
    name: String,
    /// The container id in the name.
    pub container_id: String,
}

enum Version {
    /// One tree.
    V2,
    /// One tree per controller; the unified one next to them carries pressure alone.
    V1,
}

impl JobCgroup {
    /// Creates the cgroup. Needs root and a writable cgroup file system.
    pub fn create() -> Result<Self> {
        Self::numbered(0)
    }

    /// One of several that exist at a time.
    pub fn numbered(number: u16) -> Result<Self> {
        let version = if Path::new(MOUNT).join("cgroup.controllers").try_exists()? { Version::V2 } else { Version::V1 };
        // An owner without a pod is named by the first twelve digits.
        let container_id = format!("{:08x}{number:04x}{:052x}", std::process::id(), 0x9009_0007_u32);
        let job = Self { version, name: format!("docker-{container_id}.scope"), container_id };
        if let Version::V2 = job.version {
            fs::write(Path::new(MOUNT).join("cgroup.subtree_control"), "+cpu +cpuset +io +memory")
                .context("this test limits a real cgroup; enabling controllers needs root")?;
        }
        for folder in job.folders() {
            fs::create_dir(&folder).with_context(|| {
                format!(
                    "real cgroups need root and a cgroup file system that can be written to: mkdir {}",
                    folder.display()
                )
            })?;
        }
        job.inherit_cpuset()?;
        Ok(job)
    }

    /// A new cpuset of v1 is empty, and takes no process until it has CPUs and memory nodes.
    fn inherit_cpuset(&self) -> Result<()> {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Version::V1 = self.version {
                let all = fs::read_to_string(Path::new(MOUNT).join("cpuset").join(file))?;
                self.write("cpuset", file, all.trim())?;
            }
        }
        Ok(())
    }

    /// Moves a process into it.
    pub fn add(&self, pid: u32) -> Result<()> {
        for folder in self.folders() {
            fs::write(folder.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Caps reads from the disk that holds `path`; `None` lifts the cap.
    pub fn limit_reads(&self, path: &Path, bytes_per_second: Option<u64>) -> Result<()> {
        let device = disk_of(path)?;
        match self.version {
            Version::V2 => {
                let limit = bytes_per_second.map_or("max".to_owned(), |b| b.to_string());
                self.write("", "io.max", &format!("{device} rbps={limit}"))
            }
            Version::V1 => {
                let limit = bytes_per_second.unwrap_or(0);
                self.write("blkio", "blkio.throttle.read_bps_device", &format!("{device} {limit}"))
            }
        }
    }

    /// Caps CPU time, in thousandths of a CPU; `None` lifts the cap. The period is 100 ms.
    pub fn limit_cpu(&self, millicpu: Option<u32>) -> Result<()> {
        let quota = millicpu.map(|m| u64::from(m) * 100);
        match self.version {
            Version::V2 => {
                let quota = quota.map_or("max".to_owned(), |q| q.to_string());
                self.write("", "cpu.max", &format!("{quota} 100000"))
            }
            Version::V1 => self.write("cpu", "cpu.cfs_quota_us", &quota.map_or("-1".to_owned(), |q| q.to_string())),
        }
    }

    /// Its weight against others where CPUs are short, as v1 counts it: 1,024 is a process of nice 0 that is in no group, and
    /// Kubernetes gives as much for each CPU that a pod requests.
    pub fn weigh(&self, shares: u32) -> Result<()> {
        match self.version {
            // As the kubelet and systemd convert it, in steps of a hundredth of 1,024.
            Version::V2 => self.write("", "cpu.weight", &(shares * 100 / 1024).clamp(1, 10_000).to_string()),
            Version::V1 => self.write("cpu", "cpu.shares", &shares.to_string()),
        }
    }

    /// Keeps it to these CPUs, as the kernel lists them: `0-1,4`.
    pub fn limit_cpus(&self, list: &str) -> Result<()> {
        match self.version {
            Version::V2 => self.write("", "cpuset.cpus", list),
            Version::V1 => self.write("cpuset", "cpuset.cpus", list),
        }
    }

    /// Caps memory, in bytes.
    pub fn limit_memory(&self, bytes: u64) -> Result<()> {
        match self.version {
            Version::V2 => self.write("", "memory.max", &bytes.to_string()),
            Version::V1 => self.write("memory", "memory.limit_in_bytes", &bytes.to_string()),
        }
    }

    /// Is it one tree, of cgroup v2?
    #[must_use]
    pub fn is_v2(&self) -> bool {
        matches!(self.version, Version::V2)
    }

    /// One of the kernel's files about it; the hierarchy is a controller's name, and empty in v2.
    #[must_use]
    pub fn file(&self, hierarchy: &str, file: &str) -> PathBuf {
        Path::new(MOUNT).join(hierarchy).join(&self.name).join(file)
    }

    fn write(&self, hierarchy: &str, file: &str, value: &str) -> Result<()> {
        let path = self.file(hierarchy, file);
        fs::write(&path, value).with_context(|| format!("{}: writing {value:?}", path.display()))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let hierarchies: &[&str] = match self.version {
            Version::V2 => &[""],
            Version::V1 => &["cpu", "cpuacct", "cpuset", "blkio", "memory", "unified"],
        };
        hierarchies.iter().map(|h| Path::new(MOUNT).join(h).join(&self.name)).collect()
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        for folder in self.folders() {
            // A member that has just been killed leaves a moment later; until then the folder is busy.
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
            while fs::remove_dir(&folder).is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy)
                && std::time::Instant::now() < deadline
            {
                std::thread::yield_now();
            }
        }
    }
}

/// `major:minor` of the whole disk that holds a path; throttling is per disk, not per partition.
fn disk_of(path: &Path) -> Result<String> {
    let device = fs::metadata(path)?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let block = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))
        .with_context(|| format!("{} is not on a disk; this test needs a temporary folder that is", path.display()))?;
    let disk = if block.join("partition").try_exists()? { block.parent().map(Path::to_owned) } else { Some(block) };
    match disk {
        Some(disk) => Ok(fs::read_to_string(disk.join("dev"))?.trim().to_owned()),
        None => bail!("{}: no disk above the partition", path.display()),
    }
}
