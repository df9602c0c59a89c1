//! Ranks on two nodes that all wait for some minutes: what a port has to show, by either exporter's names, so that the
//! network is told and the port named.

use std::collections::BTreeMap;
use std::ops::Range;

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::{Class, Interval};

pub(super) const MINUTE: TimeMs = 60_000;
/// The minutes in which the ranks wait, of 60.
const ODD: Range<TimeMs> = 30 * MINUTE..40 * MINUTE;
/// What is judged: the inner ones of these.
const WINDOW: Range<TimeMs> = 32 * MINUTE..38 * MINUTE;
const NODES: [&str; 2] = ["a", "b"];
/// Bytes a second that each port carries while nothing is the matter, and while the ranks wait.
const BYTES: [f64; 2] = [1e10, 4e9];

/// A metric, its labels, and its value at a time: on the node that is odd, and on the other.
pub(super) type Told = (&'static str, &'static [(&'static str, &'static str)], fn(f64) -> f64, fn(f64) -> f64);

pub(super) fn series(name: &str, node: &str, labels: &[(&str, &str)], value: impl Fn(TimeMs) -> f64) -> Series {
    let all = [("__name__", name), ("Hostname", node), ("instance", node)];
    let samples = (0..240).map(|i| Sample { time_ms: i * 15_000, value: value(i * 15_000) }).collect();
    Series { labels: Labels::new(all.into_iter().chain(labels.iter().copied())), samples }
}

/// Seconds of the odd minutes until then.
fn odd_seconds(seconds: f64) -> f64 {
    let (from, to) = (ODD.start as f64 / 1000.0, ODD.end as f64 / 1000.0);
    (seconds - from).clamp(0.0, to - from)
}

/// A counter that grows by so many a second in the odd minutes.
fn grows(by: f64, seconds: f64) -> f64 {
    (by * odd_seconds(seconds)).floor()
}

fn carried(seconds: f64) -> f64 {
    BYTES[0] * (seconds - odd_seconds(seconds)) + BYTES[1] * odd_seconds(seconds)
}

/// Two GPUs on each of two nodes, which wait in the odd minutes. Each rank is an owner of its own, as pods of one job are.
fn run(told: &[Told]) -> Vec<Series> {
    run_that_waits(true, told)
}

/// The same, which may never wait.
pub(super) fn run_that_waits(waits: bool, told: &[Told]) -> Vec<Series> {
    let mut all = Vec::new();
    for node in NODES {
        all.push(series("goodput_node_info", node, &[("nodename", node)], |_| 1.0));
        for n in ["0", "1"] {
            let (uuid, owner) = (format!("GPU-{node}{n}"), format!("ml/llm-worker-{node}{n}"));
            let device = [("UUID", uuid.as_str()), ("modelName", "NVIDIA H100 80GB HBM3")];
            all.push(series("goodput_gpu_owner_info", node, &[device[0], ("owner", &owner)], |_| 1.0));
            all.push(series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", node, &device, |_| 1.0));
            let active = |t: TimeMs| if waits && ODD.contains(&t) { 0.32 } else { 0.8 };
            all.push(series("DCGM_FI_PROF_SM_ACTIVE", node, &device, active));
            let used = |t: TimeMs| t as f64 / 1000.0;
            all.push(series("goodput_cgroup_cpu_usage_seconds_total", node, &[("owner", &owner)], used));
            let pod = format!("llm-worker-{node}{n}");
            let made = [("namespace", "ml"), ("pod", &pod), ("owner_kind", "PyTorchJob"), ("owner_name", "llm")];
            all.push(series(
                "kube_pod_owner",
                "kube",
                &[&made[..], &[("owner_is_controller", "true")]].concat(),
                |_| 1.0,
            ));
        }
        for (name, labels, odd, other) in told {
            let value = if node == "b" { odd } else { other };
            all.push(series(name, node, labels, |t| value(t as f64 / 1000.0)));
        }
    }
    all
}

pub(super) const PORT: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1")];
pub(super) const SECOND: &[(&str, &str)] = &[("device", "mlx5_1"), ("port", "1")];
const ETHERNET: &[(&str, &str)] = &[("device", "eth0")];
const RECEIVED: &[(&str, &str)] = &[("device", "eth0"), ("direction", "received"), ("priority", "3")];
const PAUSED: &[(&str, &str)] = &[("device", "eth0"), ("direction", "receive"), ("priority", "3")];
const PAUSES: &[(&str, &str)] = &[("device", "eth0"), ("direction", "transmit"), ("priority", "3")];
const BRIDGE: &[(&str, &str)] = &[("device", "docker0")];
pub(super) const TIMEOUTS: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "local_ack_timeout_err")];
const REORDERED: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "out_of_sequence")];
const DOWNED: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "link_downed")];

