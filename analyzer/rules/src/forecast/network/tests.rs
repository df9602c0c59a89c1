use super::super::testing::{Told, hours};
use super::super::{Prospect, prospects};
use super::*;
use crate::classify::Thresholds;
use goodput_exposition::sample::Series;
use goodput_verdict::Level;

const MINUTE: i64 = 60_000;
const NOW: i64 = 180 * MINUTE;

/// Fault, level, what it is of, and the value of each sign.
type Found = (Fault, Level, String, Vec<(String, f64)>);

fn told(series: &[Series]) -> Vec<Prospect> {
    let all = prospects(series, NOW, &Thresholds::default());
    all.into_iter().filter(|p| p.damage().is_some()).collect()
}

fn found(series: &[Series]) -> Vec<Found> {
    let of = |prospect: Prospect| {
        let (Kind::Hardware(fault), Some(damage)) = (prospect.kind, prospect.damage()) else { panic!("{prospect:?}") };
        let signs = damage.evidence.iter().map(|e| (e.signal.clone(), e.value)).collect();
        (fault, damage.level, prospect.entity.clone(), signs)
    };
    told(series).into_iter().map(of).collect()
}

/// Faults and levels alone.
fn faults(series: &[Series]) -> Vec<(Fault, Level)> {
    found(series).into_iter().map(|(fault, level, ..)| (fault, level)).collect()
}

fn port(metric: &str, value: &dyn Fn(f64) -> f64) -> Series {
    of_node("n1").series(metric, value)
}

fn of_node(node: &str) -> Told {
    Told::new(node).and([("device", "mlx5_3"), ("port", "1")])
}

fn errors(kind: &'static str, value: &dyn Fn(f64) -> f64) -> Vec<(Fault, Level)> {
    faults(&[of_node("n1").and([("kind", kind)]).series("goodput_rdma_port_errors_total", value)])
}

fn events(kind: &'static str, value: &dyn Fn(f64) -> f64) -> Series {
    of_node("n1").and([("kind", kind)]).series("goodput_rdma_transport_events_total", value)
}

/// The first value, and the second from this minute on.
fn from_then(before: f64, minute: f64, then: f64) -> impl Fn(f64) -> f64 {
    move |at| if at < minute { before } else { then }
}

#[test]
fn a_port_that_was_up_is_down_and_one_that_never_was_is_not() {
    for (metric, up, down) in [("goodput_rdma_port_active", 1.0, 0.0), ("node_infiniband_state_id", 4.0, 2.0)] {
        let is = |value: &dyn Fn(f64) -> f64| found(&[port(metric, value)]);
        let all = is(&from_then(up, 170.0, down));
        let (fault, level, name, signs) = &all[0];
        assert_eq!((*fault, *level, name.as_str()), (Fault::RdmaPortDown, Level::Act, "mlx5_3/1"), "{metric}");
        assert_eq!(*signs, [("port_active".to_owned(), 0.0)]);
        assert_eq!(is(&|_| up), [], "{metric}");
        assert_eq!(is(&|_| down), [], "{metric} never was up");
        let just_now = is(&from_then(up, 179.0, down));
        assert!(
            just_now.iter().all(|(fault, ..)| *fault == Fault::RdmaLinkUnstable),
            "a minute is no fault: {just_now:?}"
        );
    }
}

/// Three nodes of one model, with this state and rate of the port of the first.
fn pool(model: &str, metric: &str, own: f64, usual: f64) -> Vec<Series> {
    let of = |node: &str, value: f64| {
        let gpu = Told::new(node).and([("UUID", node), ("gpu", "0"), ("modelName", model)]);
        [of_node(node).series(metric, &|_| value), gpu.series("DCGM_FI_DEV_FB_USED", &|_| 1000.0)]
    };
    [of("n1", own), of("n2", usual), of("n3", usual)].concat()
}

