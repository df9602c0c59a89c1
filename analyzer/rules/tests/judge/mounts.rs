//! One GPU that waits for its input for some minutes: which network file system or limit is named, by either exporter's names and
//! by both at once.

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Judged, Thresholds, judge_series};
use goodput_verdict::Class;

const MINUTE: TimeMs = 60_000;
/// The minutes in which it waits, of 60.
const ODD: Range<TimeMs> = 30 * MINUTE..40 * MINUTE;
/// What is judged: the inner ones of these.
const WINDOW: Range<TimeMs> = 32 * MINUTE..38 * MINUTE;

const OWNER: (&str, &str) = ("owner", "train");

/// A mount: its mount point, its export, seconds of a read in the odd minutes and in the others, and bytes of a read. Each has
/// 100 reads a second.
type Mount = (&'static str, &'static str, f64, f64, f64);

fn series(name: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let all = [("__name__", name), ("Hostname", "n"), ("instance", "n")];
    let samples = (0..240).map(|i| Sample { time_ms: i * 15_000, value: value(i * 15_000) }).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

/// What a counter has that grows by one rate a second in the odd minutes, and by another in the others.
fn counted(time_ms: TimeMs, odd: f64, else_: f64) -> f64 {
    let odd_ms = (time_ms - ODD.start).clamp(0, ODD.end - ODD.start);
    (odd * odd_ms as f64 + else_ * (time_ms - odd_ms) as f64) / 1000.0
}

fn node() -> Vec<Series> {
    let device = [("UUID", "GPU-1"), ("modelName", "NVIDIA H100 80GB HBM3")];
    vec![
        series("node_uname_info", &[("nodename", "n")], |_| 1.0),
        series("goodput_gpu_owner_info", &[device[0], OWNER], |_| 1.0),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &device, |t| if ODD.contains(&t) { 0.4 } else { 0.95 }),
        series("node_cpu_seconds_total", &[("mode", "user")], |t| counted(t, 1.5, 3.0)),
        series("node_cpu_seconds_total", &[("mode", "idle")], |t| counted(t, 62.5, 61.0)),
        series("node_cpu_seconds_total", &[("mode", "iowait")], |_| 0.0),
        series("node_cpu_seconds_total", &[("mode", "steal")], |_| 0.0),
        series("goodput_cgroup_cpu_usage_seconds_total", &[OWNER], |t| counted(t, 1.5, 3.0)),
        series("goodput_cgroup_pressure_waiting_seconds_total", &[OWNER, ("resource", "io")], |t| {
            counted(t, 0.9, 0.05)
        }),
        series("goodput_process_state", &[OWNER, ("state", "uninterruptible")], |t| {
            if ODD.contains(&t) { 8.0 } else { 0.0 }
        }),
        series("node_disk_read_bytes_total", &[("device", "sda")], |t| counted(t, 1e7, 2e7)),
    ]
}

fn ours((point, export, odd, usual, size): &Mount) -> Vec<Series> {
    let at = [("mount", *point), ("operation", "read")];
    let whole = [("mount", *point), ("export", *export)];
    vec![
        series("goodput_nfs_requests_total", &at, |t| counted(t, 100.0, 100.0)),
        series("goodput_nfs_execution_seconds_total", &at, |t| counted(t, 100.0 * odd, 100.0 * usual)),
        series("goodput_nfs_read_bytes_total", &whole, |t| counted(t, 100.0 * size, 100.0 * size)),
        series("goodput_nfs_mount_info", &whole, |_| 1.0),
    ]
}

fn theirs((point, export, odd, usual, size): &Mount) -> Vec<Series> {
    let at = [("export", *export), ("mountaddr", "10.0.0.2"), ("operation", "READ")];
    vec![
        series("node_mountstats_nfs_operations_requests_total", &at, |t| counted(t, 100.0, 100.0)),
        series("node_mountstats_nfs_operations_request_time_seconds_total", &at, |t| {
            counted(t, 100.0 * odd, 100.0 * usual)
        }),
        series("node_mountstats_nfs_total_read_bytes_total", &at[..2], |t| counted(t, 100.0 * size, 100.0 * size)),
        series("node_mountstats_nfs_mountpoint_info", &[at[0], ("mountpoint", point)], |_| 1.0),
    ]
}

/// Who is told by whom.
type Exporter = fn(&Mount) -> Vec<Series>;

/// What most of the waiting is said to be.
fn told(mounts: &[Mount], exporters: &[Exporter]) -> String {
    most(mounts.iter().flat_map(|mount| exporters.iter().flat_map(|exporter| exporter(mount))))
}

/// The verdicts of a node with these series too.
fn judged(more: impl Iterator<Item = Series>) -> Judged {
    let series: Vec<Series> = node().into_iter().chain(more).collect();
    judge_series(&series, WINDOW, &Thresholds::default()).unwrap()
}

