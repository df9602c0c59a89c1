//! The simulated machine of the demonstration under the real exporter.

#![allow(clippy::unwrap_used, reason = "clippy spares tests, but not the helpers beside them")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use goodput_lab::bin;
use goodput_lab::demo::machine::Machine;
use goodput_lab::demo::script::Script;
use goodput_lab::gpu::FakeNvml;
use goodput_lab::process::until;

const HOUR: Duration = Duration::from_secs(3600);

/// The wall clock, by which the fake GPUs go, once everything is built.
fn now() -> SystemTime {
    FakeNvml::build().unwrap();
    SystemTime::now()
}

/// A script whose first `hours` are over at this moment.
fn script_at(hours: u32, now: SystemTime) -> Script {
    Script::week(now + (168 - hours) * HOUR)
}

/// One scrape of the machine with all its GPUs: samples by their line up to the value.
fn print(machine: &Machine) -> BTreeMap<String, f64> {
    // On a busy machine some GPUs are not read yet when the exporter no longer waits for them.
    until("a scrape with every GPU", Duration::from_secs(120), || {
        let samples = print_once(machine);
        let gpus = samples.keys().filter(|series| series.starts_with("goodput_gpu_processes{")).count();
        Ok((gpus == 8).then_some(samples))
    })
    .unwrap()
}

#[allow(clippy::disallowed_methods, reason = "runs the program under test")]
fn print_once(machine: &Machine) -> BTreeMap<String, f64> {
    let roots = machine.roots();
    let output = Command::new(bin("goodput-exporter").unwrap())
        .arg("print")
        .arg(format!("--path.procfs={}", roots.proc.display()))
        .arg(format!("--path.sysfs={}", roots.sys.display()))
        .arg(format!("--path.cgroup={}", roots.cgroup.display()))
        .arg(format!("--path.rootfs={}", roots.root.display()))
        .arg(format!("--nvml.library={}", FakeNvml::build().unwrap().path().display()))
        .env("FAKE_NVML", machine.log())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("failed") && !errors.contains("no answer"), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// The only series of a metric with all these labels.
#[track_caller]
fn value(samples: &BTreeMap<String, f64>, metric: &str, labels: &[&str]) -> f64 {
    let fits = |series: &&String| {
        series.split('{').next() == Some(metric) && labels.iter().all(|label| series.contains(label))
    };
    let found: Vec<&String> = samples.keys().filter(fits).collect();
    assert_eq!(found.len(), 1, "{metric} {labels:?}: {found:?}");
    samples[found[0]]
}

fn label<'a>(series: &'a str, name: &str) -> Option<&'a str> {
    series.split_once(&format!("{name}=\""))?.1.split('"').next()
}

/// Who holds each GPU, as the exporter says.
fn owners(samples: &BTreeMap<String, f64>) -> BTreeMap<usize, String> {
    let series = samples.keys().filter(|series| series.starts_with("goodput_gpu_owner_info{"));
    series
        .map(|series| (label(series, "gpu").unwrap().parse().unwrap(), label(series, "owner").unwrap().to_owned()))
        .collect()
}

#[test]
fn every_collector_reads_the_machine() {
    let (dir, now) = (tempfile::tempdir().unwrap(), now());
    let mut machine = Machine::new(dir.path(), script_at(122, now)).unwrap();
    machine.move_to(now).unwrap();
    let first = print(&machine);
    let ends = first.iter().filter(|(series, _)| series.starts_with("goodput_exporter_collector_state{"));
    // The node runs Slurm alone, and has its data on disks of its own.
    let absent = ["kubelet", "lustre"].map(|name| format!("collector=\"{name}\",state=\"not_applicable\""));
    let none = |series: &str| absent.iter().any(|absent| series.contains(absent));
    let bad: Vec<_> =
        ends.filter(|(series, n)| **n == 1.0 && !series.contains("state=\"ok\"") && !none(series)).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let families: BTreeSet<&str> = first.keys().filter_map(|series| series.split('{').next()).collect();
    for family in [
        "DCGM_FI_DEV_GPU_UTIL",
        "goodput_cgroup_cpu_throttled_seconds_total",
        "goodput_cgroup_numa_anon_shmem_bytes",
        "goodput_gpu_numa_allowed_cpus",
        "goodput_irq_interrupts_total",
        "goodput_disk_io_time_seconds_total",
        "goodput_numa_hit_pages_total",
        "goodput_pressure_waiting_seconds_total",
        "goodput_swap_in_bytes_total",
        "goodput_audit_status",
        "goodput_cpu_seconds_total",
        "goodput_memory_dirty_bytes",
        "goodput_disk_queue_seconds_total",
        "goodput_rdma_port_active",
        "goodput_driver_info",
    ] {
        assert!(families.contains(family), "no {family} among {families:#?}");
    }

    machine.move_to(now + Duration::from_secs(60)).unwrap();
    let second = print(&machine);
    let grown = |metric: &str, labels: &[&str]| value(&second, metric, labels) - value(&first, metric, labels);
    let throttled = ["owner=\"slurm-4731\""];
    let periods = grown("goodput_cgroup_cpu_periods_total", &throttled);
    assert!((periods - 600.0).abs() <= 1.0, "ten periods a second, not {periods}");
    let ratio = grown("goodput_cgroup_cpu_throttled_periods_total", &throttled) / periods;
    assert!(ratio > 0.9, "{ratio}");
    let cores = grown("goodput_cgroup_cpu_usage_seconds_total", &throttled) / 60.0;
    assert!((5.5..=6.01).contains(&cores), "a quota of 6 cores, used {cores}");
}

