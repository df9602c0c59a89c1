//! GPUs that are cut up into MIG instances.

use std::collections::{BTreeMap, BTreeSet};

use goodput_lab::gpu::{Calls, FakeNode, NodeSpec};
use serde_json::json;
use tempfile::TempDir;

use crate::probe::{Probe, Scrape};

const ONE: &str = "1g.10gb";

/// Seconds until what is read every 5 s has been read, and until there is a pair of it.
const SOON: usize = 6;
const PAIR: usize = 11;
/// Seconds until an unused instance has been found.
const LOOK: usize = 31;

fn h100(count: usize) -> (TempDir, FakeNode) {
    let folder = tempfile::tempdir().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(count)).unwrap();
    (folder, node)
}

/// Seven instances of one slice.
fn sevenths() -> [(u32, &'static str); 7] {
    std::array::from_fn(|i| (7 + i as u32, ONE))
}

/// Value of the only series of that name of a GPU instance.
fn part(scrape: &Scrape, name: &str, gpu: usize, instance: u32) -> Option<f64> {
    scrape.get(name, &[("gpu", &gpu.to_string()), ("GPU_I_ID", &instance.to_string())])
}

/// Value of the only series of that name of the GPU itself.
fn whole(scrape: &Scrape, name: &str, gpu: usize) -> Option<f64> {
    let lines: Vec<_> = scrape.0.lines().filter(|line| !line.contains("GPU_I_ID=")).map(|l| format!("{l}\n")).collect();
    Scrape(lines.concat()).of(name, gpu)
}

/// The ids of the GPU's instances.
fn ids(scrape: &Scrape, gpu: usize) -> BTreeSet<String> {
    let of_gpu = format!("goodput_gpu_mig_info{{gpu=\"{gpu}\"");
    let lines = scrape.0.lines().filter(|line| line.starts_with(&of_gpu));
    lines.map(|line| labels(line)["GPU_I_ID"].clone()).collect()
}

fn labels(line: &str) -> BTreeMap<String, String> {
    let inner = line.split_once('{').unwrap().1.rsplit_once('}').unwrap().0;
    let pairs = inner.strip_suffix('"').unwrap().split("\",").map(|pair| pair.split_once("=\"").unwrap());
    pairs.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Checks scrape after scrape that no series is there twice and no counter of ours goes back.
#[derive(Default)]
struct Watch(BTreeMap<String, f64>);

impl Watch {
    fn holds(&mut self, scrape: &Scrape) {
        let mut seen = BTreeSet::new();
        for line in scrape.0.lines().filter(|l| l.starts_with("goodput_") || l.starts_with("DCGM_")) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(seen.insert(series), "twice: {series}");
            if series.starts_with("goodput_") && series.contains("_total") {
                let value: f64 = value.parse().unwrap();
                let before = self.0.insert(series.to_owned(), value).unwrap_or(0.0);
                assert!(value >= before, "{series} fell from {before} to {value}");
            }
        }
    }
}

#[test]
fn an_instance_has_memory_activity_and_processes_of_its_own() {
    let (_folder, node) = h100(2);
    let layout = json!([{"id": 2, "profile": "3g.40gb", "compute": [1, 2]}, {"id": 9, "profile": ONE}]);
    node.append(&json!({"mig": {"gpu": 1, "instances": layout}})).unwrap();
    node.process_in(1, 9, 4711, 1 << 30).unwrap();
    node.process_in(1, 2, 4712, 1 << 31).unwrap();
    let load = json!({"gpu": 60, "sm": 40, "dram": 25, "pcie_rx": 1 << 30});
    node.append(&json!({"start": {"gpu": 1, "instance": 9, "id": "work", "at_us": 1, "load": load}})).unwrap();
    let mut probe = Probe::ticking(&node);
    let busy = "goodput_gpu_mig_busy_seconds_total";
    let scrape = probe.within(2 * PAIR, "two pairs", |s| part(s, busy, 1, 9).is_some_and(|busy| busy > 5.0));
    for (name, of_9, of_2) in [
        ("DCGM_FI_DEV_FB_TOTAL", Some(9984.0), Some(40_320.0)),
        ("DCGM_FI_DEV_FB_USED", Some(1024.0), Some(2048.0)),
        ("DCGM_FI_DEV_FB_FREE", Some(8960.0), Some(38_272.0)),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Some(0.6), Some(0.0)),
        ("DCGM_FI_PROF_SM_ACTIVE", Some(0.4), Some(0.0)),
        ("DCGM_FI_PROF_DRAM_ACTIVE", Some(0.25), Some(0.0)),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", None, None),
        ("DCGM_FI_DEV_GPU_UTIL", None, None),
        ("DCGM_FI_DEV_POWER_USAGE", None, None),
        ("DCGM_FI_DEV_XID_ERRORS", None, None),
        ("goodput_gpu_mig_slices", Some(1.0), Some(3.0)),
        ("goodput_gpu_mig_processes", Some(1.0), Some(1.0)),
    ] {
        for (id, expected) in [(9, of_9), (2, of_2)] {
            let got = part(&scrape, name, 1, id);
            let near = got.zip(expected).is_some_and(|(got, expected)| (got - expected).abs() < 1e-6);
            assert!(near || got == expected, "{name} of {id}: {got:?}, not {expected:?}\n{}", scrape.0);
        }
    }
    let share =
        part(&scrape, busy, 1, 9).unwrap() / part(&scrape, "goodput_gpu_mig_observed_seconds_total", 1, 9).unwrap();
    assert!((share - 0.6).abs() < 0.001, "{share}");
    assert_eq!(part(&scrape, busy, 1, 2), Some(0.0));
    // The board's values are the GPU's, and so are GPM's for all of it.
    for (name, expected) in [
        ("DCGM_FI_DEV_FB_USED", Some(3072.0)),
        ("DCGM_FI_DEV_FB_TOTAL", Some(81_559.0)),
        ("DCGM_FI_DEV_XID_ERRORS", Some(0.0)),
        ("DCGM_FI_DEV_GPU_UTIL", None),
        ("goodput_gpu_busy_seconds_total", None),
        ("goodput_gpu_processes", Some(2.0)),
        ("goodput_gpu_mig_capacity_slices", Some(7.0)),
    ] {
        assert_eq!(whole(&scrape, name, 1), expected, "{name}");
    }
    assert!(
        whole(&scrape, "DCGM_FI_DEV_POWER_USAGE", 1).is_some() && whole(&scrape, "DCGM_FI_DEV_GPU_UTIL", 0).is_some()
    );
    let mode = |gpu: &str, mode| scrape.get("goodput_gpu_mig_mode", &[("gpu", gpu), ("mode", mode)]);
    assert_eq!((mode("1", "current"), mode("1", "pending"), mode("0", "current")), (Some(1.0), Some(1.0), Some(0.0)));
    let device = |id, compute| {
        let labels = [
            ("GPU_I_ID", id),
            ("compute_instance", compute),
            ("GPU_I_PROFILE", if id == "2" { "3g.40gb" } else { ONE }),
        ];
        scrape.get("goodput_gpu_mig_info", &labels)
    };
    assert_eq!((device("2", "0"), device("2", "1"), device("9", "0")), (Some(1.0), Some(1.0), Some(1.0)));
    assert!(scrape.0.contains("GPU_I_ID=\"9\",mig_uuid=\"MIG-00002330-0001-5000-8000-000000000900\""));
    let memory = scrape.get("goodput_gpu_process_memory_bytes", &[("pid", "4711"), ("GPU_I_ID", "9")]);
    assert_eq!(memory, Some(1_073_741_824.0));
    Watch::default().holds(&scrape);
}