#[test]
fn the_same_port_of_the_pools_other_nodes_tells_what_is_usual() {
    for (metric, own, usual, fault) in [
        ("goodput_rdma_port_active", 0.0, 1.0, Fault::RdmaPortDown),
        ("goodput_rdma_port_speed_bytes", 25e9, 50e9, Fault::RdmaPortSlow),
    ] {
        let all = told(&pool("H100", metric, own, usual));
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((one.node.as_str(), one.kind), ("n1", Kind::Hardware(fault)));
        assert_eq!(faults(&pool("H100", metric, own, own)), [], "all alike");
        let mut two_models = pool("H100", metric, own, usual);
        let is_first = |s: &Series| s.labels.get("node") == Some("n1");
        two_models.retain(|s| !is_first(s));
        two_models.extend(pool("A100", metric, own, usual).into_iter().filter(is_first));
        assert_eq!(faults(&two_models), [], "the node's GPUs are of another model: {metric}");
        let two: Vec<Series> =
            pool("H100", metric, own, usual).into_iter().filter(|s| s.labels.get("node") != Some("n3")).collect();
        assert_eq!(faults(&two), [], "of two nodes either may be the odd one");
    }
}

#[test]
fn a_port_below_the_rate_that_it_had_is_slow() {
    let speed = |value: &dyn Fn(f64) -> f64| found(&[port("goodput_rdma_port_speed_bytes", value)]);
    let slow = (Fault::RdmaPortSlow, Level::Act, "mlx5_3/1".to_owned(), vec![("port_speed".to_owned(), 25e9)]);
    assert_eq!(speed(&from_then(50e9, 150.0, 25e9)), [slow]);
    assert_eq!(speed(&from_then(25e9, 150.0, 50e9)), [], "it got faster");
    assert_eq!(speed(&|_| 25e9), [], "a port for storage may be slower than the others of its node");
    let down = [
        port("goodput_rdma_port_active", &from_then(1.0, 150.0, 0.0)),
        port("goodput_rdma_port_speed_bytes", &from_then(50e9, 150.0, 1.25e9)),
    ];
    assert!(faults(&down).iter().all(|(fault, _)| *fault != Fault::RdmaPortSlow), "one that is down has no rate");
}

#[test]
fn an_efa_port_has_neither_state_nor_rate() {
    let efa = Told::new("n1").and([("device", "rdmap79s0"), ("port", "1")]);
    let timeouts = efa.and([("kind", "retrans_timeout_events")]);
    let of = |per_minute: f64| {
        faults(&[timeouts.series("goodput_rdma_transport_events_total", &|minute| per_minute * minute)])
    };
    assert_eq!(of(59.0), []);
    assert_eq!(of(60.0), [(Fault::RdmaTransport, Level::Watch)]);
}

#[test]
fn a_link_that_comes_and_goes_is_watched_and_then_acted_on() {
    let every =
        |minutes: f64, from: f64| move |at: f64| if at < from { 0.0 } else { ((at - from) / minutes).floor() + 1.0 };
    assert_eq!(errors("link_downed", &|_| 7.0), [], "long ago");
    assert_eq!(errors("link_downed", &every(60.0, 100.0)), [(Fault::RdmaLinkUnstable, Level::Watch)]);
    assert_eq!(errors("link_downed", &every(2.0, 100.0)), [(Fault::RdmaLinkUnstable, Level::Act)]);
    assert_eq!(errors("link_error_recovery", &every(60.0, 100.0)), [], "one recovery");
    assert_eq!(
        errors("link_error_recovery", &|minute| (5.0 * (minute - 150.0)).max(0.0)),
        [(Fault::RdmaLinkUnstable, Level::Watch)]
    );
    let flaps =
        port("goodput_rdma_port_active", &|minute| if minute > 170.0 && minute % 2.0 == 1.0 { 0.0 } else { 1.0 });
    assert_eq!(faults(&[flaps]), [(Fault::RdmaLinkUnstable, Level::Act)]);
    let theirs = port("node_infiniband_link_downed_total", &every(60.0, 100.0));
    assert_eq!(faults(&[theirs]), [(Fault::RdmaLinkUnstable, Level::Watch)]);
}

#[test]
fn an_interface_counts_on_nodes_with_ports_and_a_start_of_the_node_does_not() {
    let up = port("goodput_rdma_port_active", &|_| 1.0);
    let interface = |value: &dyn Fn(f64) -> f64| {
        Told::new("n1").and([("device", "ens0np0")]).series("goodput_network_carrier_changes_total", value)
    };
    let changes = from_then(2.0, 100.0, 4.0);
    let all = found(&[up.clone(), interface(&changes)]);
    assert_eq!(all[0].2, "ens0np0");
    assert_eq!(all[0].3, [("growth of interface_carrier_changes".to_owned(), 2.0)]);
    assert_eq!(faults(&[interface(&changes)]), [], "no RDMA");
    assert_eq!(faults(&[up, interface(&from_then(9.0, 100.0, 2.0))]), [], "it began again");
}

