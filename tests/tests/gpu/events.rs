//! XIDs by both channels, and health.

use goodput_lab::gpu::{Calls, FakeNode, KernelLog, NodeSpec};
use serde_json::json;

use crate::node;
use crate::probe::{Probe, Scrape};

const ERRORS: &str = "goodput_gpu_xid_errors_total";

fn errors(scrape: &Scrape, gpu: usize, xid: &str) -> Option<f64> {
    scrape.get(ERRORS, &[("gpu", &gpu.to_string()), ("xid", xid)])
}

fn channel(scrape: &Scrape, channel: &str, state: &str) -> bool {
    scrape.get("goodput_gpu_xid_channel_state", &[("channel", channel), ("state", state)]) == Some(1.0)
}

fn watched(scrape: &Scrape, gpu: usize) -> Option<f64> {
    scrape.of("goodput_gpu_xid_watched", gpu)
}

fn until_all_watched(probe: &mut Probe) -> Scrape {
    probe.until("all are watched", |s| channel(s, "nvml", "ok") && (0..8).all(|gpu| watched(s, gpu) == Some(1.0)))
}

#[test]
fn a_burst_over_several_gpus_is_counted_to_the_last_and_outlives_a_lost_gpu() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    until_all_watched(&mut probe);
    for round in 0..50 {
        for gpu in 0..8 {
            node.xid(gpu, if round % 5 == 0 { 31 } else { 94 }).unwrap();
        }
    }
    node.append(&json!({"xid": {"gpu": 5, "code": 13, "instance": 7}})).unwrap();
    node.xid(3, 79).unwrap();
    node.lose(3).unwrap();
    let lost = probe.until("GPU 3 is lost, and its XID known", |s| s.is(3, "lost") && errors(s, 3, "79") == Some(1.0));
    for gpu in 0..8 {
        assert_eq!((errors(&lost, gpu, "31"), errors(&lost, gpu, "94")), (Some(10.0), Some(40.0)), "GPU {gpu}");
    }
    let labels = [("gpu", "3"), ("xid", "79"), ("class", "bus"), ("action", "restart_node")];
    assert_eq!(lost.get(ERRORS, &labels), Some(1.0));
    assert_eq!(lost.get(ERRORS, &[("gpu", "5"), ("xid", "13"), ("GPU_I_ID", "7")]), Some(1.0));
    assert_eq!(lost.get("DCGM_EXP_XID_ERRORS_TOTAL", &[("gpu", "3"), ("xid", "94")]), Some(40.0));
    let last = lost.get("goodput_gpu_xid_last_timestamp_seconds", &[("gpu", "3"), ("xid", "79")]).unwrap();
    assert!(last > 1.7e9, "{last}");
    node.find(3).unwrap();
    probe.until("GPU 3 is watched again", |s| s.is(3, "ok") && watched(s, 3) == Some(1.0));
    node.xid(3, 79).unwrap();
    node.xid(4, 79).unwrap();
    let found = probe.until("both are heard", |s| errors(s, 3, "79") == Some(2.0) && errors(s, 4, "79") == Some(1.0));
    assert_eq!(errors(&found, 0, "94"), Some(40.0));
    assert_eq!(probe.threads("nvml-events"), 1);
}

#[test]
fn a_registration_that_is_refused_costs_nobody_else() {
    let (_folder, node) = node();
    let register = Calls::all().named("nvmlDeviceRegisterEvents").on(2);
    node.fault(&register, "UNKNOWN").unwrap();
    let mut probe = Probe::start(&node);
    let others = |s: &Scrape| (0..8).filter(|gpu| *gpu != 2).all(|gpu| watched(s, gpu) == Some(1.0));
    let refused = probe.until("the others are watched", |s| others(s) && watched(s, 2) == Some(0.0));
    assert!(channel(&refused, "nvml", "ok") && refused.of("DCGM_FI_DEV_XID_ERRORS", 2).is_none(), "{}", refused.0);
    node.xid(7, 48).unwrap();
    probe.until("another GPU is heard", |s| errors(s, 7, "48") == Some(1.0));
    node.clear(&register).unwrap();
    probe.until("it is watched in the end", |s| watched(s, 2) == Some(1.0));
    node.xid(2, 48).unwrap();
    probe.until("and heard", |s| errors(s, 2, "48") == Some(1.0));
}

#[test]
fn a_gpu_that_is_watched_anew_costs_no_other_an_event() {
    let (_folder, node) = node();
    let register = Calls::all().named("nvmlDeviceRegisterEvents").on(3);
    let mut probe = Probe::start(&node);
    until_all_watched(&mut probe);
    node.lose(3).unwrap();
    probe.until("GPU 3 is lost", |s| s.is(3, "lost"));
    node.hang(&register, None).unwrap();
    node.find(3).unwrap();
    let found = probe.until("its registration hangs", |s| s.is(3, "ok") && channel(s, "nvml", "stale"));
    assert_eq!(watched(&found, 3), None, "it is not watched yet");
    // GPU 0 is watched by both sets now, GPU 4 by the old one alone.
    node.xid(0, 48).unwrap();
    node.xid(4, 48).unwrap();
    node.clear(&register).unwrap();
    probe.until("GPU 3 is watched again", |s| watched(s, 3) == Some(1.0));
    node.xid(0, 13).unwrap();
    let heard = probe.until("the new set is heard", |s| errors(s, 0, "13") == Some(1.0));
    assert_eq!((errors(&heard, 0, "48"), errors(&heard, 4, "48")), (Some(1.0), Some(1.0)));
}

