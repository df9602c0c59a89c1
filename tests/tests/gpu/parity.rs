//! Every field of DCGM: what the driver is told to say, and what is served of it in both spellings.

use std::collections::BTreeSet;

use goodput_catalog::dcgm::{FIRST_MADE, ROWS, Row, VGPU_LICENSE};
use goodput_lab::gpu::{Calls, FakeNode};
use serde_json::{Value, json};

use crate::node;
use crate::probe::{Probe, Scrape};

/// The GPU that says it all.
const GPU: usize = 5;

/// One line of the table.
struct Case {
    names: Vec<&'static str>,
    told: &'static str,
    values: [f64; 2],
}

fn cases() -> Vec<Case> {
    let lines = include_str!("parity.csv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let case = |line: &'static str| {
        let [legacy, current, told, legacy_value, current_value] =
            line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let names = [legacy, current].into_iter().filter(|name| !name.is_empty()).collect();
        Case { names, told, values: [legacy_value, current_value].map(|value| value.parse().unwrap()) }
    };
    lines.map(case).collect()
}

/// Tells the fake driver.
fn tell(node: &FakeNode, told: &str) {
    let words: Vec<_> = told.split(' ').collect();
    let number = |word: &str| word.parse::<Value>().unwrap();
    match words[..] {
        ["set", reading, value] => {
            let set = json!({"gpu": GPU, "at_us": 0, "reading": reading, "value": number(value)});
            node.append(&json!({ "set": set })).unwrap();
        }
        ["field", id, value] => {
            node.append(&json!({"field": {"gpu": GPU, "id": number(id), "value": number(value)}})).unwrap();
        }
        ["links", id, first, fourth] => {
            for (scope, value) in [(0, first), (3, fourth)] {
                let field = json!({"gpu": GPU, "id": number(id), "scope": scope, "value": number(value)});
                node.append(&json!({ "field": field })).unwrap();
            }
        }
        ["gpm", id, value] => {
            node.append(&json!({"gpm": {"gpu": GPU, "id": number(id), "value": number(value)}})).unwrap();
        }
        // An XID is seen by the event sets that are there by then: it is told when the probe runs.
        _ => assert!(matches!(words[..], ["xid", _] | ["model" | "load"]), "{told}"),
    }
}

/// What of the case is not as expected.
fn wrong(case: &Case, scrape: &Scrape) -> Vec<String> {
    let tolerance = if case.told == "load" { 0.02 } else { 1e-12 };
    let wrong = |(name, expected): (&&str, f64)| {
        let got = scrape.of(name, GPU);
        let right = got.is_some_and(|got| (got - expected).abs() <= tolerance * expected.abs());
        (!right).then(|| format!("{name} is {got:?} and not {expected} ({})", case.told))
    };
    case.names.iter().zip(case.values).filter_map(wrong).collect()
}

#[test]
fn every_field_is_served_in_both_spellings() {
    let (_folder, node) = node();
    let cases = cases();
    let named: BTreeSet<_> = cases.iter().map(|case| case.names.clone()).collect();
    // The license is that of a vGPU: `a_vgpu_guest_tells_what_the_table_says`.
    let is_tabled = |row: &&&Row| !row.is_label() && row.id < FIRST_MADE && row.id != VGPU_LICENSE.id;
    for row in ROWS.iter().filter(is_tabled) {
        let names: BTreeSet<_> = [row.legacy.name, row.current.name].into();
        let of = |tested: &&Vec<_>| tested.iter().copied().collect::<BTreeSet<_>>() == names;
        assert_eq!(named.iter().filter(of).count(), 1, "{names:?}");
    }
    let load = json!({"gpu": 80, "memory": 30, "encoder": 25, "decoder": 10, "nvlink_tx": 1_800_000_000_u64});
    let _work = node.work_at(GPU, None, load).unwrap();
    cases.iter().for_each(|case| tell(&node, case.told));
    let mut probe = Probe::of_everything(&node);
    probe.until("events are awaited", |s| s.of("DCGM_FI_DEV_XID_ERRORS", GPU) == Some(0.0));
    node.xid(GPU, 31).unwrap();
    let all = |s: &Scrape| cases.iter().flat_map(|case| wrong(case, s)).collect::<Vec<_>>();
    let last = probe.until_or_last(|s| all(s).is_empty());
    assert_eq!(all(&last), Vec::<String>::new());
}

