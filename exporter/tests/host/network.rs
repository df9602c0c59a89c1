use goodput_exporter::collect::Done;

use crate::support::{Collected, Machine, facts, oracle, shared};

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
        let of_port =
            |series: &String| series.contains("transport_events") && series.contains(&format!("\"{device}\""));
        let kinds = collected.samples().into_keys().filter(of_port).count();
        assert_eq!(
            kinds, 3,
            "{device}: its driver has no counts of CNPs and retries, and rare events that never came have no series"
        );
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
fn what_has_never_happened_is_nought_where_one_is_an_alarm() {
    let machine = Machine::empty();
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    machine.write("sys/class/infiniband/mlx5_0/device/vendor", "0x15b3\n");
    machine.write(&format!("{port}/state"), "4: ACTIVE\n");
    let kinds = [
        ("req_transport_retries_exceeded", 1),
        ("req_rnr_retries_exceeded", 1),
        ("local_ack_timeout_err", 1),
        ("out_of_sequence", 0),
        ("rnr_nak_retry_err", 0),
    ];
    for (kind, _) in kinds {
        machine.write(&format!("{port}/hw_counters/{kind}"), "0\n");
    }
    let samples = machine.collect("network").ok().samples();
    for (kind, expected) in kinds {
        let told = samples.keys().filter(|series| series.contains(&format!("kind=\"{kind}\""))).count();
        assert_eq!(told, expected, "{kind}");
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

/// The counters that a driver gives of an RDMA device's first port, and the driver behind it.
fn rdma(machine: &Machine, device: &str, driver: Option<&str>, counters: &[(&str, u64)]) {
    let folder = format!("sys/class/infiniband/{device}");
    machine.write(&format!("{folder}/device/vendor"), "0x1\n");
    if let Some(driver) = driver {
        let link = machine.path(&format!("{folder}/device/driver"));
        std::os::unix::fs::symlink(format!("../../../../bus/pci/drivers/{driver}"), link).unwrap();
    }
    machine.write(&format!("{folder}/ports/1/state"), "4: ACTIVE\n");
    machine.write(&format!("{folder}/ports/1/rate"), "100 Gb/sec (4X EDR)\n");
    for (name, value) in counters {
        machine.write(&format!("{folder}/ports/1/{name}"), &format!("{value}\n"));
    }
}

/// The recorded names are those of `rdma statistic`, which prints `hw_counters`.
#[test]
fn ports_of_pollara_count_in_names_of_their_own() {
    let text = std::fs::read_to_string(shared("net-rdma-pollara/rdma_statistic_j.txt")).unwrap();
    let recorded: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let machine = Machine::empty();
    for port in &recorded {
        let counters = port.as_object().unwrap().iter().filter_map(|(name, value)| Some((name, value.as_u64()?)));
        let counters = counters.filter(|(name, _)| *name != "port");
        let counters: Vec<_> = counters.map(|(name, value)| (format!("hw_counters/{name}"), value)).collect();
        let counters: Vec<_> = counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        rdma(&machine, port["ifname"].as_str().unwrap(), Some("ionic"), &counters);
    }
    let collected = machine.collect("network").ok();
    let facts = facts("net-rdma-pollara");
    let ports = facts["ports"].as_object().unwrap();
    assert_eq!((ports.len(), recorded.len()), (3, 3));
    for (device, fact) in ports {
        for (ours, theirs) in
            [("received_bytes_total", "rx_rdma_ucast_bytes"), ("sent_bytes_total", "tx_rdma_ucast_bytes")]
        {
            let series = format!("goodput_rdma_{ours}{{device=\"{device}\",port=\"1\"}}");
            assert_eq!(collected.value(&series), fact[theirs].as_f64().unwrap(), "{series}");
        }
        let of_port = |series: &&String| series.contains("transport_events") && series.contains(device);
        let samples = collected.samples();
        assert_eq!(samples.keys().filter(of_port).count(), 8, "{device}: duplicate responses are no events");
    }
    assert_eq!(collected.value("goodput_rdma_sent_bytes_total{device=\"ionic_1\",port=\"1\"}"), 3_489_656_928.0);
    let events: f64 = collected.samples().iter().filter(|(name, _)| name.contains("transport")).map(|(_, n)| n).sum();
    assert_eq!(events, 0.0, "nothing went wrong");
}

/// Hand-made: a driver's names are looked for on its own devices alone.
#[test]
fn the_driver_says_which_counters_a_port_has() {
    let machine = Machine::empty();
    let counters = [
        ("hw_counters/rx_bytes", 1_000),
        ("hw_counters/tx_bytes", 2_000),
        ("hw_counters/to_retransmits", 3),
        ("hw_counters/retrans_timeout_events", 4),
        ("hw_counters/local_ack_timeout_err", 5),
        ("hw_counters/rx_rdma_ecn_pkts", 6),
    ];
    for (device, driver) in [
        ("rocep1s0", Some("bnxt_en")),
        ("rdmap2s0", Some("efa")),
        ("rocep3s0", Some("ionic")),
        ("rocep4s0", Some("mlx5_core")),
        // A name like an EFA's, which it is not; and a driver without a table, whose name begins as none in it does.
        ("rdmap5s0", Some("mlx5_core")),
        ("rocep6s0", Some("erdma")),
        // sysfs shows no driver.
        ("bnxt_re7", None),
        ("rdmap8s0", None),
        ("efa_9", None),
        ("irdma10", None),
    ] {
        rdma(&machine, device, driver, &counters);
    }
    let collected = machine.collect("network").ok();
    let samples = collected.samples();
    for (device, kind, has_bytes, knows_link) in [
        ("rocep1s0", "to_retransmits", true, true),
        ("rdmap2s0", "retrans_timeout_events", true, false),
        ("rocep3s0", "rx_rdma_ecn_pkts", false, true),
        ("rocep4s0", "local_ack_timeout_err", false, true),
        ("rdmap5s0", "local_ack_timeout_err", false, true),
        ("rocep6s0", "local_ack_timeout_err", false, true),
        ("bnxt_re7", "to_retransmits", true, true),
        ("rdmap8s0", "retrans_timeout_events", true, false),
        ("efa_9", "retrans_timeout_events", true, false),
        ("irdma10", "local_ack_timeout_err", false, true),
    ] {
        let mut of_port: Vec<_> =
            samples.iter().filter(|(series, _)| series.contains(&format!("\"{device}\""))).collect();
        of_port.retain(|(series, _)| !series.starts_with("goodput_rdma_port_info"));
        let labels = format!("device=\"{device}\",port=\"1\"");
        let event = counters.iter().find(|(name, _)| name.ends_with(kind)).unwrap().1 as f64;
        let mut expected = vec![(format!("transport_events_total{{{labels},kind=\"{kind}\"}}"), event)];
        if has_bytes {
            expected.push((format!("received_bytes_total{{{labels}}}"), 1_000.0));
            expected.push((format!("sent_bytes_total{{{labels}}}"), 2_000.0));
        }
        if knows_link {
            expected.push((format!("port_active{{{labels}}}"), 1.0));
            expected.push((format!("port_speed_bytes{{{labels}}}"), 12.5e9));
        }
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        let found: Vec<_> = of_port.iter().map(|(series, n)| (series.replace("goodput_rdma_", ""), **n)).collect();
        assert_eq!(found, expected, "{device}");
    }
}

/// Hand-made: later releases of bnxt_re have `counters`, whose words are of 4 bytes.
#[test]
fn words_of_data_stand_above_the_drivers_bytes() {
    let machine = Machine::empty();
    let counters = [("hw_counters/rx_bytes", 999), ("hw_counters/tx_bytes", 2_000), ("counters/port_rcv_data", 250)];
    rdma(&machine, "bnxt_re0", Some("bnxt_en"), &counters);
    machine.write("sys/class/infiniband/bnxt_re0/ports/1/counters/port_xmit_data", "N/A (no PMA)\n");
    let collected = machine.collect("network").ok();
    for (direction, bytes) in [("received", 1_000.0), ("sent", 2_000.0)] {
        let series = format!("goodput_rdma_{direction}_bytes_total{{device=\"bnxt_re0\",port=\"1\"}}");
        assert_eq!(collected.value(&series), bytes, "{series}");
    }
    assert_eq!(collected.value("goodput_rdma_saturated_counters{device=\"bnxt_re0\",port=\"1\"}"), 0.0);
}

/// Hand-made: ionic's driver sets all bits of a counter that the firmware does not give.
#[test]
fn a_counter_with_all_bits_set_is_unknown() {
    let machine = Machine::empty();
    let counters = [
        ("hw_counters/rx_rdma_ucast_bytes", u64::MAX),
        ("hw_counters/tx_rdma_ucast_bytes", u64::MAX - 1),
        ("hw_counters/req_rx_pkt_seq_err", u64::MAX),
        ("hw_counters/rx_rdma_ecn_pkts", 7),
    ];
    rdma(&machine, "ionic_0", Some("ionic"), &counters);
    let collected = machine.collect("network").ok();
    assert_eq!(collected.count("goodput_rdma_received_bytes_total"), 0);
    assert_eq!(collected.count("goodput_rdma_sent_bytes_total"), 1);
    assert_eq!(collected.count("goodput_rdma_transport_events_total"), 1);
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

#[test]
fn errors_of_links_further_on_have_no_series_before_the_first() {
    let machine = Machine::empty();
    let counters = "sys/class/infiniband/mlx5_0/ports/1/counters";
    let count = |remote: &str| {
        machine.write(&format!("{counters}/symbol_error"), "0\n");
        machine.write(&format!("{counters}/port_rcv_remote_physical_errors"), remote);
        machine.collect("network").ok().count("goodput_rdma_port_errors_total")
    };
    assert_eq!((count("0\n"), count("3\n")), (1, 2));
}
