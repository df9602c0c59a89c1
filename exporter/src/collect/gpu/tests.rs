use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::*;
use crate::attribute::Owners;
use crate::context::Dcgm;
use crate::parse::bus_id::Address;
use crate::parse::counters::csv;
use crate::source::files::Roots;
use crate::source::nvml::{Absent, Process, Snapshot, State, Totals, Values, Virtualization};
use goodput_catalog::Kind;
use goodput_catalog::dcgm::{self as rows, Names, Row, Selection};
use goodput_exposition::{Counters, Format, Style, encode};

fn values() -> Values {
    let mut values = Values::default();
    let (total, reserved) = (80_u64 << 30, (1_u64 << 30) + 1);
    for (row, reading) in [
        (&rows::TOTAL_ENERGY, Ok(9_007_199_254.0)),
        (&rows::MEMORY_TEMP, Err(Absent::NotSupported)),
        (&rows::PROF_SM_ACTIVE, Ok(42.0)),
        (&rows::PROF_PCIE_TX, Ok(1.5)),
        (&rows::GPU_UTIL, Ok(0.0)),
        (&rows::MEM_COPY_UTIL, Err(Absent::NotPermitted)),
        (&rows::POWER_USAGE, Ok(113_611.0)),
        (&rows::FB_TOTAL, Ok(total as f64)),
        (&rows::FB_FREE, Ok((total - reserved) as f64)),
        (&rows::FB_USED_PERCENT, Ok(0.0)),
    ] {
        values.set(row.read, reading);
    }
    values.samples = Ok(());
    values
}

fn process(pid: u32, used_bytes: Option<u64>) -> Process {
    Process { pid, used_bytes, ..Process::default() }
}

fn gpu(at: Instant, age: u64) -> Gpu {
    let totals = Totals { cycles: 5, ..Totals::default() };
    Gpu {
        index: 0,
        uuid: "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005".to_owned(),
        pci_bus_id: "00000000:53:00.0".to_owned(),
        minor: Ok(0),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        serial: Err(Absent::NotPermitted),
        virtualization: Ok(Virtualization::None),
        taken: at.checked_sub(Duration::from_secs(age)),
        state: State::Ok,
        events: Ok(()),
        processes: Ok(vec![process(4711, Some(1024)), process(4712, None)]),
        values: Arc::new(values()),
        totals,
        failures: 0,
    }
}

fn scrape(driver: Driver, gpus: impl FnOnce(Instant) -> Vec<Gpu>) -> (Done, String) {
    scrape_as(Dcgm::default(), driver, gpus)
}

fn scrape_as(dcgm: Dcgm, driver: Driver, gpus: impl FnOnce(Instant) -> Vec<Gpu>) -> (Done, String) {
    scrape_styled(dcgm, driver, gpus, |_| Style { host_label: Some("Hostname"), ..Style::default() })
}

fn scrape_styled(
    dcgm: Dcgm,
    driver: Driver,
    gpus: impl FnOnce(Instant) -> Vec<Gpu>,
    style: impl FnOnce(&Snapshot) -> Style,
) -> (Done, String) {
    let at = Instant::now();
    let gpus = gpus(at);
    let mut snapshot = Snapshot { at, driver, ..Snapshot::default() };
    for address in gpus.iter().take(1).filter_map(|gpu| Address::parse(&gpu.pci_bus_id)) {
        for _ in 0..2 {
            snapshot.xids.hear_nvml(address, 79, None, SystemTime::UNIX_EPOCH);
        }
    }
    snapshot.gpus = gpus;
    let style = Arc::new(style(&snapshot));
    let anywhere = || "/nowhere".into();
    let context = Context {
        roots: Arc::new(Roots {
            proc: anywhere(),
            sys: anywhere(),
            cgroup: anywhere(),
            root: anywhere(),
            programs: None,
        }),
        common: Arc::default(),
        gpus: Arc::new(snapshot),
        owners: Arc::new(Owners::default()),
        hostname: "gpu-node-1".into(),
        dcgm: Arc::new(dcgm),
        nccl: Arc::default(),
    };
    let mut families = Families::styled(style);
    let done = GpuCollector::default().collect(&context, &mut families).unwrap();
    (done, encode(&families, Format::Text))
}