/// What two ports of each node carry at one rate, by node_exporter's names.
pub(super) const SOUND: [Told; 6] = [
    ("node_infiniband_port_data_transmitted_bytes_total", PORT, carried, carried),
    ("node_infiniband_port_data_transmitted_bytes_total", SECOND, carried, carried),
    ("node_infiniband_rate_bytes_per_second", PORT, |_| 5e10, |_| 5e10),
    ("node_infiniband_rate_bytes_per_second", SECOND, |_| 5e10, |_| 5e10),
    ("node_infiniband_state_id", PORT, |_| 4.0, |_| 4.0),
    ("node_infiniband_state_id", SECOND, |_| 4.0, |_| 4.0),
];

pub(super) fn none(_: f64) -> f64 {
    0.0
}

fn intervals(series: &[Series], window: Range<TimeMs>) -> Vec<Interval> {
    judge_series(series, window, &Thresholds::default()).unwrap().intervals
}

/// What is lost of the window, but for shares below a tenth: class, cause, and who.
fn lost(series: &[Series]) -> Vec<String> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for i in intervals(series, WINDOW).iter().filter(|i| i.class != Class::Productive) {
        let cause = i.cause.as_ref().map_or("", |cause| cause.kind.name());
        let which = i.cause.as_ref().and_then(|cause| cause.which.as_deref()).unwrap_or_default();
        let node = i.charged_to.as_ref().map_or("", |culprit| culprit.node.as_str());
        *sums.entry(format!("{} {cause} {node} {which}", i.class.name())).or_default() += i.ms;
    }
    let total = 4 * (WINDOW.end - WINDOW.start);
    sums.into_iter().filter(|(_, ms)| *ms * 10 > total).map(|(name, _)| name.trim_end().to_owned()).collect()
}

#[test]
fn a_port_is_named_for_what_it_shows() {
    let cases: [(&str, &[Told], &[&str]); 12] = [
        ("nothing", &[], &["collective_wait"]),
        (
            "node_exporter's timeouts, of two counters that are one",
            &[
                ("node_infiniband_local_ack_timeout_errors_total", PORT, none, none),
                ("node_infiniband_roce_adp_retransmits_timeout_total", PORT, |s| grows(0.2, s), none),
            ],
            &["network_slow errors b mlx5_0/1"],
        ),
        (
            "our timeouts",
            &[("goodput_rdma_transport_events_total", TIMEOUTS, |s| grows(0.2, s), none)],
            &["network_slow errors b mlx5_0/1"],
        ),
        (
            "timeouts of both ports: nobody is named",
            &[("goodput_rdma_transport_events_total", TIMEOUTS, |s| grows(0.2, s), |s| grows(0.2, s))],
            &["network_slow errors"],
        ),
        (
            "packets out of sequence are no loss",
            &[("goodput_rdma_transport_events_total", REORDERED, |s| grows(4000.0, s), none)],
            &["collective_wait"],
        ),
        (
            "a counter of 8 bits that is full tells nothing",
            &[("goodput_rdma_port_errors_total", DOWNED, |_| 255.0, none)],
            &["collective_wait"],
        ),
        (
            "our pauses, which the peer asked for",
            &[("goodput_network_pause_seconds_total", PAUSED, |s| 0.5 * odd_seconds(s), none)],
            &["network_slow congested b eth0"],
        ),
        (
            "the same, spelled as node_exporter does",
            &[("goodput_network_pause_seconds_total", RECEIVED, |s| 0.5 * odd_seconds(s), none)],
            &["network_slow congested b eth0"],
        ),
        (
            "our pauses, which the interface asked its peer for",
            &[("goodput_network_pause_seconds_total", PAUSES, |s| 0.5 * odd_seconds(s), none)],
            &["collective_wait"],
        ),
        (
            "node_exporter's pauses",
            &[("node_ethtool_received_prio3_pause_duration", ETHERNET, |s| 5e5 * odd_seconds(s), none)],
            &["network_slow congested b eth0"],
        ),
        (
            "traffic of a bridge is not the node's",
            &[
                ("node_network_transmit_bytes_total", BRIDGE, |s| 1e12 + s * 4e12, |s| s * 4e12),
                ("node_network_receive_bytes_total", BRIDGE, |s| 1e12 + s * 4e12, |s| s * 4e12),
                ("node_network_transmit_bytes_total", ETHERNET, |s| s * 1e5, |s| s * 1e5),
                ("node_network_receive_bytes_total", ETHERNET, |s| s * 1e5, |s| s * 1e5),
            ],
            &["collective_wait"],
        ),
        (
            "the port's link changes",
            &[("goodput_rdma_port_errors_total", DOWNED, |s| grows(0.05, s), none)],
            &["network_slow errors b mlx5_0/1"],
        ),
    ];
    for (name, told, expected) in cases {
        assert_eq!(lost(&run(&[&SOUND[..], told].concat())), expected, "{name}");
    }
}

