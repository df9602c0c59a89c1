//! Rows of the `network` collector.
//!
//! Physical interfaces are those with a device behind them, without virtual functions. RDMA ports count data in words of
//! 4 bytes, which are turned into bytes. Their error counters stop at a maximum: 4 bits for link integrity and buffer
//! overruns, 8 for recoveries and downs, 16 for the rest (InfiniBand Architecture Specification, PortCounters), 32 for
//! transmit wait. One that stands there has counted at least so much, and counts no more until it is cleared.

crate::metric_rows! {
    NETWORK_INTERFACES = Gauge None "goodput_network_interfaces" [] {
        "Physical network interfaces; series are made for the first 32.",
        from "/sys/class/net/*/device", by "network", series "1", since "0.1.0"
    }
    NETWORK_INFO = Info None "goodput_network_info" ["device"] + ["pci", "node", "local_cpus"] {
        "A physical network interface, its PCI device, and that device's NUMA node and nearest CPUs, which are left out where the firmware does not say.",
        from "/sys/class/net/*/device, its numa_node and local_cpulist, else local_cpus", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_UP = Gauge None "goodput_network_up" ["device"] {
        "1 when the interface can carry packets.",
        from "/sys/class/net/*/operstate", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_SPEED = Gauge Bytes "goodput_network_speed_bytes" ["device"] {
        "Line rate in bytes per second; no series while the link is down, or when the driver does not say.",
        from "/sys/class/net/*/speed, Mbit/s", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_MTU = Gauge Bytes "goodput_network_mtu_bytes" ["device"] {
        "Longest packet that the interface sends.",
        from "/sys/class/net/*/mtu", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_CARRIER_CHANGES = Counter None "goodput_network_carrier_changes_total" ["device"] {
        "Times that the link came up or went down.",
        from "/sys/class/net/*/carrier_changes", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_RECEIVED = Counter Bytes "goodput_network_received_bytes_total" ["device"] {
        "Bytes received by the interface; RDMA goes past it.",
        from "/proc/1/net/dev, else /proc/net/dev", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_SENT = Counter Bytes "goodput_network_sent_bytes_total" ["device"] {
        "Bytes sent by the interface; RDMA goes past it.",
        from "/proc/1/net/dev, else /proc/net/dev", by "network", series "1 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_DROPPED = Counter None "goodput_network_dropped_packets_total" ["device", "direction"] {
        "Good packets that were dropped, usually for lack of buffers.",
        from "/proc/1/net/dev, else /proc/net/dev", by "network", series "2 per physical interface, at most 32", since "0.1.0"
    }
    NETWORK_ERRORS = Counter None "goodput_network_errors_total" ["device", "direction"] {
        "Packets that were received damaged or could not be sent.",
        from "/proc/1/net/dev, else /proc/net/dev", by "network", series "2 per physical interface, at most 32", since "0.1.0"
    }
    TCP_SENT = Counter None "goodput_tcp_sent_segments_total" [] {
        "TCP segments sent, repeated ones not among them.",
        from "/proc/1/net/snmp Tcp OutSegs, else /proc/net/snmp", by "network", series "1", since "0.1.0"
    }
    TCP_RETRANSMITTED = Counter None "goodput_tcp_retransmitted_segments_total" [] {
        "TCP segments retransmitted.",
        from "/proc/1/net/snmp Tcp RetransSegs, else /proc/net/snmp", by "network", series "1", since "0.1.0"
    }
    TCP_TIMEOUTS = Counter None "goodput_tcp_timeouts_total" [] {
        "Times that TCP waited for an answer in vain, which takes 200 ms and more each.",
        from "/proc/1/net/netstat TcpExt TCPTimeouts, else /proc/net/netstat", by "network", series "1", since "0.1.0",
        for "to see connections that wait 200 ms and more for an answer, after an alert on lost packets"
    }
    TCP_LISTEN_DROPS = Counter None "goodput_tcp_listen_drops_total" [] {
        "Connections that were dropped before a program accepted them.",
        from "/proc/1/net/netstat TcpExt ListenDrops, else /proc/net/netstat", by "network", series "1", since "0.1.0",
        for "to see a server that accepts connections too slowly"
    }
    RDMA_PORTS = Gauge None "goodput_rdma_ports" [] {
        "RDMA ports (InfiniBand, RoCE) of physical devices; series are made for the first 16.",
        from "/sys/class/infiniband/*/ports", by "network", series "1 where there is RDMA", since "0.1.0"
    }
    RDMA_INFO = Info None "goodput_rdma_port_info" ["device", "port"] + ["link_layer", "pci", "node", "local_cpus"] {
        "An RDMA port, its link layer, its PCI device, and that device's NUMA node and nearest CPUs, which are left out where the firmware does not say.",
        from "/sys/class/infiniband/*/ports/*/link_layer, /sys/class/infiniband/*/device/{numa_node,local_cpulist}, else local_cpus", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_ACTIVE = Gauge None "goodput_rdma_port_active" ["device", "port"] {
        "1 when the port's logical state is active: its link is up and a subnet manager has set it up. No series for EFA, whose driver always says active.",
        from "/sys/class/infiniband/*/ports/*/state", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_SPEED = Gauge Bytes "goodput_rdma_port_speed_bytes" ["device", "port"] {
        "Line rate in bytes per second; no series when the driver does not say, and for EFA, whose driver says a constant.",
        from "/sys/class/infiniband/*/ports/*/rate, Gbit/s", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_RECEIVED = Counter Bytes "goodput_rdma_received_bytes_total" ["device", "port"] {
        "Bytes received by the port.",
        from "/sys/class/infiniband/*/ports/*/counters/port_rcv_data, words of 4 bytes, else hw_counters/{rx_bytes,rx_rdma_ucast_bytes} of bnxt_re, EFA, ionic", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_SENT = Counter Bytes "goodput_rdma_sent_bytes_total" ["device", "port"] {
        "Bytes sent by the port.",
        from "/sys/class/infiniband/*/ports/*/counters/port_xmit_data, words of 4 bytes, else hw_counters/{tx_bytes,tx_rdma_ucast_bytes} of bnxt_re, EFA, ionic", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_WAIT = Counter None "goodput_rdma_transmit_wait_ticks_total" ["device", "port"] {
        "Ticks, of a length that the device chooses, in which the port had data to send and no credit to send it; stops at 4294967295.",
        from "/sys/class/infiniband/*/ports/*/counters/port_xmit_wait", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_ERRORS = Counter None "goodput_rdma_port_errors_total" ["device", "port", "kind"] {
        "Errors of the link, by the kernel's name for them; each stops at 15, 255 or 65535 and stays there. `port_rcv_remote_physical_errors` has no series before its first event.",
        from "/sys/class/infiniband/*/ports/*/counters", by "network", series "7 per RDMA port, 8 with errors of remote links, at most 16 ports", since "0.1.0"
    }
    RDMA_SATURATED = Gauge None "goodput_rdma_saturated_counters" ["device", "port"] {
        "Counters of the port that stand at their maximum and count no more until they are cleared.",
        from "/sys/class/infiniband/*/ports/*/counters", by "network", series "1 per RDMA port, at most 16", since "0.1.0"
    }
    RDMA_TRANSPORT = Counter None "goodput_rdma_transport_events_total" ["device", "port", "kind"] {
        "Errors above the link layer, by the driver's name: timeouts, retransmissions, full receive queues, congestion notices, exceeded retries. Kinds that are rare have no series before their first event. `retrans_bytes` counts bytes.",
        from "/sys/class/infiniband/*/ports/*/hw_counters", by "network", series "5 per RDMA port, up to 14 with events, at most 16 ports", since "0.1.0"
    }
}