fn loaded() -> Driver {
    Driver::Loaded { version: "580.105.08".to_owned() }
}

fn fixture(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}; the fixtures are missing", path.display()))
}

#[test]
fn series_are_those_of_a_recorded_dcgm_exporter() {
    let recorded = fixture("dcgm-8xh100-aicr/metrics.prom");
    let (_, text) = scrape(loaded(), |at| vec![gpu(at, 0)]);
    for name in ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"] {
        let line = recorded.lines().find(|l| l.starts_with(name) && l.contains("gpu=\"0\"")).unwrap();
        // Pod labels come after the device labels, and are another collector's business.
        let device = line.split(",container=").next().unwrap();
        assert!(text.lines().any(|l| l.starts_with(device)), "{device} is not in\n{text}");
    }
    assert!(text.contains("\"} 113.611\n"));
}

#[test]
fn a_reading_without_a_value_makes_no_series() {
    let (done, text) = scrape(loaded(), |at| vec![gpu(at, 0)]);
    assert_eq!(done, Done::Ok);
    let series = |name: &str| text.lines().filter(|l| l.starts_with(&format!("{name}{{"))).count();
    assert_eq!(series("DCGM_FI_DEV_GPU_UTIL"), 1, "zero is a value");
    assert_eq!(series("DCGM_FI_DEV_MEM_COPY_UTIL"), 0, "not permitted");
    assert_eq!(series("DCGM_FI_DEV_MEMORY_TEMP"), 0, "not supported");
    assert_eq!(series("DCGM_FI_DEV_SM_CLOCK"), 0, "not read yet");
    assert_eq!(series("goodput_gpu_process_memory_bytes"), 1, "one process tells no memory");
    assert!(text.contains("goodput_gpu_processes{gpu=\"0\",UUID=\"GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005\"} 2\n"));
}

#[test]
fn units_are_dcgms() {
    let (_, text) = scrape(loaded(), |at| vec![gpu(at, 0)]);
    let value = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(&format!("{name}{{"))).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(value("DCGM_FI_DEV_FB_FREE"), "80895", "whole MiB, rounded down");
    assert_eq!(value("DCGM_FI_DEV_FB_USED_PERCENT"), "0");
    assert_eq!(value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), "9007199254");
    assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE"), "0.42");
    assert_eq!(value("DCGM_FI_PROF_PCIE_TX_BYTES"), "1572864");
    assert_eq!(value("DCGM_FI_DEV_XID_ERRORS"), "79");
    assert!(text.contains("xid=\"79\",DCGM_FI_DRIVER_VERSION=\"580.105.08\"} 2\n"));
}

#[test]
fn an_old_reading_leaves_age_state_and_xids() {
    let (_, text) = scrape(loaded(), |at| {
        vec![Gpu { state: State::Stale(Duration::from_secs(60)), ..gpu(at, 60) }, Gpu { index: 1, ..gpu(at, 10) }]
    });
    let of_first: Vec<_> = text.lines().filter(|l| l.contains("gpu=\"0\"")).collect();
    assert_eq!(of_first.len(), 14, "{of_first:#?}");
    assert!(text.contains("6005\",state=\"stale\"} 1\n"));
    assert!(
        text.contains(
            "goodput_gpu_reading_age_seconds{gpu=\"0\",UUID=\"GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005\"} 60\n"
        )
    );
    assert!(
        of_first
            .iter()
            .any(|l| l.starts_with("DCGM_EXP_XID_ERRORS_TOTAL") && l.contains("xid=\"79\"") && l.ends_with("} 2"))
    );
    let own = "goodput_gpu_xid_errors_total{gpu=\"0\",UUID=\"GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005\",xid=\"79\",class=\"bus\",action=\"restart_node\"} 2";
    assert!(of_first.contains(&own), "{of_first:#?}");
    assert!(!of_first.iter().any(|l| l.starts_with("DCGM_FI_DEV_GPU_UTIL")));
    assert!(text.contains("DCGM_FI_DEV_GPU_UTIL{gpu=\"1\""));
}