/// An A100 has no GPM: its instances have memory, and it is unknown whether they are busy. The labels of the recorded
/// scrape are those of our memory series; the board's values stand once, with the GPU, and not once per instance.
#[test]
fn an_a100_has_the_labels_of_a_recorded_scrape_and_no_busy_time() {
    const UUID: &str = "GPU-7099682b-a20d-2bcc-74ab-b9060454d81e";
    let folder = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new("NVIDIA A100-SXM4-80GB", 1).with("driver", "520.56.06");
    let node = FakeNode::new(folder.path(), &spec.with("gpus", json!([{"uuid": UUID}]))).unwrap();
    node.mig(0, &[(5, "2g.20gb"), (7, ONE), (9, ONE)]).unwrap();
    node.process_in(0, 9, 4711, 4384 << 20).unwrap();
    let mut probe = Probe::ticking(&node);
    let scrape = probe.within(SOON, "memory", |s| part(s, "DCGM_FI_DEV_FB_USED", 0, 9) == Some(4384.0));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/fixtures/dcgm-a100-mig-3-instances/metrics.prom");
    let recorded = std::fs::read_to_string(path).unwrap();
    let of = |text: &str, id: &str| -> BTreeMap<_, _> {
        let start = "DCGM_FI_DEV_FB_USED{";
        let line = text.lines().find(|l| l.starts_with(start) && l.contains(&format!("GPU_I_ID=\"{id}\""))).unwrap();
        labels(line)
    };
    for id in ["5", "7", "9"] {
        let (mut ours, mut theirs) = (of(&scrape.0, id), of(&recorded, id));
        // Newer releases of dcgm-exporter have the bus id too. Host, model and so the sizes differ.
        assert!(ours.remove("pci_bus_id").is_some());
        for name in ["Hostname", "modelName", "GPU_I_PROFILE"] {
            assert!(ours.remove(name).is_some() && theirs.remove(name).is_some(), "{name}");
        }
        assert_eq!(ours, theirs);
    }
    assert!(scrape.is(0, "ok") && whole(&scrape, "DCGM_FI_DEV_GPU_TEMP", 0).is_some());
    for name in [
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "goodput_gpu_mig_busy_seconds_total",
        "goodput_gpu_mig_observed_seconds_total",
    ] {
        assert!(!scrape.0.contains(&format!("{name}{{")), "{name} is not known of an A100\n{}", scrape.0);
    }
}

