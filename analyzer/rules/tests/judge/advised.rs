//! What is advised of a run's network where nothing is lost to it: ranks on two nodes that do not wait, and what a port shows for
//! how long.

use std::collections::BTreeSet;

use goodput_exposition::sample::Series;
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Advisory;

use super::network::{MINUTE, PORT, SECOND, SOUND, TIMEOUTS, Told, none, run_that_waits, series};

/// What is advised within the hour: advice, cause, node and port.
fn advised(series: &[Series]) -> Vec<String> {
    let judged = judge_series(series, 0..60 * MINUTE, &Thresholds::default()).unwrap();
    let name = |a: &Advisory| {
        let cause = a.cause.as_ref().map_or("", |cause| cause.kind.name());
        let which = a.cause.as_ref().and_then(|cause| cause.which.as_deref()).unwrap_or_default();
        format!("{} {cause} {} {which}", a.advice.name(), a.node).trim_end().to_owned()
    };
    judged.advisories.iter().map(name).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The run of [`SOUND`] ports that show this too.
fn run(told: &[Told]) -> Vec<Series> {
    run_that_waits(false, &[&SOUND[..], told].concat())
}

const EVENTS: &str = "goodput_rdma_transport_events_total";
const RNR: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "rnr_nak_retry_err")];
const REORDERED: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "out_of_sequence")];
const DOWNED: &[(&str, &str)] = &[("device", "mlx5_0"), ("port", "1"), ("kind", "link_downed")];
const PAUSED: &[(&str, &str)] = &[("device", "eth0"), ("direction", "receive"), ("priority", "3")];

/// A counter that grows by this much a second, between these minutes.
fn within(seconds: f64, minutes: [f64; 2], by: f64) -> f64 {
    (by * (seconds.clamp(minutes[0] * 60.0, minutes[1] * 60.0) - minutes[0] * 60.0)).floor()
}

#[test]
fn a_fault_without_a_loss_is_advised_once_it_lasts() {
    let cases: [(&str, &[Told], &[&str]); 9] = [
        ("nothing", &[], &[]),
        (
            "timeouts of half of the hour",
            &[(EVENTS, TIMEOUTS, |s| within(s, [20.0, 45.0], 0.2), none)],
            &["network_evidence errors b mlx5_0/1"],
        ),
        (
            "timeouts of all of it",
            &[(EVENTS, TIMEOUTS, |s| within(s, [0.0, 60.0], 0.2), none)],
            &["network_constant errors b mlx5_0/1"],
        ),
        (
            "the same on both nodes: no port is named",
            &[(EVENTS, TIMEOUTS, |s| within(s, [0.0, 60.0], 0.2), |s| within(s, [0.0, 60.0], 0.2))],
            &["network_constant errors a", "network_constant errors b"],
        ),
        ("timeouts of ten minutes", &[(EVENTS, TIMEOUTS, |s| within(s, [20.0, 30.0], 0.2), none)], &[]),
        ("a risk of the port says it", &[(EVENTS, TIMEOUTS, |s| within(s, [20.0, 45.0], 2.0), none)], &[]),
        ("packets out of sequence", &[(EVENTS, REORDERED, |s| within(s, [0.0, 60.0], 4000.0), none)], &[]),
        ("receivers that were not ready", &[(EVENTS, RNR, |s| within(s, [0.0, 60.0], 100.0), none)], &[]),
        ("a full counter", &[("goodput_rdma_port_errors_total", DOWNED, |_| 255.0, none)], &[]),
    ];
    for (name, told, expected) in cases {
        assert_eq!(advised(&run(told)), expected, "{name}");
    }
}

#[test]
fn a_link_that_was_always_down_or_comes_and_goes() {
    let down = |down: fn(f64) -> f64| {
        let mut told = SOUND;
        told[4] = ("node_infiniband_state_id", PORT, down, |_| 4.0);
        run_that_waits(false, &told)
    };
    assert_eq!(advised(&down(|_| 1.0)), ["network_constant link b mlx5_0/1"]);
    // A risk says so of the port.
    assert_eq!(advised(&down(|s| if (1200.0..2400.0).contains(&s) { 1.0 } else { 4.0 })), [] as [&str; 0]);
    let flap =
        [("goodput_rdma_port_errors_total", DOWNED, (|s| within(s, [30.0, 31.0], 0.05)) as fn(f64) -> f64, none as _)];
    assert_eq!(advised(&run(&flap)), [] as [&str; 0]);
}

