//! Limits of a cgroup that bite: what the kernel does then, and what the exporter says of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use goodput_lab::cgroup::JobCgroup;
use goodput_lab::process::until;
use goodput_tests::scrape::Scrape;

use crate::exporter::{Exporter, Folder, PATIENCE};
use crate::kernel::{self, Figures};

const MIB: u64 = 1 << 20;

/// A shell in a group of its own that holds the GPU, with the exporter next to it.
struct Job {
    // Dropped first, so that the group is empty when it is removed.
    shell: Shell,
    group: JobCgroup,
    exporter: Exporter,
    folder: Folder,
    owner: String,
}

/// A shell that does what it is told; what it starts ends by itself, or when it is.
struct Shell(Child);

impl Shell {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(folder);
        Self(command.spawn().unwrap())
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Job {
    fn start() -> Self {
        let folder = Folder::new();
        let group = JobCgroup::create().unwrap();
        let shell = Shell::start(&folder.path(""));
        group.add(shell.0.id()).unwrap();
        folder.gpus.process(0, shell.0.id(), MIB).unwrap();
        let owner = format!("container-{}", &group.container_id[..12]);
        let mut exporter = folder.start(&[], &[]);
        let known = until("the group is the GPU's owner", PATIENCE, || {
            let usage = exporter.scrape().get("goodput_cgroup_cpu_usage_seconds_total", &[("owner", &owner)]);
            Ok(usage.map(drop))
        });
        known.unwrap_or_else(|error| panic!("{error:#}\n{}", exporter.log()));
        Self { shell, group, exporter, folder, owner }
    }

    /// Scrapes until the condition holds, each time between two looks at the kernel's own counters.
    fn until(&mut self, what: &str, holds: impl Fn(&Scrape, &str) -> bool) -> Figures {
        let Self { group, exporter, owner, .. } = self;
        let found = until(what, PATIENCE, || {
            let (before, scrape, after) = exporter.read_between(|| kernel::counters(group));
            let all = agree(&before, &scrape, owner, &after);
            Ok((all && holds(&scrape, owner)).then_some(after))
        });
        found.unwrap_or_else(|error| {
            panic!("{error:#}; the kernel has {:?}\n{}", kernel::counters(group), exporter.log())
        })
    }

    /// Until the exporter's figure is above this one.
    fn until_above(&mut self, name: &'static str, least: f64) -> Figures {
        self.until(name, |scrape, owner| ours(scrape, name, owner).is_some_and(|value| value > least))
    }
}

/// Whatever the exporter has is not less than the kernel counted before it was asked, nor more than after; true when it
/// has all that the kernel counts, which it has not where its collector came late on a busy machine.
#[track_caller]
fn agree(before: &Figures, scrape: &Scrape, owner: &str, after: &Figures) -> bool {
    let mut all = true;
    for (name, least) in before {
        let Some(most) = after.get(name) else { continue };
        // A limit that is not set is none; v1 writes it as a number that no machine has.
        if name.ends_with("memory_max_bytes") && *least > 1e18 {
            continue;
        }
        let Some(value) = ours(scrape, name, owner) else {
            all = false;
            continue;
        };
        // The exporter's seconds are a fraction that the kernel does not write.
        let slack = 1e-9 * most.max(1.0);
        assert!(*least - slack <= value && value <= *most + slack, "{name}: {least} <= {value} <= {most}");
    }
    all
}

fn ours(scrape: &Scrape, name: &str, owner: &str) -> Option<f64> {
    match name {
        "goodput_cgroup_refault_pages_total" => scrape.get(name, &[("owner", owner), ("kind", "file")]),
        _ => scrape.get(name, &[("owner", owner)]),
    }
}

/// One after another: two groups of one name would be in each other's way.
#[test]
fn limits_of_a_group_bite_and_are_told() {
    let mut job = Job::start();
    a_quota_throttles(&mut job);
    storage_is_read_and_written(&mut job);
    a_memory_limit_reclaims_and_what_was_dropped_comes_back(&mut job);
    a_member_is_killed_for_memory(&mut job);
}

fn a_quota_throttles(job: &mut Job) {
    job.group.limit_cpu(Some(100)).unwrap();
    job.shell.tell("while [ ! -e stop ]; do :; done");
    let first = job.until_above("goodput_cgroup_cpu_throttled_periods_total", 0.0);
    let throttled = "goodput_cgroup_cpu_throttled_seconds_total";
    let second = job.until_above(throttled, first[throttled]);
    assert!(second["goodput_cgroup_cpu_periods_total"] >= second["goodput_cgroup_cpu_throttled_periods_total"]);
    job.until("the limit is told", |scrape, owner| {
        scrape.get("goodput_cgroup_cpu_limit_cores", &[("owner", owner)]) == Some(0.1)
    });
    std::fs::write(job.folder.path("stop"), "").unwrap();
    job.group.limit_cpu(None).unwrap();
    job.until("no limit is no series", |scrape, owner| {
        scrape.count("goodput_cgroup_cpu_limit_cores", &[("owner", owner)]) == 0
    });
}

/// Past the page cache, so that v1 also counts it for the group: v1 counts what the cache writes back for no group.
fn storage_is_read_and_written(job: &mut Job) {
    let names = ["goodput_cgroup_io_written_bytes_total", "goodput_cgroup_io_read_bytes_total"];
    // In v1 a disk counts from the first limit on it; this one no disk reaches.
    job.group.limit_reads(&job.folder.path(""), Some(1 << 40)).unwrap();
    let before = kernel::counters(&job.group);
    let least = |name| before.get(name).copied().unwrap_or_default() + (16 * MIB - 1) as f64;
    job.shell.tell("dd if=/dev/zero of=data bs=1M count=16 oflag=direct conv=notrunc");
    job.until_above(names[0], least(names[0]));
    job.shell.tell("dd if=data of=/dev/null bs=1M iflag=direct");
    job.until_above(names[1], least(names[1]));
}

/// A file twice as large as the limit is read again and again: its pages are dropped to make room for each other.
fn a_memory_limit_reclaims_and_what_was_dropped_comes_back(job: &mut Job) {
    job.group.limit_memory(24 * MIB).unwrap();
    job.shell.tell("dd if=/dev/zero of=large bs=1M count=48 && sync large");
    job.shell.tell("while [ ! -e enough ]; do cat large > /dev/null; done");
    job.until_above("goodput_cgroup_memory_max_events_total", 0.0);
    let first = job.until_above("goodput_cgroup_refault_pages_total", 0.0);
    job.until_above("goodput_cgroup_refault_pages_total", first["goodput_cgroup_refault_pages_total"]);
    job.until("the limit is told, and what is used is below it", |scrape, owner| {
        let of = |name| scrape.get(name, &[("owner", owner)]);
        let used = of("goodput_cgroup_memory_current_bytes").unwrap_or_default();
        let limit = (24 * MIB) as f64;
        of("goodput_cgroup_memory_max_bytes") == Some(limit) && used > MIB as f64 && used <= limit
    });
    std::fs::write(job.folder.path("enough"), "").unwrap();
}

/// `tail` keeps a line without an end: it grows until it is killed, and the shell goes on.
fn a_member_is_killed_for_memory(job: &mut Job) {
    let kills = "goodput_cgroup_memory_oom_kills_total";
    assert_eq!(kernel::counters(&job.group)[kills], 0.0);
    job.shell.tell("tail /dev/zero; touch survived");
    job.until_above(kills, 0.0);
    until("the shell goes on", PATIENCE, || Ok(job.folder.path("survived").exists().then_some(()))).unwrap();
    let majors = "goodput_cgroup_major_faults_total";
    assert!(kernel::counters(&job.group).contains_key(majors), "{majors} is not in this kernel's files");
}

/// What programs have written and the kernel has not: of the whole node, as v1 counts it for no group.
#[test]
fn written_back_later() {
    let folder = Folder::new();
    let mut exporter = folder.start(&[], &[]);
    let file = folder.path("dirty");
    let dirty = || 1024.0 * kernel::number(Path::new("/proc/meminfo"), "Dirty").unwrap();
    // Other programs write too, and the kernel writes back when it likes: it may take several tries.
    let found = until("64 MiB are dirty", PATIENCE, || {
        std::fs::write(&file, vec![1; 64 << 20])?;
        let (before, scrape, after) = exporter.read_between(dirty);
        let Some(value) = scrape.get("goodput_memory_dirty_bytes", &[]) else { return Ok(None) };
        let within = before.min(after) <= value && value <= before.max(after);
        Ok((within && value >= (32 * MIB) as f64).then_some(value))
    });
    found.unwrap_or_else(|error| panic!("{error:#}\n{}", exporter.log()));
    let written = || kernel::number(Path::new("/proc/vmstat"), "nr_written").unwrap();
    // It may have written all of it by itself meanwhile.
    let found = until("the kernel writes back", PATIENCE, || {
        let before = written();
        std::fs::write(&file, vec![2; 64 << 20])?;
        std::fs::File::open(&file)?.sync_all()?;
        Ok((written() > before).then_some(()))
    });
    found.unwrap();
    exporter.until("what may be dirty has a limit", |scrape| {
        scrape.get("goodput_memory_dirty_limit_bytes", &[("kind", "throttle")]).is_some_and(|limit| limit > 0.0)
    });
}