#[test]
fn instances_come_and_go_while_scrapes_go_on() {
    let (_folder, node) = h100(2);
    let (mut probe, mut watch) = (Probe::ticking(&node), Watch::default());
    let mut within = |seconds, what: &str, holds: &dyn Fn(&Scrape) -> bool| {
        probe.within(seconds, what, |scrape| {
            watch.holds(scrape);
            assert!(scrape.is(0, "ok"), "{}", scrape.0);
            holds(scrape)
        })
    };
    let has = |scrape: &Scrape, expected: &[&str]| ids(scrape, 0).iter().eq(expected.iter());
    let busy = |s: &Scrape, id| part(s, "goodput_gpu_mig_busy_seconds_total", 0, id);
    within(SOON, "it is whole", &|s| whole(s, "DCGM_FI_DEV_GPU_UTIL", 0).is_some() && ids(s, 0).is_empty());
    node.mig(0, &[(1, "4g.40gb"), (9, ONE), (10, ONE)]).unwrap();
    // No process uses them yet: the exporter finds them by looking.
    within(LOOK, "it is cut up", &|s| has(s, &["1", "10", "9"]) && whole(s, "DCGM_FI_DEV_GPU_UTIL", 0).is_none());
    node.append(&json!({"start": {"gpu": 0, "instance": 9, "id": "work", "at_us": 1}})).unwrap();
    let before = within(2 * PAIR, "work in one of them", &|s| busy(s, 9) > Some(4.0));
    node.mig(0, &[(2, "3g.40gb"), (9, ONE)]).unwrap();
    let after =
        within(PAIR, "one stays, two went, one came", &|s| has(s, &["2", "9"]) && busy(s, 9) > busy(&before, 9));
    assert_eq!(part(&after, "DCGM_FI_DEV_FB_USED", 0, 10), None);
    // The same ids, and so the same UUIDs, of another size; one of them is only seen because a process is on it.
    node.mig(0, &[(1, "3g.40gb"), (2, "4g.40gb")]).unwrap();
    node.process_in(0, 1, 4711, 1 << 30).unwrap();
    let profile = |s: &Scrape| s.get("goodput_gpu_mig_slices", &[("GPU_I_ID", "2"), ("GPU_I_PROFILE", "4g.40gb")]);
    within(PAIR, "another size", &|s| has(s, &["1", "2"]) && profile(s) == Some(4.0));
    node.append(&json!({"mig": {"gpu": 0, "enabled": true, "pending": false}})).unwrap();
    let mode = |s: &Scrape, mode| s.get("goodput_gpu_mig_mode", &[("gpu", "0"), ("mode", mode)]);
    within(SOON, "a mode is pending", &|s| {
        ids(s, 0).is_empty() && (mode(s, "current"), mode(s, "pending")) == (Some(1.0), Some(0.0))
    });
    node.exit(0, 4711).unwrap();
    node.append(&json!({"mig": {"gpu": 0, "enabled": false}})).unwrap();
    within(LOOK, "it is whole again", &|s| {
        whole(s, "DCGM_FI_DEV_GPU_UTIL", 0).is_some() && mode(s, "current") == Some(0.0)
    });
    node.mig(0, &[(9, ONE)]).unwrap();
    node.process_in(0, 9, 4712, 1 << 30).unwrap();
    within(PAIR, "an instance goes on where it ended", &|s| busy(s, 9) >= busy(&after, 9));
}

#[test]
fn a_mode_that_a_reset_changed_is_seen_as_soon_as_the_gpu_is_back() {
    let (_folder, node) = h100(1);
    node.append(&json!({"mig": {"gpu": 0, "enabled": false, "pending": true}})).unwrap();
    let mut probe = Probe::ticking(&node);
    let mode = |s: &Scrape, mode| s.get("goodput_gpu_mig_mode", &[("gpu", "0"), ("mode", mode)]);
    probe.within(SOON, "a mode is pending", |s| (mode(s, "current"), mode(s, "pending")) == (Some(0.0), Some(1.0)));
    node.lose(0).unwrap();
    probe.within(SOON, "the GPU is being reset", |s| s.is(0, "lost"));
    node.mig(0, &[(9, ONE)]).unwrap();
    node.find(0).unwrap();
    let back = probe.within(SOON, "the GPU is back", |s| s.is(0, "ok") && ids(s, 0).len() == 1);
    assert_eq!((mode(&back, "current"), part(&back, "DCGM_FI_DEV_FB_USED", 0, 9)), (Some(1.0), Some(0.0)));
}