#[test]
fn without_a_driver_it_is_not_applicable_and_says_why() {
    let reason = "no nvidia driver".to_owned();
    let (done, text) = scrape(Driver::Absent { reason: reason.clone() }, |_| Vec::new());
    assert_eq!(done, Done::NotApplicable(reason));
    assert!(text.ends_with("\ngoodput_gpu_driver_up 0\n"), "{text}");
}

/// Sample lines of a row with one value, in the spelling.
fn lines_of(row: &'static Row, names: Names) -> Vec<String> {
    let dcgm = Dcgm { names, ..Dcgm::default() };
    let (_, text) = scrape_as(dcgm, loaded(), |at| vec![gpu(at, 0)]);
    let of = |l: &&str| [row.legacy.name, row.current.name].iter().any(|name| l.starts_with(&format!("{name}{{")));
    text.lines().filter(of).map(str::to_owned).collect()
}

#[test]
fn each_spelling_has_its_own_names_labels_and_units() {
    let energy = |names| lines_of(&rows::TOTAL_ENERGY, names);
    let (legacy, current) = (energy(Names::Legacy), energy(Names::Current));
    assert_eq!((legacy.len(), current.len()), (1, 1));
    assert!(legacy[0].contains("DCGM_FI_DRIVER_VERSION=") && legacy[0].ends_with("} 9007199254"), "{legacy:?}");
    let expected =
        ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL{gpu=\"0\",", "DCGM_FI_SYSTEM_DRIVER_VERSION=\"580.105.08\"} 9007199.254");
    assert!(current[0].starts_with(expected.0) && current[0].ends_with(expected.1), "{current:?}");
    let mut both = legacy;
    both.splice(0..0, current);
    assert_eq!(energy(Names::Both), both);
}

#[test]
fn what_has_one_name_is_written_once() {
    let rate = |names| lines_of(&rows::PROF_PCIE_TX, names);
    assert_eq!((rate(Names::Both), rate(Names::Both).len()), (rate(Names::Legacy), 1));
    assert!(rate(Names::Current)[0].contains("DCGM_FI_SYSTEM_DRIVER_VERSION="));
}

#[test]
fn what_is_not_selected_is_not_written() {
    let dcgm = Dcgm { fields: Selection::new([rows::GPU_UTIL.id]), ..Dcgm::default() };
    let (_, text) = scrape_as(dcgm, loaded(), |at| vec![gpu(at, 0)]);
    let lines: Vec<_> = text.lines().filter(|l| l.starts_with("DCGM_")).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].starts_with("DCGM_FI_DEV_GPU_UTIL{") && !lines[0].contains("DRIVER_VERSION"), "{}", lines[0]);
}

/// Every line of dcgm-exporter's lists, active or not, is a row of the same kind; what is active is on by default.
#[test]
fn the_lists_of_dcgm_exporter_are_covered() {
    // dcgm-exporter itself calls them gauges since 4.8.3: rates, and what falls again.
    let gauges = ["DCGM_FI_DEV_NVLINK_BANDWIDTH_", "DCGM_EXP_", "DCGM_FI_PROF_PCIE_"];
    let mut checked = [0, 0];
    for list in ["default-counters.csv", "dcp-metrics-included.csv"] {
        for line in fixture(&format!("dcgm-exporter-counter-lists/{list}")).lines() {
            let active = !line.starts_with('#');
            let line = line.trim_start_matches(['#', ' ']);
            let Some((name, rest)) = line.split_once(',').filter(|(n, _)| n.starts_with("DCGM_")) else { continue };
            let (name, kind) = (name.trim(), rest.split(',').next().unwrap().trim());
            let row = rows::by_name(name).unwrap_or_else(|| panic!("{name} has no row"));
            assert!(!active || row.default, "{name} is on by default there");
            let expected = match kind {
                "label" => Kind::Info,
                "counter" if !gauges.iter().any(|stem| name.starts_with(stem)) => Kind::Counter,
                _ => Kind::Gauge,
            };
            assert_eq!(row.legacy.kind, expected, "{name}");
            checked[usize::from(active)] += 1;
        }
    }
    assert_eq!(checked, [70, 52], "commented and active lines of both lists");
}