#[test]
fn link_errors_are_rates_and_of_rare_kinds_any() {
    let errs = [(Fault::RdmaLinkErrors, Level::Watch)];
    let rate = |per_second: f64| move |minute: f64| (60.0 * per_second * (minute - 160.0)).max(0.0);
    for (kind, theirs, most) in [
        ("symbol_error", "symbol_error", 10.0),
        ("port_rcv_errors", "port_errors_received", 10.0),
        ("port_xmit_discards", "port_discards_transmitted", 100.0),
    ] {
        // The counter stops at 65535: it has to begin late to show the rate.
        let rate = |per_second: f64| {
            let from = if most > 50.0 { 174.0 } else { 160.0 };
            move |minute: f64| (60.0 * per_second * (minute - from)).max(0.0)
        };
        let seconds = if most > 50.0 { 360.0 } else { 600.0 };
        let least = most * 600.0 / seconds;
        assert_eq!(errors(kind, &rate(0.98 * least)), [], "{kind}: links with PAM4 have some at all times");
        assert_eq!(errors(kind, &rate(least)), errs, "{kind}");
        let theirs = port(&format!("node_infiniband_{theirs}_total"), &rate(least));
        assert_eq!(faults(&[theirs]), errs, "{kind}");
    }
    for kind in ["local_link_integrity_errors", "excessive_buffer_overrun_errors"] {
        assert_eq!(errors(kind, &|_| 3.0), [], "{kind}: long ago");
        assert_eq!(errors(kind, &from_then(3.0, 100.0, 4.0)), errs, "{kind}");
    }
    assert_eq!(errors("port_rcv_remote_physical_errors", &rate(1000.0)), [], "those of the other end");
}

#[test]
fn a_counter_at_its_maximum_is_neither_quiet_nor_rising() {
    for (kind, full) in [
        ("symbol_error", 65535.0),
        ("local_link_integrity_errors", 15.0),
        ("excessive_buffer_overrun_errors", 15.0),
        ("link_downed", 255.0),
    ] {
        assert_eq!(errors(kind, &|_| full), [], "{kind}");
        assert_eq!(
            errors(kind, &from_then(0.0, 170.0, full)),
            [],
            "{kind}: what it counted before it stopped is not known"
        );
    }
    let other = Told::new("n1").and([("device", "mlx5_3"), ("port", "1"), ("kind", "symbol_error")]);
    let full = other.series("goodput_rdma_port_errors_total", &|_| 65535.0);
    let downed = of_node("n1").and([("kind", "link_downed")]);
    let downed = downed.series("goodput_rdma_port_errors_total", &from_then(1.0, 175.0, 6.0));
    assert_eq!(faults(&[full, downed]), [(Fault::RdmaLinkUnstable, Level::Act)], "one counter says nothing of another");
}

#[test]
fn timeouts_are_watched_and_connections_that_ended_are_acted_on() {
    let transport = |level| [(Fault::RdmaTransport, level)];
    let timeouts = |per_minute: f64| events("local_ack_timeout_err", &move |minute| per_minute * minute);
    assert_eq!(faults(&[timeouts(59.0)]), []);
    assert_eq!(faults(&[timeouts(60.0)]), transport(Level::Watch));
    assert_eq!(faults(&[events("out_of_sequence", &|minute| 1e6 * minute)]), [], "reordering is no loss");
    assert_eq!(faults(&[events("rnr_nak_retry_err", &|minute| 1e4 * minute)]), [], "the receiver was late");
    for kind in
        ["req_transport_retries_exceeded", "max_retry_exceeded", "unresponsive_remote_events", "req_tx_retry_excd_err"]
    {
        let with = |value: &dyn Fn(f64) -> f64| faults(&[events(kind, value), timeouts(0.0)]);
        assert_eq!(with(&from_then(0.0, 150.0, 1.0)), transport(Level::Act), "{kind}");
        assert_eq!(with(&|_| 1.0), [], "{kind}: long ago");
        assert_eq!(with(&from_then(0.0, 30.0, 1.0)), [], "{kind}: longer ago than the window");
    }
}