/// What most of the waiting of such a node is said to be.
fn most(more: impl Iterator<Item = Series>) -> String {
    let judged = judged(more);
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for i in judged.intervals.iter().filter(|i| i.class != Class::Productive) {
        let cause = i.cause.as_ref().map_or("", |cause| cause.kind.name());
        let which = i.cause.as_ref().and_then(|cause| cause.which.as_deref()).unwrap_or_default();
        *sums.entry(format!("{} {cause} {which}", i.class.name()).trim_end().to_owned()).or_default() += i.ms;
    }
    sums.into_iter().max_by_key(|(_, ms)| *ms).map(|(name, _)| name).unwrap_or_default()
}

#[test]
fn the_mount_is_named_that_became_slow() {
    let both = [("/data", "nas:/data", 0.05, 0.002, 1e6), ("/home", "nas:/home", 0.002, 0.002, 1e6)];
    let exporters: [&[Exporter]; 3] = [&[ours], &[theirs], &[ours, theirs]];
    for exporters in exporters {
        assert_eq!(told(&both, exporters), "dataloader_storage slow_mount /data", "{}", exporters.len());
    }
}

#[test]
fn the_mounts_of_a_run_are_kept_where_it_waited_for_one() {
    let kept = |mounts: &[Mount]| judged(mounts.iter().flat_map(ours)).mounts;
    let sound = [("/data", "nas:/data", 0.002, 0.002, 1e6), ("/home", "nas:/home", 0.002, 0.002, 1e6)];
    assert_eq!(kept(&sound), [], "no mount is named");
    let of_one_export = ("/also", "nas:/data", 0.05, 0.002, 1e6);
    let all = kept(&[of_one_export, ("/data", "nas:/data", 0.05, 0.002, 1e6), sound[1]]);
    let said: Vec<_> =
        all.iter().map(|m| (m.mount.as_str(), m.export.as_deref(), m.mounts, m.owner.as_str())).collect();
    assert_eq!(said, [("/also", Some("nas:/data"), 2, "train"), ("/home", Some("nas:/home"), 2, "train")]);
    let read: Vec<_> = all.iter().map(|m| (m.reads.map(f64::round), m.read_seconds.map(f64::round))).collect();
    assert_eq!(read, [(Some(36_000.0), Some(1_800.0)), (Some(36_000.0), Some(72.0))]);
    assert_eq!((all[0].best_read_seconds, all[0].others, all[0].written_bytes), (Some(0.002), None, None));
}

#[test]
fn a_mount_is_not_named_for_what_its_reads_always_take() {
    let long = ("/data", "nas:/data", 0.02, 0.02, 1e6);
    // Small reads are faster than large ones.
    let small = ("/home", "nas:/home", 0.001, 0.001, 4e3);
    let quick = ("/scratch", "flash:/scratch", 0.0011, 0.0011, 1e6);
    assert_eq!(told(&[long, small], &[ours]), "dataloader_storage");
    assert_eq!(
        told(&[long, quick], &[ours]),
        "dataloader_storage slow_mount /data",
        "reads of that size are fast there"
    );
    assert_eq!(told(&[small, quick], &[ours]), "dataloader_storage");
}

/// What a node reads from its disk, in bytes a second; more than it does on the disk whose bytes [`node`] has.
fn reads(device: &'static str, bytes: f64) -> Series {
    series("node_disk_read_bytes_total", &[("device", device)], move |t| counted(t, bytes, bytes))
}

fn job_reads(bytes: f64) -> Series {
    series("goodput_cgroup_io_read_bytes_total", &[OWNER], move |t| counted(t, bytes, bytes))
}

fn limit(device: &'static str) -> Series {
    series("goodput_cgroup_io_limit_bytes", &[OWNER, ("device", device), ("direction", "read")], |_| 1e8)
}

#[test]
fn a_limit_is_told_where_the_job_reaches_it() {
    let of = |job: f64, node: f64, limits: &[&'static str]| {
        most(limits.iter().map(|device| limit(device)).chain([job_reads(job), reads("nvme0n1", node)]))
    };
    assert_eq!(of(1e8, 1e8, &["nvme0n1"]), "io_limited io_limit nvme0n1");
    assert_eq!(of(1e8, 1e8, &["nvme0n1", "nvme1n1"]), "io_limited io_limit", "either may be the one");
    assert_eq!(of(5e7, 5e7, &["nvme0n1"]), "dataloader_storage", "half of the limit");
    assert_eq!(of(3e8, 3e8, &["nvme0n1"]), "dataloader_storage", "most is read from another disk");
    assert_eq!(of(2e8, 9e7, &["nvme0n1"]), "io_limited io_limit nvme0n1", "a stacked device counts each read twice");
    assert_eq!(of(9.5e7, 4e7, &["nvme0n1"]), "dataloader_storage", "the same at half of the limit");
}