fn selected(list: &str) -> String {
    let counters = Arc::new(Counters::from(csv(list).unwrap()));
    let style = |snapshot: &Snapshot| Style {
        constants: labels::constants(snapshot, |field| counters.label(field)),
        counters: Some(counters.clone()),
        ..Style::default()
    };
    let dcgm = Dcgm { fields: counters.selection(), ..Dcgm::default() };
    scrape_styled(dcgm, loaded(), |at| vec![gpu(at, 0)], style).1
}

#[test]
fn a_counters_file_selects_fields_and_gives_help_type_and_labels() {
    let list = "DCGM_FI_DEV_POWER_USAGE, counter, \"Watts, as read.\"\n\
                DCGM_FI_DEV_GPU_UTIL, summary,\n\
                DCGM_FI_DEV_MINOR_NUMBER, label, x\n\
                DCGM_FI_DEV_SERIAL, label, x\n";
    let text = selected(list);
    let dcgm: Vec<_> = text.lines().filter(|line| line.contains("DCGM_")).collect();
    let labels = "gpu=\"0\",UUID=\"GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005\",pci_bus_id=\"00000000:53:00.0\",\
                  device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",DCGM_FI_DEV_MINOR_NUMBER=\"0\"";
    let expected = [
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).".to_owned(),
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge".to_owned(),
        format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}} 0"),
        "# HELP DCGM_FI_DEV_POWER_USAGE Watts, as read.".to_owned(),
        "# TYPE DCGM_FI_DEV_POWER_USAGE counter".to_owned(),
        format!("DCGM_FI_DEV_POWER_USAGE{{{labels}}} 113.611"),
    ];
    assert_eq!(dcgm, expected, "the serial number is not permitted, and nobody asked for the driver's version");
    let (_, all) = scrape(loaded(), |at| vec![gpu(at, 0)]);
    let own = |text: &str| text.lines().filter(|line| line.contains("goodput_")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(own(&text), own(&all), "our own families stay as they are");
}

#[test]
fn the_default_list_of_dcgm_exporter_is_served() {
    let text = selected(include_str!("../../../tests/fixtures/counters/default.csv"));
    for (line, there) in [
        ("# HELP DCGM_FI_PROF_PCIE_TX_BYTES Bytes per second sent over PCIe.", true),
        ("# TYPE DCGM_FI_DEV_XID_ERRORS gauge", true),
        ("DCGM_FI_DRIVER_VERSION=\"580.105.08\"", true),
        ("DCGM_FI_DEV_FB_TOTAL", false),
        ("DCGM_EXP_XID_ERRORS_TOTAL", false),
        ("DCGM_FI_PROF_SM_ACTIVE", false),
    ] {
        assert_eq!(text.contains(line), there, "{line}");
    }
}

#[test]
fn devices_and_model_names_are_written_as_configured() {
    let two = |at| vec![gpu(at, 0), Gpu { index: 1, uuid: "GPU-1".to_owned(), ..gpu(at, 0) }];
    let style = |_: &Snapshot| Style { devices: "g:1".parse().unwrap(), dashed_model: true, ..Style::default() };
    let (_, text) = scrape_styled(Dcgm::default(), loaded(), two, style);
    let dcgm: Vec<_> = text.lines().filter(|line| line.starts_with("DCGM_")).collect();
    assert!(dcgm.len() > 5, "{text}");
    for line in dcgm {
        assert!(line.contains("{gpu=\"1\",UUID=\"GPU-1\"") && line.contains("\"NVIDIA-H100-80GB-HBM3\""), "{line}");
    }
    assert!(text.contains("goodput_gpu_reading_age_seconds{gpu=\"0\""));
    assert!(text.contains("modelName=\"NVIDIA H100 80GB HBM3\""), "our own families keep the driver's spelling");
}
