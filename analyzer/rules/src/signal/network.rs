//! Rows of the table for networks: RDMA ports and network interfaces. Names of counters are those of the
//! drivers mlx5, bnxt_re, EFA and ionic, and of node_exporter.

use goodput_catalog::{ethtool, network};

use super::Signal;
use super::table::{Row, Split, row};

const TIMEOUTS: &str = "node_infiniband_local_ack_timeout_errors_total";
const RETRANSMITS: &str = "node_infiniband_packet_sequence_errors_total";
const LINK_CHANGES: &str = "node_infiniband_link_downed_total";
const NOTICES: &str = "node_infiniband_np_ecn_marked_roce_packets_received_total";
/// State of an active port, of the numbers 1 to 4 that the kernel gives the states.
const ACTIVE: f64 = 4.0;

const fn port(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).by(Split::Port)
}

/// Events above an RDMA port's link, by the name of the driver: the kinds are those of mlx5, bnxt_re, EFA and ionic.
const fn transport(kind: &'static str, signal: Signal) -> Row {
    port(network::RDMA_TRANSPORT.name, signal).only("kind", kind).sum_over(&["kind"])
}

/// Counters of node_exporter that are one signal: the first one gives it its place.
const fn infiniband(metric: &'static str, first: &'static str, signal: Signal) -> Row {
    port(metric, signal).summed_with(first)
}

/// Errors of an RDMA port's link that are a signal of their own, by the kernel's name for them.
const fn link_errors(kind: &'static str, signal: Signal) -> Row {
    port(network::RDMA_ERRORS.name, signal).only("kind", kind)
}

const fn interface(metric: &'static str, signal: Signal) -> Row {
    row(metric, signal).by(Split::Interface)
}

/// Time of pause as mlx5's driver counts it, in microseconds, and ethtool names it.
const fn pause(metric: &'static str) -> Row {
    interface(metric, Signal::InterfacePause).times(1e-6).by(Split::Priority)
}

/// Is it the name that Linux or systemd gives a physical interface? node_exporter also has bridges and pods' interfaces,
/// whose traffic the physical one carries once more (systemd.net-naming-scheme(7); `eni` of AWS is a pod's).
pub(super) fn is_physical(device: &str) -> bool {
    !device.contains(['.', ':', '@'])
        && ["eth", "eno", "enp", "ens", "enx", "enP", "ib", "hsn"].iter().any(|prefix| device.starts_with(prefix))
}

