use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine, facts, oracle};

/// node_exporter's sys and proc trees.
fn node_exporter() -> (Machine, Collected) {
    let machine = Machine::empty();
    machine.unpack("node-exporter-e2e/proc.tar.gz", "", &[]);
    machine.unpack_ttar("node-exporter-e2e/sys.ttar");
    // The archive leaves out the link from the interface to its device.
    machine.write("sys/devices/pci0000:00/0000:00:03.0/0000:03:00.0/numa_node", "1\n");
    let device = machine.path("sys/devices/pci0000:00/0000:00:03.0/0000:03:00.0/net/eth0/device");
    std::os::unix::fs::symlink("../../../0000:03:00.0", device).unwrap();
    let header = "Inter-| Receive | Transmit\n face |bytes |bytes\n";
    machine.write(
        "proc/net/dev",
        &format!(
            "{header}  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
        ),
    );
    let collected = machine.collect("network").ok();
    (machine, collected)
}

#[test]
fn agrees_with_node_exporter() {
    let (_machine, collected) = node_exporter();
    let expected = oracle();
    for (ours, theirs) in [
        ("goodput_network_speed_bytes{device=\"eth0\"}", "node_network_speed_bytes{device=\"eth0\"}"),
        ("goodput_network_mtu_bytes{device=\"eth0\"}", "node_network_mtu_bytes{device=\"eth0\"}"),
        (
            "goodput_network_carrier_changes_total{device=\"eth0\"}",
            "node_network_carrier_changes_total{device=\"eth0\"}",
        ),
        ("goodput_network_up{device=\"eth0\"}", "node_network_up{device=\"eth0\"}"),
        ("goodput_tcp_retransmitted_segments_total", "node_netstat_Tcp_RetransSegs"),
        ("goodput_tcp_sent_segments_total", "node_netstat_Tcp_OutSegs"),
    ] {
        assert_eq!(collected.value(ours), expected[theirs], "{ours}");
    }
    for (device, port) in [("mlx4_0", "1"), ("mlx4_0", "2"), ("i40iw0", "1")] {
        let labels = format!("{{device=\"{device}\",port=\"{port}\"}}");
        for (ours, theirs) in [
            ("port_speed_bytes", "rate_bytes_per_second"),
            ("received_bytes_total", "port_data_received_bytes_total"),
            ("sent_bytes_total", "port_data_transmitted_bytes_total"),
            ("transmit_wait_ticks_total", "port_transmit_wait_total"),
        ] {
            let ours = collected.samples().get(&format!("goodput_rdma_{ours}{labels}")).copied();
            assert_eq!(ours, expected.get(&format!("node_infiniband_{theirs}{labels}")).copied(), "{theirs}{labels}");
        }
    }
    collected.golden("network/node-exporter-e2e");
}

#[test]
fn a_device_that_does_not_count_has_no_zeros() {
    let (_machine, collected) = node_exporter();
    let samples = collected.samples();
    let of_i40iw: Vec<_> = samples.keys().filter(|series| series.contains("i40iw0")).collect();
    assert_eq!(of_i40iw.len(), 3, "what it is, its state, its rate: {of_i40iw:?}");
    assert_eq!(collected.value("goodput_rdma_saturated_counters{device=\"mlx4_0\",port=\"1\"}"), 1.0, "transmit wait");
}