/// A counter of a port may be older than its first reading by years: the port is new to the exporter, or the exporter to the
/// port, or it reads more than it did.
#[test]
fn what_a_port_counted_before_its_first_reading_is_no_growth() {
    let counters = [
        ("goodput_rdma_transport_events_total", "req_transport_retries_exceeded", Fault::RdmaTransport),
        ("goodput_rdma_transport_events_total", "local_ack_timeout_err", Fault::RdmaTransport),
        ("goodput_rdma_port_errors_total", "local_link_integrity_errors", Fault::RdmaLinkErrors),
        ("goodput_rdma_port_errors_total", "symbol_error", Fault::RdmaLinkErrors),
        ("goodput_rdma_port_errors_total", "link_downed", Fault::RdmaLinkUnstable),
        ("goodput_rdma_port_errors_total", "link_error_recovery", Fault::RdmaLinkUnstable),
    ];
    for (metric, kind, fault) in counters {
        // Most of them count rates, and stop at 15, 255 or 65535.
        let (few, more) = match kind {
            "local_link_integrity_errors" | "link_downed" => (3.0, 4.0),
            "link_error_recovery" => (20.0, 200.0),
            _ => (9000.0, 60_000.0),
        };
        let counter = |value: &dyn Fn(f64) -> f64| of_node("n1").and([("kind", kind)]).series(metric, value);
        let since = |minute: i64, value: &dyn Fn(f64) -> f64| hours(vec![counter(value)], minute * MINUTE..i64::MAX);
        let with = |series: Vec<Series>| faults(&[vec![port("goodput_rdma_port_active", &|_| 1.0)], series].concat());
        assert_eq!(with(since(176, &|_| few)), [], "{kind}: its series is new");
        assert_eq!(faults(&since(176, &|_| few)), [], "{kind}: the port is new");
        let silent = |s: &Sample| !(100 * MINUTE..176 * MINUTE).contains(&s.time_ms);
        let mut restarted = counter(&|_| few);
        restarted.samples.retain(silent);
        assert_eq!(with(vec![restarted]), [], "{kind}: its exporter was away");
        let all = with(since(174, &from_then(few, 178.0, more)));
        assert!(matches!(all.as_slice(), [(found, _)] if *found == fault), "{kind}: two readings: {all:?}");
    }
}

#[test]
fn errors_of_a_switch_are_pressing_when_they_are_fatal_or_come_again() {
    let sxid = |code: &'static str, severity: &'static str, value: &dyn Fn(f64) -> f64| {
        let switch = Told::new("n1").and([("pci_bus_id", "0000:c1:00.0"), ("sxid", code), ("severity", severity)]);
        hours(vec![switch.series("goodput_nvswitch_sxid_errors_total", value)], 150 * MINUTE..i64::MAX)
    };
    // The exporter counts from its start, so a series that is new to it begins with an error.
    let with = |errors: Vec<Series>| found(&[vec![port("goodput_rdma_port_active", &|_| 1.0)], errors].concat());
    let one = with(sxid("12028", "nonfatal", &|_| 1.0));
    let signs = vec![("switch_errors 12028".to_owned(), 1.0)];
    assert_eq!(one, [(Fault::NvswitchSxid, Level::Watch, "0000:c1:00.0".to_owned(), signs)]);
    assert_eq!(with(sxid("12028", "nonfatal", &|_| 2.0))[0].1, Level::Act);
    assert_eq!(with(sxid("20034", "fatal", &|_| 1.0))[0].1, Level::Act);
    assert_eq!(
        with([sxid("12028", "nonfatal", &|_| 1.0), sxid("24007", "nonfatal", &|_| 1.0)].concat())[0].1,
        Level::Watch
    );
    let old = Told::new("n1").and([("pci_bus_id", "0000:c1:00.0"), ("sxid", "20034"), ("severity", "fatal")]);
    assert_eq!(with(vec![old.series("goodput_nvswitch_sxid_errors_total", &|_| 1.0)]), [], "before it was heard of");
}