pub(super) static ROWS: &[Row] = &[
    port(network::RDMA_ACTIVE.name, Signal::PortActive),
    port("node_infiniband_state_id", Signal::PortActive).times(1.0 / ACTIVE),
    port(network::RDMA_SPEED.name, Signal::PortSpeed),
    port("node_infiniband_rate_bytes_per_second", Signal::PortSpeed),
    port(network::RDMA_RECEIVED.name, Signal::PortReceived),
    port("node_infiniband_port_data_received_bytes_total", Signal::PortReceived),
    port(network::RDMA_SENT.name, Signal::PortSent),
    port("node_infiniband_port_data_transmitted_bytes_total", Signal::PortSent),
    transport("local_ack_timeout_err", Signal::PortTimeouts),
    transport("roce_adp_retrans_to", Signal::PortTimeouts),
    transport("to_retransmits", Signal::PortTimeouts),
    transport("retrans_timeout_events", Signal::PortTimeouts),
    infiniband(TIMEOUTS, TIMEOUTS, Signal::PortTimeouts),
    infiniband("node_infiniband_roce_adp_retransmits_timeout_total", TIMEOUTS, Signal::PortTimeouts),
    transport("packet_seq_err", Signal::PortRetransmits),
    transport("implied_nak_seq_err", Signal::PortRetransmits),
    transport("roce_adp_retrans", Signal::PortRetransmits),
    transport("seq_err_naks_rcvd", Signal::PortRetransmits),
    transport("retrans_pkts", Signal::PortRetransmits),
    transport("req_rx_pkt_seq_err", Signal::PortRetransmits),
    transport("req_rx_impl_nak_seq_err", Signal::PortRetransmits),
    infiniband(RETRANSMITS, RETRANSMITS, Signal::PortRetransmits),
    infiniband("node_infiniband_implied_nak_seq_errors_total", RETRANSMITS, Signal::PortRetransmits),
    infiniband("node_infiniband_roce_adp_retransmits_total", RETRANSMITS, Signal::PortRetransmits),
    port(network::RDMA_ERRORS.name, Signal::PortLinkChanges).only("kind", "link_downed").sum_over(&["kind"]),
    port(network::RDMA_ERRORS.name, Signal::PortLinkChanges).only("kind", "link_error_recovery").sum_over(&["kind"]),
    infiniband(LINK_CHANGES, LINK_CHANGES, Signal::PortLinkChanges),
    infiniband("node_infiniband_link_error_recovery_total", LINK_CHANGES, Signal::PortLinkChanges),
    transport("req_rnr_retries_exceeded", Signal::PortFatal),
    transport("req_transport_retries_exceeded", Signal::PortFatal),
    transport("max_retry_exceeded", Signal::PortFatal),
    transport("unrecoverable_err", Signal::PortFatal),
    transport("unresponsive_remote_events", Signal::PortFatal),
    transport("req_tx_retry_excd_err", Signal::PortFatal),
    link_errors("symbol_error", Signal::PortSymbolErrors),
    port("node_infiniband_symbol_error_total", Signal::PortSymbolErrors),
    link_errors("port_rcv_errors", Signal::PortReceiveErrors),
    port("node_infiniband_port_errors_received_total", Signal::PortReceiveErrors),
    link_errors("port_xmit_discards", Signal::PortDiscards),
    port("node_infiniband_port_discards_transmitted_total", Signal::PortDiscards),
    link_errors("local_link_integrity_errors", Signal::PortIntegrityErrors),
    port("node_infiniband_local_link_integrity_errors_total", Signal::PortIntegrityErrors),
    link_errors("excessive_buffer_overrun_errors", Signal::PortOverruns),
    port("node_infiniband_excessive_buffer_overrun_errors_total", Signal::PortOverruns),
    interface(network::NETWORK_CARRIER_CHANGES.name, Signal::InterfaceCarrierChanges),
    interface("node_network_carrier_changes_total", Signal::InterfaceCarrierChanges),
    transport("np_ecn_marked_roce_packets", Signal::PortCongestion),
    transport("np_cnp_sent", Signal::PortCongestion),
    transport("rp_cnp_handled", Signal::PortCongestion),
    transport("roce_slow_restart", Signal::PortCongestion),
    transport("rx_ecn_marked_pkts", Signal::PortCongestion),
    transport("tx_cnp_pkts", Signal::PortCongestion),
    transport("rx_cnp_pkts", Signal::PortCongestion),
    transport("impaired_remote_conn_events", Signal::PortCongestion),
    transport("rx_rdma_ecn_pkts", Signal::PortCongestion),
    transport("tx_rdma_cnp_pkts", Signal::PortCongestion),
    transport("rx_rdma_cnp_pkts", Signal::PortCongestion),
    infiniband(NOTICES, NOTICES, Signal::PortCongestion),
    infiniband("node_infiniband_np_cnp_packets_sent_total", NOTICES, Signal::PortCongestion),
    infiniband("node_infiniband_rp_cnp_packets_handled_total", NOTICES, Signal::PortCongestion),
    infiniband("node_infiniband_roce_slow_restart_used_total", NOTICES, Signal::PortCongestion),
    port(network::RDMA_WAIT.name, Signal::PortWait),
    port("node_infiniband_port_transmit_wait_total", Signal::PortWait),
    interface(network::NETWORK_RECEIVED.name, Signal::InterfaceReceived),
    interface("node_network_receive_bytes_total", Signal::InterfaceReceived),
    interface(network::NETWORK_SENT.name, Signal::InterfaceSent),
    interface("node_network_transmit_bytes_total", Signal::InterfaceSent),
    interface(ethtool::NETWORK_PAUSE.name, Signal::InterfacePause).only("direction", "receive").by(Split::Priority),
    // As node_exporter spells the same direction: recording rules over both have it.
    interface(ethtool::NETWORK_PAUSE.name, Signal::InterfacePause).only("direction", "received").by(Split::Priority),
    pause("node_ethtool_received_prio0_pause_duration"),
    pause("node_ethtool_received_prio1_pause_duration"),
    pause("node_ethtool_received_prio2_pause_duration"),
    pause("node_ethtool_received_prio3_pause_duration"),
    pause("node_ethtool_received_prio4_pause_duration"),
    pause("node_ethtool_received_prio5_pause_duration"),
    pause("node_ethtool_received_prio6_pause_duration"),
    pause("node_ethtool_received_prio7_pause_duration"),
];
