//! Drivers of every branch: what each of them gives, and what is lost on it.

use goodput_lab::gpu::{Calls, FakeNode, FakeNvml, NodeSpec};
use serde_json::json;
use tempfile::TempDir;

use super::probe::{Probe, Scrape};

/// Two H100 under this driver, with every reading that a header of some branch brought. Time goes on with the scrapes.
fn start(version: &str) -> (TempDir, FakeNode, Probe) {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(2).with("driver", version)).unwrap();
    node.process(0, 4711, 1 << 30).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "used_bytes", "value": 42_949_672_960_u64}})).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "temperature_margin_c", "value": 31}})).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "fabric_clique", "value": 7}})).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "recovery_action", "value": 1}})).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "clocks_event_reasons", "value": 4}})).unwrap();
    let library = FakeNvml::build().unwrap().of_driver(folder.path(), version).unwrap();
    let probe = Probe::ticking_with(&node, &library);
    (folder, node, probe)
}

/// Families by the first branch whose driver gives them.
const SINCE: [(&str, u32); 11] = [
    ("DCGM_FI_DEV_FB_USED", 470),
    ("DCGM_FI_DEV_GPU_TEMP", 470),
    ("DCGM_FI_DEV_POWER_USAGE", 470),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 470),
    ("DCGM_FI_DEV_XID_ERRORS", 470),
    ("DCGM_FI_DEV_FB_RESERVED", 510),
    ("DCGM_FI_PROF_SM_ACTIVE", 525),
    ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", 525),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 470),
    ("DCGM_FI_DEV_GPU_TEMP_LIMIT", 570),
    ("goodput_gpu_recovery_action", 570),
];

/// One driver, held to [`SINCE`].
fn holds(version: &str) {
    let branch: u32 = version.split('.').next().unwrap().parse().unwrap();
    let (_folder, _node, mut probe) = start(version);
    let whole = |s: &Scrape| {
        let here = |(name, since): &(&str, u32)| *since > branch || s.of(name, 0).is_some();
        SINCE.iter().all(here) && s.of("goodput_gpu_processes", 0) == Some(1.0)
    };
    let scrape = probe.until(&format!("all that driver {version} gives"), whole);
    for (name, since) in SINCE {
        assert_eq!(scrape.of(name, 0).is_some(), branch >= since, "{name} under {version}");
    }
    let memory = scrape.get("goodput_gpu_process_memory_bytes", &[("gpu", "0"), ("pid", "4711")]);
    assert_eq!(memory, Some(1_073_741_824.0), "{version}");
    assert_eq!(scrape.of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 0), Some(4.0), "{version}");
}

macro_rules! drivers {
    ($($name:ident $version:literal;)*) => {$(
        #[test]
        fn $name() {
            holds($version);
        }
    )*};
}

drivers! {
    driver_470_gives_memory_processes_and_clocks "470.256.02";
    driver_510_gives_reserved_memory "510.108.03";
    driver_525_gives_profiling_and_the_fabric "525.147.05";
    driver_535_54_gives_processes_in_long_records "535.54.03";
    driver_535_98_gives_processes_by_the_second_call "535.98";
    driver_550_gives_what_535_does "550.54.14";
    driver_570_gives_the_recovery_action_and_the_temperature_margin "570.86.15";
    driver_580_gives_everything "580.105.08";
    driver_590_gives_everything "590.48.01";
}

#[test]
fn driver_470_counts_reserved_memory_as_used() {
    let (_folder, _node, mut probe) = start("470.256.02");
    let scrape = probe.until("memory", |s| s.of("DCGM_FI_DEV_FB_USED", 0).is_some());
    // 480 MiB are reserved on an H100 of the fake.
    assert_eq!(scrape.of("DCGM_FI_DEV_FB_USED", 0), Some(40_960.0 + 480.0));
    assert_eq!(scrape.of("DCGM_FI_DEV_FB_TOTAL", 0), Some(81_559.0));
}