#[test]
fn a_slower_port_is_named_where_its_peers_are_not_slower() {
    let slower = |s: f64| if odd_seconds(s) > 0.0 { 1e10 } else { 5e10 };
    let rates = |odd: fn(f64) -> f64, other: fn(f64) -> f64| {
        let mut told = SOUND;
        told[2] = ("node_infiniband_rate_bytes_per_second", PORT, odd, other);
        told
    };
    // Of the waiting, what the bytes of the port take at its rate: the rest has another reason.
    let both = ["collective_wait", "network_slow link b mlx5_0/1"];
    assert_eq!(lost(&run(&rates(slower, |_| 5e10))), both);
    // One that is made so on every node, and a driver that tells no rate.
    assert_eq!(lost(&run(&rates(|_| 1e10, |_| 1e10))), ["collective_wait"]);
    assert_eq!(lost(&run(&SOUND[..2])), ["collective_wait"]);
}

#[test]
fn the_order_of_series_and_the_window_change_nothing() {
    let told = (
        "goodput_rdma_transport_events_total",
        TIMEOUTS,
        (|s| grows(0.2, s)) as fn(f64) -> f64,
        none as fn(f64) -> f64,
    );
    let all = run(&[&SOUND[..], &[told]].concat());
    let at_once = intervals(&all, 0..60 * MINUTE);
    assert!(at_once.iter().any(|i| i.class == Class::NetworkSlow));
    let backwards: Vec<Series> = all.iter().rev().cloned().collect();
    assert_eq!(intervals(&backwards, 0..60 * MINUTE), at_once);
    let sum =
        |intervals: &[Interval], class| -> i64 { intervals.iter().filter(|i| i.class == class).map(|i| i.ms).sum() };
    let halves = [intervals(&all, 0..36 * MINUTE), intervals(&all, 36 * MINUTE..60 * MINUTE)].concat();
    for class in [Class::NetworkSlow, Class::CollectiveWait, Class::Productive] {
        assert_eq!(sum(&halves, class), sum(&at_once, class), "{class:?}");
    }
}

/// A port of its own for something that all ranks wait for, which has nothing to do but then.
const THIRD: &[(&str, &str)] = &[("device", "mlx5_2"), ("port", "1")];

#[test]
fn a_port_that_is_full_is_told_and_named() {
    let sent = "node_infiniband_port_data_transmitted_bytes_total";
    let rate: Told = ("node_infiniband_rate_bytes_per_second", THIRD, |_| 3.5e10, |_| 3.5e10);
    let full = run(&[&SOUND[..], &[rate, (sent, THIRD, |s| grows(3e10, s), none)]].concat());
    assert_eq!(lost(&full), ["network_slow saturated b mlx5_2/1"]);
    let busy = run(&[&SOUND[..], &[rate, (sent, THIRD, |s| grows(2.5e10, s), none)]].concat());
    assert_eq!(lost(&busy), ["collective_wait"], "at seven tenths of its rate");
}

#[test]
fn the_ports_of_a_run_are_kept_where_it_waited_for_the_network() {
    let timeouts: Told = ("goodput_rdma_transport_events_total", TIMEOUTS, |s| grows(0.2, s), none);
    let ports = |told: &[Told]| judge_series(&run(told), WINDOW, &Thresholds::default()).unwrap().ports;
    assert_eq!(ports(&SOUND), [], "nothing is charged");
    let kept = ports(&[&SOUND[..], &[timeouts]].concat());
    let first = &kept[0];
    assert_eq!(
        (first.node.as_str(), first.port.as_str(), first.owner.as_str()),
        ("b", "mlx5_0/1", "ml/PyTorchJob/llm")
    );
    assert_eq!(first.timeouts.map(f64::round), Some(72.0));
    assert_eq!((first.ports, kept.len(), first.rate, first.down_ms), (4, 4, Some(5e10), Some(0)));
    assert!(first.sent_bytes.is_some_and(|bytes| (bytes - 6.0 * 60.0 * BYTES[1]).abs() < 1e9), "{first:?}");
    assert!(kept[1..].iter().all(|port| port.events() == 0.0), "{kept:?}");
}