#[test]
fn gpus_have_the_owners_of_the_script() {
    for hours in [22, 50, 62, 80, 167] {
        let (dir, now) = (tempfile::tempdir().unwrap(), now());
        let script = script_at(hours, now);
        let faults = script.faults().to_vec();
        let mut machine = Machine::new(dir.path(), script).unwrap();
        machine.move_to(now).unwrap();
        let owners = owners(&print(&machine));
        let current: Vec<_> = faults.iter().filter(|fault| fault.from <= now && now < fault.to).collect();
        assert!(!current.is_empty(), "no fault in hour {hours}");
        for fault in current {
            for gpu in &fault.gpus {
                assert_eq!(owners.get(gpu), fault.owner.as_ref(), "hour {hours}, GPU {gpu}: {fault:?}");
            }
        }
    }
}

#[test]
fn a_rank_that_is_bound_elsewhere_has_no_cpu_near_its_gpu() {
    let (dir, now) = (tempfile::tempdir().unwrap(), now());
    let mut machine = Machine::new(dir.path(), script_at(60, now)).unwrap();
    machine.move_to(now).unwrap();
    let samples = print(&machine);
    let cpus = |gpu: &str, node: &str| value(&samples, "goodput_gpu_numa_allowed_cpus", &[gpu, node]);
    assert_eq!((cpus("gpu=\"3\"", "node=\"0\""), cpus("gpu=\"3\"", "node=\"1\"")), (0.0, 12.0));
    assert_eq!((cpus("gpu=\"4\"", "node=\"0\""), cpus("gpu=\"4\"", "node=\"1\"")), (0.0, 12.0));
    assert_eq!(value(&samples, "goodput_gpu_numa_info", &["gpu=\"3\"", "node=\"0\""]), 1.0);
}

/// Every file of the machine.
fn files(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// Moves a new machine to the same moments but for how often it stops in between.
fn moved(end: SystemTime, step: Duration) -> BTreeMap<PathBuf, String> {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path(), Script::week(end)).unwrap();
    let (mut at, until) = (end - 28 * HOUR, end - 28 * HOUR + Duration::from_secs(84));
    while at <= until {
        machine.move_to(at).unwrap();
        at += step;
    }
    files(dir.path())
}

/// Numbers may differ by one: a unit is seen once it is whole.
#[track_caller]
fn assert_alike(path: &Path, a: &str, b: &str) {
    let words = |text: &str| text.split([' ', '\n', '=']).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (words(a), words(b));
    assert_eq!(a.len(), b.len(), "{}", path.display());
    for (a, b) in a.iter().zip(&b) {
        let near = match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.abs_diff(b) <= 1,
            _ => a == b,
        };
        assert!(near, "{}: {a} and {b}", path.display());
    }
}

#[test]
fn steps_do_not_matter() {
    let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_003_200);
    let once = moved(end, Duration::from_secs(84));
    for seconds in [1, 7, 21] {
        let often = moved(end, Duration::from_secs(seconds));
        assert_eq!(once.keys().collect::<Vec<_>>(), often.keys().collect::<Vec<_>>());
        for (path, text) in once.iter().filter(|(path, _)| !path.ends_with("gpus.jsonl")) {
            assert_alike(path, text, &often[path]);
        }
    }
}

#[test]
fn a_week_is_the_same_every_time_and_its_log_is_bounded() {
    let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_003_200);
    let week = || {
        let dir = tempfile::tempdir().unwrap();
        let mut machine = Machine::new(dir.path(), Script::week(end)).unwrap();
        machine.move_to(end).unwrap();
        files(dir.path())
    };
    let (first, second) = (week(), week());
    assert!(first == second, "two runs differ");
    let lines = first[Path::new("gpus.jsonl")].lines().count();
    assert!((5_000..60_000).contains(&lines), "{lines} lines");
}

#[test]
fn time_goes_one_way() {
    let (dir, end) = (tempfile::tempdir().unwrap(), SystemTime::UNIX_EPOCH + 600 * HOUR);
    let mut machine = Machine::new(dir.path(), Script::week(end)).unwrap();
    machine.move_to(end - 100 * HOUR).unwrap();
    let back = machine.move_to(end - 101 * HOUR).unwrap_err();
    assert!(back.to_string().starts_with("the machine cannot go back by 3600000000 us"), "{back}");
    let before = machine.move_to(end - 169 * HOUR).unwrap_err();
    assert!(before.to_string().starts_with("a moment before the script's start"), "{before}");
    assert!(Machine::new(dir.path(), Script::week(end)).is_err(), "a log is there already");
}
