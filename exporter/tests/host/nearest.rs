//! The NICs nearest to each GPU, on recorded buses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use goodput_exporter::source::nvml::Virtualization;

use crate::support::{Machine, collector, facts, shared};

const ROW: &str = "goodput_gpu_nearest_nic_info";

/// A device of a class at this path below `/sys/devices`.
fn device(machine: &Machine, path: &str, class: &str, node: Option<&str>) {
    let address = path.rsplit('/').next().unwrap();
    machine.slot(&format!("sys/bus/pci/devices/{address}"), path);
    machine.write(&format!("sys/devices/{path}/class"), &format!("{class}\n"));
    machine.write(&format!("sys/devices/{path}/vendor"), "0x10de\n");
    if let Some(node) = node {
        machine.write(&format!("sys/devices/{path}/numa_node"), &format!("{node}\n"));
    }
}

fn gpu(machine: &mut Machine, path: &str, node: Option<&str>) {
    device(machine, path, "0x030200", node);
    machine.gpu(path.rsplit('/').next().unwrap(), &[]);
}

fn nic(machine: &Machine, name: &str, path: &str, node: Option<&str>) {
    device(machine, path, "0x020000", node);
    machine.slot(&format!("sys/class/infiniband/{name}/device"), path);
}

fn two_nodes(machine: &Machine) {
    machine.write("sys/devices/system/node/node0/cpulist", "0-3\n");
    machine.write("sys/devices/system/node/node1/cpulist", "4-7\n");
}

/// The labels behind `gpu` and `UUID` of each series.
fn rows(machine: &Machine) -> Vec<String> {
    let samples = machine.collect("pci").ok().samples().into_keys();
    let rows = samples.filter(|series| series.starts_with(ROW));
    rows.map(|series| series[series.find("gpu=").unwrap()..].trim_end_matches('}').replace('"', "")).collect()
}

/// The path of every function of `lspci -vvv` below `/sys/devices`, its NUMA node and what it is.
fn bus(text: &str) -> Vec<(String, Option<String>, String)> {
    let (mut functions, mut bridges) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        let word = |key: &str| line.split(key).nth(1).map(|rest| rest.split(',').next().unwrap().to_owned());
        if line.starts_with(|c: char| c.is_ascii_hexdigit()) {
            let (address, what) = line.split_once(' ').unwrap();
            functions.push((format!("0000:{address}"), None, what.to_owned()));
        } else if let Some((address, node, _)) = functions.last_mut() {
            *node = word("NUMA node: ").or(node.take());
            bridges.extend(word("secondary=").map(|bus| (bus, address.clone())));
        }
    }
    let path = |address: &str| {
        let mut parts = vec![address.to_owned()];
        while let Some(bridge) = bridges.get(&parts[0][5..7]) {
            parts.insert(0, bridge.clone());
        }
        format!("pci{}/{}", &parts[0][..7], parts.join("/"))
    };
    functions.iter().map(|(address, node, what)| (path(address), node.clone(), what.clone())).collect()
}

/// Each GPU shares its switch with a ConnectX-7; the first of each socket with two ports of a ConnectX-6 as well. What the
/// RDMA devices are called was not recorded: they have numbers in the order of their addresses here.
#[test]
fn a_server_with_a_switch_for_each_gpu() {
    let mut machine = Machine::empty();
    two_nodes(&machine);
    let text = std::fs::read_to_string(shared("pci-8xh100-xe9680/lspci-vvv.txt")).unwrap();
    let mut nics = 0;
    for (path, node, what) in bus(&text) {
        if what.starts_with("3D controller: NVIDIA") {
            gpu(&mut machine, &path, node.as_deref());
        } else if what.contains("ConnectX") {
            nic(&machine, &format!("mlx5_{nics}"), &path, node.as_deref());
            nics += 1;
        }
    }
    let rows = rows(&machine);
    assert_eq!(rows.len(), 10, "{rows:#?}");
    assert!(rows.iter().all(|row| row.ends_with("path=pix")), "{rows:#?}");
    machine.collect("pci").ok().golden("pci/8xh100-xe9680");
}

/// Azure's file for NCCL tells the NUMA nodes; each device is behind a host bridge of its own.
#[test]
fn devices_behind_host_bridges_of_their_own() {
    let mut machine = Machine::empty();
    two_nodes(&machine);
    let facts = facts("nccl-topo-ndv5-8xh100");
    let text = std::fs::read_to_string(shared("nccl-topo-ndv5-8xh100/ndv5-topo.xml")).unwrap();
    let (mut node, mut nics) = ("", 0);
    for line in text.lines() {
        let of = |key: &str| line.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        node = of("numaid").unwrap_or(node);
        let (Some(address), Some(class)) = (of("busid"), of("class")) else { continue };
        let path = format!("LNXSYSTM:00/VMBUS:00/{nics}/pci{}/{address}", &address[..7]);
        match class {
            "0x030200" => gpu(&mut machine, &path, Some(node)),
            "0x020700" => {
                nic(&machine, &format!("mlx5_ib{nics}"), &path, Some(node));
                nics += 1;
            }
            _ => {}
        }
    }
    assert_eq!(facts.as_object().unwrap().len(), 2, "{facts}");
    let near = rows(&machine);
    assert_eq!(near.len(), 16, "two of the four that are equally near to each GPU");
    for (row, gpu) in near.iter().zip((0..8).flat_map(|gpu| [gpu, gpu])) {
        let expected = if gpu < 4 { ["mlx5_ib0", "mlx5_ib1"] } else { ["mlx5_ib4", "mlx5_ib5"] };
        assert!(row.starts_with(&format!("gpu={gpu},")) && row.ends_with("path=node"), "{row}");
        assert!(expected.iter().any(|nic| row.contains(nic)), "{row}");
    }
    machine.collect("pci").ok().golden("pci/ndv5-8xh100");
    machine.virtualization = Virtualization::Passthrough;
    assert_eq!(rows(&machine), Vec::<String>::new(), "a guest does not see its host's bus");
}

