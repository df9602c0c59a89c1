//! Every recorded machine through every collector, and the one that has only `lspci` recorded.

use std::path::Path;

use goodput_exporter::audit::checks::CHECKS;
use goodput_exporter::audit::{Audit, Profile, Status};
use goodput_exporter::collect::{CollectError, Done};
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::source::nvml::Driver;
use serde_json::Value;

use crate::support::{Machine, facts, shared};

/// What exists a hundred times alike, or no collector reads: unpacking all of it takes longer than reading it.
const LEFT_OUT: &[&str] = &[
    "./sys/devices/system/cpu/cpu[1-9]*",
    "./sys/devices/system/cpu/cpufreq/policy[1-9]*",
    "./sys/devices/system/memory",
    "./sys/devices/LNXSYSTM:00",
    "./sys/devices/virtual",
    "./sys/bus/cpu",
    "./sys/bus/pci/drivers",
    "./sys/fs/cgroup/blkio/*/*",
    "./proc/irq/[0-9][0-9][0-9]*",
];

fn trees() -> Vec<String> {
    let names = std::fs::read_dir(shared("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| shared(name).join("tree.tar.gz").try_exists().unwrap_or(false)).collect();
    names.sort();
    names
}

fn tree(name: &str) -> Machine {
    let mut machine = Machine::empty();
    machine.driver = Driver::Absent { reason: "none here".to_owned() };
    // One recording is the cgroup of a job alone.
    let folder = if name == "cgroup2-2node-96cpu" { "sys/fs/cgroup/lab" } else { "" };
    machine.unpack_without(&format!("{name}/tree.tar.gz"), folder, LEFT_OUT);
    machine
}

#[test]
fn every_collector_and_check_understands_every_tree() {
    let trees = trees();
    assert_eq!(trees.len(), 17, "{trees:?}");
    for name in trees {
        let machine = tree(&name);
        let mut applied = Vec::new();
        // What is off by default starts programs, which no tree has.
        for entry in REGISTRY.iter().filter(|entry| entry.default) {
            match machine.collect(entry.name).result {
                Ok(Done::Ok) => applied.push(entry.name),
                Ok(Done::NotApplicable(_)) => {}
                // No recording has all that a kernel always has.
                Err(CollectError::File(error)) if error.is_missing() => {}
                Err(error) => panic!("{name}: {}: {error}", entry.name),
            }
        }
        // These tell of GPUs and settings whatever the machine.
        applied.retain(|collector| !["audit", "gpu", "owner", "placement"].contains(collector));
        let is_cgroup = machine.path("sys/fs/cgroup").try_exists().unwrap();
        assert!(is_cgroup || !applied.is_empty(), "{name}: no collector has anything to say of it");
        let audit = Audit::run(&machine.context(), Profile::Mixed, CHECKS.iter().copied());
        let errors = audit.findings.iter().filter(|finding| finding.status == Status::Error);
        let errors: Vec<_> = errors.map(|finding| (finding.check.id, &finding.read)).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

const XE9680: &str = "pci-8xh100-xe9680";

/// Class codes of what lspci names.
const CLASSES: [(&str, &str); 7] = [
    ("3D controller", "0x030200"),
    ("VGA compatible controller", "0x030000"),
    ("Ethernet controller", "0x020000"),
    ("Non-Volatile memory controller", "0x010802"),
    ("Serial Attached SCSI controller", "0x010700"),
    ("Bridge", "0x068000"),
    ("PCI bridge", "0x060400"),
];

/// The machine's PCI bus, with an interface for every Ethernet controller.
fn xe9680() -> Machine {
    let mut machine = Machine::empty();
    let text = std::fs::read_to_string(shared(&format!("{XE9680}/lspci-vvv.txt"))).unwrap();
    let mut folder = String::new();
    for line in text.lines() {
        if let Some((address, rest)) = line.split_once(' ').filter(|_| !line.starts_with('\t')) {
            folder = format!("sys/bus/pci/devices/0000:{address}");
            let (class, name) = rest.split_once(": ").unwrap();
            let code = CLASSES.iter().find(|(name, _)| *name == class).map_or("0x088000", |(_, code)| code);
            machine.write(&format!("{folder}/class"), &format!("{code}\n"));
            let vendor = if name.starts_with("NVIDIA") { "0x10de" } else { "0x15b3" };
            machine.write(&format!("{folder}/vendor"), &format!("{vendor}\n"));
            match class {
                "3D controller" => machine.gpu(&format!("00000000:{address}"), &[]),
                "Ethernet controller" => interface(&machine, address),
                _ => {}
            }
        } else if let Some(node) = line.strip_prefix("\tNUMA node: ") {
            machine.write(&format!("{folder}/numa_node"), &format!("{node}\n"));
        } else if let Some(driver) = line.strip_prefix("\tKernel driver in use: ") {
            let link = machine.path(&format!("{folder}/driver"));
            std::os::unix::fs::symlink(Path::new("../../drivers").join(driver), link).unwrap();
        }
    }
    machine
}

fn interface(machine: &Machine, address: &str) {
    let folder = machine.path(&format!("sys/class/net/e{}", address.replace([':', '.'], "-")));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(machine.path(&format!("sys/bus/pci/devices/0000:{address}")), folder.join("device"))
        .unwrap();
}

#[test]
fn a_machine_of_eight_gpus_by_its_pci_bus() {
    let machine = xe9680();
    let facts = facts(XE9680);
    let of = |kind: &str| facts[kind].as_object().unwrap().iter();
    let node = |device: &Value| device["numa_node"].as_i64().unwrap();

    let found = machine.collect("pci").ok();
    assert_eq!(found.value("goodput_gpu_pci_devices{driver=\"nvidia\"}"), of("gpu").count() as f64);
    assert_eq!(found.count("goodput_gpu_pci_devices"), 1, "neither switches nor the console are GPUs");

    let placed = machine.collect("numa").ok();
    for (gpu, (address, device)) in of("gpu").enumerate() {
        let series = format!("goodput_gpu_numa_info{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",node=\"{}\"}}", node(device));
        assert_eq!(placed.value(&series), 1.0, "{address}");
    }

    let network = machine.collect("network").ok();
    for (address, device) in of("mlx5_cx7").chain(of("mlx5_cx6dx")) {
        let name = address.strip_prefix("0000:").unwrap().replace([':', '.'], "-");
        let series = format!("goodput_network_info{{device=\"e{name}\",pci=\"{address}\",node=\"{}\"}}", node(device));
        assert_eq!(network.value(&series), 1.0);
    }

    let fabric = CHECKS.iter().copied().filter(|check| check.id == "fabric_manager");
    let found = Audit::run(&machine.context(), Profile::Training, fabric).findings.pop().unwrap();
    assert_eq!(found.read, format!("no sign of it, with {} NVSwitches", of("nvswitch").count()));

    let nodes = ["numa_node_0", "numa_node_1"].map(|key| facts[key].as_u64().unwrap());
    let recorded = std::fs::read_dir(machine.path("sys/bus/pci/devices")).unwrap().count() as u64;
    assert_eq!((recorded, nodes.iter().sum()), (facts["n_functions"].as_u64().unwrap(), recorded));
}
