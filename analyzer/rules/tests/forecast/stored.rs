//! From series to risks: which memory has which limit, and when it was at risk.

use goodput_exposition::sample::{Labels, STALE_BITS, Sample, Series, TimeMs};
use goodput_rules::classify::Thresholds;
use goodput_rules::forecast::{STEP_MS, prospects, risks};
use goodput_verdict::{Exhaustion, Kind, Memory, Prospect, Risk};

const HOUR: TimeMs = 3_600_000;
const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// A series of one exporter with a sample every 30 s for `hours` hours.
fn series(labels: &[(&str, &str)], hours: i64, value: impl Fn(f64) -> f64) -> Series {
    let at = |i: i64| Sample { time_ms: i * 30_000, value: value(i as f64 / 120.0) };
    Series { labels: Labels::new(labels.iter().copied()), samples: (0..hours * 120).map(at).collect() }
}

/// 30 GiB at first, 50 GiB more after `hours`.
fn rising(hours: f64) -> impl Fn(f64) -> f64 {
    move |t| (30.0 + 50.0 * t / hours) * GIB
}

fn gpu(metric: &str, hours: i64, bytes: impl Fn(f64) -> f64) -> Series {
    let labels = [("__name__", metric), ("UUID", "GPU-1"), ("Hostname", "n1"), ("instance", "n1:9400")];
    series(&labels, hours, move |t| bytes(t) / MIB)
}

fn job(metric: &str, hours: i64, bytes: impl Fn(f64) -> f64) -> Series {
    let labels = [("__name__", metric), ("owner", "job/7"), ("node", "n1"), ("instance", "n1:9400")];
    series(&labels, hours, bytes)
}

fn host(metric: &str, instance: &str, hours: i64, bytes: impl Fn(f64) -> f64) -> Series {
    series(&[("__name__", metric), ("node", "n1"), ("instance", instance)], hours, bytes)
}

const WORKING_SET: &str = "goodput_cgroup_memory_working_set_bytes";

fn asked(series: &[Series], now: TimeMs) -> Vec<Prospect> {
    prospects(series, now, &Thresholds::default())
}

fn of(prospect: &Prospect) -> Exhaustion {
    *prospect.exhaustion().unwrap()
}

#[test]
fn each_memory_has_its_own_limit() {
    let used = rising(2.0);
    let all = [
        gpu("DCGM_FI_DEV_FB_USED", 1, &used),
        gpu("DCGM_FI_DEV_FB_FREE", 1, |t| 79.0 * GIB - used(t)),
        gpu("DCGM_FI_DEV_FB_TOTAL", 1, |_| 80.0 * GIB),
        series(
            &[("__name__", "goodput_gpu_owner_info"), ("UUID", "GPU-1"), ("owner", "job/7"), ("instance", "n1:9400")],
            1,
            |_| 1.0,
        ),
        job(WORKING_SET, 1, &used),
        job("goodput_cgroup_memory_max_bytes", 1, |_| 100.0 * GIB),
        host("goodput_node_memory_total_bytes", "n1:9400", 1, |_| 200.0 * GIB),
        host("goodput_node_memory_available_bytes", "n1:9400", 1, |t| 200.0 * GIB - used(t)),
        // Another exporter tells the same of the node: it is one memory.
        host("node_memory_MemTotal_bytes", "n1:9100", 1, |_| 200.0 * GIB),
        host("node_memory_MemAvailable_bytes", "n1:9100", 1, |_| 200.0 * GIB),
    ];
    let found = asked(&all, HOUR - 1);
    let shown: Vec<_> =
        found.iter().map(|p| (p.kind, p.entity.as_str(), p.node.as_str(), (of(p).limit / GIB).round())).collect();
    let expected = [
        (Kind::Memory(Memory::Gpu), "GPU-1", "n1", 79.0),
        (Kind::Memory(Memory::Cgroup), "job/7", "n1", 100.0),
        (Kind::Memory(Memory::Host), "n1", "n1", 200.0),
    ];
    assert_eq!(shown, expected, "what the driver reserves is not part of the limit");
    assert!(found.iter().all(|p| (of(p).used / used(1.0) - 1.0).abs() < 0.01), "{found:?}");
    assert_eq!(found[0].owners, ["job/7"]);
    let at_risk: Vec<bool> = found.iter().map(|p| p.at_risk().is_some()).collect();
    assert_eq!(at_risk, [true, true, false], "25 GiB an hour leave the node six hours");
}