#[test]
fn eight_ports_of_a_gpu_node() {
    let collected = Machine::recorded("ib-8xh100-sysfs", &[]).collect("network").ok();
    let facts = facts("ib-8xh100-sysfs");
    let devices = facts.as_object().unwrap();
    assert_eq!(collected.value("goodput_rdma_ports"), devices.len() as f64);
    for (device, fact) in devices {
        let value = |metric: &str| collected.value(&format!("goodput_rdma_{metric}{{device=\"{device}\",port=\"1\"}}"));
        let number = |key: &str| fact[key].as_str().unwrap().parse::<f64>().unwrap();
        assert_eq!(value("received_bytes_total"), number("rcv_data_words") * 4.0);
        assert_eq!(value("sent_bytes_total"), number("xmit_data_words") * 4.0);
        assert_eq!(value("transmit_wait_ticks_total"), number("xmit_wait"));
        assert_eq!(value("port_active"), 1.0);
        let gigabits: f64 = fact["rate"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(value("port_speed_bytes"), gigabits * 1.25e8);
        for (kind, key) in
            [("link_downed", "link_downed"), ("port_rcv_errors", "rcv_errors"), ("symbol_error", "symbol_error")]
        {
            let series = format!("goodput_rdma_port_errors_total{{device=\"{device}\",port=\"1\",kind=\"{kind}\"}}");
            assert_eq!(collected.value(&series), number(key), "{series}");
        }
        let layer = fact["layer"].as_str().unwrap();
        let info = format!("goodput_rdma_port_info{{device=\"{device}\",port=\"1\",link_layer=\"{layer}\"}}");
        assert_eq!(collected.value(&info), 1.0);
    }
    // Buffer overruns stand at 15 everywhere, which is all that 4 bits hold; mlx5_1's link went down 255 times or more.
    for (device, saturated) in [("mlx5_0", 1.0), ("mlx5_1", 2.0), ("mlx5_bond_0", 1.0)] {
        let series = format!("goodput_rdma_saturated_counters{{device=\"{device}\",port=\"1\"}}");
        assert_eq!(collected.value(&series), saturated, "{device}");
    }
}

#[test]
fn a_real_machines_interfaces_and_their_nodes() {
    let machine = Machine::recorded(
        "sys-2n-mlx4-nvme-dax",
        &[
            "sys/class/net",
            "sys/class/infiniband",
            "sys/devices/pci0000:00/0000:00:01.1",
            "sys/devices/pci0000:80/0000:80:02.2",
        ],
    );
    let collected = machine.collect("network").ok();
    assert_eq!(
        collected.value("goodput_network_interfaces"),
        3.0,
        "no bridge, VLAN, loopback or link that leads nowhere"
    );
    for (device, pci, node, cpus) in
        [("eth0", "0000:02:00.0", 0, "0-7"), ("eth1", "0000:02:00.3", 0, "0-7"), ("ib0", "0000:82:00.0", 1, "8-15")]
    {
        let place = format!("pci=\"{pci}\",node=\"{node}\",local_cpus=\"{cpus}\"");
        assert_eq!(collected.value(&format!("goodput_network_info{{device=\"{device}\",{place}}}")), 1.0);
    }
    let place = "pci=\"0000:82:00.0\",node=\"1\",local_cpus=\"8-15\"";
    let ports = collected.samples().into_keys().filter(|series| series.starts_with("goodput_rdma_port_info"));
    let ports: Vec<_> = ports.collect();
    assert!(!ports.is_empty() && ports.iter().all(|port| port.contains(place)), "{ports:?}");
    assert_eq!(collected.value("goodput_network_up{device=\"eth1\"}"), 0.0);
    assert_eq!(collected.count("goodput_network_speed_bytes"), 1, "eth1 is down, ib0 does not say");
    assert_eq!(collected.count("goodput_network_received_bytes_total"), 0, "not recorded");
    assert_eq!(collected.value("goodput_rdma_port_speed_bytes{device=\"mlx4_0\",port=\"1\"}"), 7e9);
}

#[test]
fn virtual_functions_are_part_of_their_device() {
    let machine = Machine::empty();
    for (name, physical) in [("eth0", true), ("eth0v0", false)] {
        machine.write(&format!("sys/class/net/{name}/device/vendor"), "0x15b3\n");
        machine.write(&format!("sys/class/infiniband/rdma_{name}/ports/1/state"), "4: ACTIVE\n");
        machine.write(&format!("sys/class/infiniband/rdma_{name}/device/vendor"), "0x15b3\n");
        if !physical {
            machine.write(&format!("sys/class/net/{name}/device/physfn/vendor"), "0x15b3\n");
            machine.write(&format!("sys/class/infiniband/rdma_{name}/device/physfn/vendor"), "0x15b3\n");
        }
    }
    let collected = machine.collect("network").ok();
    assert_eq!((collected.value("goodput_network_interfaces"), collected.value("goodput_rdma_ports")), (1.0, 1.0));
    assert_eq!(collected.count("goodput_rdma_port_active"), 1);
}

/// Firmware that does not tell the node of a slot says -1, and the kernel then takes every CPU for near.
#[test]
fn a_place_that_is_unknown_is_left_out() {
    let machine = Machine::empty();
    for (device, node) in
        [("net/eth0", Some("-1")), ("net/eth1", None), ("net/eth2", Some("1")), ("infiniband/mlx5_0", Some("-1"))]
    {
        let folder = format!("sys/class/{device}/device");
        machine.write(&format!("{folder}/local_cpus"), "ff,ffff0000\n");
        if let Some(node) = node {
            machine.write(&format!("{folder}/numa_node"), &format!("{node}\n"));
        }
    }
    let every_other = (0..600).step_by(2).map(|cpu| cpu.to_string()).collect::<Vec<_>>();
    machine.write("sys/class/net/eth3/device/local_cpulist", &every_other.join(","));
    machine.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    let collected = machine.collect("network").ok();
    for labels in [
        "device=\"eth0\"",
        "device=\"eth1\",local_cpus=\"16-39\"",
        "device=\"eth2\",node=\"1\",local_cpus=\"16-39\"",
        "device=\"eth3\"",
    ] {
        assert_eq!(collected.value(&format!("goodput_network_info{{{labels}}}")), 1.0);
    }
    let port = "goodput_rdma_port_info{device=\"mlx5_0\",port=\"1\",link_layer=\"InfiniBand\"}";
    assert_eq!(collected.value(port), 1.0);
}

#[test]
fn one_devices_garbage_leaves_the_other() {
    let machine = Machine::empty();
    machine.write("sys/class/infiniband/mlx5_0/ports/1/state", "ACTIVE\n");
    machine.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    let collected = machine.collect("network").ok();
    let error = collected.left();
    assert!(
        error.ends_with("mlx5_0/ports/1/state: line 1: expected a state such as 4: ACTIVE, found \"ACTIVE\""),
        "{error}"
    );
    assert_eq!(collected.value("goodput_rdma_port_active{device=\"mlx5_1\",port=\"1\"}"), 0.0);
}

#[test]
fn nothing_at_all() {
    assert!(matches!(Machine::empty().collect("network").result, Ok(Done::NotApplicable(_))));
}