/// An MPS server and its clients: as many processes as fill the first buffer, and more.
#[test]
fn many_processes_on_one_gpu_are_all_there_under_every_driver() {
    for version in ["470.256.02", "535.54.03", "535.86.10", "535.98", "535.104.05", "580.105.08"] {
        let (_folder, node, mut probe) = start(version);
        for count in [48, 49, 63, 64, 65, 200] {
            for pid in 0..count {
                node.process(0, 100 + pid, 1 << 20).unwrap();
            }
            let all = |s: &Scrape| s.of("goodput_gpu_processes", 0) == Some(f64::from(count + 1));
            probe.until(&format!("{count} processes under {version}"), all);
        }
    }
}

#[test]
fn mig_instances_are_there_though_their_number_failed_once() {
    let (_folder, node) = super::node();
    node.mig(0, &[(9, "1g.10gb")]).unwrap();
    let number = Calls::all().named("nvmlDeviceGetMaxMigDeviceCount").on(0);
    node.fault(&number, "UNKNOWN").unwrap();
    let mut probe = Probe::ticking(&node);
    let slices = |s: &Scrape| s.of("goodput_gpu_mig_capacity_slices", 0);
    probe.until("the GPU is read", |s| s.cycles(0) > 0.0 && slices(s).is_none());
    node.clear(&number).unwrap();
    probe.until("the instance is there", |s| {
        slices(s) == Some(7.0) && s.get("goodput_gpu_mig_info", &[("gpu", "0"), ("GPU_I_ID", "9")]) == Some(1.0)
    });
}

#[test]
fn a_gpu_without_address_has_readings_and_xids() {
    let (_folder, node) = super::node();
    node.fault(&Calls::all().named("nvmlDeviceGetPciInfo*").on(3), "NOT_SUPPORTED").unwrap();
    let mut probe = Probe::start(&node);
    let xids = |s: &Scrape| s.get("DCGM_EXP_XID_ERRORS_TOTAL", &[("gpu", "3"), ("xid", "79")]);
    probe.until("events are awaited", |s| s.of("DCGM_FI_DEV_XID_ERRORS", 3) == Some(0.0));
    node.xid(3, 79).unwrap();
    let scrape = probe.until("the XID comes", |s| xids(s) == Some(1.0));
    assert_eq!(scrape.of("DCGM_FI_DEV_XID_ERRORS", 3), Some(79.0));
    assert!(scrape.of("DCGM_FI_DEV_GPU_TEMP", 3).is_some(), "{}", scrape.0);
}

#[test]
fn a_gpu_without_uuid_is_called_by_its_address_or_its_index() {
    for (code, nowhere, name) in [
        ("NOT_SUPPORTED", false, "PCI-00000000:5D:00.0"),
        ("UNKNOWN", false, "PCI-00000000:5D:00.0"),
        ("UNKNOWN", true, "index-3"),
    ] {
        let (_folder, node) = super::node();
        let uuid = Calls::all().named("nvmlDeviceGetUUID").on(3);
        node.fault(&uuid, code).unwrap();
        if nowhere {
            node.fault(&Calls::all().named("nvmlDeviceGetPciInfo*").on(3), "NOT_SUPPORTED").unwrap();
        }
        let mut probe = Probe::ticking(&node);
        let temperature = |s: &Scrape, uuid: &str| s.get("DCGM_FI_DEV_GPU_TEMP", &[("gpu", "3"), ("UUID", uuid)]);
        let scrape = probe.until("it is read", |s| temperature(s, name).is_some());
        assert_eq!(scrape.0.lines().filter(|line| line.starts_with("goodput_gpu_info{")).count(), 8, "{}", scrape.0);
        if code == "UNKNOWN" {
            node.clear(&uuid).unwrap();
            let real = "GPU-00002330-0000-4000-8000-000000000003";
            let known = probe.until("it has its UUID", |s| temperature(s, real).is_some());
            assert!(!known.0.contains(&format!("UUID=\"{name}\"")), "the stand-in is gone\n{}", known.0);
        }
    }
}