#[test]
fn texts_are_labels_of_every_series() {
    let (_folder, node) = node();
    let mut probe = Probe::of_everything(&node);
    let scrape = probe.until("GPU 0 is read", |s| s.cycles(0) > 0.0 && s.of("DCGM_FI_DEV_GPU_TEMP", 0).is_some());
    for (name, labels) in [
        (
            "DCGM_FI_DEV_GPU_TEMP",
            [
                "DCGM_FI_DRIVER_VERSION=\"580.105.08\"",
                "DCGM_FI_NVML_VERSION=\"13.580.105.08\"",
                "DCGM_FI_DEV_BRAND=\"Nvidia\"",
                "DCGM_FI_DEV_SERIAL=\"1650000000000\"",
                "DCGM_FI_DEV_OEM_INFOROM_VER=\"2.1\"",
                "DCGM_FI_DEV_ECC_INFOROM_VER=\"7.16\"",
                "DCGM_FI_DEV_INFOROM_IMAGE_VER=\"G520.0200.00.05\"",
                "DCGM_FI_DEV_VBIOS_VERSION=\"96.00.99.00.01\"",
            ],
        ),
        (
            "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
            [
                "DCGM_FI_SYSTEM_DRIVER_VERSION=\"580.105.08\"",
                "DCGM_FI_SYSTEM_NVML_VERSION=\"13.580.105.08\"",
                "DCGM_FI_DEV_GPU_BRAND=\"Nvidia\"",
                "DCGM_FI_DEV_BOARD_SERIAL=\"1650000000000\"",
                "DCGM_FI_DEV_INFOROM_OEM_VERSION=\"2.1\"",
                "DCGM_FI_DEV_INFOROM_ECC_VERSION=\"7.16\"",
                "DCGM_FI_DEV_INFOROM_IMAGE_VERSION=\"G520.0200.00.05\"",
                "DCGM_FI_DEV_VBIOS_VERSION=\"96.00.99.00.01\"",
            ],
        ),
    ] {
        let line = scrape.0.lines().find(|l| l.starts_with(&format!("{name}{{gpu=\"0\""))).unwrap();
        for label in labels {
            assert!(line.contains(label), "{label} is not in {line}");
        }
        assert!(!line.contains("POWER"), "an H100's inforom as recorded has no power object: {line}");
    }
}

#[test]
fn clock_events_and_peers_are_counted_and_named() {
    let (_folder, node) = node();
    let mut probe = Probe::of_everything(&node);
    let event = |name: &str, event: &str, s: &Scrape| s.get(name, &[("gpu", "2"), ("clock_event", event)]);
    let total = |s: &Scrape| event("DCGM_EXP_CLOCK_EVENTS_TOTAL", "hw_thermal", s);
    probe.until("the clocks are read", |s| total(s) == Some(0.0));
    node.append(&json!({"set": {"gpu": 2, "at_us": 0, "reading": "clocks_event_reasons", "value": 0x40}})).unwrap();
    let hot = probe.until("heat sets in, and lasts two samples", |s| {
        event("DCGM_EXP_CLOCK_EVENTS_COUNT", "hw_thermal", s) >= Some(2.0)
    });
    assert_eq!((total(&hot), event("DCGM_EXP_CLOCK_EVENTS_TOTAL", "power_cap", &hot)), (Some(1.0), Some(0.0)));
    assert!(hot.0.contains("clock_event=\"hw_thermal\",window_size_in_ms=\"300000\""), "{}", hot.0);
    node.xid(2, 43).unwrap();
    let xids = |s: &Scrape| s.get("DCGM_EXP_XID_ERRORS_COUNT", &[("gpu", "2"), ("xid", "43")]);
    let with_xid = probe.until("the window has the XID", |s| xids(s) == Some(1.0));
    let memory = [("gpu", "2"), ("health_watch", "MEM"), ("health_error_code", "DCGM_FR_XID_ERROR")];
    assert_eq!(with_xid.get("DCGM_EXP_GPU_HEALTH_STATUS", &memory), Some(10.0));
    // "{gpu" and not "gpu", which the label of the peer ends in.
    let peer = [("{gpu", "2"), ("peer_gpu", "7"), ("link_status", "OK")];
    assert_eq!(hot.get("DCGM_EXP_P2P_STATUS", &peer), Some(0.0));
    assert_eq!(hot.get("DCGM_EXP_P2P_STATUS", &[("{gpu", "2"), ("peer_gpu", "2")]), None);
}

#[test]
fn what_cannot_be_read_writes_nothing() {
    let (_folder, node) = node();
    for call in [
        "field:*",
        "nvmlDeviceGetPowerManagement*",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetBAR1MemoryInfo",
        "nvmlGpmSampleGet",
        "nvmlDeviceGetP2PStatus",
    ] {
        node.fault(&Calls::all().named(call).on(3), "NOT_SUPPORTED").unwrap();
    }
    let mut probe = Probe::of_everything(&node);
    let scrape = probe.until("GPU 3 is read twice", |s| s.cycles(3) >= 6.0);
    for case in cases() {
        let told = case.told.split(' ').next().unwrap();
        if matches!(told, "field" | "links" | "gpm") && !case.names[0].contains("POWER_USAGE") {
            assert_eq!(scrape.of(case.names[0], 3), None, "{}", case.names[0]);
        }
    }
    for name in ["DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_BAR1_FREE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_EXP_P2P_STATUS"] {
        assert_eq!(scrape.get(name, &[("{gpu", "3")]), None, "{name}");
    }
    let dcgm = |s: &Scrape| s.0.lines().filter(|l| l.starts_with("DCGM_") && l.contains("gpu=\"3\"")).count();
    assert!(scrape.of("DCGM_FI_DEV_GPU_TEMP", 3).is_some() && dcgm(&scrape) > 20, "{}", scrape.0);
}