/// GPUs of one node by their links that are up now, of as many in all; all are up before minute 170 where `was_up`.
fn gpus(up: &[f64], all: f64, was_up: bool) -> Vec<Series> {
    let of = |(index, up): (usize, &f64)| {
        let (uuid, index) = (format!("GPU-{index}"), index.to_string());
        let told = Told::new("n1").and([("UUID", uuid.as_str()), ("gpu", index.as_str())]);
        let value = move |minute: f64| if was_up && minute < 170.0 { all } else { *up };
        [("up", 0), ("down", 1)].map(|(state, is_down)| {
            let value = |minute| if is_down == 1 { all - value(minute) } else { value(minute) };
            told.and([("state", state)]).series("goodput_gpu_nvlink_links", &value)
        })
    };
    up.iter().enumerate().flat_map(of).collect()
}

#[test]
fn nvlinks_that_peers_or_the_gpu_itself_had_are_down() {
    let down = |gpu: &str, up| (Fault::NvlinkDown, Level::Act, gpu.to_owned(), vec![("nvlink_up".to_owned(), up)]);
    assert_eq!(found(&gpus(&[18.0, 18.0, 17.0, 18.0], 18.0, false)), [down("GPU-2", 17.0)]);
    assert_eq!(found(&gpus(&[0.0, 4.0], 4.0, true)), [down("GPU-0", 0.0)]);
    assert_eq!(found(&gpus(&[18.0; 4], 18.0, false)), []);
    assert_eq!(found(&gpus(&[0.0; 4], 12.0, false)), [], "boards without bridges");
    assert_eq!(found(&gpus(&[0.0, 12.0, 12.0, 12.0], 12.0, false)), [], "one board has no bridge");
}

#[test]
fn links_are_down_for_a_while_when_a_gpu_is_reset_or_cut_into_instances() {
    let reset = |from: f64| {
        let told = Told::new("n1").and([("UUID", "GPU-0"), ("gpu", "0"), ("state", "up")]);
        vec![told.series("goodput_gpu_nvlink_links", &from_then(18.0, from, 0.0))]
    };
    assert_eq!(faults(&reset(179.0)), []);
    assert_eq!(faults(&reset(178.0)), [(Fault::NvlinkDown, Level::Act)]);
    let cut =
        Told::new("n1").and([("UUID", "GPU-0"), ("gpu", "0")]).series("goodput_gpu_mig_capacity_slices", &|_| 7.0);
    assert_eq!(faults(&[reset(170.0), vec![cut]].concat()), []);
}

#[test]
fn a_gpu_that_the_fabric_refuses_has_no_nvlinks() {
    let fabric = |value: &dyn Fn(f64) -> f64| {
        let told = Told::new("n1").and([("UUID", "GPU-0"), ("gpu", "0"), ("state", "failed")]);
        faults(&[told.series("goodput_gpu_fabric_state", value)])
    };
    assert_eq!(fabric(&|_| 0.0), []);
    assert_eq!(fabric(&from_then(0.0, 179.0, 1.0)), []);
    assert_eq!(fabric(&from_then(0.0, 150.0, 1.0)), [(Fault::NvlinkDown, Level::Act)]);
}

/// An 8-GPU H100 node with InfiniBand, a node with AMD Pollara, and an 8-GPU A100 node, as they were recorded at work. One port of the
/// first has a full counter.
#[test]
fn machines_that_were_recorded_at_work_are_sound() {
    let port = |device: &'static str| Told::new("n1").and([("device", device), ("port", "1")]);
    let mut all = gpus(&[12.0; 8], 12.0, false);
    for (device, kind, value) in [
        ("mlx5_1", "link_downed", 255.0),
        ("mlx5_1", "port_rcv_errors", 14.0),
        ("mlx5_1", "symbol_error", 0.0),
        ("rocep68s0", "link_downed", 0.0),
    ] {
        all.push(port(device).and([("kind", kind)]).series("goodput_rdma_port_errors_total", &|_| value));
    }
    for (device, speed) in [("mlx5_1", 50e9), ("rocep68s0", 50e9)] {
        all.push(port(device).series("goodput_rdma_port_active", &|_| 1.0));
        all.push(port(device).series("goodput_rdma_port_speed_bytes", &|_| speed));
    }
    for kind in ["req_rx_pkt_seq_err", "req_rx_impl_nak_seq_err", "req_tx_retry_excd_err"] {
        all.push(port("rocep68s0").and([("kind", kind)]).series("goodput_rdma_transport_events_total", &|_| 0.0));
    }
    assert_eq!(found(&all), []);
}