#[test]
fn idle_rails_and_tcp_are_advised_though_nothing_waits() {
    let mut told = SOUND;
    told[1] = ("node_infiniband_port_data_transmitted_bytes_total", SECOND, none, |s| s * 1e10);
    told[0] = ("node_infiniband_port_data_transmitted_bytes_total", PORT, |s| s * 2e10, |s| s * 1e10);
    assert_eq!(
        advised(&run_that_waits(false, &told)),
        ["network_constant rail_unused a", "network_constant rail_unused b"]
    );
    let paused = [("goodput_network_pause_seconds_total", PAUSED, (|s: f64| s * 0.2) as fn(f64) -> f64, none as _)];
    assert_eq!(advised(&run(&paused)), ["network_constant congested b eth0"]);
}

#[test]
fn ports_without_a_rate_and_boards_without_bridges_are_sound() {
    // As EFA's.
    assert_eq!(advised(&run_that_waits(false, &SOUND[..2])), [] as [&str; 0]);
    let mut without = run(&[]);
    for node in ["a", "b"] {
        for gpu in ["0", "1"].map(|n| format!("GPU-{node}{n}")) {
            without.push(series("goodput_gpu_nvlink_links", node, &[("UUID", &gpu), ("state", "up")], |_| 0.0));
            without.push(series("goodput_gpu_nvlink_links", node, &[("UUID", &gpu), ("state", "down")], |_| 18.0));
        }
    }
    assert_eq!(advised(&without), [] as [&str; 0]);
}

#[test]
fn nvlinks_that_were_never_up_are_advised_of_their_gpu() {
    let mut down = run(&[]);
    for (n, gpu) in ["GPU-b0", "GPU-b1", "GPU-b2", "GPU-b3"].into_iter().enumerate() {
        let up = if n == 0 { 0.0 } else { 18.0 };
        down.push(series("goodput_gpu_nvlink_links", "b", &[("UUID", gpu), ("state", "up")], |_| up));
        down.push(series("goodput_gpu_nvlink_links", "b", &[("UUID", gpu), ("state", "down")], |_| 18.0 - up));
    }
    let judged = judge_series(&down, 0..60 * MINUTE, &Thresholds::default()).unwrap();
    let of: BTreeSet<&str> = judged.advisories.iter().map(|advisory| advisory.gpu.as_str()).collect();
    assert_eq!(of, BTreeSet::from(["GPU-b0"]));
    assert_eq!(advised(&down), ["network_constant nvlink_down b"]);
}

#[test]
fn what_is_charged_to_the_network_is_not_advised() {
    let told = [(EVENTS, TIMEOUTS, (|s| within(s, [20.0, 45.0], 0.2)) as fn(f64) -> f64, none as _)];
    let waits = run_that_waits(true, &[&SOUND[..], &told].concat());
    assert_eq!(advised(&waits), [] as [&str; 0]);
}

/// Two GPUs of one node, which wait all the time from the tenth minute on.
#[test]
fn a_long_exchange_is_advised_on_one_node_alone() {
    let one = |series: Vec<Series>| -> Vec<Series> {
        series.into_iter().filter(|s| s.labels.get("Hostname") != Some("b")).collect()
    };
    let waits = one(run_that_waits(true, &SOUND));
    assert_eq!(advised(&waits), ["exchange_too_large  a"]);
    assert_eq!(advised(&one(run_that_waits(false, &SOUND))), [] as [&str; 0]);
    assert_eq!(advised(&run_that_waits(true, &SOUND)), [] as [&str; 0], "on two nodes it is seen");
    // NVLinks without bytes: a rank is waited for.
    let mut silent = waits;
    for gpu in ["GPU-a0", "GPU-a1"] {
        let links = [("UUID", gpu), ("state", "up")];
        silent.push(series("goodput_gpu_nvlink_links", "a", &links, |_| 18.0));
        let bytes = [("UUID", gpu), ("direction", "rx")];
        silent.push(series("goodput_gpu_nvlink_bytes_total", "a", &bytes, |_| 0.0));
    }
    assert_eq!(advised(&silent), [] as [&str; 0]);
}