#[test]
fn virtualization_is_on_the_gpus_identity_where_the_driver_tells() {
    for (mode, fault, label) in [
        ("none", None, "none"),
        ("passthrough", None, "passthrough"),
        ("host_vgpu", None, "host_vgpu"),
        ("passthrough", Some("NOT_SUPPORTED"), ""),
        ("passthrough", Some("FUNCTION_NOT_FOUND"), ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let node = FakeNode::new(folder.path(), &NodeSpec::h100(2).with("virtualization", mode)).unwrap();
        if let Some(code) = fault {
            node.fault(&Calls::all().named("nvmlDeviceGetVirtualizationMode"), code).unwrap();
        }
        let mut probe = Probe::start(&node);
        let scrape = probe.until("it is read", |s| s.cycles(1) > 0.0);
        let line = scrape.0.lines().find(|line| line.starts_with("goodput_gpu_info{gpu=\"1\"")).unwrap();
        match label {
            "" => assert!(!line.contains("virtualization"), "{line}"),
            label => assert!(line.contains(&format!("virtualization=\"{label}\"")), "{line}"),
        }
        assert!(scrape.of("DCGM_FI_DEV_POWER_USAGE", 1).is_some(), "a whole GPU has its readings");
        assert_eq!(scrape.of("DCGM_FI_DEV_VGPU_LICENSE_STATUS", 1), None, "{mode} needs no license");
    }
}

/// The table of the documentation, held to a guest of the fake driver: metrics, and whether they are there.
fn told_of_a_vgpu() -> Vec<(String, bool)> {
    let page =
        std::fs::read_to_string(goodput_tests::rules::root().join("docs/reference/supported-machines.md")).unwrap();
    let (_, section) = page.split_once("### What a vGPU guest tells\n").unwrap();
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with('|'));
    let metrics = |row: &str| {
        let columns: Vec<&str> = row.split(" | ").collect();
        let is_there = match columns[2] {
            "yes" => true,
            "no" => false,
            _ => return Vec::new(),
        };
        columns[1].split(", ").map(|name| (name.trim_matches('`').to_owned(), is_there)).collect()
    };
    rows.skip(2).flat_map(metrics).collect()
}

/// What is the board's is absent and not zero.
#[test]
fn a_vgpu_guest_tells_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(1).with("virtualization", "vgpu")).unwrap();
    node.process(0, 4711, 1 << 30).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "fan_percent", "value": 30}})).unwrap();
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "sm_application_clock_mhz", "value": 1500}})).unwrap();
    let _work = node.work_at(0, None, json!({"gpu": 80})).unwrap();
    let mut probe = Probe::ticking_with(&node, FakeNvml::build().unwrap().path());
    let table = told_of_a_vgpu();
    assert!(table.len() > 40, "{table:?}");
    let there = |s: &Scrape| table.iter().all(|(name, is_there)| !is_there || s.of(name, 0).is_some());
    let scrape = probe.until("all that the table has", there);
    for (name, is_there) in &table {
        assert_eq!(scrape.of(name, 0).is_some(), *is_there, "{name}\n{}", scrape.0);
    }
    assert_eq!(scrape.get("goodput_gpu_info", &[("gpu", "0"), ("virtualization", "vgpu")]), Some(1.0));
    assert_eq!(scrape.of("DCGM_FI_DEV_VGPU_LICENSE_STATUS", 0), Some(1.0));
    node.append(&json!({"set": {"gpu": 0, "at_us": 0, "reading": "vgpu_licensed", "value": 0}})).unwrap();
    probe.until("the license is gone", |s| s.of("DCGM_FI_DEV_VGPU_LICENSE_STATUS", 0) == Some(0.0));
}

/// The server and a process without MPS are on the compute list alone.
#[test]
fn clients_of_an_mps_server_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(2)).unwrap();
    for (pid, kind) in [(4711, "compute"), (4712, "mps"), (4713, "mps")] {
        node.append(&json!({"process": {"gpu": 0, "pid": pid, "used_bytes": 1 << 20, "kind": kind}})).unwrap();
    }
    let mut probe = Probe::ticking(&node);
    let scrape = probe.until("all are there", |s| s.of("goodput_gpu_processes", 0) == Some(3.0));
    let clients = |s: &Scrape| (s.of("goodput_gpu_mps_clients", 0), s.of("goodput_gpu_mps_clients", 1));
    assert_eq!(clients(&scrape), (Some(2.0), Some(0.0)), "{}", scrape.0);
    node.fault(&Calls::all().named("nvmlDeviceGetMPSComputeRunningProcesses*"), "UNKNOWN").unwrap();
    probe.until("a list that cannot be had is not an empty one", |s| clients(s) == (None, None));
}