#[test]
fn what_a_caller_may_not_read_of_instances_is_absent_until_it_may() {
    let (_folder, node) = h100(1);
    node.mig(0, &[(2, "3g.40gb"), (9, ONE)]).unwrap();
    node.process_in(0, 9, 4711, 1 << 30).unwrap();
    let handles = Calls::all().named("nvmlDeviceGetMigDeviceHandleByIndex");
    let readings = ["mig:nvmlDeviceGetMemoryInfo_v2", "nvmlGpmMigSampleGet"].map(|name| Calls::all().named(name));
    for calls in readings.iter().chain([&handles]) {
        node.fault(calls, "NO_PERMISSION").unwrap();
    }
    // The driver lists all processes of the GPU to the privileged only; those of an instance to any user of the
    // instance.
    node.fault(&Calls::all().named("nvmlDeviceGetComputeRunningProcesses_v3"), "NO_PERMISSION").unwrap();
    let mut probe = Probe::ticking(&node);
    let mode = |s: &Scrape| s.get("goodput_gpu_mig_mode", &[("gpu", "0"), ("mode", "current")]);
    let none = probe.within(SOON + 1, "MIG without devices", |s| mode(s) == Some(1.0) && s.cycles(0) > 6.0);
    assert!(none.is(0, "ok") && ids(&none, 0).is_empty() && whole(&none, "DCGM_FI_DEV_GPU_TEMP", 0).is_some());
    assert_eq!(whole(&none, "goodput_gpu_processes", 0), None);
    node.clear(&handles).unwrap();
    let processes = |s: &Scrape| part(s, "goodput_gpu_mig_processes", 0, 9);
    let known = probe.within(LOOK, "devices without readings", |s| ids(s, 0).len() == 2 && processes(s) == Some(1.0));
    assert!(known.is(0, "ok"));
    for name in ["DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE", "goodput_gpu_mig_busy_seconds_total"] {
        assert_eq!(part(&known, name, 0, 9), None, "{name}");
    }
    for calls in &readings {
        node.clear(calls).unwrap();
    }
    probe.within(PAIR, "readings", |s| {
        part(s, "DCGM_FI_DEV_FB_USED", 0, 9) == Some(1024.0) && part(s, "DCGM_FI_PROF_SM_ACTIVE", 0, 9) == Some(0.0)
    });
}

#[test]
fn fifty_six_instances_cost_eighty_calls_a_cycle_and_few_series() {
    let (_folder, node) = h100(8);
    for gpu in 0..8 {
        node.mig(gpu, &sevenths()).unwrap();
        for (id, _) in sevenths() {
            node.process_in(gpu, id, 1000 * gpu as u32 + id, 1 << 30).unwrap();
        }
    }
    let mut probe = Probe::ticking(&node);
    let between = |s: &Scrape| (0..8).all(|gpu| (1.0..=3.0).contains(&(s.cycles(gpu) % 5.0)) && ids(s, gpu).len() == 7);
    let begin = probe.within(LOOK, "all GPUs are between slow readings", between);
    // Thirty cycles hold six slow readings and one look of every GPU.
    let end = probe.within(30, "thirty cycles", |s| (0..8).all(|gpu| s.cycles(gpu) >= begin.cycles(gpu) + 30.0));
    let calls = |s: &Scrape| s.plain("goodput_gpu_nvml_calls_total").unwrap();
    let cycles = (0..8).map(|gpu| end.cycles(gpu) - begin.cycles(gpu)).sum::<f64>() / 8.0;
    let per_cycle = (calls(&end) - calls(&begin)) / cycles;
    println!("{per_cycle:.1} NVML calls per cycle of 8 GPUs with 7 instances each");
    assert!(per_cycle <= 80.0, "{per_cycle} calls per cycle");
    let series = |gpu: usize, more: &str| {
        let gpu = format!("gpu=\"{gpu}\"");
        end.0.lines().filter(|line| line.contains(&gpu) && line.contains(more)).count()
    };
    for gpu in 0..8 {
        for (id, _) in sevenths() {
            let count = series(gpu, &format!("GPU_I_ID=\"{id}\""));
            assert!((10..=60).contains(&count), "{count} series of instance {id} of GPU {gpu}");
        }
        let own = series(gpu, "") - series(gpu, "GPU_I_ID=");
        assert!(own <= 250, "{own} series of GPU {gpu}");
    }
    println!(
        "{} series of an instance, {} in all",
        series(0, "GPU_I_ID=\"7\""),
        end.0.lines().filter(|line| line.contains('{')).count()
    );
    Watch::default().holds(&end);
}