#[test]
fn a_wait_that_hangs_is_seen_holds_one_thread_and_heals() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    let before = until_all_watched(&mut probe);
    let wait = Calls::all().named("nvmlEventSetWait_v2");
    node.hang(&wait, None).unwrap();
    let during =
        probe.until("the hang is seen", |s| channel(s, "nvml", "stale") && s.cycles(0) > before.cycles(0) + 3.0);
    assert!((0..8).all(|gpu| during.is(gpu, "ok")), "readers do not wait for it:\n{}", during.0);
    assert_eq!(probe.threads("nvml-events"), 1);
    node.unload().unwrap();
    probe.until("the driver is gone", |s| s.plain("goodput_gpu_driver_up") == Some(0.0));
    node.load(None).unwrap();
    probe.until("GPUs are read while the old wait hangs", |s| (0..8).all(|gpu| s.is(gpu, "ok")));
    assert_eq!(probe.threads("nvml-events"), 1, "a second would hang beside it");
    node.clear(&wait).unwrap();
    until_all_watched(&mut probe);
    node.xid(1, 48).unwrap();
    probe.until("XIDs are heard", |s| errors(s, 1, "48") == Some(1.0));
    assert_eq!(probe.threads("nvml-events"), 1);
}

#[test]
fn an_error_that_both_channels_tell_of_counts_once_and_each_channel_keeps_its_own_count() {
    let (folder, node) = node();
    let log = KernelLog::new(folder.path()).unwrap();
    log.say("NVRM: Xid (PCI:0000:19:00): 62, before the start").unwrap();
    let mut probe = Probe::with_kernel_log(&node, &log);
    until_all_watched(&mut probe);
    probe.until("the log is followed", |s| channel(s, "kmsg", "ok"));
    // GPU 0 of the fake sits at 0000:19:00.0, GPU 1 at 0000:3b:00.0.
    node.xid(0, 48).unwrap();
    log.say("NVRM: Xid (PCI:0000:19:00): 48, pid=1, name=a, DBE").unwrap();
    log.say(r"NVRM: The NVIDIA GPU 0000:3b:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.").unwrap();
    log.say("NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x004505c6)").unwrap();
    log.say("NVRM: Xid (PCI:0042:01:00): 31, a GPU that NVML does not list").unwrap();
    log.say("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS").unwrap();
    let of_channel = |s: &Scrape, bus: &str, channel: &str, xid: &str| {
        let labels = [("pci_bus_id", bus), ("channel", channel), ("xid", xid)];
        s.get("goodput_gpu_xid_channel_events_total", &labels)
    };
    let all = probe.until("the last line is read, and the event", |s| {
        s.0.contains("goodput_nvswitch_sxid_errors_total{")
            && of_channel(s, "00000000:19:00.0", "nvml", "48") == Some(1.0)
    });
    assert_eq!(of_channel(&all, "00000000:19:00.0", "kmsg", "48"), Some(1.0));
    assert_eq!(errors(&all, 0, "48"), Some(1.0), "{}", all.0);
    assert_eq!(errors(&all, 1, "79"), Some(1.0), "NVML is silent about it");
    assert_eq!(all.get("DCGM_EXP_XID_ERRORS_TOTAL", &[("gpu", "1"), ("xid", "79")]), Some(1.0));
    let link = [("gpu", "1"), ("xid", "149"), ("unit", "NETIR_LINK_EVT"), ("severity", "fatal")];
    assert_eq!(all.get("goodput_gpu_nvlink_xid_errors_total", &link), Some(1.0));
    assert_eq!(of_channel(&all, "00000042:01:00.0", "kmsg", "31"), Some(1.0));
    let switch = [("pci_bus_id", "00000000:C1:00.0"), ("sxid", "28006"), ("severity", "nonfatal")];
    assert_eq!(all.get("goodput_nvswitch_sxid_errors_total", &switch), Some(1.0));
    assert_eq!(errors(&all, 0, "62"), None, "history is no count");
    assert!(all.get("goodput_gpu_xid_last_timestamp_seconds", &[("gpu", "0"), ("xid", "62")]).is_some());
}