/// A disk with 1,000 reads a second in the odd minutes: seconds of a read in these and in the others.
fn disk(device: &'static str, odd: f64, usual: f64) -> [Series; 2] {
    disk_with(1e3, device, odd, usual)
}

/// The same with this many reads a second in the others.
fn disk_with(before: f64, device: &'static str, odd: f64, usual: f64) -> [Series; 2] {
    let device = [("device", device)];
    [
        series("node_disk_reads_completed_total", &device, move |t| counted(t, 1e3, before)),
        series("node_disk_read_time_seconds_total", &device, move |t| counted(t, 1e3 * odd, before * usual)),
    ]
}

#[test]
fn the_disk_is_named_that_became_slow() {
    let of = |disks: &[(&'static str, f64, f64)], size: f64| {
        let disks = disks.iter().flat_map(|(device, odd, usual)| disk(device, *odd, *usual));
        most(disks.chain([reads("nvme9n1", size * 1e3)]))
    };
    assert_eq!(of(&[("sdb", 0.02, 0.002)], 1e6), "dataloader_storage slow_disk sdb");
    assert_eq!(of(&[("sdb", 0.02, 0.002), ("sdc", 0.004, 0.004)], 1e6), "dataloader_storage slow_disk sdb");
    assert_eq!(of(&[("dm-0", 0.02, 0.002), ("sdb", 0.02, 0.002)], 1e6), "dataloader_storage slow_disk sdb", "stacked");
    assert_eq!(of(&[("sdb", 0.004, 0.004)], 1e6), "dataloader_storage", "it always takes that");
    assert_eq!(of(&[("sdb", 0.0008, 0.0001)], 1e6), "dataloader_storage", "no sound disk is faster");
    assert_eq!(
        of(&[("sdb1", 0.02, 0.002), ("sdb", 0.02, 0.002)], 1e6),
        "dataloader_storage slow_disk sdb",
        "a partition"
    );
    assert_eq!(of(&[("sdb", 0.004, 0.004)], 2e4), "dataloader_storage small_reads sdb");
    assert_eq!(
        of(&[("sdb", 0.004, 0.004), ("sdc", 0.001, 0.001)], 2e4),
        "dataloader_storage",
        "whose reads are small?"
    );
    let rested = most(disk_with(1.0, "sdb", 0.02, 0.002).into_iter().chain([reads("nvme9n1", 1e9)]));
    assert_eq!(rested, "dataloader_storage", "with one read at a time each is faster");
}

#[test]
fn a_mount_without_another_is_compared_with_itself() {
    let quick = disk("sdb", 0.0001, 0.0001);
    for (odd, usual, expected) in [
        (0.05, 0.002, "dataloader_storage slow_mount /data"),
        (0.05, 0.05, "dataloader_storage"),
        (0.05, 0.03, "dataloader_storage"),
    ] {
        let mount = ("/data", "nas:/data", odd, usual, 1e6);
        for disk in [&[][..], &quick[..]] {
            let disk_is_told = disk.len();
            let found = most(ours(&mount).into_iter().chain(disk.iter().cloned()));
            assert_eq!(found, expected, "{odd} s, usually {usual} s, {disk_is_told} series of a disk");
        }
    }
}

#[test]
fn a_mount_is_told_whose_server_did_not_answer() {
    let home = ("/home", "nas:/home", 0.002, 0.002, 1e6);
    let data = ("/data", "nas:/data", 0.05, 0.002, 1e6);
    let of = |metric: &'static str, labels: &[(&str, &str)], odd: f64, mounts: &[Mount], exporter: Exporter| {
        let again = series(metric, labels, |t| counted(t, odd, 0.0));
        most(mounts.iter().flat_map(exporter).chain([again]))
    };
    let (again, at) = ("goodput_nfs_retransmissions_total", [("mount", "/home"), ("operation", "other")]);
    let of_node = "node_nfs_rpc_retransmissions_total";
    let other = ("/other", "nas:/other", 0.003, 0.003, 1e6);
    assert_eq!(of(again, &at, 0.05, &[home, other], ours), "dataloader_storage not_answering /home");
    assert_eq!(of(again, &at, 0.0, &[home, other], ours), "dataloader_storage", "none was sent again");
    assert_eq!(
        of(again, &at, 0.05, &[home, data], ours),
        "dataloader_storage slow_mount /data",
        "reads are late there"
    );
    assert_eq!(
        of(again, &[("mount", "/data"), at[1]], 0.05, &[home, data], ours),
        "dataloader_storage not_answering /data",
        "what is only late is not sent again"
    );
    assert_eq!(of(of_node, &[], 0.05, &[home], theirs), "dataloader_storage not_answering /home");
    assert_eq!(of(of_node, &[], 0.05, &[home, other], theirs), "dataloader_storage", "it may be either");
}