#[test]
fn node_exporter_alone_tells_of_the_node() {
    let all = [
        host("node_memory_MemTotal_bytes", "n1:9100", 1, |_| 80.0 * GIB),
        host("node_memory_MemAvailable_bytes", "n1:9100", 1, |t| 80.0 * GIB - rising(2.0)(t)),
    ];
    let found = asked(&all, HOUR - 1);
    assert_eq!(found.iter().map(|p| p.kind).collect::<Vec<_>>(), [Kind::Memory(Memory::Host)]);
    assert!(found[0].at_risk().is_some());
}

#[test]
fn without_a_limit_or_the_whole_of_it_there_is_no_forecast() {
    assert_eq!(asked(&[job(WORKING_SET, 1, rising(2.0))], HOUR - 1), [], "unlimited");
    assert_eq!(asked(&[gpu("DCGM_FI_DEV_FB_USED", 1, rising(2.0))], HOUR - 1), []);
    assert_eq!(asked(&[host("node_memory_MemAvailable_bytes", "n1:9100", 1, rising(2.0))], HOUR - 1), []);
    let mut lifted = job("goodput_cgroup_memory_max_bytes", 1, |_| 100.0 * GIB);
    lifted.samples.truncate(60);
    lifted.samples.push(Sample { time_ms: HOUR / 2 + 1, value: f64::from_bits(STALE_BITS) });
    assert_eq!(asked(&[job(WORKING_SET, 1, rising(2.0)), lifted], HOUR - 1), [], "the limit was lifted");
    let instance = [("__name__", "DCGM_FI_DEV_FB_USED"), ("UUID", "GPU-1"), ("GPU_I_ID", "3"), ("Hostname", "n1")];
    let free = [("__name__", "DCGM_FI_DEV_FB_FREE"), ("UUID", "GPU-1"), ("GPU_I_ID", "3"), ("Hostname", "n1")];
    assert_eq!(asked(&[series(&instance, 1, |_| 9000.0)], HOUR - 1), []);
    let mig =
        [series(&instance, 1, |_| 9000.0), series(&free, 1, |_| 1000.0), gpu("DCGM_FI_DEV_FB_USED", 1, rising(2.0))];
    let found = asked(&mig, HOUR - 1);
    let entities: Vec<&str> = found.iter().map(|p| p.entity.as_str()).collect();
    assert_eq!(entities, ["GPU-1/3"], "an instance has memory of its own, and is not its GPU");
    assert_eq!(of(&found[0]).limit, 10_000.0 * 1_048_576.0);
}

/// A leak that would take three hours and is ended after two and a half.
fn leak() -> Vec<Series> {
    let mut all = vec![job(WORKING_SET, 4, rising(3.0)), job("goodput_cgroup_memory_max_bytes", 4, |_| 80.0 * GIB)];
    for sample in &mut all[0].samples {
        sample.value = if sample.time_ms < 5 * HOUR / 2 { sample.value } else { GIB };
    }
    all
}

fn found(from: TimeMs, to: TimeMs, until: TimeMs) -> Vec<Risk> {
    risks(&leak(), &(from..to), until, &Thresholds::default())
}

#[test]
fn risks_begin_and_end_and_name_the_earliest_end() {
    let all = found(0, 4 * HOUR, 4 * HOUR);
    let [risk] = all.as_slice() else { panic!("{all:?}") };
    assert!(risk.start_ms <= HOUR, "at risk is known within the first hour: {risk:?}");
    assert_eq!(risk.end_ms, 5 * HOUR / 2, "the program began anew");
    assert_eq!(risk.last.made_ms, risk.end_ms - STEP_MS);
    assert!((risk.earliest_ms.unwrap() - 3 * HOUR).abs() < HOUR / 12, "{risk:?}");
    assert!((risk.last.expected_ms().unwrap() - 3 * HOUR).abs() < HOUR / 60, "{risk:?}");
}

#[test]
fn hour_by_hour_or_at_once_or_minute_by_minute_is_the_same() {
    let all = found(0, 4 * HOUR, 4 * HOUR);
    let hours: Vec<Risk> = (0..4).flat_map(|h| found(h * HOUR, (h + 1) * HOUR, 4 * HOUR)).collect();
    assert!(hours.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms), "{hours:?}");
    assert_eq!((hours.first().unwrap().start_ms, hours.last().unwrap().end_ms), (all[0].start_ms, all[0].end_ms));
    assert_eq!(hours.last().unwrap().last, all[0].last);
    let half = HOUR + 32 * 60_000;
    let open = found(HOUR, 2 * HOUR, half);
    assert_eq!(open.iter().map(|r| (r.end_ms, r.last.made_ms)).collect::<Vec<_>>(), [(half, HOUR + 30 * 60_000)]);
    assert_eq!(found(3 * HOUR, 4 * HOUR, 4 * HOUR), []);
}