#[test]
fn codes_nobody_knows_are_called_so_and_series_are_bounded() {
    let (_folder, node) = node();
    let mut probe = Probe::start(&node);
    until_all_watched(&mut probe);
    for code in 1000..1100 {
        node.xid(6, code).unwrap();
    }
    node.xid(0, 48).unwrap();
    let all = probe.until("all are heard", |s| errors(s, 0, "48") == Some(1.0));
    let labels = [("gpu", "6"), ("xid", "1000"), ("class", "unknown"), ("action", "unknown")];
    assert_eq!(all.get(ERRORS, &labels), Some(1.0));
    assert_eq!(errors(&all, 6, "other"), Some(36.0), "what is not told apart is not lost");
    let series = |name: &str| all.0.lines().filter(|l| l.starts_with(name) && l.contains("gpu=\"6\"")).count();
    assert_eq!((series(&format!("{ERRORS}{{")), series("DCGM_EXP_XID_ERRORS_TOTAL{")), (65, 64));
    assert_eq!(series("goodput_gpu_xid_last_timestamp_seconds{"), 64);
}

#[test]
fn health_is_what_the_driver_says() {
    let (_folder, node) = node();
    let _work = node.work(3, None).unwrap();
    let _peer = node.work(4, None).unwrap();
    for (reading, value) in [
        ("remap_banks_partial", 3.0),
        ("remap_banks_none", 1.0),
        // Bandwidth degraded; routes healthy; configuration right.
        ("fabric_health_mask", f64::from(1 | 2 << 4 | 1 << 8)),
        ("nvlink_active_mask", f64::from((1 << 18) - 1 - 4)),
        ("nvlink_replay_errors", 7.0),
        ("recovery_action", 4.0),
        ("pcie_width", 8.0),
    ] {
        node.append(&json!({"set": {"gpu": 3, "at_us": 0, "reading": reading, "value": value}})).unwrap();
    }
    let mut probe = Probe::start(&node);
    let busy = |s: &Scrape| s.0.contains("goodput_gpu_pcie_link_degraded{gpu=\"3\"");
    let scrape = probe.until("GPUs 3 and 4 were seen busy", |s| busy(s) && s.cycles(4) > 10.0);
    for (name, label, value, expected) in [
        ("goodput_gpu_row_remap_banks", "spare", "partial", 3.0),
        ("goodput_gpu_row_remap_banks", "spare", "none", 1.0),
        ("goodput_gpu_fabric_problem", "problem", "degraded_bandwidth", 1.0),
        ("goodput_gpu_fabric_problem", "problem", "route_unhealthy", 0.0),
        ("goodput_gpu_fabric_problem", "problem", "incorrect_configuration", 0.0),
        ("goodput_gpu_fabric_state", "state", "completed", 1.0),
        ("goodput_gpu_nvlink_links", "state", "up", 17.0),
        ("goodput_gpu_nvlink_links", "state", "down", 1.0),
        ("goodput_gpu_nvlink_errors_total", "kind", "replay", 7.0),
        ("goodput_gpu_reset_required", "kind", "reset", 1.0),
        ("goodput_gpu_reset_required", "kind", "drain_and_reset", 1.0),
    ] {
        assert_eq!(scrape.get(name, &[("gpu", "3"), (label, value)]), Some(expected), "{name} {value}\n{}", scrape.0);
    }
    let degraded = |gpu, aspect, against| {
        scrape.get("goodput_gpu_pcie_link_degraded", &[("gpu", gpu), ("aspect", aspect), ("against", against)])
    };
    assert_eq!((degraded("3", "width", "max"), degraded("3", "width", "peers")), (Some(1.0), Some(1.0)));
    assert_eq!((degraded("3", "generation", "max"), degraded("4", "width", "max")), (Some(0.0), Some(0.0)));
    assert_eq!(degraded("0", "generation", "max"), None, "an idle GPU lowers its link on purpose");
    // An H100 remaps rows and retires no pages.
    assert_eq!(scrape.of("goodput_gpu_retired_pages_pending", 3), None);
}

#[test]
fn time_at_lowered_clocks_is_counted_in_seconds_whatever_the_driver_calls_it() {
    for driver in ["570.86.15", "590.48.01"] {
        let folder = tempfile::tempdir().unwrap();
        let spec = NodeSpec::h100(1).with("driver", driver).with("loaded_us", 1);
        let node = FakeNode::new(folder.path(), &spec).unwrap();
        // Hardware thermal slowdown from the 10th to the 12th second.
        for (at_us, value) in [(10_000_000, 64), (12_000_000, 0)] {
            let set = json!({"gpu": 0, "at_us": at_us, "reading": "clocks_event_reasons", "value": value});
            node.append(&json!({"set": set})).unwrap();
        }
        let mut probe = Probe::start(&node);
        let scrape = probe.until("the GPU is read", |s| s.cycles(0) > 0.0);
        let seconds = |reason| scrape.get("goodput_gpu_clock_event_seconds_total", &[("reason", reason)]);
        assert_eq!((seconds("hw_thermal"), seconds("sw_thermal")), (Some(2.0), Some(0.0)), "{driver}");
        let thermal = scrape.get("goodput_gpu_clock_violation_seconds_total", &[("policy", "thermal")]);
        assert_eq!(thermal, Some(2.0), "{driver}");
    }
}