/// A recorded server without GPUs: one is put into the slots of other devices.
#[test]
fn slots_of_a_recorded_server() {
    for (slot, expected) in [
        // A drive of node 1, as is the NIC of that node.
        ("0000:b1:00.0", "device=mlx5_1,path=node"),
        // The other function of the NIC of node 0.
        ("0000:31:00.1", "device=mlx5_0,path=pix"),
        // Node 0, below another host bridge.
        ("0000:4b:00.0", "device=mlx5_0,path=node"),
    ] {
        let roots = ["00", "30", "4a", "97", "b0"].map(|bus| format!("sys/devices/pci0000:{bus}"));
        let mut parts = vec!["sys/bus/pci/devices", "sys/devices/system/node"];
        parts.extend(roots.iter().map(String::as_str));
        let mut machine = Machine::recorded("sys-2s112-ice-nvme", &parts);
        for (name, path) in
            [("mlx5_0", "pci0000:30/0000:30:04.0/0000:31:00.0"), ("mlx5_1", "pci0000:97/0000:97:02.0/0000:98:00.0")]
        {
            machine.slot(&format!("sys/class/infiniband/{name}/device"), path);
        }
        machine.gpu(slot, &[]);
        machine.write("sys/bus/pci/devices/0000:03:00.0/vendor", "0x10de\n");
        assert_eq!(rows(&machine), [format!("gpu=0,UUID=GPU-0,{expected}")], "{slot}");
    }
}

#[test]
fn a_nic_that_may_be_nearer_makes_no_row() {
    let mut machine = Machine::empty();
    two_nodes(&machine);
    gpu(&mut machine, "pci0000:15/0000:15:01.0/0000:19:00.0", Some("0"));
    nic(&machine, "mlx5_0", "pci0000:97/0000:97:01.0/0000:98:00.0", Some("1"));
    assert_eq!(rows(&machine), ["gpu=0,UUID=GPU-0,device=mlx5_0,path=sys"]);
    nic(&machine, "mlx5_1", "pci0000:37/0000:37:01.0/0000:38:00.0", None);
    assert_eq!(rows(&machine), Vec::<String>::new());
    machine.write("sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/numa_node", "-1\n");
    assert_eq!(rows(&machine), Vec::<String>::new());
    machine.write("sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/numa_node", "0\n");
    assert_eq!(rows(&machine), ["gpu=0,UUID=GPU-0,device=mlx5_1,path=node"]);
    std::fs::remove_dir_all(machine.path("sys/devices/system/node/node1")).unwrap();
    machine.write("sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0/numa_node", "-1\n");
    assert_eq!(rows(&machine).len(), 2, "all of a machine's devices are on its only node");
}

#[test]
fn network_interfaces_where_there_is_no_rdma_device() {
    let mut machine = Machine::empty();
    gpu(&mut machine, "pci0000:15/0000:15:01.0/0000:19:00.0", Some("0"));
    device(&machine, "pci0000:15/0000:15:02.0/0000:2a:00.0", "0x020000", Some("0"));
    machine.slot("sys/class/net/eth0/device", "pci0000:15/0000:15:02.0/0000:2a:00.0");
    machine.write("sys/class/net/lo/operstate", "unknown\n");
    assert_eq!(rows(&machine), ["gpu=0,UUID=GPU-0,device=eth0,path=phb"]);
    nic(&machine, "mlx5_0", "pci0000:37/0000:37:01.0/0000:38:00.0", Some("0"));
    assert_eq!(rows(&machine), ["gpu=0,UUID=GPU-0,device=mlx5_0,path=node"]);
}

#[test]
fn rows_stay_until_the_bus_changes_or_five_minutes_have_passed() {
    let mut machine = Machine::empty();
    gpu(&mut machine, "pci0000:15/0000:15:01.0/0000:19:00.0", Some("0"));
    nic(&machine, "mlx5_0", "pci0000:15/0000:15:02.0/0000:2a:00.0", Some("0"));
    let (mut pci, begin) = (collector("pci"), Instant::now());
    let mut count = |machine: &Machine, seconds| {
        machine.collect_at(pci.as_mut(), begin + Duration::from_secs(seconds)).ok().count(ROW)
    };
    assert_eq!(count(&machine, 0), 1);
    std::fs::remove_dir_all(machine.path("sys/class/infiniband/mlx5_0")).unwrap();
    assert_eq!((count(&machine, 1), count(&machine, 299), count(&machine, 300)), (1, 1, 0));
    machine.slot("sys/class/infiniband/mlx5_0/device", "pci0000:15/0000:15:02.0/0000:2a:00.0");
    assert_eq!(count(&machine, 301), 0);
    device(&machine, "pci0000:15/0000:15:03.0/0000:3a:00.0", "0x010802", Some("0"));
    assert_eq!(count(&machine, 302), 1, "another device has come");
}
